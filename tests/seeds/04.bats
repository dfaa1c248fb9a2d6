# Row 04: a program that is rewritten while it is asked about.
load ../lib/common
load ../lib/asking

setup() { begin_with_execs; }

teardown() { finish; }

# MODE: what comes of /bin/true, once it was allowed.
exec_as() {
	serve --ask-exec true -- \
		python3 execs.py "$1" /bin/true
	wait_for "run '"
	[ "$1" = shared ] || eventually grep -q done "$W/out"
	sandlock approve "$N" "$ID"
	served
}

@test "04: rewritten by a thread it is EPERM, unchanged it runs" {
	run exec_as rewrite
	expect_status 3
	grep -q 'Operation not permitted' "$W/out"
	run exec_as equal
	expect_status 0
}

@test "04: in memory that others share it is EPERM, although equal" {
	run exec_as shared
	expect_status 3
	grep -q 'Operation not permitted' "$W/out"
}
