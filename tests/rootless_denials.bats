# What was refused, why, and what would allow it, for an ordinary user.
load lib/common

setup() {
	begin
	mkdir "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "denials: an ordinary user's record: calls, connections, files" {
	echo secret >"$W/far"
	run sandlock run --name "$N" --explain -- sh -c 'echo x >f
		unshare -m true; cat "$1/far"; touch /usr/new
		/usr/bin/python3 -c "import socket; socket.create_connection((\"192.0.2.1\", 9))"
		exit 3' - "$W"
	expect_status 3
	run sandlock logs --json "$N"
	equal codes "$(jq -c '.denials | map([.code, .errno])' <<<"$output")" \
		'[["syscall.namespace","EPERM"],["fs.read_file","ENOENT"],["fs.write_file","EROFS"],["net.connect","ENETUNREACH"]]'
	# What he may not write himself no option allows.
	equal remedies "$(jq -c '.denials | map(.remedy)' <<<"$output")" \
		"[null,\"--fs-mount $W/far:$W/far:ro\",null,\"--net-allow 192.0.2.1:9\"]"
}

@test "denials: why looks into a sandbox of an ordinary user" {
	touch here
	sandlock run --name "$N" -- sleep 1000 >/dev/null 2>&1 3>&- &
	started $!
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
	run sandlock why "$N" ./here
	expect_status 0
	expect_output "it goes to the branch"
	run sandlock why "$N" /etc/passwd
	expect_status 1
	expect_output "write /etc/passwd: no"
	refute_output "to allow"
	run sandlock why "$N" ptrace
	expect_status 1
	sandlock kill "$N"
}
