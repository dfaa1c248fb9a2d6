#!/usr/bin/env python3
"""One request to a control socket; prints the body of the answer.

control.py SOCKET [--pad N] [--raw HEX] [--crowd N] [TEXT]
"""
import argparse
import socket
import struct
import time

p = argparse.ArgumentParser()
p.add_argument("socket")
p.add_argument("--pad", type=int, help="length of the body: @ is stretched")
p.add_argument("--raw", help="bytes to send instead of a frame")
p.add_argument("--crowd", type=int, default=0, help="idle clients before")
p.add_argument("text", nargs="?", default="")
a = p.parse_intermixed_args()


def connect():
    s = socket.socket(socket.AF_UNIX)
    # With a timeout it would not wait for room in the backlog.
    s.connect(a.socket)
    s.settimeout(4)
    return s


body = a.text.encode()
if a.pad:
    body = body.replace(b"@", b"x" * (a.pad - len(body) + 1))
crowd = []
for i in range(a.crowd):
    crowd.append(connect())
    try:
        crowd[-1].sendall([b"", b"\0\0", b"\0\0\1\0{"][i % 3])
    except OSError:
        pass
    # As many as one process may have open.
    if len(crowd) > 500:
        crowd.pop(0).close()
start = time.monotonic()
s = connect()
try:
    s.sendall(bytes.fromhex(a.raw) if a.raw else
              struct.pack(">I", len(body)) + body)
except OSError:
    pass
data = b""
try:
    while part := s.recv(65536):
        data += part
except ConnectionResetError:
    pass
print(data[4:].decode().rstrip())
if time.monotonic() - start > 2:
    raise SystemExit("too slow")
