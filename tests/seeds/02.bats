# SEEDS part 3, row 2: a run that writes f and removes g, then from another
# process diff and commit; the same with abort: exactly the merged tree; the
# old tree, times included: for a bundle, and for a host command over several
# directories.
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

host_command() {
	mkdir -p "$W/h/one" "$W/h/two"
	cp "$SNAP" "$W/h/two/snap"
	echo g >"$W/h/two/g"
	find "$W/h" -exec touch -d '2020-02-02 02:02:02.5' {} +
	snap "$W/h" >"$W/old"
	run --separate-stderr sandlock run --name c1 --workdir "$W/h/one" \
		--workdir "$W/h/two" -- sh -c "echo f >f; rm ../two/g
			../two/snap $W/h/one; ../two/snap $W/h/two"
	expect_status 0
	echo "$output" >"$W/merged"
}

@test "row 2: a host command over two directories, diff and commit" {
	host_command
	run setsid "$SANDLOCK" diff --name-status c1
	expect_exactly "D	$W/h/two/g
A	$W/h/one/f"
	run setsid "$SANDLOCK" commit c1
	expect_status 0
	{ snap "$W/h/one"; snap "$W/h/two"; } >"$W/now"
	same "$W/merged" "$W/now"
}

@test "row 2: a host command over two directories, abort" {
	host_command
	run setsid "$SANDLOCK" abort c1
	expect_status 0
	snap "$W/h" >"$W/now"
	same "$W/old" "$W/now"
	sandlock abort "$N"
	equal store "$(ls -A "$W/store/branches")" ""
}
