"""Runs a command on a terminal: prompt.py WAIT=KEYS... -- COMMAND...

Waits for each text in turn, types the keys behind it, and prints all that was
shown. Keys are given once the prompt listens (it is deaf for 300 ms).
"""
import os
import pty
import select
import sys
import time

split = sys.argv.index("--")
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
seen = shown = b""


def wait_for(text):
    global seen, shown
    end = time.time() + 60
    while text not in seen and time.time() < end:
        if not select.select([fd], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        seen += data
        shown += data
    if text not in seen:
        print(shown.decode(errors="replace"))
        sys.exit("never shown: %r" % text)
    seen = seen[seen.index(text) + len(text):]


for step in sys.argv[1:split]:
    text, _, keys = step.partition("=")
    wait_for(text.encode())
    if keys:
        time.sleep(2)
        os.write(fd, keys.encode())
wait_for(b"")
print(shown.decode(errors="replace"))
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
