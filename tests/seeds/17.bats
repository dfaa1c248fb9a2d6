# SEEDS part 3, row 17: `kill NAME` with TERM ignored, setsid daemons: tree
# dead, branch preserved; a second kill is exit 1. The supervisor and embedders
# come later; the process of ours that is stopped here is the waiter.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	script 'echo x >/data/x; exec probe ignore daemons'
}

teardown() { finish; }

pids_inside() {
	sandlock ps --format json "$N" | jq -r '.[]'
}

all_dead() {
	local p

	for p in $1; do
		is_gone "$p" || {
			echo "$p is alive" >&2
			return 1
		}
	done
}

@test "row 17: TERM ignored and daemons: all dead when kill returns" {
	create_running "$N"
	eventually grep -q ready "$W/out"
	pids=$(pids_inside)
	equal processes "$(wc -w <<<"$pids")" 6
	sandlock kill "$N" TERM
	sleep 0.2
	equal status "$(status_of "$N")" running
	run sandlock kill "$N"
	expect_status 0
	all_dead "$pids"
	equal state "$(branch_state "$N")" pending
	run sandlock kill "$N"
	expect_status 1
	expect_output "not running"
	run sandlock diff "$N"
	expect_exactly "A data/x"
}

@test "row 17: what run started is gone, directory too, when kill returns" {
	"$SANDLOCK" run -b "$B" "$N" >"$W/out" 2>&1 3>&- &
	runner=$!
	started $runner
	eventually grep -q ready "$W/out"
	pids=$(pids_inside)
	run sandlock kill "$N"
	expect_status 0
	all_dead "$pids"
	[ ! -e "$W/run/$N" ]
	equal state "$(branch_state "$N")" pending
	status=0
	wait $runner || status=$?
	equal status "$status" 137
	run sandlock kill "$N"
	expect_status 1
}

@test "row 17: the waiter is stopped: the tree still dies, the branch stays" {
	create_running "$N"
	eventually grep -q ready "$W/out"
	pids=$(pids_inside)
	waiter=$(sed -n 2p "$W/run/$N/pid")
	kill -STOP "$waiter"
	COMMAND_TIMEOUT=30 run sandlock kill "$N"
	expect_status 0
	all_dead "$pids"
	kill -CONT "$waiter" 2>/dev/null || true
	run sandlock diff "$N"
	expect_exactly "A data/x"
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
}
