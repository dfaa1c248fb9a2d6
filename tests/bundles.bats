# Bundles that are served: created, detached and in the foreground. What is
# served is asked, renames of directories of the root file system succeed, and
# who is not served pays nothing.
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	mkdir -p "$R/data/d/sub"
	echo f >"$R/data/d/f"
	echo g >"$R/data/d/sub/g"
}

teardown() { finish; }

# The waiter, which is the second line of the pid file, and its guard.
served_by() {
	server=$(sed -n 2p "$W/run/$N/pid")
	init=$(sed -n 1p "$W/run/$N/pid")
}

guard_of() {
	eventually pgrep -P "$1"
	guard=$(pgrep -P "$1")
}

said() {
	grep -qx -- "$1" "$W/out"
}

in_force() {
	sandlock inspect "$N" | jq -c ".in_force | $1"
}

RENAMES='["rename","renameat","renameat2"]'

# ------------------------------------------------------------- renames --

@test "a directory of the lower is renamed: created, detached, foreground" {
	local how

	script 'probe rename /data/d /data/e && cat /data/e/sub/g; echo over; sleep 1000'
	for how in create_running run_detached foreground; do
		if [ "$how" = foreground ]; then
			sandlock run -b "$B" "$N" >"$W/out" 2>&1 3>&- &
			runner=$!
			started "$runner"
		else
			"$how" "$N"
		fi
		eventually said over
		said "rename: ok"
		said g
		equal trapped "$(in_force .trapped)" "$RENAMES"
		run sandlock exec "$N" probe rename /data/e /data/h
		expect_exactly "rename: ok"
		sandlock kill "$N"
		[ "$how" != foreground ] || wait "$runner" || true
		run sandlock diff "$N"
		expect_output "A data/h/sub/g"
		expect_output "D data/d"
		sandlock delete --force "$N"
		sandlock abort "$N"
	done
}

@test "a hardened service of the host may exec, before and after others asked" {
	script 'sleep 1000'
	create_running "$N"
	run "$TESTS/helpers/hardened.py" "$SANDLOCK" exec "$N" \
		probe rename /data/d /data/e
	expect_status 0
	run "$TESTS/helpers/hardened.py" "$SANDLOCK" exec "$N" \
		probe rename /data/e /data/d
	expect_status 0
	# The server may have refused before the listener was sent.
	for _ in {1..12}; do
		run "$TESTS/helpers/hardened.py" "$SANDLOCK" exec "$N" true
		expect_status 0
	done
	sandlock kill "$N"
}

@test "what exec brings to a waiter wakes no supervisor until it renames" {
	local i

	mkdir -p "$R/data/many"
	for i in $(seq 40); do mkdir -p "$R/data/many/$i/sub"; done
	script 'sleep 1000'
	create_running "$N"
	served_by
	for i in 1 2 3; do
		sandlock exec "$N" true
	done
	sandlock exec -d "$N" sh -c 'while ! [ -e /go ]; do sleep 0.05; done
		probe rename /data/many/39 /data/many/39new >/39'
	sandlock exec -d "$N" sh -c 'while ! [ -e /go ]; do sleep 0.05; done
		probe rename /data/many/40 /data/many/40new >/40'
	equal threads "$(grep Threads "/proc/$server/status" | tr -dc 0-9)" 1
	run sandlock exec "$N" probe rename /data/many/38 /data/many/38new
	expect_exactly "rename: ok"
	sandlock exec "$N" touch /go
	for i in 39 40; do
		eventually sandlock exec "$N" grep -qx "rename: ok" "/$i"
	done
	equal trapped "$(in_force .trapped)" "$RENAMES"
	sandlock kill "$N"
}

@test "more come to a waiter at once than it has room for" {
	local i

	for i in $(seq 40); do mkdir -p "$R/data/many/$i/sub"; done
	script 'sleep 1000'
	create_running "$N"
	for i in $(seq 40); do
		sandlock exec -d "$N" sh -c "while ! [ -e /go ]; do sleep 0.2; done
			probe rename /data/many/$i /data/many/new$i >/$i"
	done
	sandlock exec "$N" touch /go
	for i in $(seq 40); do
		eventually sandlock exec "$N" grep -qx "rename: ok" "/$i"
	done
	sandlock kill "$N"
}

@test "rename: of a 32-bit program, too" {
	[ "$(uname -m)" = x86_64 ] || skip "32-bit calls of x86"
	"$HELPERS/probe" rename32 "$W/no" "$W/nowhere" | grep -q ENOENT ||
		skip "the kernel has no 32-bit calls"
	script 'probe rename32 /data/d /data/e && cat /data/e/sub/g; echo over; sleep 1000'
	create_running "$N"
	eventually said over
	said "rename32: ok"
	said g
	run sandlock diff "$N"
	expect_output "A data/e/sub/g"
}

@test "rename: what cannot be moved is on record" {
	config '.mounts += [{destination: "/data/d/m", type: "tmpfs", source: "tmpfs"}]'
	mkdir -p "$B/rootfs/data/d/m"
	script 'probe rename /data/d /data/e; echo >/data/x; echo over; sleep 1000'
	create_running "$N"
	eventually said over
	said "rename: EXDEV"
	run sandlock logs "$N"
	expect_match 'rename.*/data/d.*EXDEV.*branch\.rename'
	sandlock kill "$N"
	eventually has_branch_state "$N" pending
	# Beside the branch, too.
	run sandlock logs --json "$N"
	expect_output '"errno": "EXDEV"'
	expect_output "a mount lies in it"
}

@test "rename: commit leaves exactly what was seen inside" {
	"$SNAP" "$R/data/d" >"$W/before"
	set_args probe rename /data/d /data/e
	run_detached "$N"
	eventually has_branch_state "$N" pending
	sandlock delete "$N"
	sandlock commit "$N"
	[ ! -e "$R/data/d" ]
	"$SNAP" "$R/data/e" >"$W/after"
	same "$W/before" "$W/after"
}

@test "rename: with a user namespace, without a pid namespace" {
	local change

	skip_unless_root
	for change in '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 0, size: 1000}]
		| .linux.gidMappings = .linux.uidMappings' \
		'.linux.namespaces |= map(select(.type != "pid"))
		| .mounts |= map(select(.type != "proc"))' \
		'.process.noNewPrivileges = false' \
		'.process.user = {uid: 0, gid: 0, additionalGids: [5]}'; do
		cp "$B/config.json" "$W/config.json"
		config "$change"
		script 'probe rename /data/d /data/e; echo over; sleep 1000'
		create_running "$N"
		eventually said over
		said "rename: ok"
		run sandlock exec "$N" probe rename /data/e /data/d2
		expect_exactly "rename: ok"
		sandlock kill "$N"
		sandlock delete "$N"
		sandlock abort "$N"
		cp "$W/config.json" "$B/config.json"
	done
}

@test "rename: in a startContainer hook, before the payload runs" {
	local how

	script 'cat /data/e/sub/g; probe rename /data/e /data/h; echo over'
	config '.hooks.startContainer = [{path: "/bin/probe",
		args: ["probe", "rename", "/data/d", "/data/e"]}]'
	for how in create_running run_detached; do
		"$how" "$N"
		eventually said over
		said g
		said "rename: ok"
		eventually has_branch_state "$N" pending
		sandlock delete "$N"
		sandlock abort "$N"
	done
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_output "rename: ok"
}

@test "a profile of the bundle comes first: what it refuses is refused" {
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", syscalls: [
		{names: ["rename", "renameat", "renameat2"],
		 action: "SCMP_ACT_ERRNO", errnoRet: 95}]}'
	set_args probe rename /data/d /data/e
	run sandlock run -b "$B" "$N"
	expect_output "rename: EOPNOTSUPP"
	run sandlock run --no-supervisor -b "$B" "$N"
	expect_output "rename: EOPNOTSUPP"
}

@test "a profile with an agent: its listener is the only one, inspect says so" {
	python3 - "$W/agent" >"$W/agent.out" 3>&- <<-'END' &
		import array, socket, sys
		s = socket.socket(socket.AF_UNIX)
		s.bind(sys.argv[1])
		s.listen()
		print("up", flush=True)
		c, _ = s.accept()
		c.recvmsg(65536, socket.CMSG_SPACE(4))
		print("listener", flush=True)
		import time
		time.sleep(1000)
	END
	started $!
	eventually grep -q up "$W/agent.out"
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW",
		listenerPath: $p, syscalls: [{names: ["swapon"],
		action: "SCMP_ACT_NOTIFY"}, {names: ["swapoff"],
		action: "SCMP_ACT_ERRNO", errnoRet: 95}]}' --arg p "$W/agent"
	script 'probe rename /data/d /data/e; echo over; sleep 1000'
	create_running "$N"
	eventually said over
	said "rename: EXDEV"
	grep -q listener "$W/agent.out"
	equal trapped "$(in_force .trapped)" '[]'
	equal why "$(in_force .untrapped)" \
		'"linux.seccomp has a listener of its own"'
	# What it refuses is on no record, but known.
	run sandlock why "$N" swapoff
	expect_status 1
	expect_output 'call swapoff: no'
	expect_output 'linux.seccomp: SCMP_ACT_ERRNO (EOPNOTSUPP)'
	run sandlock why "$N" swapon
	expect_status 2
	expect_output SCMP_ACT_NOTIFY
	run sandlock why "$N" mount
	expect_status 0
	expect_output 'linux.seccomp.defaultAction: SCMP_ACT_ALLOW'
	sandlock kill "$N"
}

# ----------------------------------------------------- what is answered --

@test "inspect, state, ports, logs, why, changes and calls, by name" {
	script 'echo x >/data/x; probe rename /data/d /data/e; echo over; sleep 1000'
	ask() {
		python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
			"{\"v\":1,\"verb\":\"$1\"}" | jq -c .data
	}
	create "$N"
	equal status "$(sandlock inspect "$N" | jq -r .status)" created
	equal branch "$(in_force .branch)" '"overlay"'
	equal ports "$(sandlock ports --format json "$N")" '{}'
	sandlock start "$N"
	eventually said over
	equal status "$(sandlock inspect "$N" | jq -r .status)" running
	equal state "$(ask state | jq -r .status)" running
	equal ports "$(sandlock ports --format json "$N")" '{}'
	equal calls "$(ask calls)" '{"renameat":1}'
	equal denials "$(ask denials)" '{"denials":[],"next":null,"dropped":0}'
	ask changes | jq -r '.changes[] | .change + " " + .path' >"$W/changes"
	grep -qx "A data/x" "$W/changes"
	run sandlock logs "$N"
	expect_status 0
	expect_output "nothing is on record of '$N'"
	expect_output "without a supervisor only limits are"
	run sandlock why "$N" /data/x
	expect_output "write /data/x: yes"
	run sandlock why "$N" mount
	expect_status 0
	expect_output "no filter"
	sandlock pause "$N"
	equal status "$(sandlock inspect "$N" | jq -r .status)" paused
	sandlock resume "$N"
	run sandlock exec "$N" probe rename /data/e /data/d
	expect_exactly "rename: ok"
	equal calls "$(ask calls)" '{"renameat":2}'
	ask kill
	eventually has_branch_state "$N" pending
	# It has ended: what is on record answers.
	eventually test ! -e "$W/run/$N/control.sock"
	equal status "$(sandlock inspect "$N" | jq -r .status)" stopped
	run sandlock logs "$N"
	expect_status 0
}

@test "run --keep: what has ended has no socket, and answers by its files" {
	set_args probe rename /data/d /data/e
	run sandlock run --keep -b "$B" "$N"
	expect_output "rename: ok"
	[ ! -e "$W/run/$N/control.sock" ]
	equal status "$(sandlock inspect "$N" | jq -r .status)" stopped
	sandlock delete "$N"
}

@test "--no-control-socket: no socket, and the payload's renames succeed" {
	mkdir "$R/data/k"
	script 'probe rename /data/d /data/e; echo over; sleep 1000'
	create_running "$N" --no-control-socket
	eventually said over
	said "rename: ok"
	[ ! -e "$W/run/$N/control.sock" ]
	run sandlock inspect "$N"
	expect_status 0
	refute_output in_force
	# Nobody could be told of what exec starts.
	run sandlock exec "$N" probe rename /data/k /data/l
	expect_exactly "rename: EXDEV"
	sandlock kill "$N"
}

@test "--no-supervisor: no socket, nothing trapped, and the kernel's EXDEV" {
	local how

	script 'grep Seccomp: /proc/self/status; probe rename /data/d /data/e; echo over; sleep 1000'
	for how in create_running run_detached; do
		"$how" "$N" --no-supervisor
		eventually said over
		said "rename: EXDEV"
		grep -q 'Seccomp:.*0' "$W/out"
		[ ! -e "$W/run/$N/control.sock" ]
		served_by
		# The waiter, which settles.
		[ "$server" != "$init" ]
		run pgrep -P "$server"
		expect_status 1
		equal status "$(sandlock inspect "$N" | jq -r .status)" running
		run sandlock ports "$N"
		expect_status 1
		expect_output "has no control socket"
		sandlock kill "$N"
		sandlock delete "$N"
	done
	set_args probe rename /data/d /data/e
	run sandlock run --no-supervisor -b "$B" "$N"
	expect_output "rename: EXDEV"
}

@test "without a branch there is no process of ours, no socket and no filter" {
	script 'grep Seccomp: /proc/self/status; echo over; sleep 1000'
	create_running "$N" --branch=none
	eventually said over
	grep -q 'Seccomp:.*0' "$W/out"
	served_by
	equal server "$server" "$init"
	[ ! -e "$W/run/$N/control.sock" ]
	sandlock delete --force "$N"
	create_oci "$N"
	served_by
	equal server "$server" "$init"
	[ ! -e "$W/run/$N/control.sock" ]
}

# ------------------------------------------------------------- lifetimes --

@test "created and never started: delete leaves nothing" {
	create "$N"
	served_by
	guard_of "$server"
	sandlock delete "$N"
	eventually is_gone "$server"
	eventually is_gone "$guard"
	eventually has_no_branch "$N"
}

@test "created now, started much later by somebody else" {
	script 'probe rename /data/d /data/e; echo over; sleep 1000'
	create "$N"
	sleep 3
	setsid -w "$SANDLOCK" start "$N" </dev/null 3>&-
	eventually said over
	said "rename: ok"
	sandlock kill "$N"
}

@test "the supervisor is killed: the payload dies, the branch stays" {
	local change

	skip_unless_root
	for change in . '.linux.namespaces |= map(select(.type != "pid"))
		| .mounts |= map(select(.type != "proc"))'; do
		config "$change"
		script 'echo x >/data/x; (trap "" TERM; sleep 1000) & echo up; sleep 1000'
		create_running "$N"
		eventually said up
		served_by
		guard_of "$server"
		mapfile -t inside < <(sandlock ps --format json "$N" | jq '.[]')
		kill -KILL "$server"
		for pid in "$init" "${inside[@]}" "$guard"; do
			eventually is_gone "$pid"
		done
		unchanged=$(cat "$R/data/a")
		equal a "$unchanged" one
		run sandlock exec "$N" true
		[ "$status" -ne 0 ]
		run sandlock diff "$N"
		expect_exactly "A data/x"
		sandlock commit "$N"
		equal x "$(cat "$R/data/x")" x
		sandlock delete "$N"
		rm "$R/data/x"
	done
}

@test "a waiter that cannot become a supervisor ends the sandbox" {
	script 'echo x >/data/x; trap "probe rename /data/d /data/e; echo over" USR1
		echo up; while :; do sleep 0.1; done'
	create_running "$N"
	eventually said up
	mv "$W/run/$N/config.json" "$W/config.json"
	sandlock kill "$N" USR1
	eventually has_branch_state "$N" pending
	run grep -c -e over -e rename "$W/out"
	expect_exactly 0
	mv "$W/config.json" "$W/run/$N/config.json"
	equal status "$(status_of "$N")" stopped
	run sandlock diff "$N"
	expect_exactly "A data/x"
}

@test "a killed guard is replaced, and the next one does what it is for" {
	script 'echo up; sleep 1000'
	create_running "$N"
	served_by
	guard_of "$server"
	first=$guard
	kill -KILL "$first"
	replaced() {
		guard=$(pgrep -P "$server") && [ "$guard" != "$first" ]
	}
	eventually replaced
	equal status "$(status_of "$N")" running
	kill -KILL "$server"
	eventually is_gone "$init"
	eventually is_gone "$guard"
}

@test "a service's end meets the waiter and its guard: the payload dies" {
	local sig

	script 'echo x >/data/x; echo up; sleep 1000'
	for sig in TERM HUP; do
		create_running "$N"
		eventually said up
		served_by
		guard_of "$server"
		kill -STOP "$server"
		kill "-$sig" "$guard"
		kill "-$sig" "$server"
		# The guard may have ended it by now.
		kill -CONT "$server" 2>/dev/null || :
		eventually is_gone "$init"
		eventually is_gone "$guard"
		run sandlock diff "$N"
		expect_exactly "A data/x"
		sandlock abort "$N"
		sandlock delete "$N"
	done
}

@test "without a pid namespace: a foreground run settles, and publishes" {
	skip_unless_root
	config '.linux.namespaces |= map(select(.type != "pid"))
		| .mounts |= map(select(.type != "proc"))'
	script 'echo x >/data/x'
	run sandlock run --on-exit=commit -b "$B" "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
	script 'exit 4'
	run sandlock run -b "$B" "$N"
	expect_exactly ""
	expect_status 4
	has_no_branch "$N"
}

@test "what waits is small: the waiter, its guard, and what they become" {
	script 'probe rename /data/d /data/e; echo over; sleep 1000'
	private() {
		awk '/^Private_Dirty/ { sum += $2 } END { print sum }' \
			"/proc/$1/smaps_rollup"
	}
	sync -f "$SANDLOCK"
	create "$N"
	served_by
	guard_of "$server"
	both=$(($(private "$server") + $(private "$guard")))
	equal threads "$(ls "/proc/$server/task" | wc -l)" 1
	sandlock start "$N"
	eventually said over
	busy=$(private "$server")
	echo "waiting: $both KiB, supervising: $busy KiB" >&2
	[ "$both" -le 150 ]
	[ "$busy" -le 1024 ]
	sandlock kill "$N"
}
