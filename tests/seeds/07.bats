# SEEDS part 3, row 7: free, and SIGKILL or _exit of the embedder, while
# pending: workdir unchanged, `branches` lists it, a later commit is exact.
load ../lib/common
load ../lib/embed
load ../lib/python

setup() { begin_embed; }

teardown() { finish; }

# What the command did, from another process.
commits_exactly() {
	unchanged || return 1
	equal state "$(branch_state "$N")" pending || return 1
	run sandlock commit "$N"
	expect_status 0 || return 1
	equal f "$(cat "$D/f")" new || return 1
	equal names "$(ls "$D" | tr '\n' ' ')" "f h " || return 1
	equal state "$(branch_state "$N")" ""
}

change='echo new >f; rm g; echo more >h'

@test "row 7: freeing a pending handle keeps the branch" {
	run embed filesystem.on_exit=defer run pending -- sh -c "$change"
	expect_output "run: exit 0 pending"
	expect_output "pending: 1"
	commits_exactly
}

@test "row 7: so does _exit of the embedder" {
	run embed filesystem.on_exit=defer run quit -- sh -c "$change"
	expect_output "run: exit 0 pending"
	commits_exactly
}

@test "row 7: so does SIGKILL of it" {
	embed_detached filesystem.on_exit=defer run hang -- sh -c "$change"
	eventually says "run: exit 0 pending"
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	commits_exactly
}

@test "row 7: SIGKILL while the command runs ends it, and keeps the branch" {
	embed_detached create start pid wait -- \
		sh -c "$change; touch there; exec sleep 1000"
	eventually says "pid: "
	pid=$(sed -n 's/^pid: //p' "$W/said")
	eventually sandlock diff "$N"
	eventually test -e "$(branch_dir)/upper/there"
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually is_gone "$pid"
	eventually has_branch_state "$N" pending
	unchanged
	run sandlock diff "$N"
	expect_output "M f"
	expect_output "D g"
	run sandlock abort "$N"
	expect_status 0
	unchanged
}

@test "row 7: also where a child of the embedder lives on" {
	embed_detached fork create start pid wait -- sleep 1000
	eventually says "pid: "
	pid=$(sed -n 's/^pid: //p' "$W/said")
	for child in $(pgrep -P "$EMBEDDER" embed); do
		started "$child"
	done
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually is_gone "$pid"
}

@test "row 7: what was created and never started leaves nothing" {
	embed_detached create hang -- sh -c "$change"
	eventually says "create: ok"
	kill -KILL "$EMBEDDER"
	wait "$EMBEDDER" || true
	eventually has_no_branch "$N"
	unchanged
	run embed create -- true
	expect_output "create: ok"
}

@test "row 7: with exit, a dropped object, os._exit and SIGKILL, from Python" {
	python_suite branch.Row7
}
