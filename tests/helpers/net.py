#!/usr/bin/python3
"""Sockets for the tests of the network: each verb prints what came of it.

    serve TYPE FILE         on a free port of 127.0.0.1 (tcp, udp), or at FILE
                            (unix) or its name (abstract); FILE.port has the
                            port, and FILE.log a line for each that came
    connect TYPE HOST PORT  "ok" or the name of the errno
    unix PATH | @NAME       the same for a unix socket
    own @NAME               binds it and connects to it
    listen PORT [FILE]      serves tcp until it is ended, once FILE is there
    sockets                 which kinds can be made
"""
import errno
import os
import socket
import struct
import sys

KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def outcome(function, *args):
    try:
        function(*args)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))


def unix_address(text):
    return "\0" + text[1:] if text.startswith("@") else text


def make_server(kind, path):
    if kind in KINDS:
        s = socket.socket(socket.AF_INET, KINDS[kind])
        s.bind(("127.0.0.1", 0))
    else:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.bind(path if kind == "unix" else "\0" + os.path.basename(path))
    if kind != "udp":
        s.listen(128)
    return s


def serve(kind, path):
    s = make_server(kind, path)
    port = s.getsockname()[1] if kind in KINDS else 0
    with open(path + ".log", "w") as log:
        write_whole(path + ".port", str(port))
        while True:
            who = ""
            if kind == "udp":
                who = s.recv(100).decode("latin-1")
            else:
                c = s.accept()[0]
                if kind not in KINDS:
                    who = "uid %d" % struct.unpack("3i", c.getsockopt(
                        socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
                c.close()
            log.write("came %s\n" % who)
            log.flush()


def write_whole(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def connect(kind, host, port):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                      KINDS[kind])
    if kind == "udp":
        print(outcome(s.sendto, b"x", (host, int(port))))
    else:
        print(outcome(s.connect, (host, int(port))))


def unix(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    print(outcome(s.connect, unix_address(path)))


def own(path):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    print(outcome(s.bind, unix_address(path)))
    s.listen(1)
    unix(path)


def path(*paths):
    os.umask(0o027)
    for p in paths:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        bound = outcome(s.bind, p)
        if bound != "ok":
            print(p, bound)
            continue
        s.listen(1)
        c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        c.connect(p)
        who = c.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        print(p, s.getsockname(), oct(os.lstat(p).st_mode & 0o777),
              struct.unpack("3i", who)[1] == os.getuid())


def listen(port, ready=None):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound = outcome(s.bind, ("127.0.0.1", int(port)))
    print(bound, s.getsockname()[1])
    if bound != "ok":
        sys.exit(1)
    print(outcome(s.listen, 16), flush=True)
    if ready:
        write_whole(ready, "")
    while True:
        c = s.accept()[0]
        c.send(b"hello\n")
        c.close()


def sockets():
    rows = [
        ("packet", 17, socket.SOCK_RAW, 0),
        ("vsock", 40, socket.SOCK_STREAM, 0),
        ("raw", socket.AF_INET, socket.SOCK_RAW, 1),
        ("sctp", socket.AF_INET, socket.SOCK_STREAM, 132),
        ("mptcp", socket.AF_INET, socket.SOCK_STREAM, 262),
        ("audit", socket.AF_NETLINK, socket.SOCK_RAW, 9),
        ("route", socket.AF_NETLINK, socket.SOCK_RAW, 0),
        ("tcp", socket.AF_INET, socket.SOCK_STREAM, 0),
    ]
    for name, *args in rows:
        print(name, outcome(socket.socket, *args))
    s = socket.socket()
    print("options", outcome(s.setsockopt, 0, 4, b"\x83\x07\x04\x7f\0\0\1\0"))
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    # A label with a source route: dst, label, action, share, flags, ..., pad.
    label = bytes(15) + b"\1" + bytes(4) + bytes([0, 1, 1, 0]) + bytes(8)
    print("flowlabel", outcome(s.setsockopt, 41, 32, label))
    print("rthdr", outcome(s.setsockopt, 41, 57, bytes(8)))
    print("v6only", outcome(s.setsockopt, 41, 26, 1))
    print("names", outcome(socket.getaddrinfo, "localhost", 80))
    print("interfaces", outcome(socket.if_nameindex))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
