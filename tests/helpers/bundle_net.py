#!/usr/bin/python3
"""Network calls inside of a bundle: what came of each, a line each, so that a
run that is judged can be compared with one that is not. TCP ports are free ones
of the bundle's own network namespace.

    all             every kind of socket
    to HOST PORT    connects, "ok" or the name of the errno
    changed FILE    connects a socket to 127.0.0.2:12; once FILE is there another
                    address and another socket are in their places
"""
import array
import ctypes
import errno
import os
import signal
import socket
import struct
import sys
import threading
import time

from net import outcome


def say(what, *words):
    print(what, *words, flush=True)


def peer(s):
    pid, uid, gid = struct.unpack("3i", s.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, gid


def tcp():
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    say("bind", outcome(server.bind, ("127.0.0.1", 7001)))
    server.listen(4)
    c = socket.socket()
    say("connect", outcome(c.connect, ("127.0.0.1", 7001)))
    say("again", outcome(c.connect, ("127.0.0.1", 7001)))
    a = server.accept()[0]
    say("sent", c.sendmsg([b"ab", b"cd"]), a.recv(10))
    a.close()
    server.close()
    say("refused", outcome(socket.socket().connect, ("127.0.0.1", 7001)))
    s = socket.socket()
    s.setblocking(False)
    say("nonblocking", outcome(s.connect, ("127.0.0.1", 7001)))
    s = socket.socket(socket.AF_INET6)
    say("six", outcome(s.bind, ("::1", 7006)))
    say("elsewhere", outcome(socket.socket().bind, ("192.0.2.7", 7007)))
    say("low", outcome(socket.socket().bind, ("127.0.0.1", 80)))


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint32),
                ("iov", ctypes.c_void_p), ("n_iov", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_len", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("pad", ctypes.c_int),
                ("sent", ctypes.c_uint32), ("pad2", ctypes.c_int)]


def send_many(fd, n, address):
    name = ctypes.create_string_buffer(address, len(address))
    text = ctypes.create_string_buffer(b"many", 4)
    iov = (ctypes.c_size_t * 2)(ctypes.addressof(text), 4)
    v = (Message * n)()
    for m in v:
        m.name, m.name_len = ctypes.addressof(name), len(address)
        m.iov, m.n_iov = ctypes.addressof(iov), 1
    libc = ctypes.CDLL(None, use_errno=True)
    done = 0
    while done < n:
        more = libc.sendmmsg(fd, ctypes.byref(v, done * ctypes.sizeof(Message)),
                             n - done, 0)
        if more <= 0:
            return errno.errorcode[ctypes.get_errno()]
        done += more
    return [m.sent for m in v]


def udp():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 7002))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.sendto(b"one", ("127.0.0.1", 7002))
    s.sendmsg([b"t", b"wo"], [], 0, ("127.0.0.1", 7002))
    address = struct.pack("=HH4s8x", 2, socket.htons(7002), b"\x7f\0\0\1")
    say("many", send_many(s.fileno(), 2, address))
    s.connect(("127.0.0.1", 7002))
    s.send(b"connected")
    say("got", [server.recv(20) for i in range(5)])


def pass_things(kind, a, b):
    b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    r, w = os.pipe()
    ids = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
    say(kind, "passes", outcome(a.sendmsg, [b"x"], [
        (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [w])),
        (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, ids)]))
    data, control, flags, _ = b.recvmsg(10, 200)
    for level, what, value in sorted(control):
        if what == socket.SCM_RIGHTS:
            os.write(array.array("i", value)[0], b"through")
            say(kind, "fd", os.read(r, 10))
        else:
            say(kind, "ids", struct.unpack("3i", value)[1:])
    ids = struct.pack("3i", os.getpid(), 4321, 0)
    say(kind, "lies", outcome(a.sendmsg, [b"x"], [
        (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, ids)]))


def unix(kind, name):
    server = socket.socket(socket.AF_UNIX, kind)
    say("unix", outcome(server.bind, name))
    server.listen(1)
    if name[0] == "/":
        say("mode", oct(os.lstat(name).st_mode), os.lstat(name).st_uid)
    c = socket.socket(socket.AF_UNIX, kind)
    say("connect", outcome(c.connect, name))
    a = server.accept()[0]
    say("peer", peer(a), peer(c))
    pass_things("unix", c, a)
    server.close()
    say("gone", outcome(socket.socket(socket.AF_UNIX, kind).connect, name))


def unix_paths():
    os.chdir("/tmp")
    os.mkdir("closed", 0o700)
    os.mkdir("closed/d")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    say("relative", outcome(s.bind, "closed/s"), outcome(s.bind, "x"))
    c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    say("to", outcome(c.sendto, b"one", "closed/s"), s.recv(5))
    c.connect("/tmp/closed/d/../s")
    say("send", outcome(c.send, b"two"), s.recv(5))
    pass_things("datagram", c, s)
    os.chmod("closed/s", 0)
    say("not writable", outcome(c.sendto, b"x", "closed/s"),
        outcome(c.connect, "/tmp/closed/s"))
    say("no socket", outcome(c.connect, "/etc/passwd"),
        outcome(c.connect, "/none"), outcome(c.connect, "/proc/none"))
    say("there", outcome(socket.socket(socket.AF_UNIX).bind, "/etc/passwd"))


def pair():
    a, b = socket.socketpair()
    say("pair", a.sendmsg([b"pair"]), b.recv(9))
    pass_things("pair", a, b)
    big = b"x" * (1 << 20)
    t = threading.Thread(target=lambda: a.sendmsg([big]) and a.close())
    t.start()
    n = 0
    while True:
        data = b.recv(65536)
        if not data:
            break
        n += len(data)
    t.join()
    say("big", n > 65536)
    b.close()


def netlink():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    say("netlink", outcome(s.bind, (0, 0)))
    # RTM_GETLINK, a dump.
    s.sendto(struct.pack("=IHHIIBxHiII", 32, 18, 0x301, 1, 0, 0, 0, 0, 0, 0),
             (0, 0))
    say("links", struct.unpack_from("=IH", s.recv(65536))[1])
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    # RTM_NEWLINK: the loopback is up, with an acknowledgement.
    s.sendto(struct.pack("=IHHIIBxHiII", 32, 16, 5, 1, 0, 0, 0, 1, 1, 1),
             (0, 0))
    kind, error = struct.unpack_from("=4xH10xi", s.recv(65536))
    say("change", kind, errno.errorcode.get(-error, error))


def wait_for_room(path):
    """A connect that waits until a signal comes."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(0)
    rest = [socket.socket(socket.AF_UNIX) for i in range(2)]
    rest[0].connect(path)
    signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        say("waits", outcome(rest[1].connect, path))
    except ZeroDivisionError:
        say("waits until it is interrupted")
    server.accept()
    say("then", outcome(rest[1].connect, path))


def everything():
    os.umask(0o027)
    # Who sees no loopback device has no address.
    tcp()
    udp()
    unix(socket.SOCK_STREAM, "/tmp/s")
    unix(socket.SOCK_SEQPACKET, "\0name")
    unix_paths()
    pair()
    netlink()
    wait_for_room("/tmp/full")


def to(host, port):
    say(outcome(socket.socket().connect, (host, int(port))))


def changed(path):
    def change():
        while not os.path.exists(path):
            time.sleep(0.01)
        ctypes.memmove(text, address(13), 16)
        os.dup2(other.fileno(), s.fileno())
        os.rename(path, path + ".done")

    def address(port):
        return struct.pack("=HH4s8x", 2, socket.htons(port), b"\x7f\0\0\2")

    text = ctypes.create_string_buffer(address(12), 16)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    kept = s.dup()
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    threading.Thread(target=change).start()
    r = ctypes.CDLL(None).connect(s.fileno(), text, 16)
    say("connected", r, kept.getpeername(), outcome(other.getpeername))


VERBS = {"changed": changed, "all": everything, "to": to}

VERBS[sys.argv[1]](*sys.argv[2:])
