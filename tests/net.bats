# Network rules of a command of the host: what they let through and what not,
# on the loopback device. An ordinary user gets the same.
load lib/common
load lib/net

setup() {
	begin
	only_sandlock
	mkdir "$W/dir"
	cp "$TESTS/helpers/net.py" "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# A debootstrap has none, and what is pinned could not be mounted in /etc.
needs_hosts_file() {
	[ -e /etc/hosts ] || skip "there is no /etc/hosts"
}

# inside OPTION... -- WORD...: net.py in a sandbox whose branch is dropped.
inside() {
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	run sandlock run --on-exit=abort --on-error=abort "${options[@]}" -- \
		/usr/bin/python3 -B net.py "$@"
}

@test "net: without a rule there is no network, not even the host's loopback" {
	host_server a tcp
	inside -- connect tcp 127.0.0.1 "$PORT"
	expect_exactly ECONNREFUSED
	came a 0
}

@test "net: a rule lets through what it says, and nothing else" {
	host_server a tcp
	a=$PORT
	host_server b tcp
	b=$PORT
	inside --net-allow "tcp://127.0.0.1:$a" -- connect tcp 127.0.0.1 "$a"
	expect_exactly ok
	patiently came a 1
	inside --net-allow "127.0.0.0/8:$a" -- connect tcp 127.0.0.1 "$b"
	expect_output ECONNREFUSED
	inside --net-allow "127.0.0.1:$a" -- connect tcp ::ffff:127.0.0.1 "$a"
	expect_exactly ok
	inside --net-allow "127.0.0.1:$a" -- connect tcp ::ffff:127.0.0.1 "$b"
	expect_output ECONNREFUSED
	inside --net-allow "udp://127.0.0.1:$a" -- connect tcp 127.0.0.1 "$a"
	expect_output ECONNREFUSED
	inside --net-allow ":$a" --net-allow ":$b" -- connect tcp 0.0.0.0 "$b"
	expect_exactly ok
	patiently came b 1
}

@test "net: what is not denied is allowed" {
	host_server a tcp
	inside --net-deny 127.0.0.2 -- connect tcp 127.0.0.1 "$PORT"
	expect_exactly ok
	inside --net-deny "127.0.0.0/8:$PORT" -- connect tcp 127.0.0.1 "$PORT"
	expect_output ECONNREFUSED
	# Another way to say the same address.
	inside --net-deny "127.0.0.0/8:$PORT" -- connect tcp 0.0.0.0 "$PORT"
	expect_output ECONNREFUSED
	patiently came a 1
}

@test "net: datagrams are judged by where they go" {
	host_server a udp
	a=$PORT
	inside --net-allow "udp://127.0.0.1:$a" -- connect udp 127.0.0.1 "$a"
	expect_exactly ok
	patiently came a 1
	inside --net-allow "tcp://127.0.0.1:$a" -- connect udp 127.0.0.1 "$a"
	expect_output ECONNREFUSED
	came a 1
}

@test "net: names are pinned, in rules and in the hosts file" {
	needs_hosts_file
	host_server a tcp
	inside --net-allow "localhost:$PORT" -- connect tcp localhost "$PORT"
	expect_exactly ok
	run sandlock run --on-exit=abort --net-allow "localhost:$PORT" -- \
		sh -c 'head -n 2 /etc/hosts; echo x >/etc/hosts'
	[ "${lines[0]}" = $'127.0.0.1\tlocalhost' ]
	[ "${lines[1]}" = $'::1\tlocalhost' ]
	[ "$status" -ne 0 ]
	# It is nowhere on the host, whenever that is cut off.
	run sandlock run --net-allow "localhost:$PORT" -- \
		grep ' /etc/hosts ' /proc/self/mountinfo
	expect_match ' /hosts /etc/hosts ro,nosuid,nodev,noexec'
}

@test "net: a name that does not resolve is told before anything runs" {
	run sandlock run --net-allow no-such-host.invalid:80 -- touch ran
	expect_status 125
	expect_output "'no-such-host.invalid' does not resolve"
	equal branches "$(branches_json | jq length)" 0
}

@test "net: a rule that is wrong is refused with the word that is" {
	run sandlock run --net-allow tpc://a:1 -- true
	expect_output "--net-allow: 'tpc' is no protocol"
	expect_output "did you mean 'tcp://'?"
	run sandlock run --net-allow a:65536 -- true
	expect_output "port '65536' is not from 1 to 65535"
	run sandlock run --net-deny example.org -- true
	expect_output "a host name cannot be denied"
	run sandlock run --net-allow a --net-deny 10.0.0.1 -- true
	expect_output "--net-allow and --net-deny exclude each other"
	run sandlock run --net-allow-bind 1 --net-deny-bind 2 -- true
	expect_output "--net-allow-bind and --net-deny-bind exclude each other"
	printf '[network]\nallow = ["a:0"]\n' >p.toml
	run sandlock run --profile-file p.toml -- true
	expect_output "p.toml:2:10: network.allow: port '0'"
}

@test "net: what makes calls past the filter, and rules, exclude each other" {
	run sandlock run --net-allow '*' --extra-allow-syscall io_uring -- true
	expect_status 125
	expect_output "network rules cannot hold with"
}

@test "net: no supervisor, no rules" {
	run sandlock run --no-supervisor --net-allow '*' -- true
	[ "$status" -ne 0 ]
	expect_output "needs a supervisor"
}

@test "net: sockets that no rule can judge are refused" {
	inside --net-allow '*' -- sockets
	expect_status 0
	expect_output "packet EAFNOSUPPORT"
	expect_output "vsock EAFNOSUPPORT"
	expect_output "raw EPERM"
	expect_output "sctp EPROTONOSUPPORT"
	expect_output "mptcp EPROTONOSUPPORT"
	expect_output "audit EAFNOSUPPORT"
	expect_output "route ok"
	expect_output "tcp ok"
	expect_output "options EPERM"
	expect_output "flowlabel EPERM"
	expect_output "rthdr EPERM"
	expect_output "v6only ok"
	expect_output "flowlabel EPERM"
	expect_output "rthdr EPERM"
	expect_output "v6only ok"
	[ ! -e /etc/hosts ] || expect_output "names ok"
}

# free_port: one that nobody has now.
free_port() {
	/usr/bin/python3 -c 'import socket; s = socket.socket()
s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

@test "net: ports are bound by rule, and the host can connect to them" {
	port=$(free_port)
	sandlock run --on-error=abort --name "$N" --net-allow-bind "$port" -- \
		/usr/bin/python3 -B net.py listen "$port" \
		>"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	patiently says_hello "$port"
	sandlock kill "$N"
	inside --net-allow '*' -- listen "$port"
	expect_output EACCES
	inside --net-allow-bind "$port" -- listen 0
	expect_output "ok "
	[ "$status" -ne 0 ]
	inside --net-deny-bind "$port" -- listen "$port"
	expect_output EACCES
}

@test "net: named unix sockets are reached by rule, or where it may write" {
	mkdir "$W/s"
	host_server s/sock unix
	inside --net-allow icmp://* -r / -- unix "$W/s/sock"
	expect_output EACCES
	inside --net-allow icmp://* -w "$W/s" -- unix "$W/s/sock"
	expect_exactly ok
	inside --net-allow icmp://* -- unix "$W/s/sock"
	expect_output ENOENT
	# Alone it does not need the host's network.
	inside --net-allow "unix:$W/s/sock" -- unix "$W/s/sock"
	expect_exactly ok
	inside --net-allow "unix:$W/s/sock" --net-allow icmp://* -- \
		unix "$W/s/sock"
	expect_exactly ok
	patiently came s/sock 3
	run sandlock run --net-allow "unix:$W/none" -- true
	expect_status 125
	expect_output "unix:$W/none"
}

@test "net: a unix socket is reached by the caller's rights, and sees its user" {
	mkdir "$W/s"
	host_server s/sock unix
	unix() {
		inside --net-allow icmp://* -w "$W/s" "$@" -- unix "$W/s/sock"
	}
	unix
	expect_exactly ok
	patiently grep -qx "came uid $(id -u)" "$W/s/sock.log"
	# Only root can make it somebody else, who has less rights.
	[ "$(id -u)" -eq 0 ] || return 0
	chmod 600 "$W/s/sock"
	unix --user 12345:12345
	expect_output EACCES
	chmod 666 "$W/s/sock"
	unix --user 12345:12345
	expect_exactly ok
	patiently grep -qx 'came uid 12345' "$W/s/sock.log"
	chmod 700 "$W/s"
	unix --user 12345:12345
	expect_output EACCES
	came s/sock 2
}

@test "net: paths are bound by the caller's rights, umask and names" {
	mkdir "$W/s"
	inside --net-allow icmp://* -w "$W/s" -- path "$W/s/a" b /tmp/c /dev/d /usr/e /none/f
	expect_output "$W/s/a $W/s/a 0o750 True"
	expect_output "b b 0o750 True"
	expect_output "/tmp/c /tmp/c 0o750 True"
	expect_output "/dev/d EACCES"
	expect_output "/usr/e EROFS"
	expect_output "/none/f ENOENT"
	[ "$(id -u)" = 0 ] || return 0
	chmod 711 "$W/s"
	rm "$W/s/a"
	inside --net-allow icmp://* -w "$W/s" --user 12345:12345 -- path "$W/s/a" /tmp/c
	expect_output "$W/s/a EACCES"
	expect_output "/tmp/c /tmp/c 0o750 True"
}

@test "net: abstract unix sockets are reached by rule, or the sandbox's own" {
	host_server "$N" abstract
	inside --net-allow icmp://* -- unix "@$N"
	expect_output EPERM
	inside --net-allow "unix:@$N" -- unix "@$N"
	expect_exactly ok
	inside --net-allow icmp://* -- own "@$N-own"
	expect_exactly $'ok\nok'
	patiently came "$N" 1
}

@test "net: what exec adds is under the same rules" {
	host_server a tcp
	a=$PORT
	host_server b tcp
	sandlock run --on-error=abort --name "$N" --net-allow "127.0.0.1:$a" \
		-- sleep 1000 >"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	patiently has_status "$N" running
	patiently sandlock exec "$N" true
	run sandlock exec "$N" /usr/bin/python3 -B net.py \
		connect tcp 127.0.0.1 "$a"
	expect_exactly ok
	run sandlock exec "$N" /usr/bin/python3 -B net.py \
		connect tcp 127.0.0.1 "$PORT"
	expect_output ECONNREFUSED
	came b 0
	sandlock kill "$N"
}

@test "net: what inspect prints is a profile with the same rules" {
	needs_hosts_file
	host_server a tcp
	sandlock run --on-error=abort --name "$N" --net-allow "TCP.example:1" \
		-- true >/dev/null 2>&1 || true
	sandlock run --on-error=abort --name "$N" \
		--net-allow "localhost:$PORT" --net-allow 'udp://[::1]:53' \
		--net-allow 10.1.2.3/8 --net-allow-bind 80,9000-9005 \
		--port-remap -- sleep 1000 >"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	patiently has_status "$N" running
	patiently sandlock inspect --toml "$N"
	sandlock inspect --toml "$N" >"$W/p.toml"
	run cat "$W/p.toml"
	expect_output "\"localhost:$PORT\", \"udp://[::1]:53\", \"10.0.0.0/8\""
	expect_output 'allow_bind = ["80,9000-9005"]'
	sandlock kill "$N"
	sandlock run --on-error=abort --name "$N" --profile-file "$W/p.toml" \
		-- sleep 1000 >"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	patiently has_status "$N" running
	patiently sandlock inspect --toml "$N"
	sandlock inspect --toml "$N" >"$W/q.toml"
	sandlock kill "$N"
	same "$W/p.toml" "$W/q.toml"
}

@test "net: an echo over remapped ports of UDP, by any call" {
	cat >echo.py <<-'END'
		import asyncio, os, socket

		def bound(port):
		    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		    s.bind(("127.0.0.1", port))
		    return s

		server, client = bound(7753), bound(7754)
		if not os.fork():
		    while True:
		        data, _, _, who = server.recvmsg(100)
		        server.sendmsg([data, b"!"], [], 0, who)
		client.sendto(b"one", ("127.0.0.1", 7753))
		print(client.recvmsg(100)[::3], flush=True)
		client.sendto(b"two", ("127.0.0.1", 7753))
		print(client.recvfrom(100), flush=True)
		client.sendto(b"three", ("127.0.0.1", 7753))
		print(client.recvmsg_into([bytearray(5), bytearray(9)])[::3], flush=True)
		client.connect(("127.0.0.1", 7753))
		client.send(b"four")
		print(client.recv(100), flush=True)
	END
	run sandlock run --on-exit=abort --port-remap \
		--net-allow 127.0.0.1 -- /usr/bin/python3 -B echo.py
	expect_output "(b'one!', ('127.0.0.1', 7753))"
	expect_output "(b'two!', ('127.0.0.1', 7753))"
	expect_output "(6, ('127.0.0.1', 7753))"
	expect_output "b'four!'"
}

@test "net: what was refused is on record with the rule that would allow it" {
	host_server a tcp
	sandlock run --on-error=abort --on-exit=abort --name "$N" \
		--net-allow icmp://* -- sh -c "/usr/bin/python3 -B net.py \
		connect tcp 127.0.0.1 $PORT; sleep 1000" \
		>"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	patiently grep -q ECONNREFUSED "$W/out"
	run sandlock why "$N" connect
	expect_output "--net-allow tcp://127.0.0.1:$PORT"
	sandlock kill "$N"
}

# The ID of the one question that is open.
question() {
	ID=$(sandlock approvals --json "$N" 2>/dev/null |
		jq -er 'first(.approvals[].approval.id)') && [ -n "$ID" ]
}

# asking PORT WORD...: net.py, which asks about all that has no rule.
asking() {
	sandlock run --on-exit=abort --on-error=abort --name "$N" \
		--ask=socket --ask-connect 127.0.0.1 "$@" \
		>"$W/out" 2>&1 </dev/null 3>&- &
	started $!
	RUNNER=$!
}

@test "net: what no rule says is asked about, and goes where the answer lets it" {
	host_server a tcp
	asking -- /usr/bin/python3 -B net.py connect tcp 127.0.0.1 "$PORT"
	patiently question
	question
	run sandlock approvals "$N"
	expect_output "connect to 127.0.0.1:$PORT"
	came a 0
	sandlock approve "$N" "$ID"
	wait "$RUNNER"
	equal out "$(cat "$W/out")" ok
	patiently came a 1
	asking -- /usr/bin/python3 -B net.py connect tcp 127.0.0.1 "$PORT"
	patiently question
	question
	sandlock deny "$N" "$ID"
	wait "$RUNNER"
	grep -qx EPERM "$W/out"
	came a 1
}

@test "net: what a rule allows is not asked about, and nobody is asked elsewhere" {
	host_server a tcp
	inside --ask=socket --ask-connect '*' --net-allow "127.0.0.1:$PORT" \
		-- connect tcp 127.0.0.1 "$PORT"
	expect_exactly ok
	inside --ask=never --ask-connect '*' -- connect tcp 127.0.0.1 "$PORT"
	expect_output EPERM
	inside --ask=socket --ask-connect 127.0.0.2 \
		-- connect tcp 127.0.0.1 "$PORT"
	expect_output ECONNREFUSED
	run sandlock run --ask-connect unix:/x -- true
	expect_output "nobody can be asked about a unix socket"
	patiently came a 1
}

@test "net: datagrams are asked about one by one" {
	host_server a udp
	asking -- /usr/bin/python3 -B net.py connect udp 127.0.0.1 "$PORT"
	patiently question
	question
	sandlock approve "$N" "$ID"
	wait "$RUNNER"
	equal out "$(cat "$W/out")" ok
	patiently came a 1
}

@test "net: under --chroot unix sockets and hosts are those inside" {
	mkdir -p root/{usr,etc,tmp,srv,dev,proc} out
	ln -s usr/bin usr/lib usr/lib64 root
	cp net.py root/srv
	host_server dir/root/srv/in unix
	host_server dir/out/sock unix
	python=(--fs-mount /usr:/usr:ro -w /srv -- /usr/bin/python3 -B
		/srv/net.py)
	chrooted() {
		run sandlock run --on-exit=abort --on-error=abort \
			--chroot "$W/dir/root" "$@"
	}
	chrooted --net-allow icmp://* "${python[@]}" unix /srv/in
	expect_exactly ok
	chrooted --net-allow icmp://* "${python[@]}" unix "$W/dir/out/sock"
	expect_output ENOENT
	chrooted --net-allow icmp://* "${python[@]}" \
		unix "../../../../..$W/dir/out/sock"
	expect_output ENOENT
	host_server a tcp
	chrooted --net-allow "localhost:$PORT" "${python[@]}" \
		connect tcp localhost "$PORT"
	expect_exactly ok
	run sandlock run --on-error=abort --chroot "$W/dir/root" --name "$N" \
		--net-allow localhost:1 --fs-mount /usr:/usr:ro -- \
		/usr/bin/cat /etc/hosts
	expect_output $'127.0.0.1\tlocalhost'
	equal branches "$(branches_json | jq length)" 0
}
