# SEEDS part 3, row 9: an allow after restrict_network took that destination
# away: the connect fails and the listener sees nothing. sendmmsg with one bad
# destination: that one is not sent.
load ../lib/common
load ../lib/embed
load ../lib/net

setup() {
	begin_embed
	cp "$TESTS/helpers/net.py" "$D"
	cd "$D" || return 1
}

teardown() {
	cd "$W" || return 1
	finish
}

@test "row 9: what was taken away is not reached by an allow that comes after" {
	host_server a tcp
	NET_ALLOW=127.0.0.1 run timeout --foreground "$COMMAND_TIMEOUT" \
		"$HELPERS/policy" restrict connect 0 -- bash -c \
		"(: >/dev/tcp/127.0.0.1/$PORT) 2>&1; echo connect-\$?"
	expect_output "restricted 0"
	expect_output "Connection refused"
	expect_output connect-1
	came a 0
}

@test "row 9: of several messages the one that goes elsewhere is not sent" {
	host_server good udp
	good=$PORT
	host_server bad udp
	bad=$PORT
	cat >send.py <<-'END'
		import ctypes, socket, struct, sys
		class Iovec(ctypes.Structure):
		    _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]
		class Message(ctypes.Structure):
		    _fields_ = [("name", ctypes.c_char_p), ("name_len", ctypes.c_uint),
		                ("iov", ctypes.POINTER(Iovec)), ("n", ctypes.c_size_t),
		                ("control", ctypes.c_void_p), ("len", ctypes.c_size_t),
		                ("flags", ctypes.c_size_t), ("sent", ctypes.c_uint)]
		s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		v = (Message * 3)()
		for m, port in zip(v, sys.argv[1:]):
		    m.name = struct.pack("=HHI8x", 2, socket.htons(int(port)), 0x100007f)
		    m.name_len, m.n = 16, 1
		    m.iov = ctypes.pointer(Iovec(b"x", 1))
		libc = ctypes.CDLL(None, use_errno=True)
		print(libc.sendmmsg(s.fileno(), v, 3, 0))
		print(libc.sendmmsg(s.fileno(), ctypes.byref(v, ctypes.sizeof(Message)),
		                    2, 0), ctypes.get_errno())
	END
	run sandlock run --on-exit=abort --on-error=abort \
		--net-allow "127.0.0.1:$good" -- \
		/usr/bin/python3 -B send.py "$good" "$bad" "$good"
	expect_output "1
-1 111"
	patiently came good 1
	came bad 0
}
