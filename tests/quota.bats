# --quota: what a branch may take on disk. Beyond that all of the sandbox is
# killed, and its branch goes by --on-error.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/dir"
	cd "$W/dir" || return 1
	WITH=()
}

teardown() {
	cd "$W" || return 1
	finish
}

# within SIZE SCRIPT: on success it is committed, else discarded.
within() {
	run sandlock run "${WITH[@]}" --name "$N" --quota "$1" \
		--on-exit=commit --on-error=abort --status-fd=7 -- \
		/bin/sh -c "fill() { dd if=/dev/zero bs=64k count=\$((16 * \$1)) 2>&-; }
$2" 7>"$W/end"
}

expect_killed() {
	expect_status 137
	expect_output "the branch of '$N' took "
	expect_output 'all of it was killed; raise --quota'
	equal end "$(jq -c 'del(.denials)' "$W/end")" \
		'{"over_quota":true,"signal":9,"branch":""}'
	has_no_branch "$N"
	is_empty .
}

# In each case both ways to keep it in.
each_way() {
	local how

	for how in $(tiers); do
		WITH=(--isolation="$how")
		"$@" || return 1
	done
}

too_much() {
	within 4M 'fill 8 >f; sleep 100'
	expect_killed
	within 4M 'fill 3 >f; fill 3 >g; sleep 100'
	expect_killed
	# Also where nobody has looked in time.
	within 1M 'fill 3 >f'
	expect_killed
}

@test "quota: what is written beyond it ends all of the sandbox, and is discarded" {
	each_way too_much
}

just_fits() {
	within 8M 'fill 5 >a; rm a; fill 5 >a; fill 5 >a; rm a
		fill 4 >b; ln b c; ln b d; truncate -s 1G hole
		ln -s .. up; mkdir l; ln -s . l/1; ln -s . l/2; sleep 0.3'
	expect_status 0
	equal size "$(stat -c %s b)" $((4 << 20))
	rm -r ./*
}

@test "quota: deleted and written again, links and holes are no more than they take" {
	each_way just_fits
}

held_open() {
	within 4M 'exec 3>f; rm f; fill 8 >&3; sleep 100'
	expect_killed
	within 4M 'exec 3>f; for i in 1 2 3 4 5 6 7 8; do fill 1 >&3; sleep 0.05
		done; sleep 100'
	expect_killed
}

@test "quota: what is written to a file that stays open counts, deleted or not" {
	each_way held_open
}

@test "quota: what was deleted outside of the branch does not count" {
	skip_unless_tier_c
	mkdir "$W/out"
	head -c 8M /dev/zero >"$W/out/log"
	run sandlock run --isolation=notify -w "$W/out" --name "$N" \
		--quota 4M -- sh -c "exec 4<'$W/out/log' 3>'$W/out/f'
			rm '$W/out/f' '$W/out/log'
			head -c 8M /dev/zero >&3; sleep 0.3"
	expect_status 0
}

@test "quota: a file that is copied up counts, and what another sandbox wrote does not" {
	head -c 6M /dev/zero >old
	sandlock run --name "$N-other" --on-exit=keep -- \
		sh -c 'head -c 6M /dev/zero >new'
	within 4M 'rm old; : >new; sleep 0.2'
	expect_status 0
	[ ! -e old ]
	head -c 6M /dev/zero >old
	run sandlock run --name "$N" --quota 4M --on-error=abort -- \
		sh -c ': >>old; sleep 100'
	expect_status 137
	equal size "$(stat -c %s old)" $((6 << 20))
	sandlock abort "$N-other"
}

@test "quota: directories that keep their owner out, or lie deep, hide nothing" {
	within 4M 'mkdir d; fill 3 >d/f; chmod 0 d; fill 3 >g; sleep 100'
	expect_killed
	within 4M 'i=0; while [ $i -lt 60 ]; do
			mkdir d; cd d || exit; i=$((i + 1)); done
		fill 8 >f; sleep 100'
	expect_killed
}

few_descriptors() {
	within 1M 'd=a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a; mkdir -p $d
		fill 3 >$d/f'
	expect_killed
}

@test "quota: that few descriptors are left hides nothing" {
	local before
	before=$(ulimit -Sn)
	ulimit -Sn 48
	each_way few_descriptors
	ulimit -Sn "$before"
}

@test "quota: TMPDIR counts where it is a directory of the host" {
	skip_unless_tier_c
	WITH=(--isolation=notify)
	within 4M 'fill 8 >"$TMPDIR/f"; sleep 100'
	expect_killed
}

@test "quota: several directories have it together" {
	mkdir a b
	run sandlock run --name "$N" --workdir a --workdir b --quota 4M \
		--on-error=abort -- \
		sh -c "head -c 3M /dev/zero >'$W/dir/a/f'
			head -c 3M /dev/zero >'$W/dir/b/f'; sleep 100"
	expect_status 137
	is_empty a
	is_empty b
}

@test "quota: the branch waits by default, with the reason" {
	run sandlock run --name "$N" --quota 1M -- \
		sh -c 'head -c 2M /dev/zero >f; sleep 100'
	expect_status 137
	expect_output "waits as '$N'"
	equal exit "$(field '.exit | tojson')" '{"over_quota":true}'
	run sandlock why "$N"
	expect_output 'limits.disk 1048576'
	expect_output 'sandlock run --quota 2097152'
	run sandlock diff --name-status "$N"
	expect_exactly 'A	f'
	sandlock abort "$N"
}

@test "quota: stages of a transaction have it together" {
	local stage='[[stage]]
program.exec = "/bin/sh"
program.args = ["-c", "head -c 3M /dev/zero >f$(date +%N); sleep 0.1"]
limits.disk = '

	printf '%s"%s"\n' "$stage" 4M "$stage" 4M >"$W/s.toml"
	run sandlock run --name "$N" --stage "$W/s.toml"
	expect_status 137
	expect_output 'stage 2 went over its quota'
	is_empty .
	printf '%s"%s"\n' "$stage" 8M "$stage" 2M >"$W/s.toml"
	run sandlock run --name "$N" --stage "$W/s.toml"
	expect_output "'$N' holds more already than its quota of 2097152 bytes"
	is_empty .
	printf '%s"%s"\n' "$stage" 8M "$stage" 8M >"$W/s.toml"
	sandlock run --name "$N" --stage "$W/s.toml"
	equal files "$(ls | wc -l)" 2
}

@test "quota: it is shown, in profiles, and called --max-disk elsewhere" {
	printf '[limits]\ndisk = "64M"\n' >"$W/p.toml"
	run sandlock run --name "$N" --profile-file "$W/p.toml" -- \
		sh -c 'sleep 100' 3>&- &
	started $!
	eventually has_status "$N" running
	equal config "$(sandlock inspect "$N" | jq .limits.disk)" 67108864
	sandlock inspect --toml "$N" | grep -qx 'disk = 67108864'
	sandlock kill "$N"
	wait || true
	run sandlock run --name "$N" --profile-file "$W/p.toml" --max-disk=1M \
		--on-error=abort -- sh -c 'head -c 2M /dev/zero >f; sleep 100'
	expect_status 137
}

@test "quota: bad values, and what has no branch" {
	local bad

	for bad in 0 -1 M 1MB 1.5M 99999999999999999999 18014398509481984K; do
		run sandlock run --quota="$bad" -- true
		expect_status 125
		expect_output "--quota: '$bad' is not a number of bytes"
		run sandlock run --max-disk "$bad" -- true
		expect_output "--max-disk: '$bad' is not a number of bytes"
	done
	run sandlock run --quota= -- true
	expect_status 125
	run sandlock run --quota 1M --branch=none -- true
	expect_status 125
	expect_output 'there is no branch'
	printf '[limits]\ndisk = "64M"\n[config]\nbranch = false\n' >"$W/p.toml"
	run sandlock run --profile-file "$W/p.toml" -- true
	expect_status 125
	expect_output "p.toml:2:8: there is no branch that it is of"
	run sandlock run --max-disk=1M --profile-file "$W/p.toml" -- true
	expect_output '--max-disk: there is no branch that it is of'
	run sandlock run --max-disk -- true
	expect_output "option '--max-disk' needs a value"
	run sandlock run --stage "$W/p.toml" --max-disk 1M -m x
	expect_output "-m: 'x' is not a number of bytes"
}
