# SEEDS part 3, row 36: callbacks in Go and Python: modes, panics and exceptions,
# dropped handles, answers from another thread and from asyncio.
load ../lib/common
load ../lib/python

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

@test "row 36: answers that come later, in Python" {
	python_suite policy.Deferred
}
