# Row 22: raw client; the rest of its rows is in tests/control.bats.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

@test "22: good verb, unknown verb, version 9, broken JSON; the socket keeps serving" {
	sandlock run --name "$N" -- sleep 60 2>/dev/null 3>&- &
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
	ask() {
		python3 "$TESTS/helpers/control.py" \
			"$SANDLOCK_ROOT/$N/control.sock" "$1"
	}
	run ask '{"v":1,"verb":"frob"}'
	expect_output '"err":"unknown verb: frob"'
	run ask '{"v":9,"verb":"state"}'
	expect_output '"err":"unsupported protocol version: 9"'
	run ask '{'
	expect_output '"err":"parse error: '
	run ask '{"v":1,"verb":"state"}'
	expect_output '"ok":true'
	sandlock kill "$N"
	wait
}
