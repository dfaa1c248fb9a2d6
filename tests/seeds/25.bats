# SEEDS part 3, row 25: the payload tries its own decide and kill, and another
# uid connects: refused, nothing changes. From each kind of sandbox, at sockets
# of its own and of others that were put within its reach.
load ../lib/common

setup() {
	begin
	only_sandlock
	skip_unless_root
	mkdir "$W/work"
	cd "$W/work"
	# The one that is attacked: a command of the host.
	sandlock run --name "$N" -- sleep 1000 >/dev/null 2>&1 3>&- &
	started $!
	SOCKET=$SANDLOCK_ROOT/$N/control.sock
	eventually test -S "$SOCKET"
}

teardown() { finish; }

unharmed() {
	run sandlock kill "$N" 0
	equal status "$(status_of "$N")" running
}

KILL='{"v":1,"verb":"kill"}'
DECIDE='{"v":1,"verb":"decide","args":{"id":1,"verdict":"allow"}}'

@test "row 25: commands of the host do not even see a socket" {
	local n=0
	mkdir "$W/other"
	local options=("" "--fs-read /" "--fs-write $W" --no-supervisor
		"--fs-mount /ctl:$SANDLOCK_ROOT")
	! sandlock run --help | grep -q -e --net-allow ||
		options+=("--net-allow 127.0.0.1")
	for option in "${options[@]}"; do
		n=$((n + 1))
		for verb in "$KILL" "$DECIDE"; do
			for path in "$SOCKET" "/ctl/$N/control.sock" \
				"$SANDLOCK_ROOT/$N-$n/control.sock"; do
				# shellcheck disable=SC2086
				run sandlock run --name "$N-$n" --workdir "$W/other" \
					--on-exit=abort --on-error=abort \
					--fs-mount "/probe:$HELPERS" \
					$option --fs-read /usr -- \
					/probe/probe ask "$path" "$verb"
				refute_output '"ok":true'
				expect_match 'connect: (ENOENT|EACCES|ECONNREFUSED|EPERM)|permission denied'
			done
		done
	done
	unharmed
}

@test "row 25: a supervisor that connects for its sandbox is refused like that" {
	local option verb

	mkdir "$W/other"
	cp "$PROBE" "$W/other/probe"
	for option in --no-supervisor "--net-allow 127.0.0.1" --isolation=notify \
		"--isolation=notify --net-allow 127.0.0.1"; do
		for verb in "$KILL" "$DECIDE"; do
			# shellcheck disable=SC2086
			run sandlock --root "$W/elsewhere" run --workdir "$W/other" \
				--on-exit=abort --on-error=abort \
				--fs-write "$SANDLOCK_ROOT" $option -- \
				./probe ask "$SOCKET" "$verb"
			refute_output '"ok":true'
			expect_output 'permission denied'
		done
	done
	unharmed
}

# A directory of ours that a bundle was handed as an open descriptor.
from_bundle() {
	sandlock run --branch=none --preserve-fds 1 -b "$B" "$N-b" \
		3<"$SANDLOCK_ROOT" 2>&1
}

@test "row 25: bundles that were handed the directory are refused at the socket" {
	make_bundle
	for change in '.' \
		'.linux.namespaces |= map(select(.type != "pid"))' \
		'.linux.namespaces |= map(select(.type != "pid" and .type != "network" and .type != "ipc" and .type != "uts" and .type != "cgroup"))' \
		'.linux.namespaces += [{type: "user"}] | .linux.uidMappings = [{containerID: 0, hostID: 0, size: 1000}] | .linux.gidMappings = .linux.uidMappings'; do
		default_spec_again
		config "$change"
		for verb in "$KILL" "$DECIDE"; do
			set_args /bin/probe ask "/proc/self/fd/3/$N/control.sock" "$verb"
			run from_bundle
			refute_output '"ok":true'
			expect_output 'permission denied'
			# Its own.
			set_args /bin/probe ask "/proc/self/fd/3/$N-b/control.sock" "$verb"
			run from_bundle
			refute_output '"ok":true'
		done
	done
	unharmed
}

default_spec_again() {
	rm "$B/config.json"
	default_spec "$B"
	config '.process.terminal = false | .root.readonly = false
		| del(.hostname)
		| .mounts |= map(select(.type != "cgroup" and .type != "mqueue" and .type != "sysfs"))'
}

@test "row 25: what exec starts is refused like what is inside" {
	make_bundle
	script 'sleep 1000'
	create_running "$N-b"
	run sandlock exec --preserve-fds 1 "$N-b" /bin/probe ask \
		"/proc/self/fd/3/$N/control.sock" "$KILL" 3<"$SANDLOCK_ROOT"
	expect_output 'permission denied'
	unharmed
}

@test "row 25: created bundles are refused at their own socket, too" {
	local verb

	make_bundle
	for verb in "$KILL" "$DECIDE" '{"v":1,"verb":"listen","args":{"pid":1,"fd":0}}'; do
		set_args /bin/probe ask "/proc/self/fd/3/$N-b/control.sock" "$verb"
		sandlock create -b "$B" --preserve-fds 1 "$N-b" </dev/null \
			>"$W/out" 2>&1 3<"$SANDLOCK_ROOT"
		sandlock start "$N-b"
		eventually has_status "$N-b" stopped
		equal said "$(grep -c 'permission denied' "$W/out")" 1
		sandlock delete "$N-b"
	done
	unharmed
}

@test "row 25: another uid, another pid namespace, another root" {
	chmod 711 "$W" "$SANDLOCK_ROOT" "$SANDLOCK_ROOT/$N"
	chmod 666 "$SOCKET"
	chmod 755 "$HELPERS/probe"
	cp "$PROBE" "$W/probe"
	run setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$W/probe" ask "$SOCKET" "$KILL"
	expect_output 'permission denied'
	run unshare -p -f "$PROBE" ask "$SOCKET" "$KILL"
	expect_output 'permission denied'
	run unshare -U -r "$PROBE" ask "$SOCKET" "$KILL"
	expect_output 'permission denied'
	run chroot "$W" /probe ask "/run/$N/control.sock" "$KILL"
	expect_output 'permission denied'
	unharmed
	run "$PROBE" ask "$SOCKET" '{"v":1,"verb":"ports"}'
	expect_output '"ok":true'
}

# With a filter and no_new_privs as such, and whoever shares all with the host.
@test "row 25: a hardened service of the host may ask, what we confine may not" {
	local hardened="$TESTS/helpers/hardened.py" denied='permission denied'

	run "$hardened" "$SANDLOCK" --root "$SANDLOCK_ROOT" inspect "$N"
	expect_output sleep
	refute_output "$denied"
	run "$hardened" "$SANDLOCK" --root "$SANDLOCK_ROOT" ports "$N"
	expect_status 0
	# It has to prove it: a process that is no client of ours is refused, in
	# namespaces of its own nothing helps.
	run "$hardened" "$PROBE" ask "$SOCKET" "$KILL"
	expect_output "$denied"
	run unshare -m "$hardened" "$SANDLOCK" --root "$SANDLOCK_ROOT" ports "$N"
	expect_output "$denied"
	run unshare -pf --mount-proc "$hardened" "$SANDLOCK" \
		--root "$SANDLOCK_ROOT" ports "$N"
	expect_output "$denied"
	# All files may be had, but no other process be looked into.
	run env SANDLOCK_LIBRARY="$BUILD/libsandlock.so" \
		PYTHONPATH="$REPO/sdk/python" python3 -B -c "
import sandlock, subprocess, sys
sandlock.confine(sandlock.Sandbox(fs_readable=['/'], fs_writable=['/dev/shm', '$W']))
sys.exit(subprocess.run(sys.argv[1:]).returncode)" \
		"$SANDLOCK" --root "$SANDLOCK_ROOT" ports "$N"
	expect_output "$denied"
	unharmed
}
