# `sandlock run -- COMMAND`: a command of the host in a sandbox, the directory
# it works in on a branch.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/dir"
	echo old >"$W/dir/f"
	cd "$W/dir" || return 1
}

teardown() {
	cd / || return 1
	finish
}

# The only branch there is.
branch() {
	branches_json | jq -r '.[0].name'
}

no_branch() {
	equal branches "$(branches_json | jq length)" 0
}

@test "command: without a flag it works in the current directory, on a branch" {
	run sandlock run -- sh -c 'pwd; cat f; echo new >f; mkdir d; rm -f g'
	expect_status 0
	expect_output "$W/dir"
	expect_output old
	equal f "$(cat f)" old
	[ ! -e d ]
	name=$(branch)
	run sandlock diff "$name"
	expect_output "M f"
	expect_output "A d/"
	run sandlock commit "$name"
	expect_status 0
	equal f "$(cat f)" new
	[ -d d ]
	no_branch
}

@test "command: abort leaves the directory bit-identical" {
	"$SNAP" "$W/dir" >"$W/before"
	run sandlock run --name b1 -- sh -c 'echo x >f; echo y >g; chmod 700 .; rm f'
	expect_status 0
	run sandlock abort b1
	expect_status 0
	"$SNAP" "$W/dir" >"$W/after"
	same "$W/before" "$W/after"
}

@test "command: what changed nothing leaves nothing and says nothing" {
	run sandlock run -- true
	expect_exactly ""
	expect_status 0
	no_branch
}

@test "command: the exit status is the command's" {
	run sandlock run -- sh -c 'exit 42'
	expect_status 42
	run sandlock run -- sh -c 'kill -SEGV $$'
	expect_status 139
	run sandlock run -- sh -c 'kill -KILL $$'
	expect_status 137
	run sandlock run -- nosuchprogram
	expect_status 127
	expect_output "executable file not found in \$PATH"
	run sandlock run -- /etc
	expect_status 126
	run sandlock run -e 'exit 7'
	expect_status 7
	# Whoever starts us may ignore the ends of children.
	run env --ignore-signal=CHLD "$SANDLOCK" run -- sh -c 'exit 7'
	expect_status 7
}

@test "command: standard streams are passed as they are" {
	run bash -c "printf 'a\nb\n' | '$SANDLOCK' run -- sh -c 'cat; echo err >&2' 2>'$W/err'"
	expect_exactly "a"$'\n'"b"
	equal stderr "$(cat "$W/err")" err
}

@test "command: -t ends everything, 124, and settles the branch" {
	run sandlock run --name slow -t 500ms -- sh -c 'echo 1 >g; setsid sleep 100 & sleep 100'
	expect_status 124
	equal state "$(branches_json | jq -r '.[0].state')" pending
	run sandlock diff slow
	expect_exactly "A g"
	run sandlock abort slow
	expect_status 0
}

@test "command: a daemon does not outlive it" {
	run sandlock run --on-exit=abort -- \
		sh -c 'setsid sh -c "sleep 1000; :" $0 >/dev/null 2>&1 & exit 0' "$N"
	expect_status 0
	equal left "$(leaked_processes "${W##*.}")" ""
}

@test "command: dry-run lists on standard error, keeps the status, changes nothing" {
	for want in 0 3; do
		run bash -c "'$SANDLOCK' run --dry-run -- sh -c 'echo out; echo x >f; echo y >g; exit $want' 2>'$W/err'"
		expect_status $want
		expect_exactly out
		grep -q '^M f' "$W/err"
		grep -q '^A g' "$W/err"
		equal f "$(cat f)" old
		no_branch
	done
	run sandlock run --dry-run --on-exit=commit -- true
	expect_status 125
	expect_output "--dry-run"
}

@test "command: dispositions by success and failure" {
	run sandlock run --on-exit=commit --on-error=abort -- sh -c 'echo 1 >f'
	expect_status 0
	equal f "$(cat f)" 1
	run sandlock run --on-exit=commit --on-error=abort -- sh -c 'echo 2 >f; exit 3'
	expect_status 3
	equal f "$(cat f)" 1
	no_branch
}

@test "command: secrets of the environment stay outside, the rest is passed" {
	export MY_TOKEN=sesame AWS_PROFILE=x PLAIN=yes
	run sandlock run --env ADDED=1 -- env
	expect_output PLAIN=yes
	expect_output ADDED=1
	expect_output SANDLOCK=
	refute_output sesame
	refute_output AWS_PROFILE
	run sandlock run --clean-env -- env
	refute_output PLAIN
	expect_output PATH=
	run sandlock run --clean-env --env MY_TOKEN --env PLAIN=no -- env
	expect_output MY_TOKEN=sesame
	expect_output PLAIN=no
	run sandlock run --env novalue -- env
	expect_status 125
	expect_output "NAME=VALUE"
}

@test "command: limits" {
	run sandlock run --max-open-files 20 -- sh -c 'ulimit -n'
	expect_exactly 20
	run sandlock run -t 0 -- true
	expect_status 125
	run sandlock run -m 12x -- true
	expect_status 125
	expect_output "-m: "
	skip_unless_root
	run sandlock run -P 3 -- sh -c 'for i in 1 2 3 4 5 6; do sleep 1 & done; wait'
	[ "$status" -ne 0 ]
	run sandlock run -m 64M -- python3 -c 'x = bytearray(300 << 20)'
	[ "$status" -ne 0 ]
}

@test "command: a limit on the size of files is the command's, and told of" {
	run bash -c 'ulimit -f 0; exec "$0" run -- true' "$SANDLOCK"
	expect_status 125
	expect_output "File too large"
	expect_output "ulimit -f"
	expect_one_error
	run bash -c 'ulimit -f 256; exec "$0" run -- sh -c "
		ulimit -f; head -c 1000000 /dev/zero >big"' "$SANDLOCK"
	# 128 + SIGXFSZ
	expect_status 153
	expect_output 512 # of 512 bytes each
	run sandlock run -- grep SigIgn /proc/self/status
	expect_output 0000000000000000
}

@test "command: status-fd tells the end as JSON" {
	run bash -c "'$SANDLOCK' run --status-fd 5 -- sh -c 'exit 3' 5>'$W/status'"
	expect_status 3
	equal code "$(jq .exit_code "$W/status")" 3
	run bash -c "'$SANDLOCK' run -t 200ms --status-fd 5 -- sleep 9 5>'$W/status'"
	equal timed "$(jq .timed_out "$W/status")" true
}

@test "command: status-fd tells that nothing was executed" {
	local told

	printf '#!/nowhere\n' >script
	chmod +x script
	printf 'text\n' >text
	# COMMAND STATUS
	while read -r command status; do
		run sandlock run --status-fd 5 -- "$command" 5>"$W/status"
		expect_status "$status"
		told=$(jq -r .error "$W/status")
		expect_output "sandlock: $told"
		equal told "$(jq -c 'del(.error)' "$W/status")" \
			"{\"exec_failed\":$status,\"branch\":\"\",\"denials\":0}"
	done <<-END
		/nowhere/at"all 127
		./script 127
		./text 126
	END
	equal branches "$(sandlock branches --json | jq -c .branches)" "[]"
	# A program that ends with the same status was executed.
	run sandlock run --status-fd 5 -- sh -c 'exit 127' 5>"$W/status"
	equal code "$(jq -c '[.exit_code, .exec_failed]' "$W/status")" "[127,null]"
	# Nothing of what sandlock itself refuses.
	run sandlock run --status-fd 5 --name . -- true 5>"$W/status"
	expect_status 125
	[ ! -s "$W/status" ]
	run sandlock run --status-fd 5 -- /nowhere 5</dev/null
	expect_status 125
	expect_output "no such file"
	expect_output "cannot write to --status-fd: Bad file descriptor"
}

@test "command: ps lists it, kill ends it, the branch waits" {
	"$SANDLOCK" run --name live -- sh -c 'echo 1 >g; sleep 100' 3>&- &
	pid=$!
	STARTED+=("$pid")
	eventually sh -c "'$SANDLOCK' ps | grep -q '^live .*running'"
	eventually sh -c "'$SANDLOCK' diff live | grep -q 'A g'"
	run sandlock run --name live -- true
	expect_status 125
	expect_output "already exists"
	run sandlock kill live
	expect_status 0
	run wait "$pid"
	run sandlock ps
	refute_output live
	run sandlock diff live
	expect_exactly "A g"
	run sandlock kill live
	expect_status 1
	run sandlock commit live
	expect_status 0
	equal g "$(cat g)" 1
}

all_have_ended() {
	[ -z "$(leaked_processes "${W##*.}")" ]
}

@test "command: killed with SIGKILL it takes the sandbox along, the branch is recovered" {
	"$SANDLOCK" run --name dead -- sh -c 'echo 1 >g; sleep 1000; :' "$N" 3>&- &
	pid=$!
	STARTED+=("$pid")
	eventually sh -c "'$SANDLOCK' diff dead | grep -q 'A g'"
	kill -KILL "$pid"
	wait "$pid" || true
	eventually all_have_ended
	run sandlock commit dead
	expect_status 0
	equal g "$(cat g)" 1
}

@test "command: --workdir, --cwd, -r, -w, --fs-mount, --fs-deny" {
	mkdir "$W/other" "$W/work" "$W/ro"
	echo secret >"$W/other/s"
	run sandlock run --workdir "$W/work" --cwd / -- sh -c "pwd; echo 1 >$W/work/x"
	expect_output /
	[ ! -e "$W/work/x" ]
	run sandlock commit "$(branch)"
	equal x "$(cat "$W/work/x")" 1
	run sandlock run -- cat "$W/other/s"
	expect_status 1
	run sandlock run -r / -- sh -c "cat $W/other/s; echo no >$W/other/s"
	expect_output secret
	equal s "$(cat "$W/other/s")" secret
	run sandlock run -w "$W/other" -- sh -c "echo yes >$W/other/s"
	expect_status 0
	equal s "$(cat "$W/other/s")" yes
	run sandlock run --workdir "$W/work" --on-exit=abort -w "$W/work/x" -- \
		sh -c "echo 2 >$W/work/x; cat $W/work/x"
	expect_output "-w $W/work/x lies in a workdir: what is written there waits in the branch, too"
	equal x "$(cat "$W/work/x")" 1
	run sandlock run --fs-mount "/data:$W/other:ro" -- sh -c 'cat /data/s; echo no >/data/s'
	expect_output yes
	equal s "$(cat "$W/other/s")" yes
	refused 125 "--fs-mount '$W/dir/m' lies in the workdir '$W/dir'" \
		sandlock run --fs-mount "$W/dir/m:$W/other" -- true
	ln -s dir "$W/link"
	refused 125 "--fs-mount '$W/link/m/n' lies in the workdir '$W/dir'" \
		sandlock run -r "$W" --fs-mount "$W/link/m/n:$W/other" -- true
	# Where it does not show it is in nobody's way.
	run sandlock run --fs-mount "$W/link:$W/other" -- cat "$W/link/s"
	expect_output yes
	run sandlock run --fs-deny "$W/dir/f" --fs-deny "$W/other" \
		-r / -- sh -c 'cat f; echo x >f; ls -A "$1"' - "$W/other"
	expect_status 0
	equal lines "${lines[*]}" \
		"cat: f: Permission denied -: 1: cannot create f: Permission denied"
}

@test "command: bad places are refused with a hint" {
	run sandlock run --fs-deny '' -- true
	expect_status 125
	expect_output '--fs-deny: an empty path'
	run sandlock run --fs-deny /nowhere/x -- true
	expect_status 0
	run sandlock run --workdir "$W/nowhere" -- true
	expect_status 125
	expect_output "$W/nowhere"
	run sandlock run -r "$W/nowhere" -- true
	expect_status 125
	cd /
	run sandlock run -- true
	expect_status 125
	expect_output --workdir
	no_branch
}

@test "command: what is denied and could be made is refused" {
	mkdir -p "$W/dir/d" "$W/other" "$W/mounted"
	cd "$W/dir"
	for denied in "$W/dir/d/new" d/new "$W/dir/d/a/b" "$W/other/new" /at/new; do
		for tier in $(tiers); do
			[ "$tier $denied" != "notify /at/new" ] || continue
			set -- run --isolation "$tier" -w "$W/other" --fs-deny "$denied"
			[ "$denied" != /at/new ] || set -- "$@" --fs-mount "/at:$W/mounted"
			run sandlock "$@" -- true
			expect_status 125
			expect_output "--fs-deny '$denied': it does not exist"
		done
	done
	# Nothing there is written, or it does not stay.
	run sandlock run --fs-mount "/at:$W/mounted:ro" --fs-deny /at/new \
		--fs-deny "$W/new" --fs-deny /tmp/new --fs-deny /etc/new -- true
	expect_status 0
	no_branch
}

@test "command: threads, python, git and make work without a flag" {
	run sandlock run --on-exit=abort -- python3 -c \
		'import threading; t = threading.Thread(target=print, args=("t",)); t.start(); t.join()'
	expect_exactly t
	run sandlock run --on-exit=abort -- git init -q repo
	expect_status 0
	printf 'all:\n\t@echo made >out\n' >Makefile
	run sandlock run --name mk -- make
	expect_status 0
	run sandlock diff mk
	expect_exactly "A out"
	run sandlock abort mk
	[ -w /dev/null ]
	run sandlock run -- sh -c 'echo x >/dev/null && echo y >/tmp/y && cat /tmp/y'
	expect_exactly y
	[ ! -e /tmp/y ]
}

@test "command: System V objects are those of the sandbox, as fakeroot and databases need" {
	local key=$((0x51a10c00 + $$ % 256))

	cat >shm.py <<-'E'
		import ctypes, sys
		print(ctypes.CDLL(None).shmget(int(sys.argv[1]), 4096, int(sys.argv[2], 8)) >= 0)
	E
	run sandlock run -- python3 shm.py "$key" 1600
	expect_exactly True
	run python3 shm.py "$key" 0
	expect_exactly False
	run sandlock run --extra-deny-syscall sysv_ipc -- python3 shm.py "$key" 1600
	expect_exactly False
}

@test "command: what it worked in can be unmounted once its changes are decided about" {
	[ "$(id -u)" = 0 ] || skip "mounts"
	mkdir "$W/mnt"
	for action in abort commit abort commit; do
		mount --bind "$W/dir" "$W/mnt"
		(cd "$W/mnt" && sandlock run --on-exit "$action" -- \
			sh -c 'mkdir -p d && cd d && touch $(seq 300) && rm -f ../f' &&
			sandlock branches)
		umount "$W/mnt" || {
			umount -l "$W/mnt"
			return 1
		}
	done
}

@test "command: secrets of a home behind a link are hidden in the workdir" {
	mkdir -p "$W/real/.ssh"
	echo secret >"$W/real/.ssh/id"
	ln -s real "$W/home"
	cd "$W/home"
	HOME=$W/home run sandlock run -- cat .ssh/id
	expect_status 1
	refute_output secret
	cd "$W/dir"
	HOME=$W/home run sandlock run --fs-mount "/data:$W/real" -- cat /data/.ssh/id
	expect_status 1
	refute_output secret
}

@test "command: where something can be downloaded tools write to their caches, in vain" {
	mkdir -p "$W/home/.npm/sub" "$W/home/.cargo" "$W/home/.m2" "$W/home/.pyenv" \
		"$W/home/go/pkg" "$W/home/go/src"
	echo old >"$W/home/.npm/f"
	echo token >"$W/home/.cargo/credentials.toml"
	chmod 711 "$W/home/.npm"
	"$SNAP" "$W/home" >"$W/before"
	HOME=$W/home run sandlock run --net-allow 127.0.0.1:1 -- sh -c '
		cd ~/.npm && cat f && echo new >f && mv f sub/g && rm -r sub &&
		mkdir sub && stat -c %a . && touch ../.m2/x && cd ../.cargo &&
		cat credentials.toml; mv credentials.toml x; ls; touch ../.pyenv/x'
	expect_exactly "old
711
mv: cannot move 'credentials.toml' to 'x': Device or resource busy
credentials.toml
touch: cannot touch '../.pyenv/x': Read-only file system"
	HOME=$W/home run sandlock run -- touch "$W/home/.npm/g"
	expect_output "Read-only file system"
	HOME=$W/home run sandlock run --net-allow 127.0.0.1:1 -- sh -c '
		touch ~/go/pkg/x && touch ~/go/src/x'
	expect_exactly "touch: cannot touch '$W/home/go/src/x': Read-only file system"
	"$SNAP" "$W/home" >"$W/after"
	same "$W/before" "$W/after"
	no_branch
}

@test "command: what is mounted in a cache, however deep, is what tools find there" {
	mkdir -p "$W/home/go/pkg/mod" "$W/home/.m2" "$W/shared"
	touch "$W/home/.m2/settings.xml" "$W/home/.m2/f"
	echo shared | tee "$W/shared/f" >"$W/file"
	mount --bind "$W/shared" "$W/home/go/pkg/mod"
	mount --bind "$W/file" "$W/home/.m2/f"
	HOME=$W/home run sandlock run --net-allow 127.0.0.1:1 -- sh -c '
		cat ~/go/pkg/mod/f ~/.m2/f; touch ~/go/pkg/mod/f'
	umount "$W/home/go/pkg/mod" "$W/home/.m2/f"
	expect_exactly "shared
shared
touch: cannot touch '$W/home/go/pkg/mod/f': Read-only file system"
}

@test "command: its host is called as the host is, and so found in the hosts file" {
	run sandlock run -- uname -n
	expect_exactly "$(uname -n)"
}

@test "command: fds that LISTEN_FDS counts stay outside" {
	exec 5<"$W/dir/f"
	LISTEN_FDS=3 run sandlock run -- sh -c 'env | grep LISTEN; cat <&5'
	exec 5<&-
	[ "$status" -ne 0 ]
	refute_output LISTEN_FDS=
	refute_output old
}

@test "command: arguments are bytes" {
	sandlock run -- printf '%s' $'a\xffb' >"$W/out"
	equal bytes "$(od -An -tx1 "$W/out" | tr -d ' ')" 61ff62
}

@test "command: a device in the workdir cannot be opened" {
	[ "$(id -u)" = 0 ] || skip "makes a device"
	mknod zero c 1 5
	run sandlock run -- head -c1 zero
	expect_status 1
}

@test "command: a path of a merged usr can be named by its link" {
	[ -L /lib ] || skip "no merged usr"
	run sandlock run -r /usr -r /bin -r /lib -r /lib64 -w /lib -- ls -ld /lib
	expect_status 0
	expect_output /lib
}

@test "run -r /usr: the links of a merged one come along, but over what is mounted there" {
	[ -L /bin ] || skip "/bin is no link here"
	run sandlock run --branch=none -r /usr/ -- /bin/sh -c 'cd -P /bin; pwd'
	expect_exactly /usr/bin
	mkdir -p "$W/other"
	run sandlock run --branch=none -r /usr --fs-mount /sbin:"$W/other" -- \
		/bin/sh -c 'cd -P /sbin; pwd; ls -A'
	expect_exactly /sbin
	run sandlock run --branch=none -r /usr/lib -r /usr/lib64 -r /usr/bin -- \
		ls -d /bin /sbin
	expect_status 2
	expect_output "cannot access '/sbin'"
}

@test "command: the signal mask is the caller's" {
	run python3 -c "
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.execv('$SANDLOCK', ['sandlock', 'run', '--', 'grep', 'SigBlk', '/proc/self/status'])"
	expect_match 'SigBlk:[[:space:]]+0000000000000200'
}

@test "command: variables and directories are bytes" {
	mkdir $'b\377'
	cd $'b\377'
	V=$'a\376b' run sandlock run --on-exit=abort -- \
		sh -c 'printf %s "$V" | od -An -tx1; pwd | od -An -c | tail -n 1'
	expect_status 0
	expect_output "61 fe 62"
	expect_output 377
}

@test "command: no signal is ignored inside, also not those of glibc's own" {
	run python3 -c "
import os
pid = os.posix_spawn('$SANDLOCK', ['sandlock', 'run', '--', 'grep', 'SigIgn', '/proc/self/status'], os.environ)
os.waitpid(pid, 0)"
	expect_match 'SigIgn:[[:space:]]+0000000000000000'
}

@test "command: what cannot be is refused by name, before anything runs" {
	while IFS='|' read -r options text; do
		# shellcheck disable=SC2086
		run sandlock run $options -- touch ran
		expect_status 125
		expect_output "$text"
	done <<-'E'
		--net-allow|option '--net-allow' needs a value: RULE
		--storage=|--storage: nothing is given
		--status-fd 77|--status-fd: '77' is no open file descriptor
		--status-fd -1|--status-fd: '-1' is no open file descriptor
		--ask /nonexistent --ask-exec x|--ask '/nonexistent': No such file or directory
		--cwd here|--cwd: 'here' is no absolute path
		--cwd /nonexistent|hint: it does not exist inside, and cannot be made there
		--branch=none --on-exit=commit|hint: drop --branch=none
		--max-open-files 1|hint: raise the limit: ulimit -n
	E
	[ ! -e ran ]
	run sandlock run -b "$W" --storage= "$N"
	expect_status 125
	ln -s "$W" "$W/link"
	run sandlock --root "$W/link" ps
	expect_output "runtime directory '$W/link' is a symbolic link"
}

@test "a full disk: the error says what to do, and what was written waits" {
	skip_unless_root
	mkdir "$W/small"
	mount -t tmpfs -o size=2m none "$W/small"
	run sandlock run --name "$N" --storage "$W/small/s" -- \
		sh -c 'head -c 3000000 /dev/zero >big'
	status_of_run=$status told=$output
	run sandlock commit "$N"
	full=$status full_told=$output
	sandlock abort -q "$N"
	eventually umount "$W/small"
	[ "$status_of_run" != 0 ]
	[[ $told == *"what it wrote waits as '$N'"* ]]
	[[ $full == 1 && $full_told == *"hint: free some space where it is stored"* ]]
}

@test "a terminal that every process closed for a moment goes on when it is opened again" {
	run timeout 60 script -qec "$SANDLOCK run --dry-run -- sh -c 't=\$(tty)
		exec <&- >&- 2>&-; sleep 0.5; exec >\$t; echo once more; exit 4'" \
		/dev/null </dev/null
	expect_status 4
	expect_output "once more"
}

@test "exec: it begins where the command did, and nowhere else" {
	mkdir d
	"${RT[@]}" run --name "$N" --cwd "$W/dir/d" -- sh -c \
		'rmdir ../d; exec sleep 1000' </dev/null >"$W/out" 2>&1 3>&- &
	started $!
	eventually has_status "$N" running
	eventually sh -c '! "$@"' sh "${RT[@]}" exec --cwd "$W/dir/d" "$N" true
	refused 125 "cannot change to process.cwd '$W/dir/d'" \
		sandlock exec "$N" true
	sandlock kill "$N"
	sandlock abort "$N"
	"${RT[@]}" run --name "$N" --branch=none -- sleep 1000 \
		</dev/null >"$W/out" 2>&1 3>&- &
	started $!
	eventually has_status "$N" running
	run sandlock exec "$N" pwd
	expect_exactly /
	sandlock kill "$N"
}
