# Tier C: exec, whose processes the guard clones (sandbox/guard.h).
load lib/common
load lib/running

setup() {
	begin
	only_sandlock
	skip_unless_tier_c
	mkdir -p "$W/dir/d"
	cd "$W/dir" || return 1
	echo one >one
	echo secret >"$W/secret"
	echo key >d/key
}

teardown() {
	cd "$W" || return 1
	finish
}

# up [OPTION...] -- COMMAND...: runs as $N, and waits for the file "up" of its branch.
up() {
	"$SANDLOCK" run --isolation=notify --on-exit=keep --name "$N" "$@" 3>&- &
	RUN=$!
	STARTED+=("$RUN")
	eventually sandlock exec "$N" test -e up
}

down() {
	sandlock kill "$N" KILL
	wait "$RUN" || true
}

run_exec() {
	run sandlock exec "$@"
}

@test "tier C: exec is in the same branch, with the same environment" {
	up -- /bin/sh -c 'mkdir n; cp /bin/echo n/e; echo new >n/f; echo 2 >>one; : >up; sleep 1000'
	run_exec "$N" /bin/sh -c 'pwd; cat one n/f; n/e ran; echo exec >by; echo "$TMPDIR"; exit 7'
	expect_status 7
	expect_output "$W/dir"$'\none\n2\nnew\nran\n/'
	[ "$(cat one)" = one ]
	run_exec --cwd "$W/dir/n" -e A=b "$N" ./e there
	expect_exactly there
	run_exec --cwd "$W/dir/n" -e A=b "$N" /bin/sh -c 'pwd; cat ../by; echo $A'
	expect_exactly "$W/dir/n"$'\nexec\nb'
	run sandlock diff "$N"
	expect_output 'A by'
	down
}

@test "tier C: exec ends as its program does, or says why there is none" {
	up -- /bin/sh -c ': >up; sleep 1000'
	run_exec "$N" /bin/sh -c 'kill -SEGV $$'
	expect_status 139
	run_exec -e PATH=/usr/bin:/bin "$N" nosuch
	expect_status 127
	expect_output 'executable file not found'
	run_exec "$N" ./one
	expect_status 126
	run_exec "$N" ./d
	expect_status 126
	run_exec --cwd /nowhere "$N" true
	expect_status 125
	expect_output "'/nowhere'"
	run sandlock exec "$N" cat <<<through
	expect_exactly through
	[ "$(sandlock exec "$N" /bin/sh -c 'echo out; echo err >&2' 2>/dev/null)" = out ]
	down
}

@test "tier C: exec is confined as the command is" {
	mkfifo "$W/ready"
	up --fs-deny "$W/dir/d/key" -- /bin/sh -c ': >up; sleep 1000'
	echo lower >d/more
	run_exec "$N" /usr/bin/python3 -B -c "
import os, socket
def attempt(name, fn):
    try:
        print(name, 'done', fn())
    except OSError as e:
        print(name, e.strerror)
attempt('secret', lambda: open('$W/secret').read())
attempt('denied', lambda: open('d/key').read())
attempt('outside', lambda: open('$W/new', 'w'))
attempt('chmod', lambda: os.chmod('$W/secret', 0o777))
attempt('tcp', lambda: socket.socket().connect(('127.0.0.1', 9)))
attempt('guard', lambda: os.kill(os.getppid(), 9))
attempt('runner', lambda: os.kill($RUN, 9))
attempt('run', lambda: open('/proc/$RUN/environ').read())
attempt('store', lambda: os.listdir('$SANDLOCK_STORE'))
attempt('control', lambda: socket.socket(socket.AF_UNIX).connect('$SANDLOCK_ROOT/$N/control.sock'))
attempt('mount', lambda: os.unshare(0x20000) if hasattr(os, 'unshare') else None)
print('nnp', open('/proc/self/status').read().split('NoNewPrivs:')[1].split()[0])
print('fds', sorted(map(int, os.listdir('/proc/self/fd')))[:3], len(os.listdir('/proc/self/fd')))
print('umask %o' % os.umask(0))"
	for how in secret denied outside store guard runner run; do
		refute_output "$how done"
	done
	expect_output 'secret Permission denied'
	expect_output 'denied Permission denied'
	expect_output 'chmod Read-only file system'
	expect_output 'tcp Connection refused'
	expect_output 'guard Operation not permitted'
	refute_output 'control done'
	expect_output 'nnp 1'
	expect_output 'fds [0, 1, 2] 4'
	kill -0 "$RUN"
	run sandlock logs --json "$N"
	jq -e '.denials[] | select(.object == "'"$W/dir/d/key"'") | .program == "python3"' <<<"$output"
	down
}

@test "tier C: nothing inside looks into, or stops, what exec is about to start" {
	up -- /usr/bin/python3 -B -c "
import glob, os, time
open('up', 'w').close()
own = os.getpid()
while not os.path.exists('stop'):
    for p in glob.glob('/proc/[0-9]*'):
        pid = int(p[6:])
        if pid <= own:
            continue
        for what in ('mem', 'environ', 'fd/0', 'root/etc', 'cwd/one'):
            try:
                os.close(os.open(p + '/' + what, os.O_RDONLY))
                print('leak', what, flush=True)
            except OSError:
                pass
        try:
            os.kill(pid, 9)
            print('killed', flush=True)
        except OSError:
            pass
" >"$W/log"
	for i in $(seq 30); do
		sandlock exec "$N" true
	done
	sandlock exec "$N" touch stop
	wait "$RUN"
	[ ! -s "$W/log" ]
}

@test "tier C: what exec started ends with exec, and with the sandbox" {
	up -- /bin/sh -c ': >up; sleep 1000'
	"$SANDLOCK" exec --pid-file "$W/pid" "$N" sleep 1006 3>&- &
	local exec=$! pid status=0
	STARTED+=("$exec")
	eventually in_list 'sleep 1006'
	pid=$(cat "$W/pid")
	kill -KILL "$exec"
	wait "$exec" || true
	eventually is_dead "$pid"
	"$SANDLOCK" exec "$N" sleep 1007 3>&- &
	exec=$!
	STARTED+=("$exec")
	sandlock exec -d --pid-file "$W/pid" "$N" sleep 1008
	eventually in_list 'sleep 1007'
	in_list 'sleep 1008'
	kill -TERM "$exec"
	wait "$exec" || status=$?
	[ "$status" = 143 ]
	in_list 'sleep 1008'
	"$SANDLOCK" exec "$N" sleep 1009 3>&- &
	exec=$!
	STARTED+=("$exec")
	eventually in_list 'sleep 1009'
	down
	status=0
	wait "$exec" || status=$?
	[ "$status" = 137 ]
	eventually is_dead "$(cat "$W/pid")"
}

in_list() {
	sandlock ps "$N" | grep -q "$1"
}

is_dead() {
	[ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

@test "tier C: many exec at once, and limits count them" {
	local i pids=() n=0
	up -P 200 -- /bin/sh -c ': >up; sleep 1000'
	for i in $(seq 20); do
		"$SANDLOCK" exec "$N" /bin/sh -c "echo $i >f$i; cat f$i" >"$W/out.$i" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	for i in $(seq 20); do
		[ "$(cat "$W/out.$i")" = "$i" ]
	done
	down
}

@test "tier C: an exec more than the guard has room for is refused" {
	up -- /bin/sh -c ': >up; sleep 1000'
	seq 256 | xargs -P 4 -I@ "$SANDLOCK" exec -d "$N" sleep 1010 >/dev/null 2>&1 3>&-
	COMMAND_TIMEOUT=10 run_exec "$N" true
	expect_status 125
	down
}

@test "tier C: few descriptors are enough for the guard" {
	run timeout -k 1 20 bash -c 'ulimit -n 128; exec "$0" run --isolation=notify \
		--on-exit=abort --name "$1" -- /bin/sh -c "echo ran"' "$SANDLOCK" "$N"
	expect_status 0
	expect_exactly ran
}

@test "tier C: exec has a terminal of its own" {
	command -v script >/dev/null || skip "no script"
	up -- /bin/sh -c ': >up; sleep 1000'
	run env script -qec "$SANDLOCK exec -t $N \
		/bin/sh -c 'test -t 0 && test -t 1 && echo x >/dev/tty && exit 4'" /dev/null </dev/null
	expect_status 4
	expect_output x
	down
}

@test "tier C: exec works in a container, with what its filter leaves" {
	local drop=()
	[ "$(id -u)" -ne 0 ] || drop=(setpriv --bounding-set=-sys_admin --inh-caps=-all)
	contained=(/usr/bin/python3 -B "$BATS_TEST_DIRNAME/helpers/contained.py" "${drop[@]}" "$SANDLOCK")
	"${contained[@]}" run --on-exit=abort --name "$N" -- \
		/bin/sh -c 'mkdir n; cp /bin/echo n/e; : >up; sleep 1000' 3>&- &
	RUN=$!
	STARTED+=("$RUN")
	eventually sandlock exec "$N" test -e up
	run "${contained[@]}" exec --cwd "$W/dir/n" "$N" ./e ran
	expect_status 0
	expect_exactly ran
	run "${contained[@]}" exec "$N" /bin/sh -c 'echo x >n/x; cat n/x; cat /root/nothing; exit 3'
	expect_status 3
	expect_output x
	down
}

@test "tier C: what exec cannot keep there is refused" {
	local option
	up -- /bin/sh -c ': >up; sleep 1000'
	echo '{}' >"$W/process.json"
	for option in "--cgroup x" "--additional-gids 5" "--apparmor x" "--preserve-fds 1"; do
		# shellcheck disable=SC2086
		run_exec $option "$N" true
		expect_status 125
		expect_output "${option% *}"
		expect_output 'without namespaces'
	done
	run_exec --user 4:4 "$N" true
	expect_status 125
	expect_output --user
	run_exec --cap CAP_SYS_ADMIN "$N" true
	expect_status 125
	run_exec --process "$W/process.json" "$N"
	expect_status 125
	down
}
