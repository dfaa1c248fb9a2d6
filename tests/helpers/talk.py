#!/usr/bin/python3
"""talk.py TCP UDP PORT: each way to say where to go, or where one is.

Connects and sends to those ports of 127.0.0.1, binds PORT there, and prints
what came of each.
"""
import ctypes, os, socket, sys
tcp, udp = int(sys.argv[1]), int(sys.argv[2])
host = "127.0.0.1"

def said(what, function, *args):
    try:
        function(*args)
        how = "ok"
    except OSError as e:
        how = os.strerror(e.errno)
    # In one piece: others write, too.
    os.write(1, ("%s %s\n" % (what, how)).encode())

def send_two(fd):
    libc = ctypes.CDLL(None, use_errno=True)
    name = ctypes.create_string_buffer(
        b"\2\0" + udp.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8), 16)
    data = [ctypes.create_string_buffer(b"mmsg%d" % i, 5) for i in range(2)]
    v, iov = (ctypes.c_uint64 * 16)(), (ctypes.c_uint64 * 4)()
    for i in range(2):
        iov[i * 2:i * 2 + 2] = [ctypes.addressof(data[i]), 5]
        v[i * 8] = ctypes.addressof(name)
        v[i * 8 + 1] = 16
        v[i * 8 + 2] = ctypes.addressof(iov) + i * 16
        v[i * 8 + 3] = 1
    done = 0
    while done < 2:
        n = libc.sendmmsg(fd, ctypes.byref(v, done * 64), 2 - done, 0)
        if n < 0:
            raise OSError(ctypes.get_errno(), "")
        done += n

u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s = socket.socket()
said("connect", s.connect, (host, tcp))
said("sendto", u.sendto, b"to", (host, udp))
said("sendmsg", u.sendmsg, [b"msg"], [], 0, (host, udp))
said("sendmmsg", send_two, u.fileno())
b = socket.socket()
b.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
said("bind", b.bind, (host, int(sys.argv[3])))
said("listen", b.listen)
