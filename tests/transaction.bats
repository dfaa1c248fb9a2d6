# `run --stage FILE...`: several commands over one branch, all or nothing.
load lib/common

setup() {
	begin
	only_sandlock
	D=$W/dir
	mkdir "$D"
	echo old >"$D/f"
	echo gone >"$D/g"
	find "$D" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
	snap "$D" >"$W/old"
	cd "$D" || return 1
}

teardown() {
	cd / || return 1
	finish
}

# stage NUMBER SCRIPT [LINE]...: the lines go into sections of their own.
stage() {
	local file=$W/$1.toml

	printf '[program]\nexec = "/bin/sh"\nargs = ["-c", "%s"]\n' "$2" >"$file"
	shift 2
	[ $# -eq 0 ] || printf '%s\n' "$@" >>"$file"
}

stages() {
	run sandlock run --name "$N" --stage "$W/1.toml" --stage "$W/2.toml" "$@"
}

unchanged() {
	snap "$D" >"$W/now"
	same "$W/old" "$W/now"
}

no_branch() {
	equal branches "$(ls -A "$W/store/branches")" ""
}

@test "transaction: every stage sees what the ones before it wrote" {
	stage 1 'echo one >>f; rm g; mkdir d; chmod 700 .'
	stage 2 'cat f; ls; echo two >>f; touch d/x; mkdir e'
	stages
	expect_status 0
	expect_exactly "old"$'\n'"one"$'\n'"d"$'\n'"f"
	equal f "$(tr '\n' ' ' <f)" "old one two "
	equal names "$(ls | tr '\n' ' ')" "d e f "
	[ -e d/x ]
	equal mode "$(stat -c %a .)" 700
	no_branch
}

@test "transaction: one stage that fails discards all, with its status" {
	stage 1 'echo one >>f; rm g'
	stage 2 'cat f; touch new; exit 42'
	stages
	expect_status 42
	expect_output "stage 2 failed: nothing of '$N' is published"
	unchanged
	no_branch
	stage 2 'kill -TERM $$'
	stages
	expect_status 143
	unchanged
	# The second one is not begun then.
	stage 1 'exit 3'
	stage 2 'echo begun'
	stages
	expect_status 3
	[[ $output != *begun* ]]
	unchanged
	no_branch
}

@test "transaction: a stage that takes too long is 124" {
	stage 1 'touch new'
	stage 2 'sleep 1000' '[limits]' 'timeout = "500ms"'
	stages
	expect_status 124
	expect_output "stage 2 took too long"
	unchanged
	no_branch
}

@test "transaction: a stage that cannot be run is 70, and all is discarded" {
	stage 1 'touch new'
	printf '[program]\nexec = "nosuchprogram"\n' >"$W/2.toml"
	stages
	expect_status 70
	expect_output "nosuchprogram"
	unchanged
	no_branch
}

@test "transaction: nothing changed leaves nothing" {
	stage 1 true
	stage 2 true
	stages
	expect_exactly ""
	expect_status 0
	unchanged
	no_branch
}

@test "transaction: a directory that is locked is 75, and the branch waits" {
	stage 1 'echo one >>f'
	stage 2 'echo two >>f'
	/usr/bin/python3 -c '
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
time.sleep(600)' "$D" "$W/locked" 3>&- &
	holder=$!
	started $holder
	eventually test -e "$W/locked"
	stages
	expect_status 75
	expect_output "nothing is published"
	equal f "$(cat f)" old
	equal state "$(branch_state "$N")" pending
	kill $holder
	wait $holder || true
	run sandlock commit "$N"
	expect_status 0
	equal f "$(tr '\n' ' ' <f)" "old one two "
}

@test "transaction: a commit that fails in the file system is 74, the branch waits" {
	[ "$(id -u)" = 0 ] || skip "mounts a file system"
	mkdir "$W/small"
	mount -t tmpfs -o size=64k none "$W/small"
	cd "$W/small"
	stage 1 'echo one >f'
	stage 2 'head -c 1000000 /dev/zero >big'
	stages
	expect_status 74
	expect_output "nothing is published, all of it waits as '$N'"
	equal names "$(ls -A)" ""
	equal state "$(branch_state "$N")" pending
	mount -o remount,size=4m "$W/small"
	run sandlock commit "$N"
	expect_status 0
	equal big "$(stat -c %s big)" 1000000
	cd "$D"
	umount "$W/small"
}

@test "transaction: what the host changed meanwhile is 75, nothing published" {
	mkfifo "$W/fifo"
	stage 1 'echo one >f; touch new'
	stage 2 "read x <$W/fifo" '[filesystem]' "mount = [\"$W/fifo:$W/fifo:rw\"]"
	sandlock run --name "$N" --stage "$W/1.toml" --stage "$W/2.toml" \
		2>"$W/err" 3>&- &
	running=$!
	started $running
	is_new() { test -e "$(branch_dir)/upper/new"; }
	eventually is_new
	echo theirs >f
	timeout 30 sh -c 'echo go >"$1"' sh "$W/fifo"
	status=0
	wait $running || status=$?
	equal status "$status" 75
	grep -q "nothing is published" "$W/err"
	equal f "$(cat f)" theirs
	[ ! -e new ]
	equal state "$(branch_state "$N")" pending
	sandlock abort "$N"
}

@test "transaction: killed in the middle, nothing is published, all is kept" {
	stage 1 'echo one >>f'
	stage 2 'echo two >>f; touch there; exec sleep 1000'
	"${RT[@]}" run --name "$N" --stage "$W/1.toml" --stage "$W/2.toml" \
		2>"$W/err" 3>&- &
	running=$!
	started $running
	is_there() { test -e "$(branch_dir)/upper/there"; }
	eventually is_there
	kill -KILL $running
	wait $running || true
	eventually has_branch_state "$N" pending
	unchanged
	run sandlock diff "$N"
	expect_output "M f"
	sandlock abort "$N"
	unchanged
}

@test "transaction: what does not fit together is refused before any stage" {
	mkdir "$W/other"
	stage 1 'echo begun'
	stage 2 'echo begun' '[config]' "workdir = [\"$W/other\"]"
	stages
	expect_status 78
	expect_output "stage 2: all stages work in the same directories"
	[[ $output != *begun* ]]
	stage 2 'echo begun' '[config]' 'branch = false'
	stages
	expect_status 78
	stage 2 'echo begun'
	for option in --dry-run --on-exit=defer --on-error=keep; do
		stages $option
		expect_status 78
		[[ $output != *begun* ]]
	done
	stages -- echo begun
	expect_status 78
	run sandlock run --stage "$W/nosuch.toml"
	expect_status 78
	unchanged
	no_branch
}
