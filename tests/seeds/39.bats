# SEEDS part 3, row 39: `run --dry-run` with exit 0 and 3: the list on standard
# error, the status kept, workdir and store unchanged.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
	echo old >kept
	echo old >gone
	sandlock branches >/dev/null
}

teardown() { finish; }

@test "row 39: list on standard error, status kept, nothing changed" {
	for status in 0 3; do
		snap "$W/work" >"$W/before"
		local got=0
		sandlock run --name "$N" --dry-run -- \
			sh -c 'echo newer >kept; rm gone; echo x >f; echo said; exit "$1"' - $status \
			>"$W/out" 2>"$W/err" || got=$?
		equal status $got $status
		equal output "$(cat "$W/out")" said
		equal list "$(sort "$W/err" | tr '\n' ';')" 'A f;D gone;M kept (+2 bytes);'
		snap "$W/work" >"$W/after"
		same "$W/before" "$W/after"
		has_no_branch "$N"
		is_empty "$W/store/branches"
		[ ! -e "$SANDLOCK_ROOT/$N" ]
	done
}

@test "row 39: a usage error together with --on-exit or --on-error" {
	for option in --on-exit=commit --on-error=keep; do
		run sandlock run --dry-run $option -- touch f
		expect_status 125
		expect_output "--dry-run"
		[ ! -e f ]
	done
}
