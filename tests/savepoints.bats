# Stages that can be undone one by one: run --stage with --keep-stages and
# --stage-retries, and several stages in one file.
load lib/common

setup() {
	begin
	only_sandlock
	D=$W/dir
	X=$W/outside
	mkdir -p "$D/d/e" "$X"
	cp "$SNAP" "$X/snap"
	echo old >"$D/f"
	echo gone >"$D/g"
	echo deep >"$D/d/e/h"
	find "$D" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
	snap "$D" >"$W/old"
	cd "$D" || return 1
	printf '[filesystem]\nmount = ["%s:%s:rw"]\n' "$X" "$X" >"$W/s.toml"
}

teardown() {
	cd / || return 1
	finish
}

# stage SCRIPT: one more [[stage]].
stage() {
	printf '[[stage]]\nprogram.exec = "/bin/sh"\nprogram.args = ["-c", %s]\n' \
		"'''$1'''" >>"$W/s.toml"
}

stages() {
	run sandlock run --name "$N" --stage "$W/s.toml" "$@"
}

unchanged() {
	snap "$D" >"$W/now"
	same "$W/old" "$W/now"
}

no_branch() {
	equal branches "$(ls -A "$W/store/branches")" ""
}

# Writes to, replaces and removes what a stage before it made, and the lower's.
make_stages() {
	stage 'echo 1 >>f; rm -r d; mkdir d; echo n >d/n; mkdir m; ln f k
		touch -d @1000000000 m'
	stage 'echo 2 >>f; rm d/n; echo o >d/o; rm -r m; echo file >m
		mkdir p; echo x >p/x'
	stage "mv p q; rm m; mkdir m; echo y >m/y; rm k; chmod 700 d
		$X/snap . >$X/seen; $1"
}

@test "savepoints: what is committed is what the last stage saw" {
	make_stages true
	stages --keep-stages
	expect_exactly ""
	expect_status 0
	snap . >"$W/now"
	same "$X/seen" "$W/now"
	no_branch
}

@test "savepoints: a stage that fails is undone and run again" {
	make_stages true
	stage "rm -r d f; echo half >half; [ -e $X/tried ] || {
		: >$X/tried; exit 3; }"
	stages --stage-retries 1
	expect_status 0
	expect_exactly "sandlock: stage 4 failed, and is run again"
	[ ! -e d ]
	equal half "$(cat half)" half
	equal names "$(ls | tr '\n' ' ')" "g half m q "
	no_branch
}

@test "savepoints: a stage that fails too often discards all" {
	stage 'echo 1 >>f'
	stage "cat f; echo 2 >>f; echo x >>$X/tries; exit 4"
	stages --stage-retries 2
	expect_status 4
	expect_output "stage 2 failed: nothing of '$N' is published"
	equal tries "$(wc -l <"$X/tries")" 3
	# It never saw what it had written itself.
	[[ $output != *2* ]] || equal twos "$(grep -c '^2$' <<<"$output")" 0
	unchanged
	no_branch
}

@test "savepoints: kept is what was written before the stage that failed" {
	stage "echo 1 >>f; rm g; mkdir new; $X/snap . >$X/seen"
	stage 'echo 2 >>f; rm -r d; mkdir g; echo x >new/x; exit 5'
	stages --keep-stages
	expect_status 5
	expect_output "stage 2 failed, and is undone: what was written before waits as '$N'"
	unchanged
	run sandlock diff "$N"
	expect_exactly "D g"$'\n'"M f (+2 bytes)"$'\n'"A new/"
	sandlock commit "$N"
	snap . >"$W/now"
	same "$X/seen" "$W/now"
	no_branch
}

@test "savepoints: kept too when a stage cannot be run, and when it takes too long" {
	stage 'echo 1 >>f'
	printf '[[stage]]\nprogram.exec = "nosuchprogram"\n' >>"$W/s.toml"
	stages --keep-stages
	expect_status 70
	expect_output "stage 2 could not be run, and is undone"
	equal f "$(sandlock diff --name-status "$N")" "M	f"
	sandlock abort "$N"
	sed -i '$d' "$W/s.toml"
	printf 'program.exec = "/bin/sleep"\nprogram.args = ["1000"]\n%s\n' \
		'limits.timeout = "500ms"' >>"$W/s.toml"
	stages --keep-stages
	expect_status 124
	expect_output "stage 2 took too long, and is undone"
	equal f "$(sandlock diff --name-status "$N")" "M	f"
	sandlock abort "$N"
	unchanged
}

@test "savepoints: if the first stage fails nothing is kept" {
	stage 'rm -r d; echo x >f; exit 6'
	stage true
	stages --keep-stages --stage-retries 1
	expect_status 6
	expect_output "stage 1 failed: nothing of '$N' is published"
	unchanged
	no_branch
}

@test "savepoints: over several directories" {
	mkdir "$W/other"
	echo a >"$W/other/a"
	stage "echo 1 >>f; echo 1 >>$W/other/a; echo b >$W/other/b"
	stage "echo 2 >>f; rm $W/other/b; exit 7"
	stages --keep-stages --workdir "$D" --workdir "$W/other"
	expect_status 7
	sandlock commit "$N"
	equal f "$(tr '\n' ' ' <f)" "old 1 "
	equal a "$(tr '\n' ' ' <"$W/other/a")" "a 1 "
	equal b "$(cat "$W/other/b")" b
	no_branch
}

@test "savepoints: killed in the middle, all is kept, and told as one" {
	stage 'echo 1 >>f; echo n >n'
	stage "echo 2 >>f; rm n; : >$X/there; exec sleep 1000"
	"${RT[@]}" run --name "$N" --keep-stages --stage "$W/s.toml" \
		2>"$W/err" 3>&- &
	running=$!
	started $running
	eventually test -e "$X/there"
	# The same before they become one and after it.
	equal diff "$(sandlock diff --name-status "$N")" "M	f"
	sandlock diff --patch "$N" >"$W/patch"
	grep -qx '+2' "$W/patch"
	sandlock diff --format json "$N" >"$W/live"
	kill -KILL $running
	wait $running || true
	eventually has_branch_state "$N" pending
	unchanged
	sandlock diff --format json "$N" >"$W/settled"
	same "$W/live" "$W/settled"
	sandlock commit "$N"
	equal f "$(tr '\n' ' ' <f)" "old 1 2 "
	no_branch
}

@test "savepoints: the options are for stages" {
	run sandlock run --keep-stages -- true
	expect_status 125
	expect_output "are for stages"
	stage true
	stages --stage-retries=-1
	expect_status 78
}

@test "stages in one file: what stands outside of them holds for all" {
	printf '[program]\nenv = { WORD = "common" }\n' >>"$W/s.toml"
	stage 'echo "$WORD $OWN"'
	stage 'echo "$WORD $OWN"'
	printf 'program.env = { OWN = "mine" }\n' >>"$W/s.toml"
	stages
	expect_status 0
	expect_exactly "common "$'\n'"common mine"
	# A profile is one stage more.
	printf '[program]\nexec = "/bin/echo"\nargs = ["last"]\n' >"$W/1.toml"
	stages --stage "$W/1.toml"
	expect_exactly "common "$'\n'"common mine"$'\n'"last"
}

@test "stages in one file: errors name line and column, and nothing has run" {
	stage 'echo begun'
	stage 'echo begun'
	printf 'limits.memroy = "1G"\n' >>"$W/s.toml"
	stages
	expect_status 78
	expect_output "$W/s.toml:9:8: there is no key 'limits.memroy'"
	expect_output "did you mean 'limits.memory'?"
	sed -i '$d' "$W/s.toml"
	printf 'filesystem.on_exit = "defer"\n' >>"$W/s.toml"
	stages
	expect_status 78
	expect_output "stage 2: what becomes of the branch"
	printf 'stage = 5\n' >"$W/s.toml"
	stages
	expect_status 78
	expect_output "$W/s.toml:1:1: 'stage' stands in no section"
	printf 'stage = [{program = {exec = "true"}}, 7]\n' >"$W/s.toml"
	stages
	expect_status 78
	expect_output "$W/s.toml:1:39: stage: an integer is no stage"
	: >"$W/s.toml"
	stage 'echo begun'
	run sandlock run --profile-file "$W/s.toml" -- true
	expect_status 125
	expect_output "stages stand where a profile is wanted"
	unchanged
}
