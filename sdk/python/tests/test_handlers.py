"""Handlers: Python that answers system calls."""
from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import threading

from sandlock import (
    ExceptionPolicy, ExitReason, Handler, NotifAction, NotOfferedError,
    PolicyError, Sandbox, SandboxError, StdioMode, Transaction, handler,
)
from sandlock.presets import (
    COMMON_PATH_SYSCALLS, AuditPathsHandler, LogSyscallsHandler,
    PathAllowHandler, PathDenyHandler,
)

from .place import LIMIT_S, Place

PLACE = "/etc/of-nobody"
CAT = ["cat", PLACE]
# 126 and 127 say of a shell what came of running something.
MKDIR = ["sh", "-c", "mkdir /tmp/made; echo $?"]


class Does(Handler):
    """``fn`` about a path, and the kernel about all others."""

    def __init__(self, fn, path=PLACE, on_exception=ExceptionPolicy.KILL):
        self.fn = fn
        self.path = path
        self.on_exception = on_exception
        self.seen = []

    def handle(self, ctx):
        if ctx.read_path() != self.path:
            return NotifAction.continue_()
        self.seen.append(ctx)
        return self.fn(ctx)


class Later(Does):
    async def handle(self, ctx):
        if ctx.read_path() != self.path:
            return NotifAction.continue_()
        self.seen.append(ctx)
        return await self.fn(ctx)


def opens(h):
    return [("openat", h), ("open", h)]


class Handlers(Place):
    def run_cat(self, h, **options):
        return Sandbox(**options).run_with_handlers(CAT, opens(h))

    def test_bytes_in_the_place_of_a_file(self):
        for options in ({}, {"seal": False}):
            h = Does(lambda ctx: NotifAction.inject_bytes(b"hello", **options))
            result = self.run_cat(h)
            self.assertEqual(result.stdout, b"hello", result)

    def test_of_a_stage(self):
        h = Does(lambda ctx: NotifAction.inject_bytes(b"hello"))
        quiet = ["sh", "-c", f"cat {PLACE} 2>/dev/null || echo none"]
        result = Transaction([
            Sandbox(workdir=self.workdir).cmd(quiet),
            Sandbox(workdir=self.workdir, handlers=opens(h)).cmd(quiet),
        ]).run(timeout=LIMIT_S)
        self.assertEqual([s.stdout for s in result.stages],
                         [b"none\n", b"hello"])

    def test_what_is_injected_is_sealed(self):
        action = NotifAction.inject_bytes(b"x")
        try:
            with self.assertRaises(PermissionError):
                os.write(action.srcfd, b"y")
        finally:
            os.close(action.srcfd)

    def test_a_descriptor(self):
        self.write("f", "of a file")
        h = Does(lambda ctx: NotifAction.inject_fd_send(
            os.open(self.path("f"), os.O_RDONLY), os.O_CLOEXEC))
        before = len(os.listdir("/proc/self/fd"))
        self.assertEqual(self.run_cat(h).stdout, b"of a file")
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_an_errno_and_a_value(self):
        h = Does(lambda ctx: NotifAction.errno(errno.ENOSPC))
        self.assertIn(b"No space left", self.run_cat(h).stderr)
        h = Does(lambda ctx: NotifAction.returns(0), "/tmp/made")
        result = Sandbox(handlers=[("mkdir", h), ("mkdirat", h)]).run(
            ["sh", "-c", "mkdir /tmp/made && ! [ -e /tmp/made ]"])
        self.assertTrue(result.success, result)
        self.assertEqual(len(h.seen), 1)

    def test_what_a_call_says(self):
        h = Does(lambda ctx: NotifAction.errno(errno.EACCES))
        self.run_cat(h)
        ctx = h.seen[0]
        self.assertIn(ctx.syscall, ("open", "openat"))
        self.assertGreater(ctx.pid, 0)
        self.assertEqual(len(ctx.args), 6)
        # It was answered: nothing of it can be reached any more.
        self.assertIsNone(ctx.read(ctx.args[1], 4))
        self.assertIsNone(ctx.read_path())
        self.assertFalse(ctx.write(ctx.args[1], b"x"))
        self.assertTrue(ctx.cancelled)
        with self.assertRaises(ProcessLookupError):
            ctx.install_fd(0)

    def test_memory(self):
        found = []

        def look(ctx):
            at = ctx.args[1 if ctx.syscall == "openat" else 0]
            found.append((ctx.read(at, 5), ctx.read_cstr(at, 3),
                          ctx.read_cstr(1, 9), ctx.read(1, 1),
                          ctx.write(at, b"/etc/passwd\0")))
            return NotifAction.continue_()

        result = self.run_cat(Does(look))
        self.assertEqual(found, [(b"/etc/", None, None, None, True)])
        self.assertIn(b"root", result.stdout)

    def test_descriptors_of_the_caller(self):
        found = []

        def look(ctx):
            fd = ctx.get_fd(1)
            os.write(fd, b"said by a handler\n")
            os.close(fd)
            found.append(ctx.install_fd(0))
            with self.assertRaises(OSError) as caught:
                ctx.get_fd(999)
            found.append(caught.exception.errno)
            process = ctx.open_process()
            found.append(select.select([process], [], [], 0)[0])
            found.append(process)
            return NotifAction.errno(errno.EPERM)

        result = self.run_cat(Does(look))
        self.assertEqual(result.stdout, b"said by a handler\n")
        self.assertGreater(found[0], 2)
        self.assertEqual(found[1], errno.EBADF)
        self.assertEqual(found[2], [])
        self.assertEqual(select.select([found[3]], [], [], 60)[0], [found[3]])
        os.close(found[3])

    def test_a_path_that_is_not_clear(self):
        caught = []

        def look(ctx):
            try:
                ctx.read_path()
            except ValueError as e:
                caught.append(str(e))
            return NotifAction.errno(errno.EPERM)

        class Any(Handler):
            handle = staticmethod(look)

        Sandbox(handlers=[(name, Any()) for name in (
            "symlink", "symlinkat")]).run(["ln", "-s", "a", "/tmp/b"])
        self.assertIn("pass arg=", caught[0])

    def test_the_next_handler(self):
        first = Does(lambda ctx: NotifAction.continue_())
        second = Does(lambda ctx: NotifAction.inject_bytes(b"second"))
        third = Does(lambda ctx: NotifAction.inject_bytes(b"third"))
        result = Sandbox(handlers=opens(first)).run_with_handlers(
            CAT, [*opens(second), *opens(third)])
        self.assertEqual(result.stdout, b"second")
        self.assertEqual([len(h.seen) for h in (first, second, third)],
                         [1, 1, 0])

    def test_one_that_fails(self):
        def fail(ctx):
            raise RuntimeError("of the handler")

        for fn in (fail, lambda ctx: None):
            for policy, text in ((ExceptionPolicy.DENY_EPERM, b"not permitted"),
                                 (ExceptionPolicy.DENY_EIO, b"output error"),
                                 (ExceptionPolicy.CONTINUE, b"No such file")):
                with self.assertLogs("sandlock"):
                    result = self.run_cat(Does(fn, on_exception=policy))
                self.assertIn(text, result.stderr)
            with self.assertLogs("sandlock"):
                result = self.run_cat(Does(fn))
            self.assertFalse(result.success)

    def test_kill_and_hold(self):
        result = self.run_cat(Does(lambda ctx: NotifAction.kill(
            signal.SIGKILL)))
        self.assertEqual(result.reason, ExitReason.SIGNALED, result)
        with self.assertRaises(NotOfferedError):
            NotifAction.kill(9, pgid=1)
        # No call but this one has so little time.
        h = Does(lambda ctx: NotifAction.hold(), "/tmp/made")
        result = Sandbox(handlers=[("mkdir", h), ("mkdirat", h)],
                         handler_timeout=0.2).run(["mkdir", "/tmp/made"])
        self.assertIn(b"output error", result.stderr)

    def test_nothing_goes_on_after_a_kill(self):
        h = Does(lambda ctx: NotifAction.kill(signal.SIGKILL), "/tmp/made")
        go_on = ("import os\ntry: os.mkdir('/tmp/made')\n"
                 "except OSError: os.write(1, b'went on')")
        for _ in range(20):
            result = Sandbox(handlers=[("mkdir", h)]).run(
                ["/usr/bin/python3", "-S", "-c", go_on])
            self.assertEqual(result.stdout, b"", result)

    def test_what_cannot_be_handled(self):
        quiet = Does(lambda ctx: NotifAction.continue_())
        for syscall in ("close", "no-such-call"):
            with self.assertRaises(PolicyError):
                Sandbox(handlers=[(syscall, quiet)]).run(["true"])
        for pair in (("openat", print), (1.5, quiet), (True, quiet)):
            with self.assertRaises(TypeError):
                Sandbox(handlers=[pair]).run(["true"])
        for value in (0, -1, 512):
            with self.assertRaises(ValueError):
                NotifAction.errno(value)

    def test_a_handler_cannot_wait_for_its_own_sandbox(self):
        seen = []

        def wait(ctx):
            try:
                sandbox.wait()
            except SandboxError as e:
                seen.append(e.kind)
            return NotifAction.errno(errno.EPERM)

        sandbox = Sandbox(handlers=opens(Does(wait)))
        sandbox.spawn(CAT)
        self.assertFalse(sandbox.wait().success)
        self.assertEqual(seen, ["state"])

    def test_a_name_for_one_run(self):
        sandbox = Sandbox(name="mine")
        result = sandbox.run_with_handlers(["true"], [], name="other")
        self.assertEqual((result.name, sandbox.name), ("other", "mine"))


class Coroutines(Place):
    def run_cat(self, *handlers, **options):
        pairs = [pair for h in handlers for pair in opens(h)]
        return Sandbox(handlers=pairs, **options).run(CAT)

    def no_loops(self):
        return not [t for t in threading.enumerate()
                    if t.name == "sandlock-handlers"]

    # SEEDS 20 and 26.
    def test_one_that_continues_reaches_the_next(self):
        async def go_on(ctx):
            await asyncio.sleep(0.01)
            return NotifAction.continue_()

        first = Later(go_on)
        second = Does(lambda ctx: NotifAction.inject_bytes(b"second"))
        self.assertEqual(self.run_cat(first, second).stdout, b"second")
        self.assertEqual((len(first.seen), len(second.seen)), (1, 1))
        self.eventually(self.no_loops)

    def test_one_that_answers_ends_it(self):
        async def answer(ctx):
            await asyncio.sleep(0.01)
            self.assertEqual(ctx.read_path(), PLACE)
            return NotifAction.inject_bytes(b"first")

        second = Does(lambda ctx: NotifAction.inject_bytes(b"second"))
        self.assertEqual(self.run_cat(Later(answer), second).stdout, b"first")
        self.assertEqual(second.seen, [])

    def test_one_that_fails(self):
        async def fail(ctx):
            await asyncio.sleep(0.01)
            raise RuntimeError("of the handler")

        with self.assertLogs("sandlock"):
            result = self.run_cat(
                Later(fail, on_exception=ExceptionPolicy.DENY_EIO))
        self.assertIn(b"output error", result.stderr)

    def test_many_at_once_take_no_threads(self):
        inside, together = [0], []

        async def meet(ctx):
            inside[0] += 1
            together.append(inside[0])
            while max(together) < 8:
                await asyncio.sleep(0.01)
            return NotifAction.inject_bytes(b"x")

        h = Later(meet)
        result = Sandbox(handlers=opens(h), handler_threads=1).run(
            ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do cat %s & done; wait"
             % PLACE])
        self.assertEqual(result.stdout, b"x" * 8)

    def test_one_that_is_late_ends_with_the_run(self):
        begun, ended = threading.Event(), threading.Event()

        async def never(ctx):
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        sandbox = Sandbox(handlers=opens(Later(never)))
        process = sandbox.popen(
            ["sh", "-c", f"cat {PLACE} & read x; kill $!; wait; exit 3"],
            stdin=StdioMode.PIPED)
        self.assertTrue(begun.wait(LIMIT_S))
        self.assertEqual(process.wait().exit_code, 3)
        self.assertTrue(ended.wait(LIMIT_S))
        self.eventually(self.no_loops)

    def test_arun_uses_its_loop(self):
        found = []

        async def answer(ctx):
            found.append(asyncio.get_running_loop())
            return NotifAction.inject_bytes(b"x")

        async def main():
            result = await Sandbox(handlers=opens(Later(answer))).arun(CAT)
            return result.stdout, asyncio.get_running_loop()

        text, loop = asyncio.run(main())
        self.assertEqual((text, found), (b"x", [loop]))
        self.assertTrue(self.no_loops())


class Table(Place):
    def test_calls_with_a_path_have_names(self):
        for name in handler._PATH_ARGS:
            if name in ("fchmodat2",):
                continue  # newer than the library's table may be
            numbers = [n for n in range(600)
                       if handler.syscall_name(n) == name]
            if os.uname().machine == "x86_64":
                self.assertTrue(numbers, name)


class Presets(Place):
    def test_by_paths(self):
        seen, lines = [], []
        handlers = [
            AuditPathsHandler(lambda path, ctx: seen.append(path)),
            LogSyscallsHandler(lines.append),
            PathDenyHandler(["/etc/host*"], errno=errno.ENOENT),
            PathAllowHandler(["/etc/*", "/lib*", "/usr/*"]),
        ]
        self.assertIn("openat", COMMON_PATH_SYSCALLS)
        result = Sandbox().run_with_handlers(
            ["cat", "/etc/hostname", "/etc/passwd", "/proc/self/stat"],
            [("openat", handler) for handler in handlers])
        self.assertIn(b"/etc/hostname: No such file", result.stderr)
        self.assertIn(b"root:", result.stdout)
        self.assertIn(b"/proc/self/stat: Permission denied", result.stderr)
        self.assertIn("/etc/hostname", seen)
        self.assertTrue(all("syscall=" in line for line in lines))
        for kind in (PathDenyHandler, PathAllowHandler):
            with self.assertRaises(TypeError):
                kind("/etc")
