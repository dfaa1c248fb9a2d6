# The life cycle and the branch as an ordinary user with subordinate ids.
# tests/run starts this file as such a user.
load lib/common

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	PATH=$PATH:/usr/sbin:/sbin
	ROOTLESS=1
	begin
	unshare -U true 2>/dev/null || skip "no user namespaces for ordinary users"
	make_bundle
	OUTSIDE=(-x proc -x dev -x sys)
}

teardown() { finish; }

# The ids of this user in /etc/subuid, as config.json wants them.
full_maps() {
	local first count

	IFS=: read -r _ first count < <(grep "^$(id -un):" /etc/subuid) || :
	[ -n "$first" ] || skip "no subordinate ids"
	command -v newuidmap >/dev/null || skip "newuidmap is not installed"
	config '.linux.uidMappings = [{containerID: 0, hostID: $u, size: 1},
			{containerID: 1, hostID: $f, size: $c}]
		| .linux.gidMappings = [{containerID: 0, hostID: $g, size: 1},
			{containerID: 1, hostID: $f, size: $c}]' \
		--argjson u "$(id -u)" --argjson g "$(id -g)" \
		--argjson f "$first" --argjson c "$count"
	SUB=$first
}

@test "rootless: a bundle runs with its own status" {
	script 'id -u; exit 7'
	run sandlock run -b "$B" "$N"
	expect_status 7
	expect_exactly 0
}

@test "rootless: create, start, ps, kill, diff, commit" {
	only_sandlock
	script 'echo up >/data/up; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/up
	run sandlock ps
	expect_match "$N .*running"
	run sandlock kill "$N"
	expect_status 0
	run sandlock diff "$N"
	expect_exactly "A data/up"
	run sandlock commit "$N"
	expect_status 0
	equal up "$(cat "$R/data/up")" up
	equal owner "$(stat -c %u "$R/data/up")" "$(id -u)"
	sandlock delete "$N"
}

@test "rootless: state, list, exec and delete" {
	set_args sleep 1000
	create "$N"
	equal status "$(status_of "$N")" created
	sandlock start "$N"
	run sandlock exec "$N" sh -c 'echo in; exit 4'
	expect_status 4
	expect_exactly in
	run sandlock list -q
	expect_exactly "$N"
	sandlock delete --force "$N"
	run sandlock state "$N"
	expect_status 1
}

@test "rootless: commit is exact, abort leaves everything as it was" {
	only_sandlock
	snap_root >"$W/before"
	script '{ echo new >/data/new; echo x >>/data/a; rm /data/b; mkdir -p /data/d/e
		ln /data/new /data/d/l; ln -s ../a /data/d/s; mkfifo /data/p
		chmod 000 /data/a; mkdir -m 555 /data/ro; echo r >/data/ro/r; chmod 4755 /data/new
		probe setxattr /data/d user.k v; touch -d "2001-01-01 00:00:00" /data/d; } >&2
		snap -x proc -x dev -x sys / | sed "s/ 0 0 / U U /"'
	for what in abort commit; do
		sandlock run -b "$B" "$N" >"$W/merged" 2>/dev/null
		snap_root >"$W/now"
		same "$W/before" "$W/now"
		sandlock $what "$N"
		if [ $what = abort ]; then
			snap_root >"$W/now"
			same "$W/before" "$W/now"
		fi
	done
	snap_root | sed "s/ $(id -u) $(id -g) / U U /; s/unreadable/x/" |
		cut -d' ' -f1-5,7- >"$W/after"
	cut -d' ' -f1-5,7- "$W/merged" | sed 's/unreadable/x/' >"$W/want"
	same "$W/want" "$W/after"
}

@test "rootless: objects of subordinate ids are committed and aborted" {
	only_sandlock
	full_maps
	config '.process.capabilities |= (.bounding += ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"]
		| .permitted = .bounding | .effective = .bounding)'
	script 'echo x >/data/sub; chown 1000:1000 /data/sub; mkdir -m 700 /data/subdir
		echo y >/data/subdir/y; chown -R 33:33 /data/subdir'
	run sandlock run -b "$B" "$N"
	expect_status 0
	run sandlock diff "$N"
	expect_output "A data/subdir/y"
	sandlock abort "$N"
	equal store "$(ls -A "$W/store/branches")" ""
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock commit "$N"
	expect_status 0
	equal owner "$(stat -c %u "$R/data/sub")" $((SUB + 999))
	# A branch over what subordinate ids own can delete it again.
	script 'rm -r /data/sub /data/subdir'
	sandlock run -b "$B" --on-exit=commit "$N-2" 2>/dev/null
	[ ! -e "$R/data/sub" ] && [ ! -e "$R/data/subdir" ]
}

@test "rootless: namespaces are new, the payload is root only inside" {
	script 'cat /proc/self/uid_map | tr -s " "; for n in user mnt pid ipc uts; do readlink /proc/self/ns/$n; done'
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_output "0 $(id -u) 1"
	for ns in user mnt pid ipc uts; do
		refute_output "$(readlink "/proc/self/ns/$ns")"
	done
}

@test "rootless: the payload cannot uncover the lower" {
	only_sandlock
	script 'probe umount /; probe umount /proc; echo evil >/data/a; cat /data/a'
	run sandlock run -b "$B" "$N"
	equal lower "$(cat "$R/data/a")" one
}

@test "rootless: default directories are the user's own" {
	only_sandlock
	unset SANDLOCK_ROOT SANDLOCK_STORE
	export XDG_STATE_HOME=$W/state
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	run sandlock branches
	expect_match "$N +pending"
	[ -e "$W/state/sandlock/branches/$N" ]
	sandlock abort "$N"
	equal mode "$(stat -c '%a %u' "/dev/shm/sandlock-$(id -u)")" "700 $(id -u)"
}

@test "rootless: a cgroup limit that cannot be applied is an error" {
	only_sandlock
	config '.linux.resources = {memory: {limit: 67108864}}'
	refused 1 "" create "$N"
	expect_match "cgroup|memory"
}

@test "rootless: pause without a freezer is refused with the reason" {
	only_sandlock
	set_args sleep 1000
	create_running "$N"
	run sandlock pause "$N"
	if [ "$status" -ne 0 ]; then
		expect_match "cgroup|freezer"
		equal status "$(status_of "$N")" running
	else
		sandlock resume "$N"
	fi
}

@test "rootless: kill ends the whole sandbox without a cgroup" {
	only_sandlock
	set_args probe ignore daemons
	create_running "$N"
	eventually grep -q ready "$W/out"
	pids=$(sandlock ps --format json "$N" | jq -r '.[]')
	equal processes "$(wc -w <<<"$pids")" 6
	sandlock kill "$N"
	for p in $pids; do
		is_gone "$p"
	done
}

@test "rootless: --on-exit and --on-error" {
	only_sandlock
	script 'echo x >/data/x'
	sandlock run --on-exit=commit -b "$B" "$N"
	equal x "$(cat "$R/data/x")" x
	script 'echo y >/data/y; exit 3'
	run sandlock run --on-error=abort -b "$B" "$N"
	expect_status 3
	[ ! -e "$R/data/y" ]
	equal branches "$(branches_json | jq length)" 0
}

@test "rootless: conflicts, --force" {
	only_sandlock
	script 'echo mine >/data/a'
	sandlock run -b "$B" "$N" 2>/dev/null
	echo theirs >"$R/data/a"
	run sandlock commit "$N"
	expect_status 3
	equal a "$(cat "$R/data/a")" theirs
	sandlock commit --force "$N"
	equal a "$(cat "$R/data/a")" mine
}

@test "rootless: a killed run leaves a branch that can be committed" {
	only_sandlock
	script 'echo x >/data/x; sleep 1000'
	"$SANDLOCK" run -b "$B" "$N" >"$W/log" 2>&1 3>&- &
	runner=$!
	eventually sandlock exec "$N" cat /data/x
	init=$(pid_of "$N")
	kill -KILL $runner
	wait $runner || true
	eventually is_gone "$init"
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
}

@test "rootless: bad input leaves nothing behind" {
	only_sandlock
	config '.process.args = ["no-such-program"]'
	refused 1 "executable file not found" create "$N"
	config '.linux.uidMappings[0].hostID = 0'
	refused 1 "" create "$N"
	chmod 000 "$B/config.json"
	refused 1 config.json create "$N"
	chmod 600 "$B/config.json"
	rm "$B/config.json"
	refused 1 config.json create "$N"
}

@test "rootless: a storage that this user cannot write to is refused" {
	only_sandlock
	refused 1 /sys/kernel create "$N" --storage /sys/kernel
}

@test "rootless: 30 runs leave nothing" {
	before=$(leaks)
	for i in $(seq 30); do
		sandlock run -b "$B" "$N" </dev/null
	done
	settle_leaks "$before"
}

@test "rootless: the demo of the issue with a terminal" {
	only_sandlock
	config '.process.terminal = true'
	script 'probe ctty; echo hello >/data/hello'
	run command script -qec "'$SANDLOCK' run -b $B $N" /dev/null </dev/null
	expect_output "ctty: ok"
	run sandlock diff "$N"
	expect_exactly "A data/hello"
}

@test "rootless: fakeroot is told not to try ids that are not mapped" {
	mkdir "$W/dir"
	cd "$W/dir"
	run sandlock run -- sh -c 'echo "$FAKEROOTDONTTRYCHOWN"'
	cd /
	expect_exactly 1
}
