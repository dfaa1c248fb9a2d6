# Bundles of an ordinary user that are served: see bundles.bats.
load lib/common

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	PATH=$PATH:/usr/sbin:/sbin
	ROOTLESS=1
	begin
	only_sandlock
	unshare -U true 2>/dev/null || skip "no user namespaces for ordinary users"
	make_bundle
	mkdir -p "$R/data/d/sub"
	echo g >"$R/data/d/sub/g"
}

teardown() { finish; }

said() {
	grep -qx -- "$1" "$W/out"
}

@test "rootless: renames in a created bundle, and of what exec starts" {
	script 'probe rename /data/d /data/e && cat /data/e/sub/g; echo over; sleep 1000'
	create_running "$N"
	eventually said over
	said "rename: ok"
	run sandlock exec "$N" probe rename /data/e /data/h
	expect_exactly "rename: ok"
	equal trapped "$(sandlock inspect "$N" | jq -c .in_force.trapped)" \
		'["rename","renameat","renameat2"]'
	sandlock kill "$N"
	sandlock commit "$N"
	equal g "$(cat "$R/data/h/sub/g")" g
	[ ! -e "$R/data/d" ]
}

@test "rootless: renames in the foreground" {
	set_args probe rename /data/d /data/e
	run sandlock run -b "$B" "$N"
	expect_output "rename: ok"
}

@test "rootless: the supervisor is killed: the payload dies, the branch stays" {
	script 'echo x >/data/x; echo up; sleep 1000'
	create_running "$N"
	eventually said up
	server=$(sed -n 2p "$W/run/$N/pid")
	init=$(sed -n 1p "$W/run/$N/pid")
	eventually pgrep -P "$server"
	kill -KILL "$server"
	eventually is_gone "$init"
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
}

@test "rootless: NOTIFY_SOCKET" {
	python3 - "$W/manager" >"$W/told" 3>&- <<-'END' &
		import socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.bind(sys.argv[1])
		print("listens", flush=True)
		print(s.recv(4096).decode().strip(), flush=True)
	END
	started $!
	eventually grep -q listens "$W/told"
	set_args probe notify READY=1
	NOTIFY_SOCKET=$W/manager run sandlock run -b "$B" "$N"
	expect_status 0
	eventually grep -q READY=1 "$W/told"
}
