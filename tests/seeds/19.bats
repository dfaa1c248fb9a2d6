# Row 19: two programs, answered in reverse order.
load ../lib/common
load ../lib/asking

setup() { begin_with_execs; }

teardown() { finish; }

@test "19: both answers are right, and forks go on meanwhile" {
	serve --ask-exec env -- sh -c '/usr/bin/env echo first &
		/usr/bin/env echo second &
		for i in 1 2 3 4 5 6 7 8 9 10; do (true); done; echo forked
		wait'
	wait_for second
	SECOND=$ID
	wait_for first
	eventually grep -q forked "$W/out"
	sandlock approve "$N" "$SECOND"
	eventually grep -q second "$W/out"
	run grep first "$W/out"
	expect_status 1
	sandlock approve "$N" "$ID"
	served
	grep -q first "$W/out"
}
