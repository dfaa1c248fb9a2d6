# Bundles that an embedder makes, or that somebody is asked about:
# program.bundle of sandlock.toml(5).
load lib/common
load lib/embed
load lib/asking
load lib/asked_bundles

setup() { begin_asked; }

teardown() { finish; }

@test "asked bundle: verdicts, of paths and programs as they are inside" {
	verdicts_hold
}

@test "asked bundle: in a user namespace of its own, with a branch" {
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000,
			size: 65536}]
		| .linux.gidMappings = .linux.uidMappings
		| .process.user = {uid: 7, gid: 8}'
	chown -R 100000:100000 "$R"
	chmod 755 "$W"
	verdicts_hold
	config '.process.user = {uid: 0, gid: 0}'
	BRANCH=1 run policy later /tmp/y 0 -- \
		sh -c 'echo x >/tmp/y && probe rename /data /data2; id -u'
	expect_output 'event file openat /tmp/y'
	expect_output 'rename: ok'
	equal owner "$(stat -c %u "$R/tmp/y")" 100000
	[ -e "$R/data2/a" ]
}

@test "asked bundle: what exec starts is judged as well" {
	exec_joins
}

@test "asked bundle: handlers, and a filter of its own, which comes first" {
	run handle uname=errno:13 getppid=return:4242 -- \
		sh -c 'echo $PPID; uname -s || :'
	expect_output 4242
	expect_output 'called 2'
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", syscalls: [
		{names: ["getppid"], action: "SCMP_ACT_ERRNO", errnoRet: 1}]}'
	run handle getppid=return:4242 uname=return:0 -- \
		sh -c 'echo $PPID; uname -s'
	refute_output 4242
	refute_output Linux
	expect_output 'called 0'
	# Without the capability the kernel would refuse; the handler does not.
	run handle mount=return:0 -- probe mount none /tmp tmpfs 0
	expect_output 'mount: ok'
}

@test "asked bundle: a denied program is no interpreter either" {
	cp "$R/bin/busybox" "$R/data/echo"
	ln -s echo "$R/data/ln"
	printf '#!/data/echo\n' >"$R/data/s"
	printf '#!/data/s x' >"$R/data/of_s"
	printf '#! ln\n' >"$R/data/relative"
	printf '#!/bin/sh\necho fine\n' >"$R/data/sh"
	chmod 755 "$R/data/s" "$R/data/of_s" "$R/data/relative" "$R/data/sh"
	ONLY=/data/echo run policy deny-path /etc/passwd 0 -- \
		sh -c 'cd /data; cat /etc/passwd >/dev/null
			for s in s of_s relative sh; do ./$s it ran; done'
	refute_output 'it ran'
	expect_output './of_s: Permission denied'
	expect_output './relative: Permission denied'
	expect_output fine
	ONLY=/data/echo run policy deny-path /data/s 0 -- /data/s it ran
	expect_output 'permission denied'
}

@test "asked bundle: a descriptor is what it leads to" {
	script 'exec 3</data/a; echo "<$?>"
		for f in /proc/self/fd/3 /dev/fd/3 /proc/$$/fd/3; do
			echo written >$f || echo denied
		done
		ls /proc/self/task/$$/fd >/dev/null || echo denied; echo end'
	echo old >"$R/data/a"
	# Who is asked allows what only reads.
	printf '#!/bin/sh\n! grep -q "write .*/data/a"\n' >"$W/readers"
	chmod 755 "$W/readers"
	run sandlock run -b "$B" --ask "$W/readers" --ask-open /data/a \
		--on-exit abort "$N"
	expect_output $'<0>\n'
	[ "$(grep -c '^denied$' <<<"$output")" = 4 ]
	refute_output written
}

@test "asked bundle: what would get past a decision is refused" {
	config '.process.capabilities |= map_values(. + ["CAP_SYS_ADMIN"])'
	run policy sync env 0 -- sh -c 'probe mount none /tmp tmpfs 0
		probe syscall 425; probe unshare; exit 0'
	expect_output 'mount: EPERM'
	expect_output 'syscall: EPERM'
	expect_output 'unshare: EPERM'
	run handle getppid=return:1 -- probe unshare
	expect_output 'unshare: ok'
	# 32-bit calls have other numbers.
	run handle rename=continue -- probe rename32 /data/a /data/c
	expect_output 'signal 31'
}

@test "asked bundle: what cannot be judged is refused, with the reason" {
	config '.process.noNewPrivileges = false'
	run policy sync env 0 --
	expect_output 'process.noNewPrivileges is not true'
	config '.process.noNewPrivileges = true'
	drop_ns pid
	run policy sync env 0 --
	expect_output 'it has no pid namespace of its own'
	config '.linux.namespaces += [{type: "pid"}]
		| .linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW",
		listenerPath: "/agent", syscalls: [{names: ["swapon"],
		action: "SCMP_ACT_NOTIFY"}]}'
	run policy sync env 0 --
	expect_output 'linux.seccomp has a listener of its own'
	NET_ALLOW='*' run policy sync env 0 --
	expect_output '--net-allow is for a command of the host, not for a bundle'
}

@test "asked bundle: what is refused is on record, and why it would be" {
	script 'probe mount none /tmp tmpfs 0; cat /etc/passwd; echo >/data/new
		echo up; sleep 1000'
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", syscalls: [
		{names: ["getppid"], action: "SCMP_ACT_ERRNO", errnoRet: 1}]}'
	serve_bundle --ask-open /etc/passwd
	wait_for /etc/passwd
	sandlock deny "$N" "$ID"
	eventually grep -q up "$W/out"
	grep -q "mount: EPERM" "$W/out"
	run sandlock logs "$N"
	expect_output '[syscall.mount]'
	expect_output '/etc/passwd'
	run sandlock why "$N" unshare
	expect_output builtin:namespace
	run sandlock why "$N" getppid
	expect_output 'linux.seccomp: SCMP_ACT_ERRNO (EPERM)'
	run sandlock why "$N" getpid
	expect_output 'yes'
	sandlock kill "$N"
	# Kept beside the branch.
	run sandlock logs "$N"
	expect_output '[syscall.mount]'
	sandlock abort "$N"
}

@test "asked bundle: its own program, exit status and branch" {
	script 'echo mine; echo x >/data/new; exit 3'
	BRANCH=1 run policy sync execve 0 --
	expect_output 'event process execve /bin/busybox sh -c'
	expect_output mine
	expect_output 'exit 3'
	[ ! -e "$R/data/new" ]
}

@test "asked bundle: memory and processes are limited while it runs" {
	[ -e /sys/fs/cgroup/pids ] || grep -q pids \
		/sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
		skip "no pids controller"
	ONLY=2 run policy max-processes execve 0 -- \
		sh -c 'sleep 1000 & sleep 1000 & kill $!'
	expect_output 'limited 0'
	expect_output "can't fork"
}

@test "asked bundle: ask rules of the command line, answered by name" {
	script '/data/tool; echo "<$?>"; cat /etc/passwd'
	cp "$R/bin/busybox" "$R/data/true"
	printf '#!/bin/sh\necho tool ran\n' >"$R/data/tool"
	chmod 755 "$R/data/tool"
	serve_bundle --ask-exec /data/tool --ask-open /etc/passwd \
		--on-exit abort
	wait_for /data/tool
	sandlock deny "$N" "$ID"
	wait_for /etc/passwd
	sandlock approve "$N" "$ID"
	served
	grep -q '<126>' "$W/out"
	grep -q 'root:x:0:0' "$W/out"
	run sandlock run -b "$B" --ask=socket --profile x "$N"
	expect_output 'is for a command of the host, not for a bundle'
	run sandlock run -b "$B" --ask=socket --net-allow '*' "$N"
	expect_output 'is for a command of the host, not for a bundle'
}

@test "asked bundle: in the foreground the options of bundles hold" {
	jq '.process.args = ["sh", "-c",
		"grep \" / \" /proc/self/mountinfo; /data/tool; echo \"<$?>\""]' \
		"$B/config.json" >"$W/other.json"
	make_tool
	serve_bundle --ask-exec /data/tool --durable --keep --on-exit abort \
		--config "$W/other.json" --pid-file "$W/pid"
	wait_for /data/tool
	equal "the pid" "$(cat "$W/pid")" "$(head -n 1 "$W/run/$N/pid")"
	sandlock approve "$N" "$ID"
	served
	grep -q overlay "$W/out"
	grep -q '<0>' "$W/out"
	! grep volatile "$W/out"
	equal "the state" "$(sandlock state "$N" | jq -r .status)" stopped
	sandlock delete "$N"
}

@test "asked bundle: in the foreground it has the cgroup that was asked for" {
	script 'cat /proc/self/cgroup'
	run sandlock --cgroup-manager=disabled run -b "$B" --ask=socket \
		--ask-exec /data/tool --on-exit abort "$N"
	expect_status 0
	refute_output "$N"
}

@test "asked bundle: a profile names it below the home" {
	set_args echo hello
	# shellcheck disable=SC2016
	printf '[program]\nbundle = "${HOME}/%s"\n' "$(basename "$B")" \
		>"$W/p.toml"
	HOME=$(dirname "$B") run sandlock run --profile-file "$W/p.toml"
	expect_output hello
}

@test "asked bundle: created, it is answered by name until its waiter dies" {
	created_is_asked
}

@test "asked bundle: start fails where nobody is left to answer" {
	local waiter guard

	sandlock create "$N" -b "$B" --ask-exec /data/tool 3>&-
	waiter=$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")
	eventually pgrep -P "$waiter"
	guard=$(pgrep -P "$waiter")
	kill -STOP "$guard"
	kill -9 "$waiter"
	run sandlock start "$N"
	kill -CONT "$guard"
	expect_status 1
	expect_output 'was executed'
	eventually is_stopped
	sandlock delete "$N"
}

@test "asked bundle: detached, by annotations" {
	detached_is_asked
}

@test "asked bundle: its pid 1 rewrites what a child of it executes" {
	cat >"$R/data/peer.py" <<-'END'
		import ctypes, mmap, os, time
		libc = ctypes.CDLL(None, use_errno=True)
		memory = mmap.mmap(-1, 4096)
		path = ctypes.addressof(ctypes.c_char.from_buffer(memory))
		memory[:14] = b"/usr/bin/true\0"
		child = os.fork()
		if child == 0:
		    libc.execve(ctypes.c_void_p(path), (ctypes.c_char_p * 2)(b"x"), None)
		    print(os.strerror(ctypes.get_errno()), flush=True)
		    os._exit(3)
		while not open("/proc/%d/syscall" % child).read().startswith("59 "):
		    time.sleep(0.01)
		memory[:15] = b"/usr/bin/false\0"
		print("rewritten", flush=True)
		os.waitpid(child, 0)
	END
	mkdir -p "$R"/lib "$R"/lib64
	config '.mounts += [["/usr", "/usr"], ["/lib", "/usr/lib"],
		["/lib64", "/usr/lib64"] | {destination: .[0], type: "bind",
		source: .[1], options: ["rbind", "ro"]}]
		| .process.capabilities |= map_values(. + ["CAP_SYS_PTRACE"])'
	set_args /usr/bin/python3 /data/peer.py
	serve_bundle --ask-exec true --on-exit abort
	wait_for "run '"
	eventually grep -q rewritten "$W/out"
	# It would be in the hands of that one before anybody decides about it.
	run sandlock exec "$N" /usr/bin/true
	expect_output 'nobody could decide about what exec starts: with CAP_SYS_PTRACE'
	sandlock approve "$N" "$ID"
	served
	grep -q 'Operation not permitted' "$W/out"
}

@test "asked bundle: exec is refused where who may trace joined the pid namespace" {
	annotate io.sandlock.ask.exec /nothing
	set_args sleep 1000
	create_running "$N"
	sandlock exec "$N" true
	config 'del(.annotations)
		| .process.capabilities |= map_values(. + ["CAP_SYS_PTRACE"])
		| .linux.namespaces |= map(if .type == "pid" then .path = $p else . end)' \
		--arg p "/proc/$(pid_of "$N")/ns/pid"
	create_running "$N-joined"
	run sandlock exec "$N" true
	sandlock delete --force "$N-joined"
	expect_status 125
	expect_output "with CAP_SYS_PTRACE others in '$N' could"
}

@test "asked bundle: exec is refused where nobody is left to answer" {
	local waiter guard ask

	set_args sleep 1000
	for ask in "--ask-exec /data/tool" ""; do
		# shellcheck disable=SC2086
		sandlock create "$N" -b "$B" $ask 3>&-
		sandlock start "$N"
		waiter=$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")
		eventually pgrep -P "$waiter"
		guard=$(pgrep -P "$waiter")
		kill -STOP "$guard"
		kill -9 "$waiter"
		eventually is_gone "$waiter"
		run sandlock exec "$N" true
		kill -CONT "$guard"
		expect_status 125
		expect_output "cannot exec in '$N': its supervisor"
		expect_output "sandlock delete --force $N"
		eventually is_stopped
		sandlock delete "$N"
		# Nobody has told what its mount points had changed.
		sandlock abort "$N" 2>/dev/null || :
	done
}

@test "asked bundle: what network calls do is what the kernel would have done" {
	with_python
	network_is_the_kernels
	config '.process.capabilities |= map_values(. + ["CAP_NET_ADMIN"])'
	network_is_the_kernels
	grep -q '^change 2 0' "$W/kernel"
	config '.process.user = {uid: 7, gid: 8, additionalGids: [9]}'
	network_is_the_kernels
	grep -q '^low EACCES' "$W/kernel"
	grep -q '^pair ids (7, 8)' "$W/kernel"
	config '.process.capabilities.ambient =
		["CAP_NET_BIND_SERVICE", "CAP_NET_ADMIN"] |
		.process.capabilities.inheritable =
		.process.capabilities.ambient'
	network_is_the_kernels
	grep -q '^low ok' "$W/kernel"
	grep -q '^change 2 0' "$W/kernel"
}

@test "asked bundle: so it is in a user namespace of its own" {
	with_python
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000,
			size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	chown -R 100000:100000 "$R"
	chmod 755 "$W"
	network_is_the_kernels
	grep -q '^peer (0, 0) (0, 0)' "$W/kernel"
	grep -q '^low ok' "$W/kernel"
	config '.process.user = {uid: 7, gid: 8, additionalGids: [9]}
		| .process.capabilities |= map_values(. + ["CAP_NET_ADMIN"])'
	network_is_the_kernels
	grep -q '^peer (7, 8) (7, 8)' "$W/kernel"
	grep -q '^low EACCES' "$W/kernel"
}

@test "asked bundle: /proc/self in the name of a socket is the caller" {
	with_python
	config '.mounts += [{destination: "/proc", type: "proc", source: "proc"}]
		| .mounts |= unique_by(.destination)'
	cat >"$R/bin/own.py" <<-'END'
		import errno, os, socket
		def outcome(f, *args):
		    try:
		        f(*args)
		        return "ok"
		    except OSError as e:
		        return errno.errorcode[e.errno]
		def new(kind=socket.SOCK_DGRAM):
		    return socket.socket(socket.AF_UNIX, kind)
		d = os.open("/tmp", os.O_RDONLY)
		os.chdir("/tmp")
		print("bind", outcome(new().bind, f"/proc/self/fd/{d}/s"))
		s = new()
		s.bind("/tmp/t")
		for path in (f"self/fd/{d}/t", "self/cwd/t", "thread-self/cwd/t",
		             "self/cwd/" + "x" * 80, "self/none", "self/"):
		    print(outcome(new().connect, "/proc/" + path),
		          outcome(new().sendto, b"x", "/proc/" + path))
	END
	set_args /usr/bin/python3 /bin/own.py
	run sandlock run -b "$B" --on-exit=abort --on-error=abort "$N"
	printf '%s\n' "$output" | grep -v '^sandlock: ' >"$W/kernel"
	equal kernel "$(head -n 4 "$W/kernel" | xargs)" \
		'bind ok ok ok ok ok ok ok'
	rm -rf "$R"/tmp/*
	run policy sync nothing 0 --
	printf '%s\n' "$output" | grep -v -e '^exit' -e '^freed' >"$W/judged"
	diff "$W/kernel" "$W/judged"
}

@test "asked bundle: verdicts about its network" { network_verdicts_hold; }

@test "asked bundle: destinations are asked about by name" {
	destinations_are_asked
}

@test "asked bundle: sockets that nobody can decide about are refused" {
	config '.process.capabilities |= map_values(. + ["CAP_NET_RAW"])'
	with_python
	sockets_of '17,3 2,3,1 2,1,132 2,1,262 40,1 16,3,9 16,3' >"$R/bin/s.py"
	set_args /usr/bin/python3 /bin/s.py
	run sandlock run -b "$B" --ask=never --ask-connect '*' "$N"
	equal sockets "$(grep -v sandlock: <<<"$output" | xargs)" \
		'EAFNOSUPPORT EPERM EPROTONOSUPPORT EPROTONOSUPPORT EAFNOSUPPORT EAFNOSUPPORT ok'
	# Nor may they come by way of another namespace.
	run policy sync nothing 0 -- probe unshare
	expect_output EPERM
	set_args probe unshare
	config '.process.capabilities |= map_values(. + ["CAP_SYS_ADMIN"])'
	run sandlock run -b "$B" --ask=never --ask-connect 192.0.2.1 "$N"
	expect_output EPERM
}

@test "asked bundle: a network that nobody can be asked about is refused" {
	run -125 sandlock run -b "$B" --ask=never --ask-connect example.org:1 "$N"
	expect_output "a bundle looks up 'example.org' by itself"
	annotate io.sandlock.landlock yes
	run -125 sandlock run -b "$B" --ask=never --ask-connect '*' "$N"
	expect_output 'would not be held to io.sandlock.landlock'
	# A callback decides about all else then, and is told of no connection;
	# what it takes away of the network it cannot have.
	script 'nc -w 1 127.0.0.1 9 </dev/null; cat /data/a'
	run policy sync network 0 --
	expect_output one
	refute_output 'event network'
	ONLY='192.0.2.1' run policy restrict busybox 0 --
	expect_output 'exit 9'
	refute_output one
}
