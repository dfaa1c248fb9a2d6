# The Python package as an ordinary user; tests/run starts this file as one.
load lib/common
load lib/python

setup() {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this file as an ordinary user"
	begin
	only_sandlock
	unshare -U true 2>/dev/null || skip "no user namespaces for ordinary users"
}

teardown() { finish; }

@test "rootless python: values, errors, and which names there are" {
	python_suite pure
}

@test "rootless python: runs, streams, threads, asyncio, pipelines" {
	python_suite run
}

@test "rootless python: callbacks that decide about system calls" {
	python_suite policy
}

@test "rootless python: handlers that answer system calls" {
	python_suite handlers
}

@test "rootless python: the branch, examples, the seeds' rows 1, 7, 13 to 15, 20, 37" {
	python_suite branch mcp
}

@test "rootless python: the cases that C and Go run, too" {
	python_suite cases
}
