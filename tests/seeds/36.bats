# SEEDS part 3, row 36: callbacks in Go and Python: modes, panics and exceptions,
# dropped handles, answers from another thread and from asyncio.
load ../lib/common
load ../lib/python
load ../lib/sdk

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

@test "row 36: answers that come later, in Python" {
	python_suite policy.Deferred
}

@test "row 36: Go: both or no mode, a panic, what is dropped" {
	go_sdk
	go test -count=1 -race -timeout 8m -v \
		-run '^(TestPolicyModes|TestPanicDenies|TestDroppedApproval)' \
		. >"$W/said"
	equal passed "$(grep -c '^--- PASS' "$W/said")" 3
}
