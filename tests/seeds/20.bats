# SEEDS part 3, row 20: the host edits a file during the wait: on the command
# line exit 3, nothing published; --force overwrites. In the API the last writer
# wins, unless conflicts are to be refused.
load ../lib/common
load ../lib/embed
load ../lib/python

setup() {
	begin_embed
}

bundle_waits() {
	make_bundle
	script 'echo mine >/data/a; echo n >/data/new'
	sandlock run -b "$B" "$N" 2>/dev/null
	echo theirs >"$R/data/a"
	snap_root >"$W/before"
}

teardown() { finish; }

# What waits for a decision has changed f, as has the host meanwhile.
handle_waits() {
	embed_detached filesystem.on_exit=defer run read-line "$@" \
		-- sh -c 'echo mine >f' < <(eventually test -e "$W/go" && echo)
	eventually says "run: exit 0 pending"
	echo theirs >"$D/f"
	touch "$W/go"
	wait "$EMBEDDER"
}

@test "row 20: commit is exit 3 and nothing is published" {
	bundle_waits
	run sandlock commit "$N"
	expect_status 3
	expect_output "data/a"
	snap_root >"$W/now"
	same "$W/before" "$W/now"
	equal state "$(branch_state "$N")" pending
}

@test "row 20: --force overwrites" {
	bundle_waits
	run sandlock commit "$N"
	expect_status 3
	run sandlock commit --force "$N"
	expect_status 0
	equal a "$(cat "$R/data/a")" mine
	equal new "$(cat "$R/data/new")" n
	equal state "$(branch_state "$N")" ""
}

@test "row 20: commit of the API overwrites" {
	handle_waits commit pending
	says "commit: ok"
	says "pending: 0"
	equal f "$(cat "$D/f")" mine
}

@test "row 20: asked to refuse, it publishes nothing and stays pending" {
	handle_waits commit-refuse pending abort
	says "commit-refuse: CONFLICT:"
	says "pending: 1"
	says "abort: ok"
	equal f "$(cat "$D/f")" theirs
}

@test "row 20: from Python" {
	python_suite branch.Row20
}
