# What a bundle asks for is what its program gets (oci.md sections 1.3 to 1.6).
load lib/common

setup() {
	begin
	make_bundle
}

teardown() { finish; }

inside() {
	script "$1"
	run sandlock run -b "$B" "$N"
}

# ------------------------------------------------------------ namespaces --

@test "every namespace of the default spec is a new one" {
	inside 'for n in pid ipc uts mnt net; do readlink /proc/self/ns/$n; done'
	expect_status 0
	for ns in pid ipc uts mnt net; do
		expect_output "$ns:["
		refute_output "$(readlink "/proc/self/ns/$ns")"
	done
}

@test "the program is pid 1 of its pid namespace" {
	inside 'echo $$'
	expect_exactly 1
}

@test "a namespace that is not listed is inherited" {
	drop_ns network
	inside 'readlink /proc/self/ns/net'
	expect_exactly "$(readlink /proc/self/ns/net)"
}

@test "a namespace with a path is joined" {
	skip_unless_root
	unshare -u sleep 1000 3>&- &
	holder=$!
	started $holder
	eventually bash -c "[ /proc/$holder/ns/uts -ef /proc/self/ns/uts ] && exit 1 || exit 0"
	config '.linux.namespaces |= map(if .type == "uts"
		then .path = $p else . end) | del(.hostname)' \
		--arg p "/proc/$holder/ns/uts"
	inside 'readlink /proc/self/ns/uts'
	expect_exactly "$(readlink /proc/$holder/ns/uts)"
}

@test "user namespace: ids are mapped as asked" {
	skip_unless_root
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = [{containerID: 0, hostID: 100000, size: 65536}]'
	chown -R 100000:100000 "$R"
	chmod 755 "$W" "$B" "$R"
	inside 'cat /proc/self/uid_map | tr -s " "; probe ids; echo x >/data/mine'
	expect_status 0
	expect_output "0 100000 65536"
	expect_output "0 0"
}

@test "user namespace: time offsets and oomScoreAdj are applied" {
	skip_unless_root
	config '.linux.namespaces += [{type: "user"}, {type: "time"}]
		| .linux.timeOffsets.boottime = {secs: 1000000, nanosecs: 0}
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings
		| .process.oomScoreAdj = 100'
	chown -R 100000:100000 "$R"
	chmod 755 "$W" "$B" "$R"
	inside 'cat /proc/self/oom_score_adj; tr -s " " </proc/self/timens_offsets'
	expect_status 0
	expect_output 100
	expect_output "boottime 1000000 0"
	set_args sleep 1000
	create_running "$N-s"
	run sandlock exec "$N-s" cat /proc/self/oom_score_adj
	expect_exactly 100
}

@test "user namespace: maps without 0 are refused" {
	only_sandlock
	config '.linux.namespaces += [{type: "user"}]'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output "uidMappings"
}

@test "time namespace: offsets are applied" {
	only_sandlock
	config '.linux.namespaces += [{type: "time"}]
		| .linux.timeOffsets.boottime = {secs: 1000000, nanosecs: 0}'
	inside 'cut -d. -f1 /proc/uptime'
	expect_status 0
	[ "$output" -gt 1000000 ]
}

@test "the loopback device of a new network namespace is up" {
	inside 'ip addr show lo'
	expect_output "127.0.0.1"
	expect_output "UP"
}

@test "hostname and domainname are set" {
	config '.hostname = "box" | .domainname = "example.org"'
	inside 'hostname; cat /proc/sys/kernel/domainname'
	expect_output box
	only_sandlock
	expect_exactly $'box\nexample.org'
}

# ------------------------------------------------------- the process --

@test "capabilities are exactly those asked for, inheritable empty" {
	config '.process.capabilities = {
		bounding: ["CAP_KILL", "CAP_CHOWN"], effective: ["CAP_KILL"],
		permitted: ["CAP_KILL", "CAP_CHOWN"]}'
	inside 'grep ^Cap /proc/self/status | tr -s "\t" " "'
	expect_exactly $'CapInh: 0000000000000000\nCapPrm: 0000000000000021\nCapEff: 0000000000000021\nCapBnd: 0000000000000021\nCapAmb: 0000000000000000' ||
		expect_exactly $'CapInh: 0000000000000000\nCapPrm: 0000000000000021\nCapEff: 0000000000000020\nCapBnd: 0000000000000021\nCapAmb: 0000000000000000'
}

@test "capabilities: no object means none at all" {
	config 'del(.process.capabilities)'
	inside 'grep ^Cap /proc/self/status | tr -d "\t" | sort -u -t: -k2'
	expect_match '^Cap[A-Za-z]+:0000000000000000$'
}

@test "capabilities: an unknown one is a warning, not an error" {
	config '.process.capabilities.bounding += ["CAP_BOGUS"]'
	inside 'echo ran'
	expect_status 0
	expect_output ran
}

@test "capabilities: a plain user with ambient ones has them" {
	config '.process.user = {uid: 1000, gid: 1000}
		| .process.capabilities = {bounding: ["CAP_KILL"],
		permitted: ["CAP_KILL"], effective: ["CAP_KILL"],
		inheritable: ["CAP_KILL"], ambient: ["CAP_KILL"]}'
	inside 'grep CapEff /proc/self/status | tr -d "\t"'
	expect_exactly "CapEff:0000000000000020"
}

@test "a plain user has no capabilities" {
	config '.process.user = {uid: 1000, gid: 1000}'
	inside 'grep CapEff /proc/self/status | tr -d "\t"'
	expect_exactly "CapEff:0000000000000000"
}

@test "noNewPrivileges is set as asked" {
	config '.process.noNewPrivileges = true'
	inside 'probe nnp'
	expect_exactly 1
	config '.process.noNewPrivileges = false'
	inside 'probe nnp'
	expect_exactly 0
}

@test "rlimits are exact" {
	config '.process.rlimits = [{type: "RLIMIT_NOFILE", soft: 200, hard: 300},
		{type: "RLIMIT_CORE", soft: 0, hard: 0}]'
	inside 'probe rlimit 7; probe rlimit 4'
	expect_exactly $'200 300\n0 0'
}

@test "user, groups and umask are applied" {
	config '.process.user = {uid: 1000, gid: 1001, additionalGids: [5, 7],
		umask: 63}'
	inside 'probe ids; umask'
	expect_exactly $'1000 1001 5 7\n0077'
}

@test "cwd: is entered, and made where it is missing" {
	config '.process.cwd = "/data"'
	inside 'pwd'
	expect_exactly /data
	config '.process.cwd = "/made/for/it"'
	inside 'pwd'
	expect_status 0
	expect_exactly /made/for/it
}

@test "oomScoreAdj is set exactly, and untouched where not given" {
	own=$(cat /proc/self/oom_score_adj)
	config '.process.oomScoreAdj = 500'
	inside 'cat /proc/self/oom_score_adj'
	expect_exactly 500
	config 'del(.process.oomScoreAdj)'
	inside 'cat /proc/self/oom_score_adj'
	expect_exactly "$own"
}

@test "no fd but 0, 1 and 2 is open in the program" {
	inside 'probe fds'
	equal fds "$(cut -d' ' -f1 <<<"$output" | tr '\n' ' ')" "0 1 2 "
}

@test "--preserve-fds passes exactly those fds" {
	script 'cat <&3; probe fds | cut -d" " -f1 | tr "\n" " "'
	echo kept >"$W/kept"
	exec 7<"$W/kept"
	run bash -c "exec 3<'$W/kept' 4</dev/null 5</dev/null
		exec '${RT[0]}' ${RT[*]:1} run --preserve-fds 2 -b '$B' $N"
	exec 7<&-
	expect_status 0
	expect_exactly $'kept\n0 1 2 3 4 '
}

@test "--preserve-fds of what is not open is refused before anything is made" {
	only_sandlock
	script 'echo ran'
	for verb in run create; do
		[ $verb = create ] && want=2 || want=125
		refused $want "--preserve-fds 1: fd 3 is not open" \
			sandlock $verb -b "$B" --preserve-fds 1 "$N" 3<&- 4<&-
		refused $want "--preserve-fds 3: fd 4 is not open" \
			sandlock $verb -b "$B" --preserve-fds 3 "$N" 3</dev/null 4<&-
		expect_output "hint: 1 would be right"
	done
	set_args sleep 1000
	create_running "$N"
	refused 125 "--preserve-fds 2: fd 4 is not open" \
		sandlock exec --preserve-fds 2 "$N" true 3</dev/null 4<&-
}

@test "personality LINUX32 is applied" {
	only_sandlock
	config '.linux.personality = {domain: "LINUX32"}'
	inside 'uname -m'
	expect_match 'i[3-6]86'
}

@test "scheduler and ioPriority are applied" {
	only_sandlock
	config '.process.scheduler = {policy: "SCHED_BATCH", nice: 5}
		| .process.ioPriority = {class: "IOPRIO_CLASS_IDLE", priority: 0}'
	inside 'cut -d" " -f19,41 /proc/self/stat'
	expect_exactly "5 3"
}

@test "scheduler: a deadline that the kernel does not take is explained" {
	only_sandlock
	config '.process.scheduler = {policy: "SCHED_DEADLINE", runtime: 2000000,
		deadline: 1000000, period: 1000000}'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output "process.scheduler"
	expect_output "1024 ns <= runtime <= deadline <= period"
}

@test "the program has its own session" {
	inside 'cut -d" " -f5,6 /proc/self/stat'
	expect_exactly "1 1"
}

# ---------------------------------------------------- root file system --

@test "the host's file systems are out of reach" {
	inside 'cat /proc/self/mountinfo | wc -l; ls /; ls /var/tmp 2>&1'
	expect_status 1
	refute_output slt.
	inside 'cut -d" " -f5 /proc/self/mountinfo'
	refute_output "/var/tmp"
	refute_output "/sys/fs/cgroup/unified/.."
}

@test "pivoted: the root has nothing below it" {
	config '.process.capabilities = {bounding: ["CAP_SYS_ADMIN"],
		effective: ["CAP_SYS_ADMIN"], permitted: ["CAP_SYS_ADMIN"]}
		| del(.linux.seccomp)'
	inside 'probe umount /; ls /data; echo changed >/data/a; cat /data/a'
	expect_output $'a\nb\nchanged'
	only_sandlock
	equal "lower" "$(cat "$R/data/a")" one
}

@test "a read-only root refuses writes, mounts on it do not" {
	config '.root.readonly = true | .process.cwd = "/missing/cwd"'
	inside 'pwd; echo x >/data/x; echo y >/dev/shm/y && echo shm'
	expect_output /missing/cwd
	expect_output "Read-only file system"
	expect_output shm
}

@test "the caller's groups are kept where run.oci.keep_original_groups is set" {
	only_sandlock
	config 'del(.process.user.additionalGids)'
	local RT=(setpriv --groups 5,6 "${RT[@]}")
	inside 'id -G'
	expect_exactly 0
	annotate run.oci.keep_original_groups 1
	inside 'id -G'
	expect_exactly "0 5 6"
}

@test "masked paths cannot be read, read-only paths not be written" {
	config '.linux.maskedPaths = ["/data/a", "/etc", "/proc/kcore", "/no/such"]
		| .linux.readonlyPaths = ["/data/b", "/home", "/no/such"]'
	mkdir -p "$R/etc/x"
	inside 'echo "[$(cat /data/a)]"; ls -A /etc; echo "[$(cat /proc/kcore)]"
		echo x >/data/b; echo x >/home/x; cat /data/b'
	expect_output "[]"
	refute_output passwd
	equal "read-only" "$(grep -c 'Read-only' <<<"$output")" 2
	expect_output two
}

@test "the default masks are in force" {
	inside 'cat /proc/keys; cat /proc/timer_list | head -1; ls -A /proc/acpi /sys/firmware 2>/dev/null; echo x >/proc/sys/kernel/hostname; echo x >/proc/sysrq-trigger'
	expect_output "Read-only file system"
	refute_output "Timer List"
}

@test "the default devices and links are there" {
	inside 'for d in null zero full random urandom tty; do
			stat -c "%n %t:%T %a" /dev/$d; done
		for l in fd stdin stdout stderr ptmx; do readlink /dev/$l; done'
	expect_exactly "/dev/null 1:3 666
/dev/zero 1:5 666
/dev/full 1:7 666
/dev/random 1:8 666
/dev/urandom 1:9 666
/dev/tty 5:0 666
/proc/self/fd
/proc/self/fd/0
/proc/self/fd/1
/proc/self/fd/2
pts/ptmx"
}

@test "devices that are bound in a user namespace take no set-id bits and run nothing" {
	only_sandlock
	skip_unless_root
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	inside 'grep " /dev/\(null\|tty\) " /proc/self/mountinfo | cut -d" " -f5,6
		echo x >/dev/null && echo written'
	expect_exactly "/dev/null ro,nosuid,noexec,relatime
/dev/tty ro,nosuid,noexec,relatime
written"
}

@test "devices of the bundle are made with mode and owner" {
	skip_unless_root
	config '.linux.devices = [{path: "/dev/own", type: "c", major: 1,
		minor: 3, fileMode: 416, uid: 5, gid: 6}]'
	inside 'stat -c "%t:%T %a %u %g" /dev/own'
	expect_exactly "1:3 640 5 6"
}

@test "an existing file that is not the device asked for is an error" {
	only_sandlock
	skip_unless_root
	touch "$R/notdev"
	config '.linux.devices = [{path: "/notdev", type: "c", major: 1, minor: 3}]'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output /notdev
}

@test "sysctls of the namespaces are set, others refused" {
	config '.linux.sysctl = {"net.ipv4.ip_forward": "1",
		"kernel.shm_rmid_forced": "1"}'
	inside 'cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shm_rmid_forced'
	expect_exactly $'1\n1'
	for key in vm.swappiness kernel.core_pattern net/../kernel/panic; do
		config '.linux.sysctl = {($k): "1"}' --arg k "$key"
		run sandlock run -b "$B" "$N"
		[ "$status" -ne 0 ]
		expect_output "${key##*../}"
	done
	config '.linux.sysctl = {"net.ipv4.ip_forward": "1"}'
	drop_ns network
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	expect_output net.ipv4.ip_forward
}

@test "rootfsPropagation is applied" {
	only_sandlock
	config '.linux.rootfsPropagation = "shared"'
	inside 'grep " / / " /proc/self/mountinfo'
	expect_output "shared:"
	config '.linux.rootfsPropagation = "private"'
	inside 'grep " / / " /proc/self/mountinfo'
	refute_output "shared:"
	refute_output "master:"
}

@test "rootfsPropagation slave: the host's mounts below the root arrive, none go back" {
	only_sandlock
	skip_unless_root
	mkdir -p "$R/mnt"
	mount --bind "$R" "$R"
	mount --make-shared "$R"
	config '.linux.rootfsPropagation = "rslave"'
	set_args sleep 1000
	create_running "$N" --branch=none
	mount -t tmpfs late "$R/mnt"
	touch "$R/mnt/late"
	run sandlock exec "$N" sh -c 'grep " / rw" /proc/self/mountinfo; ls /mnt'
	umount "$R/mnt"
	sandlock delete --force "$N"
	umount "$R"
	expect_output "master:"
	refute_output "shared:"
	expect_output late
}

@test "mounts of a sandbox do not spread to the host" {
	before=$(wc -l </proc/self/mountinfo)
	set_args sleep 1000
	create_running "$N"
	refute=$(grep -c "$N\|$R" /proc/self/mountinfo || true)
	equal "mounts on the host" "$refute" 0
	sandlock delete --force "$N"
}

# -------------------------------------------------------------- seccomp --

@test "seccomp: the actions and errno values are those of the profile" {
	config '.process.noNewPrivileges = true | .linux.seccomp = {
		defaultAction: "SCMP_ACT_ALLOW",
		architectures: ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
		syscalls: [{names: ["getcwd"], action: "SCMP_ACT_ERRNO", errnoRet: 99},
			{names: ["mkdir", "mkdirat", "no_such_syscall"], action: "SCMP_ACT_ERRNO"}]}'
	inside 'probe syscall 79; mkdir /data/x'
	expect_output "syscall: EADDRNOTAVAIL"
	expect_output "Operation not permitted"
	inside 'grep -E "^Seccomp:|^NoNewPrivs" /proc/self/status | tr -d "\t"'
	expect_output "Seccomp:2"
}

@test "seccomp: without no_new_privs too" {
	config '.process.noNewPrivileges = false | .linux.seccomp = {
		defaultAction: "SCMP_ACT_ALLOW",
		syscalls: [{names: ["mkdir", "mkdirat", "faccessat2",
				    "close_range"], action: "SCMP_ACT_ERRNO"}]}'
	inside 'mkdir /data/x'
	expect_output "Operation not permitted"
}

@test "seccomp: argument comparison" {
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", syscalls: [
		{names: ["personality"], action: "SCMP_ACT_ERRNO", errnoRet: 5,
		 args: [{index: 0, value: 4294967295, op: "SCMP_CMP_EQ"}]}]}'
	inside 'probe personality; probe syscall 135'
	expect_exactly $'ffffffffffffffff\nsyscall: ok'
}

@test "seccomp: KILL as the default does not hang the runtime" {
	only_sandlock
	config '.process.noNewPrivileges = true
		| .linux.seccomp = {defaultAction: "SCMP_ACT_KILL"}'
	COMMAND_TIMEOUT=10 run sandlock run -b "$B" "$N"
	[ "$status" -eq 159 ] || [ "$status" -eq 125 ]
}

@test "seccomp: the second run takes the cached program, damage is ignored" {
	only_sandlock
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW",
		syscalls: [{names: ["mkdir", "mkdirat"], action: "SCMP_ACT_ERRNO"}]}'
	inside 'mkdir /data/x'
	expect_output "Operation not permitted"
	inside 'mkdir /data/x'
	expect_output "Operation not permitted"
	find "$W/cache" -type f | while read -r f; do
		head -c 64 /dev/urandom >"$f"
	done
	inside 'mkdir /data/x'
	expect_output "Operation not permitted"
}

# ---------------------------------------------------------------- hooks --

# hook POINT TEXT: a hook of shell commands; $HOOKS collects what they say.
hook() {
	HOOKS=$W/hooks
	config '.hooks[$p] += [{path: "/bin/sh", args: ["sh", "-c", $t],
		env: ["PATH=/usr/bin:/bin", "OUT=" + $o]}]' \
		--arg p "$1" --arg t "$2" --arg o "$HOOKS"
}

@test "mounts: a tmpfs has its own mode where nothing was, else the directory's" {
	mkdir "$R/there"
	chmod 750 "$R/there"
	config '.mounts += [{destination: "/there", type: "tmpfs", source: "t"},
		{destination: "/new/one", type: "tmpfs", source: "t"}]'
	inside 'stat -c %a /there /new/one /new'
	expect_output $'750\n1777\n755'
}

@test "mounts: idmap takes the maps of a user namespace that is joined" {
	only_sandlock
	mkdir "$W/src"
	echo x >"$W/src/f"
	chown 5:6 "$W/src/f"
	cp "$B/config.json" "$W/config.json"
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	chown -R 100000:100000 "$R"
	chmod 755 "$W" "$B" "$R"
	set_args sleep 1000
	create_running "$N-1"
	pid=$(sandlock state "$N-1" | jq .pid)
	cp "$W/config.json" "$B/config.json"
	config '.linux.namespaces += [{type: "user", path: $p}]
		| .mounts += [{destination: "/src", source: $s, options: ["rbind", "idmap"]}]' \
		--arg p "/proc/$pid/ns/user" --arg s "$W/src"
	script "ls -ln /src/f"
	run sandlock run -b "$B" "$N-2"
	expect_status 0
	expect_match '^[^ ]+ +1 5 +6 '
}

@test "mounts: a /dev that is bound is not filled, however its place is written" {
	only_sandlock
	mkdir "$W/dev"
	for n in null:3 zero:5 full:7 random:8 urandom:9; do
		mknod -m 666 "$W/dev/${n%:*}" c 1 "${n#*:}"
	done
	mkdir "$W/dev/pts"
	ls -A "$W/dev" >"$W/before"
	ln -s dev "$R/link"
	cp "$B/config.json" "$W/config.json"
	for place in /dev /dev/ /./dev //dev /proc/../dev /link; do
		cp "$W/config.json" "$B/config.json"
		config '.mounts |= map(select(.destination | startswith("/dev") | not))
			| .mounts += [{destination: $d, source: $s, type: "bind",
				options: ["rbind"]}]
			| .linux.devices = [{path: "/dev/fuse", type: "c", major: 10, minor: 229}]' \
			--arg d "$place" --arg s "$W/dev"
		script 'echo fine >/dev/null && echo ran'
		run sandlock run -b "$B" "$N"
		expect_status 0
		expect_exactly ran
		same "$W/before" <(ls -A "$W/dev")
	done
}

@test "hooks: all points run in order with the state on standard input" {
	for p in prestart createRuntime createContainer poststart poststop; do
		hook $p "jq -r '\"$p \" + .status + \" \" + .id + \" \" + .bundle' >>\$OUT"
	done
	set_args sleep 1000
	create "$N"
	equal "after create" "$(cut -d' ' -f1 "$HOOKS" | tr '\n' ' ')" \
		"prestart createRuntime createContainer "
	sandlock start "$N"
	sandlock delete --force "$N"
	equal "states" "$(cut -d' ' -f1,2 "$HOOKS" | tr '\n' ';')" \
		"prestart creating;createRuntime creating;createContainer creating;poststart running;poststop stopped;"
	equal "ids" "$(cut -d' ' -f3,4 "$HOOKS" | sort -u)" "$N $B"
}

# A create that is killed while a hook of its init runs, which $hook is then.
kill_in_hook() {
	hook createContainer 'echo >$OUT; exec sleep 1000'
	"$SANDLOCK" create -b "$B" "$N" </dev/null >/dev/null 2>&1 3>&- &
	started $!
	eventually test -s "$HOOKS"
	hook=$(pgrep -P "$(head -n 1 "$W/run/$N/pid")")
	kill -KILL $!
	wait $! || true
}

@test "hooks: delete --force ends what a killed create has left in a hook" {
	local ns

	only_sandlock
	for ns in with without; do
		[ $ns = with ] || drop_ns pid
		kill_in_hook
		run sandlock delete "$N"
		expect_status 1
		expect_output "it is creating"
		kill -0 "$hook"
		sandlock delete --force "$N"
		eventually is_gone "$hook"
		[ ! -e "$W/run/$N" ]
		rm "$HOOKS"
		config 'del(.hooks)'
	done
}

@test "hooks: startContainer runs inside before the program" {
	config '.hooks.startContainer = [{path: "/bin/sh",
		args: ["sh", "-c", "grep -o \"\\\"status\\\": *\\\"[a-z]*\\\"\" >/tmp/hooked"]}]'
	inside 'cat /tmp/hooked'
	expect_match 'created'
}

@test "hooks: startContainer has the environment of the process by default" {
	config '.process.env += ["ONE=two"] | .hooks.startContainer = [
		{path: "/bin/sh", args: ["sh", "-c", "echo $ONE $HOME >/tmp/a"]},
		{path: "/bin/sh", args: ["sh", "-c", "echo $ONE $X >/tmp/b"],
		 env: ["X=own"]}]'
	inside 'cat /tmp/a /tmp/b'
	expect_output $'two /root\nown'
}

@test "hooks: createContainer stands in the root of the container" {
	only_sandlock
	hook createContainer 'ls -d ./bin ./proc/self >$OUT; : >./data/made'
	inside 'ls /data/made'
	expect_output /data/made
	equal "its ." "$(cat "$HOOKS")" $'./bin\n./proc/self'
}

@test "hooks: only the given environment is passed" {
	only_sandlock
	export LEAKED=secret
	hook createRuntime 'env | sort >$OUT'
	inside true
	run grep -v -e '^PWD=' -e '^SHLVL=' -e '^_=' "$HOOKS"
	expect_exactly "OUT=$HOOKS
PATH=/usr/bin:/bin"
	config 'del(.hooks.createRuntime[].env)' # that of the runtime
	config '.hooks.createRuntime[].args = ["sh", "-c", "echo $LEAKED >$1",
		"sh", $out]' --arg out "$HOOKS"
	inside true
	equal "inherited" "$(cat "$HOOKS")" secret
}

@test "hooks: one that does not read its input is no failure" {
	annotate org.example.big "$(printf 'x%.0s' $(seq 100000))"
	hook createRuntime 'exec 0</dev/null; exit 0'
	inside 'echo ran'
	expect_exactly ran
}

@test "hooks: a failure in create stops it, runs poststop, leaves nothing" {
	for p in prestart createRuntime createContainer; do
		config 'del(.hooks)'
		rm -f "$W/hooks"
		hook $p 'exit 0'
		hook $p 'echo broken >&2; exit 3'
		hook poststop 'echo poststop >>$OUT'
		if [ "$RUNTIME" = sandlock ]; then
			refused 1 "error running $p hook #1: " create "$N"
			expect_output broken
		else
			refused 1 "error running hook #1" create "$N"
		fi
		equal poststop "$(cat "$HOOKS")" poststop
	done
}

@test "hooks: a start that one fails ends in the deletion of the container" {
	only_sandlock
	set_args sleep 1000
	for p in startContainer poststart; do
		config 'del(.hooks)'
		hook poststop 'echo poststop >>$OUT'
		config ".hooks.$p = [{path: \"/bin/false\"}]"
		rm -f "$HOOKS"
		create "$N"
		init=$(pid_of "$N")
		run sandlock start "$N"
		expect_status 1
		expect_output "$p"
		expect_output "was deleted"
		is_gone "$init"
		equal "poststop after $p" "$(cat "$HOOKS")" poststop
		run sandlock state "$N"
		expect_status 1
		expect_output "does not exist"
	done
}

@test "hooks: a run that one fails runs poststop and leaves nothing" {
	only_sandlock
	for p in startContainer poststart; do
		for detach in '' --detach; do
			config 'del(.hooks)'
			hook poststop 'echo poststop >>$OUT'
			config ".hooks.$p = [{path: \"/bin/false\"}]"
			rm -f "$HOOKS"
			run sandlock run $detach -b "$B" "$N"
			expect_output "$p"
			equal "poststop after $p" "$(cat "$HOOKS")" poststop
			run sandlock state "$N"
			expect_status 1
			expect_output "does not exist"
		done
	done
}

@test "hooks: poststop runs once, whoever ends a run in the foreground" {
	hook poststop 'echo poststop >>$OUT'
	set_args sleep 1000
	sandlock run -b "$B" "$N" 3>&- &
	eventually has_status "$N" running
	sandlock delete --force "$N"
	wait $! || :
	equal poststop "$(cat "$HOOKS")" poststop
}

# kill_run: one in the foreground whose directory is old enough to be pruned.
kill_run() {
	sandlock run -b "$B" "$N" 3>&- &
	eventually has_status "$N" running
	kill -9 "$(sed -n 2p "$SANDLOCK_ROOT/$N/pid")"
	wait $! || :
	eventually has_status "$N" stopped
	touch -d '1 hour ago' "$SANDLOCK_ROOT/$N"
}

@test "hooks: of a run that was killed delete runs poststop, no listing does" {
	hook poststop 'echo poststop >>$OUT'
	annotate io.sandlock.branch none
	set_args sleep 1000
	kill_run
	for list in list ps 'ps -a'; do
		run sandlock $list
		expect_status 0
		expect_match "$N .*stopped"
	done
	[ ! -e "$HOOKS" ]
	sandlock delete "$N"
	equal poststop "$(cat "$HOOKS")" poststop
	# Whoever takes its name deletes it, too.
	rm "$HOOKS"
	kill_run
	set_args true
	sandlock run -b "$B" "$N"
	equal poststop "$(grep -c . "$HOOKS")" 2
	# Without such hooks it goes.
	config 'del(.hooks)'
	set_args sleep 1000
	kill_run
	sandlock list
	[ ! -e "$SANDLOCK_ROOT/$N" ]
}

@test "hooks: a failing poststop is a warning and the rest still run" {
	only_sandlock
	hook poststop 'exit 1'
	hook poststop 'echo second >>$OUT'
	create_running "$N"
	eventually has_status "$N" stopped
	run sandlock delete "$N"
	expect_status 0
	equal hooks "$(cat "$HOOKS")" second
}

@test "hooks: one that outlives its timeout is killed with its children" {
	only_sandlock
	config '.hooks.createRuntime = [{path: "/bin/sh",
		args: ["sh", "-c", "echo $$ >$F; sleep 1000 & echo $! >>$F; sleep 1000"],
		env: ["PATH=/bin:/usr/bin", "F=" + $f], timeout: 1}]' --arg f "$W/hooked"
	refused 1 "its timeout of 1 s" create "$N"
	equal processes "$(wc -l <"$W/hooked")" 2
	for pid in $(cat "$W/hooked"); do
		eventually is_gone "$pid"
	done
}

@test "hooks: one that kills init fails the create, which says so" {
	only_sandlock
	local pid='kill -9 $(sed "s/.*.pid.://; s/,.*//")'

	for point in prestart createRuntime; do
		config 'del(.hooks)'
		hook $point "$pid"
		for verb in run create; do
			[ $verb = create ] && want=1 || want=125
			refused $want "init was killed by signal 9 while '$N' was made" \
				sandlock $verb -b "$B" "$N"
			expect_output "hint: somebody has killed it"
		done
	done
}

@test "hooks: a program that is not there is an error that names it" {
	config '.hooks.createRuntime = [{path: "/no/such/hook"}]'
	refused 1 /no/such/hook create "$N"
}

# ------------------------------------------------------------- terminal --

with_console() {
	"$TESTS/helpers/console" "$W/console.sock" "$W/console.out" ${1:+"$1"} \
		3>&- &
	console=$!
	started $console
	eventually test -S "$W/console.sock"
}

@test "terminal: the console socket gets the master, the program the slave" {
	config '.process.terminal = true
		| .process.consoleSize = {height: 33, width: 77}'
	script 'tty 2>/dev/null; probe winsize; probe ctty; stat -c "%t" /dev/console; read line; echo "got $line"; exit 6'
	with_console $'typed\n'
	create "$N" --console-socket "$W/console.sock"
	sandlock start "$N"
	eventually has_status "$N" stopped
	wait $console
	run tr -d '\r' <"$W/console.out"
	expect_output "33 77"
	expect_output "ctty: ok"
	expect_output "got typed"
}

@test "terminal: in a /dev that is bound no console is made" {
	only_sandlock
	mkdir -p "$W/dev/pts"
	mknod -m 666 "$W/dev/null" c 1 3
	mknod -m 666 "$W/dev/tty" c 5 0
	config '.process.terminal = true
		| .mounts |= map(select(.destination | startswith("/dev") | not))
		| .mounts += [{destination: "/dev/", source: $s, type: "bind", options: ["rbind"]},
			{destination: "/dev/pts", source: "devpts", type: "devpts",
				options: ["newinstance", "ptmxmode=0666"]}]' --arg s "$W/dev"
	script 'probe ctty; exit 6'
	with_console
	create "$N" --console-socket "$W/console.sock"
	sandlock start "$N"
	eventually has_status "$N" stopped
	wait $console
	run cat "$W/console.out"
	expect_output "ctty: ok"
	equal "what is there" "$(ls -A "$W/dev" | tr '\n' ' ')" "null pts tty "
}

@test "terminal: exec --tty with a console socket" {
	set_args sleep 1000
	create_running "$N"
	with_console
	sandlock exec -t -d --console-socket "$W/console.sock" "$N" \
		sh -c 'probe ctty; echo done' </dev/null >/dev/null 3>&-
	wait $console
	run cat "$W/console.out"
	expect_output "ctty: ok"
	expect_output "done"
}

@test "terminal: run with a terminal relays it" {
	config '.process.terminal = true'
	script 'probe ctty; echo hello; exit 5'
	run command script -qec "'${RT[0]}' ${RT[*]:1} run -b $B $N" /dev/null </dev/null
	expect_status 5
	expect_output "ctty: ok"
	expect_output hello
}

@test "terminal: a console socket with a path of more than 107 bytes" {
	only_sandlock
	config '.process.terminal = true'
	long=$W/$(printf 'd%.0s' $(seq 120))
	mkdir "$long"
	script 'echo long'
	(cd "$long" && exec "$TESTS/helpers/console" c.sock "$W/console.out" 3>&-) &
	console=$!
	started $console
	eventually test -S "$long/c.sock"
	create "$N" --console-socket "$long/c.sock"
	sandlock start "$N"
	eventually grep -q long "$W/console.out"
}

@test "without a terminal the program has no controlling one" {
	inside 'probe ctty'
	expect_match "ctty: E(NXIO|NODEV)"
}

# -------------------------------------------------------- socket passing --

@test "LISTEN_FDS is passed on with LISTEN_PID=1" {
	only_sandlock
	script 'echo $LISTEN_FDS $LISTEN_PID; cat <&3'
	echo socket >"$W/l"
	run bash -c "exec 3<'$W/l'; LISTEN_FDS=1 LISTEN_PID=\$\$ \
		exec '${RT[0]}' run -b '$B' $N"
	expect_exactly $'1 1\nsocket'
}

@test "a relative pid file is relative to the caller" {
	set_args sleep 1000
	cd "$W"
	detached create -b "$B" --pid-file mypid "$N"
	equal pid "$(cat "$W/mypid")" "$(pid_of "$N")"
}

@test "the exec fifo is gone after start" {
	only_sandlock
	set_args sleep 1000
	create "$N"
	[ -p "$W/run/$N/exec.fifo" ]
	sandlock start "$N"
	[ ! -e "$W/run/$N/exec.fifo" ]
}
