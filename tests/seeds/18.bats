# Row 18: exec from a process with busy threads.
load ../lib/common
load ../lib/asking

setup() { begin_with_execs; }

teardown() { finish; }

@test "18: it never hangs, and a failing one lets the threads go on" {
	COMMAND_TIMEOUT=500 run sandlock run --name "$N" --ask=socket \
		--ask-exec /nothing -- sh -c '
		timeout 400 python3 execs.py threads /bin/true 100 || exit 1
		for i in 1 2 3; do
			timeout 60 python3 execs.py threads /nonexistent
			[ $? -eq 3 ] || exit 2
		done; echo all'
	expect_status 0
	expect_output all
}
