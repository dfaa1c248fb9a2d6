# The branch of a bundle: deferred by default, dispositions, states, conflicts,
# locks, interruptions (DESIGN section 5).
load lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	snap_root >"$W/before"
}

teardown() { finish; }

# change TEXT: runs it on a branch that then waits.
change() {
	script "$1"
	sandlock run -b "$B" "$N" 2>"$W/note"
}

unchanged() {
	snap_root >"$W/now"
	same "$W/before" "$W/now"
}

no_branch() {
	equal branches "$(branches_json | jq length)" 0
	equal store "$(ls -A "$W/store/branches" 2>/dev/null)" ""
}

# -------------------------------------------------------- the main way --

@test "branches: one that is damaged is listed as that" {
	change 'echo x >/data/new'
	echo '{' >"$SANDLOCK_STORE/branches/$N/meta.json"
	run sandlock branches
	expect_status 0
	expect_match "$N +damaged"
	expect_match "$N +damaged +- +-"
	equal state "$(branches_json | jq -r '.[0].state')" damaged
	equal created "$(branches_json | jq -r '.[0].created')" null
	# What can be done about it is the same everywhere.
	for verb in abort commit diff recover "recover --all" "create -b $B"; do
		case $verb in
		*--all) run sandlock $verb ;;
		*) run sandlock $verb "$N" ;;
		esac
		expect_status 1
		expect_output "removes '$W/store/branches/$N'"
	done
	run sandlock recover
	expect_exactly "$N  damaged"
	rm -r "$SANDLOCK_STORE/branches/$N"
}

@test "run: what was written waits, the root is untouched, one line says so" {
	change 'echo new >/data/new; echo x >>/data/a; rm /data/b'
	unchanged
	equal lines "$(wc -l <"$W/note")" 1
	grep -q "3 changes" "$W/note"
	grep -q "sandlock diff $N" "$W/note"
	equal state "$(branch_state "$N")" pending
}

@test "run: a large branch is counted without the root's own times" {
	change 'dd if=/dev/zero of=/data/big bs=1M count=0 seek=20 2>/dev/null
		echo x >>/data/a'
	grep -q "^sandlock: 2 changes wait" "$W/note"
}

@test "a branch whose storage is gone: how to mount it, or give it up" {
	mkdir "$W/disk"
	script 'echo x >/data/new'
	sandlock run -b "$B" --storage "$W/disk" "$N" 2>"$W/note"
	mv "$W/disk" "$W/away"
	run sandlock commit "$N"
	expect_status 1
	expect_output "is not in its storage '$W/disk'"
	expect_output "remove the link '$SANDLOCK_STORE/branches/$N'"
	rm "$SANDLOCK_STORE/branches/$N"
	run sandlock run -b "$B" --on-exit=abort "$N"
	expect_status 0
}

# A poststart hook that fails when the program has written, which then sleeps.
fail_poststart() {
	config '.hooks.poststart = [{path: "/bin/sh",
		args: ["sh", "-c", "while [ ! -e $F ]; do sleep 0.05; done; exit 1"],
		env: ["PATH=/usr/bin:/bin", "F=" + $f]}]' --arg f "$W/out/written"
	mkdir "$W/out"
	config '.mounts += [{destination: "/out", type: "bind", source: $s,
		options: ["rbind"]}]' --arg s "$W/out"
	script 'echo x >/data/new; touch /out/written; sleep 1000'
}

# Its branch waits and has what was written.
kept_by_failure() {
	equal state "$(branch_state "$N")" pending
	run sandlock diff "$N"
	expect_output "A data/new"
	run sandlock abort "$N"
	expect_status 0
	unchanged
}

@test "run: a failing poststart does not lose what the program wrote" {
	fail_poststart
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output poststart
	expect_output "hint: it was stopped; if it wrote something: 'sandlock diff $N'"
	kept_by_failure
}

@test "start: a failing poststart deletes all but the branch" {
	fail_poststart
	sandlock create "$N" -b "$B"
	run sandlock start "$N"
	expect_status 1
	expect_output poststart
	expect_output "1 change waits as '$N'"
	run sandlock state "$N"
	expect_output "does not exist"
	kept_by_failure
}

@test "diff, commit: the root becomes what the program saw" {
	script 'echo new >/data/new; echo x >>/data/a; rm /data/b; mkdir /data/d
		snap -x proc -x dev -x sys /'
	sandlock run -b "$B" "$N" >"$W/merged" 2>/dev/null
	run sandlock diff "$N"
	expect_status 0
	expect_exactly $'D data/b\nM data/a\nA data/d/\nA data/new' ||
		{ expect_output "D data/b" && expect_output "A data/d/" &&
			expect_output "M data/a" && expect_output "A data/new"; }
	run sandlock commit "$N"
	expect_status 0
	snap_root >"$W/after"
	same "$W/merged" "$W/after"
	no_branch
}

@test "abort: the root is bit-identical and nothing is left" {
	change 'echo new >/data/new; echo x >>/data/a; rm /data/b; chmod 700 /etc'
	run sandlock abort "$N"
	expect_status 0
	unchanged
	no_branch
}

@test "create, start, ps, kill, diff, commit" {
	script 'echo up >/data/up; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/up
	run sandlock ps
	expect_match "$N .*running"
	run sandlock diff "$N"
	expect_output "A data/up"
	sandlock kill "$N"
	run sandlock diff "$N"
	expect_output "A data/up"
	run sandlock commit "$N"
	expect_status 0
	equal content "$(cat "$R/data/up")" up
	sandlock delete "$N"
	no_branch
}

@test "commit of a part: what went with a directory has other names, no conflict" {
	mkdir -p "$R/data/d/sub"
	echo x >"$R/data/d/sub/f"
	ln "$R/data/d/sub/f" "$R/data/e"
	change 'rm -r /data/d; echo more >>/data/e'
	sandlock commit "$N" data/d
	run sandlock commit "$N"
	expect_status 0
	equal e "$(cat "$R/data/e")" $'x\nmore'
}

@test "diff, commit and abort of a part" {
	change 'mkdir /data/p /data/q; echo 1 >/data/p/f; echo 2 >/data/q/f; echo 3 >/data/r'
	run sandlock commit "$N" data/p
	expect_status 0
	equal p "$(cat "$R/data/p/f")" 1
	[ ! -e "$R/data/q" ] && [ ! -e "$R/data/r" ]
	equal state "$(branch_state "$N")" pending
	run sandlock abort "$N" data/q
	expect_status 0
	run sandlock diff "$N"
	expect_exactly "A data/r"
	run sandlock commit "$N"
	expect_status 0
	equal r "$(cat "$R/data/r")" 3
	[ ! -e "$R/data/q" ]
	no_branch
}

@test "commit and abort of parts: one that is not there, and nothing is done" {
	local verb

	change 'mkdir /data/p; echo 1 >/data/p/f; echo 2 >/data/q'
	sandlock diff "$N" >"$W/before"
	for verb in commit abort; do
		run sandlock $verb "$N" data/q data/nonsense
		expect_status 1
		expect_exactly "sandlock: branch '$N' did not change 'data/nonsense'"
		same "$W/before" <(sandlock diff "$N")
	done
	[ ! -e "$R/data/q" ]
}

@test "abort of parts: one that is named twice, or lies in another" {
	change 'mkdir /data/p; echo 1 >/data/p/f; echo 2 >/data/q; echo 3 >/data/r'
	run sandlock abort "$N" data/p/f data/q data/p /data/q
	expect_status 0
	run sandlock diff "$N"
	expect_exactly "A data/r"
}

@test "the second run on the same name is refused while the branch waits" {
	change 'echo 1 >/data/one'
	script 'echo 2 >/data/two'
	run sandlock run -b "$B" "$N"
	expect_status 125
	expect_output "commit or abort it first"
	run sandlock diff "$N"
	expect_exactly "A data/one"
}

@test "delete never touches a pending branch, and its name stays taken" {
	script 'echo x >/data/x'
	create_running "$N"
	eventually has_status "$N" stopped
	eventually has_branch_state "$N" pending
	run sandlock delete "$N"
	equal state "$(branch_state "$N")" pending
	run create "$N"
	expect_status 1
	expect_output "commit or abort it first"
	sandlock delete --force "$N" || true
	equal state "$(branch_state "$N")" pending
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
}

@test "commit and abort of a running sandbox are refused" {
	script 'echo x >/data/x; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/x
	for verb in commit abort; do
		run sandlock $verb "$N"
		expect_status 1
		expect_output running
		expect_output "its first process is $(head -1 "$W/run/$N/pid")"
	done
	run sandlock recover "$N"
	expect_output "nothing to recover"
	unchanged
	run sandlock exec "$N" cat /data/x
	expect_exactly x
}

@test "commit twice, abort after commit: an error without effect" {
	change 'echo x >/data/x'
	sandlock commit "$N"
	snap_root >"$W/committed"
	for verb in commit abort; do
		run sandlock $verb "$N"
		expect_status 1
		expect_output "$N"
	done
	snap_root >"$W/now"
	same "$W/committed" "$W/now"
}

# -------------------------------------------------------- no branch --

@test "an empty branch disappears without a word" {
	script 'cat /data/a >/dev/null; ls -lR / >/dev/null 2>&1'
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_exactly ""
	no_branch
	unchanged
}

@test "what was made and removed again is an empty branch" {
	script 'echo x >/tmp/x; rm /tmp/x; mkdir /data/d; rmdir /data/d'
	run sandlock run -b "$B" "$N"
	expect_status 0
	# Only times of the directories may remain.
	run sandlock diff "$N"
	refute_output "A "
	refute_output "M "
	refute_output "D "
	sandlock abort "$N" || true
}

@test "an empty branch costs no sync" {
	strace -f -o "$W/trace" -e trace=sync,syncfs,fsync,fdatasync \
		"$SANDLOCK" run -b "$B" "$N"
	run grep -cE '(sync|fsync|syncfs|fdatasync)\(' "$W/trace"
	expect_exactly 0
}

@test "mount targets and a cwd made by the runtime are no changes" {
	rmdir "$R/proc" "$R/sys" "$R/dev"
	config '.process.cwd = "/made/here" | .mounts += [
		{destination: "/new/target", type: "tmpfs", source: "tmpfs"}]'
	snap_root >"$W/before"
	run sandlock run -b "$B" "$N"
	expect_status 0
	expect_exactly ""
	no_branch
	unchanged
	[ ! -e "$R/proc" ] && [ ! -e "$R/made" ] && [ ! -e "$R/new" ]
}

@test "what the runtime made is not committed with other changes" {
	rmdir "$R/proc" "$R/sys" "$R/dev"
	config '.process.cwd = "/made/here"'
	change 'echo x >/data/x'
	run sandlock diff "$N"
	expect_exactly "A data/x"
	sandlock commit "$N"
	[ ! -e "$R/proc" ] && [ ! -e "$R/made" ] && [ ! -e "$R/dev" ]
	equal x "$(cat "$R/data/x")" x
}

@test "--branch=none writes to the root" {
	script 'echo x >/data/x'
	run sandlock run --branch=none -b "$B" "$N"
	expect_status 0
	expect_exactly ""
	equal x "$(cat "$R/data/x")" x
	no_branch
}

@test "--branch=none leaves no process of ours behind" {
	set_args sleep 1000
	create "$N" --branch=none
	sandlock start "$N"
	init=$(pid_of "$N")
	equal "pid file" "$(cat "$W/run/$N/pid" | tr '\n' ' ')" "$init $init "
	equal processes "$(leaked_processes "${W##*.}" | cut -d' ' -f1)" "$init"
}

@test "a read-only root opens no branch" {
	config '.root.readonly = true'
	script '(echo x >/data/x) 2>/dev/null; true'
	run sandlock run -b "$B" "$N"
	expect_exactly ""
	no_branch
	unchanged
}

@test "as sandlock-oci there is a branch only if an annotation asks" {
	script 'echo x >/data/x'
	run sandlock_oci run -b "$B" "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
	no_branch
	rm "$R/data/x"
	annotate io.sandlock.branch.on-exit defer
	run sandlock_oci run -b "$B" "$N"
	expect_status 0
	[ ! -e "$R/data/x" ]
	equal state "$(branch_state "$N")" pending
}

@test "the annotation io.sandlock.branch=none turns the branch off" {
	annotate io.sandlock.branch none
	script 'echo x >/data/x'
	run sandlock run -b "$B" "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
	no_branch
}

# --------------------------------------------------- dispositions --

# ends_as EXPECTED COMMAND OPTION...: pending, committed or aborted.
ends_as() {
	local want=$1 program=$2 got

	shift 2
	rm -f "$R/data/new"
	config '.process.args = ["sh", "-c", "echo x >/data/new; exec " + $p]' \
		--arg p "$program"
	run sandlock run -b "$B" "$@" "$N"
	case $(branch_state "$N") in
	pending) got=pending ;;
	"") [ -e "$R/data/new" ] && got=committed || got=aborted ;;
	*) got=$(branch_state "$N") ;;
	esac
	sandlock abort "$N" >/dev/null 2>&1 || true
	equal "$program $*" "$got" "$want"
}

@test "--on-exit decides for success" {
	ends_as pending 'sh -c "exit 0"'
	ends_as pending 'sh -c "exit 0"' --on-exit=defer
	ends_as pending 'sh -c "exit 0"' --on-exit=keep
	ends_as committed 'sh -c "exit 0"' --on-exit=commit
	ends_as aborted 'sh -c "exit 0"' --on-exit=abort
}

@test "--on-error decides for a failing exit status" {
	ends_as pending 'sh -c "exit 3"'
	ends_as pending 'sh -c "exit 3"' --on-error=defer
	ends_as pending 'sh -c "exit 3"' --on-error=keep
	ends_as committed 'sh -c "exit 3"' --on-error=commit
	ends_as aborted 'sh -c "exit 3"' --on-error=abort
	equal status "$status" 3
}

@test "--on-error decides for a death by signal" {
	ends_as pending 'probe segv'
	ends_as committed 'probe segv' --on-error=commit
	ends_as aborted 'probe segv' --on-error=abort
	equal status "$status" 139
}

@test "each decision leaves the other outcome alone" {
	ends_as pending 'sh -c "exit 3"' --on-exit=commit
	ends_as pending 'sh -c "exit 0"' --on-error=abort
	ends_as pending 'sh -c "exit 0"' --on-exit=defer --on-error=abort
	ends_as aborted 'sh -c "exit 3"' --on-exit=defer --on-error=abort
	ends_as aborted 'probe segv' --on-exit=defer --on-error=abort
}

@test "annotations decide where the command line says nothing" {
	annotate io.sandlock.branch.on-exit commit
	annotate io.sandlock.branch.on-error abort
	ends_as committed 'sh -c "exit 0"'
	ends_as aborted 'sh -c "exit 3"'
	ends_as pending 'sh -c "exit 0"' --on-exit=defer
}

@test "dispositions are carried out in create and start, too" {
	script 'echo x >/data/new'
	create "$N" --on-exit=commit
	sandlock start "$N"
	eventually test -e "$R/data/new"
	eventually has_status "$N" stopped
	sandlock delete "$N"
	no_branch
}

@test "dispositions of a detached run" {
	script 'echo x >/data/new; exit 1'
	run_detached "$N" --on-error=abort
	eventually has_status "$N" stopped
	eventually has_no_branch "$N"
	[ ! -e "$R/data/new" ]
	sandlock delete "$N"
}

@test "--on-exit=commit that meets a conflict: the branch waits, the status stays" {
	script 'echo mine >/data/a; touch /tmp/ready; while [ ! -e /data/go ]; do sleep 0.05; done'
	"$SANDLOCK" run -b "$B" --on-exit=commit "$N" >"$W/log" 2>&1 3>&- &
	runner=$!
	started $runner
	eventually sandlock exec "$N" test -e /tmp/ready
	echo theirs >"$R/data/a"
	sandlock exec "$N" touch /data/go
	status=0
	wait $runner || status=$?
	equal status "$status" 0
	equal lines "$(wc -l <"$W/log")" 1
	grep -q data/a "$W/log"
	equal a "$(cat "$R/data/a")" theirs
	equal state "$(branch_state "$N")" pending
}

# ------------------------------------------------------ conflicts --

@test "conflict: listed, exit 3, nothing published, all pending" {
	change 'echo mine >/data/a; echo new >/data/new'
	echo theirs >"$R/data/a"
	snap_root >"$W/before"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/a
	refute_output data/new
	unchanged
	equal state "$(branch_state "$N")" pending
	run sandlock diff "$N"
	expect_output data/new
	expect_output data/a
}

@test "conflict: --skip-conflicts publishes the rest" {
	change 'echo mine >/data/a; echo new >/data/new'
	echo theirs >"$R/data/a"
	run sandlock commit --skip-conflicts "$N"
	expect_status 0
	equal a "$(cat "$R/data/a")" theirs
	equal new "$(cat "$R/data/new")" new
	equal state "$(branch_state "$N")" pending
	run sandlock diff "$N"
	expect_output data/a
	refute_output data/new
	sandlock commit --force "$N"
	equal a "$(cat "$R/data/a")" mine
	no_branch
}

@test "conflict: --force is last writer wins" {
	change 'echo mine >/data/a; rm /data/b'
	echo theirs >"$R/data/a"
	echo theirs >"$R/data/b"
	run sandlock commit --force "$N"
	expect_status 0
	equal a "$(cat "$R/data/a")" mine
	[ ! -e "$R/data/b" ]
	no_branch
}

@test "conflict: a touched file with the same bytes is none" {
	change 'echo mine >/data/new2'
	touch "$R/data/a"
	run sandlock commit "$N"
	expect_status 0
}

@test "no conflict: the host edits what the branch did not touch" {
	change 'echo mine >/data/a'
	echo theirs >"$R/data/b"
	run sandlock commit "$N"
	expect_status 0
	equal a "$(cat "$R/data/a")" mine
	equal b "$(cat "$R/data/b")" theirs
}

@test "conflict: both made the same name" {
	change 'echo mine >/data/new'
	echo theirs >"$R/data/new"
	run sandlock commit "$N"
	expect_status 3
	equal new "$(cat "$R/data/new")" theirs
}

@test "no conflict: both made the same name with the same contents" {
	change 'echo same >/data/new'
	echo same >"$R/data/new"
	run sandlock commit "$N"
	expect_status 0
	no_branch
}

@test "conflict: a deleted directory where the host added a file" {
	mkdir "$R/data/d"
	echo 1 >"$R/data/d/1"
	touch -d '2020-01-01' "$R/data/d/1" "$R/data/d"
	sleep 0.05
	change 'rm -r /data/d'
	echo 2 >"$R/data/d/2"
	run sandlock commit "$N"
	expect_status 3
	expect_output data/d
	equal kept "$(cat "$R/data/d/2")" 2
	equal kept "$(cat "$R/data/d/1")" 1
}

@test "conflict: the root itself was replaced" {
	change 'echo x >/data/x'
	mv "$R" "$R.old"
	cp -a "$R.old" "$R"
	run sandlock commit "$N"
	[ "$status" -ne 0 ]
	[ ! -e "$R/data/x" ]
	equal state "$(branch_state "$N")" pending
}

# ---------------------------------------------------------- locks --

is_locked() {
	! flock -n "$1" true
}

@test "commit: a held lock is waited for 5 seconds, then 75 and no effect" {
	change 'echo x >/data/x'
	flock -F "$R" sleep 1000 3>&- &
	locker=$!
	started $locker
	eventually is_locked "$R"
	t0=$(date +%s%N)
	run sandlock commit "$N"
	t1=$(date +%s%N)
	expect_status 75
	expect_output deferred
	expect_output "$W/store/branches/$N"
	ms=$(((t1 - t0) / 1000000))
	[ $ms -ge 4500 ]
	unchanged
	equal state "$(branch_state "$N")" pending
	kill $locker 2>/dev/null || true
	wait $locker 2>/dev/null || true
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "commit: a lock that is released in time is waited for" {
	change 'echo x >/data/x'
	flock -F "$R" sleep 2 3>&- &
	started $!
	eventually is_locked "$R"
	run sandlock commit "$N"
	expect_status 0
}

@test "two commits at the same time: one does it" {
	change 'for i in $(seq 200); do echo $i >/data/f$i; done'
	for i in 1 2 3; do
		("$SANDLOCK" commit "$N" >/dev/null 2>&1 && echo ok >>"$W/wins") &
		pids+=" $!"
	done
	for p in $pids; do
		wait "$p" || true
	done
	[ "$(wc -l <"$W/wins")" -ge 1 ]
	equal files "$(ls "$R/data" | grep -c '^f')" 200
	no_branch
}

# ---------------------------------------------------- what is on disk --

@test "the branch directory has the files, modes and contents of the design" {
	change 'echo x >/data/x'
	d=$W/store/branches/$N
	equal mode "$(stat -c %a "$d")" 700
	equal store "$(stat -c %a "$W/store")" 700
	[ -f "$d/meta.json" ] && [ -e "$d/lock" ] && [ -d "$d/upper" ]
	[ ! -e "$d/intent" ] && [ ! -e "$d/done" ]
	equal name "$(jq -r .name "$d/meta.json")" "$N"
	grep -q "$(cat /proc/sys/kernel/random/boot_id)" "$d/meta.json"
	equal upper "$(cat "$d/upper/data/x")" x
	equal upper "$(field .upper)" "$d/upper"
	equal lower "$(field .lower)" "$R"
}

@test "the upper has the root's mode, owner and times, which are no change" {
	chmod 2751 "$R"
	skip_unless_root
	chown 12:34 "$R"
	touch -d '2019-01-01 01:01:01.5' "$R"
	change 'echo x >/data/x'
	run sandlock diff "$N"
	expect_exactly "A data/x"
	upper=$(field .upper)
	equal mode "$(stat -c '%a %u %g' "$upper")" "2751 12 34"
	sandlock commit "$N"
	equal root "$(stat -c '%a %u %g' "$R")" "2751 12 34"
}

@test "a changed mode of the root itself is a change" {
	change 'chmod 711 /'
	run sandlock diff "$N"
	expect_status 0
	[ -n "$output" ]
	sandlock commit "$N"
	equal mode "$(stat -c %a "$R")" 711
}

@test "the branch outlives the runtime directory, as after a reboot" {
	change 'echo x >/data/x'
	rm -rf "$W/run"
	run sandlock diff "$N"
	expect_exactly "A data/x"
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "a settled branch of another boot is pending as ever" {
	change 'echo x >/data/x'
	sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-1111-2222-3333-444444444444/" \
		"$W/store/branches/$N/meta.json"
	equal state "$(branch_state "$N")" pending
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "an unsettled branch of another boot is torn: only --force commits it" {
	script 'echo x >/data/x; sleep 1000'
	create_running "$N"
	eventually sandlock exec "$N" cat /data/x
	waiter=$(sed -n 2p "$W/run/$N/pid")
	init=$(pid_of "$N")
	# One command: init does not outlive its supervisor.
	kill -KILL "$waiter" "$init"
	eventually is_gone "$init"
	# What a reboot takes with it.
	rm -rf "$W/run"
	find /sys/fs/cgroup -depth -type d -name "$N" -exec rmdir {} +
	sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-1111-2222-3333-444444444444/" \
		"$W/store/branches/$N/meta.json"
	equal state "$(branch_state "$N")" torn
	run sandlock commit "$N"
	expect_status 1
	expect_output reboot
	expect_output "--force"
	unchanged
	run sandlock diff "$N"
	expect_output data/x
	run sandlock commit --force "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "a killed waiter: interrupted, then pending, and exact" {
	script 'echo x >/data/x; sleep 1000'
	create_running "$N" --no-supervisor
	eventually sandlock exec "$N" cat /data/x
	kill -KILL "$(sed -n 2p "$W/run/$N/pid")"
	init=$(pid_of "$N")
	equal status "$(status_of "$N")" running
	kill -KILL "$init"
	eventually is_gone "$init"
	case $(branch_state "$N") in
	interrupted | pending) ;;
	*) return 1 ;;
	esac
	run sandlock recover "$N"
	expect_status 0
	equal state "$(branch_state "$N")" pending
	unchanged
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "a killed waiter: a branch that nothing was written to goes with the sandbox" {
	local server

	set_args sleep 1000
	create_running "$N" --no-supervisor
	server=$(sed -n 2p "$W/run/$N/pid")
	init=$(pid_of "$N")
	kill -KILL "$server"
	kill -KILL "$init"
	eventually is_gone "$init"
	run sandlock delete "$N"
	expect_status 0
	expect_exactly ''
	no_branch
	unchanged
}

@test "a create that was killed leaves no branch of what was made for it" {
	skip_unless_root
	rm -rf "$R/dev" "$R/proc" "$R/sys"
	snap_root >"$W/before"
	config '.hooks.createContainer = [{path: "/bin/sh",
		args: ["sh", "-c", "touch $OUT; until [ -e $OUT-go ]; do sleep 0.1; done"],
		env: ["PATH=/bin:/usr/bin", "OUT=" + $out]}]' \
		--arg out "$W/reached"
	"$SANDLOCK" create -b "$B" "$N" >"$W/log" 2>&1 </dev/null 3>&- &
	creator=$!
	eventually [ -e "$W/reached" ]
	kill -KILL $creator
	wait $creator || true
	touch "$W/reached-go"
	eventually sandlock delete --force "$N"
	eventually no_branch
	unchanged
}

@test "a killed run: its sandbox dies, the branch can be committed" {
	script 'echo x >/data/x; sleep 1000'
	"$SANDLOCK" run --on-exit=commit --on-error=abort -b "$B" "$N" \
		>"$W/log" 2>&1 3>&- &
	runner=$!
	eventually sandlock exec "$N" cat /data/x
	init=$(pid_of "$N")
	kill -KILL $runner
	wait $runner || true
	eventually is_gone "$init"
	# The status is unknown, so nothing is decided.
	unchanged
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
}

@test "the waiter is small and says nothing" {
	set_args sleep 1000
	create_running "$N"
	waiter=$(sed -n 2p "$W/run/$N/pid")
	private=$(awk '/^Private_Dirty/ { sum += $2 } END { print sum }' \
		"/proc/$waiter/smaps_rollup")
	[ "$private" -le 150 ] || {
		echo "the waiter has $private KiB of its own" >&2
		return 1
	}
	equal threads "$(ls "/proc/$waiter/task" | wc -l)" 1
}

@test "init is no child of the waiter, so that the engine can reap it" {
	set_args sleep 1000
	create_running "$N"
	waiter=$(sed -n 2p "$W/run/$N/pid")
	parent=$(awk '{ print $4 }' "/proc/$(pid_of "$N")/stat")
	[ "$parent" != "$waiter" ]
}

# -------------------------------------------------------- storage --

@test "--storage: the branch is there and the store has a link to it" {
	mkdir "$W/elsewhere"
	script 'echo x >/data/x'
	sandlock run --storage "$W/elsewhere" -b "$B" "$N" 2>/dev/null
	[ -e "$W/store/branches/$N" ]
	[[ $(branch_dir) == "$W/elsewhere"/* ]]
	run sandlock commit "$N"
	expect_status 0
	equal x "$(cat "$R/data/x")" x
	no_branch
	equal left "$(find "$W/elsewhere" -name "$N")" ""
}

@test "--storage: what was made for a branch that ended empty goes with it" {
	sandlock run --storage "$W/some/where" -b "$B" "$N"
	equal left "$(find "$W/some" 2>/dev/null)" ""
	# What was there before, and what others lie in, stays.
	mkdir "$W/some"
	script 'echo x >/data/x'
	sandlock run --storage "$W/some/where" -b "$B" "$N-b" 2>/dev/null
	set_args true
	sandlock run --storage "$W/some/where" -b "$B" "$N"
	run sandlock run --storage "$W/some/where" -b "$B" "$N-b"
	[ "$status" -ne 0 ]
	equal x "$(sandlock diff --name-status "$N-b")" "A	data/x"
	sandlock abort "$N-b"
	[ -d "$W/some" ]
	rm -rf "$W/some"
	# A create that fails.
	set_args /bin/missing
	run sandlock run --storage "$W/some/where" -b "$B" "$N"
	[ "$status" -ne 0 ]
	equal left "$(find "$W/some" 2>/dev/null)" ""
}

@test "--storage: of several directories the last takes it away, and a branch that stays keeps all of it" {
	mkdir -p "$W/a" "$W/b"
	sandlock run --name "$N" --storage "$W/some/where" --workdir "$W/a" \
		--workdir "$W/b" -- true
	equal left "$(find "$W/some" 2>/dev/null)" ""
	run sandlock run --name "$N" --storage "$W/some/where" \
		--workdir "$W/a" --workdir "$W/missing" -- true
	[ "$status" -ne 0 ]
	equal left "$(find "$W/some" 2>/dev/null)" ""
	mkfifo "$W/go"
	sandlock run --name "$N" --storage "$W/some/where" --workdir "$W/a" -- \
		sh -c 'read -r line' <>"$W/go" 3>&- &
	started $!
	eventually [ -d "$W/some/where/branches/$N" ]
	sandlock run --name "$N-b" --storage "$W/some/where" --workdir "$W/b" \
		-- touch "$W/b/x" 2>"$W/log"
	echo >"$W/go"
	eventually has_no_branch "$N"
	[ -d "$W/some/where/trash" ]
	sandlock abort "$N-b"
}

@test "--storage: runs that make and remove it at the same time all go well" {
	for i in 1 2 3 4 5 6 7 8; do
		for j in 1 2 3 4; do
			sandlock run --storage "$W/some/where" -b "$B" \
				"$N-$j-$i" || exit 1
		done 2>"$W/log-$i" >&2 3>&- &
		runs[i]=$!
	done
	for i in 1 2 3 4 5 6 7 8; do
		wait "${runs[i]}" || { cat "$W/log-$i"; false; }
	done
	no_branch
}

@test "storage on another file system: staged, and just as exact" {
	skip_unless_root
	mkdir "$W/other"
	mount -t tmpfs tmpfs "$W/other"
	script 'echo new >/data/new; echo x >>/data/a; rm /data/b
		mkdir -p /data/d/e; ln /data/new /data/d/link; ln -s ../a /data/d/s
		mkfifo /data/p; chmod 4755 /data/new; probe setxattr /data/d user.k v >&2
		probe sparse /data/sparse 10000000; touch -d "2001-01-01 00:00:00" /data/d/e
		snap -x proc -x dev -x sys /'
	sandlock run --storage "$W/other" -b "$B" "$N" >"$W/merged" 2>/dev/null
	equal staged "$(jq .staged "$(branch_dir)/meta.json")" true
	unchanged
	run sandlock commit "$N"
	expect_status 0
	snap_root >"$W/after"
	same "$W/merged" "$W/after"
	[ "$(stat -c %b "$R/data/sparse")" -lt 1000 ]
	no_branch
	eventually umount "$W/other"
}

@test "XFS, which lists access control lists twice, with a store elsewhere" {
	local dir edits

	skip_unless_root
	mkdir "$W/other"
	truncate -s 320M "$W/other.img"
	mkfs.xfs -q "$W/other.img"
	mount -t xfs -o loop "$W/other.img" "$W/other" ||
		skip "the kernel has no XFS"
	for dir in "$W/other/d" "$W/plain"; do
		mkdir -p "$dir/sub"
		echo 1 >"$dir/a"
		echo 1 >"$dir/b"
		setfacl -m u:1234:rw "$dir/a" "$dir/b"
		setfacl -d -m u:1234:rwx "$dir/sub"
	done
	edits='setfacl -m u:77:r a; setfacl -b b; echo 2 >>b
		setfacl -d -m g:88:rx sub; echo 3 >sub/new; setfacl -m u:99:r sub/new'
	(cd "$W/plain" && sh -c "$edits")
	sandlock run --name "$N" --workdir "$W/other/d" --storage "$W/plain.store" \
		-- sh -c "$edits" 2>/dev/null
	equal staged "$(jq .staged "$(branch_dir)/meta.json")" true
	run sandlock commit "$N"
	expect_status 0
	(cd "$W/plain" && getfacl -n a b sub sub/new) >"$W/want"
	(cd "$W/other/d" && getfacl -n a b sub sub/new) >"$W/have"
	same "$W/want" "$W/have"
	eventually umount "$W/other"
}

@test "a directory of another project, with a quota of its own" {
	skip_unless_root
	mkdir "$W/other"
	truncate -s 320M "$W/other.img"
	mkfs.xfs -q "$W/other.img"
	mount -t xfs -o loop "$W/other.img" "$W/other" ||
		skip "the kernel has no XFS"
	mkdir -p "$W/other/d/sub"
	echo 1 | tee "$W/other/d/a" >"$W/other/d/gone"
	xfs_io -c "chproj -R 42" -c "chattr -R +P" "$W/other/d"
	sandlock run --name "$N" --workdir "$W/other/d" -- sh -c 'echo 2 >>a
		mkdir -p n/e; echo 3 >n/e/f; ln -s f n/s; mkfifo n/p; ln a n/l
		rm gone; mv sub moved; ls -lAR --full-time' >"$W/inside" 2>/dev/null
	[[ $(branch_dir) == "$W/other/.sandlock-0/"* ]]
	run sandlock commit "$N"
	expect_status 0
	(cd "$W/other/d" && ls -lAR --full-time) >"$W/after"
	same <(grep -v ^total "$W/inside") <(grep -v ^total "$W/after")
	for path in a n n/e n/e/f n/l moved; do
		equal "$path" "$(xfs_io -r -c lsproj "$W/other/d/$path")" \
			'projid = 42'
	done
	eventually umount "$W/other"
}

@test "a directory of another project inside is named, with what can be done" {
	skip_unless_root
	mkdir "$W/other"
	truncate -s 320M "$W/other.img"
	mkfs.xfs -q "$W/other.img"
	mount -t xfs -o loop "$W/other.img" "$W/other" ||
		skip "the kernel has no XFS"
	mkdir -p "$W/other/d/sub"
	xfs_io -c "chproj 42" -c "chattr +P" "$W/other/d/sub"
	sandlock run --name "$N" --workdir "$W/other/d" -- \
		sh -c 'echo 2 | tee a >sub/new'
	run sandlock commit "$N"
	expect_status 1
	expect_output "cannot publish 'sub/new': Invalid cross-device link"
	expect_output "take that off with chattr -P"
	[ ! -e "$W/other/d/a" ]
	chattr -P "$W/other/d/sub"
	sandlock commit "$N"
	equal published "$(cat "$W/other/d/a" "$W/other/d/sub/new")" $'2\n2'
	eventually umount "$W/other"
}

@test "the default store on another file system: the branch is at the top of the root's" {
	skip_unless_root
	mkdir "$W/other"
	truncate -s 64M "$W/other.img"
	mkfs.ext4 -q "$W/other.img"
	mount -o loop "$W/other.img" "$W/other"
	mkdir "$W/other/bundle"
	cp -a "$B/." "$W/other/bundle"
	B=$W/other/bundle R=$B/rootfs
	script 'echo x >/data/x'
	sandlock run -b "$B" "$N" 2>/dev/null
	[ -e "$W/store/branches/$N" ]
	equal staged "$(jq .staged "$(branch_dir)/meta.json")" false
	[[ $(branch_dir) == "$W/other/.sandlock-0/"* ]]
	sandlock commit "$N"
	equal x "$(cat "$R/data/x")" x
	# Nothing is written: the disk is free when run has returned.
	script :
	sandlock run -b "$B" "$N"
	disk=$(findmnt -no SOURCE "$W/other")
	eventually umount "$W/other"
	# What starts beside us has a copy of our mounts for a moment.
	eventually test ! -e "/sys/fs/ext4/${disk##*/}"
}

@test "the same file system through another mount is no obstacle" {
	skip_unless_root
	mkdir "$W/bindroot"
	mount --bind "$B" "$W/bindroot"
	script 'echo new >/data/new; rm -r /data/b; mkdir /data/d; echo x >>/data/a
		snap -x proc -x dev -x sys /'
	sandlock run -b "$W/bindroot" "$N" >"$W/merged" 2>/dev/null
	run sandlock commit "$N"
	expect_status 0
	snap_root >"$W/after"
	same "$W/merged" "$W/after"
	eventually umount "$W/bindroot"
}

@test "a stage of somebody else's in the root is neither opened nor removed" {
	skip_unless_root
	change 'echo x >/data/new'
	stage=$R/.sandlock-$N
	mkdir "$stage"
	mkfifo "$stage/branch"
	chown -R 1 "$stage"
	run timeout 60 "$SANDLOCK" commit "$N"
	expect_status 0
	equal new "$(cat "$R/data/new")" x
	[ -p "$stage/branch" ]
	change 'echo y >/data/new'
	rm "$stage/branch"
	printf %s "$(branch_dir)" >"$stage/branch"
	run sandlock abort "$N"
	expect_status 0
	[ -e "$stage/branch" ]
	rm -r "$stage"
}

@test "--durable: the payload's fsync is honoured" {
	script 'grep " / " /proc/self/mountinfo'
	run sandlock run -b "$B" "$N"
	expect_match 'volatile'
	run sandlock run --durable -b "$B" "$N"
	expect_output overlay
	refute_output volatile
}

@test "the store keeps no trash once it was removed" {
	change 'for i in $(seq 50); do echo $i >/data/f$i; done; rm -r /home /data/a'
	sandlock commit "$N"
	eventually is_empty "$W/store/trash"
	no_branch
}

@test "a store that became read-only: what is there is seen, and said what is not" {
	change 'echo x >/data/new'
	sandlock diff "$N" >"$W/before"
	local RT=(unshare -m sh -c 'mount --bind "$0" "$0" &&
		mount -o remount,bind,ro "$0" && exec "$@"' "$W/store" "${RT[@]}")

	equal state "$(branch_state "$N")" pending
	run sandlock diff "$N"
	expect_status 0
	expect_exactly "$(cat "$W/before")"
	for verb in commit abort; do
		run sandlock $verb "$N"
		expect_status 1
		expect_output "$W/store/"
		expect_output "Read-only file system"
	done
	[ ! -e "$R/data/new" ]
	run sandlock create -b "$B" --storage "$W/elsewhere" "$N-2"
	expect_status 1
	expect_output "'$W/store/branches/$N-2'"
	expect_output "hint: "
	is_empty "$W/run"
}

@test "branches: table and json" {
	change 'echo x >/data/x'
	run sandlock branches
	expect_status 0
	expect_match "$N +pending"
	run branches_json
	jq -e --arg n "$N" --arg l "$R" 'length == 1 and .[0].name == $n
		and .[0].state == "pending" and .[0].lower == $l' <<<"$output"
}

@test "branches: with nothing there is no error" {
	run sandlock branches
	expect_status 0
	run branches_json
	expect_exactly "[]"
}

@test "a user namespace with foreign maps: the same exactness" {
	skip_unless_root
	config '.linux.namespaces += [{type: "user"}]
		| .linux.uidMappings = [{containerID: 0, hostID: 300000, size: 65536}]
		| .linux.gidMappings = [{containerID: 0, hostID: 300000, size: 65536}]
		| .process.capabilities |= (.bounding += ["CAP_CHOWN"]
		| .permitted = .bounding | .effective = .bounding)'
	chown -R 300000:300000 "$R"
	chmod 755 "$W" "$B"
	script 'echo new >/data/new; echo x >>/data/a; rm /data/b; mkdir /data/d
		chown 1000:1000 /data/new; chmod 000 /data/a; ls -ln /data'
	run sandlock run -b "$B" "$N"
	expect_status 0
	run sandlock diff "$N"
	expect_output "A data/new"
	expect_output "D data/b"
	run sandlock commit "$N"
	expect_status 0
	equal owner "$(stat -c '%u %g' "$R/data/new")" "301000 301000"
	equal mode "$(stat -c %a "$R/data/a")" 0
	no_branch
}
