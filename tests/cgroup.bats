# cgroups (DESIGN section 10): where they are, what they limit, what is left.
load lib/common

setup() {
	begin
	make_bundle
	[ "$(id -u)" -eq 0 ] || skip "needs root"
}

teardown() { finish; }

# cgroup_dir CONTROLLER PID: the directory of a process, v1 or v2.
cgroup_dir() {
	local path mount

	path=$(awk -F: -v c="$1" '{ n = split($2, a, ",")
		for (i = 1; i <= n; i++) if (a[i] == c) print $3 }' "/proc/$2/cgroup")
	mount=$(awk -v c="$1" '$3 == "cgroup" && $4 ~ "(^|,)" c "(,|$)" { print $2 }' \
		/proc/mounts | head -1)
	if [ -z "$path" ]; then
		path=$(sed -n 's/^0:://p' "/proc/$2/cgroup")
		mount=$(awk '$3 == "cgroup2" { print $2 }' /proc/mounts | head -1)
	fi
	# The root of a v1 mount may not be the root of the hierarchy.
	root=$(awk -v m="$mount" '$5 == m { print $4 }' /proc/self/mountinfo | tail -1)
	[ "$root" = / ] || path=${path#"$root"}
	echo "$mount$path"
}

has_v1() {
	grep -q "^$1[[:space:]].*1$" /proc/cgroups &&
		awk '$3 == "cgroup"' /proc/mounts | grep -qw "$1"
}

need_controller() {
	# In v2 they are programs of ours, not files of the kernel's.
	[ "$1" != devices ] || has_v1 devices ||
		[ ! -e /sys/fs/cgroup/cgroup.controllers ] || return 0
	has_v1 "$1" || grep -qw "$1" /sys/fs/cgroup/cgroup.controllers \
		/sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null ||
		skip "this host has no $1 controller"
}

# value CONTROLLER V1-FILE V2-FILE: of the container's cgroup.
value() {
	local dir

	dir=$(cgroup_dir "$1" "$(pid_of "$N")")
	cat "$dir/$2" 2>/dev/null || cat "$dir/$3"
}

@test "memory: the limit is set and enforced" {
	need_controller memory
	config '.linux.resources.memory = {limit: 67108864}'
	set_args sleep 1000
	create_running "$N"
	equal limit "$(value memory memory.limit_in_bytes memory.max)" 67108864
	run sandlock exec "$N" probe eat 33554432
	expect_output eaten
	run sandlock exec "$N" sh -c 'probe eat 1073741824; echo $?'
	refute_output eaten
	sandlock delete --force "$N"
}

@test "memory: events tells of each process that was killed for it" {
	need_controller memory
	config '.linux.resources.memory = {limit: 67108864}'
	set_args sleep 1000
	create_running "$N"
	sandlock events --interval 1h "$N" >"$W/events" 3>&- &
	local watcher=$!
	eventually grep -q '"type":"stats"' "$W/events"
	for i in 1 2; do
		run sandlock exec "$N" sh -c 'probe eat 1073741824; echo $?'
		refute_output eaten
		eventually sh -c "[ \$(grep -c '\"oom\"' $W/events) = $i ]"
	done
	equal event "$(jq -c 'select(.type == "oom")' "$W/events" | tail -1)" \
		"{\"type\":\"oom\",\"id\":\"$N\"}"
	sandlock delete --force "$N"
	wait $watcher
}

@test "memory: -1 is unlimited, reservation is set" {
	need_controller memory
	config '.linux.resources.memory = {limit: -1, reservation: 33554432}'
	set_args sleep 1000
	create_running "$N"
	equal reservation "$(value memory memory.soft_limit_in_bytes memory.low)" 33554432
}

@test "memory: a limit that is too small for the runtime is no hang" {
	need_controller memory
	config '.linux.resources.memory = {limit: 4096}'
	COMMAND_TIMEOUT=20 run sandlock run -b "$B" "$N"
	[ "$status" -ne 124 ]
}

@test "memory: an init that the limit ends is told of, whenever that is" {
	only_sandlock
	need_controller memory
	for limit in 4096 65536 81920 98304 114688 131072; do
		config '.linux.resources.memory = {limit: $l}' --argjson l $limit
		run sandlock run -b "$B" "$N"
		[ $limit = 4096 ] || [ "$status" -eq 125 ] || continue
		expect_status 125
		expect_output "init was killed by signal 9 while '$N' was made"
		expect_output "hint: is the memory limit of $limit bytes too low?"
	done
}

@test "cpu: a burst that cannot be is refused by its name" {
	only_sandlock
	need_controller cpu
	config '.linux.resources.cpu = {quota: 10000, period: 100000, burst: 20000}'
	refused 125 "linux.resources.cpu.burst: 20000 is more than the quota, '10000'" \
		sandlock run -b "$B" "$N"
	config '.linux.resources.cpu = {burst: 9223372036854776000}'
	refused 125 "linux.resources.cpu.burst: 9223372036854776000 is out of range" \
		sandlock run -b "$B" "$N"
	config '.linux.resources.cpu = {quota: 10000, period: 100000, burst: 10000}'
	run sandlock run -b "$B" "$N"
	expect_status 0
}

@test "pids: the limit is set and enforced" {
	need_controller pids
	config '.linux.resources.pids = {limit: 10}'
	script 'probe forks 50; kill -9 -1'
	run sandlock run -b "$B" "$N"
	expect_match 'forked [5-9]'
	refute_output 'forked 50'
	set_args sleep 1000
	create_running "$N"
	equal limit "$(value pids pids.max pids.max)" 10
}

@test "pids: -1 is no limit" {
	need_controller pids
	config '.linux.resources.pids = {limit: -1}'
	script 'probe forks 50; kill -9 -1'
	run sandlock run -b "$B" "$N"
	expect_output "forked 50"
}

@test "pids: 0 is no limit before version 1.3 of the specification" {
	need_controller pids
	config '.linux.resources.pids = {limit: 0} | .ociVersion = "1.0.2-dev"'
	script 'probe forks 50; kill -9 -1'
	run sandlock run -b "$B" "$N"
	expect_output "forked 50"
	config '.ociVersion = "1.3.0"'
	run sandlock run -b "$B" "$N"
	refute_output "forked 50"
}

@test "cpu: shares, quota and period are set" {
	need_controller cpu
	config '.linux.resources.cpu = {shares: 512, quota: 20000, period: 50000}'
	set_args sleep 1000
	create_running "$N"
	dir=$(cgroup_dir cpu "$(pid_of "$N")")
	if [ -e "$dir/cpu.cfs_quota_us" ]; then
		equal shares "$(cat "$dir/cpu.shares")" 512
		equal quota "$(cat "$dir/cpu.cfs_quota_us")" 20000
		equal period "$(cat "$dir/cpu.cfs_period_us")" 50000
	else
		equal max "$(cat "$dir/cpu.max")" "20000 50000"
	fi
}

@test "cpuset: cpus and mems are set, an impossible one is an error" {
	need_controller cpuset
	config '.linux.resources.cpu = {cpus: "0", mems: "0"}'
	script 'grep Cpus_allowed_list /proc/self/status | tr -d "\t"'
	run sandlock run -b "$B" "$N"
	expect_exactly Cpus_allowed_list:0
	config '.linux.resources.cpu = {cpus: "4095"}'
	run sandlock run -b "$B" "$N"
	[ "$status" -ne 0 ]
	expect_output cpus
}

@test "devices: what the rules do not allow cannot be opened" {
	need_controller devices
	config '.process.capabilities.bounding += ["CAP_MKNOD"]
		| .process.capabilities.effective += ["CAP_MKNOD"]
		| .process.capabilities.permitted += ["CAP_MKNOD"]
		| .linux.resources.devices = [{allow: false, access: "rwm"},
			{allow: true, type: "c", major: 1, minor: 3, access: "rwm"},
			{allow: true, type: "c", major: 10, minor: 229, access: "rm"}]'
	script 'probe mknod /data/kmsg 1 11; probe mknod /data/ok 1 3
		cat /data/kmsg; cat /dev/null && echo null; echo x >/dev/null && echo wrote'
	run sandlock run -b "$B" "$N"
	expect_match "not permitted|denied"
	expect_output null
	expect_output wrote
}

@test "devices: the default spec denies the host's disks" {
	need_controller devices
	config '.process.capabilities.bounding += ["CAP_MKNOD"]
		| .process.capabilities.effective += ["CAP_MKNOD"]
		| .process.capabilities.permitted += ["CAP_MKNOD"]'
	script 'mknod /data/disk b 254 0; dd if=/data/disk of=/dev/null count=1'
	run sandlock run -b "$B" "$N"
	expect_match "not permitted|Permission denied"
}

@test "freezer: pause and resume" {
	set_args sleep 1000
	create_running "$N"
	sandlock pause "$N"
	equal status "$(status_of "$N")" paused
	sandlock resume "$N"
	equal status "$(status_of "$N")" running
}

@test "cgroupsPath: absolute is where it says, and the same twice" {
	need_controller pids
	config '.linux.cgroupsPath = "/slt-" + $n | .linux.resources.pids = {limit: 20}' --arg n "$N"
	set_args sleep 1000
	create_running "$N"
	dir=$(cgroup_dir pids "$(pid_of "$N")")
	[[ $dir == */slt-$N ]]
	# An engine looks for its cgroup in every hierarchy.
	for h in freezer memory cpu cpuacct cpuset devices blkio; do
		! mountpoint -q "/sys/fs/cgroup/$h" ||
			grep -q . "/sys/fs/cgroup/$h/slt-$N/cgroup.procs"
	done
	sandlock delete --force "$N"
	equal left "$(find /sys/fs/cgroup -name "slt-$N")" ""
	create_running "$N"
	equal dir "$(cgroup_dir pids "$(pid_of "$N")")" "$dir"
}

@test "cgroupsPath: relative and nested works and nothing is left" {
	need_controller pids
	config '.linux.cgroupsPath = "slt-" + $n + "/a/b" | .linux.resources.pids = {limit: 20}' --arg n "$N"
	set_args sleep 1000
	create_running "$N"
	[[ $(cgroup_dir pids "$(pid_of "$N")") == */slt-$N/a/b ]]
	sandlock delete --force "$N"
	equal left "$(find /sys/fs/cgroup -name "slt-$N*" -exec find {} -name b \;)" ""
	find /sys/fs/cgroup -depth -path "*/slt-$N*" -type d -exec rmdir {} +
}

# As on a host with cgroup v2 alone.
on_v2() {
	unshare -m sh -c 'mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup && exec "$@"' \
		sh "$@"
}

@test "cgroup v2: it is the program's to divide if it has a namespace and may write" {
	local row

	[ -e /sys/fs/cgroup/unified/cgroup.procs ] || skip "no v2 hierarchy beside v1"
	config '.process.user = {uid: 7, gid: 8}
		| .linux.namespaces += [{type: "user"}, {type: "cgroup"}]
		| .linux.namespaces |= unique_by(.type)
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings
		| .mounts |= map(select(.destination != "/sys/fs/cgroup"))
		| .mounts += [{destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup",
			options: ["nosuid", "noexec", "nodev", "rw"]}]'
	chmod 755 "$W" "$B" "$R"
	script 'stat -c %u /sys/fs/cgroup /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/cgroup.freeze;
		mkdir /sys/fs/cgroup/part && rmdir /sys/fs/cgroup/part && echo divided'
	cp "$B/config.json" "$W/config.json"
	run on_v2 "$SANDLOCK" run -b "$B" "$N"
	expect_output "$(printf '%s\n' 7 7 65534 divided)"
	# Nothing is given away where one of the two is missing.
	for row in '(.mounts[-1].options) |= map(sub("rw"; "ro"))' \
		'.linux.namespaces |= map(select(.type != "cgroup"))'; do
		cp "$W/config.json" "$B/config.json"
		config "$row"
		run on_v2 "$SANDLOCK" run -b "$B" "$N"
		expect_output "$(printf '%s\n' 65534 65534 65534)"
		[[ "$output" != *divided* ]]
	done
}

@test "cgroupsPath: .. does not leave the hierarchy" {
	only_sandlock
	config '.linux.cgroupsPath = "/../../../tmp/slt-" + $n' --arg n "$N"
	run sandlock run -b "$B" "$N"
	[ ! -e "/tmp/slt-$N" ]
	[ "$status" -ne 0 ]
	expect_output cgroupsPath
}

@test "a mount of type cgroup shows the container's own cgroup, read-only" {
	jq -e '.mounts | map(.type) | index("cgroup")' "$B/config.json" >/dev/null ||
		config '.mounts += [{destination: "/sys/fs/cgroup", type: "cgroup",
			source: "cgroup", options: ["nosuid", "noexec", "nodev", "relatime", "ro"]}]'
	script 'ls /sys/fs/cgroup; mkdir /sys/fs/cgroup/pids/x 2>&1; mkdir /sys/fs/cgroup/x 2>&1'
	run sandlock run -b "$B" "$N"
	expect_match "Read-only|denied|not permitted"
	# As podman does for a systemd in the container.
	config '.mounts += [{destination: "/sys/fs/cgroup/made", type: "bind",
		source: "/usr", options: ["bind", "ro"]}]'
	script 'ls -d /sys/fs/cgroup/made/lib; mkdir /sys/fs/cgroup/x 2>&1'
	[ -e /sys/fs/cgroup/cgroup.controllers ] && return
	run sandlock run -b "$B" "$N"
	expect_output /sys/fs/cgroup/made/lib
	expect_match "Read-only|denied|not permitted"
}

@test "no limit asked: only the membership cgroup exists" {
	only_sandlock
	config 'del(.linux.resources)'
	set_args sleep 1000
	create_running "$N"
	n=$(find /sys/fs/cgroup -type d -name "*$N*" | wc -l)
	[ "$n" -le 2 ] || {
		find /sys/fs/cgroup -type d -name "*$N*" >&2
		return 1
	}
}

@test "what cannot be applied is an error that names it and leaves nothing" {
	only_sandlock
	while read -r filter text; do
		config "$filter"
		refused 1 "$text" create "$N"
		config 'del(.linux.resources)'
	done <<'CASES'
.linux.resources={cpu:{cpus:"bogus"}} cpus
.linux.resources={cpu:{quota:10,period:10}} cpu
.linux.resources={cpu:{shares:1}} shares
.linux.resources={blockIO:{weight:5}} weight
.linux.resources={network:{classID:5}} net_cls
.linux.resources={rdma:{x:{hcaHandles:1}}} rdma
.linux.resources={hugepageLimits:[{pageSize:"3MB",limit:1}]} hugepage
.linux.resources={unified:{"no.such":"1"}} no.such
CASES
}

@test "update: what fails changes nothing, and says what of which file" {
	local pids

	only_sandlock
	need_controller pids
	need_controller cpuset
	config '.linux.resources.pids.limit = 50'
	set_args sleep 1000
	create_running "$N"
	pids=$(cgroup_dir pids "$(head -n 1 "$W/run/$N/pid")")/pids.max
	equal before "$(cat "$pids")" 50
	echo '{"pids": {"limit": 20}, "hugepageLimits":
		[{"pageSize": "3MB", "limit": 0}]}' >"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_status 1
	expect_output "'$W/more.json': linux.resources.hugepageLimits: "
	equal after "$(cat "$pids")" 50
	echo '{"cpu": {"cpus": "9999"}}' >"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_output "'$W/more.json': linux.resources.cpu.cpus: "
	expect_output "its parent cgroup has '0"
	echo '{"pids": {"limit": "x"}}' >"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_output "'$W/more.json': resources: pids.limit: "
	expect_output "nothing has changed"
	run sandlock update -r - "$N" <"$W/more.json"
	expect_output "'standard input': resources: pids.limit: "
}

@test "update: a key that is unknown is named, and the rest holds" {
	local pids

	only_sandlock
	need_controller pids
	config '.linux.resources.pids.limit = 50'
	set_args sleep 1000
	create_running "$N"
	pids=$(cgroup_dir pids "$(head -n 1 "$W/run/$N/pid")")/pids.max
	echo '{"pids": {"limit": 20, "max": 3}, "Memory": {},
		"unified": {}, "rdma": {"x": {"hcaHandles": 1, "k": 0}}}' \
		>"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_output "resources: pids: unknown key 'max', ignored"
	expect_output "resources: unknown key 'Memory', ignored"
	echo '{"pids": {"limit": 30}, "x": 1}' >"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_status 0
	expect_output "unknown key 'x'"
	equal after "$(cat "$pids")" 30
}

@test "update: what was refused needs not be set back" {
	only_sandlock
	need_controller blkio
	set_args sleep 1000
	create_running "$N"
	echo '{"blockIO": {"throttleReadBpsDevice":
		[{"major": 999, "minor": 1, "rate": 4}]}}' >"$W/more.json"
	run sandlock update -r "$W/more.json" "$N"
	expect_status 1
	expect_output "linux.resources.blockIO: cannot set "
	expect_output "nothing has changed"
}

@test "hugetlb is applied where the controller is on the unified hierarchy" {
	only_sandlock
	grep -qw hugetlb /sys/fs/cgroup/unified/cgroup.controllers 2>/dev/null ||
		skip "no hugetlb on a unified hierarchy"
	[ -d /sys/kernel/mm/hugepages/hugepages-2048kB ] || skip "no 2 MB pages"
	config '.linux.resources.hugepageLimits = [{pageSize: "2MB", limit: 4194304}]'
	set_args sleep 1000
	create_running "$N"
	path=$(sed -n 's/^0:://p' "/proc/$(pid_of "$N")/cgroup")
	equal limit "$(cat "/sys/fs/cgroup/unified$path/hugetlb.2MB.max")" 4194304
}

@test "unified: each line of a value is written by itself" {
	local dir

	config '.linux.resources.unified = {"cgroup.max.depth": "7\n9\n"}'
	set_args sleep 1000
	create_running "$N"
	dir=/sys/fs/cgroup/unified
	[ -d "$dir" ] || dir=/sys/fs/cgroup
	dir+=$(sed -n 's/^0:://p' "/proc/$(pid_of "$N")/cgroup")
	equal depth "$(cat "$dir/cgroup.max.depth")" 9
}

@test "six failing creates leave no cgroup directory" {
	need_controller cpuset
	before=$(find /sys/fs/cgroup -type d | sort)
	config '.linux.resources.cpu = {cpus: "4095"}
		| .linux.resources.pids = {limit: 10}
		| .linux.resources.memory = {limit: 67108864}'
	for i in 1 2 3 4 5 6; do
		run create "$N"
		[ "$status" -ne 0 ]
	done
	equal left "$(find /sys/fs/cgroup -type d -name "*${W##*.}*")" ""
}

@test "exec joins the cgroups of the container" {
	need_controller pids
	config '.linux.resources.pids = {limit: 50}'
	set_args sleep 1000
	create_running "$N"
	drop=$(sed -n 's/.*pids://p' "/proc/$(pid_of "$N")/cgroup")
	sandlock exec -d --pid-file "$W/pid" "$N" sleep 1001 \
		</dev/null >/dev/null 2>&1 3>&-
	equal cgroup "$(sed -n 's/.*pids://p' "/proc/$(cat "$W/pid")/cgroup")" "$drop"
	equal unified "$(sed -n 's/^0:://p' "/proc/$(cat "$W/pid")/cgroup")" \
		"$(sed -n 's/^0:://p' "/proc/$(pid_of "$N")/cgroup")"
}

@test "exec: a bad --cgroup is refused" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	for c in .. ../x a/../../b pids:..; do
		run sandlock exec --cgroup "$c" "$N" true
		[ "$status" -ne 0 ]
		expect_output "cgroup"
	done
	refused 125 "adding pid to sub cgroup 'none': No such file" \
		sandlock exec --cgroup none "$N" true
	refused 125 "unknown controller 'none'" \
		sandlock exec --cgroup none:/ "$N" true
}

@test "list: what it removes takes nobody along who has the cgroup now" {
	only_sandlock
	local pid other

	set_args sleep 1000
	config '.linux.cgroupsPath = "/slnext-" + $n' --arg n "$N"
	"${RT[@]}" run -b "$B" "${N}a" </dev/null >/dev/null 2>&1 3>&- &
	pid=$!
	started "$pid"
	eventually has_status "${N}a" running
	kill -KILL "$pid"
	wait "$pid" || :
	eventually has_status "${N}a" stopped
	"${RT[@]}" run -b "$B" "${N}b" </dev/null >/dev/null 2>&1 3>&- &
	other=$!
	started "$other"
	eventually has_status "${N}b" running
	# Old enough to be removed.
	touch -d '1 hour ago' "$W/run/${N}a"
	sandlock list >"$W/list"
	equal removed "$(grep -c "${N}a" "$W/list")" 0
	equal status "$(status_of "${N}b")" running
	sandlock kill "${N}b"
	wait "$other" || :
}
