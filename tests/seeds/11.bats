# SEEDS part 3, row 11: the supervisor is killed with SIGKILL. The payload is
# dead within a second, the branch is intact and can be committed, and whoever
# asks is told.
load ../lib/common

setup() {
	begin
	only_sandlock
	skip_unless_root
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd / || return 1
	finish
}

# start_supervised SCRIPT: in the background, with calls that are trapped.
start_supervised() {
	without_cgroups sandlock run --name "$N" -P 20 -- sh -c "$1" \
		</dev/null >"$W/out" 2>"$W/err" 3>&- &
	eventually grep -q up "$W/out"
	supervisor=$(sed -n 2p "$W/run/$N/pid")
	init=$(sed -n 1p "$W/run/$N/pid")
	inside=$(pgrep -P "$init")
}

# Milliseconds on an idle machine; the limit is for one that is not.
kill_supervisor() {
	local killed

	killed=$(date +%s%N)
	kill -KILL "$supervisor"
	until is_gone "$init" && is_gone "$inside"; do
		sleep 0.01
	done
	[ $((($(date +%s%N) - killed) / 1000000)) -lt 10000 ]
}

# Once the kernel has let go of all that the supervisor had open.
is_interrupted() {
	[ "$(branch_state "$N")" = interrupted ]
}

@test "row 11: the tree is dead within a second, the branch can be committed" {
	start_supervised 'echo x >f; echo up; while :; do true & wait; done'
	kill_supervisor
	run sandlock inspect "$N"
	expect_status 1
	expect_output "supervisor of '$N' is not running"
	eventually is_interrupted
	[ ! -e f ]
	run sandlock diff "$N"
	expect_exactly 'A f'
	run sandlock commit "$N"
	expect_status 0
	equal f "$(cat f)" x
}

@test "row 11: so it is for processes that hide from signals" {
	start_supervised 'trap "" HUP INT TERM; setsid sh -c "
		trap \"\" HUP INT TERM; echo up; while :; do sleep 1; done"'
	kill_supervisor
	run sandlock abort "$N"
	expect_status 0
}

@test "row 11: so it is for a bundle that was created, its supervisor its waiter" {
	make_bundle
	script 'echo x >/data/x; trap "" HUP INT TERM; setsid sleep 1000 & echo up
		while :; do sleep 1; done'
	create_running "$N"
	eventually grep -q up "$W/out"
	supervisor=$(sed -n 2p "$W/run/$N/pid")
	init=$(sed -n 1p "$W/run/$N/pid")
	inside=$(pgrep -P "$init" | head -n 1)
	kill_supervisor
	run sandlock ports "$N"
	expect_status 1
	expect_output "supervisor of '$N' is not running"
	eventually is_interrupted
	[ ! -e "$R/data/x" ]
	sandlock delete "$N"
	run sandlock diff "$N"
	expect_exactly 'A data/x'
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
}

@test "row 11: exec is refused then" {
	start_supervised 'echo x >f; echo up; sleep 1000'
	kill_supervisor
	run sandlock exec "$N" true
	[ "$status" -ne 0 ]
	expect_output "not running"
	run sandlock ps
	refute_output "$N"
	sandlock abort "$N"
}
