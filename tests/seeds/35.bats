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
	run sandlock ps -a
	refute_output " running"
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
