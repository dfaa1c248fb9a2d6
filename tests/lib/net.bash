# Servers of the host and commands that talk to them (tests/helpers/net.py).
# setup copies net.py to the current directory.

# Within a minute: a loaded machine is no failure.
patiently() {
	local i

	for ((i = 0; i < 1200; i++)); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	echo "never came true: $*" >&2
	return 1
}

# host_server NAME TYPE: its port in $PORT, its visitors in $W/NAME.log.
host_server() {
	/usr/bin/python3 net.py serve "$2" "$W/$1" 3>&- &
	started $!
	patiently test -e "$W/$1.port"
	PORT=$(cat "$W/$1.port")
}

# came NAME N: so many have come to it.
came() {
	[ "$(wc -l <"$W/$1.log")" -eq "$2" ]
}

# says_hello PORT: somebody of `net.py listen` is there.
says_hello() {
	[ "$(/usr/bin/python3 -c "import socket
print(socket.create_connection(('127.0.0.1', $1), 30).recv(9).decode(), end='')")" = hello ]
}

# For talk.py, with servers of the host at ports $TCP and $UDP.
begin_talk() {
	cp "$TESTS/helpers/net.py" "$TESTS/helpers/talk.py" .
	host_server a tcp
	TCP=$PORT
	host_server b udp
	UDP=$PORT
}
