# Bundles as the stages of a transaction: several programs over one branch of a
# root file system, all or nothing. rootless_bundle_stages.bats is a link.
load lib/common

setup() {
	begin
	only_sandlock
	if [ "$(id -u)" -ne 0 ]; then
		PATH=$PATH:/usr/sbin:/sbin
		ROOTLESS=1
		unshare -U true 2>/dev/null ||
			skip "no user namespaces for ordinary users"
	fi
	make_bundle
	mkdir "$W/other"
	jq --arg root "$R" '.root.path = $root | .hostname = "other"' \
		"$B/config.json" >"$W/other/config.json"
	snap_root >"$W/old"
}

teardown() { finish; }

unchanged() {
	snap_root >"$W/now"
	same "$W/old" "$W/now"
	equal branches "$(ls -A "$SANDLOCK_STORE/branches")" ""
}

# stage NUMBER BUNDLE SCRIPT
stage() {
	printf '[program]\nbundle = "%s"\nargs = ["sh", "-c", "%s"]\n' \
		"$2" "$3" >"$W/$1.toml"
}

stages() {
	run sandlock run --name "$N" --stage "$W/1.toml" --stage "$W/2.toml" "$@"
}

@test "bundle stages: each sees what was written before it, and all is published" {
	stage 1 "$B" 'echo one >/data/n; rm /data/b; mkdir /data/e; mv /data/a /data/e'
	stage 2 "$W/other" 'hostname; cat /data/n; ls /data; echo two >>/data/n; rm /data/e/a'
	stages
	expect_status 0
	expect_output $'other\none\n'
	[[ $output != *$'\nb\n'* ]]
	equal n "$(tr '\n' ' ' <"$R/data/n")" "one two "
	[ ! -e "$R/data/b" ]
	is_empty "$R/data/e"
	equal branches "$(ls -A "$SANDLOCK_STORE/branches")" ""
}

@test "bundle stages: one that fails discards all, with its status" {
	stage 1 "$B" 'echo one >/data/n; rm /data/b'
	stage 2 "$B" 'cat /data/n; rm /data/n; exit 42'
	stages
	expect_status 42
	expect_output one
	expect_output "stage 2 failed: nothing of '$N' is published"
	unchanged
}

@test "bundle stages: with savepoints what came before waits, or is tried again" {
	stage 1 "$B" 'echo one >/data/n; rm /data/b'
	stage 2 "$B" 'rm /data/n; exit 42'
	stages --keep-stages
	expect_status 42
	run sandlock diff --name-status "$N"
	expect_exactly $'D\tdata/b\nA\tdata/n'
	sandlock commit "$N"
	equal n "$(cat "$R/data/n")" one
	[ ! -e "$R/data/b" ]
	stage 1 "$B" 'echo more >>/data/n'
	stage 2 "$B" 'echo try >>/data/n; exit 1'
	stages --stage-retries 2
	expect_status 1
	equal n "$(cat "$R/data/n")" one
	equal branches "$(ls -A "$SANDLOCK_STORE/branches")" ""
}

@test "bundle stages: what does not fit together is refused, and all is discarded" {
	stage 1 "$B" 'echo one >/data/n'
	cp -a "$R" "$W/copy"
	jq --arg root "$W/copy" '.root.path = $root' "$B/config.json" \
		>"$W/other/config.json"
	stage 2 "$W/other" true
	stages
	expect_status 70
	expect_output "all stages have the root file system of the first one, '$R', not '$W/copy'"
	unchanged
	jq --arg root "$R" '.root.path = $root | .root.readonly = true' \
		"$B/config.json" >"$W/other/config.json"
	stages
	expect_status 70
	expect_output "a stage needs a branch, and the root file system of '$W/other' is read-only"
	unchanged
	jq --arg root "$R" '.root.path = $root
		| .annotations["io.sandlock.branch"] = "none"' \
		"$B/config.json" >"$W/other/config.json"
	stages
	expect_status 70
	expect_output "a stage needs a branch, and an annotation of '$W/other' asks for none"
	unchanged
	stage 2 "$W/nothing" true
	stages
	expect_status 70
	expect_output "$W/nothing"
	unchanged
	printf '[program]\nexec = "/bin/true"\n' >"$W/2.toml"
	stages
	expect_output "either all stages are bundles, over the same root file system, or none is"
	unchanged
}

# Root's branch is mounted in root's own user namespace.
@test "bundle stages: an ordinary user's all have the ids of the first one" {
	[ "$(id -u)" -ne 0 ] || skip "tests/run runs this as an ordinary user"
	grep -q "^$(id -un):" /etc/subuid || skip "no subordinate ids"
	stage 1 "$B" 'echo one >/data/n'
	jq --arg root "$R" '.root.path = $root
		| .linux.uidMappings[-1].size -= 1' \
		"$B/config.json" >"$W/other/config.json"
	stage 2 "$W/other" true
	stages
	expect_status 70
	expect_output "all stages have the linux.uidMappings and gidMappings of the first one"
	unchanged
}
