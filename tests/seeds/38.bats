# SEEDS part 3, row 38: defer, abort or keep on a stage: exit 78, no stage ran.
load ../lib/common
load ../lib/python

setup() {
	begin
	only_sandlock
	mkdir "$W/dir"
	cd "$W/dir" || return 1
	printf '[program]\nexec = "/bin/touch"\nargs = ["ran"]\n' >"$W/1.toml"
}

teardown() {
	cd / || return 1
	finish
}

@test "row 38: a stage that decides by itself is refused, and none is run" {
	for key in on_exit on_error; do
		for action in defer abort keep; do
			{
				cat "$W/1.toml"
				printf '[filesystem]\n%s = "%s"\n' $key $action
			} >"$W/2.toml"
			run sandlock run --stage "$W/1.toml" --stage "$W/2.toml"
			expect_status 78
			expect_output "stage 2:"
			[ ! -e ran ]
			run sandlock run --stage "$W/2.toml" --stage "$W/1.toml"
			expect_status 78
			expect_output "stage 1:"
			[ ! -e ran ]
			# A store is made when something is written.
			[ -z "$(ls -A "$W/store/branches" 2>/dev/null)" ]
		done
	done
}

@test "row 38: from Python" {
	python_suite branch.Transactions
}
