# SEEDS part 3, row 33: with --port-remap two sandboxes bind 8080: `ports` and
# PORTS show the live real ports, and the host can connect; gone when closed or
# killed; tcp and udp are distinct.
load ../lib/common
load ../lib/net

setup() {
	begin
	only_sandlock
	mkdir "$W/dir"
	cp "$TESTS/helpers/net.py" "$W/dir"
	cd "$W/dir" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

# server NAME WORD...: net.py in a sandbox with remapped ports.
server() {
	local name=$1

	shift
	sandlock run --on-exit=abort --on-error=abort --name "$name" \
		--port-remap -w "$W" -- /usr/bin/python3 -B net.py "$@" \
		>"$W/$name.out" 2>&1 </dev/null 3>&- &
	started $!
}

# The real port behind KEY of sandbox NAME.
real() {
	sandlock ports "$1" --format json | jq -r --arg k "$2" '.[$k] // ""'
}

column() {
	sandlock ps --format json | jq -r --arg n "$1" \
		'(if type == "array" then . else .sandboxes end)[] |
		select(.name == $n) | .ports'
}

nobody_there() {
	! says_hello "$1" 2>/dev/null
}

@test "row 33: two sandboxes bind 8080, each has a port of the host" {
	server one listen 8080 "$W/one.up"
	server two listen 8080 "$W/two.up"
	patiently test -e "$W/one.up"
	patiently test -e "$W/two.up"
	# To themselves it is the port they asked for.
	grep -qx 'ok 8080' "$W/one.out"
	grep -qx 'ok 8080' "$W/two.out"
	a=$(real one 8080)
	b=$(real two 8080)
	[ -n "$a" ] && [ -n "$b" ] && [ "$a" != "$b" ]
	says_hello "$a"
	says_hello "$b"
	[[ $(column one) == *8080*"$a"* ]]
	[[ $(column two) == *8080*"$b"* ]]
	sandlock kill one
	patiently nobody_there "$a"
	says_hello "$b"
	sandlock kill two
	[ -z "$(column two)" ]
}

@test "row 33: tcp and udp are distinct, and gone when they are closed" {
	cat >two.py <<-END
		import os, socket
		t = socket.socket()
		t.bind(("127.0.0.1", 53))
		t.listen()
		u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		u.bind(("127.0.0.1", 53))
		def wait(name):
		    open("$W/" + name, "w")
		    while not os.path.exists("$W/after-" + name):
		        os.sched_yield()
		wait("both")
		t.close()
		wait("udp")
		u.close()
		wait("none")
	END
	sandlock run --on-exit=abort --on-error=abort --name "$N" --port-remap \
		-w "$W" -- /usr/bin/python3 -B two.py >"$W/out" 2>&1 \
		</dev/null 3>&- &
	started $!
	patiently test -e "$W/both"
	tcp=$(real "$N" 53)
	udp=$(real "$N" 53/udp)
	[ -n "$tcp" ] && [ -n "$udp" ]
	touch "$W/after-both"
	patiently test -e "$W/udp"
	equal tcp "$(real "$N" 53)" ""
	equal udp "$(real "$N" 53/udp)" "$udp"
	touch "$W/after-udp"
	patiently test -e "$W/none"
	equal ports "$(sandlock ports "$N" --format json | jq -c .)" "{}"
	touch "$W/after-none"
}
