# SEEDS part 3, row 15: commit, abort, keep, defer x success, failure: the same
# changes; opened-unwritten is M with content_unchanged; no branch gives an
# empty list.
load ../lib/common
load ../lib/embed
load ../lib/python

setup() { begin_embed; }

teardown() { finish; }

# Every run starts from the same directory.
again() {
	rm -rf "$D"
	mkdir "$D"
	printf 'old\n' >"$D/f"
	printf 'gone\n' >"$D/g"
	printf 'left\n' >"$D/left"
	ln -s f "$D/link"
	mkdir "$D/sub"
	printf 'below\n' >"$D/sub/x"
}

command='echo new >f; : 3>>left; mv g h; ln -sf h link; rm -r sub; mkdir d'

@test "row 15: changes are the same whatever becomes of the branch" {
	for action in commit abort keep defer; do
		pending=0
		[ "$action" != defer ] || pending=1
		for code in 0 3; do
			again
			run embed filesystem.on_exit=$action \
				filesystem.on_error=$action run changes \
				pending -- sh -c "$command; exit $code"
			echo "$output" | grep -e '^change:' -e '^rename:' \
				>"$W/$action.$code"
			[ -s "$W/$action.$code" ]
			same "$W/commit.0" "$W/$action.$code"
			expect_output "pending: $pending"
			[ -z "$(branch_state "$N")" ] || sandlock abort "$N"
		done
	done
	cat >"$W/expected" <<-'END'
		change: A d
		change: M f
		change: D g
		change: A h
		change: M left unchanged
		change: M link -> h
		change: D sub
		change: D sub/x
		rename: g h
	END
	same "$W/expected" "$W/commit.0"
}

@test "row 15: without a branch there are none" {
	run timeout 60 "$HELPERS/embed" config.branch=false capture run changes \
		pending -- echo hi
	expect_output "run: exit 0 none"
	expect_output "out: hi"
	expect_output "pending: 0"
	[[ $output != *change:* ]]
}

@test "row 15: a file that was only opened is in changes, and not in diff" {
	run embed filesystem.on_exit=defer run changes pending \
		-- sh -c ': 3>>f; touch new'
	expect_output "change: M f unchanged"
	run sandlock diff "$N"
	expect_exactly "A new"
	run sandlock commit "$N"
	expect_status 0
}

@test "row 15: from Python" {
	python_suite branch.Row14And15
}
