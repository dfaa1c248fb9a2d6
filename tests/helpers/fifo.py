"""What opens of FIFOs, and of a file with a lease, come to, line by line."""
import errno
import fcntl
import os
import signal
import threading
import time


def attempt(fn):
    try:
        return fn()
    except OSError as e:
        return errno.errorcode[e.errno]


def opener(flags, then=lambda fd: fd):
    got = []
    t = threading.Thread(target=lambda: got.append(then(os.open("p", flags))))
    t.start()
    return t, got


def read_all(fd):
    with os.fdopen(fd, "rb", 0) as f:
        return f.read(3)


def join(t):
    t.join(60)
    assert not t.is_alive()


os.mkfifo("p")
print("alone", attempt(lambda: os.open("p", os.O_WRONLY | os.O_NONBLOCK)))
fd = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
print("no writer", os.read(fd, 1))
os.close(fd)
fd = os.open("p", os.O_RDWR)
print("both ends", fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK)
os.close(fd)

t, got = opener(os.O_RDONLY)
while True:
    w = attempt(lambda: os.open("p", os.O_WRONLY | os.O_NONBLOCK))
    if w != "ENXIO":
        break
    time.sleep(0.01)
join(t)
print("a reader that waits", fcntl.fcntl(got[0], fcntl.F_GETFL) & os.O_NONBLOCK)
os.write(w, b"x")
os.close(w)
print(os.read(got[0], 5), os.read(got[0], 5))
os.close(got[0])

t, got = opener(os.O_WRONLY)
while True:
    r = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
    seen = attempt(lambda: os.read(r, 1))
    if seen != b"":
        break
    os.close(r)
    time.sleep(0.01)
join(t)
print("a writer that waits", seen)
os.write(got[0], b"y")
print(os.read(r, 1))
os.close(got[0])
os.close(r)

for flags in os.O_RDONLY, os.O_RDWR:
    t, got = opener(flags, read_all)
    fd = os.open("p", os.O_WRONLY)
    os.write(fd, b"abc")
    join(t)
    os.close(fd)
    print("met", got)


class Alarm(Exception):
    pass


def alarm(*args):
    raise Alarm


signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    os.open("p", os.O_RDONLY)
except Alarm:
    print("a signal")
print("nobody", attempt(lambda: os.open("p", os.O_WRONLY | os.O_NONBLOCK)))

with open("l", "w") as f:
    f.write("x")
signal.signal(signal.SIGIO, lambda *args: None)
fd = os.open("l", os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print("lease", attempt(lambda: os.open("l", os.O_WRONLY | os.O_NONBLOCK)))
t = threading.Thread(target=lambda: os.close(os.open("l", os.O_WRONLY | os.O_TRUNC)))
t.start()
time.sleep(0.3)
print("waits", t.is_alive(), os.stat("l").st_size)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
join(t)
print("goes on", os.stat("l").st_size)

for flags in 0, os.O_NOFOLLOW:
    fd = os.open("l", os.O_RDWR | flags)
    print("flags", fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NOFOLLOW | os.O_NONBLOCK))
