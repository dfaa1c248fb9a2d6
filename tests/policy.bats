# A callback of the C API that decides: sandlock_sandbox_set_policy(3).
load lib/common
load lib/embed
load lib/net

setup() {
	begin_embed
	cd "$D"
}

teardown() { finish; }

@test "policy: verdicts of a callback, and of one that answers later" {
	run policy sync env 0 -- sh -c '/usr/bin/env >/dev/null; echo $?'
	expect_output 'event process execve /usr/bin/env /usr/bin/env'
	expect_match '(^|
)0'
	run policy sync env -1 -- sh -c '/usr/bin/env'
	expect_output 'Operation not permitted'
	run policy later env 0 -- sh -c '/usr/bin/env >/dev/null; echo $?'
	expect_output 'exit 0'
	run policy later env 13 -- sh -c '/usr/bin/env'
	expect_output 'Permission denied'
	run policy sync /etc/passwd 2 -- cat /etc/passwd
	expect_output 'event file openat /etc/passwd'
	expect_output 'No such file'
}

@test "policy: unanswered and freed is denied, a second answer changes nothing" {
	run policy drop env 0 -- sh -c '/usr/bin/env'
	expect_output 'Operation not permitted'
	expect_output 'freed before 0'
	expect_output 'freed after 1'
	run policy twice env 13 -- sh -c '/usr/bin/env'
	expect_output 'first 0'
	expect_output 'second -114'
	expect_output 'Permission denied'
}

@test "policy: kept beyond the run it is cancelled" {
	run policy keep env 0 -- sh -c 'timeout -s KILL 1 /usr/bin/env; echo $?'
	expect_output 137
	expect_output 'cancelled 1'
	# Without an answer in time it is a denial, which is told of.
	ASK_TIMEOUT=1 run policy keep execve 0 -- sh -c '/bin/true || echo $?'
	expect_output 126
	expect_output '/true /bin/true denied'
	grep -q '"by":"deadline"' "$SANDLOCK_STORE/approvals.jsonl"
}

@test "policy: a question whose time was over in the queue is not put" {
	export ASK_TIMEOUT=1 GO=$D/go
	mkfifo said
	"$HELPERS/policy" slow env 0 -- sh -c '
		/usr/bin/env & /usr/bin/env & wait; echo both; sh -c "exec /usr/bin/env true"
		echo then-$?' >said 2>&1 3>&- &
	started $!
	while read -r line; do
		echo "$line"
		[ "$line" != both ] || : >go
	done <said >out
	run cat out
	# One was put, was late, and then the next one is.
	[ "$(grep -c "execve .*env$" <<<"$output")" -eq 1 ]
	expect_output "Operation not permitted"
	expect_output "then-0"
}

# Calls of each kind, all of which the callback hears of.
check_events() {
	local bind=$((20000 + $$ % 10000)) i

	NET_ALLOW=127.0.0.0/8 NET_BIND=$bind run policy "$1" network 0 -- \
		/usr/bin/python3 -c "$(cat talk.py)" "$TCP" "$UDP" "$bind"
	expect_output "event network connect - 127.0.0.1:$TCP"
	for i in sendto sendmsg sendmmsg; do
		expect_output "event network $i - 127.0.0.1:$UDP"
		expect_output "$i ok"
	done
	expect_output "event network bind - 127.0.0.1:$bind"
	expect_output "bind ok"
	refute_output denied
	# What rules refuse is told of, and not asked about.
	NET_ALLOW=127.0.0.1:1 run policy "$1" network 0 -- \
		/usr/bin/python3 -c "$(cat talk.py)" "$TCP" "$UDP" "$bind"
	expect_output "event network connect - 127.0.0.1:$TCP denied"
	for i in sendto sendmsg sendmmsg; do
		expect_output "event network $i - 127.0.0.1:$UDP denied"
	done
	expect_output "event network bind - 127.0.0.1:$bind denied"
	expect_output "bind Permission denied"
}

@test "policy: every call of the network is asked about, and refusals are told" {
	local how

	begin_talk
	for how in sync later; do
		check_events $how
		! has_tier_c || ISOLATION=notify check_events $how
	done
	# Without a network, too; other refusals, and the verdicts of others.
	run policy sync network 0 -- /usr/bin/python3 -c "import socket
try: socket.create_connection(('192.0.2.1', 443))
except OSError as e: print(e)"
	expect_output "event network connect - 192.0.2.1:443 denied"
	run policy sync process 0 -- sh -c 'unshare -m true'
	expect_output "event process unshare - denied"
	run policy sync env 13 -- sh -c '/usr/bin/env'
	expect_output 'event process execve /usr/bin/env /usr/bin/env'
	refute_output "env denied"
	ONLY=/etc/passwd run policy deny-path /etc/ 0 -- \
		sh -c 'cat /etc/hostname /etc/passwd; :'
	expect_output "event file openat /etc/passwd denied"
}

@test "policy: a flood of refusals holds up neither its callers nor a question" {
	# One thread of it refuses all the time, slow as the callback is.
	run policy flood network 0 -- /usr/bin/python3 -c "import os, socket, time
def refused(n):
    for i in range(n):
        try: socket.create_connection(('192.0.2.1', 443))
        except OSError: pass
begin = time.monotonic()
refused(5000)
print('took %d' % (time.monotonic() - begin))
pid = os.fork()
if not pid:
    refused(1000000)
for i in range(20):
    open('/etc/hostname').close()
print('opened')
os.kill(pid, 9)"
	expect_output opened
	expect_output "exit 0"
	expect_match 'flood: [0-9]+ told'
}

@test "policy: only within what rules allow" {
	run env NET_ALLOW=127.0.0.1:1 "$HELPERS/policy" sync connect 0 -- \
		bash -c 'echo >/dev/tcp/127.0.0.1/2'
	expect_output 'Connection refused'
	refute_line 'event network connect - 127.0.0.1:2'
	expect_output 'event network connect - 127.0.0.1:2 denied'
}

# bash in the sandbox connects to PORT of the test's server: its exit status.
connects() {
	echo "(: 2>/dev/null >/dev/tcp/127.0.0.1/$1) 2>/dev/null; echo connect-\$?"
}

@test "policy: what was taken away is not reached, although it was allowed" {
	cp "$TESTS/helpers/net.py" .
	host_server a tcp
	export NET_ALLOW=127.0.0.0/8
	run policy restrict connect 0 -- bash -c "$(connects "$PORT")"
	expect_output 'restricted 0'
	expect_output connect-1
	came a 0
	ONLY=127.0.0.1 run policy restrict connect 0 -- bash -c "
		$(connects "$PORT")"
	expect_output connect-0
	patiently came a 1
	ONLY=0.0.0.0/0 run policy restrict connect 0 -- bash -c \
		'(: >/dev/tcp/192.0.2.1/1) 2>&1'
	expect_output refused
	ONLY=example.org run policy restrict connect 0 -- bash -c "
		$(connects "$PORT")"
	expect_output "'example.org' is no address"
	# Of the process that connects.
	OF_PID=1 run policy restrict connect 0 -- bash -c "
		$(connects "$PORT")"
	expect_output connect-1
}

@test "policy: ports that are bound are decided about, too" {
	port=$(/usr/bin/python3 -c 'import socket; s = socket.socket()
s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	binds="import socket
try: socket.socket().bind(('127.0.0.1', $port)); print('bound')
except OSError as e: print('errno %d' % e.errno)"
	export NET_ALLOW=127.0.0.1
	NET_BIND=$port run policy later bind 13 -- /usr/bin/python3 -c "$binds"
	expect_output "event network bind - 127.0.0.1:$port"
	expect_output 'errno 13'
	NET_BIND=$port run policy later bind 0 -- /usr/bin/python3 -c "$binds"
	expect_output bound
	NET_BIND=1 run policy sync bind 0 -- /usr/bin/python3 -c "$binds"
	expect_output "event network bind - 127.0.0.1:$port denied"
	refute_line "event network bind - 127.0.0.1:$port"
	expect_output 'errno 13'
}

@test "policy: a path is denied from then on, the open that is held included" {
	ONLY=/etc/passwd run policy deny-path env 0 -- sh -c '
		head -c 4 /etc/passwd; /usr/bin/env true
		cat /etc/passwd || echo no more; ln -s /etc/passwd /tmp/l; cat /tmp/l'
	expect_output 'denied 0'
	expect_output root
	expect_output 'cat: /etc/passwd: Permission denied'
	expect_output 'no more'
	expect_output 'cat: /tmp/l: Permission denied'
	# Allowed by the callback, after it was denied by it.
	ONLY=/etc run policy deny-path /etc/passwd 0 -- cat /etc/passwd
	expect_output 'cat: /etc/passwd: Permission denied'
	ONLY=etc run policy deny-path env 0 -- sh -c '/usr/bin/env true'
	expect_output 'denied -22'
}

@test "policy: a program without a name is executed, and asked about" {
	cat >memfd.py <<-'END'
		import os
		fd = os.memfd_create("nameless", 0)
		os.write(fd, open("/bin/echo", "rb").read())
		os.execve(fd, ["echo", "it", "ran"], {})
	END
	run policy sync nameless 0 -- python3 -c "$(cat memfd.py)"
	expect_output 'it ran'
	expect_output 'event process execveat /memfd:nameless (deleted) echo it ran'
	run policy sync nameless 13 -- python3 -c "$(cat memfd.py)"
	refute_line 'it ran'
	expect_output 'PermissionError'
}

@test "policy: no way through the links of /proc, but to what is a process's own" {
	ONLY=/etc/passwd run policy deny-path env 0 -- sh -c '
		/usr/bin/env true; ln -s /proc/self/root /tmp/r; ln -s r /tmp/q
		for f in /proc/self/root/etc/passwd /tmp/q/etc/passwd \
			/proc/1/root/etc/passwd /proc/$$/root/../etc/passwd \
			/proc/thread-self/root/etc/passwd \
			/proc/self/task/../root/etc/passwd; do
			cat $f >/dev/null 2>&1 && echo "got $f"
		done
		cat /proc/self/status >/dev/null && echo status
		cat /etc/mtab >/dev/null && echo mtab
		echo x | cat /dev/stdin && echo stdin
		cat /proc/self/fd/0 </dev/null && echo fd
		cat /nothing/there 2>&1'
	refute_output got
	expect_output status
	expect_output mtab
	expect_output stdin
	expect_output fd
	expect_output "/nothing/there: No such file"
}

shows_denied() {
	[ "$(sandlock inspect "$1" | jq -c .in_force.denied_paths)" = \
		'["/etc/passwd"]' ]
}

@test "policy: inspect shows what was denied at run time" {
	ONLY=/etc/passwd "$HELPERS/policy" deny-path env 0 -- \
		sh -c '/usr/bin/env true; sleep 1000' >"$W/said" 2>&1 3>&- &
	EMBEDDER=$!
	started "$EMBEDDER"
	eventually grep -q event "$W/said"
	name=$(sandlock ps --json | jq -r '.sandboxes[0].name')
	eventually shows_denied "$name"
	sandlock kill "$name"
	wait "$EMBEDDER" || true
}

@test "policy: rules of a process are added to, what all have lost is not given back" {
	cp "$TESTS/helpers/net.py" .
	host_server a tcp
	export NET_ALLOW=127.0.0.0/8 ONLY=127.0.0.9 MORE=127.0.0.1
	run policy grant connect 0 -- bash -c "$(connects "$PORT")"
	expect_output 'granted 0'
	expect_output connect-0
	patiently came a 1
	MORE=127.0.0.8 run policy grant connect 0 -- bash -c "
		$(connects "$PORT")"
	expect_output connect-1
	# Never more than the request's.
	NET_ALLOW=127.0.0.9 run policy grant connect 0 -- bash -c "
		$(connects "$PORT")"
	refute_output connect-0
	FOR_ALL=1 run policy grant connect 0 -- bash -c "$(connects "$PORT")"
	expect_output 'granted -1'
	expect_output connect-1
}

@test "policy: what is taken from all stays taken, and a process's own rules come first" {
	cp "$TESTS/helpers/net.py" .
	host_server a tcp
	export NET_ALLOW=127.0.0.0/8
	# The second list would allow again.
	ONLY=127.0.0.9 THEN=127.0.0.1 run policy restrict connect 0 -- bash -c "
		$(connects "$PORT"); $(connects "$PORT")"
	expect_output 'then 0'
	refute_output connect-0
	ONLY=127.0.0.9 THEN=127.0.0.1 THEN_OF_PID=1 run policy restrict \
		connect 0 -- bash -c "$(connects "$PORT")"
	expect_output connect-0
}

@test "policy: memory and processes are limited while it runs" {
	limits_hold
}

@test "policy: a supervisor that stands still holds up who tells it something, alone" {
	ASK_TIMEOUT=60 run policy stopped /bin/true 0 -- sh -c '/bin/true && echo ran'
	expect_output 'cancelled 0'
	expect_output 'first 0'
	expect_output ran
	expect_output 'exit 0'
}

@test "policy: of many questions at once no answer is lost" {
	ASK_TIMEOUT=60 run policy sync nothing 0 -- sh -c '
		for p in 1 2 3 4; do
			(i=0; while [ $i -lt 300 ]; do
				read x </etc/passwd || echo lost
				i=$((i + 1))
			done) &
		done; wait; echo all'
	expect_output all
	refute_output lost
	refute_output 'not permitted'
}

@test "policy: what is opened is what the callback was shown, or nothing" {
	local path
	export MOUNT=/m:$D
	# Where the answer takes long the path is walked once more.
	for path in /m/f f; do
		echo shown >f
		echo put there meanwhile >new
		ONLY=$D/new MORE=$D/f run policy swap /m/f 0 -- sh -c \
			'cd /m; cat "$1" || echo refused; cat "$1"' sh "$path"
		expect_match '(shown|refused)'
		[ "$(grep -c 'put there' <<<"$output")" = 1 ]
	done
	echo shown >f
	echo put there meanwhile >new
	ln -s f link
	ONLY=$D/new MORE=$D/link run policy swap /m/f 0 -- \
		sh -c 'cat /m/link || echo refused; ls /m'
	expect_match '(shown|refused)'
	refute_output 'put there'
	run policy sync /m/f 13 -- cat /m/f
	expect_output 'Permission denied'
}

@test "policy: no more may be opened than the caller could" {
	echo secret >locked
	mkdir -p shut/in
	echo secret >shut/in/f
	chmod 600 locked
	chmod 700 shut
	MOUNT=/m:$D run policy sync /nothing 0 -- python3 -c '
import os
os.chdir("/m")
os.seteuid(65534)
for name in "locked", "shut/in/f", "shut/in/missing":
    for path in name, os.path.join("/m", name):
        try:
            print("got " + open(path).read())
        except OSError as e:
            print(e.strerror)'
	refute_output got
	[ "$(grep -c '^Permission denied' <<<"$output")" = 6 ]
}

@test "policy: the program is the one that runs, whoever executed it and when" {
	PROGRAM=1 run policy sync /etc/passwd 0 -- python3 -c '
import os, sys, threading
def look():
    while True:
        try: open("/etc/passwd").close()
        except OSError: pass
def become():
    os.execv("/usr/bin/head", ["head", "-c4", "/etc/passwd"])
for by_thread in False, True, False, True:
    pid = os.fork()
    if not pid:
        open("/etc/passwd").close()
        for _ in range(3):
            threading.Thread(target=look, daemon=True).start()
        if by_thread:
            threading.Thread(target=become).start()
            threading.Event().wait()
        become()
    os.waitpid(pid, 0)'
	expect_output 'exit 0'
	[ "$(grep -c '/etc/passwd by /usr/bin/head' <<<"$output")" = 4 ]
	expect_match '/etc/passwd by .*/python3'
	refute_output 'by nobody'
}

@test "policy: who has left a group does not open by it any more" {
	run policy sync grouped 0 -- python3 -c '
import os
open("/tmp/grouped", "w").write("secret")
os.chown("/tmp/grouped", 4243, 4242)
os.chmod("/tmp/grouped", 0o040)
def look():
    os.seteuid(4244)
    try:
        print("got " + open("/tmp/grouped").read(), flush=True)
    except PermissionError:
        print("refused", flush=True)
    os.seteuid(0)
os.setgroups([4242])
if os.fork() == 0:
    for _ in range(3):
        look()
    os.setgroups([])
    look()
    os._exit(0)
os.wait()'
	expect_output 'event file openat /tmp/grouped'
	expect_output refused
	[ "$(grep -c 'got secret' <<<"$output")" = 3 ]
}
