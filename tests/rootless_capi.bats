# Sandboxes as objects, for an ordinary user.
load lib/common
load lib/embed

setup() { begin_embed; }

teardown() { finish; }

@test "capi: an ordinary user runs and decides" {
	run embed capture run changes -- sh -c 'id -u; echo new >f; mv g h'
	expect_output "run: exit 0 committed"
	expect_output "out: $(id -u)"
	expect_output "change: M f"
	expect_output "rename: g h"
	equal f "$(cat "$D/f")" new
	equal owner "$(stat -c %u "$D/h")" "$(id -u)"
	run embed filesystem.on_exit=defer run pending upper commit pending \
		-- sh -c 'mkdir -m 700 d; touch d/x; chmod 0 h'
	expect_output "run: exit 0 pending"
	expect_output "/upper"
	expect_output "commit: ok"
	equal mode "$(stat -c %a "$D/d" "$D/h" | tr '\n' ' ')" "700 0 "
}

@test "capi: what an ordinary user's embedder leaves running is killed, and kept" {
	embed_detached create start pid wait -- \
		sh -c 'echo new >f; touch there; exec sleep 1000'
	eventually says "pid: "
	pid=$(sed -n 's/^pid: //p' "$W/said")
	eventually sandlock diff "$N"
	is_there() { test -e "$(branch_dir)/upper/there"; }
	eventually is_there
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually is_gone "$pid"
	eventually has_branch_state "$N" pending
	unchanged
	sandlock abort "$N"
}

@test "transaction: an ordinary user's stages are all or nothing" {
	cd "$D" || return 1
	printf '[program]\nexec = "/bin/sh"\nargs = ["-c", "echo one >>f; chmod 700 ."]\n' \
		>"$W/1.toml"
	printf '[program]\nexec = "/bin/sh"\nargs = ["-c", "cat f; exit 3"]\n' \
		>"$W/2.toml"
	run sandlock run --stage "$W/1.toml" --stage "$W/2.toml"
	expect_status 3
	expect_output one
	unchanged
	run sandlock run --stage "$W/1.toml" --stage "$W/1.toml"
	expect_status 0
	equal f "$(tr '\n' ' ' <f)" "old one one "
	equal branches "$(ls -A "$W/store/branches")" ""
}
