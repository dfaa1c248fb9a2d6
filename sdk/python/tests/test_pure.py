"""What needs no sandbox: values, errors, names that are not offered."""
from __future__ import annotations

import ast
import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import unittest

import sandlock
from sandlock import (
    BranchAction, Change, Entry, ExitReason, NotOfferedError, PolicyError,
    PolicyFn, Result, Sandbox, SandboxError, SandlockError, StdioMode,
    _missing, _run, inputs, parse_ports, renames,
)
from sandlock.sandbox import KEYS

from .place import EXAMPLES

REFERENCE = os.path.join(os.path.dirname(__file__), "api-0.9.0.txt")


def entry(digest=b"1", kind="file", target=None):
    return Entry(kind=kind, mode=0o644, size=1, digest=digest, target=target)


class Interface(unittest.TestCase):
    """Against the interface of the Rust project's module, 0.9.0."""

    def setUp(self):
        with open(REFERENCE, encoding="utf-8") as file:
            self.text = file.read()

    def test_every_name_is_offered_or_refused_with_a_next_step(self):
        exports = re.search(r"^Exports: (.*)$", self.text, re.M)[1].split()
        for name in exports:
            if name in _missing.NAMES:
                with self.assertRaisesRegex(ImportError, r"\(.+\)"):
                    getattr(sandlock, name)
            else:
                self.assertTrue(hasattr(sandlock, name), name)

    def class_text(self, name):
        found = re.search(rf"^## [\w.]+ {name} \[.*?(?=^## |^func |\Z)",
                          self.text, re.M | re.S)
        return found[0]

    def test_every_field_is_offered_or_refused_with_a_next_step(self):
        fields = re.findall(r"^  field (\w+)", self.class_text("Sandbox"),
                            re.M)
        self.assertGreater(len(fields), 40)
        names = inspect.signature(Sandbox).parameters
        for name in fields:
            if name in _missing.FIELDS:
                with self.assertRaisesRegex(NotOfferedError, r"\(.+\)"):
                    Sandbox(**{name: 1})
                Sandbox(**{name: None})
                self.assertNotIn(name, names)
            else:
                self.assertIn(name, names)

    def test_defaults_are_the_same(self):
        sandbox = Sandbox()
        self.assertIs(sandbox.on_exit, BranchAction.COMMIT)
        self.assertIs(sandbox.on_error, BranchAction.ABORT)
        self.assertIsNone(sandbox.max_processes)

    def test_every_method_is_offered_or_absent_with_a_next_step(self):
        for name in ("Sandbox", "Process", "Result", "Change", "Stage",
                     "Pipeline", "Gather", "GatherPipeline", "Entry",
                     "NamedStage", "SyscallEvent", "Handler", "HandlerCtx",
                     "NotifAction", "PolicyContext"):
            cls = getattr(sandlock, name)
            members = re.findall(r"^ +(?:def|property|classmethod) (\w+)",
                                 self.class_text(name), re.M)
            for member in members:
                if name == "Sandbox" and member in _missing.METHODS:
                    self.assertFalse(hasattr(cls, member), member)
                    with self.assertRaisesRegex(AttributeError, r"\(.+\)"):
                        getattr(Sandbox(), member)
                else:
                    self.assertTrue(hasattr(cls, member), member)

    def test_values_have_the_same_fields(self):
        for name in ("Change", "Entry", "Result", "SyscallEvent",
                     "HandlerCtx", "NotifAction"):
            for field in re.findall(r"^  field (\w+)", self.class_text(name),
                                    re.M):
                self.assertIn(field, getattr(
                    sandlock, name).__dataclass_fields__, name)

    def test_enums_have_the_same_values(self):
        for name in re.findall(r"^## [\w.]+ (\w+) \[.*Enum", self.text, re.M):
            if name in _missing.NAMES:
                continue
            values = re.search(r"\{(.*)\}", self.class_text(name))[1]
            for pair in values.split(", "):
                key, _, value = pair.partition(": ")
                self.assertEqual(str(getattr(sandlock, name)[key].value),
                                 value)

    def test_errors_have_the_same_bases(self):
        found = re.findall(r"^## sandlock.exceptions (\w+) \[(.*)\]",
                           self.text, re.M)
        self.assertGreater(len(found), 8)
        for name, bases in found:
            names = [c.__name__ for c in getattr(sandlock, name).__mro__]
            for base in bases.split(", "):
                self.assertIn(base, names)

    def test_modules_are_refused_with_a_next_step(self):
        for text in ("import sandlock.mcp", "from sandlock import mcp",
                     "import sandlock.mcp.server", "import sandlock\n"
                     "sandlock.mcp", "from sandlock.mcp import McpSandbox"):
            with self.assertRaisesRegex(ImportError, "mcp_approval.py"):
                exec(text, {})
        result = subprocess.run([sys.executable, "-m", "sandlock.mcp"],
                                stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"mcp_approval.py", result.stderr)
        path = os.path.join(EXAMPLES, "mcp_approval.py")
        self.assertTrue(os.path.exists(path))

    def test_unknown_names_are_what_they_always_were(self):
        with self.assertRaises(TypeError):
            Sandbox(bogus=1)
        with self.assertRaises(AttributeError):
            Sandbox().bogus
        with self.assertRaises(AttributeError):
            sandlock.bogus


class Values(unittest.TestCase):
    def test_the_syntax_is_that_of_3_9(self):
        directory = os.path.dirname(sandlock.__file__)
        for name in os.listdir(directory):
            if name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    ast.parse(file.read(), name, feature_version=(3, 9))

    def test_landlock_versions(self):
        self.assertGreaterEqual(sandlock.landlock_abi_version(), -1)
        self.assertEqual(sandlock.min_landlock_abi(), 6)

    def test_every_field_is_a_key_or_handled_by_name(self):
        request = _run.Request()
        for name, key in KEYS.items():
            if name == "name":
                continue
            try:
                request.set(key, "\x01", name)
            except PolicyError as e:
                self.assertNotIn("there is no key", str(e))

    def test_parse_ports(self):
        self.assertEqual(parse_ports([80, "8000-8002", "22, 80"]),
                         [22, 80, 8000, 8001, 8002])
        for bad in ("x", "1-", "2-1", "65536", -1, "", "1,,2"):
            with self.assertRaises(ValueError):
                parse_ports([bad])

    def test_change_kinds(self):
        added = Change("a", None, entry())
        deleted = Change("a", entry(), None)
        touched = Change("a", entry(), entry())
        typed = Change("a", entry(None, "dir"), entry())
        self.assertEqual([c.kind for c in (added, deleted, touched, typed)],
                         ["A", "D", "M", "M"])
        self.assertTrue(touched.content_unchanged)
        self.assertFalse(added.content_unchanged)
        self.assertTrue(typed.type_changed)
        self.assertEqual(str(added), "A  a")

    def test_renames_pair_only_what_is_clear(self):
        self.assertEqual(renames([Change("a", entry(b"1"), None),
                                  Change("b", None, entry(b"1")),
                                  Change("c", entry(b"2"), None),
                                  Change("d", None, entry(b"2")),
                                  Change("e", None, entry(b"2"))]),
                         [("a", "b")])

    def test_a_command_is_a_list_of_words(self):
        for bad, error in (("true", TypeError), ([], ValueError)):
            with self.assertRaises(error):
                Sandbox().run(bad)

    def test_a_nul_byte_is_refused_and_never_cuts_a_path(self):
        with self.assertRaises(ValueError):
            Sandbox(fs_readable=["/etc\0/x"]).run(["true"])

    def test_bad_values_are_policy_errors(self):
        for bad in ({"max_memory": "much"}, {"uid": 1},
                    {"fs_mount": {"relative": "/etc"}},
                    {"net_allow": ["::::"]}, {"max_processes": 0},
                    {"fs_mount_ro": {"relative": "/etc"}}):
            with self.assertRaises(PolicyError) as caught:
                Sandbox(**bad).run(["true"])
            self.assertIsInstance(caught.exception, RuntimeError)
            self.assertEqual(caught.exception.step, "configure")
        with self.assertRaises(ValueError):
            Sandbox(on_exit="never").run(["true"])

    def test_what_is_wrong_is_said_at_once(self):
        for name in ("", "a\0b"):
            with self.assertRaises(ValueError):
                Sandbox(name=name)
        for field in ("on_exit", "on_error"):
            with self.assertRaises(ValueError):
                Sandbox(**{field: "publish"})
        self.assertIs(Sandbox(on_exit="keep").on_exit, BranchAction.KEEP)
        with self.assertRaises(ValueError):
            sandlock.Pipeline([Sandbox().cmd(["true"])])
        with self.assertRaises(ValueError):
            sandlock.NotifAction.inject_fd_send(-1)
        with self.assertRaisesRegex(PolicyError, "more than once"):
            Sandbox(fs_mount={"/m": "/usr"}, fs_mount_ro={"/m": "/usr"}).run(
                ["true"])

    def test_a_policy_fn_that_cannot_be_called_is_no_policy(self):
        async def later(event, context):
            pass

        for bad in (3, "x", 0, "", [], lambda event: None,
                    lambda event, context, approval: None, later):
            with self.assertRaisesRegex(TypeError, "^policy_fn: "):
                Sandbox(policy_fn=bad)
            sandbox = Sandbox()
            sandbox.policy_fn = bad
            with self.assertRaisesRegex(TypeError, "^policy_fn: "):
                sandbox.run(["true"])
        for bad in (3, lambda event, context: None):
            with self.assertRaisesRegex(TypeError, "^policy_fn: "):
                PolicyFn.deferred(bad)
        for good in (lambda *words: None, lambda event, context, more=1: None,
                     max, dict.get):
            Sandbox(policy_fn=good)
        PolicyFn.deferred(lambda event, context, approval: None)

    def test_a_name_with_what_ends_it_is_refused(self):
        for name in ("A=", "=", "", "A\0", b"A="):
            with self.assertRaises(ValueError):
                Sandbox(env={name: "b"}).run(["true"])
        for field in ("fs_mount", "fs_mount_ro"):
            with self.assertRaisesRegex(PolicyError, "'/a:b'"):
                Sandbox(**{field: {"/a:b": "/usr"}}).run(["true"])

    def test_a_wrong_type_is_named_with_its_argument(self):
        wrong = {
            "env": ({"A": None}, {"A": ["b"]}, {"A": True}, {1: "b"}, "A=b",
                    ["A=b"]),
            "fs_mount": ({"/a": None}, ["/a:/b"]), "fs_mount_ro": ({1: "/b"},),
            "workdir": (3, ["/tmp", None], {"/tmp": 1}),
            "fs_writable": (1, [None]), "fs_readable": ([3], {"/": "ro"}),
            "fs_denied": (True,), "net_allow": ([443], 443),
            "net_allow_bind": ([None], 80.5, [80.5], [True]),
            "extra_deny_syscalls": ([1],), "allow_degraded": (["fs"], 3, [9]),
            "disable": (["x"], [None]), "max_memory": (1.5, True, [1]),
            "max_processes": ("many", 1.5, True), "uid": ("root", True),
            "gid": (0.5,), "chroot": (1, ["/"]), "cwd": (True,),
            "fs_storage": (3,), "bundle": (3,), "name": (3, b"x", ["x"]),
            "timeout": ([1], True, float("nan"), float("inf")),
            "ask_timeout": ({},), "ask_exec": ([1],), "ask_by": (1,),
            "ask_limit": ("1",), "clean_env": ("yes", 1), "explain": (0,),
            "no_supervisor": ("",), "control_socket": ("no",),
            "isolation": (1,), "on_exit": (3, "merge", None),
            "on_error": ("x",), "handlers": (3, [3], [("openat",)]),
            "handler_threads": ("2",), "handler_timeout": ("2",),
            "policy_fn": ("x",),
        }
        for name, values in wrong.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    with self.assertRaisesRegex((TypeError, ValueError),
                                                f"^(a key of )?{name}\\b"):
                        Sandbox(**{name: value})._request({})
        later = Sandbox()
        later.env = {"A": None}
        with self.assertRaisesRegex(TypeError, r"^env\['A'\]: None"):
            later.run(["true"])
        with self.assertRaisesRegex(ValueError, "^fs_readable: "):
            Sandbox(fs_readable=["/a\0b"]).run(["true"])
        for fine in ({"env": {"A": 1, b"B": b"c"}}, {"workdir": "/tmp"},
                     {"workdir": (b"/tmp",)}, {"timeout": "5m"},
                     {"net_allow_bind": [80, "90-95"]}, {"env": None},
                     {"fs_readable": {"/usr"}}, {"on_exit": "keep"}):
            Sandbox(**fine)._request({})

    def test_nothing_to_decide_and_nothing_to_wait_for(self):
        sandbox = Sandbox()
        for call in (sandbox.commit, sandbox.abort, sandbox.wait,
                     sandbox.kill, sandbox.start, sandbox.pause):
            with self.assertRaises(RuntimeError) as caught:
                call()
            self.assertEqual(caught.exception.kind, "state")
        self.assertFalse(sandbox.pending)
        self.assertIsNone(sandbox.upper_dir)
        self.assertIsNone(sandbox.pid)
        self.assertEqual(sandbox.ports(), {})

    def test_copies_have_the_settings(self):
        sandbox = Sandbox(name="x", env={"A": "b"})
        for other in (copy.deepcopy(sandbox),
                      pickle.loads(pickle.dumps(sandbox))):
            self.assertEqual(other, sandbox)
            self.assertIsNot(other._lock, sandbox._lock)

    def test_results_raise_what_went_wrong(self):
        result = Result(success=True)
        self.assertIs(result.check(), result)
        with self.assertRaisesRegex(SandlockError, "status 3"):
            Result(False, 3, reason=ExitReason.EXITED).check()
        with self.assertRaisesRegex(SandlockError, "signal 15"):
            Result(False, -1, reason=ExitReason.SIGNALED, signal=15).check()
        error = SandboxError("no", errno=2, step="create", hint="do", kind="k")
        with self.assertRaises(SandboxError):
            Result(False, -1, exception=error).check()
        self.assertEqual(str(error), "create: no (do)")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.errno, again.step, again.hint, again.kind),
                         (2, "create", "do", "k"))

    def test_stdio_modes_are_checked(self):
        with self.assertRaises(ValueError):
            Sandbox().popen(["true"], stdout=7)
        self.assertEqual(StdioMode(1), StdioMode.PIPED)

    def test_inputs_are_read_once(self):
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"text")
        os.close(write_fd)
        os.environ["_SANDLOCK_GATHER"] = f"a:{read_fd}"
        try:
            self.assertIn("a", inputs)
            self.assertEqual([inputs["a"], inputs["a"]], ["text", "text"])
            with self.assertRaises(KeyError):
                inputs["b"]
        finally:
            del os.environ["_SANDLOCK_GATHER"]


if __name__ == "__main__":
    unittest.main()
