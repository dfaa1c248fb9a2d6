# SEEDS part 3, row 29: a callback runs at the end of a run, others are queued:
# the run waits, the queued ones are never called, userdata is freed once, and a
# wait with a time limit returns in time. So does free wait.
load ../lib/common
load ../lib/embed

setup() {
	begin_embed
	mkfifo line
}

teardown() { finish; }

# All four have arrived: one handler runs, three wait for its thread.
calls() {
	[ "$(python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
		'{"v":1,"verb":"calls"}' | jq '.data.uname // 0')" = "$1" ]
}

is_gone() {
	[ ! -e "/proc/$1" ]
}

# begin_handler OPTION...: ends once its payload is dead, and goes on when it
# reads a line from us.
begin_handler() {
	"$HELPERS/handle" name="$N" threads=1 "$@" \
		uname=print+wait+continue -- \
		sh -c 'for i in 1 2 3 4; do uname & done; wait' \
		<line >said 2>&1 3>&- &
	handler=$!
	started $handler
	exec 8>line
	eventually calls 4
	eventually has_begun
	init=$(head -n 1 "$W/run/$N/pid")
	kill -KILL "$init"
	eventually is_gone "$init"
	echo go >&8
	exec 8>&-
	wait $handler
	cat said
}

has_begun() {
	grep -q "call uname" said
}

@test "row 29: a run waits for its callback, a wait in time does not" {
	run begin_handler wait=300
	expect_output "waited -110"
	expect_output "before the end: 1 began, 1 run, freed 0"
	expect_output "at the end: 1 began, 0 run, freed 0"
	expect_output "signal 9"
	expect_output "freed after 1"
	expect_output "called 1"
	refute_output "too late"
	refute_output "too early"
	late=$(sed -n 's/late by \(.*\) ms/\1/p' said)
	[ "$late" -lt 5000 ]
}

@test "row 29: free waits for its callback, and userdata is freed once" {
	run begin_handler free=300
	expect_output "before the free: 1 began, 1 run, freed 0"
	expect_output "after the free: 1 began, 0 run, freed 1"
	refute_output "too late"
	refute_output "too early"
}
