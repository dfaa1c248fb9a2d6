# The C API: a sandbox as an object (include/sandlock.h, sandlock_sandbox(3)).
# Rows of SEEDS are in seeds/.
load lib/common
load lib/embed

setup() { begin_embed; }

teardown() { finish; }

@test "capi: success is committed, anything else aborted" {
	run embed run -- sh -c 'echo new >f; rm g'
	expect_output "run: exit 0 committed"
	equal f "$(cat "$D/f")" new
	[ ! -e "$D/g" ]
	run embed run -- sh -c 'echo newer >f; exit 1'
	expect_output "run: exit 1 aborted"
	equal f "$(cat "$D/f")" new
	equal store "$(ls -A "$W/store/branches")" ""
}

@test "capi: it is a sandbox like any other while it runs" {
	embed_detached create start wait -- sleep 1000
	eventually has_status "$N" running
	run sandlock ps
	expect_output "$N"
	run sandlock ps "$N"
	expect_output "sleep"
	run sandlock inspect "$N"
	expect_output "\"workdir\""
	run sandlock kill "$N"
	expect_status 0
	eventually says "wait: signal 9"
	wait "$EMBEDDER"
}

# Whether the mounts of "$@" are let go of by a thread of the kernel (let_go.h).
lets_go() {
	strace -f -qq -o "$W/trace" -e trace=openat "$@" >/dev/null &&
		grep -q '"/proc/[0-9]*/ns/mnt"' "$W/trace"
}

waits() {
	strace -f -qq -o "$W/trace" -e trace=openat "$@" >/dev/null &&
		! grep '"/proc/[0-9]*/ns/mnt"' "$W/trace"
}

@test "capi: mounts are waited for where a stage follows or a disk is in use" {
	skip_unless_root
	command -v strace >/dev/null || skip "strace is not installed"
	free=("$SANDLOCK" run --branch=none -r / -- true)
	cat >"$W/stage.toml" <<-'END'
		[program]
		exec = "true"
	END
	cd "$D"
	# Others may have mounted one for a moment.
	if [ "$(findmnt -rno MAJ:MIN --real | sort -u | wc -l)" = 1 ]; then
		eventually lets_go "${free[@]}"
		eventually lets_go "$HELPERS/embed" config.workdir="$D" run -- true
	fi
	stages=(--stage "$W/stage.toml" --stage "$W/stage.toml")
	waits "$SANDLOCK" run "${stages[@]}"
	mkdir "$W/disk"
	truncate -s 64M "$W/disk.img"
	mkfs.ext4 -q "$W/disk.img"
	mount -o loop "$W/disk.img" "$W/disk"
	waits "${free[@]}"
	waits "$HELPERS/embed" config.workdir="$W/disk" run -- true
	eventually umount "$W/disk"
}

@test "capi: its name is taken while it lives, and while it is pending" {
	embed_detached create start wait -- sleep 1000
	eventually has_status "$N" running
	run embed run -- true
	expect_output "run: EXISTS:"
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually has_no_branch "$N"
	run embed filesystem.on_exit=defer run -- touch new
	run embed run -- true
	expect_output "run: EXISTS:"
	sandlock abort "$N"
}

@test "capi: created is not executed, and start says why it cannot be" {
	run embed create state pid start wait state -- touch new
	expect_output "create: ok"
	expect_output "state: 1"
	expect_match "pid: [1-9]"
	expect_output "wait: exit 0 committed"
	expect_output "state: 3"
	[ -e "$D/new" ]
	run embed run state -- nosuchprogram
	expect_output "run: EXEC_MISSING:"
	expect_output "state: 0"
	run embed create sleep=300 start run -- nosuchprogram
	expect_output "start: EXEC_MISSING:"
}

@test "capi: wait gives up in time and the command goes on" {
	run embed create start wait=200 state wait -- sh -c 'sleep 2; touch new'
	expect_output "wait=200: TIMEOUT: '$N' still runs"
	expect_output "state: 2"
	expect_output "wait: exit 0 committed"
	[ -e "$D/new" ]
}

@test "capi: streams are captured, up to a limit" {
	run embed capture run -- sh -c 'echo out; echo err >&2; exit 3'
	expect_output "run: exit 3"
	expect_output "out: out"
	expect_output "err: err"
	run embed capture capture-max=5 run -- echo 1234567
	expect_output "out: 12345..."
	# More than a pipe holds, and who reads it.
	run embed capture run -- sh -c 'head -c 1000000 /dev/zero | tr "\0" x'
	equal length "${#output}" "$((1000000 + ${#lines[0]} + 6))"
}

@test "capi: kill, signal and what cannot be done when nothing runs" {
	run embed kill wait start ports -- sleep 1000
	expect_output "kill: STATE: nothing runs"
	expect_output "wait: STATE:"
	expect_output "start: STATE:"
	expect_output "ports: STATE:"
	run embed create start kill wait kill wait -- sleep 1000
	expect_output "kill: ok"
	expect_output "wait: signal 9 "
	expect_output "kill: STATE: nothing runs"
	run embed capture create start sleep=500 signal=15 wait -- \
		sh -c 'trap "echo got; exit 7" TERM; while :; do sleep 0.1; done'
	expect_output "wait: exit 7"
	expect_output "out: got"
}

@test "capi: pause and resume" {
	run embed create start pause pause resume resume ports kill wait \
		-- sleep 1000
	expect_output "ports: {"
	[[ $output != *UNSUPPORTED* ]] || skip "no cgroup that can be frozen"
	expect_output "pause: ok"
	expect_output "pause: STATE: container not running"
	expect_output "resume: ok"
	expect_output "resume: STATE: container not paused"
}

@test "capi: arguments and variables are bytes" {
	run embed capture program.env="X=$(printf 'a\377b')" run -- \
		sh -c 'printf %s "$X$1" | od -An -tx1' sh "$(printf 'c\ne\376')"
	expect_output "61 ff 62 63 0a 65 fe"
}

@test "capi: a request that is too long for one message arrives" {
	long=$(head -c 100000 /dev/zero | tr '\0' x)
	run embed capture run -- sh -c 'echo ${#1} ${#2}' sh "$long" "$long"
	expect_output "out: 100000 100000"
}

@test "capi: without a control socket it is not seen, and can be committed" {
	embed_detached program.control_socket=false filesystem.on_exit=defer \
		create start read-line wait upper -- \
		sh -c 'echo new >f; touch there; sleep 1' </dev/null
	eventually says "wait: exit 0 pending"
	wait "$EMBEDDER"
	equal run "$(ls -A "$W/run")" ""
	run sandlock commit "$N"
	expect_status 0
	equal f "$(cat "$D/f")" new
}

@test "capi: dry_run is none of its keys" {
	run "$HELPERS/embed" run -- true
	expect_output "run: "
	run "$HELPERS/embed" dry_run=true run
	expect_status 2
}

@test "capi: conflicts that are refused leave the branch pending" {
	embed_detached refuse-conflicts create start read-line signal=15 wait \
		pending abort -- sh -c 'trap "exit 0" TERM
			echo mine >f; touch there; while :; do sleep 0.1; done' \
		< <(eventually test -e "$W/go" && echo)
	eventually sandlock diff "$N"
	eventually test -e "$(branch_dir)/upper/there"
	echo theirs >"$D/f"
	touch "$W/go"
	eventually says "pending:"
	says "wait: exit 0 pending"
	says "wait: CONFLICT:"
	says "pending: 1"
	wait "$EMBEDDER"
	equal f "$(cat "$D/f")" theirs
}

@test "capi: of a supervisor that is killed one hears, and the branch is kept" {
	embed_detached create start pid wait pending abort -- \
		sh -c 'touch there; sleep 1000'
	eventually says "pid: "
	pid=$(sed -n 's/^pid: //p' "$W/said")
	eventually test -e "$(branch_dir)/upper/there"
	supervisor=$(pgrep -P "$EMBEDDER")
	kill -KILL "$supervisor"
	eventually is_gone "$pid"
	eventually says "wait: STATE: supervisor of '$N' is not running"
	eventually says "abort: ok"
	says "pending: 1"
	wait "$EMBEDDER"
	unchanged
}

@test "capi: with several directories a change says in which one it is" {
	mkdir "$W/other"
	run embed config.workdir="$W/other" filesystem.on_exit=defer run upper \
		upper-of="$D" upper-of="$W/other" upper-of=/nowhere commit \
		-- sh -c "echo new >f; echo x >'$W/other/x'"
	expect_output "run: exit 0 pending"
	expect_output "upper: USAGE: there is more than one directory"
	expect_match "upper-of=$D: /.*"$'\n'"there: f"
	expect_match "upper-of=$W/other: /.*"$'\n'"there: x"
	expect_output "upper-of=/nowhere: OTHER:"
	expect_output "commit: ok"
	equal f "$(cat "$D/f")" new
	equal x "$(cat "$W/other/x")" x
}
