# `sandlock commit` is killed at every step, then recovered forward and back:
# the directory is exactly the new tree or exactly the old one.
load lib/common

setup() {
	begin
	only_sandlock
	command -v strace >/dev/null || skip "strace is not installed"
	make_bundle
}

teardown() { finish; }

# A change of every kind, small enough to be killed at each of its steps.
the_change='exec 3>&1 >&2
	echo more >>/data/a; echo new >/data/new; rm /data/b
	rm -r /data/drop; mkdir /data/drop; echo n >/data/drop/n; rm -r /data/gone
	rmdir /data/kind; echo f >/data/kind; chmod 700 /data/merge
	echo 1 >/data/merge/1; rm /data/merge/old; ln /data/new /data/link
	probe setxattr /data/merge user.k v
	exec >&3 3>&-
	snap -x proc -x dev -x sys /'

prepare() {
	mkdir -p "$R"/data/{drop,gone/sub,kind,merge}
	echo 1 >"$R/data/drop/1"
	echo 2 >"$R/data/gone/sub/2"
	echo o >"$R/data/merge/old"
	"$PROBE" setxattr "$R/data/merge" user.old x
	find "$R/data" -exec touch -h -d '2020-02-02 02:02:02.123456789' {} +
	snap_root >"$W/old"
	script "$the_change"
	sandlock run -b "$B" ${STORAGE:+--storage "$STORAGE"} "$N" \
		>"$W/new" 2>/dev/null
}

# Puts the old tree and its pending branch back as they were: copies keep
# neither inode numbers nor change times, so each trial starts afresh.
afresh() {
	# Something may still be being removed in the store.
	eventually rm -rf "$W/run" "$W/store" "$B" ${STORAGE:+"${STORAGE:?}"/*}
	make_bundle
	prepare
}

# killed_at CALLS N [PATH...]: whether the commit was killed at its N-th such
# call.
killed_at() {
	local ret=0

	timeout 60 strace -f -qq -o /dev/null -e trace="$1" \
		-e inject="$1:signal=KILL:when=$2" \
		"$SANDLOCK" commit "$N" "${@:3}" >"$W/log" 2>&1 3>&- || ret=$?
	[ $ret -ne 0 ]
}

is_new() {
	snap_root >"$W/now"
	same "$W/new" "$W/now"
}

is_old() {
	snap_root >"$W/now"
	same "$W/old" "$W/now"
}

# kill_everywhere CALLS CHECK: CHECK after each kill, until none happens.
kill_everywhere() {
	local n

	for ((n = 1; n < 120; n++)); do
		afresh
		if ! killed_at "$1" $n; then
			is_new
			# It may have been the child that removes the trash.
			branches_json >/dev/null
			[ $n -gt 1 ] || return 1
			return 0
		fi
		echo "killed at $1 number $n" >&2
		"$2" || return 1
	done
	echo "$1 was called more than 120 times" >&2
	return 1
}

forward() {
	local state

	state=$(branch_state "$N")
	sandlock recover "$N" >/dev/null 2>&1 || true
	case $(branch_state "$N") in
	"") ;;
	pending)
		is_old || return 1
		sandlock commit "$N" || return 1
		;;
	*)
		echo "state '$(branch_state "$N")' after recover, was '$state'" >&2
		return 1
		;;
	esac
	is_new
}

back() {
	sandlock recover --rollback "$N" >/dev/null 2>&1 || true
	case $(branch_state "$N") in
	"" | committed)
		# Killed after `done`: what is committed stays so.
		is_new || return 1
		sandlock recover "$N" >/dev/null 2>&1 || true
		has_no_branch "$N"
		;;
	pending)
		is_old || return 1
		# A later commit is still exact.
		sandlock commit "$N" || return 1
		is_new
		;;
	*)
		echo "state '$(branch_state "$N")' after rollback" >&2
		return 1
		;;
	esac
}

# Recovery is killed, too, and then recovers.
forward_twice() {
	timeout 60 strace -f -qq -o /dev/null -e trace=renameat2 \
		-e inject=renameat2:signal=KILL:when=2 \
		"$SANDLOCK" recover "$N" >/dev/null 2>&1 3>&- || true
	forward
}

back_twice() {
	timeout 60 strace -f -qq -o /dev/null -e trace=renameat2 \
		-e inject=renameat2:signal=KILL:when=2 \
		"$SANDLOCK" recover --rollback "$N" >/dev/null 2>&1 3>&- || true
	back
}

@test "killed at every renameat2, recovered forward" {
	kill_everywhere renameat2 forward
}

@test "killed at every renameat2, rolled back, committed again" {
	kill_everywhere renameat2 back
}

@test "killed at every sync, recovered forward" {
	kill_everywhere fsync,fdatasync,syncfs forward
}

@test "killed at every sync, rolled back" {
	kill_everywhere fsync,fdatasync,syncfs back
}

@test "killed at every change of metadata, recovered forward" {
	kill_everywhere fchmod,fchown,fchownat,fsetxattr,setxattr,utimensat,fchmodat forward
}

@test "killed at every change of metadata, rolled back" {
	kill_everywhere fchmod,fchown,fchownat,fsetxattr,setxattr,utimensat,fchmodat back
}

@test "killed at every rename, mkdir and unlink, recovered forward" {
	kill_everywhere rename,renameat,mkdir,mkdirat,unlink,unlinkat,linkat forward
}

@test "killed in recovery, recovered again" {
	for n in 2 4 6; do
		afresh
		killed_at renameat2 $n
		forward_twice
	done
}

@test "killed in rollback, rolled back again" {
	for n in 3 5 7; do
		afresh
		killed_at renameat2 $n
		back_twice
	done
}

# Before the intent a stage may be left below the root, which the next commit
# or abort removes; nothing else is changed.
forward_staged() {
	sandlock recover "$N" >/dev/null 2>&1 || true
	if [ "$(branch_state "$N")" = pending ]; then
		snap_root | grep -vE ' =- (\.|\.sandlock-.*)$' >"$W/now"
		grep -vE ' =- \.$' "$W/old" | diff - "$W/now" || return 1
		sandlock commit "$N" || return 1
	fi
	is_new
}

@test "killed while staging across file systems" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	mkdir "$W/other"
	mount -t tmpfs tmpfs "$W/other"
	STORAGE=$W/other
	for n in 1 3 5 8 12; do
		afresh
		killed_at renameat2,fsync,fdatasync,syncfs,copy_file_range,sendfile $n ||
			break
		forward_staged
		equal "left beside the root" "$(find "$R" -name '.sandlock*')" ""
	done
	eventually umount "$W/other"
}

# full_from N COMMAND...: from the N-th write on there is no room for any.
full_from() {
	local n=$1

	shift
	timeout 60 strace -f -qq -o /dev/null -e trace=write,pwrite64,mkdirat \
		-e inject=write,pwrite64:error=ENOSPC:when="$n+" \
		-e inject=mkdirat:error=ENOSPC:when="$n+" \
		"$SANDLOCK" "$@" >/dev/null 2>&1 3>&-
}

@test "a disk that gets full while staging: nothing of it stays, and abort takes no room" {
	local n failed=0

	STORAGE=$W/other
	mkdir -p "$STORAGE"
	mount -t tmpfs tmpfs "$STORAGE" || skip "no mounts here"
	for ((n = 1; n < 40; n++)); do
		afresh
		if full_from $n commit "$N"; then
			break
		elif [ "$(branch_state "$N")" != pending ]; then
			continue
		fi
		failed=$((failed + 1))
		echo "full at write number $n" >&2
		is_old || return 1
		full_from 1 abort "$N" || true
		has_no_branch "$N" || return 1
		is_old || return 1
	done
	[ $failed -gt 3 ]
	eventually umount "$STORAGE"
}

@test "a disk that is full when a part is published: what is said is so" {
	local n

	for ((n = 1; n < 20; n++)); do
		afresh
		run timeout 60 strace -f -qq -o "$W/trace" -e trace=mkdirat \
			-e inject=mkdirat:error=ENOSPC:when=$n \
			"$SANDLOCK" commit "$N" data/a data/b data/new
		grep -q INJECTED "$W/trace" || break
		refute_output "half of it"
		if [ -e "$R/data/b" ]; then
			is_old || return 1
		else
			expect_output "what was named is published"
			[ -e "$R/data/new" ]
		fi
		equal state "$(branch_state "$N")" pending
		sandlock commit "$N" || return 1
		is_new || return 1
	done
	[ $n -gt 2 ]
}

@test "while a commit is unfinished its branch says so and refuses others" {
	afresh
	for n in 6 7 8 9; do
		killed_at renameat2 $n
		[ "$(branch_state "$N")" = committing ] && break
		forward || true
		afresh
	done
	equal state "$(branch_state "$N")" committing
	for part in "" data/a; do
		snap_root >"$W/half"
		run sandlock abort "$N" $part
		expect_status 1
		expect_output recover
		equal state "$(branch_state "$N")" committing
		same "$W/half" <(snap_root)
	done
	run create "$N"
	expect_status 1
	forward
}

@test "a cut or changed intent is refused, nothing is done by it" {
	afresh
	for n in 6 7 8 9; do
		killed_at renameat2 $n
		[ "$(branch_state "$N")" = committing ] && break
		afresh
	done
	snap_root >"$W/half"
	cp "$W/store/branches/$N/intent" "$W/intent"
	head -c 100 "$W/intent" >"$W/store/branches/$N/intent"
	run sandlock recover "$N"
	expect_status 1
	snap_root >"$W/now"
	same "$W/half" "$W/now"
	cp "$W/intent" "$W/store/branches/$N/intent"
	forward
}

@test "recovery stops where a third party changed something meanwhile" {
	afresh
	for n in 4 5 6 7; do
		killed_at renameat2 $n
		[ "$(branch_state "$N")" = committing ] && break
		afresh
	done
	rm -rf "$R/data/new" "$R/data/link"
	echo intruder >"$R/data/new"
	echo intruder >"$R/data/link"
	run sandlock recover "$N"
	if [ "$status" -eq 0 ]; then
		# Both had been published before the kill: nothing left to do.
		return 0
	fi
	expect_output data/
	equal new "$(cat "$R/data/new")" intruder
}

# Killed when data/b, which goes last, is not deleted yet; then the host does
# this to it.
host_changes() {
	local n

	for n in 3 4 5 6 7 8; do
		afresh
		killed_at renameat2 $n
		[ "$(branch_state "$N")" = committing ] && break
	done
	[ -e "$R/data/b" ]
	"$@" "$R/data/b"
	stat -c '%u %a %Y' "$R/data/b" >"$W/hosts"
	run sandlock recover "$N"
	expect_status 3
	expect_output "somebody else has changed 'data/b'"
	sandlock recover --rollback "$N"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/b
	stat -c '%u %a %Y' "$R/data/b" | diff "$W/hosts" -
}

@test "what the host does after a kill is a conflict: attributes" {
	host_changes setfattr -n user.host -v 1
	equal kept "$(getfattr --only-values -n user.host "$R/data/b")" 1
}

@test "what the host does after a kill is a conflict: the owner" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	host_changes chown 54321
}

@test "what the host does after a kill is a conflict: the mode" {
	host_changes chmod 604
}

@test "an abort that is killed leaves the root alone and can be repeated" {
	for n in 1 2 3; do
		afresh
		timeout 60 strace -f -qq -o /dev/null -e trace=renameat2,rename,unlinkat \
			-e inject=renameat2,rename,unlinkat:signal=KILL:when=$n \
			"$SANDLOCK" abort "$N" >/dev/null 2>&1 3>&- || true
		is_old
		sandlock abort "$N" >/dev/null 2>&1 || true
		equal state "$(branch_state "$N")" ""
		is_old
	done
}

@test "abort of what was committed says so, also where the end was cut off" {
	local done n part

	for part in "" data/a; do
		done=
		for ((n = 6; n < 60; n++)); do
			afresh
			killed_at renameat2 $n || break
			[ "$(branch_state "$N")" != committed ] || done=yes
			[ -z "$done" ] || break
		done
		[ -n "$done" ]
		run sandlock abort "$N" $part
		expect_status 1
		expect_output "branch '$N' was committed"
		is_new
		has_no_branch "$N"
	done
}

@test "abort where a part is published already: the way that is left is told" {
	local dir="$SANDLOCK_STORE/branches/$N" n

	for ((n = 1; n < 40; n++)); do
		afresh
		killed_at unlinkat $n data/a || return 1
		[ ! -e "$dir/published" ] || break
	done
	[ -e "$dir/intent" ]
	run sandlock abort "$N"
	expect_status 1
	expect_output "hint: first 'sandlock recover $N'"
	sandlock recover "$N"
	sandlock abort "$N"
}

@test "a commit that another version was killed at is left to that" {
	afresh
	killed_at renameat2 2
	equal state "$(branch_state "$N")" committing
	snap_root >"$W/half"
	# The size of a step, which is another where the layout is.
	printf '\060' | dd of="$SANDLOCK_STORE/branches/$N/intent" bs=1 seek=8 \
		conv=notrunc status=none
	for verb in "recover" "recover --rollback" commit; do
		run sandlock $verb "$N"
		expect_status 1
		expect_output "is not one of this version"
		same "$W/half" <(snap_root)
	done
}

@test "the settle step that is killed is done again by the next verb" {
	for n in 1 2 3; do
		rm -rf "$W/run" "$W/store" "$B"
		make_bundle
		script 'echo x >/data/x; echo ran'
		timeout 60 strace -f -qq -o /dev/null -e trace=fsync,rename,renameat,renameat2 \
			-e inject=fsync,rename,renameat,renameat2:signal=KILL:when=$n+ \
			"$SANDLOCK" run -b "$B" "$N" >"$W/ran" 2>/dev/null \
			3>&- || true
		[ ! -e "$R/data/x" ]
		sandlock delete --force "$N" >/dev/null 2>&1 || true
		[ -n "$(branch_state "$N")" ] || continue
		sandlock commit "$N" 2>/dev/null || sandlock commit --force "$N"
		[ -s "$W/ran" ] || continue
		equal x "$(cat "$R/data/x")" x
	done
}
