# SEEDS part 3, row 17: `kill NAME` with TERM ignored, setsid daemons: tree
# dead, branch preserved; a second kill is exit 1. Embedders come later; the
# processes of ours that are stopped here are the waiter and the supervisor.
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

@test "row 17: the supervisor is stopped: it is killed after ten seconds" {
	mkdir "$W/dir"
	cd "$W/dir"
	without_cgroups sandlock run --name "$N" -P 20 -- sh -c '
		echo x >x; trap "" TERM; setsid sh -c "trap \"\" TERM; echo up
		while :; do sleep 1; done"' </dev/null >"$W/out" 2>&1 3>&- &
	runner=$!
	eventually grep -q up "$W/out"
	supervisor=$(sed -n 2p "$W/run/$N/pid")
	pids=$(pids_inside || true)
	kill -STOP "$supervisor"
	COMMAND_TIMEOUT=60 run sandlock kill "$N"
	expect_status 0
	all_dead "$pids $supervisor"
	[ ! -e "$W/run/$N" ]
	wait $runner || true
	run sandlock kill "$N"
	expect_status 1
	run sandlock diff "$N"
	expect_exactly "A x"
	sandlock commit "$N"
	equal x "$(cat x)" x
	cd "$W"
}
