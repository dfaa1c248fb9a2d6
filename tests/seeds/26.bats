# SEEDS part 3, row 26: a handler parks, or is asynchronous, and continues: the
# next one runs. It answers: the next one does not. Python's `async def` is in
# tests/sdk.
load ../lib/common
load ../lib/embed

setup() { begin_embed; }

teardown() { finish; }

handle() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" "$@"
}

@test "row 26: continue reaches the next handler, an answer does not" {
	local how

	for how in sleep:50 later:50; do
		run handle uname="print+$how+continue" uname=print+errno:13 \
			uname=print+continue -- uname
		expect_output "call uname in 0"
		expect_output "call uname in 1"
		refute_output "call uname in 2"
		expect_output "Permission denied"
		run handle uname="print+$how+errno:13" uname=print+continue \
			-- uname
		expect_output "call uname in 0"
		refute_output "call uname in 1"
		expect_output "Permission denied"
		# After the last one the kernel carries it out.
		run handle uname="$how+continue" uname="$how+continue" \
			-- uname -s
		expect_output Linux
	done
}

@test "row 26: on fork and exec, too" {
	run handle clone=later:20+continue vfork=later:20+continue \
		fork=later:20+continue execve=print+later:20+continue \
		execve=print+continue -- \
		sh -c '/usr/bin/env true && for i in 1 2 3; do (:); done
			echo done'
	expect_output "call execve in 3"
	expect_output "call execve in 4"
	expect_output done
	expect_output "exit 0"
	run handle execve=path:0+later:20+continue execve=continue -- \
		sh -c 'exec /usr/bin/env echo done'
	expect_output "path /usr/bin/env"
	expect_output done
}
