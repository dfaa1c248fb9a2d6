"""Callbacks that decide: at once, later, from threads and from asyncio."""
from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import os
import queue
import signal
import socket
import subprocess
import threading
import time

from sandlock import (
    BranchAction, ConfinementError, PolicyFn, Sandbox, SandboxError, StdioMode,
    Transaction, policy, questions,
)

from .place import LIMIT_S, Place, unique

# The shell says what came of running something: 126 where it may not.
TRY = ["sh", "-c", "/bin/echo ran a word; echo $?"]

# As many as can ask at a time do, with much to say each.
MANY = """import os, time
children = []
for _ in range(64):
    children.append(os.fork())
    if not children[-1]:
        time.sleep(0.5)
        os.execv("/bin/true", ["true", "word"] + ["x" * 30] * 120)
print({os.waitpid(child, 0)[1] for child in children})
"""

LIMITED = """import os, time
os.close(os.open("/etc/hostname", os.O_RDONLY))
try:
    for _ in range(600):
        os.fork() or os._exit(0)
        os.wait()
        time.sleep(0.05)
    print("forked")
except OSError:
    print("limited")
"""


def is_echo(event):
    # Not the command itself, whose script says it, too.
    return (event.syscall.startswith("execve") and event.program is not None
            and event.argv_contains("word"))


class Bundles(Place):
    def test_a_callback_decides_about_its_programs(self):
        def later(event, _context, approval):
            if approval:
                seen.append((event.path, event.argv[-1]))
                threading.Thread(target=approval.deny).start()

        seen = []
        result = Sandbox(
            bundle=self.make_bundle(), policy_fn=PolicyFn.deferred(later)
        ).run(["/bin/busybox", "sh", "-c",
               "/bin/busybox touch /f; echo $?"])
        self.assertEqual(result.stdout, b"126\n", result)
        self.assertEqual(seen, [("/bin/busybox", "/f")])
        self.assertEqual(os.listdir(self.workdir), [])

    def test_a_callback_decides_about_its_network(self):
        def decide(event, _context):
            if event.category == "network":
                seen.append((event.syscall, event.host, event.port))
                return errno.EHOSTDOWN

        seen = []
        result = Sandbox(
            bundle=self.make_bundle(), policy_fn=decide
        ).run(["/bin/busybox", "nc", "127.0.0.9", "99"])
        self.assertIn(b"Host is down", result.stderr)
        self.assertEqual(seen, [("connect", "127.0.0.9", 99)])


class Verdicts(Place):
    def test_verdicts(self):
        for value, status in ((None, 0), (False, 0), (0, 0), ("audit", 0),
                              (-2, 0), (True, 126), (-1, 126),
                              (errno.EACCES, 126), ("what", 126), (-7, 126),
                              (1.5, 126)):
            with self.subTest(value):
                result = Sandbox(
                    policy_fn=lambda e, c: is_echo(e) and value).run(TRY)
                self.assertEqual(result.stdout.split()[-1],
                                 str(status).encode(), result.stderr)

    def test_what_interprets_a_script_is_told(self):
        seen = []
        self.write("s", "#!/bin/cat\n")
        os.chmod(self.path("s"), 0o755)
        result = Sandbox(
            workdir=self.workdir, policy_fn=lambda e, c: seen.append(e)
        ).run(["./s"])
        self.assertEqual(result.stdout, b"#!/bin/cat\n", result.stderr)
        self.assertEqual((os.path.basename(seen[0].path),
                          seen[0].interpreter),
                         ("s", os.path.realpath("/bin/cat")))
        self.assertIsNone(next(e for e in seen
                               if e.syscall != "execve").interpreter)

    def test_the_command_itself_is_decided_about(self):
        seen = []

        def look(event, context):
            seen.append(event)
            if event.syscall == "execve":
                context.deny_path("/etc/passwd")

        result = Sandbox(policy_fn=look).run(["cat", "/etc/passwd"])
        self.assertIn(b"Permission denied", result.stderr)
        self.assertEqual((seen[0].syscall, seen[0].argv, seen[0].program),
                         ("execve", ("cat", "/etc/passwd"), None))
        for refuse in (lambda e, c: e.syscall == "execve",
                       lambda e, c: (e.syscall == "execve"
                                     and c.deny_path(e.path))):
            result = Sandbox(policy_fn=refuse).run(TRY)
            self.assertEqual((result.exit_code, result.stdout), (126, b""))
            self.assertIn("permission denied", result.error)

    def test_a_callback_may_ask_about_its_own_sandbox(self):
        def stop_and_go(s):
            try:
                s.pause()
                s.resume()
            except ConfinementError:
                pass  # an ordinary user may have no cgroup

        for uses in (Sandbox.ports, stop_and_go):
            seen = []

            def look(event, context, uses=uses, seen=seen):
                # At the start, and of a child that its parent waits for in
                # vfork.
                if event.syscall == "execve" and event.path == "/usr/bin/echo":
                    uses(sandbox)
                    seen.append(event.program)

            sandbox = Sandbox(policy_fn=look)
            result = sandbox.run(["/usr/bin/echo", "it"])
            self.assertEqual((result.stdout, seen), (b"it\n", [None]),
                             result)
            result = sandbox.run(["sh", "-c", "/usr/bin/echo it; exit 0"])
            self.assertEqual((result.stdout, len(seen)), (b"it\n", 2), result)

    def test_a_callback_cannot_start_or_wait_for_its_own_sandbox(self):
        seen = []

        def look(event, context):
            if event.syscall != "execve":
                return
            for method in (sandbox.start, sandbox.wait):
                try:
                    method()
                except SandboxError as e:
                    seen.append(e.kind)

        sandbox = Sandbox(policy_fn=look)
        self.assertEqual(sandbox.run(["echo", "it"]).stdout, b"it\n")
        self.assertEqual(seen, ["state", "state"])

    def test_a_callback_that_asks_a_supervisor_that_has_died(self):
        seen = []

        def look(event, context):
            if event.syscall == "execve":
                os.kill(supervisor(), signal.SIGKILL)
                try:
                    sandbox.ports()
                except SandboxError as e:
                    seen.append(e.kind)

        def supervisor():
            pid = sandbox.pid
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rsplit(")", 1)[1].split()[1])

        sandbox = Sandbox(policy_fn=look)
        with self.assertRaises(SandboxError):
            sandbox.run(["/usr/bin/echo", "it"])
        self.assertEqual(seen, ["state"])
        self.delete_all()

    def test_who_answers_later_is_only_told_of_the_command(self):
        told = []

        def look(event, context, approval):
            told.append((event.syscall, approval is None))
            if event.syscall == "execve":
                context.deny_path("/etc/passwd")
            if approval:
                approval.allow()

        sandbox = Sandbox(policy_fn=PolicyFn.deferred(look))
        sandbox.spawn(["cat", "/etc/passwd"])
        self.assertIn(b"Permission denied", sandbox.wait().stderr)
        self.assertEqual(told[0], ("execve", True))
        self.assertIn(("openat", False), told)

    def test_an_event_says_what_it_is(self):
        self.write("f", "text")
        seen = []
        sandbox = Sandbox(workdir=self.workdir,
                          policy_fn=lambda e, c: seen.append(e))
        result = sandbox.run(["sh", "-c", "exec cat f"])
        self.assertEqual(result.stdout, b"text")
        # A shell tries each directory of PATH.
        run = [e for e in seen if e.argv == ("cat", "f")][-1]
        self.assertEqual((run.category, run.denied, run.is_cut),
                         ("process", False, False))
        self.assertGreater(run.pid, 0)
        self.assertTrue([e for e in seen if e.category == "file"
                         and e.path and e.path.endswith("/f")])

    def test_nothing_is_opened_before_the_verdict(self):
        shown = os.path.join(self.base, "shown")
        os.mkdir(shown)
        path = os.path.join(shown, "f")
        with open(path, "w") as file:
            file.write("text")
        broken = []

        def give_up(*_args):
            broken.append(path)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)

        before = signal.signal(signal.SIGIO, give_up)
        self.addCleanup(signal.signal, signal.SIGIO, before)
        for denies in (True, False):
            fd = os.open(path, os.O_RDONLY)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            result = Sandbox(
                fs_readable=["/usr", "/lib", "/lib64", "/bin", "/etc", shown],
                policy_fn=lambda e, c, denies=denies: (denies
                                                       and e.path == path),
            ).run(["cat", path])
            os.close(fd)
            self.assertEqual((result.exit_code, result.stdout, len(broken)),
                             (1, b"", 0) if denies else (0, b"text", 1),
                             result.stderr)

    def test_set_id_bits_stay_where_the_kernel_leaves_them(self):
        cut = """import os
for name in ("a", "b"):
    os.close(os.open(name, os.O_WRONLY | os.O_TRUNC))
    print(oct(os.stat(name).st_mode))
"""
        for name in ("a", "b"):
            self.write(name, "text")
            os.chmod(os.path.join(self.workdir, name), 0o4755)
        run = ["python3", "-c", cut]
        plain = Sandbox(workdir=self.workdir,
                        on_exit=BranchAction.ABORT).run(run)
        asked = Sandbox(workdir=self.workdir, on_exit=BranchAction.ABORT,
                        policy_fn=lambda e, c: None).run(run)
        self.assertEqual(asked.stdout, plain.stdout, asked.stderr)

    def test_a_sandbox_that_is_dropped_in_its_own_callback(self):
        boxes, dropped = [], threading.Event()

        def drop(event, context):
            if is_echo(event):
                boxes.clear()
                gc.collect()
                dropped.set()

        boxes.append(Sandbox(policy_fn=drop))
        boxes[0].spawn(TRY)
        self.assertTrue(dropped.wait(LIMIT_S))
        self.eventually(lambda: not self.running())
        for thread in threading.enumerate():
            if thread.name == "sandlock-free":
                thread.join(LIMIT_S)

    def test_a_callback_cannot_wait_for_its_own_sandbox(self):
        seen = []

        def wait(event, context):
            if is_echo(event):
                try:
                    sandbox.wait()
                except SandboxError as e:
                    seen.append((e.kind, e.errno))

        sandbox = Sandbox(policy_fn=wait)
        sandbox.spawn(TRY)
        self.assertTrue(sandbox.wait().success)
        self.assertEqual(seen, [("state", errno.EDEADLK)])

    def test_an_exception_denies(self):
        def fail(event, context):
            if is_echo(event):
                raise RuntimeError("of the callback")

        with self.assertLogs("sandlock", "ERROR"):
            result = Sandbox(policy_fn=fail).run(TRY)
        self.assertEqual(result.stdout, b"126\n")

    def test_many_orders_while_many_ask(self):
        began = []

        def look(event, context):
            if event.argv_contains("word") and not began:
                began.append(event)
                time.sleep(1)  # the others ask
                for i in range(500):
                    context.deny_path(f"/none/{i}/{'x' * 200}")

        result = Sandbox(policy_fn=look, ask_timeout=20).run(
            ["/usr/bin/python3", "-c", MANY])
        self.assertEqual(result.stdout, b"{0}\n", result.stderr)

    def test_an_order_behind_the_answer(self):
        done = []

        def look(event, context, approval):
            approval.allow()
            if event.path == "/etc/hostname" and not done:
                done.append(event)
                time.sleep(0.2)
                context.restrict_max_processes(1)

        result = Sandbox(policy_fn=PolicyFn.deferred(look)).run(
            ["/usr/bin/python3", "-c", LIMITED])
        self.assertEqual(result.stdout, b"limited\n", result.stderr)

    def test_a_path_is_denied_while_it_runs(self):
        def look(event, context):
            if is_echo(event):
                context.deny_path("/etc/passwd")

        result = Sandbox(policy_fn=look).run(
            ["sh", "-c", "head -c 4 /etc/passwd; /usr/bin/echo word; "
             "cat /etc/passwd 2>&1 || echo none"])
        self.assertIn(b"root", result.stdout)
        self.assertIn(b"Permission denied", result.stdout)
        self.assertIn(b"none", result.stdout)

    def test_the_network_is_taken_away_while_it_runs(self):
        contexts = []
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        port = server.getsockname()[1]
        connect = ["/usr/bin/python3", "-c", "import socket\n"
                   f"print(socket.socket().connect_ex(('127.0.0.1', {port})))"]

        def run(what):
            def look(event, context):
                contexts.append(context)
                if event.syscall == "connect":
                    what(event, context)

            result = Sandbox(net_allow=["127.0.0.1"],
                             policy_fn=look).run(connect)
            return int(result.stdout)

        self.assertEqual(run(lambda e, c: None), 0)
        self.assertEqual(run(lambda e, c: c.restrict_network([])),
                         errno.ECONNREFUSED)
        self.assertEqual(run(lambda e, c: c.restrict_network(["127.0.0.1"])),
                         0)
        self.assertEqual(run(lambda e, c: c.restrict_pid_network(e.pid, [])),
                         errno.ECONNREFUSED)
        # A name is none: the callback raises, which denies.
        with self.assertLogs("sandlock", "ERROR"):
            self.assertEqual(
                run(lambda e, c: c.restrict_network(["example.org"])),
                errno.EPERM)
        with self.assertRaises(RuntimeError):
            contexts[-1].restrict_network([])

        def grant(event, context):
            context.restrict_pid_network(event.pid, [])
            context.grant_pid_network(event.pid, ["127.0.0.1"])

        def grant_all(event, context):
            told.append(event.denied)
            if event.denied:
                return
            context.restrict_network([])
            try:
                context.grant_network(["127.0.0.1"])
            except SandboxError as e:
                refused.append(e.kind)

        refused, told = [], []
        self.assertEqual(run(grant), 0)
        self.assertEqual(run(grant_all), errno.ECONNREFUSED)
        self.assertEqual(refused, ["state"])
        # What the restriction refuses then is told of.
        self.assertEqual(told, [False, True])
        self.assertEqual(run(lambda e, c: c.grant_network(["127.0.0.1"])), 0)

    def test_limits_are_set_while_it_runs(self):
        def run(what, script):
            def look(event, context):
                if is_echo(event):
                    what(context)

            return Sandbox(policy_fn=look).run(
                ["/usr/bin/python3", "-c", "import os, signal, subprocess\n"
                 "subprocess.run(['/bin/echo', 'word'])\n" + script]).stdout

        forks = ("def fork():\n"
                 "  try:\n"
                 "    pid = os.fork()\n"
                 "  except OSError as e:\n"
                 "    return e.errno\n"
                 "  return pid and 1 or signal.pause()\n"
                 "print([fork() for i in range(4)])")
        out = run(lambda c: c.restrict_max_processes(3), forks)
        self.assertEqual(out, b"word\n[1, 1, 11, 11]\n")
        out = run(lambda c: c.restrict_max_memory(100 << 20),
                  "print(len(b'x' * (16 << 20)), flush=True)\n"
                  "print(len(b'x' * (400 << 20)))")
        self.assertEqual(out, b"word\n16777216\n")
        for value in (0, -1, 1 << 64):
            context = policy.PolicyContext(None)
            with self.assertRaises(ValueError):
                context.restrict_max_memory(value)
            with self.assertRaises(ValueError):
                context.restrict_max_processes(value)

    def test_a_stage_has_one_of_its_own(self):
        asked = []

        def refuse(event, context):
            if is_echo(event):
                asked.append(event)
                return errno.EACCES
            return 0

        stage = Sandbox(workdir=self.workdir, policy_fn=refuse).cmd(TRY)
        result = Transaction([
            Sandbox(workdir=self.workdir).cmd(["/bin/echo", "word"]),
            stage]).run(timeout=LIMIT_S)
        self.assertTrue(result.success, result)
        self.assertEqual(result.stages[0].stdout, b"word\n")
        self.assertEqual(result.stages[1].stdout, b"126\n")
        self.assertEqual(len(asked), 1)

    def test_verdict_values(self):
        self.assertEqual([policy.to_verdict(v) for v in
                          (None, 0, True, -1, -2, "audit", 13, "x", -3)],
                         [0, 0, -1, -1, -2, -2, 13, -1, -1])


class Questions(Place):
    """Of ask rules, answered by name."""

    def test_from_another_thread(self):
        name = unique("asking")
        for answer, status in (("allow", b"0"), ("deny", b"126")):
            sandbox = Sandbox(name=name, ask_exec=["/bin/echo"],
                              ask_by="socket")
            sandbox.spawn(TRY)
            self.eventually(lambda: questions(name))
            [question] = questions(name)
            self.assertEqual((question.state, question.count),
                             ("waiting", 1))
            self.assertIn("echo", question.what)
            getattr(question, answer)(by="the test", reason="it says so")
            self.assertEqual(sandbox.wait().stdout.split()[-1], status)
        with self.assertRaises(SandboxError):
            question.allow()
        with self.assertRaises(SandboxError):
            questions("nobody")


class Deferred(Place):
    """Rows 3, 16 and 36 where they are about Python."""

    def setUp(self):
        super().setUp()
        self.asked = queue.Queue()

    def ask(self, event, context, approval):
        """Hands on what is about echo, and allows the rest."""
        if is_echo(event):
            self.asked.put(approval)
        elif approval:
            approval.allow()

    def start(self, **more):
        sandbox = Sandbox(policy_fn=PolicyFn.deferred(self.ask), **more)
        sandbox.spawn(TRY)
        return sandbox, self.asked.get(timeout=LIMIT_S)

    def status(self, sandbox):
        return sandbox.wait().stdout.split()[-1]

    def test_allowed_from_another_thread(self):
        sandbox, approval = self.start()
        self.assertFalse(approval.cancelled)
        threading.Timer(0.2, approval.allow).start()
        self.assertEqual(self.status(sandbox), b"0")

    def test_denied_with_an_errno(self):
        sandbox, approval = self.start()
        with self.assertRaises(ValueError):
            approval.deny(0)
        approval.deny(errno.ENOENT)
        self.assertEqual(self.status(sandbox), b"127")

    def test_repeated_answers_are_refused_and_the_first_stands(self):
        sandbox, approval = self.start()
        approval.deny()
        for answer in (approval.allow, approval.deny):
            with self.assertRaises(SandboxError) as caught:
                answer()
            self.assertEqual(caught.exception.kind, "answered")
        approval.close()
        self.assertEqual(self.status(sandbox), b"126")

    def test_closed_and_forgotten_ones_deny(self):
        sandbox, approval = self.start()
        approval.close()
        self.assertTrue(approval.cancelled)
        with self.assertRaises(SandboxError) as caught:
            approval.allow()
        self.assertEqual(caught.exception.kind, "cancelled")
        self.assertEqual(self.status(sandbox), b"126")
        sandbox, approval = self.start()
        with approval:
            pass
        self.assertEqual(self.status(sandbox), b"126")
        sandbox, approval = self.start()
        del approval
        gc.collect()
        self.assertEqual(self.status(sandbox), b"126")

    def test_a_callback_that_raises_denies_what_it_has_handed_on(self):
        def hand_on_and_fail(event, context, approval):
            self.ask(event, context, approval)
            if is_echo(event):
                raise RuntimeError("of the callback")

        with self.assertLogs("sandlock", "ERROR"):
            result = Sandbox(
                policy_fn=PolicyFn.deferred(hand_on_and_fail)).run(TRY)
        self.assertEqual(result.stdout, b"126\n")
        with self.assertRaises(SandboxError):
            self.asked.get().allow()

    def test_what_is_killed_is_cancelled(self):
        sandbox, approval = self.start()
        sandbox.kill()
        self.assertFalse(sandbox.wait().success)
        self.eventually(lambda: approval.cancelled)
        with self.assertRaises(SandboxError) as caught:
            approval.allow()
        self.assertIn(caught.exception.kind, ("cancelled", "expired"))

    def test_others_go_on_while_one_waits(self):
        sandbox = Sandbox(policy_fn=PolicyFn.deferred(self.ask))
        with sandbox.popen(
                ["sh", "-c", "/bin/echo a word & cat /etc/passwd >/dev/null; "
                 "echo on; wait"], stdout=StdioMode.PIPED) as process:
            approval = self.asked.get(timeout=LIMIT_S)
            self.assertEqual(process.stdout.read(3), b"on\n")
            approval.allow()
            self.assertEqual(process.stdout.read(7), b"a word\n")
            self.assertTrue(process.wait(LIMIT_S).success)

    def test_from_asyncio(self):
        async def main():
            loop = asyncio.get_running_loop()
            waiting = asyncio.Queue()

            def ask(event, context, approval):
                if is_echo(event):
                    loop.call_soon_threadsafe(waiting.put_nowait, approval)
                elif approval:
                    approval.allow()

            sandbox = Sandbox(policy_fn=PolicyFn.deferred(ask))
            task = asyncio.ensure_future(sandbox.arun(TRY))
            approval = await waiting.get()
            await asyncio.sleep(0.05)
            await asyncio.to_thread(approval.allow)
            return await task

        self.assertEqual(asyncio.run(main()).stdout, b"ran a word\n0\n")

    def test_an_embedder_that_is_killed_runs_nothing_more(self):
        script = (
            "import sys, time\nfrom sandlock import *\n"
            "def ask(event, context, approval):\n"
            "    if event.argv_contains('word'):\n"
            "        kept.append(approval)\n"
            "        print('asked', flush=True)\n"
            "    elif approval:\n"
            "        approval.allow()\n"
            "kept = []\n"
            "Sandbox(workdir=sys.argv[1], fs_writable=[sys.argv[2]],"
            " policy_fn=PolicyFn.deferred(ask)).run("
            "['sh', '-c', 'touch \"$0\" word', sys.argv[2] + '/f'])\n")
        out = os.path.join(self.base, "out")
        os.mkdir(out)
        process = self.python("-c", script, self.workdir, out,
                              stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"asked\n")
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.eventually(lambda: self.running() == [])
        self.assertEqual(os.listdir(out), [])
