# SEEDS part 3, row 34: what `inspect --toml` prints, fed back, is an equal
# configuration, and the control socket is on.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work" "$W/data"
	cd "$W/work"
}

teardown() { finish; }

serve() {
	sandlock run --name "$N" "$@" >/dev/null 2>&1 3>&- &
	SERVER=$!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
}

unserve() {
	sandlock kill "$N"
	wait "$SERVER" || true
}

round_trip() {
	serve "$@"
	sandlock inspect "$N" >"$W/a.json"
	sandlock inspect --toml "$N" >"$W/a.toml"
	unserve
	run sandlock profile check "$W/a.toml"
	expect_status 0
	serve --profile-file "$W/a.toml"
	sandlock inspect "$N" >"$W/b.json"
	sandlock inspect --toml "$N" >"$W/b.toml"
	unserve
	same "$W/a.json" "$W/b.json"
	same "$W/a.toml" "$W/b.toml"
}

@test "row 34: with nothing asked for" {
	round_trip -- sleep 1000
}

@test "row 34: with a value for every kind of key" {
	local net=(--net-allow '127.0.0.1:80,443' --net-allow 'udp://10.0.0.0/8:53'
		--net-allow-bind 9000-9005)
	sandlock run --help | grep -q -e --net-allow || net=()
	round_trip --env 'A=x "y" é' --env B= --cwd / --clean-env \
		--fs-read /usr --fs-read /lib --fs-read /lib64 --fs-read "$W/data" --fs-write "$W/data" \
		--fs-deny /etc/hostname --fs-mount "/there:$W/data:ro" \
		--extra-allow-syscall keys --extra-deny-syscall mkdir \
		"${net[@]}" \
		-t 600 -m 512M -P 50 --max-open-files 100 \
		--on-exit=keep --on-error=abort -- sleep 1000
}

@test "row 34: the word config asks for the same" {
	serve -- sleep 1000
	same <(sandlock inspect "$N") <(sandlock config "$N")
	unserve
}

@test "row 34: inspect says what is in force, and what the branch does not cover" {
	skip_unless_root
	mkdir inner
	mount -t tmpfs none inner
	serve -- sleep 1000
	run sandlock inspect "$N"
	unserve
	umount inner
	equal tier "$(jq -r .in_force.tier <<<"$output")" A
	equal namespaces "$(jq -c '.in_force.namespaces - ["cgroup", "ipc", "uts"]' \
		<<<"$output")" '["mount","pid","network"]'
	equal uncovered "$(jq -c .uncovered <<<"$output")" '["inner"]'
	equal connect "$(jq '.in_force.trapped | index("connect") != null' \
		<<<"$output")" true
}

@test "row 34: what an embedder takes away while it runs shows in inspect" {
	[ -x "$HELPERS/policy" ] || skip "make unit-build makes the embedder"
	export SANDLOCK_PROGRAM=$SANDLOCK
	NET_ALLOW=127.0.0.1 ONLY=127.0.0.1:7 "$HELPERS/policy" restrict connect 0 \
		-- bash -c '(: >/dev/tcp/127.0.0.1/9) 2>/dev/null; sleep 1000' \
		>"$W/out" 2>&1 3>&- &
	started $!
	eventually grep -q '^event network connect' "$W/out"
	name=$(sandlock ps --json | jq -r '.sandboxes[0].name')
	taken() {
		[ "$(sandlock inspect "$name" |
			jq -c .in_force.restricted_network)" = "$1" ]
	}
	eventually taken '[{"pid":null,"allow":["127.0.0.1:7"]}]'
	sandlock kill "$name"
}
