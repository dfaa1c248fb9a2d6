# Whatever fails leaves nothing behind: no mount, cgroup, process, directory,
# socket or branch.
load lib/common

setup() {
	begin
	make_bundle
}

teardown() { finish; }

# fails_clean WHAT: create fails and things are as they were before.
fails_clean() {
	local before

	before=$(leaks)
	run create "$N"
	[ "$status" -ne 0 ] || {
		echo "'$1' did not fail" >&2
		return 1
	}
	settle_leaks "$before" || {
		echo "after '$1'" >&2
		return 1
	}
}

@test "every failing configuration leaves nothing behind" {
	only_sandlock
	cp "$B/config.json" "$W/good"
	while IFS= read -r filter; do
		[ -n "$filter" ] || continue
		cp "$W/good" "$B/config.json"
		config "$filter"
		fails_clean "$filter"
	done <<'CASES'
.process.args = ["no-such-program"]
.process.args = ["/etc"]
.process.cwd = "/etc/passwd"
.process.cwd = "/proc/self/fd/5"
.process.apparmorProfile = "no-such-profile"
.process.oomScoreAdj = -1001
.process.rlimits = [{type: "RLIMIT_NOFILE", soft: 5000000, hard: 5000000}]
.process.scheduler = {policy: "SCHED_DEADLINE", runtime: 5, deadline: 1, period: 1}
.process.terminal = true
.mounts += [{destination: "/mnt", source: "/no/such", options: ["bind"]}]
.mounts += [{destination: "/mnt", type: "bogusfs", source: "x"}]
.mounts += [{destination: "/mnt", type: "tmpfs", source: "x", options: ["bogus=1"]}]
.mounts += [{destination: "/etc/passwd/x", type: "tmpfs", source: "x"}]
.mounts += [{destination: "/late1", type: "tmpfs", source: "x"}, {destination: "/late2", type: "bogusfs", source: "x"}]
.linux.namespaces |= map(if .type == "network" then .path = "/no/such" else . end)
.linux.namespaces |= map(if .type == "network" then .path = "/proc/self/ns/uts" else . end)
.linux.devices = [{path: "/bin/busybox", type: "c", major: 1, minor: 3}]
.linux.devices = [{path: "/bin/busybox/x", type: "c", major: 1, minor: 3}]
.linux.sysctl = {"net.ipv4.no_such_key": "1"}
.linux.sysctl = {"net.ipv4.ip_forward": "bogus"}
.linux.sysctl = {"vm.swappiness": "1"}
.linux.resources.cpu = {cpus: "4000"}
.linux.resources.memory = {limit: -5}
.linux.resources.pids = {limit: 10} | .linux.resources.cpu = {mems: "77"}
.linux.resources.unified = {"no.such": "1"}
.linux.cgroupsPath = "/../.."
.linux.seccomp = {defaultAction: "SCMP_ACT_NOTIFY"}
.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", listenerPath: "/no/such/socket", syscalls: [{names: ["mkdir"], action: "SCMP_ACT_NOTIFY"}]}
.linux.rootfsPropagation = "bogus"
.linux.intelRdt = {closID: "x"}
.linux.timeOffsets = {boottime: {secs: 1}}
.linux.personality = {domain: "BOGUS"}
.hostname = "x" | .linux.namespaces |= map(select(.type != "uts"))
.hooks.prestart = [{path: "/bin/false"}]
.hooks.createRuntime = [{path: "/bin/true"}, {path: "/bin/false"}]
.hooks.createContainer = [{path: "/bin/false"}]
.hooks.createContainer = [{path: "/no/such/hook"}]
.annotations["io.sandlock.branch.storage"] = "/proc/no/such"
.annotations["io.sandlock.branch.on-exit"] = "bogus"
.root.path = "no-such"
.root.path = "/"
del(.root)
CASES
}

# inject CALL ERRNO [LIMIT]: a run with the n-th such call failing, for every
# n. A run that found another way is as good.
inject() {
	local n before ret

	before=$(leaks)
	for ((n = 1; n <= ${3:-60}; n++)); do
		ret=0
		timeout 20 strace -f -qq -o "$W/trace" -e trace="$1" \
			-e inject="$1:error=$2:when=$n" \
			"$SANDLOCK" run -b "$B" "$N" \
			</dev/null >"$W/out" 2>&1 3>&- || ret=$?
		grep -q INJECTED "$W/trace" || return 0
		case $ret in
		0 | 125 | 126 | 127) ;;
		*)
			echo "status $ret when $1 number $n gave $2" >&2
			cat "$W/out" >&2
			return 1
			;;
		esac
		settle_leaks "$before" || {
			echo "when $1 number $n gave $2" >&2
			cat "$W/out" >&2
			return 1
		}
	done
}

need_strace() {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
}

@test "every directory that cannot be made" {
	need_strace
	inject mkdirat ENOSPC
	inject mkdir ENOSPC
}

@test "every mount that fails" {
	need_strace
	inject move_mount EPERM
	inject fsmount ENOMEM
	inject fsopen ENODEV
	inject mount EINVAL
	inject open_tree EPERM
	inject mount_setattr EINVAL
}

@test "clone, pivot_root and namespaces that fail" {
	need_strace
	inject clone3 EAGAIN
	inject clone EAGAIN
	inject pivot_root EINVAL
	inject unshare ENOSPC
	inject setns EPERM
	inject sethostname EPERM
}

@test "every node, link and fifo that cannot be made" {
	need_strace
	inject mknodat ENOSPC
	inject mknod ENOSPC
	inject symlinkat ENOSPC
	inject mkfifoat ENOSPC
}

@test "ids, capabilities and seccomp that fail" {
	need_strace
	inject capset EPERM
	inject setresuid EAGAIN
	inject setgroups EPERM
	inject prctl EINVAL 30
	inject seccomp ENOMEM
	inject pidfd_open EMFILE
}

@test "renames and writes of our files that fail" {
	need_strace
	inject renameat ENOSPC
	inject renameat2 ENOSPC
	inject rename ENOSPC
	inject flock EINTR
	inject pipe2 EMFILE
	inject socketpair EMFILE
}

@test "100 sandboxes made and removed leave no fd, process or directory" {
	before=$(leaks)
	for i in $(seq 100); do
		sandlock run -b "$B" "$N" </dev/null
	done
	settle_leaks "$before"
}

@test "a client that is killed in create leaves what delete --force removes" {
	only_sandlock
	before=$(leaks)
	for n in 1 2 3 4 5 6 7 8; do
		timeout 20 strace -f -qq -o /dev/null -e trace=move_mount,mkdirat \
			-e inject=move_mount,mkdirat:signal=KILL:when=$n \
			"$SANDLOCK" create -b "$B" "$N" \
			</dev/null >/dev/null 2>&1 3>&- || true
		sandlock delete --force "$N"
		settle_leaks "$before" || {
			sandlock abort "$N" || true
			settle_leaks "$before"
		}
	done
}

@test "create, start, exec, pause, resume, kill, delete leave nothing" {
	before=$(leaks)
	set_args sleep 1000
	create "$N"
	sandlock start "$N"
	sandlock exec "$N" true
	sandlock pause "$N"
	sandlock resume "$N"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	sandlock delete "$N"
	settle_leaks "$before"
}

@test "after everything the runtime directory and the store are empty" {
	only_sandlock
	script 'echo x >/data/x; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/x
	sandlock delete --force "$N"
	sandlock abort "$N"
	equal run "$(ls -A "$W/run")" ""
	equal branches "$(ls -A "$W/store/branches")" ""
	eventually is_empty "$W/store/trash"
}

# SANDLOCK_LEAK_RUNS=1000 is the number that the project promises.
@test "sandboxes of the C API leave no memory, fd, thread, child or file" {
	only_sandlock
	mkdir "$W/dir"
	cd "$W/dir"
	SANDLOCK_PROGRAM=$SANDLOCK timeout 400 "$BUILD/bench/api" leak \
		"${SANDLOCK_LEAK_RUNS:-100}"
	eventually is_empty "$W/store/trash" || sandlock branches
}
