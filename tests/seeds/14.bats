# SEEDS part 3, row 14: on_exit=defer, on_error=abort with exit 0, exit 3 and
# SIGSEGV: pending only for the first. The timeout and `changes` of results come
# with host commands and the APIs; `diff` before the end shows here that the
# failing runs had changes.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
}

teardown() { finish; }

ends() {
	script "echo x >/data/new; $1"
	run sandlock run --on-exit=defer --on-error=abort -b "$B" "$N"
}

@test "row 14: exit 0 is pending" {
	ends 'exit 0'
	expect_status 0
	equal state "$(branch_state "$N")" pending
	run sandlock diff "$N"
	expect_exactly "A data/new"
}

@test "row 14: exit 3 is aborted" {
	ends 'exit 3'
	expect_status 3
	equal state "$(branch_state "$N")" ""
	[ ! -e "$R/data/new" ]
	equal store "$(ls -A "$W/store/branches")" ""
}

@test "row 14: SIGSEGV is aborted" {
	ends 'exec probe segv'
	expect_status 139
	equal state "$(branch_state "$N")" ""
	[ ! -e "$R/data/new" ]
}

@test "row 14: created, started and killed is aborted" {
	script 'echo x >/data/new; sleep 1000'
	create "$N" --on-exit=defer --on-error=abort
	sandlock start "$N"
	eventually sandlock exec "$N" cat /data/new
	run sandlock diff "$N"
	expect_exactly "A data/new"
	sandlock kill "$N"
	eventually has_no_branch "$N"
	[ ! -e "$R/data/new" ]
}
