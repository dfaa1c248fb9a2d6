# SEEDS part 3, row 2: a run that writes f and removes g, then from another
# process diff and commit; the same with abort: exactly the merged tree; the
# old tree, times included. Host commands (`run -- CMD`) come with the
# supervisor; here it is a bundle.
load ../lib/common

setup() {
	begin
	only_sandlock
	make_bundle
	echo g >"$R/data/g"
	touch -d '2020-02-02 02:02:02.5' "$R/data/g" "$R/data"
	snap_root >"$W/old"
	script 'echo f >/data/f; rm /data/g; snap -x proc -x dev -x sys /'
	sandlock run -b "$B" "$N" >"$W/merged" 2>/dev/null
}

teardown() { finish; }

@test "row 2: diff and commit from another process give exactly the merged tree" {
	run setsid "$SANDLOCK" diff --name-status "$N"
	expect_exactly $'D\tdata/g\nA\tdata/f'
	run setsid "$SANDLOCK" commit "$N"
	expect_status 0
	snap_root >"$W/now"
	same "$W/merged" "$W/now"
	equal branches "$(branches_json | jq length)" 0
}

@test "row 2: abort from another process leaves the old tree, times included" {
	run setsid "$SANDLOCK" abort "$N"
	expect_status 0
	snap_root >"$W/now"
	same "$W/old" "$W/now"
	equal branches "$(branches_json | jq length)" 0
	equal store "$(ls -A "$W/store/branches")" ""
}
