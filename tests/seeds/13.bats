# SEEDS part 3, row 13: `flock LOWER sleep 20`; commit by the command line:
# 5 s ± 0.5, exit 75, the path in the message, still pending; works after
# release. Python and C come with issue C.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	snap_root >"$W/before"
}

teardown() { finish; }

@test "row 13: a locked lower defers the commit after five seconds" {
	# The lock's holder is one process, so that ending it releases it.
	/usr/bin/python3 -c '
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
time.sleep(20)' "$R" "$W/locked" 3>&- &
	holder=$!
	started $holder
	eventually test -e "$W/locked"
	t0=$(date +%s%N)
	run sandlock commit "$N"
	t1=$(date +%s%N)
	expect_status 75
	expect_output deferred
	expect_output "$(branch_dir)"
	ms=$(((t1 - t0) / 1000000))
	[ $ms -ge 4500 ] && [ $ms -le 5700 ] || {
		echo "it took $ms ms" >&2
		return 1
	}
	equal state "$(branch_state "$N")" pending
	snap_root >"$W/now"
	same "$W/before" "$W/now"
	kill $holder
	wait $holder || true
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}
