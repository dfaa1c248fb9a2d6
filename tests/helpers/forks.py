#!/usr/bin/env python3
"""Is a limit of N processes, ourselves included, exact after all of this?

forks.py N SHORT [zombies]
"""
import errno
import os
import random
import signal
import sys
import time

N, SHORT = int(sys.argv[1]), int(sys.argv[2])


def fill():
    """Forks until it is refused; the children, which wait."""
    kids = []
    while len(kids) < 64:
        try:
            pid = os.fork()
        except OSError as e:
            assert e.errno == errno.EAGAIN, e
            break
        if pid == 0:
            signal.pause()
            os._exit(0)
        kids.append(pid)
    return kids


def empty(kids):
    for pid in kids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def check(what):
    """Others may still be on their way out, so fewer is tried again."""
    end = time.monotonic() + 60
    while True:
        kids = fill()
        n = len(kids)
        empty(kids)
        assert n < N, f"{what}: {n + 1} processes"
        if n == N - 1:
            break
        assert time.monotonic() < end, f"{what}: only {n + 1} processes"
        time.sleep(0.01)
    print(what, flush=True)


def fork_patiently(body):
    """The last one may not have gone for the one that counts."""
    end = time.monotonic() + 60
    while True:
        try:
            pid = os.fork()
        except OSError:
            if time.monotonic() > end:
                raise
            continue
        if pid == 0:
            try:
                body()
            finally:
                os._exit(0)
        return pid


def fork_for_ever():
    while True:
        try:
            if os.fork() == 0:
                os._exit(0)
            os.waitpid(-1, 0)
        except OSError:
            pass


check("at the start")
for i in range(50):
    empty(fill())
check("denied forks")
for i in range(SHORT):
    os.waitpid(fork_patiently(lambda: None), 0)
check("short ones")
for i in range(200):
    os.waitpid(fork_patiently(os.fork), 0)
check("double forks")
for i in range(100):
    pid = fork_patiently(fork_for_ever)
    time.sleep(random.random() / 100)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
check("killed in fork")
# To the kernel a zombie is a process.
if len(sys.argv) > 3:
    for i in range(200):
        fork_patiently(lambda: None)
    check("never waited for")
