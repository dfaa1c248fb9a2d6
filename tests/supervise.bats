# The supervisor of a host command: what it is told of, exec, and doing without.
load lib/common
load lib/running

setup() {
	begin
	WITH=
	only_sandlock
	skip_unless_root
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	close_hole
	cd / || return 1
	finish
}

threads() {
	find "/proc/$supervisor/task" -mindepth 1 -maxdepth 1 | wc -l
}

at_most_threads() {
	[ "$(threads)" -le "$1" ]
}

@test "supervisor: under the default policy nothing is trapped that no rule needs" {
	mkdir src
	for i in $(seq 20); do
		echo "int f$i(int a) { return a + $i; }" >src/f$i.c
	done
	cat >src/Makefile <<-'END'
		o := $(patsubst %.c,%.o,$(wildcard *.c))
		lib.a: $(o) ; $(AR) rc $@ $(o)
	END
	cat >src/t.py <<-'END'
		import subprocess, threading
		t = [threading.Thread(target=lambda: open("t.py").read())
		     for _ in range(8)]
		for x in t: x.start()
		for x in t: x.join()
		subprocess.run(["true"], check=True)
	END
	begin_run -- sh -c 'cd src && make -j2 >/dev/null && git init -q . &&
		git add . && git status >/dev/null && /usr/bin/python3 t.py &&
		echo "up $?"; sleep 1000'
	eventually is_said 'up 0' || eventually is_said 'up 0'
	run ask calls
	# Those that rename directories of the lower for it.
	jq -e 'keys - ["rename", "renameat", "renameat2"] == []' <<<"$output"
	end_run
}

@test "supervisor: it has one thread until something is trapped" {
	mkdir lower
	begin_run -- sh -c 'echo up; while [ ! -e go ]; do sleep 0.05; done
		mv lower moved && echo moved; sleep 1000'
	eventually is_said up
	equal threads "$(threads)" 1
	equal renames "$(ask calls | jq '.renameat2 // .rename // 0')" 0
	sandlock exec "$N" -- touch go
	eventually is_said moved
	end_run
}

@test "supervisor: it sees what a rule needs, and pid 1 is not trapped" {
	WITH=without_cgroups
	begin_run -P 20 -- sh -c '
		for i in 1 2 3 4 5 6 7; do true & wait; done
		grep Seccomp: /proc/1/status; grep Seccomp: /proc/self/status
		echo up; sleep 1000'
	eventually is_said up
	run ask calls
	jq -e '.clone + .fork + .vfork >= 8' <<<"$output"
	equal filters "$(grep Seccomp "$W/out" | tr -dc '02\n' | xargs)" "0 2"
	end_run
}

@test "supervisor: a sandbox that does nothing has no thread that waits for work" {
	begin_run -- sleep 1000
	# Ours, the control socket's, and the receiver.
	eventually at_most_threads 3
	end_run
}

@test "supervisor: --no-supervisor: no thread, no socket, but a name and a place in ps" {
	begin_run --no-supervisor -- sh -c 'grep Seccomp: /proc/self/status
		echo up; sleep 1000'
	eventually is_said up
	equal threads "$(threads)" 1
	[ ! -e "$W/run/$N/control.sock" ]
	run sandlock ps --format json
	jq -e --arg n "$N" '[.. | objects | select(.name == $n)] | length == 1' <<<"$output"
	run sandlock inspect "$N"
	expect_status 0
	jq -e --arg n "$N" '.id == $n' <<<"$output"
	run sandlock run --name "$N" -- touch ran
	[ "$status" -ne 0 ]
	expect_output "already exists"
	run sandlock exec "$N" sh -c 'grep Seccomp: /proc/self/status'
	expect_status 0
	expect_match 'Seccomp:.2'
	end_run
	[ ! -e "$W/run/$N" ]
}

@test "supervisor: --no-supervisor and a rule that needs one is refused" {
	refused 125 "--max-processes needs a supervisor here" \
		without_cgroups sandlock run --no-supervisor -P 5 -- touch ran
	[ ! -e ran ]
	printf '[program]\nno_supervisor = true\n[limits]\nprocesses = 5\n' \
		>"$W/p.toml"
	refused 125 "--max-processes needs a supervisor here" without_cgroups \
		sandlock run --profile-file "$W/p.toml" -- touch ran
}

@test "supervisor: what exec starts is told of, too, and counts" {
	WITH=without_cgroups
	begin_run -P 4 -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	before=$(ask calls | jq '.clone // 0')
	run sandlock exec "$N" sh -c 'true & wait; echo done'
	expect_status 0
	expect_exactly "done"
	[ "$(ask calls | jq .clone)" -gt "$before" ]
	# sh and its sleep are two, so sh and one more.
	run sandlock exec "$N" sh -c 'sleep 5 & sleep 5 & sleep 5 & wait'
	[ "$status" -ne 0 ]
	expect_output fork
	end_run
}

@test "supervisor: exec into a sandbox whose supervisor does not answer is refused" {
	WITH=without_cgroups
	begin_run -P 9 -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	kill -STOP "$supervisor"
	run sandlock exec "$N" touch ran
	kill -CONT "$supervisor"
	[ "$status" -ne 0 ]
	expect_output "supervisor of '$N' did not answer"
	run sandlock exec "$N" ls
	expect_status 0
	refute_output ran
	end_run
}

@test "supervisor: what exec started dies with it" {
	WITH=without_cgroups
	begin_run -P 9 -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	sandlock exec "$N" sh -c 'echo in; while :; do true & wait; done' \
		>"$W/in" 2>&1 3>&- &
	exec=$!
	eventually grep -q in "$W/in"
	kill -KILL "$supervisor"
	status=0
	wait $exec || status=$?
	# Killed, or its shell could not fork any more the moment before.
	[ "$status" -ne 0 ]
	wait $runner || true
	eventually has_branch_state "$N" interrupted
	sandlock abort "$N"
}

@test "supervisor: exec cannot loosen what confines the command" {
	begin_run -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	cat >"$W/process.json" <<-END
		{ "cwd": "/", "user": { "uid": 0, "gid": 0 }, "args": ["sh",
		  "-c", "grep -E ^NoNewPrivs:\\\\|^CapEff: /proc/self/status"],
		  "env": ["PATH=$PATH"], "noNewPrivileges": false }
	END
	run sandlock exec --process "$W/process.json" "$N"
	expect_status 0
	expect_match 'NoNewPrivs:.1'
	expect_match 'CapEff:.0000000000000000'
	run sandlock exec --cap CAP_SYS_ADMIN "$N" true
	[ "$status" -ne 0 ]
	expect_output "no further capabilities"
	end_run
}

@test "supervisor: only a listener of its own sandbox is taken" {
	WITH=without_cgroups
	begin_run -P 9 -- sh -c 'echo up; sleep 1000'
	eventually is_said up
	run python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
		"{\"v\":1,\"verb\":\"listen\",\"args\":{\"pid\":$$,\"fd\":0}}"
	expect_output "is not in '$N'"
	run python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
		'{"v":1,"verb":"listen","args":{"pid":"x"}}'
	expect_output "takes a pid and an fd"
	run sandlock exec "$N" true
	expect_status 0
	end_run
}

@test "supervisor: a process whose first thread has ended counts" {
	run without_cgroups sandlock run --on-error=abort --on-exit=abort \
		-P 4 -- /usr/bin/python3 -c "
import ctypes, os, signal, threading
exit_thread = 60 if os.uname().machine == 'x86_64' else 93
kids = []
while len(kids) < 9:
    try:
        pid = os.fork()
    except BlockingIOError:
        break
    if pid == 0:
        threading.Thread(target=signal.pause).start()
        ctypes.CDLL(None).syscall(exit_thread, 0)
    kids.append(pid)
    while 'State:\tZ' not in open('/proc/%d/status' % pid).read():
        pass
for pid in kids:
    os.kill(pid, signal.SIGKILL)
print(len(kids))"
	expect_status 0
	expect_exactly 3
}

@test "supervisor: the time limit ends forks that are under way, too" {
	run without_cgroups sandlock run --on-error=abort -t 1 -P 9 -- \
		sh -c 'while :; do true & wait; done'
	expect_status 124
}

@test "supervisor: a command that waits for an answer can be paused" {
	black_hole
	begin_run --net-allow "127.0.0.1:$port" -- /usr/bin/python3 -c "
import socket, threading
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
print('up', flush=True)
socket.create_connection(('127.0.0.1', $port))"
	eventually is_said up
	sleep 0.2
	run sandlock pause "$N"
	expect_status 0
	equal status "$(status_of "$N")" paused
	run sandlock resume "$N"
	expect_status 0
	equal status "$(status_of "$N")" running
	end_run
}

# The command's own no_new_privs does not matter to root.
listened() {
	local RT=(/usr/bin/python3 "$TESTS/helpers/listener.py" "${RT[@]}")

	"$@"
}

@test "supervisor: inside somebody else's it is done without, but for rules" {
	run listened sandlock run --on-exit=abort -- sh -c 'mount; echo ran'
	expect_status 0
	expect_output ran
	run listened sandlock run -P 9 --on-exit=abort -- echo ran
	expect_status 0
	refused 125 "--max-processes needs a supervisor here" \
		without_cgroups listened sandlock run -P 9 -- touch ran
	[ ! -e ran ]
	run listened sandlock check
	expect_output "leave it"
}

# policies: the scheduling policies of the supervisor's threads.
policies() {
	local t

	for t in "/proc/$supervisor/task/"*; do
		chrt -p "${t##*/}"
	done | sed -n 's/.*policy: //p' | sort | uniq -c
}

@test "supervisor: forks are received at once, or signals would interrupt them" {
	chrt -f 1 true 2>/dev/null || skip "no real-time priority to be had"
	WITH=without_cgroups
	begin_run -P 50 -- sh -c 'echo up; while :; do true & wait; done'
	eventually is_said up
	run policies
	expect_output '1 SCHED_FIFO'
	end_run
}
