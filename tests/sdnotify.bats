# NOTIFY_SOCKET: READY=1 of a bundle's program goes on to the service manager,
# as with runc.
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	MANAGER=$W/manager.sock
	manage "$MANAGER"
}

teardown() { finish; }

# A service manager: what it is told, one datagram a line; a barrier is let go,
# "asked" is ours.
manage() {
	rm -f "$W/told"
	python3 - "$1" >"$W/told" 3>&- <<-'END' &
		import array, os, socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.bind(sys.argv[1].replace("@", "\0"))
		print("listens", flush=True)
		while True:
		    text, fds, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(4))
		    if text != b"asked":
		        print(text.decode().strip(), flush=True)
		    for _, _, data in fds:
		        os.close(array.array("i", data)[0])
	END
	started $!
	eventually grep -q listens "$W/told"
}

# All that was sent until now: the manager lets us go after it.
told() {
	python3 - "$NOTIFY_SOCKET" <<-'END'
		import os, socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		r, w = os.pipe()
		s.connect(sys.argv[1].replace("@", "\0"))
		socket.send_fds(s, [b"asked"], [w])
		os.close(w)
		os.read(r, 1)
	END
	tail -n +2 "$W/told" | sed 's/MAINPID=[0-9]*$/MAINPID=N/' | paste -sd,
}

# say TEXT: a program of the bundle sends it.
say() {
	printf '%s' "probe notify '$1'"
}

@test "start: returns once it is ready; the manager hears that, and whom to watch" {
	export NOTIFY_SOCKET=$MANAGER
	script "echo \$NOTIFY_SOCKET; $(say STATUS=no); until [ -e /data/go ]; do sleep 0.1; done
		$(say 'X=1
READY=1
MAINPID=1'); sleep 1000"
	create "$N"
	sandlock start "$N" 3>&- &
	starter=$!
	eventually grep -qx /run/notify/notify.sock "$W/out"
	eventually has_status "$N" running
	equal told "$(told)" ""
	kill -0 "$starter"
	sandlock exec "$N" touch /data/go
	wait "$starter"
	equal told "$(told)" "READY=1,MAINPID=N,BARRIER=1"
	grep -qx "MAINPID=$(pid_of "$N")" "$W/told"
	# Nothing is in anybody's way while it waits, or after.
	sandlock kill "$N"
	sandlock delete "$N"
	[ ! -e "$W/run/$N" ]
	run sandlock diff "$N"
	expect_exactly "A data/go"
}

@test "start: returns when the program ends without a word" {
	export NOTIFY_SOCKET=$MANAGER
	set_args true
	create "$N"
	run sandlock start "$N"
	expect_status 0
	equal told "$(told)" ""
}

@test "start: another command can kill it while start waits" {
	export NOTIFY_SOCKET=$MANAGER
	script 'echo up; sleep 1000'
	create "$N"
	sandlock start "$N" 3>&- &
	starter=$!
	eventually grep -q up "$W/out"
	run sandlock kill "$N"
	expect_status 0
	wait "$starter"
}

@test "run --detach returns once it is ready" {
	export NOTIFY_SOCKET=$MANAGER
	script "$(say READY=1); sleep 1000"
	run_detached "$N" --branch=none
	equal told "$(told)" "READY=1,MAINPID=N,BARRIER=1"
	grep -qx "MAINPID=$(pid_of "$N")" "$W/told"
	sandlock delete --force "$N"
	[ ! -e "$W/run/$N" ]
	rm -rf "$R/run"
}

@test "run in the foreground: the manager goes on watching the run" {
	export NOTIFY_SOCKET=$MANAGER
	script "$(say READY=1); exit 3"
	run sandlock run -b "$B" "$N"
	expect_status 3
	equal told "$(told)" "READY=1"
	# What the runtime has made for it is no change.
	has_no_branch "$N"
}

@test "an abstract name, a payload of another user, and a user namespace" {
	skip_unless_root
	export NOTIFY_SOCKET=@$W/abstract
	manage "$NOTIFY_SOCKET"
	script "$(say READY=1)"
	config '.process.user = {uid: 1000, gid: 1000}
		| .linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	chown -R 100000:100000 "$R"
	run sandlock run -b "$B" "$N"
	expect_status 0
	equal told "$(told)" "READY=1"
}

@test "no NOTIFY_SOCKET, or a manager that is gone: nothing changes" {
	script 'echo "${NOTIFY_SOCKET-unset}"; ls /run 2>/dev/null'
	run sandlock run -b "$B" "$N"
	expect_exactly unset
	export NOTIFY_SOCKET=$W/nobody
	script "$(say READY=1); exit 4"
	run sandlock run -b "$B" "$N"
	expect_status 4
}

@test "what is mounted for it cannot be written to" {
	export NOTIFY_SOCKET=$MANAGER
	script 'echo x >/run/notify/x; rm -f /run/notify/notify.sock; ls /run/notify'
	run sandlock run -b "$B" "$N"
	expect_output "Read-only file system"
	expect_output "notify.sock"
	refute_output "notify/x$"
}
