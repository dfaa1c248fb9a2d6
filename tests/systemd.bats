# Cgroups that systemd makes. Where tests run it is not pid 1, so it is a
# service of ours that has its name on a bus of its own (fake_systemd.py).
load lib/common
load lib/user

setup_file() {
	local i

	[ "$(id -u)" -eq 0 ] || return 0
	user_add
	BUS=$(mktemp -d /var/tmp/slbus.XXXXXXXX)
	chmod 755 "$BUS"
	cat >"$BUS/bus.conf" <<-END
		<busconfig>
		<listen>unix:path=$BUS/bus</listen>
		<auth>EXTERNAL</auth>
		<policy context="default">
		<allow user="*"/><allow own="*"/>
		<allow send_destination="*"/><allow receive_sender="*"/>
		</policy>
		</busconfig>
	END
	dbus-daemon --nofork --nosyslog --config-file="$BUS/bus.conf" \
		>"$BUS/bus.log" 2>&1 3>&- &
	BUS_PID=$!
	for ((i = 0; i < 600; i++)); do
		[ -S "$BUS/bus" ] && break
		sleep 0.05
	done
	/usr/bin/python3 "$BATS_TEST_DIRNAME/helpers/fake_systemd.py" \
		"unix:path=$BUS/bus" "$BUS/log" >"$BUS/out" 2>"$BUS/err" 3>&- &
	FAKE_PID=$!
	for ((i = 0; i < 600; i++)); do
		grep -qs ready "$BUS/out" && break
		sleep 0.05
	done
	export BUS BUS_PID FAKE_PID
	grep -qs ready "$BUS/out" || cat "$BUS/err" "$BUS/bus.log" >&2
}

teardown_file() {
	[ -n "$BUS" ] || return 0
	kill "$FAKE_PID" "$BUS_PID"
	rm -rf "$BUS"
	user_del
}

setup() {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	begin
	make_bundle
	: >"$BUS/log"
	chmod 666 "$BUS/log"
	export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$BUS/bus
	OCI+=(--systemd-cgroup)
	RT=("${OCI[@]}")
	config '.linux.cgroupsPath = "sltest.slice:app:" + $n' --arg n "$N"
}

teardown() { finish; }

# calls METHOD: how often it was called.
calls() {
	jq -c --arg m "$1" 'select(.method == $m)' "$BUS/log" | wc -l
}

# property NAME [METHOD]: as the last call had it.
property() {
	jq -c --arg m "${2:-StartTransientUnit}" --arg p "$1" \
		'select(.method == $m) | .properties[$p]' "$BUS/log" | tail -1
}

unified_of() {
	sed -n 's/^0:://p' "/proc/$1/cgroup"
}

@test "run: the payload is in a scope that has what was asked" {
	config '.linux.resources = {pids: {limit: 10},
		cpu: {shares: 512, quota: 20000, period: 50000}}'
	script 'sed -n s/^0:://p /proc/self/cgroup'
	drop_ns cgroup
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_exactly "/sltest.slice/app-$N.scope"
	equal unit "$(jq -r 'select(.unit and .mode) | .unit' "$BUS/log" |
		head -1)" "app-$N.scope"
	equal slice "$(property Slice)" '"sltest.slice"'
	equal delegate "$(property Delegate)" true
	equal dependencies "$(property DefaultDependencies)" false
	equal memory "$(property MemoryAccounting)" true
	equal cpu "$(property CPUAccounting)" true
	equal tasks "$(property TasksAccounting)" true
	equal limit "$(property TasksMax)" 10
	# 20 of 50 ms is 400 ms of each second.
	equal quota "$(property CPUQuotaPerSecUSec)" 400000
	equal period "$(property CPUQuotaPeriodUSec)" 50000
	equal processes "$(property PIDs | jq length)" 1
	equal starts "$(calls StartTransientUnit)" 1
}

@test "run: without a cgroupsPath the scope is below system.slice" {
	config 'del(.linux.cgroupsPath)'
	drop_ns cgroup
	script 'sed -n s/^0:://p /proc/self/cgroup'
	run sandlock run -b "$B" "$N"
	expect_exactly "/system.slice/sandlock-$N.scope"
	# The root slice, and no prefix.
	config '.linux.cgroupsPath = "-::" + $n' --arg n "$N"
	run sandlock run -b "$B" "$N"
	expect_exactly "/$N.scope"
}

@test "verbs: they find the scope that create has made" {
	set_args sleep 1000
	config '.linux.cgroupsPath = "sltest-sub.slice:a+@:" + $n' --arg n "$N"
	create "$N"
	local unit="a\\x2b\\x40-$N.scope" pid
	pid=$(pid_of "$N")
	equal place "$(unified_of "$pid")" \
		"/sltest.slice/sltest-sub.slice/$unit"
	sandlock start "$N"
	run sandlock exec "$N" sh -c 'grep -c sltest-sub.slice /proc/self/cgroup'
	[ "$output" -ge 1 ]
	sandlock pause "$N"
	has_status "$N" paused
	sandlock resume "$N"
	has_status "$N" running
	equal processes "$(sandlock ps --format json "$N" | jq length)" 1
	sandlock update --pids-limit 20 "$N"
	equal limit "$(property TasksMax SetUnitProperties)" 20
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	sandlock delete "$N"
	equal resets "$(calls ResetFailedUnit)" 1
	[ -z "$(find /sys/fs/cgroup -name 'sltest*.slice')" ]
}

@test "delete: what still runs ends with the scope" {
	set_args sleep 1000
	drop_ns pid
	create_running "$N"
	sandlock delete --force "$N"
	# Empty it ends by itself: whether it was stopped first depends.
	equal resets "$(calls ResetFailedUnit)" 1
	[ -z "$(find /sys/fs/cgroup -name "*$N*")" ]
}

@test "delete: a scope of that name which is another's by now stays" {
	local dir=/sys/fs/cgroup/unified

	[ -d "$dir" ] || dir=/sys/fs/cgroup
	set_args sleep 1000
	config '.linux.cgroupsPath = "-:app:" + $n' --arg n "$N"
	create_running "$N"
	kill -KILL "$(pid_of "$N")"
	eventually has_status "$N" stopped
	eventually test ! -e "$dir/app-$N.scope"
	create_running "$N-2"
	sandlock delete "$N"
	equal status "$(status_of "$N-2")" running
	equal stops "$(calls StopUnit)" 0
	sandlock delete --force "$N-2"
}

@test "cgroupsPath: what names no scope is refused, and nothing is asked" {
	local path

	for path in /a/b a.slice:b a--b.slice:y:z; do
		config '.linux.cgroupsPath = $p' --arg p "$path"
		refused 1 "names no scope of systemd" \
			sandlock run -b "$B" "$N"
	done
	equal calls "$(calls StartTransientUnit)" 0
}

@test "annotations: properties of the scope, read strictly" {
	annotate org.systemd.property.TimeoutStopSec 1.5
	annotate org.systemd.property.After "['a.service', \"b.service\"]"
	annotate org.systemd.property.CollectMode "'inactive-or-failed'"
	annotate org.systemd.property.TasksMax '@t 7'
	annotate org.systemd.property.Description "'--system'"
	sandlock run -b "$B" "$N"
	equal description "$(property Description)" '"--system"'
	equal timeout "$(property TimeoutStopUSec)" 1500000
	equal after "$(property After)" '["a.service","b.service"]'
	equal mode "$(property CollectMode)" '"inactive-or-failed"'
	equal tasks "$(property TasksMax)" 7
	annotate org.systemd.property.TasksMax 'uint64'
	refused 1 TasksMax sandlock run -b "$B" "$N"
	annotate org.systemd.property.TasksMax '@t 7'
	annotate org.systemd.property.PIDs '[uint32 1]'
	refused 1 PIDs sandlock run -b "$B" "$N"
	equal starts "$(calls StartTransientUnit)" 1
}

@test "annotations: a property that systemd does not know is its error" {
	annotate org.systemd.property.Colour "'red'"
	refused 1 "Cannot set property Colour" sandlock run -b "$B" "$N"
}

@test "failure: a job that fails is an error, and the name is free again" {
	config '.linux.cgroupsPath = "sltest.slice:fails:" + $n' --arg n "$N"
	for i in 1 2; do
		refused 1 "did not start 'fails-$N.scope'" \
			sandlock run -b "$B" "$N"
	done
	equal starts "$(calls StartTransientUnit)" 2
	equal resets "$(calls ResetFailedUnit)" 2
}

@test "run: it waits for the name of a scope that is ending" {
	config '.linux.cgroupsPath = "sltest.slice:lingers:" + $n' --arg n "$N"
	for i in 1 2; do
		run sandlock run -b "$B" "$N"
		expect_status 0
	done
	equal starts "$(calls StartTransientUnit)" 3
}

@test "failure: a create that fails later stops the scope" {
	config '.mounts += [{destination: "/mnt", type: "none",
		source: "/does/not/exist", options: ["bind"]}]'
	refused 1 /does/not/exist sandlock run -b "$B" "$N"
	equal starts "$(calls StartTransientUnit)" 1
	eventually sh -c "[ -z \"\$(find /sys/fs/cgroup -name 'sltest*.slice')\" ]"
}

@test "failure: a scope that is there, or frozen, is not taken over" {
	local dir=/sys/fs/cgroup/unified

	[ -d "$dir" ] || dir=/sys/fs/cgroup
	set_args sleep 1000
	create "$N"
	refused 1 "'app-$N.scope' is started already" create "$N-2"
	sandlock delete --force "$N"
	mkdir -p "$dir/sltest.slice/app-$N.scope"
	echo 1 >"$dir/sltest.slice/app-$N.scope/cgroup.freeze"
	run sandlock run -b "$B" "$N"
	expect_status 1
	expect_output "unexpectedly frozen"
	eventually test ! -e "$dir/sltest.slice"
}

@test "failure: without systemd the error says what to do" {
	export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$W/none
	refused 1 "use --cgroup-manager=cgroupfs" sandlock run -b "$B" "$N"
}

@test "pids: a limit of one is for the payload" {
	config '.linux.resources.pids = {limit: 1}'
	script 'echo alone'
	run sandlock run -b "$B" "$N"
	expect_exactly alone
}

@test "a create that is killed leaves no scope" {
	config '.hooks.createRuntime = [{path: "/bin/sh", args: ["sh", "-c",
		"touch \($w)/begun; while kill -0 $PPID; do sleep 0.05; done"]}]' \
		--arg w "$W"
	"${RT[@]}" create -b "$B" "$N" </dev/null >/dev/null 2>&1 3>&- &
	local pid=$!
	eventually test -e "$W/begun"
	kill -KILL "$pid"
	wait "$pid" || true
	sandlock delete --force "$N"
	eventually sh -c "[ -z \"\$(find /sys/fs/cgroup -name 'sltest*.slice')\" ]"
}

@test "rootless: the scope is of the user's manager, which moves processes" {
	local dir

	dir=$TEST_USER_DIR/$N
	as_user mkdir "$dir"
	cp -a "$B" "$dir/bundle"
	cp "$SANDLOCK" "$dir/sandlock-oci"
	RT[0]=$dir/sandlock-oci
	chown -R "$TEST_USER:" "$dir"
	AS_USER_ENV=(DBUS_SESSION_BUS_ADDRESS="unix:path=$BUS/bus"
		SANDLOCK_ROOT="$dir/run" SANDLOCK_STORE="$dir/store")
	B=$dir/bundle
	rm "$B/config.json"
	as_user sh -c "cd '$B' && '${RT[0]}' spec --rootless"
	config '.process.terminal = false | .process.args = ["sleep", "1000"]'
	as_user "${RT[@]}" create -b "$B" "$N" </dev/null >"$W/out" 2>&1 3>&-
	local pid
	pid=$(as_user "${RT[@]}" state "$N" | jq .pid)
	equal place "$(unified_of "$pid")" "/user.slice/sandlock-$N.scope"
	as_user "${RT[@]}" start "$N"
	as_user "${RT[@]}" exec -d "$N" sleep 1000 </dev/null >"$W/out" 2>&1 3>&-
	equal members "$(wc -l <"/sys/fs/cgroup/unified/user.slice/sandlock-$N.scope/cgroup.procs")" 2
	equal moves "$(calls AttachProcessesToUnit)" 2
	as_user "${RT[@]}" delete --force "$N"
	eventually sh -c "! grep -qs 'sandlock-$N' /proc/[0-9]*/cgroup"
}

@test "features: systemd is there, for root and for users" {
	equal systemd "$(sandlock features |
		jq -c '.linux.cgroup | [.systemd, .systemdUser]')" "[true,true]"
}
