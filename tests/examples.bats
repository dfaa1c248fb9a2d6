# The examples do what they say.
load lib/common
load lib/embed

setup() {
	begin_embed
	cd "$D" || return 1
}

teardown() {
	cd / || return 1
	finish
}

example() {
	timeout --foreground -k 5 "$COMMAND_TIMEOUT" \
		"$BUILD/examples/$1" "${@:2}"
}

@test "examples: decide commits after a yes, and nothing else" {
	run example decide sh -c 'echo new >f; rm g' <<<n
	expect_status 0
	expect_output "M f"
	expect_output "D g"
	unchanged
	run example decide sh -c 'echo new >f; exit 1'
	expect_status 1
	unchanged
	run example decide sh -c 'echo new >f; rm g' <<<y
	expect_status 0
	equal f "$(cat f)" new
	[ ! -e g ]
	equal branches "$(ls -A "$W/store/branches")" ""
}

@test "examples: stages publish all or nothing" {
	run example stages 'echo one >>f' 'cat f; false' 'touch never'
	expect_status 1
	expect_output "stage 2 failed with 1"
	unchanged
	run example stages 'echo one >>f' 'echo two >>f'
	expect_status 0
	expect_output "2 stages, published"
	equal f "$(tr '\n' ' ' <f)" "old one two "
}

@test "examples: a pipeline of two that see different things" {
	run example pipeline "$D/f"
	expect_status 0
	expect_exactly 1
}

@test "examples: a file that is another one for a command" {
	run example virtual /etc/hostname "not your host" cat /etc/hostname
	expect_status 0
	expect_output "not your host"
	expect_match "[1-9][0-9]* opened"
	run example virtual /etc/hostname "not your host" \
		cmp /etc/passwd /etc/passwd
	expect_status 0
}
