#!/usr/bin/env bats
# Signals that come while there is no payload to send them to.

load lib/common

setup() {
	only_sandlock
	begin
	make_bundle
	set_args sleep 1000
	annotate io.sandlock.branch none
	before=$(leaks)
}

teardown() {
	finish
}

# hang_in POINT: its hook says its pid in $W/said and does not end.
hang_in() {
	local to=$W/said

	[ "$1" != startContainer ] || to=/said
	config 'del(.hooks) | .hooks[$p] = [{path: "/bin/sh", env: ["PATH=/usr/bin:/bin"],
		args: ["sh", "-c", "echo x >" + $f + "; exec sleep 1003"]}]' \
		--arg p "$1" --arg f "$to"
}

is_said() {
	[ -s "$W/said" ] || [ -s "$R/said" ]
}

# interrupted SIGNAL VERB [OPTION]...: once the hook says so.
interrupted() {
	local sig=$1 status=0 i

	shift
	rm -f "$W/said" "$R/said"
	env --default-signal "$SANDLOCK" "$@" -b "$B" "$N" \
		</dev/null >"$W/out" 2>&1 3>&- &
	started $!
	eventually is_said
	kill "-$sig" $!
	for ((i = 0; i < 100; i++)); do
		is_gone $! && break
		sleep 0.05
	done
	is_gone $! || {
		echo "it does not end" >&2
		return 1
	}
	wait $! || status=$?
	equal "status of $*" "$status" "$((128 + $(kill -l "$sig")))"
	settle_leaks "$before"
	equal "what is left" "$(leaks)" "$before"
}

@test "interrupt: a run whose hook hangs ends, and leaves nothing" {
	for point in prestart createRuntime createContainer startContainer poststart; do
		hang_in $point
		interrupted TERM run
	done
}

@test "interrupt: so do create and a detached run" {
	for point in prestart createRuntime createContainer; do
		hang_in $point
		interrupted TERM create
		interrupted TERM run -d
	done
	for point in startContainer poststart; do
		hang_in $point
		interrupted TERM run -d
	done
}

@test "interrupt: by each signal that asks for an end, without a pid namespace too" {
	drop_ns pid
	for sig in HUP INT QUIT; do
		hang_in createContainer
		interrupted $sig run
		hang_in createRuntime
		interrupted $sig create
	done
}

@test "interrupt: poststop runs, a branch is not left" {
	config 'del(.annotations)'
	hang_in createRuntime
	config '.hooks.poststop = [{path: "/bin/sh", env: ["PATH=/usr/bin:/bin"],
		args: ["sh", "-c", "sleep 0.2; echo x >>" + $f]}]' --arg f "$W/stopped"
	interrupted TERM run
	interrupted TERM create
	equal poststop "$(cat "$W/stopped")" $'x\nx'
}

@test "interrupt: a poststop hook that hangs is ended, the others run" {
	hang_in poststop
	config '.hooks.poststop += [{path: "/bin/sh",
		args: ["sh", "-c", "echo x >>" + $f]}]' --arg f "$W/stopped"
	set_args true
	interrupted TERM run
	grep -q "interrupted by signal 15, SIGTERM" "$W/out"
	equal poststop "$(cat "$W/stopped")" x
}

@test "interrupt: what the caller ignores interrupts nothing" {
	config '.hooks.createRuntime = [{path: "/bin/sh", env: ["PATH=/usr/bin:/bin"],
		args: ["sh", "-c", "echo x >" + $f + "; while [ -e " + $f + " ]; do sleep 0.05; done"]}]' \
		--arg f "$W/said"
	script 'trap "exit 9" HUP; echo up; while :; do sleep 0.1; done'
	env --ignore-signal=HUP "$SANDLOCK" run -b "$B" "$N" \
		</dev/null >"$W/out" 2>&1 3>&- &
	started $!
	eventually is_said
	kill -HUP $!
	rm "$W/said"
	status=0
	wait $! || status=$?
	equal status "$status" 9
}

# swept WORD...: with a signal at any moment of its making.
swept() {
	local i status

	for i in 0.000 0.001 0.002 0.003 0.004 0.005 0.006 0.008 0.010 0.015 0.030; do
		env --default-signal "$SANDLOCK" run "$@" \
			</dev/null >"$W/out" 2>&1 3>&- &
		started $!
		sleep $i
		kill -TERM $!
		status=0
		wait $! || status=$?
		equal "status after $i s" "$status" 143
		settle_leaks "$before"
	done
}

@test "interrupt: at any moment of a command and of a bundle" {
	swept --name "$N" -- sleep 1003
	drop_ns pid
	swept -b "$B" "$N"
}

@test "interrupt: a pid file that nobody reads" {
	mkfifo "$W/fifo"
	hang_in createContainer
	config '.hooks.createContainer[0].args[2] |= split(";")[0]'
	interrupted TERM run --pid-file "$W/fifo"
	interrupted TERM create --pid-file "$W/fifo"
}
