# SEEDS part 3, row 20: the host edits a file during the wait: on the command
# line exit 3, nothing published; --force overwrites. The API's last writer
# wins comes with issue C.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	script 'echo mine >/data/a; echo n >/data/new'
	sandlock run -b "$B" "$N" 2>/dev/null
	echo theirs >"$R/data/a"
	snap_root >"$W/before"
}

teardown() { finish; }

@test "row 20: commit is exit 3 and nothing is published" {
	run sandlock commit "$N"
	expect_status 3
	expect_output "data/a"
	snap_root >"$W/now"
	same "$W/before" "$W/now"
	equal state "$(branch_state "$N")" pending
}

@test "row 20: --force overwrites" {
	run sandlock commit "$N"
	expect_status 3
	run sandlock commit --force "$N"
	expect_status 0
	equal a "$(cat "$R/data/a")" mine
	equal new "$(cat "$R/data/new")" n
	equal state "$(branch_state "$N")" ""
}
