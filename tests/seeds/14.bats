# SEEDS part 3, row 14: on_exit=defer, on_error=abort with exit 0, exit 3 and
# SIGSEGV, timeout: pending only for the first; changes filled for all, as the
# report of the API shows, and `diff` before the end.
load ../lib/common
load ../lib/embed

setup() {
	begin_embed
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

# api WHAT STATUS OUTCOME [OPTION]...: the command changes f and ends so.
api() {
	local what=$1 status_line=$2

	shift 2
	run embed filesystem.on_exit=defer filesystem.on_error=abort "$@" \
		run changes pending -- sh -c "echo new >f; $what"
	expect_output "run: $status_line"
	expect_output "change: M f"
}

@test "row 14: through the API exit 0 is pending" {
	api 'exit 0' "exit 0 pending"
	expect_output "pending: 1"
	sandlock abort "$N"
}

@test "row 14: through the API everything else is aborted, with its changes" {
	api 'exit 3' "exit 3 aborted"
	expect_output "pending: 0"
	api 'kill -SEGV $$' "signal 11 aborted"
	api 'exec sleep 1000' "timeout 9 aborted" timeout=3000
	api 'exec sleep 1000' "timeout 9 aborted" limits.timeout=3s
	unchanged
	equal store "$(ls -A "$W/store/branches")" ""
}
