"""Ways to execute a program: execs.py rewrite|equal|shared|threads [PROGRAM]
[TIMES].

rewrite   another thread puts /bin/false in the place of the path, once execve
          is being called; then says "done"
equal     the same, but it puts the same path there
shared    the path lies in memory that is shared and writable
threads   16 threads run meanwhile; TIMES in a row, each in a process of its own,
          until one does not end with 0
"""
import ctypes
import mmap
import os
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
mode, program = sys.argv[1], sys.argv[2].encode()

if mode == "shared":
    memory = mmap.mmap(-1, 4096)
    path = ctypes.c_char.from_buffer(memory)
    memory[:len(program) + 1] = program + b"\0"
    address = ctypes.addressof(path)
else:
    path = ctypes.create_string_buffer(program, 64)
    address = ctypes.addressof(path)


def change():
    where = "/proc/self/task/%d/syscall" % os.getpid()
    while not open(where).read().startswith("59 "):
        time.sleep(0.01)
    time.sleep(1)
    ctypes.memmove(address, b"/bin/false" if mode == "rewrite" else program,
                   11 if mode == "rewrite" else len(program))
    print("done", flush=True)
    while True:
        time.sleep(1)


def spin():
    while True:
        pass


for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0):
    pid = os.fork()
    if pid == 0:
        break
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        sys.exit(status)
else:
    if len(sys.argv) > 3:
        sys.exit(0)

if mode in ("rewrite", "equal"):
    threading.Thread(target=change, daemon=True).start()
if mode == "threads":
    # Each thread that spins keeps the others waiting for as long.
    sys.setswitchinterval(0.00005)
    for _ in range(16):
        threading.Thread(target=spin, daemon=True).start()
argv = (ctypes.c_char_p * 2)(b"program", None)
libc.execve(ctypes.c_void_p(address), argv, None)
print(os.strerror(ctypes.get_errno()), flush=True)
os._exit(3)
