# What somebody is asked about, for an ordinary user: its supervisor traces tasks
# of a user namespace that is the user's own. tests/run starts this as such one.
load lib/common
load lib/asking

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

@test "rootless: opens in the caller's place are what the kernel would make" {
	opens_equal
}

@test "rootless: programs and files are allowed and denied" {
	echo secret >f
	serve --ask-exec env --ask-open "$PWD/f" -- sh -c \
		'/usr/bin/env true && echo ran; cat f; cat f || echo denied'
	wait_for /env
	sandlock approve "$N" "$ID"
	wait_for "read '$PWD/f'"
	sandlock approve "$N" "$ID"
	eventually grep -q secret "$W/out"
	wait_for "read '$PWD/f'"
	sandlock deny "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf 'ran\nsecret\ndenied')"
}

@test "rootless: a program that we cannot look into is asked about" {
	printf '#!/usr/bin/env sh\n' >s
	chmod 111 s
	serve --ask-exec /usr/bin/env -- sh -c './s; echo $?'
	wait_for "run '$PWD/s' as './s'"
	sandlock deny "$N" "$ID"
	served
	equal out "$(cat "$W/out")" 126
}
