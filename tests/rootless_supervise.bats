# The supervisor of an ordinary user's command.
load lib/common
load lib/running

setup() {
	begin
	WITH=
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "supervisor: an ordinary user's is told of what exec starts, too" {
	begin_run -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	run ask calls
	expect_exactly '{}'
	run sandlock exec "$N" unshare -U true
	[ "$status" -ne 0 ]
	run ask calls
	jq -e '.unshare == 1' <<<"$output"
	end_run
}

@test "supervisor: an ordinary user's limit of processes needs none" {
	begin_run -P 9 --no-supervisor -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	run sandlock exec "$N" sh -c 'for i in 1 2 3 4 5 6 7 8 9; do
		sleep 5 & done; wait'
	[ "$status" -ne 0 ]
	expect_output fork
	end_run
}

@test "supervisor: an ordinary user's is killed: the tree is dead, the branch stays" {
	begin_run -- sh -c 'echo x >f; echo up; while :; do sleep 1; done'
	eventually is_said up
	init=$(sed -n 1p "$W/run/$N/pid")
	kill -KILL "$supervisor"
	wait $runner || true
	eventually is_gone "$init"
	run sandlock inspect "$N"
	expect_output "supervisor of '$N' is not running"
	equal state "$(branch_state "$N")" interrupted
	sandlock commit "$N"
	equal f "$(cat f)" x
}

@test "supervisor: exec cannot loosen what confines an ordinary user's command" {
	begin_run -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	run sandlock exec --cap CAP_SYS_ADMIN "$N" true
	[ "$status" -ne 0 ]
	expect_output "no further capabilities"
	run sandlock exec "$N" grep -E '^(NoNewPrivs|Seccomp|CapEff):' \
		/proc/self/status
	expect_match 'CapEff:.0000000000000000'
	expect_match 'NoNewPrivs:.1'
	expect_match 'Seccomp:.2'
	end_run
}
