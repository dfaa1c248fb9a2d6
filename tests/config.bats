# Bad input and bad surroundings: one clear line with a hint, the documented
# status, nothing left behind.
load lib/common

setup() {
	begin
	make_bundle
}

teardown() {
	umount "$W/small" 2>/dev/null || true
	umount "$W/ro" 2>/dev/null || true
	finish
}

has_hint() {
	only_sandlock
	grep -qi hint <<<"$output" || [ "$(grep -c . <<<"$output")" -ge 2 ] || {
		echo "no hint" >&2
		show_run >&2
		return 1
	}
}

@test "config.json is missing" {
	rm "$B/config.json"
	refused 1 "config.json" create "$N"
	has_hint
	only_sandlock
	expect_output "sandlock spec"
}

@test "the bundle is missing" {
	rm -rf "$B"
	refused 1 "$B" create "$N"
}

@test "the bundle is a file" {
	rm -rf "$B"
	echo >"$B"
	refused 1 "" create "$N"
}

@test "config.json is broken: the message says where" {
	only_sandlock
	sed -i '3s/.*/  "root": {{/' "$B/config.json"
	refused 1 "config.json" create "$N"
}

@test "the root file system is missing" {
	rm -rf "$R"
	refused 1 "rootfs" create "$N"
	has_hint
}

@test "the root file system is a file" {
	rm -rf "$R"
	echo >"$R"
	refused 1 "rootfs" create "$N"
}

@test "names that are no names are refused before any path is built" {
	mkdir "$W/run"
	echo precious >"$W/precious"
	for name in .. . "" a/b ../x 'a b' $'a\nb' 'ä' '$(id)' \
		"$(printf 'x%.0s' $(seq 256))"; do
		run create -- "$name"
		[ "$status" -ne 0 ]
		expect_one_error
		for verb in state start "kill" "delete" "delete --force" pause \
			resume; do
			run sandlock $verb -- "$name"
			[ "$status" -ne 0 ]
		done
	done
	[ -f "$W/precious" ] && [ -f "$B/config.json" ]
	equal "runtime directory" "$(ls -A "$W/run")" ""
}

@test "names that are no names are refused by the verbs of the branch" {
	only_sandlock
	mkdir -p "$W/store/branches"
	echo precious >"$W/store/precious"
	for name in .. . "" a/b ../x; do
		for verb in diff commit abort recover; do
			run sandlock $verb -- "$name"
			[ "$status" -ne 0 ]
			expect_one_error
		done
		run sandlock exec -- "$name" true
		[ "$status" -ne 0 ]
	done
	[ -f "$W/store/precious" ] && [ -d "$W/store/branches" ]
}

@test "a name of 255 characters is accepted" {
	set_args sleep 1000
	name=$N$(printf 'x%.0s' $(seq $((255 - ${#N}))))
	create "$name"
	equal status "$(status_of "$name")" created
	sandlock delete --force "$name"
}

@test "every character of runc's names is accepted" {
	set_args sleep 1000
	create "$N.a_B+c-9"
	sandlock delete --force "$N.a_B+c-9"
}

@test "what limits a command of the host is refused for a bundle, not ignored" {
	only_sandlock
	for o in --max-memory=50M --timeout=5 --fs-read=/etc --net-allow=h:80 --dry-run \
		--workdir=/tmp --status-fd=1 --max-processes=5; do
		run sandlock run -b "$B" "$o" "$N"
		expect_status 125
		expect_output "is for a command of the host, not for a bundle"
	done
	run sandlock run -b "$B" --name "$N"
	expect_status 125
	expect_output "hint: sandlock run -b BUNDLE NAME"
	run sandlock run -b "$B" -i --keep "$N"
	expect_status 0
	sandlock delete "$N"
}

@test "the name is in use by a running sandbox" {
	set_args sleep 1000
	create_running "$N"
	refused 1 "already exists" create "$N"
	[ "$RUNTIME" != sandlock ] || expect_output "hint: take another name"
	equal status "$(status_of "$N")" running
}

@test "the name is in use by a pending branch" {
	only_sandlock
	script 'echo x >/data/new'
	sandlock run -b "$B" "$N" 2>/dev/null
	before=$(cd "$W/store" && find . | sort)
	refused 1 "$N" create "$N"
	has_hint
	expect_output "commit or abort it first"
	equal store "$(cd "$W/store" && find . | sort)" "$before"
	refused 125 "$N" sandlock run -b "$B" "$N"
}

@test "the storage cannot be written" {
	only_sandlock
	skip_unless_root
	mkdir "$W/ro"
	mount -t tmpfs -o ro tmpfs "$W/ro"
	refused 1 "$W/ro" create "$N" --storage "$W/ro"
	has_hint
	eventually umount "$W/ro"
}

@test "the storage is a file" {
	only_sandlock
	echo >"$W/file"
	refused 1 "$W/file" create "$N" --storage "$W/file"
}

@test "the store of the environment cannot be made" {
	only_sandlock
	echo >"$W/file"
	export SANDLOCK_STORE=$W/file/store
	for verb in "create -b $B $N" "create -b $B --storage $W $N" "run -b $B" \
		branches "diff $N"; do
		run sandlock $verb
		[ "$status" -eq 1 ] || [ "$status" -eq 125 ]
		expect_output "$W/file"
		# Nothing else helps, --storage neither.
		expect_output "hint: set SANDLOCK_STORE"
		expect_one_error
	done
}

@test "a full disk: create fails in one line and leaves nothing" {
	only_sandlock
	skip_unless_root
	mkdir "$W/small"
	mount -t tmpfs -o size=64k,nr_inodes=16 tmpfs "$W/small"
	dd if=/dev/zero of="$W/small/fill" bs=4k 2>/dev/null || true
	i=0
	while : 2>/dev/null >"$W/small/i$i"; do i=$((i + 1)); done 2>/dev/null
	refused 1 "" create "$N" --storage "$W/small"
	expect_match "[Nn]o space left|full"
	expect_output "hint: free some space there"
	eventually umount "$W/small"
}

@test "a full disk: a commit changes nothing and says what to do" {
	only_sandlock
	skip_unless_root
	mkdir "$W/small"
	truncate -s 16M "$W/small.img"
	mkfs.ext4 -q -m 0 "$W/small.img"
	mount -o loop "$W/small.img" "$W/small"
	cp -a "$B" "$W/small/bundle"
	B=$W/small/bundle R=$B/rootfs
	script 'echo x >>/data/a; echo new >/data/new'
	SANDLOCK_STORE=$W/small/store
	sandlock run -b "$B" "$N" 2>/dev/null
	snap_root >"$W/before"
	dd if=/dev/zero of="$W/small/fill" bs=64k 2>/dev/null || true
	dd if=/dev/zero of="$W/small/fill2" bs=512 2>/dev/null || true
	run sandlock commit "$N"
	expect_status 1
	expect_output "No space left on device"
	expect_output "hint: nothing was published: free some space"
	snap_root >"$W/after"
	same "$W/before" "$W/after"
	rm "$W/small/fill" "$W/small/fill2"
	run sandlock commit "$N"
	expect_exactly "committed 2 changes of '$N'"
	eventually umount "$W/small"
}

@test "a full disk: the payload sees ENOSPC and the lower stays as it was" {
	only_sandlock
	skip_unless_root
	mkdir "$W/small"
	truncate -s 16M "$W/small.img"
	mkfs.ext4 -q -m 0 "$W/small.img"
	mount -o loop "$W/small.img" "$W/small"
	snap_root >"$W/before"
	script 'dd if=/dev/zero of=/data/big bs=64k count=1000 2>&1
		echo still here >/data/a; echo done'
	run sandlock run -b "$B" --storage "$W/small" "$N"
	expect_output "No space left on device"
	expect_output done
	snap_root >"$W/after"
	same "$W/before" "$W/after"
	run sandlock abort "$N"
	expect_status 0
	eventually umount "$W/small"
}

@test "the runtime directory cannot be made: create refuses" {
	only_sandlock
	echo >"$W/file"
	export SANDLOCK_ROOT=$W/file/run
	run create "$N"
	expect_status 1
	expect_output "$W/file"
	expect_output "--root"
}

@test "the root '' and the root '/' are refused" {
	for root in "" /; do
		run sandlock --root "$root" state "$N"
		[ "$status" -ne 0 ]
	done
}

@test "a relative SANDLOCK_ROOT or SANDLOCK_STORE is refused" {
	cd "$W"
	SANDLOCK_ROOT=here run --separate-stderr sandlock list
	expect_status 2
	equal stderr "${stderr_lines[0]}" \
		"sandlock: SANDLOCK_ROOT 'here' is a relative path"
	SANDLOCK_STORE=here run --separate-stderr sandlock branches
	expect_status 2
	equal stderr "${stderr_lines[0]}" \
		"sandlock: SANDLOCK_STORE 'here' is a relative path"
	SANDLOCK_STORE=here run sandlock run --workdir "$W" -- touch "$W/new"
	expect_status 125
	expect_output "SANDLOCK_STORE 'here' is a relative path"
	[ ! -e "$W/here" ] && [ ! -e "$W/new" ]
}

@test "the pid file cannot be written: nothing is left" {
	refused 1 "/no/such/dir/pid" create "$N" --pid-file /no/such/dir/pid
}

@test "a terminal without a console socket is refused in create" {
	config '.process.terminal = true'
	refused 1 "console" create_oci "$N"
	only_sandlock
	refused 2 "console" create "$N"
}

@test "a console socket without a terminal is refused" {
	refused 1 "console" create_oci "$N" --console-socket "$W/no.sock"
	only_sandlock
	refused 2 "console" create "$N" --console-socket "$W/no.sock"
}

@test "a console socket that nobody listens on is refused" {
	only_sandlock
	config '.process.terminal = true'
	refused 1 "$W/no.sock" create "$N" --console-socket "$W/no.sock"
}

@test "a cgroup setting that this host cannot apply is an error that names it" {
	only_sandlock
	config '.linux.resources = {rdma: {mlx5: {hcaHandles: 1}}}'
	refused 1 "rdma" create "$N"
	config '.linux.resources = {unified: {"memory.high": "1"}}'
	refused 1 "memory" create "$N"
	config '.linux.resources = {} | .linux.intelRdt = {closID: "x"}'
	refused 1 "intelRdt" create "$N"
}

@test "apparmor and selinux without the module are errors" {
	[ ! -d /sys/kernel/security/apparmor ] || skip "this host has AppArmor"
	config '.process.apparmorProfile = "some-profile"'
	refused 1 "" create "$N"
	expect_match "[Aa]pp[Aa]rmor"
}

@test "process.apparmorProfile is that of the process, and has to be loaded" {
	grep -qs Y /sys/module/apparmor/parameters/enabled &&
		command -v apparmor_parser >/dev/null || skip "no AppArmor here"
	echo "profile $N flags=(attach_disconnected) { file, capability, deny /secret r, }" |
		apparmor_parser -r
	echo x >"$B/rootfs/secret"
	script 'cat /proc/self/attr/current; cat /secret'
	config '.process.apparmorProfile = $n' --arg n "$N"
	run sandlock run -b "$B" "$N"
	echo "profile $N { }" | apparmor_parser -R
	expect_status 1
	expect_output "$N (enforce)"
	expect_output "/secret': Permission denied"
	refused 1 "'$N' is not loaded" create "$N"
}

@test "a missing operand, too many operands, a bad number: usage errors" {
	only_sandlock
	for words in "create" "start" "start a b" "delete" "kill" \
		"kill a TERM x" "pause" "abort" "recover a b" \
		"create --preserve-fds x a" "create --on-exit=perhaps a" \
		"list --format=bogus" "diff --format=bogus a" \
		"branches --format=bogus" "diff --stat --patch a" "diff -z a" \
		"commit --force --skip-conflicts a"; do
		run sandlock $words
		expect_status 2 || { echo "sandlock $words" >&2; return 1; }
		expect_one_error
	done
	for words in "exec" "exec a" "run --on-exit=perhaps a"; do
		run sandlock $words
		expect_status 125 || { echo "sandlock $words" >&2; return 1; }
		expect_one_error
	done
}

@test "commit, abort, diff, recover: what does not exist is refused" {
	only_sandlock
	for verb in commit abort diff recover; do
		refused 1 "$N" sandlock $verb "$N"
		has_hint
	done
}

@test "create killed at any time is cleaned up by delete --force" {
	only_sandlock
	set_args sleep 1000
	for delay in 0.001 0.002 0.003 0.004 0.005 0.007 0.01 0.02; do
		"${RT[@]}" create -b "$B" "$N-$delay" </dev/null >/dev/null 2>&1 3>&- &
		pid=$!
		sleep $delay
		kill -KILL $pid 2>/dev/null || true
		wait $pid 2>/dev/null || true
		run sandlock delete --force "$N-$delay"
		expect_status 0
	done
	# A claim that died half made is cleared by the first look at the store
	# when it is old enough to be nobody's.
	sleep 3
	sandlock branches
	settle_leaks "$leaks_before"
}

@test "a kernel without a system call that is needed: one line and a hint" {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	for call in fsopen fsmount move_mount openat2 mount_setattr clone3 \
		close_range execveat memfd_create; do
		before=$(leaks)
		run timeout 20 strace -f -qq -o /dev/null -e trace=$call \
			-e inject=$call:error=ENOSYS \
			"$SANDLOCK" run -b "$B" "$N"
		expect_status 125 || { echo "without $call" >&2; return 1; }
		expect_one_error
		expect_output "hint: "
		settle_leaks "$before" || { echo "without $call" >&2; return 1; }
	done
}

@test "a kernel without overlayfs: the hint says what to do" {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	run timeout 20 strace -f -qq -o /dev/null -e trace=fsopen \
		-e inject=fsopen:error=ENODEV "$SANDLOCK" run -b "$B" "$N"
	expect_status 125
	expect_output overlay
	expect_output "--branch=none"
}

@test "a file system that cannot exchange names: commit publishes all the same" {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	run timeout 20 strace -f -qq -o /dev/null -e trace=renameat2 \
		-e inject=renameat2:error=EINVAL "$SANDLOCK" commit "$N"
	# What it cannot do here is to clear away: the store is hit, too.
	expect_status 1
	expect_output "store/trash"
	equal x "$(cat "$R/data/x")" x
	equal state "$(branch_state "$N")" committed
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
	run sandlock branches
	refute_output "$N"
}

@test "a run whose branch cannot be cleaned up says why it is 125" {
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	run timeout 20 strace -f -qq -o /dev/null -e trace=renameat2 \
		-e inject=renameat2:error=ENOSYS "$SANDLOCK" run -b "$B" "$N"
	[ "$status" -eq 0 ] || [ -n "$output" ]
	sandlock abort "$N" >/dev/null 2>&1 || true
}
