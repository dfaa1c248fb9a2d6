# The life cycle of a bundle: verbs, texts and statuses (oci.md sections 1.6
# and 2, DESIGN section 4).
load lib/common

setup() {
	begin
	make_bundle
}

teardown() { finish; }

# ------------------------------------------------------------------- run --

@test "run: the status is the program's own" {
	script 'exit 7'
	run sandlock run -b "$B" "$N"
	expect_status 7
	expect_exactly ""
}

@test "run: a program that ends well says nothing and leaves nothing" {
	before=$(leaks)
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_exactly ""
	settle_leaks "$before"
}

@test "run: output and input belong to the program" {
	script 'cat; echo err >&2'
	run bash -c "echo hello | '${RT[0]}' ${RT[*]:1} run -b '$B' $N 2>'$W/err'"
	expect_status 0
	expect_exactly hello
	equal stderr "$(cat "$W/err")" err
}

@test "run: a signal's death is 128 plus its number" {
	set_args probe segv
	run sandlock run -b "$B" "$N"
	expect_status 139
}

@test "run: a program that is not there is 127" {
	only_sandlock
	set_args no-such-program
	refused 127 'executable file not found in $PATH' \
		sandlock run -b "$B" "$N"
}

@test "run: an absolute program that is not there is 127" {
	only_sandlock
	set_args /no/such/program
	refused 127 'no such file or directory' sandlock run -b "$B" "$N"
}

@test "run: a file that cannot be executed is 126" {
	only_sandlock
	echo text >"$R/bin/text"
	chmod 644 "$R/bin/text"
	set_args /bin/text
	refused 126 'permission denied' sandlock run -b "$B" "$N"
}

@test "run: a failure of ours is 125" {
	only_sandlock
	rm "$B/config.json"
	refused 125 "config.json" sandlock run -b "$B" "$N"
}

@test "run: as sandlock-oci a failure is 1" {
	set_args no-such-program
	refused 1 'executable file not found in $PATH' \
		sandlock_oci run -b "$B" "$N"
}

@test "run: options may follow the name" {
	only_sandlock
	script 'exit 3'
	run sandlock run "$N" --bundle "$B"
	expect_status 3
}

@test "run: the bundle is the working directory by default" {
	cd "$B"
	script 'exit 4'
	run sandlock run "$N"
	expect_status 4
}

@test "run: a relative bundle works" {
	cd "$W"
	script 'exit 5'
	run sandlock run -b bundle "$N"
	expect_status 5
}

@test "run: a name is made up where none is given" {
	only_sandlock
	script 'hostname; echo made >/made'
	run sandlock run -b "$B"
	expect_status 0
	name=$(branches_json | jq -r '.[0].name')
	[[ $name =~ ^[a-z]+-[a-z]+ ]]
	sandlock abort "$name"
}

@test "run: without a bundle the hint names the host command's form" {
	only_sandlock
	cd "$W/run" 2>/dev/null || cd "$W"
	run sandlock run true
	expect_status 125
	expect_output config.json
	expect_output "sandlock run -- true"
}

@test "run: --detach returns while the program runs" {
	set_args sleep 1000
	run_detached "$N" --pid-file "$W/pid"
	equal status "$(status_of "$N")" running
	equal pid "$(cat "$W/pid")" "$(pid_of "$N")"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	sandlock delete "$N"
}

@test "run: --keep leaves the container to be deleted" {
	only_sandlock
	run sandlock run --keep -b "$B" "$N"
	expect_status 0
	equal status "$(status_of "$N")" stopped
	sandlock delete "$N"
	run sandlock state "$N"
	expect_status 1
}

@test "run: SIGTERM is passed on to the program" {
	script 'trap "echo got it >&2; exit 9" TERM; echo up; while :; do sleep 0.1; done'
	"${RT[@]}" run -b "$B" "$N" >"$W/log" 2>&1 3>&- &
	runner=$!
	started $runner
	eventually grep -q up "$W/log"
	kill -TERM $runner
	status=0
	wait $runner || status=$?
	equal status "$status" 9
	grep -q 'got it' "$W/log"
}

nobody_is_named() {
	! pgrep -f "$1"
}

@test "run: SIGKILL of run takes the sandbox with it" {
	only_sandlock
	set_args sleep 1000
	"${RT[@]}" run -b "$B" "$N" >"$W/log" 2>&1 3>&- &
	runner=$!
	eventually has_status "$N" running
	init=$(pid_of "$N")
	kill -KILL $runner
	wait $runner || true
	eventually is_gone "$init"
}

@test "run: killed at any step it leaves no init that waits for its ids" {
	local step

	only_sandlock
	skip_unless_root
	command -v strace >/dev/null || skip "strace is not installed"
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 100000, size: 65536}]
		| .linux.gidMappings = .linux.uidMappings'
	chown -R 100000:100000 "$R"
	for step in $(seq 40); do
		timeout 20 strace -qq -o /dev/null -e trace=write \
			-e inject="write:signal=KILL:when=$step" \
			"$SANDLOCK" run -b "$B" "$N.$step" 2>/dev/null 3>&- &&
			break
	done
	[ "$step" -gt 4 ] && [ "$step" -lt 40 ]
	eventually nobody_is_named "$N."
}

@test "run: 20 in parallel all succeed" {
	script 'exit 0'
	for i in $(seq 20); do
		sandlock run -b "$B" "$N-$i" &
		pids+=" $!"
	done
	for p in $pids; do
		wait "$p"
	done
}

# ------------------------------------------- create, start, state, delete --

@test "create, start, kill, delete: state says created, running, stopped" {
	set_args sleep 1000
	create "$N"
	equal status "$(status_of "$N")" created
	init=$(pid_of "$N")
	[ "$init" -gt 0 ]
	kill -0 "$init"
	sandlock start "$N"
	equal status "$(status_of "$N")" running
	equal pid "$(pid_of "$N")" "$init"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	equal pid "$(pid_of "$N")" 0
	sandlock delete "$N"
	run sandlock state "$N"
	expect_status 1
	expect_output "does not exist"
}

@test "create: the program does not run before start" {
	only_sandlock
	script 'echo ran >/data/ran'
	create "$N" --branch=none
	sleep 0.2
	[ ! -e "$R/data/ran" ]
	sandlock start "$N"
	eventually test -e "$R/data/ran"
}

@test "create: --bundle before and after the name" {
	set_args sleep 1000
	detached create -b "$B" "$N"
	sandlock delete --force "$N"
	if [ "$RUNTIME" = sandlock ]; then
		detached create "$N" -b "$B"
		equal status "$(status_of "$N")" created
	fi
}

@test "create: the pid file holds the bare number" {
	set_args sleep 1000
	cd "$W"
	create "$N" --pid-file "$W/pid"
	equal pid "$(cat "$W/pid")" "$(pid_of "$N")"
	equal size "$(stat -c %s "$W/pid")" "$(pid_of "$N" | tr -d '\n' | wc -c)"
}

@test "pid-file: a device is written to and stays one" {
	only_sandlock
	set_args sleep 1000
	mknod "$W/null" c 1 3
	ln -s null "$W/link"
	create "$N" --pid-file "$W/null"
	sandlock start "$N"
	sandlock exec --pid-file "$W/link" "$N" true
	equal kind "$(stat -c '%F %t:%T' "$W/null")" "character special file 1:3"
	equal link "$(readlink "$W/link")" null
}

@test "pid-file: a FIFO gets the pid once somebody reads it" {
	only_sandlock
	mkfifo "$W/fifo"
	script 'exit 7'
	(cat "$W/fifo" >"$W/read") 3>&- &
	started $!
	run sandlock run -b "$B" --pid-file "$W/fifo" "$N"
	expect_status 7
	wait $!
	equal kind "$(stat -c %F "$W/fifo")" fifo
	[[ $(cat "$W/read") =~ ^[1-9][0-9]*$ ]]
}

@test "pid-file: a descriptor of the caller, a pipe or a file" {
	only_sandlock
	script 'exit 7'
	run bash -c '"$0" run -b "$1" --pid-file /dev/fd/9 "$2" 9> >(cat)' \
		"$SANDLOCK" "$B" "$N"
	expect_match '^[1-9][0-9]*$'
	expect_status 7
	echo old >"$W/file"
	sandlock run -b "$B" --pid-file /proc/self/fd/9 "$N" 9>>"$W/file" ||
		equal status $? 7
	[[ $(cat "$W/file") =~ ^old.[1-9][0-9]*$ ]]
}

@test "create: changes of config.json afterwards have no effect" {
	script 'echo first; exit 11'
	detached create -b "$B" --pid-file "$W/pid" "$N"
	script 'echo second; exit 12'
	sandlock start "$N"
	eventually has_status "$N" stopped
	equal output "$(cat "$W/out")" first
}

@test "create: state and delete work without config.json" {
	set_args sleep 1000
	create "$N"
	rm "$B/config.json"
	sandlock start "$N"
	equal status "$(status_of "$N")" running
	sandlock delete --force "$N"
}

@test "create: a taken name is refused and the first is untouched" {
	set_args sleep 1000
	create "$N"
	init=$(pid_of "$N")
	refused 1 "container with given ID already exists" create "$N"
	equal pid "$(pid_of "$N")" "$init"
	equal status "$(status_of "$N")" created
}

@test "create: of one name at the same time exactly one wins" {
	set_args sleep 1000
	for i in 1 2 3 4 5 6; do
		(create "$N" 2>/dev/null && echo "$i" >>"$W/winners") &
		pids+=" $!"
	done
	for p in $pids; do
		wait "$p" || true
	done
	equal winners "$(wc -l <"$W/winners")" 1
	equal status "$(status_of "$N")" created
}

@test "create: a program that is not there is found out" {
	set_args no-such-program
	refused 1 'executable file not found in $PATH' create_oci "$N"
}

@test "start: a second start is refused" {
	set_args sleep 1000
	create_running "$N"
	refused 1 "cannot start an already running container" \
		sandlock start "$N"
	equal status "$(status_of "$N")" running
}

@test "start: a stopped container is refused" {
	set_args true
	create_running "$N"
	eventually has_status "$N" stopped
	refused 1 "cannot start a container that has stopped" \
		sandlock start "$N"
}

@test "start: a container that does not exist is refused" {
	refused 1 "does not exist" sandlock start "$N"
}

@test "start: a program that cannot be executed is an error of start" {
	only_sandlock
	printf 'not a program' >"$R/bin/bad"
	chmod 755 "$R/bin/bad"
	printf '#!/no/such/interpreter\n' >"$R/bin/bad"
	set_args /bin/bad
	create "$N"
	run sandlock start "$N"
	expect_status 1
	expect_output "exec /bin/bad: no such file or directory"
	expect_output "interpreter"
	eventually has_status "$N" stopped
}

@test "state: has the members that the specification requires" {
	set_args sleep 1000
	annotate org.example.key "a value"
	create "$N"
	run --separate-stderr sandlock state "$N"
	expect_status 0
	equal stderr "$stderr" ""
	equal id "$(jq -r .id <<<"$output")" "$N"
	equal status "$(jq -r .status <<<"$output")" created
	equal bundle "$(jq -r .bundle <<<"$output")" "$B"
	equal rootfs "$(jq -r .rootfs <<<"$output")" "$R"
	equal annotation "$(jq -r '.annotations["org.example.key"]' <<<"$output")" "a value"
	jq -e '.ociVersion | test("^1[.]")' <<<"$output"
	jq -e '.pid | type == "number" and . > 0' <<<"$output"
	jq -e '.created | test("^[0-9-]+T[0-9:.]+Z$")' <<<"$output"
	jq -e 'has("owner")' <<<"$output"
}

@test "state: the keys come in runc's order" {
	set_args sleep 1000
	create "$N"
	run sandlock state "$N"
	equal keys "$(jq -r 'keys_unsorted | join(" ")' <<<"$output")" \
		"ociVersion id pid status bundle rootfs created owner"
}

@test "state: a container that does not exist is refused" {
	refused 1 "does not exist" sandlock state "$N"
	run sandlock_oci state "$N"
	expect_status 1
	expect_exactly "sandlock-oci: container \"$N\" does not exist"
}

@test "state: no name is a usage error" {
	only_sandlock
	run sandlock state
	expect_status 2
}

@test "delete: a running container is refused without --force" {
	set_args sleep 1000
	create_running "$N"
	run sandlock delete "$N"
	expect_status 1
	expect_output "that is not stopped"
	equal status "$(status_of "$N")" running
	sandlock delete --force "$N"
	run sandlock state "$N"
	expect_status 1
}

@test "delete: a created container may be deleted" {
	set_args sleep 1000
	create "$N"
	init=$(pid_of "$N")
	sandlock delete "$N"
	eventually is_gone "$init"
	run sandlock state "$N"
	expect_status 1
}

@test "delete: what does not exist is refused, with --force it is no error" {
	refused 1 "does not exist" sandlock delete "$N"
	run sandlock delete --force "$N"
	expect_status 0
	expect_exactly ""
}

@test "delete: killed at any step, and done again at once" {
	local step

	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	set_args sleep 1000
	for step in $(seq 20); do
		create "$N" --branch=none
		timeout 20 strace -qq -o /dev/null -e trace=unlinkat \
			-e inject="unlinkat:signal=KILL:when=$step" \
			"$SANDLOCK" delete --force "$N" 2>/dev/null 3>&- && break
		sandlock delete --force "$N"
		[ ! -e "$W/run/$N" ]
	done
	[ "$step" -gt 4 ] && [ "$step" -lt 20 ]
}

@test "delete: the name is free afterwards" {
	set_args sleep 1000
	create "$N"
	sandlock delete --force "$N"
	create "$N"
	equal status "$(status_of "$N")" created
}

@test "delete: it waits for a waiter that is late with the branch" {
	only_sandlock
	set_args sleep 1000
	create "$N"
	waiter=$(sed -n 2p "$W/run/$N/pid")
	kill -STOP "$waiter"
	(
		sleep 0.3
		kill -CONT "$waiter"
	) 3>&- &
	started $!
	sandlock delete --force "$N"
	create "$N"
	equal status "$(status_of "$N")" created
}

@test "delete: who has the waiter's number now is not waited for" {
	only_sandlock
	set_args sleep 1000
	create "$N"
	init=$(pid_of "$N")
	kill -KILL "$(sed -n 2p "$W/run/$N/pid")"
	sleep 1000 3>&- &
	started $!
	printf '%s\n%s\n' "$init" "$!" >"$W/run/$N/pid"
	sandlock delete --force "$N"
	# So it was settled here, and was empty.
	[ ! -e "$W/store/branches/$N" ]
}

@test "state: what is damaged, or no file, hangs nobody and tells the way out" {
	local COMMAND_TIMEOUT=5 init verb

	only_sandlock
	set_args sleep 1000
	create "$N"
	sandlock start "$N"
	init=$(pid_of "$N")
	mv "$W/run/$N/state.json" "$W/state.json"
	for kind in mkfifo truncate; do
		rm -f "$W/run/$N/state.json"
		case $kind in
		mkfifo) mkfifo "$W/run/$N/state.json" ;;
		truncate) : >"$W/run/$N/state.json" ;;
		esac
		for verb in state kill delete "ps"; do
			run sandlock $verb "$N"
			expect_status 1
			expect_output "state.json"
			expect_output "if process $init is its first"
		done
		for verb in ps list; do
			run sandlock $verb
			expect_status 0
			expect_output "left out:"
			expect_output "if process $init is its first"
		done
	done
	sandlock exec "$N" true && return 1
	kill -KILL "$init"
	gone() { ! kill -0 "$init" 2>/dev/null; }
	eventually gone
	sandlock delete --force "$N"
	[ ! -e "$W/run/$N" ]
}

@test "a stopped container stays until it is deleted" {
	create_running "$N"
	eventually has_status "$N" stopped
	sleep 2.5
	sandlock list -q | grep -qx "$N"
	equal status "$(status_of "$N")" stopped
	sandlock delete "$N"
}

# ------------------------------------------------------------------ kill --

@test "kill: the signal reaches the program" {
	script 'trap "exit 33" USR1; echo up; while :; do sleep 0.1; done'
	create_running "$N"
	eventually grep -q up "$W/out"
	sandlock kill "$N" USR1
	eventually has_status "$N" stopped
}

@test "kill: every spelling of a signal works" {
	script 'for s in HUP TERM USR1 USR2 WINCH; do trap "echo $s" $s; done
		echo up; while :; do sleep 0.05; done'
	create_running "$N"
	eventually grep -q up "$W/out"
	for s in HUP SIGTERM usr1 sigusr2 28; do
		sandlock kill "$N" "$s"
	done
	for s in HUP TERM USR1 USR2 WINCH; do
		eventually grep -qx "$s" "$W/out"
	done
}

@test "kill: an unknown signal is refused and nothing is signalled" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	for s in TERMX 65 -1 9abc 0x9; do
		run sandlock kill "$N" -- "$s"
		[ "$status" -ne 0 ]
		expect_output "$s"
		equal status "$(status_of "$N")" running
	done
}

@test "kill: a stopped container is 'container not running'" {
	create_running "$N"
	eventually has_status "$N" stopped
	refused 1 "container not running" sandlock kill "$N" KILL
}

@test "kill: a container that does not exist is refused" {
	refused 1 "does not exist" sandlock kill "$N" KILL
}

@test "kill: as sandlock-oci the default is SIGTERM to init" {
	script 'trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.05; done'
	create_oci "$N"
	sandlock_oci start "$N"
	eventually grep -q up "$W/out"
	sandlock_oci kill "$N"
	eventually grep -q term "$W/out"
	eventually has_status "$N" stopped
}

@test "kill: without a signal the whole sandbox is dead when it returns" {
	only_sandlock
	set_args probe ignore daemons
	create_running "$N"
	eventually grep -q ready "$W/out"
	pids=$(sandlock ps --format json "$N" | jq -r '.[]')
	equal processes "$(wc -w <<<"$pids")" 6
	run sandlock kill "$N"
	expect_status 0
	for p in $pids; do
		is_gone "$p"
	done
	equal status "$(status_of "$N")" stopped
	refused 1 "container not running" sandlock kill "$N"
}

@test "kill: who has the server's number now is neither waited for nor killed" {
	only_sandlock
	set_args sleep 1000
	create_running "$N" --no-supervisor
	init=$(pid_of "$N")
	kill -KILL "$(sed -n 2p "$W/run/$N/pid")"
	sandlock run -b "$B" "$N-other" >"$W/log" 2>&1 3>&- &
	other=$!
	started $other
	eventually has_status "$N-other" running
	printf '%s\n%s\n' "$init" \
		"$(sed -n 2p "$W/run/$N-other/pid")" >"$W/run/$N/pid"
	sandlock kill "$N"
	equal other "$(status_of "$N-other")" running
	sandlock kill "$N-other"
	wait $other || true
}

@test "kill: of a run that is kept, too, it returns when that is over" {
	only_sandlock
	set_args sleep 1000
	"$SANDLOCK" run --keep -b "$B" "$N" >"$W/log" 2>&1 3>&- &
	runner=$!
	started $runner
	eventually has_status "$N" running
	equal server "$(sed -n 2p "$W/run/$N/pid")" $runner
	sandlock kill "$N"
	is_gone $runner
	equal status "$(status_of "$N")" stopped
	sandlock delete "$N"
}

@test "kill: a created container can be killed" {
	set_args sleep 1000
	create "$N"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
}

@test "kill: a created container ends at a plain TERM, too" {
	set_args sleep 1000
	create "$N"
	sandlock kill "$N" TERM
	eventually has_status "$N" stopped
}

@test "kill: 0 asks whether it runs; with --all it is no error if not" {
	set_args sleep 1000
	create_running "$N"
	sandlock kill "$N" 0
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
	refused 1 "container not running" sandlock kill "$N" 0
	sandlock kill --all "$N" TERM
	run sandlock ps "$N"
	expect_status 0
	equal lines "$(wc -l <<<"$output")" 1
}

@test "kill: --all reaches every process" {
	set_args probe ignore daemons
	create_running "$N"
	eventually grep -q ready "$W/out"
	sandlock kill --all "$N" KILL
	eventually has_status "$N" stopped
}

# What the payload and all that it has made are members of.
members() {
	find /sys/fs/cgroup -path "*$N*" -name cgroup.procs -exec cat {} + 2>/dev/null
}

@test "kill: --all KILL ends whoever forks, without a pid namespace too" {
	only_sandlock
	drop_ns pid
	# Each ends once it has started the next one.
	script 'trap "" TERM; f() { f & }; f; f; f; f; exec sleep 1000'
	create_running "$N"
	[ -n "$(members)" ] || skip "no cgroup to signal by"
	sandlock kill --all "$N" KILL
	equal members "$(members)" ""
	equal status "$(status_of "$N")" stopped
}

@test "kill: --all KILL ends what is left after the program, and what is paused" {
	only_sandlock
	drop_ns pid
	script 'setsid sleep 1001 & exit'
	create_running "$N"
	eventually has_status "$N" stopped
	[ -n "$(members)" ] || skip "no cgroup to signal by"
	sandlock kill --all "$N" KILL
	equal members "$(members)" ""
	sandlock delete "$N"
	script 'exec sleep 1002'
	create_running "$N"
	sandlock pause "$N"
	sandlock kill --all "$N" KILL
	equal members "$(members)" ""
	equal status "$(status_of "$N")" stopped
}

# ------------------------------------------------------------------ exec --

@test "exec: runs beside the program, with its own status" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" sh -c 'echo inside; exit 42'
	expect_status 42
	expect_exactly inside
}

@test "run and exec: a bundle is not held to the caller's processors" {
	[ "$(nproc --all)" -gt 1 ] || skip "needs two processors"
	set_args grep Cpus_allowed_list /proc/self/status
	run taskset -c 0 "${RT[@]}" run -b "$B" "$N"
	expect_status 0
	expect_output Cpus_allowed_list
	[ "${output##*[[:space:]]}" != 0 ]
	set_args sleep 1000
	create_running "$N"
	run taskset -c 0 "${RT[@]}" exec "$N" grep Cpus_allowed_list /proc/self/status
	expect_status 0
	[ "${output##*[[:space:]]}" != 0 ]
}

@test "exec: shares the namespaces and the root of the sandbox" {
	set_args sleep 1000
	create_running "$N"
	init=$(pid_of "$N")
	for ns in mnt pid uts ipc net cgroup; do
		run sandlock exec "$N" readlink "/proc/self/ns/$ns"
		expect_exactly "$(readlink "/proc/$init/ns/$ns")"
	done
	run sandlock exec "$N" sh -c 'cat /proc/1/cmdline | tr "\0" " "'
	expect_output "sleep 1000"
}

@test "exec: from a chroot it lands in the sandbox, and so does who joins it" {
	skip_unless_root
	only_sandlock
	script 'echo inside >/where; exec sleep 300'
	mkdir "$W/top"
	run --separate-stderr unshare -m bash -ec '
		mount --make-rprivate /
		mount --rbind / "$1/top"
		cd "$1/top"
		exec chroot . bash -c "$2" - "$3" "$4" "$5"' - "$W" '
		"$1" create "$2" -b "$3" </dev/null >/dev/null 2>&1 &&
		"$1" start "$2"
		pid=$("$1" state "$2" | sed -n "s/.*\"pid\": \([0-9]*\).*/\1/p")
		"$1" exec "$2" sh -c "for i in \$(seq 300); do
			[ -e /where ] && break; sleep 0.1; done; cat /where"
		nsenter -m -t "$pid" /bin/cat /where
		"$1" kill "$2"
		"$1" abort -q "$2"
		"$1" delete "$2"' "$BUILD/sandlock" "$N" "$B"
	expect_status 0
	expect_exactly $'inside\ninside'
}

@test "create: without pivot_root a chroot would leave the host's root for exec" {
	skip_unless_root
	only_sandlock
	mkdir "$W/top"
	run unshare -m bash -ec '
		mount --make-rprivate /
		mount --rbind / "$1/top"
		cd "$1/top"
		exec chroot . "$2" create --no-pivot "$3" -b "$4"' - \
		"$W" "$BUILD/sandlock" "$N" "$B"
	expect_status 1
	expect_output "--no-pivot in a chroot"
	set_args sleep 1000
	create_running "$N" --no-pivot
	run sandlock exec "$N" sh -c 'echo here >/where; cat /where'
	expect_exactly here
	[ ! -e /where ]
}

@test "exec: death by signal is 128 plus its number" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" probe signal 9
	expect_status 137
}

@test "exec: a signal that all get while it joins neither ends nor stops it" {
	local tracer helper sig

	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	set_args sleep 1000
	create_running "$N"
	for sig in TERM TSTP; do
		# With a group of its own that is no orphan: those do not stop.
		set -m
		timeout 20 strace -f -qq -o "$W/trace" -e trace=setns \
			-e inject=setns:delay_enter=500000 \
			"$SANDLOCK" exec "$N" echo "in" >"$W/out" 2>&1 3>&- &
		tracer=$!
		set +m
		eventually grep -q setns "$W/trace"
		helper=$(sed -n 's/^\([0-9]*\) .*setns.*/\1/p' "$W/trace")
		kill -s "$sig" "$helper"
		wait "$tracer"
		equal "$sig" "$(cat "$W/out")" in
		rm "$W/trace"
	done
	sandlock kill "$N" KILL
}

@test "exec: stdin, stdout and stderr are passed" {
	set_args sleep 1000
	create_running "$N"
	echo hello >"$W/in"
	sandlock exec "$N" sh -c 'cat; echo e >&2' <"$W/in" >"$W/o" 2>"$W/e"
	equal stdout "$(cat "$W/o")" hello
	equal stderr "$(cat "$W/e")" e
}

@test "exec: options stop at the first operand" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" echo --cwd -e -t
	expect_exactly "--cwd -e -t"
}

@test "exec: --cwd, --env and --user are applied" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec --cwd /data -e "K=a value" --user 1000:1001 "$N" \
		sh -c 'pwd; echo "$K"; probe ids'
	expect_status 0
	expect_exactly $'/data\na value\n1000 1001'
}

@test "exec: --additional-gids and --cap are applied" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec -g 5 -g 6 "$N" probe ids
	expect_exactly "0 0 5 6"
	run sandlock exec --cap CAP_SYS_TIME "$N" grep CapEff /proc/self/status
	(( 16#$(awk '{print $2}' <<<"$output") & (1 << 25) ))
}

@test "exec: --cap is ambient where it is inheritable" {
	config '.process.capabilities.inheritable = ["CAP_CHOWN", "CAP_SYSLOG"]
		| .process.capabilities.ambient = ["CAP_CHOWN"]
		| .process.capabilities.permitted += ["CAP_CHOWN"]
		| .process.capabilities.bounding += ["CAP_CHOWN"]'
	set_args sleep 1000
	create_running "$N"
	run sandlock exec --cap CAP_SYSLOG "$N" \
		grep CapAmb /proc/self/status
	expect_output 0000000400000001
}

@test "run: an ambient capability that cannot be raised is told" {
	config '.process.capabilities.inheritable = ["CAP_KILL"]
		| .process.capabilities.ambient = ["CAP_KILL", "CAP_CHOWN", "CAP_FOWNER"]'
	set_args grep CapAmb /proc/self/status
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_output "can't raise ambient capability CAP_CHOWN, CAP_FOWNER: "
	expect_output 0000000000000020
}

@test "run: process.user may be left out, and is 0:0" {
	config 'del(.process.user)'
	set_args probe ids
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_exactly "0 0"
}

@test "run: newlines of a terminal are plain in a pipe" {
	config '.process.terminal = true'
	set_args printf 'a\nb\n'
	run bash -c "'$SANDLOCK' run -b '$B' '$N' </dev/null | od -c -An"
	expect_status 0
	expect_exactly '   a  \n   b  \n'
}

@test "exec: has the capabilities of the container and no others" {
	set_args sleep 1000
	create_running "$N"
	run sandlock exec "$N" grep '^Cap' /proc/self/status
	grep -q 'CapInh:.*0000000000000000' <<<"$output"
	init=$(sandlock exec "$N" grep CapBnd /proc/1/status)
	expect_output "$init"
}

@test "exec: --process takes a process.json" {
	set_args sleep 1000
	create_running "$N"
	jq '.process | .args = ["sh", "-c", "echo $X; pwd"] | .env += ["X=1"]
		| .cwd = "/tmp"' "$B/config.json" >"$W/process.json"
	run sandlock exec --process "$W/process.json" "$N"
	expect_status 0
	expect_exactly $'1\n/tmp'
}

@test "exec: --detach with --pid-file" {
	set_args sleep 1000
	create_running "$N"
	sandlock exec -d --pid-file "$W/pid" "$N" sleep 2000 \
		</dev/null >/dev/null 2>&1 3>&-
	kill -0 "$(cat "$W/pid")"
	tr '\0' ' ' <"/proc/$(cat "$W/pid")/cmdline" | grep -q 'sleep 2000'
}

@test "exec: what is not there is 127, what cannot be executed 126" {
	only_sandlock
	set_args sleep 1000
	echo text >"$R/bin/text"
	chmod 644 "$R/bin/text"
	create_running "$N"
	run sandlock exec "$N" no-such-program
	expect_status 127
	expect_output 'executable file not found in $PATH'
	run sandlock exec "$N" /bin/text
	expect_status 126
	expect_output 'permission denied'
}

@test "exec: as sandlock-oci failures are 255" {
	set_args sleep 1000
	create_oci "$N"
	sandlock_oci start "$N"
	run sandlock_oci exec "$N" no-such-program
	expect_status 255
	expect_output 'executable file not found in $PATH'
	run sandlock_oci exec --cwd /no/such/directory "$N" true
	expect_status 255
	expect_output "/no/such/directory"
	run sandlock_oci exec "$N" ls -d /no
	[ "$status" -ne 0 ]
	sandlock_oci delete --force "$N"
	run sandlock_oci exec "$N" true
	expect_status 255
	expect_output "does not exist"
}

@test "exec: a stopped container is refused" {
	only_sandlock
	create_running "$N"
	eventually has_status "$N" stopped
	run sandlock exec "$N" true
	expect_status 125
	expect_output "container not running"
}

@test "exec: a paused container is refused unless asked" {
	set_args sleep 1000
	create_running "$N"
	sandlock pause "$N"
	run sandlock exec "$N" true
	[ "$status" -ne 0 ]
	expect_output "cannot exec in a paused container"
	sandlock resume "$N"
	run sandlock exec "$N" true
	expect_status 0
}

@test "exec: a helper that is slower than its child is waited for" {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	set_args sleep 1000
	create_running "$N"
	run timeout 20 strace -f -qq -o /dev/null -e trace=clone3 \
		-e inject=clone3:delay_exit=300000 "$SANDLOCK" exec "$N" echo in
	expect_status 0
	expect_exactly in
}

@test "exec: 50 in a row leave one process" {
	set_args sleep 1000
	create_running "$N"
	for i in $(seq 50); do
		sandlock exec "$N" true
	done
	run sandlock ps --format json "$N"
	equal count "$(jq length <<<"$output")" 1
}

# ------------------------------------------------- pause, resume, ps, list --

@test "pause and resume: the state says so and the program stands still" {
	script 'i=0; while :; do i=$((i+1)); echo $i >/tmp/count; sleep 0.05; done'
	create_running "$N"
	eventually sandlock exec "$N" cat /tmp/count
	sandlock pause "$N"
	equal status "$(status_of "$N")" paused
	init=$(pid_of "$N")
	a=$(cat "/proc/$init/root/tmp/count")
	sleep 0.3
	b=$(cat "/proc/$init/root/tmp/count")
	equal count "$b" "$a"
	sandlock resume "$N"
	equal status "$(status_of "$N")" running
	eventually bash -c "[ \"\$(cat /proc/$init/root/tmp/count)\" != '$a' ]"
}

@test "pause: what does not run is refused" {
	create_running "$N"
	eventually has_status "$N" stopped
	refused 1 "container not running" sandlock pause "$N"
	refused 1 "" sandlock resume "$N"
}

@test "resume: a container that is not paused is refused" {
	set_args sleep 1000
	create_running "$N"
	refused 1 "container not paused" sandlock resume "$N"
}

@test "delete --force: ends a paused container" {
	set_args sleep 1000
	create_running "$N"
	init=$(pid_of "$N")
	sandlock pause "$N"
	sandlock delete --force "$N"
	eventually is_gone "$init"
}

@test "kill: SIGKILL ends a paused container" {
	set_args sleep 1000
	create_running "$N"
	sandlock pause "$N"
	sandlock kill "$N" KILL
	eventually has_status "$N" stopped
}

@test "ps NAME: lists the processes inside" {
	script 'sleep 1001 & sleep 1002; :'
	create_running "$N"
	eventually sh -c "'${RT[0]}' ${RT[*]:1} ps $N | grep 'sleep 1002'"
	run sandlock ps "$N"
	expect_status 0
	expect_match '^UID +PID'
	expect_output "sleep 1001"
	run sandlock ps --format json "$N"
	jq -e 'type == "array" and length == 3 and all(type == "number")' <<<"$output"
	jq -e --argjson p "$(pid_of "$N")" 'index($p) != null' <<<"$output"
}

@test "ps NAME: what does not exist is refused" {
	refused 1 "does not exist" sandlock ps "$N"
}

@test "ps: lists sandboxes with their columns" {
	only_sandlock
	set_args sleep 1000
	create "$N"
	run sandlock ps
	expect_status 0
	equal header "$(head -1 <<<"$output" | tr -s ' ')" \
		"NAME PID UPTIME STATUS PORTS BRANCH CMD"
	expect_match "$N +$(pid_of "$N") .*created .*sleep 1000"
	sandlock start "$N"
	run sandlock ps
	expect_match "$N +$(pid_of "$N") .*running .*sleep 1000"
	run sandlock ps --format json
	jq -e --arg n "$N" '.sandboxes[0] | .name == $n and .status == "running"' <<<"$output"
}

@test "ps: with nothing there is no error" {
	only_sandlock
	run sandlock ps
	expect_status 0
	run sandlock ps --format json
	equal sandboxes "$(jq -c .sandboxes <<<"$output")" "[]"
}

@test "ps -a: shows ended sandboxes that still have a branch" {
	only_sandlock
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock ps
	refute_output "$N"
	run sandlock ps -a
	expect_match "$N .*pending"
}

@test "list: table, quiet and json" {
	set_args sleep 1000
	create "$N"
	run sandlock list
	expect_status 0
	equal header "$(head -1 <<<"$output" | tr -s ' ' | sed 's/ $//')" \
		"ID PID STATUS BUNDLE CREATED OWNER"
	expect_match "$N +$(pid_of "$N") +created +$B"
	run sandlock list -q
	expect_exactly "$N"
	run sandlock list --format json
	jq -e --arg n "$N" 'length == 1 and .[0].id == $n
		and .[0].status == "created"' <<<"$output"
}

@test "list: with nothing it succeeds" {
	mkdir -p "$W/run"
	run sandlock list -q
	expect_status 0
	expect_exactly ""
}

# --------------------------------------------------------------- globals --

@test "--root selects the runtime directory" {
	only_sandlock
	set_args sleep 1000
	detached --root "$W/other" create -b "$B" "$N"
	[ -d "$W/other/$N" ]
	run sandlock state "$N"
	expect_status 1
	sandlock --root "$W/other" delete --force "$N"
	[ ! -e "$W/other/$N" ]
}

@test "--log and --log-format=json: one error object" {
	run sandlock --log "$W/log" --log-format json state "$N"
	expect_status 1
	equal lines "$(grep -c . "$W/log")" 1
	jq -e '.level == "error" and (.msg | test("does not exist"))
		and (.time | type == "string")' "$W/log"
}

@test "--log is appended to" {
	sandlock --log "$W/log" state "$N" 2>/dev/null || true
	sandlock --log "$W/log" state "$N" 2>/dev/null || true
	equal lines "$(grep -c 'does not exist' "$W/log")" 2
}

@test "an unknown verb and an unknown option are usage errors" {
	only_sandlock
	run sandlock no-such-verb
	expect_status 2
	expect_output "no-such-verb"
	run sandlock state --no-such-option "$N"
	expect_status 2
	expect_output "no-such-option"
}

@test "--version names the versions" {
	run sandlock --version
	expect_status 0
	expect_match "^$RUNTIME (version )?[0-9]"
	expect_output "spec: 1."
}

@test "--help names every verb of the life cycle" {
	run sandlock --help
	expect_status 0
	for verb in create start run exec kill delete state list ps pause \
		resume spec features; do
		expect_output "$verb"
	done
}

@test "features: the versions it states are accepted" {
	only_sandlock
	run sandlock features
	expect_status 0
	features=$output
	for v in $(jq -r '.ociVersionMin, .ociVersionMax' <<<"$features"); do
		config '.ociVersion = $v' --arg v "$v"
		run sandlock run -b "$B" "$N"
		expect_status 0
	done
	jq -e '.linux.namespaces | index("user") and index("time")' <<<"$features"
	jq -e '.linux.seccomp.enabled and (.hooks | length == 6)' <<<"$features"
	jq -e '.mountOptions | index("rbind") and index("rro")' <<<"$features"
}

# --------------------------------------------------------- runtime directory --

@test "the runtime directory has the files and modes of the design" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	d=$W/run/$N
	equal root "$(stat -c '%a %u' "$W/run")" "700 $(id -u)"
	equal mode "$(stat -c %a "$d")" 700
	equal lines "$(wc -l <"$d/pid")" 2
	equal "first line" "$(head -1 "$d/pid")" "$(pid_of "$N")"
	kill -0 "$(tail -1 "$d/pid")"
	[ -f "$d/lock" ]
	jq -e . "$d/state.json"
	[ "$(stat -c %a "$d/state.json")" = 600 ]
}

@test "the default runtime directory is /dev/shm/sandlock-UID" {
	only_sandlock
	set_args sleep 1000
	had=$(ls -d "/dev/shm/sandlock-$(id -u)" 2>/dev/null || true)
	unset SANDLOCK_ROOT
	create "$N"
	[ -d "/dev/shm/sandlock-$(id -u)/$N" ]
	equal mode "$(stat -c '%a %u' "/dev/shm/sandlock-$(id -u)")" "700 $(id -u)"
	sandlock delete --force "$N"
	[ ! -e "/dev/shm/sandlock-$(id -u)/$N" ]
	[ -n "$had" ] || rmdir "/dev/shm/sandlock-$(id -u)" 2>/dev/null || true
}

@test "a given runtime directory keeps its mode, one that others write to is refused" {
	only_sandlock
	mkdir -m 755 "$W/run"
	mkdir -m 1777 "$W/tmp"
	set_args sleep 1000
	create "$N"
	equal mode "$(stat -c %a "$W/run")" 755
	equal mode "$(stat -c %a "$W/run/$N")" 700
	refused 1 "runtime directory '$W/tmp' may be written to by others" \
		sandlock --root "$W/tmp" list
	expect_output "--root, '$W/tmp/sandlock' say"
	SANDLOCK_ROOT=$W/tmp refused 1 "may be written to by others" \
		sandlock create -b "$B" "$N-2"
	equal mode "$(stat -c %a "$W/tmp")" 1777
	equal entries "$(ls -A "$W/tmp")" ""
	sandlock --root "$W/tmp/sandlock" run -b "$B" "$N-2" </dev/null 3>&- &
	started $!
	eventually has_status_below "$W/tmp/sandlock" "$N-2" running
	sandlock --root "$W/tmp/sandlock" kill "$N-2" KILL
	wait $! || equal status $? 137
}

has_status_below() {
	[ "$(sandlock --root "$1" state "$2" | jq -r .status)" = "$3" ]
}

@test "the default runtime directory is closed where it is too open" {
	only_sandlock
	skip_unless_root
	run unshare -m sh -ec 'mount -t tmpfs none /dev/shm
		mkdir -m 755 /dev/shm/sandlock-0
		chmod 777 /dev/shm/sandlock-0
		unset SANDLOCK_ROOT
		"$0" list -q
		stat -c %a /dev/shm/sandlock-0' "$SANDLOCK"
	expect_status 0
	expect_exactly 700
}

@test "somebody else's runtime directory is refused with the way out" {
	only_sandlock
	skip_unless_root
	mkdir -m 700 "$W/run"
	chown 1234 "$W/run"
	run create "$N"
	expect_status 1
	expect_output 1234
	expect_output "--root"
	chown 0 "$W/run"
}

@test "a symbolic link as runtime directory is refused" {
	only_sandlock
	mkdir "$W/elsewhere"
	ln -s elsewhere "$W/run"
	run create "$N"
	expect_status 1
	equal entries "$(ls -A "$W/elsewhere")" ""
	rm "$W/run"
}
