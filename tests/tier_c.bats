# Tier C: commands of the host where no namespaces can be made.
load lib/common
load lib/running

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	mkdir "$W/dir" "$W/other"
	cd "$W/dir" || return 1
	echo secret >"$W/other/secret"
}

teardown() {
	cd "$W" || return 1
	finish
}

# notify [OPTION...] -- COMMAND...
notify() {
	run sandlock run --isolation=notify --branch=none "$@"
}

inside() {
	notify -w "$W/dir" -- /bin/sh -c "$1"
}

py() {
	notify -w "$W/dir" -- /usr/bin/python3 -B -c "
import os, socket
def attempt(name, fn):
    try:
        print(name, 'done', fn())
    except OSError as e:
        print(name, e.strerror)
$1"
}

# A process of this user outside, for $OUT.
outsider() {
	sleep 1000 3>&- &
	OUT=$!
	STARTED+=("$OUT")
}

end_outsider() {
	kill "$OUT"
	wait "$OUT" || true
}

# ----------------------------------------------------------------- tier --

@test "tier C: a command runs, and state and inspect say how" {
	notify -- echo hello
	expect_status 0
	expect_exactly hello
	sandlock run --isolation=notify --branch=none --name "$N" -- \
		sleep 1000 3>&- &
	STARTED+=($!)
	eventually has_status "$N" running
	[ "$(sandlock state "$N" | jq -r '.annotations["io.sandlock.isolation"]')" = notify ]
	sandlock inspect "$N" >"$W/inspect"
	jq -e '.in_force.tier == "C" and .in_force.namespaces == [] and
		(.in_force.paths | map(select(.path == "/usr")) | length) == 1' \
		"$W/inspect"
	sandlock kill "$N"
}

@test "tier C: with namespaces state says that" {
	sandlock run --branch=none --name "$N" -- sleep 1000 3>&- &
	STARTED+=($!)
	eventually has_status "$N" running
	[ "$(sandlock state "$N" | jq -r '.annotations["io.sandlock.isolation"]')" = namespaces ]
	sandlock kill "$N"
}

@test "tier C: it is taken where namespaces are refused" {
	command -v bwrap >/dev/null || skip "no bwrap"
	run bwrap --unshare-user --disable-userns --cap-drop ALL --bind / / --dev-bind /dev /dev \
		--proc /proc -- "$SANDLOCK" run --branch=none -- readlink /proc/self/ns/pid
	expect_status 0
	expect_exactly "$(readlink /proc/self/ns/pid)"
	run bwrap --unshare-user --disable-userns --cap-drop ALL --bind / / --dev-bind /dev /dev \
		--proc /proc -- "$SANDLOCK" check --format json
	expect_status 0
	jq -e '.tier == "C" and .usable' <<<"$output"
}

# contained ARG...: sandlock with the filter of a container.
contained() {
	local drop=()

	[ "$(id -u)" -ne 0 ] || drop=(setpriv --bounding-set=-sys_admin
		--inh-caps=-all)
	run /usr/bin/python3 -B "$BATS_TEST_DIRNAME/helpers/contained.py" \
		"${drop[@]}" "$SANDLOCK" "$@"
}

@test "tier C: it is taken in a container, with what its filter leaves" {
	contained run --branch=none -w "$W/dir" -- /bin/sh -c \
		'echo x >f; chmod 640 f; (setsid sleep 1005 &); cat f; exit 3'
	expect_status 3
	expect_exactly x
	[ "$(stat -c %a f)" = 640 ]
	contained run --branch=none -- /usr/bin/python3 -c '
import socket
try: socket.socket().connect(("127.0.0.1", 9))
except PermissionError: print("refused")'
	expect_exactly refused
	contained run --branch=none --net-allow 127.0.0.1:9 -- true
	expect_status 125
	expect_output pidfd_getfd
	contained run --isolation=namespaces --branch=none -- true
	expect_status 125
}

@test "tier C: exit statuses are the command's" {
	inside 'exit 7'
	expect_status 7
	inside 'kill -SEGV $$'
	expect_status 139
	inside 'kill -KILL $$'
	expect_status 137
	notify -- /nonexistent
	expect_status 127
	notify -- /etc/passwd
	expect_status 126
}

@test "tier C: what it cannot keep is refused with the option and the next step" {
	: >"$W/dir/no"
	while read -r expected args; do
		# shellcheck disable=SC2086
		notify $args -- true
		expect_status 125
		expect_output "${expected//\~/ }"
		expect_output hint:
	done <<-END
		--no-supervisor --no-supervisor
		--chroot --chroot $W/dir
		--user --user 4:4
		sysv_ipc --extra-allow-syscall sysv_ipc
		io_uring --extra-allow-syscall io_uring
		signal-scope --disable signal-scope
		-w~'/' -w /
		'$W/dir/no'~in~it -w $W/dir --fs-deny $W/dir/no
	END
}

# ----------------------------------------------------------------- files --

@test "tier C: only what rules allow is read or written" {
	inside "cat '$W/other/secret'; echo x >'$W/other/new'; ls '$W/other'
		echo y >f && cat f; rm f; mkdir d && rmdir d; ls /usr/bin >/dev/null
		echo z >/dev/null; : >/etc/new; ln /etc/passwd p; mv /etc/passwd ."
	expect_output "cat: $W/other/secret: Permission denied"
	expect_output "cannot create $W/other/new: Permission denied"
	expect_output "ls: cannot open directory '$W/other': Permission denied"
	expect_output '/etc/new: Permission denied'
	expect_output y
	[ -z "$(ls "$W/dir")" ]
	[ "$(ls "$W/other")" = secret ]
}

@test "tier C: a denied path is left out of what may be read" {
	mkdir -p "$W/tree/a/b" "$W/tree/c"
	echo 1 >"$W/tree/a/b/denied"
	echo 2 >"$W/tree/a/b/seen"
	echo 3 >"$W/tree/c/seen"
	notify -r /usr -r /bin -r /lib -r "$W/tree" --fs-deny "$W/tree/a/b/denied" -- \
		/bin/sh -c "cd '$W/tree'; cat a/b/seen c/seen; ls a/b; cat a/b/denied"
	expect_output $'2\n3\ndenied\nseen'
	expect_output 'a/b/denied: Permission denied'
}

@test "tier C: what only its owner may see is not metadata of others to change" {
	py "
s = '$W/other/secret'
attempt('chmod', lambda: os.chmod(s, 0o777))
attempt('fchmodat', lambda: os.chmod('secret', 0o777, dir_fd=os.open('$W/other', os.O_PATH)))
attempt('chown', lambda: os.chown(s, os.getuid(), os.getgid()))
attempt('utime', lambda: os.utime(s, (1, 1)))
attempt('setxattr', lambda: os.setxattr(s, 'user.x', b'1'))
attempt('removexattr', lambda: os.removexattr(s, 'user.x'))
attempt('fchmod', lambda: os.fchmod(os.open('/etc/passwd', os.O_RDONLY), 0o777))
attempt('link', lambda: (os.symlink(s, 'l'), os.chmod('l', 0o777)))
attempt('self', lambda: os.chmod('/proc/self/root' + s, 0o777))"
	for call in chmod fchmodat chown utime setxattr removexattr fchmod link; do
		expect_output "$call Read-only file system"
	done
	expect_output 'self Permission denied'
	[ "$(stat -c %a "$W/other/secret")" = "$(printf %o $((0666 & ~$(umask))))" ]
}

@test "tier C: metadata of what may be written is the command's" {
	py "
open('f', 'w').write('x')
fd = os.open('f', os.O_RDWR)
os.chmod('f', 0o751); print(oct(os.stat('f').st_mode))
os.fchmod(fd, 0o640); print(oct(os.stat('f').st_mode))
os.chmod('/proc/self/fd/%d' % fd, 0o600); print(oct(os.stat('f').st_mode))
os.chown('f', os.getuid(), os.getgid())
os.utime('f', (1, 2)); print(os.stat('f').st_mtime)
os.utime(fd, (1, 3)); print(os.stat('f').st_mtime)
os.symlink('f', 'l'); os.utime('l', (1, 4), follow_symlinks=False)
print(os.lstat('l').st_mtime, os.stat('f').st_mtime)
os.setxattr('f', 'user.x', b'abc'); print(os.getxattr(fd, 'user.x'))
os.removexattr(fd, 'user.x'); print(os.listxattr('f'))
attempt('missing', lambda: os.chmod('nowhere', 0o777))
attempt('empty', lambda: os.chmod('', 0o777))
attempt('bad', lambda: os.fchmod(99, 0o777))"
	expect_status 0
	expect_exactly "0o100751
0o100640
0o100600
2.0
3.0
4.0 3.0
b'abc'
[]
missing No such file or directory
empty No such file or directory
bad Bad file descriptor"
}

@test "tier C: its TMPDIR is its own and goes with it" {
	inside 'echo "$TMPDIR"; echo x >"$TMPDIR/x"; mkdir -p "$TMPDIR/a/b"; chmod 0 "$TMPDIR/a"
		mkdir -p "$TMPDIR/meta.json/meta.json"; echo y >"$TMPDIR/meta.json/y"'
	expect_status 0
	[[ $output == /*/sandlock-tmp.* ]]
	[ ! -e "$output" ]
}

@test "tier C: a run that is killed at any step leaves no TMPDIR" {
	local call step n=0

	command -v strace >/dev/null || skip "strace is not installed"
	mkdir "$W/tmp"
	for call in mkdir socketpair renameat; do
		for step in $(seq 10); do
			TMPDIR=$W/tmp timeout 20 strace -qq -o /dev/null \
				-e trace="$call" \
				-e inject="$call:signal=KILL:when=$step" \
				"$SANDLOCK" run --isolation=notify \
				--branch=none -r / --name "$N$call$step" \
				-- true 2>/dev/null 3>&- && break
			n=$((n + 1))
		done
		[ "$step" -lt 10 ]
	done
	[ "$n" -gt 4 ]
	# What is younger may still be being made.
	sleep 2.5
	sandlock list -q
	equal left "$(ls -A "$W/tmp" "$SANDLOCK_ROOT")" "$(
		printf '%s:\n\n%s:' "$SANDLOCK_ROOT" "$W/tmp")"
}

@test "tier C: the store and the runtime directory are out of reach" {
	mkdir -p "$SANDLOCK_STORE"
	notify -r / -- /bin/sh -c "ls '$SANDLOCK_STORE' '$SANDLOCK_ROOT'"
	expect_output "'$SANDLOCK_STORE': Permission denied"
	expect_output "'$SANDLOCK_ROOT': Permission denied"
	notify -w "$W" -- true
	expect_status 125
	expect_output "sandlock's own"
}

# ------------------------------------------------------------- processes --

@test "tier C: nobody outlives the command" {
	inside "set $N"'; setsid sh -c "while :; do sleep 1000; done" $1 >/dev/null 2>&1 &
		setsid sh -c "sleep 1000; :" $1 >/dev/null 2>&1 &
		(setsid sh -c "trap \"\" TERM HUP; sleep 1000; :" $1 >/dev/null 2>&1 &)
		exit 3'
	expect_status 3
	equal left "$(leaked_processes "${W##*.}")" ""
}

@test "tier C: at the end of the time everything dies" {
	notify -t 1 -- /bin/sh -c '(setsid sleep 1003 &); sleep 1003'
	expect_status 124
}

@test "tier C: the death of the run, or of its guard, is the death of all" {
	local run guard scratch inside_pids
	for victim in run guard; do
		"$SANDLOCK" run --isolation=notify --branch=none --name "$N-$victim" -- \
			/bin/sh -c '(setsid sleep 1004 &); sleep 1004' 3>&- &
		run=$!
		STARTED+=("$run")
		eventually started_inside "$N-$victim" 3
		guard=$(sandlock state "$N-$victim" | jq .pid)
		scratch=$(jq -r .scratch "$SANDLOCK_ROOT/$N-$victim/state.json")
		[ -d "$scratch" ]
		inside_pids=$(sandlock ps -f json "$N-$victim" | jq '.[]')
		[ "$victim" = run ] && kill -KILL "$run" || kill -KILL "$guard"
		wait "$run" || true
		for p in $inside_pids $guard; do
			eventually is_dead "$p"
		done
		# Of a run that was killed by the next verb that looks.
		eventually is_cleared "$scratch"
	done
}

is_cleared() {
	sandlock ps >/dev/null
	[ ! -e "$1" ]
}

started_inside() {
	[ "$(sandlock ps -f json "$1" 2>/dev/null | jq length)" = "$2" ]
}

is_dead() {
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

@test "tier C: processes of the same user outside are out of reach" {
	outsider
	py "
p = $OUT
attempt('kill', lambda: os.kill(p, 9))
attempt('guard', lambda: os.kill(os.getppid(), 9))
attempt('environ', lambda: open('/proc/%d/environ' % p).read())
attempt('fds', lambda: os.readlink('/proc/%d/fd/0' % p))
attempt('oom', lambda: open('/proc/%d/oom_score_adj' % p, 'w'))
attempt('affinity', lambda: os.sched_setaffinity(p, {0}))
attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, p, 19))
attempt('user', lambda: os.setpriority(os.PRIO_USER, 0, 19))
import resource
attempt('prlimit', lambda: resource.prlimit(p, resource.RLIMIT_CPU, (1, 1)))
attempt('own', lambda: os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0)))
attempt('all', lambda: os.kill(-1, 0))"
	for what in kill guard affinity priority user prlimit; do
		expect_output "$what Operation not permitted"
	done
	for what in environ fds oom; do
		expect_output "$what Permission denied"
	done
	expect_output 'own done'
	kill -0 "$OUT"
	end_outsider
}

@test "tier C: signals go to the command" {
	"$SANDLOCK" run --isolation=notify --branch=none -w "$W/dir" --name "$N" -- \
		/bin/sh -c 'trap "echo got >f; exit 5" TERM; : >ready; while :; do sleep 0.1; done' 3>&- &
	local run=$!
	STARTED+=("$run")
	eventually test -e ready
	kill -TERM "$run"
	local status=0
	wait "$run" || status=$?
	[ "$status" = 5 ]
	[ "$(cat f)" = got ]
}

@test "tier C: it is killed by name" {
	sandlock run --isolation=notify --branch=none --name "$N" -- \
		sleep 1000 3>&- &
	STARTED+=($!)
	eventually has_status "$N" running
	sandlock kill "$N"
	run sandlock state "$N"
	[ "$status" -ne 0 ]
}

# --------------------------------------------------------------- network --

@test "tier C: no rule means no network, of any family" {
	py "
for name, family, kind in (('tcp', 2, 1), ('udp', 2, 2), ('tcp6', 10, 1), ('udp6', 10, 2)):
    a = ('127.0.0.1' if family == 2 else '::1', 9)
    attempt(name + '-connect', lambda: socket.socket(family, kind).connect(a))
    attempt(name + '-bind', lambda: socket.socket(family, kind).bind((a[0], 8099)))
    if kind == 2:
        attempt(name + '-send', lambda: socket.socket(family, kind).sendto(b'x', a))
attempt('listen', lambda: socket.socket().listen(1))
attempt('packet', lambda: socket.socket(17, 3))
attempt('vsock', lambda: socket.socket(40, 1))
attempt('raw', lambda: socket.socket(2, 3, 1))
attempt('alg', lambda: socket.socket(38, 5))
attempt('uevent', lambda: socket.socket(16, 3, 15))
attempt('abstract', lambda: socket.socket(1).connect('\0nobody'))"
	! grep -q ' done' <<<"$output" || false
	expect_output 'tcp-connect Connection refused'
	expect_output 'udp-bind Permission denied'
	expect_output 'listen Permission denied'
	expect_output 'vsock Address family not supported'
}

@test "tier C: what rules allow is reached" {
	notify --net-allow 127.0.0.1:18931 --net-allow-bind 18931 -- /usr/bin/python3 -c '
import socket
s = socket.create_server(("127.0.0.1", 18931))
c = socket.create_connection(("127.0.0.1", 18931))
s.accept()[0].sendall(b"hello")
print(c.recv(5))'
	expect_status 0
	expect_exactly "b'hello'"
}

@test "tier C: a name in a rule is pinned, and resolved from the file with it" {
	notify --net-allow localhost:18932 --net-allow-bind 18932 -- /usr/bin/python3 -c '
import os, socket
s = socket.create_server(("127.0.0.1", 18932))
c = socket.create_connection(("localhost", 18932))
own = open("/etc/hosts").read()
other = os.readlink("/proc/self/fd/%d" % os.open("/etc/hosts", os.O_RDONLY))
print(own.splitlines()[0].split()[1], other)
os.write(os.open("/etc/hosts", os.O_RDONLY), b"x")' || true
	expect_output 'localhost /memfd:hosts'
	expect_output 'Bad file descriptor'
	notify --net-allow nowhere.invalid:80 -- true
	expect_status 125
	expect_output nowhere.invalid
}

@test "tier C: a unix socket of the host takes a rule, one of its own does not" {
	/usr/bin/python3 -c "
import socket, time
s = socket.socket(socket.AF_UNIX)
s.bind('$W/other/s'); s.listen(8)
time.sleep(1000)" 3>&- &
	OUT=$!
	STARTED+=("$OUT")
	eventually test -S "$W/other/s"
	py "
own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(1)
attempt('own', lambda: socket.socket(socket.AF_UNIX).connect('own'))
attempt('host', lambda: socket.socket(socket.AF_UNIX).connect('$W/other/s'))
attempt('made', lambda: socket.socket(socket.AF_UNIX).bind('$W/other/t'))"
	expect_output 'own done'
	expect_output 'host Permission denied'
	expect_output 'made Permission denied'
	notify --net-allow "unix:$W/other/s" -- /usr/bin/python3 -c "
import socket
socket.socket(socket.AF_UNIX).connect('$W/other/s'); print('done')"
	expect_exactly 'done'
	end_outsider
}

@test "tier C: nothing inside uses the control socket" {
	py "
import glob
for p in glob.glob('$SANDLOCK_ROOT/*/control.sock') + ['$SANDLOCK_ROOT/$N/control.sock']:
    attempt('control', lambda: socket.socket(socket.AF_UNIX).connect(p))"
	! grep -q ' done' <<<"$output" || false
	notify --net-allow "unix:$SANDLOCK_ROOT/x/control.sock" -- true
	expect_status 125
}

@test "tier C: children that a shell left us are not waited for" {
	# shellcheck disable=SC2016
	run timeout 9 sh -c 'sleep 60 >/dev/null 2>&1 3>&- &
		echo $! >"$1"; shift; exec "$@"' - \
		"$W/stranger" "$SANDLOCK" run --isolation=notify --branch=none -- \
		/bin/sh -c 'setsid sleep 50 & exit 3'
	expect_status 3
	kill "$(cat "$W/stranger")"
}

# ------------------------------------------------------------- questions --

@test "tier C: rules that ask hold here, too" {
	notify --ask-exec date --ask=never -- /bin/sh -c 'date; /usr/bin/env echo ok'
	expect_status 0
	expect_output 'date: Operation not permitted'
	expect_output ok
	# The search of a user's $PATH goes on where he may not look.
	notify --ask-exec date --ask=never --env "PATH=/root/bin:$PATH" -- \
		/bin/sh -c '/usr/bin/env echo ok'
	expect_status 0
	notify --ask-open /etc/hostname --ask=never -- /bin/sh -c \
		'cat /etc/hostname; cat /etc/passwd >/dev/null && echo ok'
	expect_output '/etc/hostname: Operation not permitted'
	expect_output ok
}

@test "tier C: on a terminal it has one of its own" {
	command -v script >/dev/null || skip "no script"
	run env script -qec "$SANDLOCK run --isolation=notify --branch=none -- \
		/bin/sh -c 'test -t 0 && echo x >/dev/tty && exit 4'" /dev/null </dev/null
	expect_status 4
	expect_output x
}

# ---------------------------------------------------------------- limits --

@test "tier C: processes are counted by sandbox" {
	outsider
	notify -P 4 -- /bin/sh -c 'for i in 1 2 3 4 5 6; do sleep 1 & done; wait'
	[ "$status" -ne 0 ]
	expect_output fork
	notify -P 10 -- /bin/sh -c 'for i in 1 2 3 4 5 6; do sleep 0.1 & done; wait; echo all'
	expect_status 0
	expect_exactly all
	end_outsider
}

@test "tier C: memory is the sandbox's own" {
	# An ordinary user has no cgroup anyway, unless one was delegated.
	local with=()
	[ "$(id -u)" -ne 0 ] || with=(without_cgroups)
	run "${with[@]}" sandlock run --isolation=notify --branch=none -m 100M -- \
		/usr/bin/python3 -c 'bytearray(300 << 20)'
	expect_status 1
	expect_output MemoryError
	run "${with[@]}" sandlock run --isolation=notify --branch=none -m 100M -- \
		/bin/sh -c 'for i in 1 2 3; do python3 -c "
import time
x = bytearray(60 << 20); time.sleep(5)" & done; wait; echo end'
	expect_output "out of memory: of '"
}
