# Row 16: late, repeated, foreign and mismatching answers.
load ../lib/common
load ../lib/asking

setup() { begin_with_execs; }

teardown() { finish; }

@test "16: each has its own error, and the first verdict stands" {
	serve --ask-exec env -- sh -c '/usr/bin/env true && echo ran; sleep 60'
	wait_for /env
	run sandlock approve "$N" "99-${ID#*-}"
	expect_output 'there is no approval 99'
	run sandlock approve "$N" "${ID%-*}-00000000"
	expect_output 'is not what was shown'
	sandlock approve "$N" "$ID"
	run sandlock deny "$N" "$ID"
	expect_output 'was allowed already'
	eventually grep -q ran "$W/out"
	sandlock kill "$N"
	served || true
	serve --ask-exec env --ask-timeout 5 -- sh -c '/usr/bin/env true; sleep 60'
	wait_for /env
	eventually is_closed
	run sandlock approve "$N" "$ID"
	expect_output 'has expired'
	sandlock kill "$N"
	served || true
}

@test "16: what was asked of another sandbox answers nothing here" {
	local first other=$N-b

	serve --ask-exec env -- sh -c '/usr/bin/env true && echo ran'
	wait_for /env
	first=$ID
	sandlock run --name "$other" --ask=socket --ask-exec env -- \
		sh -c '/usr/bin/env false; echo over' >"$W/out2" 2>&1 3>&- &
	started $!
	is_asked() {
		sandlock approvals --json "$other" 2>/dev/null |
			jq -er '.approvals[0].approval.id' >"$W/id2"
		test -s "$W/id2"
	}
	eventually is_asked
	run sandlock approve "$other" "$first"
	expect_status 1
	expect_output 'is not what was shown'
	run sandlock approve "$N" "$(cat "$W/id2")"
	expect_status 1
	expect_output 'is not what was shown'
	equal ran "$(cat "$W/out")" ""
	sandlock approve "$N" "$first"
	eventually grep -q ran "$W/out"
	sandlock kill "$other"
	served || true
}
