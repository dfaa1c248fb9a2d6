# Row 6: one connection waits for an answer, another one is let through.
load ../lib/common
load ../lib/asking
load ../lib/running

setup() {
	begin
	only_sandlock
	mkdir "$W/work"
	cp "$TESTS/helpers/net.py" "$W/work"
	cd "$W/work"
}

teardown() { finish; }

listen() {
	/usr/bin/python3 net.py serve tcp "$W/$1" 3>&- &
	started $!
	eventually test -e "$W/$1.port"
	PORT=$(cat "$W/$1.port")
}

# States of all tasks of the sandbox.
states() {
	sandlock ps "$N" -L -o stat= 2>/dev/null
}

@test "06: it completes at once, and nobody is stopped meanwhile" {
	listen a
	ASKED=$PORT
	listen b
	serve --ask-connect "127.0.0.1:$ASKED" --net-allow "127.0.0.1:$PORT" -- \
		sh -c "/usr/bin/python3 -B net.py connect tcp 127.0.0.1 $ASKED &
		sleep 1
		/usr/bin/python3 -B net.py connect tcp 127.0.0.1 $PORT
		echo second; wait"
	wait_for "connect to 127.0.0.1:$ASKED"
	eventually grep -q second "$W/out"
	equal out "$(cat "$W/out")" "$(printf 'ok\nsecond')"
	run states
	refute_output t
	refute_output T
	sandlock approve "$N" "$ID"
	served
	equal out "$(cat "$W/out")" "$(printf 'ok\nsecond\nok')"
}
