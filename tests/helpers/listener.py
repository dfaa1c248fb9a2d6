#!/usr/bin/env python3
"""Executes a command under a filter of ours that has a listener.

listener.py COMMAND [ARGUMENT]...
"""
import ctypes
import os
import struct
import sys

SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
prog = ctypes.create_string_buffer(
    struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
fd = libc.syscall(SECCOMP, 1, 8, prog)
assert fd >= 0, os.strerror(ctypes.get_errno())
os.set_inheritable(fd, True)
os.execvp(sys.argv[1], sys.argv[1:])
