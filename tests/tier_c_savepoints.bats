# Stages that can be undone one by one where nothing is mounted: the uppers of
# the stages before are layers of the merged view. tests/unit/test_merged.c holds
# that against the kernel's overlay.
load lib/common
load lib/stages

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	stages_dir || return 1
	printf '[filesystem]\nmount = ["%s:%s:rw"]\n' "$X" "$X" >"$W/s.toml"
}

teardown() {
	cd "$W" || return 1
	finish
}

# stage SCRIPT: one more [[stage]].
stage() {
	printf '[[stage]]\nprogram.exec = "/bin/sh"\nprogram.args = ["-ec", %s]\n' \
		"'''$1'''" >>"$W/s.toml"
}

stages() {
	run sandlock run --isolation=notify --name "$N" --keep-stages \
		--stage "$W/s.toml" "$@"
}

# What fstat(2) tells of a descriptor of the root is the lower's.
but_root() {
	sed 1d "$1" >"$1.x"
}

# In a second stage: programs, directories and links of the first one.
make_stages() {
	stage 'echo 3 >>d/f; chmod 755 d/e; rm -r d/e; mkdir d/e; echo n >d/e/n
		mkdir m p; ln d/f k; chmod 555 p; chmod 000 m
		printf "#!/bin/sh\necho \$0 in \$(pwd)\n" >d/run; chmod 755 d/run
		cp /bin/echo d/e/echo; mkfifo d/q; mkdir -p o/o; echo o >o/o/o'
	stage "d/run; d/e/echo other; cd d/e; ../run; pwd; cd ../..
		mv d e; echo 4 >>e/f; rm k e/e/n; mv o/o o2
		rmdir o; chmod u+x e/e/echo; ls e; stat -c %a p
		$X/snap -x m . >$X/seen
		[ ! -e $X/fail ]"
}

@test "tier C, savepoints: stages are published as the last one saw them" {
	make_stages
	stages
	expect_status 0
	expect_output $'d/run in '"$PWD"$'\nother\n../run in '"$PWD/d/e"$'\n'"$PWD/d/e"
	expect_output $'e\nf\nq\nrun\n555'
	snap -x m . >"$W/now"
	but_root "$W/now"
	but_root "$X/seen"
	same "$X/seen.x" "$W/now.x"
	equal f "$(tr '\n' ' ' <e/f)" "1 3 4 "
	equal names "$(ls | tr '\n' ' ')" "e h m o2 p "
	equal branches "$(ls -A "$W/store/branches")" ""
	equal mode "$(stat -c %a m)" 0
	chmod 700 m p
}

@test "tier C, savepoints: one that fails is undone alone, or run again" {
	make_stages
	touch "$X/fail"
	stages --stage-retries 1
	expect_status 1
	expect_output "stage 2 failed, and is undone"
	snap . >"$W/now"
	same "$W/old" "$W/now"
	run sandlock diff --name-status "$N"
	expect_output $'M\td/f'
	refute_output "o2"
	sandlock commit "$N"
	equal f "$(tr '\n' ' ' <d/f)" "1 3 "
	equal modes "$(stat -c %a m p | tr '\n' ' ')" "0 555 "
	[ -x d/e/echo ] && [ -e o/o/o ] && [ ! -e e ]
	chmod 700 m p
}

@test "tier C, savepoints: killed in the middle, all is kept, and told as one" {
	stage 'echo 3 >>d/f; echo n >n; mkdir m; mkdir x; chmod 000 x'
	stage "echo 4 >>d/f; rm n; mv m m2; : >$X/there; exec sleep 1000"
	"${RT[@]}" run --isolation=notify --name "$N" --keep-stages \
		--stage "$W/s.toml" 2>"$W/err" 3>&- &
	running=$!
	eventually test -e "$X/there"
	# The same before they become one and after it.
	if [ "$(id -u)" = 0 ]; then
		equal diff "$(sandlock diff --name-status "$N")" \
			$'M\td/f\nA\tm2/\nA\tx/'
	fi
	kill -KILL $running
	wait $running || true
	eventually has_branch_state "$N" pending
	snap . >"$W/now"
	same "$W/old" "$W/now"
	equal diff "$(sandlock diff --name-status "$N")" \
		$'M\td/f\nA\tm2/\nA\tx/'
	sandlock commit "$N"
	equal f "$(tr '\n' ' ' <d/f)" "1 3 4 "
	equal mode "$(stat -c %a x)" 0
	chmod 700 x
}

@test "tier C, savepoints: what the host removes is a conflict, whatever stage wrote to it last" {
	mkdir two
	echo 1 | tee own >two/own
	stage 'echo 2 | tee -a own >>two/own'
	stage 'echo 3 | tee -a own >>two/own'
	stage "echo 4 | tee -a own >>two/own; : >$X/there; read -r go <$X/go"
	mkfifo "$X/go"
	"${RT[@]}" run --isolation=notify --name "$N" --keep-stages \
		--stage "$W/s.toml" >"$W/err" 2>&1 3>&- &
	running=$!
	eventually test -e "$X/there"
	rm -r own two
	timeout 60 sh -c ': >"$1"' - "$X/go"
	wait $running || true
	run sandlock diff "$N"
	expect_output 'own (removed on the host)'
	expect_output 'two/ (removed on the host)'
	[ ! -e own ] && [ ! -e two ]
	sandlock abort "$N"
}

@test "tier C, savepoints: what the host puts beside a change is no conflict" {
	stage 'echo a >d/a'
	stage "echo 4 >>d/f; touch $X/ready
		until [ -e $X/go ]; do sleep 0.02; done"
	"${RT[@]}" run --isolation=notify --name "$N" --keep-stages \
		--stage "$W/s.toml" 3>&- &
	running=$!
	eventually test -e "$X/ready"
	touch d/x "$X/go"
	wait $running
	equal d "$(ls d | tr '\n' ' ')" "a e f x "
	equal f "$(tr '\n' ' ' <d/f)" "1 4 "
}
