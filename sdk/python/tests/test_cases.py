"""tests/sdk/cases.json, which the C and Go suites run, too."""
from __future__ import annotations

import json
import os

from sandlock import (
    ExceptionPolicy, ExitReason, Handler, NotifAction, Result, Sandbox,
    SandlockError, _run, renames,
)

from .place import SHARED, Place

CASES = os.path.join(SHARED, "cases.json")

POLICIES = {"kill": ExceptionPolicy.KILL, "eperm": ExceptionPolicy.DENY_EPERM,
            "continue": ExceptionPolicy.CONTINUE,
            "eio": ExceptionPolicy.DENY_EIO}


class CaseSandbox(Sandbox):
    """A sandbox that is told keys and values instead of fields."""

    def _request(self, extra_env, bare=False, name=None):
        request = _run.Request()
        for key, values in self.keys.items():
            for value in [values] if isinstance(values, str) else values:
                request.set(key, value.replace("@WORKDIR@", self.directory),
                            key)
        if self.uses_workdir:
            request.set("config.workdir", self.directory, "workdir")
        return request


class CaseHandler(Handler):
    def __init__(self, case):
        self.case = case
        self.on_exception = POLICIES[case.get("on_exception", "kill")]

    def handle(self, ctx):
        action = self.case.get("action", {})
        if "continue" in action:
            return NotifAction.continue_()
        if "errno" in action:
            return NotifAction.errno(action["errno"])
        if "return" in action:
            return NotifAction.returns(action["return"])
        return None


class LaterHandler(CaseHandler):
    async def handle(self, ctx):
        return super().handle(ctx)


def handlers_of(case):
    return [(h["syscall"], (LaterHandler if h.get("later") else CaseHandler)(h))
            for h in case.get("handlers", [])]


def make_files(directory, files):
    for name, what in files.items():
        path = os.path.join(directory, name)
        if name.endswith("/"):
            os.makedirs(path)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        what = what if isinstance(what, dict) else {"text": what}
        if "link" in what:
            os.symlink(what["link"], path)
            continue
        with open(path, "w") as file:
            file.write(what["text"])
        os.chmod(path, int(what.get("mode", "0644"), 8))


def read_files(directory):
    """The tree in the form of the file of cases, empty directories only."""
    found = {}
    for base, dirs, names in os.walk(directory):
        for name in names + [d for d in dirs
                             if os.path.islink(os.path.join(base, d))]:
            path = os.path.join(base, name)
            key = os.path.relpath(path, directory)
            if os.path.islink(path):
                found[key] = {"link": os.readlink(path)}
                continue
            with open(path) as file:
                found[key] = file.read()
        if not dirs and not names and base != directory:
            found[os.path.relpath(base, directory) + "/"] = ""
    return found


def entry_of(entry, wanted):
    """What the case names of one side."""
    if entry is None or wanted is None:
        return entry
    values = {"kind": entry.kind, "size": entry.size, "target": entry.target,
              "mode": f"{entry.mode:04o}",
              "sha256": entry.digest and entry.digest.hex()}
    return {key: values[key] for key in wanted}


class Cases(Place):
    def run_case(self, case):
        bundle = self.make_bundle() if case.get("bundle") else None
        sandbox = CaseSandbox(handlers=handlers_of(case), bundle=bundle)
        sandbox.keys = dict(case.get("request", {}))
        if bundle:
            sandbox.keys["program.bundle"] = bundle
        sandbox.uses_workdir = not bundle and case.get("workdir", True)
        sandbox.directory = self.workdir
        make_files(self.workdir, case.get("files", {}))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.workdir)
        ms = case.get("timeout_ms")
        result = self.result_of(
            lambda: sandbox.run(case["command"], ms and ms / 1000))
        self.check_result(result, case["expect"])
        if "pending" in case["expect"]:
            self.assertEqual(sandbox.pending, case["expect"]["pending"])
        if "files_after" in case:
            self.assertEqual(read_files(self.workdir), case["files_after"])
        for step in case.get("then", []):
            self.run_step(sandbox, case, step)

    def result_of(self, call):
        """A result, also of what is raised."""
        try:
            return call() or Result(success=True)
        except SandlockError as e:
            return Result(success=False, exception=e)

    def run_step(self, sandbox, case, step):
        for name, text in step.get("write", {}).items():
            self.write(name, text)
        calls = {"commit": sandbox.commit, "abort": sandbox.abort,
                 "run": lambda: sandbox.run(case["command"])}
        result = self.result_of(calls[step["call"]])
        self.check_error(result.exception, step.get("error"))
        if "pending" in step:
            self.assertEqual(sandbox.pending, step["pending"])
        if "files" in step:
            self.assertEqual(read_files(self.workdir), step["files"])

    def check_error(self, error, wanted):
        if wanted is None:
            self.assertIsNone(error)
            return
        self.assertIsNotNone(error, "nothing went wrong")
        self.assertEqual(error.kind, wanted["kind"])
        self.assertIn(wanted.get("message", ""), str(error))

    def check_result(self, result, expect):
        self.check_error(result.exception, expect.get("error"))
        if "exit_code" in expect:
            self.assertEqual((result.reason, result.exit_code),
                             (ExitReason.EXITED, expect["exit_code"]))
        if "signal" in expect:
            self.assertEqual((result.reason, result.signal),
                             (ExitReason.SIGNALED, expect["signal"]))
        if "timeout" in expect:
            self.assertEqual(result.reason, ExitReason.TIMEOUT)
        self.assertEqual(result.over_quota, "over_quota" in expect)
        for stream in ("stdout", "stderr"):
            if stream in expect:
                self.assertEqual(getattr(result, stream),
                                 expect[stream].encode())
        if "outcome" in expect:
            self.assertEqual(result.outcome, expect["outcome"])
        if "renames" in expect:
            self.assertEqual(renames(result.changes),
                             [tuple(r) for r in expect["renames"]])
        if "changes" in expect:
            self.check_changes(result.changes, expect["changes"])

    def check_changes(self, changes, wanted):
        self.assertEqual([c.path for c in changes],
                         [w["path"] for w in wanted])
        for change, want in zip(changes, wanted):
            letter = "T" if change.type_changed else change.kind
            self.assertEqual(letter.replace("m", "M"), want["letter"])
            if want.get("content_unchanged"):
                self.assertTrue(change.content_unchanged)
            for side in ("before", "after"):
                if side in want:
                    self.assertEqual(
                        entry_of(getattr(change, side), want[side]),
                        want[side])


def add_tests():
    """A test for each case; its sentence is the test's description."""
    with open(CASES, encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    for number, case in enumerate(cases):
        def test(self, case=case):
            self.run_case(case)
        test.__doc__ = case["name"]
        setattr(Cases, f"test_case_{number:02}", test)


add_tests()
