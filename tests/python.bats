# The Python package, sdk/python, against the library that was built.
load lib/common
load lib/python

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

@test "python: structures are laid out as in the header" {
	python_suite layout
}

@test "python: values, errors, and which names there are" {
	python_suite pure
}

@test "python: runs, streams, threads, asyncio, pipelines" {
	python_suite run
}

@test "python: callbacks that decide about system calls" {
	python_suite policy.Verdicts policy.Questions
}

# The other tests of the branch are rows of tests/seeds.
@test "python: the branch from threads and by name, examples" {
	python_suite branch.Threads branch.Stored branch.Examples branch.Mcp
}

@test "python: the cases that C and Go run, too" {
	python_suite cases
}
