#!/usr/bin/env python3
"""A person at a shell with job control, on a terminal.

jobs.py TRANSCRIPT: lines of "< TEXT" are typed (\\x1a is ^Z, \\r Enter), those of
"> REGEX" are waited for in what was printed since the last one, "! REGEX" must
not be there by then, and "~ SECONDS" waits. The shell is bash.
"""
import os
import pty
import re
import select
import signal
import sys
import time

WAIT_S = 20

pid, fd = pty.fork()
if pid == 0:
    os.environ.update(PS1="ready> ", TERM="dumb", HISTFILE="")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

seen = ""


def read_more(seconds):
    global seen
    if not select.select([fd], [], [], seconds)[0]:
        return False
    try:
        data = os.read(fd, 65536)
    except OSError:
        data = b""
    seen += data.decode(errors="replace")
    return bool(data)


def fail(why):
    print(f"{why}\n--- on the terminal:\n{seen}")
    os.kill(pid, signal.SIGKILL)
    sys.exit(1)


def expect(regex):
    global seen
    end = time.monotonic() + WAIT_S
    while True:
        m = re.search(regex, seen)
        if m:
            break
        left = end - time.monotonic()
        if left <= 0 or not read_more(left):
            fail(f"not seen: {regex}")
    before, seen = seen[:m.end()], seen[m.end():]
    return before


last = ""
expect("ready> ")
for line in open(sys.argv[1]):
    kind, text = line[0], line[2:].rstrip("\n")
    if kind == "<":
        os.write(fd, text.encode().decode("unicode_escape").encode())
    elif kind == ">":
        last = expect(text)
    elif kind == "!" and re.search(text, last):
        fail(f"seen: {text} in {last}")
    elif kind == "~":
        time.sleep(float(text))
os.write(fd, b"\x15exit\r")
end = time.monotonic() + WAIT_S
while os.waitpid(pid, os.WNOHANG)[0] == 0:
    if time.monotonic() > end:
        fail("the shell has not ended")
    read_more(0.1)
