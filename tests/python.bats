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

@test "python: the branch, examples, the seeds' rows 1, 7, 13 to 15, 20, 37" {
	python_suite branch
}

@test "python: the cases that C and Go run, too" {
	python_suite cases
}
