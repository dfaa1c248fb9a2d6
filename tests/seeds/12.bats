# SEEDS part 3, row 12: a container without a process of ours, created,
# running, stopped; `ps` ten times over 5 s: still there, `state` right; only
# `delete` removes it.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	set_args sleep 1000
	create "$N" --branch=none
}

teardown() { finish; }

ps_ten_times() {
	local i

	for i in 1 2 3 4 5 6 7 8 9 10; do
		sandlock ps >/dev/null
		sandlock list -q | grep -qx "$N" || return 1
		sleep 0.5
	done
	equal status "$(status_of "$N")" "$1"
}

@test "row 12: created" {
	# No process of ours: the second line of the pid file is the first.
	equal pids "$(sort -u "$W/run/$N/pid" | wc -l)" 1
	ps_ten_times created
	sandlock ps | grep -q "$N.*created"
}

@test "row 12: running" {
	sandlock start "$N"
	ps_ten_times running
	sandlock ps | grep -q "$N.*running"
}

@test "row 12: stopped, and only delete removes it" {
	sandlock start "$N"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	ps_ten_times stopped
	[ -d "$W/run/$N" ]
	sandlock delete "$N"
	[ ! -e "$W/run/$N" ]
	run sandlock state "$N"
	expect_status 1
	expect_output "does not exist"
}
