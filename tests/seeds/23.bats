# SEEDS part 3, row 23: 1,000 silent, slow and half-frame clients, and a frame of
# 4 GiB: another client is answered, and the sandbox is not slowed.
load ../lib/common

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cd "$W/work"
}

teardown() { finish; }

ask() {
	python3 "$TESTS/helpers/control.py" "$SANDLOCK_ROOT/$N/control.sock" \
		"$@"
}

@test "row 23: 1,000 clients that stall, and one is answered at once" {
	sandlock run --name "$N" -- sh -c \
		'while :; do unshare -m 2>/dev/null; echo . >>ticks; done' \
		>/dev/null 2>&1 3>&- &
	eventually test -S "$SANDLOCK_ROOT/$N/control.sock"
	# Prints the answer only if it came within the time of a connection.
	run ask --crowd 1000 '{"v":1,"verb":"ports"}'
	expect_status 0
	expect_output '{"v":1,"ok":true,"data":{}}'
	run ask --raw ffffffff
	expect_output 'request too large (4294967295 bytes, max 65536)'
	# The sandbox goes on meanwhile, trapped calls included.
	python3 - "$SANDLOCK_ROOT/$N/control.sock" <<-'END' 3>&- &
		import socket, sys, time
		crowd = []
		while True:
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(sys.argv[1])
		    crowd.append(s)
		    try:
		        s.sendall([b"", b"\0\0", b"\0\0\1\0{"][len(crowd) % 3])
		    except OSError:
		        pass
		    if len(crowd) > 200:
		        crowd.pop(0).close()
		    time.sleep(0.001)
	END
	started $!
	count() { sandlock logs --json "$N" | jq '.denials[0].count'; }
	before=$(count)
	more() { [ "$(count)" -gt $((before + 200)) ]; }
	eventually more
	sandlock kill "$N"
}

@test "row 23: so it is for a created bundle, whose renames go on" {
	make_bundle
	script 'mkdir /data/d; while :; do mv /data/d /data/e; mv /data/e /data/d; done'
	create_running "$N"
	renames() {
		ask '{"v":1,"verb":"calls"}' | jq '.data | add'
	}
	run ask --crowd 1000 '{"v":1,"verb":"ports"}'
	expect_status 0
	expect_output '{"v":1,"ok":true,"data":{}}'
	run ask --raw ffffffff
	expect_output 'request too large (4294967295 bytes, max 65536)'
	before=$(renames)
	more() { [ "$(renames)" -gt $((before + 200)) ]; }
	eventually more
	sandlock kill "$N"
}
