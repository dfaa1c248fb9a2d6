# SEEDS part 3, row 32: a handler writes child memory in a loop while other
# threads exec: no write gets into a new image, no exec fails, and none is
# delayed by 10 ms, beyond what it takes without the writes. Also with a handler
# of execve, and with a callback that decides about each exec, which closes the
# gate.
load ../lib/common
load ../lib/embed

setup() {
	begin_embed
	cd "$D" || return 1
	${CC:-gcc} -O2 -static -no-pie -pthread -o rewritten \
		"$TESTS/helpers/rewritten.c"
}

teardown() {
	cd / || return 1
	finish
}

median() {
	sed -n 's/.*clean 50 median \([0-9]*\) .*/\1/p' <<<"$output"
}

rewrite() {
	run timeout --foreground -k 5 "$COMMAND_TIMEOUT" "$HELPERS/handle" \
		filesystem.read="$D" "$@" -- "$D/rewritten" 50
	expect_output "exit 0"
	expect_output "clean 50"
	refute_output flood
}

# not_delayed [OPTION]...: a machine that is busy with something else may need
# more than one try.
not_delayed() {
	local try alone

	for try in 1 2 3 4 5; do
		rewrite uname=continue "$@"
		alone=$(median)
		rewrite getpriority=flood:1+return:0 "$@"
		expect_output "called 50"
		[ "$(median)" -ge $((alone + 10000)) ] || return 0
	done
	echo "alone $alone us, with writes: $output" >&2
	return 1
}

@test "row 32: what a handler writes stays in the image that called" {
	not_delayed
	not_delayed execve=continue
	not_delayed policy=allow
}
