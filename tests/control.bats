# The control socket of host commands: docs/protocol.md, SEEDS rows 8, 22-25,
# 34, 35, 38, 40.
load lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

# serve [OPTION]... -- COMMAND: runs it as $N in the background.
serve() {
	sandlock run --name "$N" "$@" >"$W/out" 2>"$W/err" 3>&- &
	SERVER=$!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
}

unserve() {
	sandlock kill "$N"
	wait "$SERVER" || true
}

# ask TEXT: one request, its answer.
ask() {
	python3 "$TESTS/helpers/control.py" "$SANDLOCK_ROOT/$N/control.sock" \
		"$@"
}

@test "the four verbs, and what is wrong with others" {
	serve --env A=b -- sleep 60
	run ask '{"v":1,"verb":"state"}'
	equal status "$(jq -r .data.status <<<"$output")" running
	run ask '{"v":1,"verb":"ports","args":{}}'
	expect_exactly '{"v":1,"ok":true,"data":{}}'
	run ask '{"v":1,"verb":"config"}'
	equal env "$(jq -c .data.program.env <<<"$output")" '{"A":"b"}'
	run ask '{"v":1,"verb":"frob"}'
	expect_exactly '{"v":1,"ok":false,"err":"unknown verb: frob"}'
	run ask '{"v":9,"verb":"state"}'
	expect_exactly '{"v":1,"ok":false,"err":"unsupported protocol version: 9"}'
	run ask '{"v":1'
	expect_match '^\{"v":1,"ok":false,"err":"parse error: '
	run ask '[]'
	expect_match '"parse error: '
	run ask '{"v":1,"verb":"kill"}'
	expect_exactly '{"v":1,"ok":true,"data":{}}'
	local status=0
	wait "$SERVER" || status=$?
	equal status "$status" 137
	[ ! -e "$SANDLOCK_ROOT/$N" ]
}

@test "inspect: who asks during the start gets what was asked for" {
	local i pid=

	# Stopped before it has a socket, if we are in time.
	for i in $(seq 50); do
		sandlock run --name "$N" -- sleep 60 2>/dev/null 3>&- &
		SERVER=$!
		until { read -r && read -r pid; } <"$SANDLOCK_ROOT/$N/pid"; do
			:
		done 2>/dev/null
		kill -STOP "$pid"
		[ -e "$SANDLOCK_ROOT/$N/control.sock" ] || break
		kill -CONT "$pid"
		unserve
		pid=
	done
	[ "$pid" ] || skip "never in time"
	run sandlock inspect --toml "$N"
	expect_status 1
	expect_output "'$N' is starting"
	sandlock inspect "$N" >"$W/config" 3>&- &
	sleep 0.5
	kill -CONT "$pid"
	wait $!
	equal args "$(jq -c .program.args "$W/config")" '["sleep","60"]'
	unserve
}

@test "a control socket that is there is listened to" {
	command -v strace >/dev/null || skip "strace is not installed"
	strace -qq -o /dev/null -e trace=listen \
		-e inject=listen:delay_enter=1000000 \
		"${RT[@]}" run --name "$N" -- sleep 60 \
		2>/dev/null 3>&- &
	SERVER=$!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
	equal args "$(sandlock inspect "$N" | jq -c .program.args)" \
		'["sleep","60"]'
	unserve
}

@test "ps shows the command, not the pid 1 of ours that it runs under" {
	serve -- sleep 60
	equal command "$(sandlock ps --json |
		jq -r ".sandboxes[] | select(.name == \"$N\").command")" \
		'sleep 60'
	unserve
}

@test "65,536 bytes pass, 65,537 and 4 GiB do not, and the socket keeps serving" {
	serve -- sleep 60
	run ask --pad 65536 '{"v":1,"verb":"ports","args":{"x":"@"}}'
	expect_exactly '{"v":1,"ok":true,"data":{}}'
	run ask --pad 65537 '{"v":1,"verb":"ports","args":{"x":"@"}}'
	expect_output 'request too large (65537 bytes, max 65536)'
	run ask --raw ffffffff
	expect_output 'request too large (4294967295 bytes, max 65536)'
	run ask '{"v":1,"verb":"ports"}'
	expect_exactly '{"v":1,"ok":true,"data":{}}'
	unserve
}

@test "an answer that is too long says so" {
	serve --env "A=$(head -c 70000 /dev/zero | tr '\0' x)" -- sleep 60
	run ask '{"v":1,"verb":"config"}'
	expect_match 'response too large \([0-9]+ bytes, max 65536\)'
	unserve
}

@test "1,000 silent and half-frame clients delay nobody" {
	serve -- sleep 60
	run ask --crowd 1000 '{"v":1,"verb":"ports"}'
	expect_status 0
	expect_output '{"v":1,"ok":true,"data":{}}'
	unserve
}

@test "another uid and a payload are refused" {
	skip_unless_root
	serve -- sleep 60
	run sandlock run --name "$N-2" -r / -- \
		sh -c 'ls "$1"/*/control.sock' - "$SANDLOCK_ROOT"
	refute_output "$N/control.sock"
	run unshare -p -f python3 "$TESTS/helpers/control.py" \
		"$SANDLOCK_ROOT/$N/control.sock" '{"v":1,"verb":"kill"}'
	expect_output 'permission denied'
	chmod 711 "$W" "$SANDLOCK_ROOT" "$SANDLOCK_ROOT/$N"
	chmod 666 "$SANDLOCK_ROOT/$N/control.sock"
	run setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 \
		- "$SANDLOCK_ROOT/$N/control.sock" '{"v":1,"verb":"kill"}' \
		<"$TESTS/helpers/control.py"
	expect_output 'permission denied'
	run ask '{"v":1,"verb":"ports"}'
	expect_output '"ok":true'
	unserve
}

@test "the payload has no descriptor of the socket" {
	serve -- sh -c 'ls -l /proc/self/fd >fds; sleep 60'
	eventually test -s "$W/work/fds" || true
	sandlock diff --patch "$N" >"$W/fds" || true
	! grep -q socket "$W/fds"
	unserve
}

@test "inspect --toml round-trips through run --profile-file, with a socket" {
	serve --env 'A=x "y"' --fs-deny /etc/hostname -t 90 --on-exit=abort -- \
		sleep 60
	sandlock inspect "$N" >"$W/a.json"
	sandlock inspect --toml "$N" >"$W/a.toml"
	sandlock profile check "$W/a.toml"
	unserve
	serve --profile-file "$W/a.toml"
	sandlock inspect "$N" >"$W/b.json"
	cmp "$W/a.json" "$W/b.json"
	unserve
}

@test "inspect --toml means the same in any directory" {
	mkdir -p work/a work/b out "$W/else"
	serve --workdir work -w out -r / -r . -r ./out --fs-mount /m:out:ro \
		--storage "st" -- sleep 60
	sandlock inspect "$N" >"$W/a.json"
	sandlock inspect --toml "$N" >"$W/a.toml"
	equal paths "$(jq -c '[.config.workdir, .config.fs_storage,
		.filesystem.write, .filesystem.read, .filesystem.mount]' \
		"$W/a.json")" "[[\"$PWD/work\"],\"$PWD/st\",[\"$PWD/out\"],[\"/\",\"$PWD\",\"$PWD/out\"],[\"/m:$PWD/out:ro\"]]"
	unserve
	cd "$W/else"
	serve --profile-file "$W/a.toml"
	sandlock inspect "$N" | cmp "$W/a.json" -
	unserve
	cd "$W/work"
	serve -- sleep 60
	sandlock inspect --toml "$N" >"$W/b.toml"
	unserve
	cd "$W/else"
	run sandlock run --profile-file "$W/b.toml" -- pwd
	expect_output "$W/work"
}

@test "inspect names the protections that were waived" {
	serve --disable signal-scope --allow-degraded fs-refer -- sleep 60
	equal waived "$(sandlock inspect "$N" | jq -c .in_force.waived)" \
		'["signal-scope"]'
	unserve
	serve -- sleep 60
	equal waived "$(sandlock inspect "$N" | jq -c .in_force.waived)" '[]'
	unserve
}

@test "no control socket: no directory, not in ps, inspect fails, the branch stays" {
	sandlock run --name "$N" --no-control-socket -- \
		sh -c 'echo x >f; sleep 2' 2>/dev/null 3>&- &
	sleep 1
	[ ! -e "$SANDLOCK_ROOT/$N" ]
	run sandlock ps
	refute_output "$N"
	run sandlock inspect "$N"
	expect_status 1
	expect_output 'does not exist'
	wait $!
	sandlock commit "$N"
	equal f "$(cat f)" x
}

@test "20 stopped supervisors: ps waits for all at once, inspect fails by itself" {
	local i pids=() start
	for i in $(seq 20); do
		sandlock run --port-remap --name "$N-$i" -- sleep 60 2>/dev/null 3>&- &
	done
	for i in $(seq 20); do
		eventually test -S "$SANDLOCK_ROOT/$N-$i/control.sock"
		pids+=("$(sed -n 2p "$SANDLOCK_ROOT/$N-$i/pid")")
	done
	kill -STOP "${pids[@]}"
	start=$(date +%s%N)
	run sandlock ps
	start=$((($(date +%s%N) - start) / 1000000))
	equal lines "$(grep -c "$N-" <<<"$output")" 20
	# One after the other it would be 40 s.
	[ "$start" -lt 20000 ]
	run sandlock inspect "$N-1"
	expect_status 1
	expect_output "did not answer within 2 s"
	kill -CONT "${pids[@]}"
	for i in $(seq 20); do sandlock kill "$N-$i"; done
	wait
}

@test "a runtime directory that cannot be made: run warns and works, create refuses" {
	touch "$W/file"
	run sandlock --root "$W/file/x" run -- echo fine
	expect_status 0
	expect_output fine
	expect_output "cannot make runtime directory"
	equal warnings "$(grep -c 'runtime directory' <<<"$output")" 1
	make_bundle
	run sandlock --root "$W/file/x" create -b "$B" "$N"
	expect_status 1
}
