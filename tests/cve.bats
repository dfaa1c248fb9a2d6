# The faults of other runtimes (oci.md section 4): each with the number it
# has there, and the attack that must fail here.
load lib/common

setup() {
	MORE_HELPERS=seizes
	begin
	make_bundle
}

teardown() {
	[ -z "$CANARY" ] || rm -rf "$CANARY"
	finish
}

# A directory of the host that must never change; $CANARY is it.
canary() {
	CANARY=$(mktemp -d /var/tmp/slc.XXXXXXXX)
	echo original >"$CANARY/file"
	snap "$CANARY" >"$W/canary"
}

canary_is_unharmed() {
	snap "$CANARY" >"$W/canary.now"
	same "$W/canary" "$W/canary.now"
}

full_caps() {
	config '.process.capabilities |= with_entries(.value = ["CAP_CHOWN",
		"CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_ADMIN", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN",
		"CAP_SYS_CHROOT", "CAP_SYS_PTRACE"])
		| .process.capabilities.inheritable = []
		| .process.capabilities.ambient = []'
}

@test "CVE-2016-9962: processes that enter show no fds and cannot be traced" {
	full_caps
	script 'while :; do for p in /proc/[0-9]*; do
			case $p in /proc/1|/proc/self|/proc/thread-self) continue;; esac
			l=$(ls -l $p/fd 2>/dev/null | sed "s/.* -> //" | grep -E "^/" |
				grep -vE "^/(proc|dev|bin|etc|sys)(/|$)|^/$|pipe:|socket:|^/data/")
			[ -z "$l" ] || echo "SEEN $p $l"
		done; done >>/data/seen 2>&1'
	create_running "$N"
	for i in $(seq 60); do
		sandlock exec "$N" true
	done
	run sandlock exec "$N" cat /data/seen
	expect_status 0
	# Its standard output may be a file of the caller's.
	output=$(grep -v "/bats-run-" <<<"$output") || true
	refute_output /var/tmp
	refute_output "$W"
	refute_output cgroup
}

deny() {
	config '.linux.seccomp = {defaultAction: "SCMP_ACT_ALLOW", syscalls:
		[{names: [$name], action: "SCMP_ACT_ERRNO"}]}' --arg name "$1"
}

# A payload seizes all that `exec` starts until one was caught before it was its
# program; prints those.
seize_execs() {
	local i

	export HOST_SECRET=x
	for i in $(seq 100); do
		[ "$(sandlock exec "$N" echo entered)" = entered ]
		! sandlock exec "$N" cat /data/seized | grep -v exe:/bin/ || break
	done
}

@test "CVE-2016-9962: what is traced while it enters is as confined as the payload" {
	only_sandlock
	full_caps
	deny acct
	cp "$HELPERS/seizes" "$B/rootfs/bin/"
	script 'exec seizes >/data/seized'
	create_running "$N"
	run seize_execs
	expect_status 0
	expect_output "exe:/memfd:launcher"
	refute_output "$BUILD"
	# Those of full_caps, and no more.
	[ "$(grep -c 'CapPrm:00000000082c10eb Seccomp:2 secret:no' <<<"$output")" = \
		"$(grep -c exe: <<<"$output")" ]
}

@test "CVE-2016-9962: what is traced by what exec gave the right to is confined, too" {
	only_sandlock
	cp "$HELPERS/seizes" "$B/rootfs/bin/"
	set_args sleep 1000
	create_running "$N"
	own=$(sandlock exec "$N" grep CapPrm /proc/self/status | cut -f2)
	sandlock exec -d --cap CAP_SYS_PTRACE "$N" sh -c 'exec seizes >/data/seized' \
		</dev/null >/dev/null 2>&1 3>&-
	run seize_execs
	expect_status 0
	expect_output "exe:/memfd:launcher"
	refute_output "$BUILD"
	[ "$(grep -c "CapPrm:$own .*secret:no" <<<"$output")" = \
		"$(grep -c exe: <<<"$output")" ]
}

@test "CVE-2016-9962: what a container that joined the pid namespace traces is confined" {
	local own

	only_sandlock
	mkdir "$W/seen"
	config '.mounts += [{destination: "/data", type: "bind", source: $s,
		options: ["bind", "rw"]}]' --arg s "$W/seen"
	set_args sleep 1000
	create_running "$N"
	own=$(sandlock exec "$N" grep CapPrm /proc/self/status | cut -f2)
	full_caps
	cp "$HELPERS/seizes" "$B/rootfs/bin/"
	config '.linux.namespaces |= map(if .type == "pid" then .path = $p else . end)' \
		--arg p "/proc/$(pid_of "$N")/ns/pid"
	script 'exec seizes >/data/seized'
	create_running "$N-joined"
	run seize_execs
	sandlock delete --force "$N-joined"
	expect_status 0
	expect_output "exe:/memfd:launcher"
	refute_output "$BUILD"
	[ "$(grep -c "CapPrm:$own .*secret:no" <<<"$output")" = \
		"$(grep -c exe: <<<"$output")" ]
}

# The same of what joins the pid namespace of $N as $N-joined, from its create to
# its end.
seize_creates() {
	local i

	export HOST_SECRET=x
	for i in $(seq 40); do
		sandlock create --bundle "$B" "$N-joined" </dev/null 3>&- || return
		sandlock start "$N-joined" || return
		sandlock delete --force "$N-joined" || return
		! grep 'exe:/[^b]' "$W/seen/seized" || break
	done
}

@test "CVE-2016-9962: what is created in a pid namespace where somebody traces is confined" {
	local own

	only_sandlock
	mkdir "$W/seen"
	config '.mounts += [{destination: "/data", type: "bind", source: $s,
		options: ["bind", "rw"]}]' --arg s "$W/seen"
	set_args sleep 1000
	create_running "$N-own"
	own=$(sandlock exec "$N-own" grep CapPrm /proc/self/status | cut -f2)
	sandlock delete --force "$N-own"
	cp "$B/config.json" "$W/plain.json"
	full_caps
	cp "$HELPERS/seizes" "$B/rootfs/bin/"
	script 'exec seizes >/data/seized'
	create_running "$N"
	cp "$W/plain.json" "$B/config.json"
	config '.linux.namespaces |= map(if .type == "pid" then .path = $p else . end)' \
		--arg p "/proc/$(pid_of "$N")/ns/pid"
	run seize_creates
	expect_status 0
	expect_output "exe:/memfd:launcher"
	refute_output "$BUILD"
	[ "$(grep -c "CapPrm:$own .*secret:no" <<<"$output")" = \
		"$(grep -c exe: <<<"$output")" ]
}

joined_has_stopped() {
	[ "$(sandlock state "$N-joined" | jq -r .status)" = stopped ]
}

@test "what joins a pid namespace lives as ever" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	config '.linux.namespaces |= map(if .type == "pid" then .path = $p else . end)
		| .process.scheduler = {policy: "SCHED_BATCH", nice: 5}' \
		--arg p "/proc/$(pid_of "$N")/ns/pid"

	script 'for f in /proc/self/fd/*; do readlink "$f"; done | grep -v "^/proc/"
		cut -d" " -f5,6,41 /proc/self/stat; echo $$; sleep 0.1; exit 7'
	run sandlock run --bundle "$B" "$N-joined" </dev/null
	expect_status 7
	# Standard streams alone; its session and group are its own, in there.
	[ "$(grep -cv "^[0-9]" <<<"$output")" -le 3 ]
	refute_output memfd
	refute_output socket
	[[ $output =~ ([0-9]+)\ ([0-9]+)\ 3.([0-9]+)$ ]]
	[ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[3]}" ]
	[ "${BASH_REMATCH[2]}" = "${BASH_REMATCH[3]}" ]

	set_args nothing-there
	run sandlock run --bundle "$B" "$N-joined" </dev/null
	expect_status 127
	expect_output nothing-there

	set_args /bin/broken
	printf '#!/nothing/there\n' >"$B/rootfs/bin/broken"
	chmod +x "$B/rootfs/bin/broken"
	run sandlock run --bundle "$B" "$N-joined" </dev/null
	expect_status 127
	sandlock create --bundle "$B" "$N-joined" </dev/null 3>&-
	run sandlock start "$N-joined"
	expect_status 1
	expect_output "exec /bin/broken"
	sandlock delete --force "$N-joined"

	set_args sleep 1000
	sandlock create --bundle "$B" --pid-file "$W/pid" "$N-joined" </dev/null 3>&-
	[ "$(cat "$W/pid")" = "$(pid_of "$N-joined")" ]
	[ "$(sandlock state "$N-joined" | jq -r .status)" = created ]
	[ "$(readlink "/proc/$(cat "$W/pid")/ns/pid")" = \
		"$(readlink "/proc/$(pid_of "$N")/ns/pid")" ]
	sandlock start "$N-joined"
	[ "$(sandlock state "$N-joined" | jq -r .status)" = running ]
	[ "$(cat "/proc/$(cat "$W/pid")/comm")" = sleep ]
	sandlock kill "$N-joined" KILL
	eventually joined_has_stopped
	sandlock delete "$N-joined"

	config '.hooks.startContainer = [{path: "/bin/true"}]'
	run sandlock create --bundle "$B" "$N-joined" </dev/null
	expect_status 1
	expect_output "hooks.startContainer"
	config 'del(.hooks)'

	# Nobody starts it.
	sandlock create --bundle "$B" "$N-joined" </dev/null 3>&-
	sandlock kill "$N-joined" TERM
	eventually joined_has_stopped
	sandlock delete "$N-joined"

	# It has ended, and somebody keeps it.
	exec 8<"/proc/$(pid_of "$N")/ns/pid"
	config '.linux.namespaces |= map(if .type == "pid" then .path = $p else . end)' \
		--arg p "/proc/$$/fd/8"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	run sandlock create --bundle "$B" "$N-joined" </dev/null 3>&-
	exec 8<&-
	expect_status 1
	expect_output "has its pid namespace ended?"
}

@test "exec where somebody inside may trace does as ever" {
	only_sandlock
	full_caps
	config '.process.scheduler = {policy: "SCHED_BATCH", nice: 5,
			flags: ["SCHED_FLAG_RESET_ON_FORK"]}
		| .process.ioPriority = {class: "IOPRIO_CLASS_IDLE", priority: 0}'
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" cut -d" " -f1,5,6,19,41 /proc/self/stat
	expect_match '^([0-9]+) \1 \1 5 3$'
	run sandlock exec "$N" probe signal 9
	expect_status 137
	run sandlock exec "$N" nothing-there
	expect_status 127
	run sandlock exec "$N" /etc
	expect_status 126
	run bash -c "echo in | '$SANDLOCK' exec '$N' cat"
	expect_exactly in
	sandlock exec -d --pid-file "$W/pid" "$N" sleep 2000 \
		</dev/null >/dev/null 2>&1 3>&-
	equal "the process" "$(tr '\0' ' ' <"/proc/$(cat "$W/pid")/cmdline")" \
		"sleep 2000 "
	run command script -qec "'$SANDLOCK' exec -t '$N' probe ctty" /dev/null \
		</dev/null
	expect_status 0
	expect_output "ctty: ok"
}

@test "exec where somebody inside may trace takes a filter that allows clone" {
	only_sandlock
	full_caps
	deny clone
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" true
	expect_status 125
	expect_output "cannot clone a process into '$N'"
	expect_output "has to allow clone"
}

@test "exec where somebody inside may trace takes room for two processes" {
	only_sandlock
	full_caps
	config '.process.rlimits =
		[{type: "RLIMIT_NPROC", soft: $n, hard: $n}]' --argjson n 1
	set_args sleep 1000
	create_running "$N"
	run sandlock exec --user 64242:64242 "$N" true
	expect_status 125
	expect_output "cannot clone a process into '$N'"
	expect_output "raise RLIMIT_NPROC"
}

@test "exec where somebody inside may trace ends with its caller" {
	only_sandlock
	full_caps
	set_args sleep 1000
	create_running "$N"
	"$SANDLOCK" exec --pid-file "$W/pid" "$N" sleep 2000 3>&- &
	started $!
	eventually test -s "$W/pid"
	pid=$(cat "$W/pid")
	kill -9 $!
	eventually is_gone "$pid"
}

@test "CVE-2019-5736: the runtime's program cannot be opened from inside" {
	only_sandlock
	full_caps
	sum=$(sha256sum <"$SANDLOCK")
	set_args /proc/self/exe
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	script 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); for p in /proc/[0-9]*; do
			[ $p = /proc/1 ] && continue
			t=$(readlink $p/exe 2>/dev/null) || continue
			case $t in /bin/*|"") continue;; esac
			echo "EXE $t" >>/data/log
			{ echo evil >$p/exe; } 2>/dev/null && echo "WROTE $t" >>/data/log
			exec 9<$p/exe || continue
			{ echo evil >/proc/self/fd/9; } 2>/dev/null && echo "WROTE $t" >>/data/log
		done; done'
	create_running "$N"
	for i in $(seq 40); do
		sandlock exec "$N" true || true
	done
	run sandlock exec "$N" cat /data/log
	refute_output WROTE
	refute_output "$BUILD"
	equal "our program" "$(sha256sum <"$SANDLOCK")" "$sum"
}

@test "CVE-2019-5736: exec of /proc/self/exe runs nothing of the host" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" /proc/self/exe --version
	refute_output "sandlock version"
}

@test "CVE-2019-16884: a /proc that is no procfs gets no security settings" {
	config '.mounts = [{destination: "/proc", type: "tmpfs", source: "tmpfs"},
		{destination: "/dev", type: "tmpfs", source: "tmpfs"}]
		| .process.apparmorProfile = "unconfined-by-fake"
		| .linux.maskedPaths = [] | .linux.readonlyPaths = []'
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
}

@test "CVE-2019-16884: sysctls do not go to a fake /proc" {
	only_sandlock
	config '.mounts = [{destination: "/proc", type: "tmpfs", source: "tmpfs"}]
		| .linux.sysctl = {"net.ipv4.ip_forward": "1"}
		| .linux.maskedPaths = [] | .linux.readonlyPaths = []'
	script 'ls -A /proc'
	run sandlock run -b "$B" "$N"
	refute_output sys
}

@test "CVE-2019-19921: /proc that is a symbolic link is refused" {
	rmdir "$R/proc"
	mkdir "$R/x"
	ln -s x "$R/proc"
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	expect_match "must be mounted on ordinary directory|is a symbolic link"
}

@test "CVE-2023-27561: /sys that is a symbolic link is refused" {
	rmdir "$R/sys"
	mkdir "$R/x"
	ln -s x "$R/sys"
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	expect_match "must be mounted on ordinary directory|is a symbolic link"
}

@test "CVE-2023-28642: /proc below a link of a volume is refused" {
	mkdir -p "$B/volume/real"
	ln -s real "$B/volume/proc"
	config '.mounts = [{destination: "/mnt", source: "volume", options: ["bind"]}]
		+ .mounts
		| .mounts += [{destination: "/mnt/proc", type: "proc", source: "proc"}]'
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	[ -z "$(ls -A "$B/volume/real")" ]
}

@test "CVE-2019-18837: a destination that leads out stays in the root" {
	canary
	ln -s "../../../../../../../../..$CANARY" "$R/esc"
	config '.mounts += [{destination: "/esc/in", type: "tmpfs", source: "tmpfs"},
		{destination: "/esc2", type: "tmpfs", source: "tmpfs"}]'
	ln -s "$CANARY" "$R/esc2"
	script 'echo x >/esc/in/x; echo x >/esc2/x'
	run sandlock run -b "$B" "$N"
	canary_is_unharmed
	equal mounts "$(grep -c "$CANARY" /proc/self/mountinfo || true)" 0
}

@test "CVE-2021-30465: exchanging a directory with a link during mounts stays inside" {
	skip_unless_root
	canary
	mkdir -p "$B/volume/dir/sub"
	ln -s "$CANARY" "$B/volume/link"
	config '.mounts += [{destination: "/vol", source: "volume", options: ["bind"]},
		{destination: "/vol/dir/sub", type: "tmpfs", source: "tmpfs"},
		{destination: "/vol/dir/sub2", type: "tmpfs", source: "tmpfs"}]'
	script 'echo x >/vol/dir/sub/evil'
	"$PROBE" exchange-loop "$B/volume/dir" "$B/volume/link" &
	started $!
	before=$(wc -l </proc/self/mountinfo)
	for i in $(seq 60); do
		sandlock run -b "$B" "$N" >/dev/null 2>&1 || true
		sandlock delete --force "$N" >/dev/null 2>&1 || true
	done
	canary_is_unharmed
	equal mounts "$(grep -c "$CANARY" /proc/self/mountinfo || true)" 0
}

@test "CVE-2021-43784: 100,000 id mappings are a clean error" {
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [range(100000) | {containerID: ., hostID: (. + 100000), size: 1}]
		| .linux.gidMappings = .linux.uidMappings'
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ] && [ "$status" -lt 126 ]
	only_sandlock
	expect_one_error
	config '.linux.uidMappings |= .[:5000] | .linux.gidMappings |= .[:5000]'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output uidMappings
	expect_one_error
}

@test "CVE-2022-29162: inheritable capabilities are empty by default and for exec" {
	set_args sleep 1000
	only_sandlock
	(cd "$W" && mkdir fresh && sandlock spec -b fresh)
	equal inheritable "$(jq -c '.process.capabilities.inheritable // []' "$W/fresh/config.json")" "[]"
	create_running "$N"
	run sandlock exec --cap CAP_KILL "$N" grep CapInh /proc/self/status
	expect_output 0000000000000000
	run sandlock exec "$N" grep CapInh /proc/1/status
	expect_output 0000000000000000
}

@test "CVE-2022-0811: a sysctl key cannot carry another one" {
	for key in 'kernel.shm_rmid_forced+kernel.core_pattern' \
		'kernel.shm_rmid_forced=1 kernel.core_pattern' \
		'net.ipv4/../../kernel/core_pattern' 'kernel.shm_rmid_forced '; do
		before=$(cat /proc/sys/kernel/core_pattern)
		config '.linux.sysctl = {($k): "|/evil"}' --arg k "$key"
		run sandlock run -b "$B" "$N"
		[ "$status" -ne 0 ]
		equal core_pattern "$(cat /proc/sys/kernel/core_pattern)" "$before"
	done
}

@test "CVE-2022-0492: the payload cannot mount cgroups or write release_agent" {
	config '.process.capabilities |= with_entries(.value -= ["CAP_SYS_ADMIN"])'
	script 'mkdir -p /mnt; probe mount cgroup /mnt cgroup rdma; probe unshare
		find /sys/fs/cgroup -name release_agent 2>/dev/null |
		while read f; do echo x >$f && echo WROTE; done'
	run sandlock run -b "$B" "$N"
	expect_output "mount: EPERM"
	expect_output "unshare: EPERM"
	refute_output WROTE
}

@test "CVE-2023-25809: without a cgroup namespace cgroups are not writable" {
	drop_ns cgroup
	config '.mounts |= map(select(.destination != "/sys/fs/cgroup"))
		| .mounts += [{destination: "/sys/fs/cgroup", type: "cgroup",
		source: "cgroup", options: ["nosuid", "noexec", "nodev", "ro"]}]'
	script 'for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
		mkdir $d/evil 2>/dev/null && echo "MADE $d"; done; echo end'
	run sandlock run -b "$B" "$N"
	refute_output MADE
}

@test "CVE-2024-21626: cwd through a leaked fd is refused or inside" {
	canary
	for fd in 3 4 5 6 7 8 9 10 12 15 20; do
		config '.process.cwd = "/proc/self/fd/" + $f' --arg f $fd
		script 'cat ../../../../../../../../etc/hostname; ls -a . | head -3'
		run sandlock run -b "$B" "$N"
		if [ "$status" -eq 0 ]; then
			refute_output "$(cat /etc/hostname)"
		fi
	done
	canary_is_unharmed
}

@test "CVE-2024-21626: exec --cwd through a leaked fd is refused or inside" {
	set_args sleep 1000
	create_running "$N"
	for fd in 3 4 5 6 7 8 9 10 12 15 20; do
		run sandlock exec --cwd /proc/self/fd/$fd "$N" \
			sh -c 'cat ../../../../../../../etc/hostname'
		refute_output "$(cat /etc/hostname)"
	done
}

@test "CVE-2024-45310: racing directories make nothing on the host" {
	skip_unless_root
	canary
	mkdir -p "$B/volume/dir"
	ln -s "$CANARY" "$B/volume/link"
	echo src >"$B/src"
	config '.mounts += [{destination: "/vol", source: "volume", options: ["bind"]},
		{destination: "/vol/dir/made/deep", type: "tmpfs", source: "tmpfs"},
		{destination: "/vol/dir/made/file", source: "src", options: ["bind"]}]'
	"$PROBE" exchange-loop "$B/volume/dir" "$B/volume/link" &
	started $!
	for i in $(seq 60); do
		sandlock run -b "$B" "$N" >/dev/null 2>&1 || true
		sandlock delete --force "$N" >/dev/null 2>&1 || true
		rm -rf "$B/volume/dir/made" 2>/dev/null || true
	done
	canary_is_unharmed
}

@test "CVE-2025-31133: masking does not bind what the root's /dev/null points to" {
	rm -rf "$R/dev"
	mkdir "$R/dev"
	ln -s /proc/sys/kernel/core_pattern "$R/dev/null"
	config '.mounts |= map(select(.destination | startswith("/dev") | not))
		| .linux.maskedPaths = ["/data/a"] | .linux.readonlyPaths = []'
	script 'cat /data/a; echo evil >/data/a; grep " /data/a " /proc/self/mountinfo'
	before=$(cat /proc/sys/kernel/core_pattern)
	run sandlock run -b "$B" "$N"
	now=$(cat /proc/sys/kernel/core_pattern)
	[ "$now" = "$before" ] || echo "$before" >/proc/sys/kernel/core_pattern
	equal core_pattern "$now" "$before"
	refute_output "core_pattern"
}

@test "CVE-2025-52565: /dev/console does not bind what /dev/pts is made to be" {
	only_sandlock
	rm -rf "$R/dev"
	mkdir "$R/dev"
	ln -s /proc/sys/kernel "$R/dev/pts"
	config '.process.terminal = true
		| .mounts |= map(select(.destination | startswith("/dev") | not))
		| .linux.readonlyPaths = [] | .linux.maskedPaths = []'
	script 'cat /dev/console; grep /dev/console /proc/self/mountinfo'
	"$TESTS/helpers/console" "$W/c.sock" "$W/console.out" 3>&- 2>/dev/null &
	started $!
	eventually test -S "$W/c.sock"
	run create "$N" --console-socket "$W/c.sock"
	if [ "$status" -eq 0 ]; then
		sandlock start "$N" || true
		sleep 0.3
		run cat "$W/console.out"
		refute_output "core_pattern"
	fi
}

@test "CVE-2025-52881: writes to /proc go to a procfs of ours" {
	only_sandlock
	mkdir -p "$B/fake/self/attr" "$B/fake/sys/kernel" "$B/fake/sys/net/ipv4"
	ln -s /proc/sysrq-trigger "$B/fake/sys/net/ipv4/ip_forward"
	touch "$B/fake/self/oom_score_adj"
	config '.mounts |= map(select(.destination != "/proc"))
		| .mounts += [{destination: "/proc", source: "fake", options: ["bind"]}]
		| .linux.sysctl = {"net.ipv4.ip_forward": "1"}
		| .process.oomScoreAdj = 77
		| .linux.maskedPaths = [] | .linux.readonlyPaths = []'
	run sandlock run -b "$B" "$N"
	equal "fake oom_score_adj" "$(cat "$B/fake/self/oom_score_adj")" ""
}

@test "CVE-2026-41579: /dev that is a symbolic link harms nothing outside" {
	canary
	rm -rf "$R/dev"
	ln -s "/../../../../../../..$CANARY" "$R/dev"
	config '.mounts |= map(select(.destination | startswith("/dev") | not))'
	run sandlock run -b "$B" "$N"
	canary_is_unharmed
	config '.mounts += [{destination: "/dev", type: "tmpfs", source: "tmpfs"}]'
	run sandlock run -b "$B" "$N"
	canary_is_unharmed
}

@test "CVE-2026-30892: exec --user is parsed strictly, never 0 by default" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec -u 1 "$N" probe ids
	expect_match '^1 '
	for user in "1:" ":1" "-1" "" "0x1" "1 " " 1" "1:x" "4294967295" \
		"4294967296" "root" "1:-1" "+1"; do
		run sandlock exec --user="$user" "$N" probe ids
		[ "$status" -ne 0 ] || {
			echo "accepted '$user'" >&2
			show_run >&2
			return 1
		}
	done
}

@test "names: delete --force .. removes nothing" {
	mkdir -p "$W/run"
	touch "$W/precious"
	for name in .. . "" / ../bundle; do
		run sandlock delete --force -- "$name"
		[ "$status" -ne 0 ]
	done
	[ -f "$W/precious" ] && [ -d "$R" ] && [ -d "$W/run" ]
}

@test "CVE-2017-5226: the payload cannot type into our terminal" {
	script 'probe tiocsti'
	run command script -qec "'${RT[0]}' ${RT[*]:1} run -b $B $N" /dev/null \
		</dev/null
	refute_output "tiocsti: ok"
}

@test "CVE-2024-42472: a bind source that is exchanged is mounted from one look" {
	skip_unless_root
	canary
	mkdir -p "$B/volume/dir"
	ln -s "$CANARY" "$B/volume/link"
	config '.mounts += [{destination: "/mnt", source: "volume/dir",
		options: ["bind", "src-nofollow"]}]'
	script 'cat /mnt/file 2>/dev/null; echo x >/mnt/evil 2>/dev/null; true'
	"$PROBE" exchange-loop "$B/volume/dir" "$B/volume/link" &
	started $!
	for i in $(seq 40); do
		run sandlock run -b "$B" "$N-$i"
		if [ "$RUNTIME" = sandlock ]; then
			refute_output original
		fi
		sandlock abort "$N-$i" >/dev/null 2>&1 || true
	done
	only_sandlock
	canary_is_unharmed
}

@test "CVE-2022-24795: huge and deep configurations end in a clean error" {
	only_sandlock
	{ printf '{"ociVersion":"1.0.0","x":"'
		head -c 20000000 /dev/zero | tr '\0' x
		printf '"}'; } >"$B/config.json"
	refused 125 config.json sandlock run -b "$B" "$N"
	{ printf '{"x":'; head -c 100000 /dev/zero | tr '\0' '['; } >"$B/config.json"
	refused 125 config.json sandlock run -b "$B" "$N"
}

@test "CVE-2020-5291: a set-id program of ours refuses to run" {
	only_sandlock
	skip_unless_root
	cp "$SANDLOCK" "$W/suid"
	chmod 4755 "$W/suid"
	run setpriv --reuid 12345 --regid 12345 --clear-groups "$W/suid" --version
	[ "$status" -ne 0 ]
}

@test "CVE-2020-15257: abstract sockets of the host are out of reach" {
	/usr/bin/python3 -c "
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind(b'\\0$N'); s.listen(1)
time.sleep(60)" 3>&- &
	started $!
	eventually grep -q "$N" /proc/net/unix
	set_args probe abstract "$N"
	run sandlock run -b "$B" "$N"
	expect_output "connect: ECONNREFUSED"
}

@test "commit: a directory that became a link leads nowhere" {
	only_sandlock
	canary
	script "rm -rf /data; ln -s $CANARY /data; mkdir /home/sub; echo x >/home/sub/f"
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock commit "$N"
	expect_status 0
	equal link "$(readlink "$R/data")" "$CANARY"
	canary_is_unharmed
}

@test "commit: a parent that the host turned into a link is a conflict" {
	only_sandlock
	canary
	script 'echo x >/data/file'
	sandlock run -b "$B" "$N" 2>/dev/null
	mv "$R/data" "$R/data.old"
	ln -s "$CANARY" "$R/data"
	run sandlock commit "$N"
	expect_status 3
	expect_output data
	canary_is_unharmed
	run sandlock commit --force "$N"
	canary_is_unharmed
}

@test "commit: an upper with foreign overlay attributes publishes nothing by them" {
	only_sandlock
	skip_unless_root
	canary
	script 'mkdir /data/new; echo x >/data/new/f'
	sandlock run -b "$B" "$N" 2>/dev/null
	upper=$(field .upper)
	"$PROBE" setxattr "$upper/data/new" trusted.overlay.redirect "$CANARY"
	run sandlock commit "$N"
	[ "$status" -ne 0 ]
	expect_output redirect
	[ ! -e "$R/data/new" ]
	canary_is_unharmed
}

@test "commit: device nodes are published only when asked for" {
	only_sandlock
	skip_unless_root
	config '.process.capabilities.bounding += ["CAP_MKNOD"]
		| .process.capabilities.effective += ["CAP_MKNOD"]
		| .process.capabilities.permitted += ["CAP_MKNOD"]'
	script 'mknod /data/zero c 1 5; echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock commit "$N"
	[ ! -e "$R/data/zero" ]
	if [ "$(branches_json | jq length)" = 1 ]; then
		sandlock commit --special "$N"
		[ -c "$R/data/zero" ]
	fi
}

@test "the store and the runtime directory are not visible to a payload" {
	only_sandlock
	skip_unless_root
	# A root file system that contains them.
	mkdir -p "$R/var/lib" "$R/hidden"
	export SANDLOCK_STORE=$R/var/lib/sandlock SANDLOCK_ROOT=$R/hidden/run
	script 'find /var/lib/sandlock /hidden; echo x >/data/n'
	# Its own line about the branch names it.
	sandlock run -b "$B" "$N" >"$W/out" 2>/dev/null
	run cat "$W/out"
	refute_output branches
	refute_output "$N"
	run sandlock diff "$N"
	refute_output sandlock
	refute_output hidden
	sandlock abort "$N"
	eventually is_empty "$SANDLOCK_STORE/trash"
	rm -rf "$R/var/lib/sandlock" "$R/hidden"
}
