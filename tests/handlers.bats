# Handlers of system calls by the C API: sandlock_handlers(3).
load lib/common
load lib/embed
load lib/net

setup() {
	begin_embed
	cd "$D"
}

teardown() { finish; }

handle() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" "$@"
}

@test "handlers: continue, errno, a value" {
	run handle uname=print+continue -- uname -s
	expect_output "call uname in 0"
	expect_output Linux
	expect_output "exit 0"
	run handle uname=errno:13 -- uname -s
	expect_output "Permission denied"
	run handle getppid=return:4242 -- sh -c 'exec 2>&1; echo $PPID'
	expect_output 4242
}

@test "handlers: a file, bytes, a descriptor besides, one of the caller's" {
	echo virtual >file
	run handle openat=open:file -- cat /etc/hostname
	expect_output "exit 127"
	run handle memfd_create="open:$D/file" -- \
		/usr/bin/python3 -c 'import os
print(os.read(os.memfd_create("x"), 100))'
	expect_output "b'virtual"
	run handle memfd_create="bytes:some bytes" -- \
		/usr/bin/python3 -c 'import os
fd = os.memfd_create("x")
print(os.read(fd, 100), os.get_inheritable(fd))
os.write(fd, b"x")'
	expect_output "b'some bytes' False"
	expect_output "Operation not permitted"
	run handle uname="fd:$D/file+continue" -- \
		/usr/bin/python3 -c 'import os
os.uname(); print(os.read(3, 100))'
	expect_output "installed 3"
	expect_output "b'virtual"
	run handle uname=peek:0+peek:1000+ends+continue -- uname <file
	expect_output "ended 0"
	expect_output "ended 1"
	expect_output "peek virtual"
	expect_output "peek error -9"
}

@test "handlers: memory is read and written" {
	run handle memfd_create=path:0+continue -- \
		/usr/bin/python3 -c 'import os; os.memfd_create("a name")'
	expect_output "path a name"
	run handle uname=poke:0:Plan9+return:0 -- uname -s
	expect_output "poke 0"
	expect_output Plan9
	run handle getpriority=path:1+poke:1:x+continue -- nice true
	expect_output "path error -14"
	expect_output "poke -14"
}

@test "handlers: in the order in which they were added, until one answers" {
	run handle uname=print+continue uname=print+errno:13 \
		uname=print+continue -- uname
	expect_output "call uname in 0
call uname in 1"
	refute_output "in 2"
	expect_output "Permission denied"
	run handle 63=print+continue -- uname
	expect_output "call 63 in 0"
}

@test "handlers: answers that come later, twice, never" {
	run handle uname=later:100+print+continue uname=print+errno:13 -- uname
	expect_output "call uname in 0"
	expect_output "answered 0"
	expect_output "call uname in 1"
	expect_output "Permission denied"
	run handle uname=twice:13 -- uname
	expect_output "first 0"
	expect_output "second -114"
	expect_output "Permission denied"
	run handle uname=keep timeout=300 -- uname
	expect_output "Input/output error"
	expect_output "kept: cancelled 1"
	run handle uname=hold timeout=300 -- uname
	expect_output "Input/output error"
	# The second park does not begin anew.
	run handle uname=sleep:200+continue uname=sleep:200+continue \
		timeout=300 -- uname
	expect_output "Input/output error"
}

@test "handlers: one that fails does as was said" {
	run handle uname/eperm=fail -- uname
	expect_output "Operation not permitted"
	run handle uname/eio=none -- uname
	expect_output "Input/output error"
	run handle uname/eio=errno:5000 -- uname
	expect_output "Input/output error"
	run handle uname/eio=drop -- uname
	expect_output "Input/output error"
	run handle uname/continue=fail -- uname -s
	expect_output Linux
	run handle uname=fail -- uname
	expect_output "signal 9"
	run handle uname=open:/nonexistent -- uname
	expect_output "signal 9"
}

@test "handlers: kill, with a signal" {
	run handle uname=kill:9 -- uname
	expect_output "signal 9"
	run handle uname=kill:15 -- sh -c 'trap "echo term; exit 3" TERM
		uname; sleep 10; sleep 10'
	expect_output "term"
	expect_output "exit 3"
}

@test "handlers: read and write, which also start a command" {
	run handle write=path:1+continue read=continue -- echo hi there
	expect_output "path hi there"
	expect_output "exit 0"
	run handle write=return:9 -- sh -c 'echo hi there; exit 3'
	refute_output hi
	expect_output "exit 3"
	run handle write=errno:1 read=errno:1 -- nosuch
	expect_output "executable file not found"
	expect_output "called 0"
	run handle syscalls.extra_deny=pwritev2 write=continue -- true
	expect_output "'write' cannot be handled while 'pwritev2' is denied"
}

@test "handlers: what cannot be handled" {
	run handle opnat=continue -- true
	expect_output "'opnat' is no system call of this machine (did you mean 'openat'?)"
	run handle close=continue -- true
	expect_output "'close' cannot be handled"
	run handle mount=continue -- true
	expect_output "'mount' is refused here"
	run handle keyctl=continue -- true
	expect_output "allow 'keys' in syscalls.extra_allow"
	run handle syscalls.extra_allow=keys keyctl=print+continue -- true
	expect_output "exit 0"
	run handle 1000=continue -- true
	expect_output "has number 1000"
	expect_output "freed before 1"
	run handle uname=continue program.no_supervisor=true -- true
	expect_output "a handler of system calls needs a supervisor"
}

@test "handlers: what the filter refuses in part is judged before" {
	run handle socket=print+continue -- /usr/bin/python3 -c 'import socket
socket.socket(socket.AF_UNIX)
socket.socket(socket.AF_PACKET)'
	equal calls "$(grep -c "call socket" <<<"$output")" 1
	expect_output "Address family not supported"
	run handle clone=print+continue limits.processes=2 -- sh -c \
		'(:); (sleep 1; :) & (:); wait'
	expect_output "call clone"
	expect_output "Cannot fork"
}

@test "handlers: a slow one holds up nobody else" {
	run handle uname=until:1:20+continue getppid=continue -- sh -c '
		uname & i=0
		while [ $i -lt 20 ]; do sh -c : || exit 5; i=$((i + 1)); done
		wait; echo done'
	expect_output done
	expect_output "exit 0"
	# As many as there are callers, and one after the other.
	run handle uname=until:0:20+continue -- sh -c '
		for i in $(seq 20); do uname & done; wait; echo done'
	expect_output done
	run handle threads=1 uname=sleep:10+continue -- sh -c '
		for i in $(seq 20); do uname & done; wait; echo done'
	expect_output done
	expect_output "called 20"
}

@test "handlers: more callers than there can be handlers wait, and are answered" {
	local how

	${CC:-gcc} -O2 -static -pthread -o crowd "$TESTS/helpers/crowd.c"
	for how in sleep:20 later:200; do
		run handle filesystem.read="$D" timeout=60000 \
			getppid="$how+return:7" -- "$D/crowd" 500
		expect_output "500 right, 0 wrong"
		expect_output "called 500"
	done
}

@test "handlers: a call whose time was over in the queue has none" {
	# The one thread is busy until all callers have been told EIO.
	run handle threads=1 timeout=500 filesystem.write="$D" \
		uname="print+await:$D/go+continue" -- sh -c '
		uname & uname & wait; : >$1/go; until uname; do :; done' sh "$D"
	[ "$(grep -c "call uname" <<<"$output")" -eq 2 ]
	expect_output "Input/output error"
	expect_output "exit 0"
}

came_again() {
	[ "$(grep -cx "came $1" "$W/b.log")" -eq "$2" ]
}

# All of them go where the handler saw them go, and are answered by it.
check_talk() {
	local bind=$((20000 + $$ % 10000)) each came
	local rules=(network.allow="127.0.0.1:$TCP" network.allow="127.0.0.1:$UDP"
		network.allow_bind="$bind" filesystem.write="$D" "$@")

	each=(connect=port:1 sendto=data:1:2+port:4 sendmsg=mdata:0+mport:0
		sendmmsg=mdata:0+mdata:1+mport:1 bind=port:1 listen=print)
	run handle "${rules[@]}" "${each[@]/%/+continue}" -- \
		/usr/bin/python3 "$D/talk.py" "$TCP" "$UDP" "$bind"
	for i in connect sendto sendmsg sendmmsg bind listen; do
		expect_output "$i ok"
	done
	expect_output "port $TCP"
	[ "$(grep -c "port $UDP" <<<"$output")" -eq 3 ]
	expect_output "port $bind"
	expect_output "call listen"
	for i in to msg mmsg0 mmsg1; do
		expect_output "data $i"
	done
	# What is overwritten meanwhile is not what is used.
	came=$(grep -cx 'came to' "$W/b.log")
	run handle "${rules[@]}" connect=poke:1:XX+continue \
		bind=poke:1:XX+continue \
		sendto=poke:1:XX+data:1:2+poke:4:XX+continue -- \
		/usr/bin/python3 "$D/talk.py" "$TCP" "$UDP" "$bind"
	expect_output 'data to'
	eventually came_again to $((came + 1))
	for i in connect sendto bind; do
		expect_output "$i ok"
	done
	expect_output "poke 0"
	run handle "${rules[@]}" connect=errno:13 sendto=errno:13 \
		sendmsg=errno:13 sendmmsg=errno:13 bind=errno:13 listen=errno:13 \
		-- /usr/bin/python3 "$D/talk.py" "$TCP" "$UDP" "$bind"
	for i in connect sendto sendmsg sendmmsg bind listen; do
		expect_output "$i Permission denied"
	done
	# The rules have the last word.
	run handle "$@" network.deny=127.0.0.1 connect=port:1+continue \
		filesystem.write="$D" -- \
		/usr/bin/python3 "$D/talk.py" "$TCP" "$UDP" "$bind"
	expect_output "port $TCP"
	expect_output "connect Connection refused"
}

@test "handlers: what network rules carry out is asked about first" {
	begin_talk
	check_talk
}

@test "handlers: what network rules carry out is asked about without namespaces, too" {
	skip_unless_tier_c
	begin_talk
	check_talk program.isolation=notify
}

@test "handlers: what exec adds is handled, too" {
	"$HELPERS/handle" name="$N" uname=poke:0:Plan9+return:0 -- \
		sleep 1000 >"$W/said" 2>&1 3>&- &
	started $!
	eventually has_status "$N" running
	run sandlock exec "$N" uname -s
	expect_output Plan9
	run sandlock inspect "$N"
	expect_output uname
	sandlock kill "$N"
	wait $!
	grep -qF "signal 9" "$W/said"
}

@test "handlers: without namespaces" {
	skip_unless_tier_c
	local notify=program.isolation=notify

	run handle $notify uname=poke:0:Plan9+return:0 -- uname -s
	expect_output Plan9
	run handle $notify write=path:1+continue read=continue -- echo hi there
	expect_output "path hi there"
	run handle $notify uname="later:10+fd:/etc/passwd+continue" -- \
		/usr/bin/python3 -c 'import os
os.uname(); print(os.read(3, 4))'
	expect_output "installed 3"
	expect_output "b'root'"
	run handle $notify uname=fail -- sh -c 'setsid sleep 1000 & uname'
	expect_output "signal 9"
	run handle $notify write=errno:1 -- nosuch
	expect_output "executable file not found"
}
