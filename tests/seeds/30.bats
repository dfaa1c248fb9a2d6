# SEEDS part 3, row 30: -P 5 with denied forks, forks killed while parked,
# double forks and 10,000 short ones: the limit is exact, no slot is lost.
# By the supervisor, where neither the pids controller nor RLIMIT_NPROC (which
# spares root) holds, and by the controller. Forks that are parked by another
# handler: tests/unit/test_processes.c.
load ../lib/common

setup() {
	begin
	only_sandlock
	skip_unless_root
	mkdir "$W/dir"
	cp "$TESTS/helpers/forks.py" "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd / || return 1
	finish
}

after_all() {
	expect_status 0
	expect_exactly "at the start
denied forks
short ones
double forks
killed in fork$1"
}

@test "row 30: by the supervisor" {
	COMMAND_TIMEOUT=300 run without_cgroups sandlock run -P 5 \
		--on-exit=abort --on-error=abort -- /usr/bin/python3 forks.py 5 10000 zombies
	after_all "
never waited for"
}

@test "row 30: by the controller" {
	COMMAND_TIMEOUT=300 run sandlock run -P 5 \
		--on-exit=abort --on-error=abort -- /usr/bin/python3 forks.py 5 1000
	after_all
}
