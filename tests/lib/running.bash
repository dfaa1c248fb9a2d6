# A command of the host that runs in the background while a test asks about it.
# With WITH=without_cgroups, say, it is started by way of that.

# begin_run [OPTION]... -- COMMAND...: in the background, as $N.
begin_run() {
	$WITH sandlock run --name "$N" --on-exit=abort \
		--on-error=abort "$@" </dev/null >"$W/out" 2>"$W/err" 3>&- &
	runner=$!
	eventually test -e "$W/run/$N/pid"
	eventually has_status "$N" running
	supervisor=$(sed -n 2p "$W/run/$N/pid")
}

is_said() {
	grep -q "$1" "$W/out"
}

end_run() {
	sandlock kill "$N"
	wait $runner || true
}

# ask VERB: the data of the answer.
ask() {
	python3 "$TESTS/helpers/control.py" "$W/run/$N/control.sock" \
		"{\"v\":1,\"verb\":\"$1\"}" | jq -c "if .ok then .data else . end"
}

# A port whose backlog is full: a connect waits for ever.
black_hole() {
	/usr/bin/python3 -c 'import socket, sys, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(0)
full = []
for i in range(4):
    c = socket.socket()
    c.setblocking(False)
    c.connect_ex(s.getsockname())
    full.append(c)
print(s.getsockname()[1], flush=True)
time.sleep(1000)' >"$W/port" 2>&1 3>&- &
	hole=$!
	started $hole
	eventually test -s "$W/port"
	port=$(cat "$W/port")
}

close_hole() {
	[ -z "$hole" ] || kill "$hole"
}
