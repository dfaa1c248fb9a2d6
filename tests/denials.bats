# What was refused, why, and what would allow it: logs, why, the verbs denials,
# changes and subscribe of the control socket.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

# serve [OPTION]... -- COMMAND: runs it as $N in the background.
serve() {
	sandlock run --name "$N" "$@" >"$W/out" 2>"$W/err" 3>&- &
	SERVER=$!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
}

unserve() {
	sandlock kill "$N"
	wait "$SERVER" || true
}

ask() {
	python3 "$TESTS/helpers/control.py" "$SANDLOCK_ROOT/$N/control.sock" \
		"$@"
}

# A program that makes system call NUMBER and says its errno.
SYSCALL='import ctypes, sys
l = ctypes.CDLL(None, use_errno=True)
for _ in range(int(sys.argv[2])):
    r = l.syscall(int(sys.argv[1]), 0, 0, 0, 0, 0)
print(ctypes.get_errno() if r < 0 else 0)'
KEYCTL=250
PTRACE=101

@test "a refused system call is on record: code, rule, remedy, count; gone with the branch" {
	skip_on_other_machines
	run sandlock run --name "$N" -- sh -c \
		'echo x >f; python3 -c "$1" '$KEYCTL' 3; exit 4' - "$SYSCALL"
	expect_status 4
	expect_output 1
	run sandlock logs --json "$N"
	expect_status 0
	equal record "$(jq -c '.denials | map([.code, .call, .errno, .program,
		.count, .remedy, .where])' <<<"$output")" \
		'[["syscall.keys","keyctl","EPERM","python3",3,"--extra-allow-syscall keys",null]]'
	run sandlock logs "$N"
	expect_match '^[0-9-]+T[0-9:]+Z python3 may not call keyctl: EPERM \[syscall.keys\] x3$'
	run sandlock why "$N"
	expect_status 1
	same <(sandlock why 2>&1) <(echo "$output")
	same <(sandlock logs "$N") <(sandlock logs)
	expect_output 'to allow: sandlock run --extra-allow-syscall keys'
	run sandlock why "$N" mount
	expect_status 2
	sandlock abort "$N"
	run sandlock logs "$N"
	expect_status 1
}

skip_on_other_machines() {
	[ "$(uname -m)" = x86_64 ] || skip "numbers of system calls are x86-64's"
}

@test "the remedy helps" {
	skip_on_other_machines
	run sandlock run --dry-run --extra-allow-syscall keys -- \
		python3 -c "$SYSCALL" $KEYCTL 1
	expect_status 0
	refute_output '^1$'
	run sandlock run --dry-run --extra-allow-syscall debug -- \
		python3 -c "$SYSCALL" $PTRACE 1
	expect_exactly 0
}

@test "a rule of a profile is named with its file and line" {
	printf '[program]\nexec = "sh"\nargs = ["-c", "echo x >f; mkdir d; exit 1"]\n[syscalls]\nextra_deny = ["mkdir"]\n' >"$W/p.toml"
	run sandlock run --name "$N" --profile-file "$W/p.toml"
	expect_status 1
	run sandlock logs --json "$N"
	equal rule "$(jq -r '.denials[0].rule' <<<"$output")" \
		'syscalls.extra_deny mkdir'
	expect_match '"where": "[^"]*p.toml:5:15"'
	run sandlock why "$N" mkdir
	expect_status 1
	expect_output 'to allow: leave that rule out'
}

@test "what is denied is denied without a supervisor, too, and off the record" {
	skip_on_other_machines
	run sandlock run --name "$N" --no-supervisor -- sh -c \
		'echo x >f; python3 -c "$1" '$KEYCTL' 1' - "$SYSCALL"
	expect_status 0
	expect_output 1
	run sandlock logs "$N"
	expect_output "nothing is on record of '$N': without a supervisor"
}

CONNECT='import socket, sys
for a in sys.argv[1:]:
    f, t, _, _, d = socket.getaddrinfo(a, 443, type=socket.SOCK_STREAM)[0]
    print(socket.socket(f, t).connect_ex(d))'

@test "without network, what a command wanted to reach is on record, not what is inside" {
	run sandlock run --name "$N" -- sh -c 'echo x >f; python3 -c "$@"' - \
		"$CONNECT" 192.0.2.1 2001:db8::1 ::ffff:192.0.2.7 127.0.0.1 ::1 0.0.0.0
	expect_exactly $'101\n101\n101\n111\n111\n111'"${output#*$'111\n111\n111'}"
	run sandlock logs --json "$N"
	equal objects "$(jq -c '.denials | map(.object)' <<<"$output")" \
		'["192.0.2.1:443","[2001:db8::1]:443","192.0.2.7:443"]'
	equal remedy "$(jq -r '.denials[1].remedy' <<<"$output")" \
		'--net-allow [2001:db8::1]:443'
	equal error "$(jq -r '.denials[0].errno' <<<"$output")" ENETUNREACH
}

@test "--status-fd counts; the log has each" {
	skip_on_other_machines
	sandlock --log "$W/log" --log-level info run --dry-run --status-fd 4 -- \
		python3 -c "$SYSCALL" $KEYCTL 5 4>"$W/status" >"$W/out" 3>&-
	equal denials "$(jq .denials "$W/status")" 1
	grep -q 'denied: python3\[[0-9]*\] keyctl EPERM \[syscall.keys\] x5' \
		"$W/log"
}

@test "a terminal is told of the last one in three lines, after a failure only" {
	local c='unshare -m true 2>/dev/null; exit'

	for status in 0 1; do
		run timeout 60 script -qec \
			"$SANDLOCK run --name $N-$status -- sh -c '$c $status'" \
			/dev/null </dev/null
		equal told "$(grep -c 'sandlock: ' <<<"$output")" \
			$((3 * status))
	done
	expect_output 'refused: unshare may not call unshare: EPERM [syscall.namespace]'
	expect_output 'because: builtin:namespace'
	expect_output 'to allow: no option does'
}

@test "the process limit, where a supervisor keeps it, is on record" {
	skip_unless_root
	run without_cgroups sandlock run --name "$N" -P 3 -- sh -c \
		'echo x >f; for i in 1 2 3 4 5; do sleep 1 & done; wait; exit 1'
	run sandlock logs --json "$N"
	equal record "$(jq -c '.denials[0] | [.code, .errno, .rule, .remedy]' \
		<<<"$output")" \
		'["limits.processes","EAGAIN","limits.processes 3","--max-processes 6"]'
}

@test "a process that was killed for another's limit is not on record" {
	skip_unless_root
	load_parent
	make_bundle
	config '.linux.cgroupsPath = $p + "/it" |
		.linux.resources.memory = {limit: 536870912}' --arg p "/$N-p"
	script 'echo x >/data/x; probe eat 134217728; :'
	run sandlock run -b "$B" "$N"
	refute_output "out of memory"
	run sandlock logs --json "$N"
	refute_output limits.memory
	rmdir "$parent"
}

# A cgroup that has less than what is in it may have.
load_parent() {
	parent=/sys/fs/cgroup/memory
	[ -d "$parent" ] || parent=/sys/fs/cgroup
	parent+=/$N-p
	mkdir "$parent"
	if [ -e "$parent/memory.limit_in_bytes" ]; then
		echo 33554432 >"$parent/memory.limit_in_bytes"
	elif [ -e "$parent/memory.max" ]; then
		echo 33554432 >"$parent/memory.max"
	else
		rmdir "$parent"
		skip "needs a memory controller"
	fi
}

@test "limits that the kernel keeps are on record, of bundles, too" {
	skip_unless_root
	run sandlock run --name "$N" --no-supervisor -m 24M -P 3 -- sh -c '
		echo x >f; /usr/bin/python3 -c "b = bytearray(64 << 20)"
		sleep 1 & sleep 1 & sleep 1 & sleep 1'
	expect_output "out of memory: of '$N' 1 process was killed"
	run sandlock logs --json "$N"
	equal records "$(jq -c '.denials[] | [.code, .errno, .rule, .remedy]' \
		<<<"$output" | tr '\n' ' ')" \
		'["limits.memory","ENOMEM","limits.memory 25165824","--max-memory 50331648"] ["limits.processes","EAGAIN","limits.processes 3","--max-processes 6"] '
	run sandlock why "$N"
	expect_output "a process was killed: ENOMEM [limits.memory]"

	make_bundle
	config '.linux.resources = {pids: {limit: 3}}'
	script 'echo x >/data/x; sleep 1 & sleep 1 & sleep 1 & sleep 1'
	sandlock run -b "$B" "$N-b" 2>/dev/null || true
	run sandlock logs "$N-b"
	expect_output "a process may not call fork: EAGAIN [limits.processes]"
	run sandlock why "$N-b"
	expect_output "linux.resources.pids.limit 3"
}

@test "why PATH: hidden, read-only, private, in the branch, not sandlock's doing" {
	touch here
	serve --fs-deny /etc/hostname -- sleep 600
	run sandlock why "$N" ./here
	expect_status 0
	expect_output 'it goes to the branch'
	run sandlock why "$N" /etc/passwd
	expect_status 1
	expect_output "read /etc/passwd: yes"
	expect_output "write /etc/passwd: no"
	expect_output "sandlock run --fs-write /etc/passwd"
	run sandlock why "$N" /etc/shadow
	expect_status 1
	expect_output "builtin:secrets"
	run sandlock why "$N" /etc/hostname
	expect_status 1
	expect_output "filesystem.deny hides"
	run sandlock why "$N" "$W/out"
	expect_status 1
	expect_output "to allow: sandlock run --fs-mount $W/out:$W/out:ro"
	run sandlock why "$N" /tmp
	expect_status 0
	run sandlock why "$N" /no/such
	expect_status 2
	expect_output "not sandlock"
	run sandlock why "$N" frob
	expect_status 2
	expect_output "neither a path nor a system call"
	run sandlock why --json "$N" ptrace
	equal answer "$(jq -c '.answers[0] | [.what, .answer, .remedy]' \
		<<<"$output")" '["call","no","--extra-allow-syscall debug"]'
	unserve
}

@test "why PATH: what it recommends helps, and it recommends nothing else" {
	echo secret >"$W/far"
	serve -- sleep 600
	remedy_for() {
		run sandlock why --json "$N" "$1"
		mapfile -t remedies < <(jq -r '.answers[] | (.remedy // "")' \
			<<<"$output")
	}
	remedy_for "$W/far"
	# shellcheck disable=SC2086
	run sandlock run --dry-run ${remedies[0]} -- cat "$W/far"
	expect_exactly secret
	unserve
	mkdir -p "$W/ro"
	serve --fs-read / -- sleep 600
	remedy_for "$W/ro"
	equal read "${remedies[0]}" ""
	# shellcheck disable=SC2086
	run sandlock run --dry-run --fs-read / ${remedies[1]} -- \
		touch "$W/ro/made"
	expect_status 0
	[ -e "$W/ro/made" ]
	unserve
}

@test "--explain: files that were out of reach, by which rule, and what helps" {
	echo secret >"$W/far"
	mkdir "$W/ro"
	run sandlock run --name "$N" --explain --fs-deny /etc/hostname -- sh -c '
		cat /etc/shadow "$1/far" /etc/hostname /no/such ./nor-that
		echo x >"$1/far"; touch /usr/new; cat /etc/passwd >f
		cat f >/dev/null; exit 3' - "$W"
	expect_status 3
	refute_output secret
	run sandlock logs --json "$N"
	equal records "$(jq -c '.denials[] | [.code, .errno, .object, .program]' \
		<<<"$output" | tr '\n' ' ')" \
		'["fs.read_file",null,"/etc/shadow","cat"] ["fs.read_file","ENOENT","'"$W"'/far","cat"] ["fs.read_file","EACCES","/etc/hostname","cat"] ["fs.write_file","ENOENT","'"$W"'/far","sh"] ["fs.write_file","EROFS","/usr/new","touch"] '
	equal where "$(jq -r '.denials[2].where' <<<"$output")" --fs-deny
	mapfile -t remedies < <(jq -r '.denials[] | (.remedy // "")' <<<"$output")
	# shellcheck disable=SC2086
	run sandlock run --dry-run ${remedies[1]} -- cat "$W/far"
	expect_exactly secret
	# shellcheck disable=SC2086
	run sandlock run --dry-run ${remedies[3]} -- \
		sh -c 'echo x >"$1"' - "$W/far"
	expect_status 0
	equal far "$(cat "$W/far")" x
	run sandlock logs "$N"
	expect_output "cat may not read '/etc/shadow': empty [fs.read_file]"
	run sandlock why "$N" /usr/new
	expect_output "it is mounted read-only"
}

@test "changes: pages of what the branch holds now" {
	serve -- sh -c 'for i in $(seq 2000); do echo $i >file-$i; done; touch done; sleep 600'
	eventually sh -c "$SANDLOCK diff $N | grep -q 'A done'"
	local next=0 page n=0
	while [ "$next" != null ]; do
		page=$(ask '{"v":1,"verb":"changes","args":{"after":'$next'}}')
		equal ok "$(jq .ok <<<"$page")" true
		n=$((n + $(jq '.data.changes | length' <<<"$page")))
		jq -r '.data.changes[].path' <<<"$page" >>"$W/paths"
		next=$(jq .data.next <<<"$page")
	done
	equal number $n 2001
	equal paths "$(sort -u "$W/paths" | wc -l)" 2001
	run ask '{"v":1,"verb":"changes","args":{"after":"x"}}'
	expect_output "'after' is no number"
	unserve
}

@test "subscribe: logs --follow tells what happens, and ends with the sandbox" {
	skip_on_other_machines
	mkfifo "$W/go"
	serve --fs-write "$W/go" -- sh -c 'python3 -c "$1" '$KEYCTL' 1
		read x <"$2"; python3 -c "$1" '$PTRACE' 1
		python3 -c "$1" '$((PTRACE + 1000))' 1; unshare -m; sleep 600' - \
		"$SYSCALL" "$W/go"
	eventually sh -c "$SANDLOCK logs $N | grep -q keyctl"
	sandlock logs --follow --json "$N" >"$W/events" 3>&- &
	local follower=$!
	eventually grep -q keyctl "$W/events"
	echo >"$W/go"
	eventually grep -q unshare "$W/events"
	unserve
	wait $follower
	equal order "$(jq -r .call "$W/events" | tr '\n' ' ')" \
		'keyctl ptrace unshare '
}

@test "a subscriber that does not read delays nobody" {
	skip_on_other_machines
	serve -- sh -c 'while :; do python3 -c "$1" '$KEYCTL' 20000; done' - \
		"$SYSCALL"
	python3 - "$SANDLOCK_ROOT/$N/control.sock" <<-'END' &
		import socket, struct, sys, time
		s = socket.socket(socket.AF_UNIX)
		s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
		s.connect(sys.argv[1])
		b = b'{"v":1,"verb":"subscribe"}'
		s.sendall(struct.pack(">I", len(b)) + b)
		time.sleep(600)
	END
	started $!
	counted() {
		[ "$(sandlock logs --json "$N" | jq '.denials[0].count')" \
			-gt "$1" ]
	}
	eventually counted 5000
	eventually counted 30000
	unserve
}

@test "a bundle in the foreground answers too; without its socket by its files" {
	make_bundle
	script 'echo x >/data/x; ls -l /proc/self/fd >/data/fds; sleep 600'
	sandlock run -b "$B" "$N" >"$W/out" 2>&1 3>&- &
	SERVER=$!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
	eventually sh -c "$SANDLOCK diff $N | grep -q fds"
	for verb in state config inspect ports denials changes; do
		run ask '{"v":1,"verb":"'$verb'"}'
		expect_output '"ok":true'
	done
	expect_output '"path":"data/x"'
	sandlock inspect "$N" | jq -e '.status == "running"'
	equal server "$(cat "/proc/$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")/comm")" \
		sandlock
	sandlock diff --patch "$N" data/fds >"$W/fds"
	! grep -q socket "$W/fds"
	run ask '{"v":1,"verb":"config","args":{"format":"toml"}}'
	expect_output 'is a bundle'
	run ask '{"v":1,"verb":"kill"}'
	expect_output '"ok":true'
	wait $SERVER || true
	[ ! -e "$SANDLOCK_ROOT/$N" ]
	sandlock abort "$N"
	script 'sleep 600'
	sandlock run --no-control-socket -b "$B" "$N" >"$W/out" 2>&1 3>&- &
	SERVER=$!
	eventually sh -c "$SANDLOCK state $N | grep -q running"
	[ ! -e "$SANDLOCK_ROOT/$N/control.sock" ]
	sandlock kill "$N"
	wait $SERVER || true
	create_running "$N" --no-control-socket
	[ ! -e "$SANDLOCK_ROOT/$N/control.sock" ]
	sandlock inspect "$N" | jq -e '.status == "running"'
}
