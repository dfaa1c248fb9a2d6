# SEEDS part 3, row 8: a live name reused by run and create is an error and the
# command is not run; the first keeps directory inode, pid file, and can be
# killed. With --no-supervisor, too. Python's is in the suite of sdk/python.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	set_args sleep 1000
	create_running "$N"
	D=$W/run/$N
	inode=$(stat -c %i "$D")
	pids=$(cat "$D/pid")
	mkdir "$W/second"
	cp -a "$B/." "$W/second/"
	B2=$W/second
	B=$B2 script 'echo ran >/data/ran'
}

teardown() { finish; }

first_is_unharmed() {
	equal inode "$(stat -c %i "$D")" "$inode" &&
		equal pids "$(cat "$D/pid")" "$pids" &&
		equal status "$(status_of "$N")" running &&
		[ ! -e "$B2/rootfs/data/ran" ]
}

@test "row 8: run with a live name is refused" {
	run sandlock run --branch=none -b "$B2" "$N"
	expect_status 125
	expect_output "already exists"
	first_is_unharmed
	sandlock kill "$N"
	equal status "$(status_of "$N")" stopped
}

@test "row 8: create with a live name is refused" {
	B=$B2 run create "$N" --branch=none
	expect_status 1
	expect_output "already exists"
	first_is_unharmed
}

@test "row 8: without a branch, too" {
	sandlock delete --force "$N"
	create "$N" --branch=none
	sandlock start "$N"
	inode=$(stat -c %i "$D")
	pids=$(cat "$D/pid")
	run sandlock run --branch=none -b "$B2" "$N"
	expect_status 125
	first_is_unharmed
	sandlock kill "$N"
}

@test "row 8: with another store and other branch options, too" {
	SANDLOCK_STORE=$W/store2 run sandlock run -b "$B2" "$N"
	expect_status 125
	expect_output "already exists"
	first_is_unharmed
	equal store "$(ls -A "$W/store2/branches" 2>/dev/null)" ""
}

@test "row 8: a command of the host, with and without a supervisor" {
	mkdir "$W/work"
	cd "$W/work"
	sandlock run --name "$N-h" -- sleep 1000 >"$W/host" 2>&1 3>&- &
	started $!
	eventually test -S "$W/run/$N-h/control.sock"
	socket=$(stat -c %i "$W/run/$N-h/control.sock")
	host_pids=$(cat "$W/run/$N-h/pid")
	for name in "$N-h" "$N"; do
		for option in --control-socket --no-supervisor; do
			run sandlock run $option --name "$name" \
				--fs-write "$W/second" -- touch "$W/second/ran"
			expect_status 125
			expect_output "already exists"
			[ ! -e "$W/second/ran" ]
		done
	done
	first_is_unharmed
	run create "$N-h" --branch=none
	expect_status 1
	equal socket "$(stat -c %i "$W/run/$N-h/control.sock")" "$socket"
	equal pids "$(cat "$W/run/$N-h/pid")" "$host_pids"
	sandlock inspect "$N-h" | jq -e '.program.args[0] == "sleep"'
	sandlock kill "$N-h"
	[ ! -e "$W/run/$N-h" ]
}

@test "row 8: the first has --no-supervisor" {
	mkdir "$W/work"
	cd "$W/work"
	sandlock run --no-supervisor --name "$N-h" -- sleep 1000 >"$W/host" 2>&1 3>&- &
	started $!
	eventually has_status "$N-h" running
	host_inode=$(stat -c %i "$W/run/$N-h")
	run sandlock run --name "$N-h" -- true
	expect_status 125
	expect_output "already exists"
	equal inode "$(stat -c %i "$W/run/$N-h")" "$host_inode"
	sandlock kill "$N-h"
	[ ! -e "$W/run/$N-h" ]
}

# host_first [OPTION]...: a command of the host has the name.
host_first() {
	sandlock delete --force "$N"
	mkdir "$W/dir"
	cd "$W/dir"
	sandlock run --name "$N" "$@" --on-exit=abort --on-error=abort -- \
		sleep 1000 </dev/null >"$W/out" 2>&1 3>&- &
	runner=$!
	eventually has_status "$N" running
	inode=$(stat -c %i "$D")
	pids=$(cat "$D/pid")
}

host_is_unharmed() {
	equal inode "$(stat -c %i "$D")" "$inode" &&
		equal pids "$(cat "$D/pid")" "$pids" &&
		equal status "$(status_of "$N")" running && [ ! -e "$W/ran" ]
}

everybody_is_refused() {
	local option

	for option in --control-socket --no-supervisor; do
		run sandlock run --name "$N" $option -w "$W" -- touch "$W/ran"
		expect_status 125
		expect_output "already exists"
		host_is_unharmed
	done
	run sandlock run --branch=none -b "$B2" "$N"
	expect_status 125
	host_is_unharmed
}

@test "row 8: a command of the host keeps its name, its directory and its socket" {
	host_first
	eventually test -S "$D/control.sock"
	socket=$(stat -c %i "$D/control.sock")
	everybody_is_refused
	equal socket "$(stat -c %i "$D/control.sock")" "$socket"
	run sandlock inspect "$N"
	expect_status 0
	sandlock kill "$N"
	wait $runner || true
	[ ! -e "$D" ]
	cd "$W"
}

@test "row 8: one without a supervisor, too" {
	host_first --no-supervisor
	everybody_is_refused
	[ ! -e "$D/control.sock" ]
	sandlock kill "$N"
	wait $runner || true
	[ ! -e "$D" ]
	cd "$W"
}
