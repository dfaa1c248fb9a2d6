# SEEDS part 3, row 1: the Python example of seeds/000 verbatim, no file rule:
# approved, exact bytes in the workdir; refused, bit-identical, no upper left.
load ../lib/common
load ../lib/python

setup() {
	begin
	only_sandlock
}

teardown() { finish; }

@test "row 1: the example, approved and refused" {
	python_suite branch.Row1
}
