# SEEDS part 3, row 37: run while pending, commit while running, commit twice,
# abort after commit; an empty deferred run.
load ../lib/common
load ../lib/embed
load ../lib/python

setup() { begin_embed; }

teardown() { finish; }

@test "row 37: a second run while one is pending is refused, without effect" {
	run embed filesystem.on_exit=defer run run pending commit run \
		-- sh -c 'echo x >>f'
	expect_output "run: STATE: the branch of '$N' waits for a decision"
	expect_output "pending: 1"
	expect_output "commit: ok"
	# The first and the third run, then: that one waits.
	equal f "$(cat "$D/f")" "old"$'\n'"x"
	equal state "$(branch_state "$N")" pending
	sandlock abort "$N"
}

@test "row 37: commit and abort before the end are errors, without effect" {
	run embed filesystem.on_exit=defer filesystem.on_error=defer create \
		commit start commit abort upper pending kill wait pending abort \
		-- sh -c 'echo x >f; sleep 1000'
	expect_output "commit: STATE: '$N' has not ended yet"
	expect_output "abort: STATE: '$N' has not ended yet"
	expect_output "upper: STATE:"
	expect_output "pending: 0"
	expect_output "wait: signal 9"
	expect_output "pending: 1"
	expect_output "abort: ok"
	unchanged
}

@test "row 37: commit twice, and abort after commit, are errors" {
	run embed filesystem.on_exit=defer run commit commit abort \
		-- sh -c 'echo new >f'
	expect_output "commit: ok"
	expect_output "commit: STATE: nothing is pending"
	expect_output "abort: STATE: nothing is pending"
	equal f "$(cat "$D/f")" new
	equal state "$(branch_state "$N")" ""
}

@test "row 37: nothing is pending before a run, nor after a commit by itself" {
	run embed commit run commit pending -- sh -c 'echo new >f'
	expect_output "commit: STATE: nothing is pending"
	expect_output "run: exit 0 committed"
	expect_output "pending: 0"
	equal f "$(cat "$D/f")" new
}

@test "row 37: an empty deferred run is pending, and leaves nothing" {
	run embed filesystem.on_exit=defer run changes pending upper commit \
		pending run abort run -- true
	expect_output "run: exit 0 empty"
	expect_output "pending: 1"
	expect_output "/upper"
	expect_output "commit: ok"
	expect_output "abort: ok"
	[[ $output != *change:* ]]
	equal branches "$(ls -A "$W/store/branches")" ""
	unchanged
}

@test "row 37: from Python" {
	python_suite branch.Row37
}
