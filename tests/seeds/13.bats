# SEEDS part 3, row 13: `flock LOWER sleep 20`; commit by the command line and
# by C: 5 s ± 0.5, exit 75 or an error with the path, still pending; works after
# release. Python's is in its own suite.
load ../lib/common
load ../lib/embed
load ../lib/python

setup() { begin_embed; }

teardown() { finish; }

# lock DIR: by one process, so that ending it releases it.
lock() {
	/usr/bin/python3 -c '
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
time.sleep(1000)' "$1" "$W/locked" 3>&- &
	holder=$!
	started $holder
	eventually test -e "$W/locked"
}

@test "row 13: a locked lower defers the commit after five seconds" {
	make_bundle
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	snap_root >"$W/before"
	lock "$R"
	t0=$(date +%s%N)
	run sandlock commit "$N"
	t1=$(date +%s%N)
	expect_status 75
	expect_output deferred
	expect_output "$(branch_dir)"
	ms=$(((t1 - t0) / 1000000))
	[ $ms -ge 4500 ] || {
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

@test "row 13: so it does through the API, which stays pending" {
	embed_detached filesystem.on_exit=defer run read-line commit pending \
		read-line commit -- sh -c 'echo new >f' < <(
		eventually test -e "$W/go1" && echo
		eventually test -e "$W/go2" && echo
	)
	eventually says "run: exit 0 pending"
	lock "$D"
	t0=$(date +%s%N)
	touch "$W/go1"
	eventually says "pending: 1"
	t1=$(date +%s%N)
	says "commit: LOCKED:"
	says "$(branch_dir)"
	ms=$(((t1 - t0) / 1000000))
	[ $ms -ge 4500 ] || {
		echo "it took $ms ms" >&2
		return 1
	}
	unchanged
	kill $holder
	wait $holder || true
	touch "$W/go2"
	eventually says "commit: ok"
	wait "$EMBEDDER"
	equal f "$(cat "$D/f")" new
}

@test "row 13: commit from Python" {
	python_suite branch.Row13
}
