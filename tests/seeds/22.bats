# SEEDS part 3, row 22: a raw client: good verb, unknown verb, version 9, broken
# JSON, bodies of 65,536 and 65,537 bytes both ways: the stated answers, and the
# socket keeps serving.
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

@test "22: 65,536 bytes pass and 65,537 do not, to the server and from it" {
	ask() {
		python3 "$TESTS/helpers/control.py" \
			"$SANDLOCK_ROOT/$N/control.sock" "$@"
	}
	# The answer to config grows with this variable, byte by byte.
	with_answer_of() {
		sandlock run --name "$N" --env "A=$(head -c "$1" /dev/zero | tr '\0' x)" \
			-- sleep 60 2>/dev/null 3>&- &
		eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
		ask '{"v":1,"verb":"config"}' >"$W/answer"
		run ask --pad 65536 '{"v":1,"verb":"ports","args":{"x":"@"}}'
		expect_exactly '{"v":1,"ok":true,"data":{}}'
		run ask --pad 65537 '{"v":1,"verb":"ports","args":{"x":"@"}}'
		expect_exactly '{"v":1,"ok":false,"err":"request too large (65537 bytes, max 65536)"}'
		run ask '{"v":1,"verb":"ports"}'
		expect_exactly '{"v":1,"ok":true,"data":{}}'
		sandlock kill "$N"
		wait
	}
	with_answer_of 1000
	# The client adds a newline.
	around=$(($(wc -c <"$W/answer") - 1 - 1000))
	with_answer_of $((65536 - around))
	equal length "$(wc -c <"$W/answer")" 65537
	grep -q '"ok":true' "$W/answer"
	with_answer_of $((65537 - around))
	equal answer "$(cat "$W/answer")" \
		'{"v":1,"ok":false,"err":"response too large (65537 bytes, max 65536)"}'
}

@test "22: so it is for a bundle that was created, before and after its start" {
	make_bundle
	script 'echo up; sleep 1000'
	create "$N"
	ask() {
		python3 "$TESTS/helpers/control.py" \
			"$SANDLOCK_ROOT/$N/control.sock" "$@"
	}
	all_verbs() {
		run ask '{"v":1,"verb":"frob"}'
		expect_output '"err":"unknown verb: frob"'
		run ask '{"v":9,"verb":"state"}'
		expect_output '"err":"unsupported protocol version: 9"'
		run ask '{'
		expect_output '"err":"parse error: '
		run ask --pad 65536 '{"v":1,"verb":"ports","args":{"x":"@"}}'
		expect_exactly '{"v":1,"ok":true,"data":{}}'
		run ask --pad 65537 '{"v":1,"verb":"ports","args":{"x":"@"}}'
		expect_exactly '{"v":1,"ok":false,"err":"request too large (65537 bytes, max 65536)"}'
		run ask '{"v":1,"verb":"state"}'
		expect_output "\"status\":\"$1\""
	}
	all_verbs created
	sandlock start "$N"
	eventually grep -q up "$W/out"
	all_verbs running
	sandlock kill "$N"
}
