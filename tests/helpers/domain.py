#!/usr/bin/python3
"""Enters a Landlock domain in which nothing may be read, and reads a file."""
import ctypes
import struct
import sys

CREATE_RULESET, RESTRICT_SELF, READ_FILE = 444, 446, 1 << 2
PR_SET_NO_NEW_PRIVS = 38

libc = ctypes.CDLL(None, use_errno=True)
attr = struct.pack("Q", READ_FILE)
fd = libc.syscall(CREATE_RULESET, attr, len(attr), 0)
if fd < 0 or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 or \
        libc.syscall(RESTRICT_SELF, fd, 0) < 0:
    sys.exit("no Landlock here: errno %d" % ctypes.get_errno())
try:
    open(sys.argv[1])
    print("read")
except PermissionError:
    print("refused")
