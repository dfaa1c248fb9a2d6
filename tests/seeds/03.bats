# Row 3: what nobody answers is denied, and never executed.
load ../lib/common
load ../lib/embed

setup() {
	begin_embed
	cd "$D"
	cat >"$W/mark" <<-SH
		#!/bin/sh
		echo executed
	SH
}

teardown() { finish; }

policy() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/policy" "$@"
}

@test "03: freed, or past its time, it is EPERM" {
	run policy drop env 0 -- sh -c '/usr/bin/env echo executed'
	expect_output 'Operation not permitted'
	[ "$(grep -c '^executed' <<<"$output")" -eq 0 ]
	run env ASK_TIMEOUT=1 "$HELPERS/policy" keep env 0 -- \
		sh -c '/usr/bin/env echo executed; echo went on'
	expect_output 'Operation not permitted'
	expect_output 'went on'
	expect_output 'cancelled 1'
	[ "$(grep -c '^executed' <<<"$output")" -eq 0 ]
}

@test "03: when the run ends, or its embedder is killed, it is never executed" {
	run policy keep env 0 -- sh -c 'timeout -s KILL 1 /usr/bin/env echo x'
	expect_output 'cancelled 1'
	"$HELPERS/policy" keep env 0 -- \
		sh -c '/usr/bin/env echo executed; echo went on' \
		>"$W/said" 2>&1 3>&- &
	EMBEDDER=$!
	eventually grep -q event "$W/said"
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually nobody_runs
	run grep -c -e '^executed' -e 'went on' "$W/said"
	expect_output 0
}

nobody_runs() {
	[ -z "$(sandlock ps --json | jq -r '.sandboxes[].name')" ]
}
