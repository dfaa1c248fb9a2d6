# Row 16: late, repeated, foreign and mismatching answers.
load ../lib/common
load ../lib/asking

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cp "$TESTS/helpers/execs.py" "$W/work"
	cd "$W/work"
}

teardown() { finish; }

@test "16: each has its own error, and the first verdict stands" {
	serve --ask-exec env --ask-timeout 5 -- sh -c \
		'/usr/bin/env true && echo ran; /usr/bin/env true; sleep 60'
	wait_for /env
	run sandlock approve "$N" "99-${ID#*-}"
	expect_output 'there is no approval 99'
	run sandlock approve "$N" "${ID%-*}-00000000"
	expect_output 'is not what was shown'
	sandlock approve "$N" "$ID"
	run sandlock deny "$N" "$ID"
	expect_output 'was allowed already'
	eventually grep -q ran "$W/out"
	wait_for /env
	eventually is_closed
	run sandlock approve "$N" "$ID"
	expect_output 'has expired'
	sandlock kill "$N"
	served || true
}
