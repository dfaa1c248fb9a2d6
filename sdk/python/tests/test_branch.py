"""The branch: rows of SEEDS part 3 where they are about Python."""
from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import signal
import subprocess
import threading
import time

import sandlock
from sandlock import (
    BranchAction, BranchConflictError, BranchError, PolicyError, Sandbox,
    SandboxError, Transaction, branches, denials, features,
)

from .place import EXAMPLES, LIMIT_S, Place, snapshot, unique

CHANGE = ["sh", "-c", "echo new >new; rm gone; echo z >>d/f"]

# seeds/000, word for word but for the indentation.
SEED_EXAMPLE = """\
sb = Sandbox(workdir=wd, on_exit=BranchAction.DEFER)
r = sb.run(cmd)
if sb.pending:
    if await approve(r.changes, sb.upper_dir, wd):
        await asyncio.to_thread(sb.commit)
    else:
        sb.abort()
"""


class Branch(Place):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("d"))
        for name in ("keep", "gone", "d/f"):
            self.write(name, name)
        self.before = snapshot(self.workdir)

    def deferred(self, **more):
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.DEFER,
                          **more)
        self.result = sandbox.run(CHANGE)
        self.assertTrue(self.result.success, self.result.error)
        self.assertTrue(sandbox.pending)
        return sandbox

    def check_published(self):
        self.assertEqual(sorted(os.listdir(self.workdir)),
                         ["d", "keep", "new"])
        self.assertEqual((self.read("new"), self.read("d/f")),
                         ("new\n", "d/fz\n"))

    def check_untouched(self):
        self.assertEqual(snapshot(self.workdir), self.before)


class Row1(Branch):
    """The example of seeds/000, word for word."""

    def run_example(self, answer):
        asked = []

        async def approve(changes, upper_dir, wd):
            asked.append(([str(c) for c in changes], wd))
            with open(os.path.join(upper_dir, "new")) as file:
                self.assertEqual(file.read(), "new\n")
            self.check_untouched()
            await asyncio.sleep(0.01)
            return answer

        body = "".join(f"    {line}\n" for line in SEED_EXAMPLE.splitlines())
        scope = {"asyncio": asyncio, "Sandbox": Sandbox,
                 "BranchAction": BranchAction, "approve": approve,
                 "wd": self.workdir, "cmd": CHANGE}
        exec("async def main():\n" + body, scope)
        asyncio.run(scope["main"]())
        self.assertEqual(asked, [(["M  d/f", "D  gone", "A  new"],
                                  self.workdir)])

    def test_approved(self):
        self.run_example(True)
        self.check_published()
        self.assertEqual(self.stored(), [])

    def test_refused(self):
        self.run_example(False)
        self.check_untouched()
        self.assertEqual(self.stored(), [])

    def test_the_shipped_example_is_the_same(self):
        with open(os.path.join(EXAMPLES, "deferred_commit.py")) as file:
            text = file.read()
        self.assertIn("".join(f"    {line}\n" for line
                              in SEED_EXAMPLE.splitlines()), text)


class Row7(Branch):
    """Dropped while pending: kept, and a later commit is exact."""

    name = unique("embedded")

    def check_kept(self, name):
        self.check_untouched()
        self.eventually(lambda: [b.state for b in branches()] == ["pending"])
        branch = branches()[0]
        self.assertEqual((branch.name, branch.workdir), (name, self.workdir))
        self.assertEqual([str(c) for c in branch.changes()],
                         ["M  d/f", "D  gone", "A  new"])
        branch.commit()
        self.check_published()
        self.assertEqual(self.stored(), [])

    def test_freed(self):
        sandbox = self.deferred()
        del sandbox
        self.check_kept(self.result.name)

    def test_with_exit(self):
        with self.deferred():
            pass
        self.check_kept(self.result.name)

    def run_script(self, end):
        script = (
            "import os, sys, signal\n"
            "from sandlock import *\n"
            f"sb = Sandbox(workdir=sys.argv[1], name='{self.name}', "
            "on_exit=BranchAction.DEFER)\n"
            "r = sb.run(sys.argv[2:])\n"
            "assert sb.pending, r\n" + end)
        process = self.python("-c", script, self.workdir, *CHANGE)
        status = process.wait(LIMIT_S)
        self.check_kept(self.name)
        return status

    def test_os_exit(self):
        self.assertEqual(self.run_script("os._exit(5)"), 5)

    def test_sigkill(self):
        self.assertEqual(
            self.run_script("os.kill(os.getpid(), signal.SIGKILL)"),
            -signal.SIGKILL)

    def test_sigkill_while_it_runs(self):
        script = ("import sys\nfrom sandlock import *\n"
                  f"Sandbox(workdir=sys.argv[1], name='{self.name}', "
                  "on_exit=BranchAction.COMMIT).run(sys.argv[2:])")
        process = self.python("-c", script, self.workdir, "sh", "-c",
                              CHANGE[2] + "; echo $$ >d/pid; sleep 1000")
        self.eventually(lambda: [b for b in branches()] and os.path.exists(
            os.path.join(branches()[0].upper_dir, "d", "pid")))
        process.kill()
        process.wait()
        self.eventually(lambda: branches()[0].state not in
                        ("open", "running"))
        self.check_untouched()
        self.assertEqual([b.name for b in branches()], [self.name])
        branches()[0].abort()
        self.check_untouched()


class Row13(Branch):
    """Somebody else holds the workdir's lock."""

    def test_a_commit_waits_5_seconds_and_can_be_repeated(self):
        sandbox = self.deferred()
        fd = os.open(self.workdir, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_EX)
        start = time.monotonic()
        with self.assertRaises(BranchError) as caught:
            sandbox.commit()
        self.assertGreater(time.monotonic() - start, 4.5)
        self.assertEqual(caught.exception.kind, "locked")
        self.assertIn(os.path.join(self.store, "branches", self.result.name),
                      str(caught.exception))
        self.assertTrue(sandbox.pending)
        self.check_untouched()
        fcntl.flock(fd, fcntl.LOCK_UN)
        sandbox.commit()
        self.check_published()


class Row14And15(Branch):
    """Which runs are pending, and that changes are always there."""

    ENDS = {"exit 0": True, "exit 3": False, "kill -SEGV $$": False}

    def test_only_success_is_pending(self):
        for end, is_pending in self.ENDS.items():
            with self.subTest(end):
                sandbox = Sandbox(workdir=self.workdir,
                                  on_exit=BranchAction.DEFER)
                result = sandbox.run(["sh", "-c", f"echo x >new; {end}"])
                self.assertEqual(sandbox.pending, is_pending)
                self.assertEqual([str(c) for c in result.changes],
                                 ["A  new"])
                if is_pending:
                    sandbox.abort()
                self.check_untouched()

    def test_a_timeout_is_an_error(self):
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.DEFER)
        result = sandbox.run(["sh", "-c", "echo x >new; exec sleep 1000"],
                             timeout=3)
        self.assertFalse(sandbox.pending)
        self.assertEqual([str(c) for c in result.changes], ["A  new"])
        self.check_untouched()

    def test_changes_are_the_same_whatever_becomes_of_them(self):
        seen = set()
        command = "echo x >new; : >>keep; rm gone; exit "
        for number, action in enumerate(BranchAction):
            for status in (0, 3):
                with self.subTest(action=action, status=status):
                    self.write("gone", "gone")
                    if os.path.exists(self.path("new")):
                        os.unlink(self.path("new"))
                    sandbox = Sandbox(workdir=self.workdir, on_exit=action,
                                      on_error=action)
                    result = sandbox.run(["sh", "-c", command + str(status)])
                    seen.add(tuple(f"{c} {c.content_unchanged}"
                                   for c in result.changes))
                    if sandbox.pending:
                        sandbox.abort()
        self.assertEqual(seen, {("D  gone False", "M  keep True",
                                 "A  new False")})
        for branch in branches():
            branch.abort()

    def test_without_a_branch_there_are_none(self):
        self.assertEqual(Sandbox().run(["true"]).changes, [])


class Row20(Branch):
    """The host edits a file during the wait."""

    def test_the_last_writer_wins(self):
        sandbox = self.deferred()
        self.write("d/f", "from the host")
        sandbox.commit()
        self.check_published()

    def test_unless_conflicts_are_refused(self):
        sandbox = self.deferred()
        self.write("d/f", "from the host")
        with self.assertRaises(BranchConflictError):
            sandbox.commit(conflicts="refuse")
        self.assertTrue(sandbox.pending)
        self.assertEqual(self.read("d/f"), "from the host")
        self.assertFalse(os.path.exists(self.path("new")))
        sandbox.commit(conflicts="force")
        self.check_published()


class Row37(Branch):
    """Calls at the wrong time: an error, no effect."""

    def test_run_while_pending(self):
        sandbox = self.deferred()
        with self.assertRaises(RuntimeError):
            sandbox.run(["sh", "-c", "echo again >new"])
        self.assertTrue(sandbox.pending)
        with open(os.path.join(sandbox.upper_dir, "new")) as file:
            self.assertEqual(file.read(), "new\n")
        sandbox.commit()
        self.check_published()

    def test_commit_while_it_runs(self):
        with Sandbox(workdir=self.workdir,
                     on_exit=BranchAction.DEFER) as sandbox:
            sandbox.spawn(["sh", "-c", "echo x >new; exec sleep 1000"])
            for call in (sandbox.commit, sandbox.abort):
                with self.assertRaises(RuntimeError):
                    call()
            self.assertTrue(sandbox.is_running)
        self.check_untouched()

    def test_twice(self):
        sandbox = self.deferred()
        sandbox.commit()
        published = snapshot(self.workdir)
        for call in (sandbox.commit, sandbox.abort):
            with self.assertRaises(RuntimeError):
                call()
        self.assertEqual(snapshot(self.workdir), published)
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.DEFER)
        sandbox.run(["touch", "other"])
        sandbox.abort()
        for call in (sandbox.commit, sandbox.abort):
            with self.assertRaises(RuntimeError):
                call()
        self.assertEqual(snapshot(self.workdir), published)

    def test_an_empty_deferred_run(self):
        for decide in (Sandbox.commit, Sandbox.abort):
            sandbox = Sandbox(workdir=self.workdir,
                              on_exit=BranchAction.DEFER)
            result = sandbox.run(["true"])
            self.assertTrue(sandbox.pending)
            self.assertEqual(result.changes, [])
            self.assertIsNotNone(sandbox.upper_dir)
            decide(sandbox)
            self.assertFalse(sandbox.pending)
            self.assertIsNone(sandbox.upper_dir)
            self.assertEqual(self.stored(), [])
        sandbox.run(["true"])
        del sandbox
        self.assertEqual(self.stored(), [])
        self.check_untouched()


class Threads(Branch):
    def test_commit_from_another_thread_after_the_first_has_ended(self):
        made = []
        first = threading.Thread(target=lambda: made.append(self.deferred()))
        first.start()
        first.join()
        second = threading.Thread(target=made[0].commit)
        second.start()
        second.join()
        self.check_published()

    def test_two_that_decide_at_once(self):
        sandbox = self.deferred()
        errors = []

        def decide(call):
            try:
                call()
            except SandboxError as e:
                errors.append(e.kind)

        threads = [threading.Thread(target=decide, args=(sandbox.commit,))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, ["state"] * 3)
        self.check_published()


class Stored(Branch):
    def test_parts_by_name_from_another_process(self):
        with self.deferred(name=unique("parts")):
            pass
        script = ("import sys, sandlock\n"
                  "[b] = sandlock.branches()\n"
                  "b.commit(['new'])\n"
                  "b.abort(['gone'])\n"
                  "print(*b.changes(), sep=',')\n")
        out = self.python("-c", script, stdout=subprocess.PIPE).communicate(
            timeout=LIMIT_S)[0]
        self.assertEqual(out, b"M  d/f\n")
        self.assertEqual((self.read("new"), self.read("gone")),
                         ("new\n", "gone"))
        branches()[0].abort()
        self.assertEqual(branches(), [])

    def test_changes_by_name_are_those_of_the_result(self):
        sandbox = self.deferred()
        self.assertEqual(branches()[0].changes(), self.result.changes)
        sandbox.abort()

    def test_one_that_is_gone(self):
        sandbox = self.deferred()
        branch = branches()[0]
        sandbox.abort()
        for ask in (branch.commit, branch.recover, branch.uncovered,
                    lambda: denials(branch.name)):
            with self.assertRaises(SandboxError) as caught:
                ask()
            self.assertEqual(caught.exception.kind, "not_found")

    def test_nothing_is_to_be_recovered(self):
        sandbox = self.deferred()
        for rollback in (False, True):
            self.assertEqual(branches()[0].recover(rollback=rollback),
                             "nothing")
        sandbox.abort()

    def test_mounts_that_it_does_not_cover(self):
        if os.geteuid() != 0:
            self.skipTest("only root mounts")
        sandbox = self.deferred()
        [branch] = branches()
        self.assertEqual(branch.uncovered(), [])
        subprocess.run(["mount", "-t", "tmpfs", "none", self.path("d")],
                       check=True)
        try:
            self.assertEqual(branch.uncovered(), ["d"])
        finally:
            subprocess.run(["umount", self.path("d")], check=True)
        sandbox.abort()

    def test_what_was_refused(self):
        sandbox = Sandbox(workdir=self.workdir, on_exit=BranchAction.DEFER)
        sandbox.run(["sh", "-c",
                     "echo x >new; mount -t tmpfs none /mnt 2>/dev/null; :"])
        [denial] = [d for d in denials(branches()[0].name)
                    if d.call == "mount"]
        self.assertEqual((denial.code, denial.errno, denial.count),
                         ("syscall.mount", errno.EPERM, 1))
        self.assertEqual(denial.first, denial.last)
        self.assertLess(abs(denial.first.timestamp() - time.time()), 300)
        sandbox.abort()

    def test_features(self):
        self.assertIn("ociVersionMax", features())


class Transactions(Branch):
    def stage(self, command, **more):
        return Sandbox(workdir=self.workdir, **more).cmd(
            ["sh", "-c", command])

    def test_all_of_it(self):
        result = Transaction([
            self.stage("echo new >new; echo one"),
            self.stage("cat new; rm gone"), self.stage("echo z >>d/f"),
        ]).run(timeout=LIMIT_S)
        self.assertTrue(result.success, result)
        self.assertEqual([s.stdout for s in result.stages],
                         [b"one\n", b"new\n", b""])
        self.assertEqual((result.outcome, result.failed),
                         ("committed", None))
        self.check_published()

    def test_or_nothing(self):
        result = Transaction([
            self.stage("echo new >new"), self.stage("rm gone; exit 3"),
            self.stage("echo never >never")]).run()
        self.assertEqual((result.success, result.outcome, result.failed),
                         (False, "aborted", 1))
        self.assertEqual([s.exit_code for s in result.stages], [0, 3])
        self.check_untouched()
        self.assertEqual(self.stored(), [])

    def test_bundles(self):
        bundle = self.make_bundle()

        def stage(command):
            return Sandbox(bundle=bundle).cmd(
                ["/bin/busybox", "sh", "-c", command])

        result = Transaction([stage("echo new >new"),
                              stage("busybox rm gone; exit 3")]).run(timeout=LIMIT_S)
        self.assertEqual((result.outcome, result.failed), ("aborted", 1))
        self.check_untouched()
        result = Transaction([
            stage("echo new >new"), stage("busybox cat new; busybox rm gone"),
            stage("echo z >>d/f")]).run(timeout=LIMIT_S)
        self.assertEqual(result.stages[1].stdout, b"new\n")
        self.check_published()
        with self.assertRaises(PolicyError):
            Transaction([stage("true"), self.stage("true")]).run()

    def test_what_a_stage_may_not_say_is_refused_before_any_runs(self):
        """Row 38."""
        for action in ("DEFER", "ABORT", "KEEP"):
            with self.assertRaises(PolicyError) as caught:
                Transaction([
                    self.stage("echo new >new"),
                    self.stage("true", on_exit=BranchAction[action])]).run()
            self.assertIn("stage 2", str(caught.exception))
        self.check_untouched()

    def savepoints(self, *commands):
        return Transaction([self.stage(c) for c in commands], savepoints=True)

    def test_a_stage_is_undone_and_run_again(self):
        transaction = self.savepoints(
            "echo new >new", "cat new; echo half >>new; rm gone; exit 3")
        for _ in range(2):
            result = transaction.run(timeout=LIMIT_S)
            self.assertEqual((result.outcome, result.failed), ("pending", 1))
            self.assertEqual(result.stages[1].stdout, b"new\n")
            self.assertEqual(
                [[(c.kind, c.path) for c in stage.changes]
                 for stage in result.stages],
                [[("A", "new")], [("D", "gone"), ("A", "new")]])
        with self.assertRaises(PolicyError):
            transaction.rollback(2)
        result = transaction.commit()
        self.assertEqual((result.success, result.outcome),
                         (True, "committed"))
        self.assertTrue(os.path.exists(os.path.join(self.workdir, "gone")))
        with open(os.path.join(self.workdir, "new")) as file:
            self.assertEqual(file.read(), "new\n")
        self.assertEqual(self.stored(), [])
        with self.assertRaises(SandboxError):
            transaction.commit()

    def test_what_was_written_before_is_kept(self):
        transaction = self.savepoints("echo new >new", "rm gone; exit 3")
        name = transaction.run(timeout=LIMIT_S).name
        self.assertEqual(transaction.keep().outcome, "pending")
        self.check_untouched()
        self.assertEqual(self.stored(), [name])
        transaction = self.savepoints("echo new >new", "exit 3")
        transaction.run(timeout=LIMIT_S)
        transaction.rollback(0)
        self.assertEqual(transaction.abort().outcome, "aborted")
        self.assertEqual(self.stored(), [name])
        branches()[0].abort()

    def test_killed_from_another_thread(self):
        transaction = Transaction([self.stage("echo x >new; sleep 1000"),
                                   self.stage("true")])
        timer = threading.Timer(0.5, transaction.kill)
        timer.start()
        result = transaction.run()
        timer.join()
        self.assertEqual((result.success, len(result.stages)), (False, 1))
        self.check_untouched()
        with self.assertRaises(RuntimeError):
            transaction.run()


class Examples(Branch):
    def run_deferred(self, answer):
        process = self.python(os.path.join(EXAMPLES, "deferred_commit.py"),
                              self.workdir, *CHANGE, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
        out = process.communicate(answer, timeout=LIMIT_S)[0]
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"A  new", out)

    def test_deferred_commit(self):
        self.run_deferred(b"n\n")
        self.check_untouched()
        self.run_deferred(b"y\n")
        self.check_published()

    def printed(self, example):
        return self.python(os.path.join(EXAMPLES, example),
                           stdout=subprocess.PIPE).communicate(
                               timeout=LIMIT_S)[0]

    def test_pipeline(self):
        self.assertEqual(self.printed("pipeline.py"),
                         b"apple\nfig\npear\nsix pears\n")

    def test_handlers(self):
        self.assertEqual(self.printed("handlers.py"),
                         b"s3cret\nno such secret\n")
