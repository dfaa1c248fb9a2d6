# What confines a command of the host, layer by layer (docs/threats.md).
load lib/common

setup() {
	begin
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# inside PROGRAM: as a shell script in a sandbox over $W/dir, nothing kept.
inside() {
	run sandlock run "${OPTIONS[@]}" --on-exit=abort --on-error=abort -- \
		/bin/sh -c "$1"
}

# python PROGRAM: call(nr, ...) makes a system call and returns its errno.
python() {
	cat >"$W/dir/try.py" <<-EOF
		import ctypes, os, socket, sys
		libc = ctypes.CDLL(None, use_errno=True)
		def call(*args):
		    ctypes.set_errno(0)
		    r = libc.syscall(*[ctypes.c_long(a) for a in args])
		    return 0 if r >= 0 else ctypes.get_errno()
		$1
	EOF
	run sandlock run "${OPTIONS[@]}" --on-exit=abort --on-error=abort -- \
		python3 try.py
}

# A line of the output matches, or none does.
line() {
	grep -qE "$1" <<<"$output" || {
		echo "no line matches: $1" >&2
		show_run >&2
		return 1
	}
}

no_line() {
	! grep -E "$1" <<<"$output" >&2
}

OPTIONS=()

# --------------------------------------------------- namespaces and mounts --

@test "confine: the system is read-only, its metadata too" {
	local before

	before=$(stat -c '%a %u %g %Y' /usr /etc/passwd)
	inside 'touch /usr/x; chmod 777 /etc/passwd; chown 1 /etc/passwd;
		touch -d 2001-01-01 /usr; mv /etc/passwd /etc/x; rm /etc/passwd;
		ln /etc/passwd /etc/y; echo x >>/etc/passwd; exit 0'
	expect_status 0
	equal metadata "$(stat -c '%a %u %g %Y' /usr /etc/passwd)" "$before"
	[ ! -e /usr/x ] && [ ! -e /etc/x ] && [ ! -e /etc/y ]
}

# What lies over a secret, and what a stream of the caller is, are devices of the
# host (times stand for modes here: should they be changed nobody is harmed).
@test "confine: devices and sockets of the host keep their metadata" {
	local before

	skip_unless_root
	[ -e /etc/shadow ] || skip "no /etc/shadow"
	python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$W/sock"
	before=$(stat -c '%n %a %u %Y' /dev/null "$W/sock")
	OPTIONS=(--net-allow "unix:$W/sock")
	inside "for f in /etc/shadow /proc/keys '$W/sock'; do
			touch -c -d @1 \$f && echo \"changed \$f\"
		done 2>&1
		echo x >/dev/null && cat /etc/shadow
		python3 -c 'import os
for fd in 0, 1, 2: os.utime(fd, (1, 1))' >&0 2>&0" </dev/null
	expect_status 0
	no_line '^changed'
	expect_output 'Read-only file system'
	# A descriptor that is only a place leads there as well.
	python3 -c 'import os, subprocess, sys
subprocess.run(sys.argv[1:], stdin=os.open("/dev/null", os.O_PATH))' \
		"${RT[@]}" run --on-exit=abort -- touch -c -d @1 /proc/self/fd/0
	equal metadata "$(stat -c '%n %a %u %Y' /dev/null "$W/sock")" "$before"
}

@test "confine: a directory is no standard stream" {
	run sandlock run --on-exit=abort -- true <"$W"
	expect_status 125
	expect_output 'standard stream 0 is a directory'
}

@test "confine: files outside of the view do not exist" {
	echo secret >"$W/outside"
	inside "cat '$W/outside'"
	expect_status 1
	expect_output 'No such file'
	inside "cat /proc/1/root/$W/outside /proc/self/root/$W/outside"
	expect_status 1
	no_line '^secret'
}

@test "confine: mounts cannot be changed" {
	inside 'umount /tmp; umount -l .; mount -t tmpfs t /tmp
		mount -o remount,rw,bind /usr; mount --bind /tmp /etc
		unshare -m true; unshare -Ur true; touch /usr/x; exit 0'
	expect_status 0
	[ ! -e /usr/x ]
	python 'print(call(165, 0, 0, 0, 0, 0), call(166, 0, 0), call(428, -1, 0, 0), call(430, 0, 0), call(442, -1, 0, 0, 0, 0))'
	expect_exactly "1 1 1 1 1"
}

@test "confine: processes of the host are not in sight" {
	inside 'ls /proc | grep -c "^[0-9]"'
	expect_status 0
	[ "$output" -lt 8 ]
	inside "kill -0 $$"
	expect_status 1
}

@test "confine: no network but its own loopback" {
	python 'import socket
print(socket.if_nameindex())
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname()); print("loopback works")
try: socket.create_connection(("192.0.2.1", 80), 3)
except OSError as e: print(e.errno)'
	expect_status 0
	expect_output "[(1, 'lo')]"
	line '^loopback works$'
	line '^101$'
}

@test "confine: abstract sockets of the host are out of reach" {
	python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind("\0" + sys.argv[1]); s.listen()
open(sys.argv[2], "w"); time.sleep(60)' "$N" "$W/listening" 3>&- &
	started $!
	eventually test -e "$W/listening"
	python "s = socket.socket(socket.AF_UNIX)
try: s.connect('\0$N'); print('connected')
except OSError as e: print(e.errno)"
	expect_exactly 111
}

@test "confine: a daemon with a session of its own dies with the sandbox" {
	inside 'setsid sh -c "sleep 1000; :" '"$N"' >/dev/null 2>&1 & sleep 0.2; exit 0'
	expect_status 0
	equal left "$(leaked_processes "${W##*.}")" ""
}

# ------------------------------------------------------------ capabilities --

@test "confine: no capability that reaches beyond files, none can come back" {
	inside 'grep -E "^(CapEff|CapPrm|CapBnd|CapInh|CapAmb|NoNewPrivs|Seccomp):" /proc/self/status'
	expect_status 0
	line '^NoNewPrivs:.1$'
	line '^Seccomp:.2$'
	# CAP_SYS_ADMIN is bit 21, CAP_SYS_PTRACE 19, CAP_NET_ADMIN 12.
	while read -r name mask; do
		case $name in
		Cap*) equal "$name" $((0x$mask & (1 << 21 | 1 << 19 | 1 << 12))) 0 ;;
		esac
	done <<<"$output"
}

# ----------------------------------------------------------------- seccomp --

@test "confine: clone3 is missing, threads and processes work" {
	python 'import subprocess, threading
print(call(435, 0, 0))
t = threading.Thread(target=lambda: print("thread")); t.start(); t.join()
print(subprocess.check_output(["echo", "process"]).decode().strip())'
	expect_status 0
	expect_exactly "38
thread
process"
}

@test "confine: no namespace of its own" {
	python 'print(call(272, 0x10000000), call(308, 0, 0), call(56, 0x10000011, 0, 0, 0, 0))'
	expect_exactly "1 1 1"
}

@test "confine: nothing is typed into a terminal" {
	python 'import pty, fcntl, termios
m, s = pty.openpty()
for request in termios.TIOCSTI, termios.TIOCSTI | 1 << 32, 0x541C:
    print(call(16, s, request, 0))'
	expect_exactly "1
1
1"
}

@test "confine: no process is traced or read" {
	python 'print(call(101, 16, 1, 0, 0), call(310, 1, 0, 0, 0, 0, 0), call(438, 0, 0, 0))
try: open("/proc/1/mem", "rb"); print("opened")
except OSError as e: print(e.errno)'
	expect_status 0
	[ "${lines[0]}" = "1 1 1" ]
	[ "${lines[1]}" = 13 ]
}

@test "confine: x32 and 32-bit calls kill" {
	[ "$(uname -m)" = x86_64 ] || skip "not x86_64"
	python 'call(39 | 0x40000000)'
	expect_status 159
}

@test "confine: kernel interfaces are gone" {
	python 'calls = dict(bpf=321, io_uring=425, perf=298, userfaultfd=323, keyctl=250, kexec=246, module=175, open_by_handle=304, syslog=103, clock_settime=227, swapon=167)
print([name for name in calls if call(calls[name], 0, 0, 0, 0, 0) != 1])'
	expect_exactly "[]"
}

@test "confine: sockets of unknown families cannot be made" {
	python 'for args in (40, 1, 0), (17, 3, 0), (2, 3, 1), (16, 3, 15), (16, 3, 0):
    print(call(41, *args))'
	expect_exactly "97
97
1
97
0"
}

@test "confine: groups of system calls can be allowed and denied" {
	OPTIONS=(--extra-allow-syscall debug)
	python 'print(call(101, 0, 0, 0, 0))'
	expect_exactly 0
	OPTIONS=(--extra-deny-syscall mkdir --extra-deny-syscall mkdirat)
	inside 'mkdir x'
	expect_status 1
	expect_output 'not permitted'
	OPTIONS=(--extra-allow-syscall mount)
	inside true
	expect_status 125
	expect_output "the system calls of 'mount' cannot be allowed"
	OPTIONS=(--extra-deny-syscall mkdirs)
	inside true
	expect_status 125
	expect_output "'mkdirs' is neither a system call nor a group"
}

# ---------------------------------------------------------------- landlock --

@test "confine: devices and procfs can be used, nothing is made there" {
	inside 'echo x >/dev/null && head -c1 /dev/zero | wc -c
		echo 1 >/proc/self/comm && echo written; : >/dev/new'
	line '^1$'
	line '^written$'
	expect_output '/dev/new: Permission denied'
}

@test "confine: private directories share a tmpfs, each with its mode, and / is none of them" {
	# shellcheck disable=SC2016
	inside 'stat -c %a /run /tmp /var/tmp "$HOME" | tr "\n" " "
		stat -c %d /run /tmp /var/tmp "$HOME" | sort -u | wc -l
		touch /tmp/a; ln /tmp/a /var/tmp/a 2>/dev/null || echo apart
		touch /here 2>/dev/null || touch /var/here 2>/dev/null ||
			echo read-only'
	expect_status 0
	expect_exactly "755 1777 1777 755 1
apart
read-only"
}

@test "confine: private and worked-in directories can be written to" {
	inside 'for d in . /tmp /var/tmp /dev/shm "$HOME"; do
		mkdir "$d/a" && echo x >"$d/a/f" && mkdir "$d/b" &&
		mv "$d/a/f" "$d/b/" && rm -r "$d/a" "$d/b" || echo "$d failed"
	done; echo done'
	expect_status 0
	expect_exactly "done"
}

@test "confine: a protection that is no name is refused" {
	OPTIONS=(--allow-degraded fs-refer,nothing)
	inside true
	expect_status 125
	expect_output "'nothing' is no protection"
	OPTIONS=(--disable signal-scope --disable=net-tcp)
	inside 'echo works'
	expect_exactly works
}

@test "confine: what exec adds is confined alike" {
	sandlock run --on-exit=abort --on-error=abort --name "$N" -- \
		sh -c 'echo >up; sleep 60' </dev/null >/dev/null 2>&1 3>&- &
	started $!
	eventually sandlock exec "$N" test -e up
	run sandlock exec "$N" grep -E '^(Seccomp|NoNewPrivs):' /proc/self/status
	expect_status 0
	line '^Seccomp:.2$'
	line '^NoNewPrivs:.1$'
	run sandlock exec "$N" sh -c 'unshare -U true; : >/dev/new'
	expect_output 'unshare failed'
	expect_output '/dev/new: Permission denied'
	sandlock kill "$N"
}

# ----------------------------------------------------------------- secrets --

@test "confine: secrets in the environment and in files are hidden" {
	export HOME=$W/home
	mkdir -p "$HOME/.ssh" "$HOME/.aws"
	echo key >"$HOME/.ssh/id_rsa"
	echo key >"$HOME/.aws/credentials"
	export GITHUB_TOKEN=t1 AWS_SECRET_ACCESS_KEY=t2 PLAIN=t3
	inside 'cat ~/.ssh/id_rsa ~/.aws/credentials /etc/shadow; env'
	no_line '^key'
	no_line '^root:'
	no_line 't[12]$'
	line '^PLAIN=t3$'
}

# ------------------------------------------------------------------- check --

@test "check: says what is there, and leaves nothing behind" {
	run sandlock check
	expect_status 0
	for name in kernel namespaces procfs overlay landlock seccomp \
		notification host-names cgroup pidfd runtime-directory store isolation; do
		line "^$name "
	done
	[ ! -e "$SANDLOCK_ROOT" ] && [ ! -e "$SANDLOCK_STORE" ]
	run sandlock check --format json
	jq -e '.schema == "sandlock.check/1" and .usable and .tier == "A"' \
		<<<"$output"
	jq -e '[.checks[] | select(.state != "ok" and .fix == null)] == []' \
		<<<"$output"
}

@test "check: what is missing is named with its fix, and is the status" {
	skip_unless_root
	# The checkout may be in a home that only its owner enters.
	cp "$SANDLOCK" "$W/program"
	run setpriv --reuid 65534 --regid 65534 --clear-groups \
		env SANDLOCK_STORE=/root/none "$W/program" check
	expect_status 1
	line "^store  *missing  *'/root/none' cannot be written to"
	expect_output 'fix:   set SANDLOCK_STORE'
}

@test "check: in a user namespace without a limit left it says so" {
	skip_unless_root
	run unshare -Ur --map-user=1000 sh -c "
		'$SANDLOCK' check; exit \$?"
	line '^user-namespace '
}

# without_call NUMBER COMMAND...: under a filter that answers it EOPNOTSUPP.
without_call() {
	/usr/bin/python3 - "$@" <<-'END'
		import ctypes, os, struct, sys
		libc = ctypes.CDLL(None, use_errno=True)
		insns = ((0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])),
		         (6, 0, 0, 0x50000 | 95), (6, 0, 0, 0x7FFF0000))
		code = ctypes.create_string_buffer(
		    b"".join(struct.pack("HBBI", *i) for i in insns))
		prog = ctypes.create_string_buffer(
		    struct.pack("HxxxxxxQ", len(insns), ctypes.addressof(code)))
		assert libc.prctl(38, 1, 0, 0, 0) == 0
		assert libc.prctl(22, 2, prog, 0, 0) == 0
		os.execvp(sys.argv[2], sys.argv[2:])
	END
}

@test "check: without Landlock it says of commands what a run says" {
	local -r landlock_create_ruleset=444

	refused 125 Landlock \
		without_call "$landlock_create_ruleset" "$SANDLOCK" run -- true
	run without_call "$landlock_create_ruleset" "$SANDLOCK" check
	expect_status 1
	line "^isolation  *limited  *tier A"
	expect_output "commands of the host do not"
}

@test "check --syscalls: prints the table" {
	run sandlock check --syscalls
	expect_status 0
	line '^clone3  *namespace  *ENOSYS$'
	sandlock check --syscalls --json |
		jq -e 'map(select(.name == "mount" and .errno == "EPERM")) | length == 1'
}
