# SEEDS part 3, row 35: no control socket: no directory, not in ps, inspect
# fails clearly; its branch can be committed later.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

hidden() {
	mkfifo "$W/go"
	sandlock run --name "$N" --fs-write "$W/go" "$@" -- \
		sh -c 'echo x >f; echo up; read x <"$1"' - "$W/go" \
		>"$W/out" 2>"$W/err" 3>&- &
	RUN=$!
	eventually grep -q up "$W/out"
}

check_hidden() {
	[ ! -e "$SANDLOCK_ROOT/$N" ]
	run sandlock ps
	refute_output "$N"
	run sandlock inspect "$N"
	expect_status 1
	expect_output "does not exist"
	run sandlock kill "$N"
	expect_status 1
	echo >"$W/go"
	wait $RUN
	equal state "$(branch_state "$N")" pending
	sandlock commit "$N"
	equal f "$(cat f)" x
}

@test "row 35: --no-control-socket" {
	hidden --no-control-socket
	check_hidden
}

@test "row 35: control_socket = false in a profile" {
	printf '[program]\ncontrol_socket = false\n' >"$W/p.toml"
	hidden --profile-file "$W/p.toml"
	check_hidden
}

# What every verb says of one that is alive.
expect_told() {
	expect_output "it runs without a control socket: end its command itself, or wait; its first process is $1"
	refute_output "has ended"
	refute_output "sandlock kill"
	refute_output "commit or abort"
}

@test "row 35: no verb takes a live one for ended, or names a verb that cannot end it" {
	local pid verb

	hidden --no-control-socket
	pid=$(jq .init_pid "$(branch_dir "$N")/meta.json")
	for verb in inspect kill state commit abort; do
		run sandlock "$verb" "$N"
		expect_status 1
		expect_told "$pid"
	done
	equal listed "$(sandlock ps -a --json | jq -c --arg n "$N" \
		'.sandboxes[] | select(.name == $n) | [.status, .pid, .branch]')" \
		"[\"running\",$pid,\"open\"]"
	run sandlock run --name "$N" --no-control-socket -- true
	expect_status 125
	expect_output "the name '$N' is taken by a running sandbox"
	expect_told "$pid"
	kill "$pid"
	wait "$RUN" || status=$?
	expect_status 143
	equal state "$(branch_state "$N")" pending
	run sandlock kill "$N"
	expect_status 1
	expect_output "it has ended, and left a branch"
	equal ended "$(sandlock ps -a --json | jq -c --arg n "$N" \
		'.sandboxes[] | select(.name == $n) | [.status, .pid]')" '["ended",0]'
}

@test "row 35: one with a control socket keeps its name, and can be killed by it" {
	hidden
	run sandlock run --name "$N" --no-control-socket -- true
	expect_status 125
	expect_output "'sandlock kill $N' ends it"
	refute_output "commit or abort"
	# Of another runtime directory nothing else is known.
	mkdir "$W/elsewhere"
	run sandlock --root "$W/elsewhere" kill "$N"
	expect_status 1
	expect_output "it runs, but not below this runtime directory; its first process is"
	sandlock kill "$N"
	wait "$RUN" || true
	run sandlock run --name "$N" -- true
	expect_output "commit or abort it first"
}

@test "row 35: the name is not free for another" {
	hidden --no-control-socket
	run sandlock run --name "$N" -- true
	expect_status 125
	echo >"$W/go"
	wait $RUN
	run sandlock run --name "$N" -- true
	expect_status 125
	expect_output "commit or abort it first"
	sandlock abort "$N"
}
