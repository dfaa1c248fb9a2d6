# Handlers of system calls, for an ordinary user.
load lib/common
load lib/embed

setup() { begin_embed; }

teardown() { finish; }

handle() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" "$@"
}

@test "handlers: an ordinary user's reach into memory, and answer" {
	run handle uname=poke:0:Plan9+return:0 -- uname -s
	expect_output "poke 0"
	expect_output Plan9
	run handle write=path:1+continue getppid=later:10+errno:1 -- \
		sh -c 'echo hi there'
	expect_output "path hi there"
	echo virtual >"$D/file"
	run handle uname="peek:0+fd:$D/file+continue" -- \
		/usr/bin/python3 -c 'import os
os.uname(); print(os.read(3, 7))' <"$D/file"
	expect_output "peek virtual"
	expect_output "installed 3"
	expect_output "b'virtual'"
	run handle uname=fail -- uname
	expect_output "signal 9"
}
