"""Where a test works: a directory of its own, and a store below it."""
from __future__ import annotations

import fcntl
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from sandlock import _ffi

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
EXAMPLES = os.path.join(PACKAGE, "examples")
# What the suites of all languages share.
SHARED = (os.path.dirname(os.environ.get("SANDLOCK_CASES", ""))
          or os.path.join(PACKAGE, *[os.pardir] * 2, "tests", "sdk"))
# A loaded machine must not fail a test.
LIMIT_S = 60


def unique(name):
    """Cgroups are shared with suites that run beside this one."""
    return f"{name}-{os.getpid()}"


def is_locked(directory):
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


class Place(unittest.TestCase):
    """self.workdir is on a real disk; nothing may be left behind."""

    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="slpy.", dir="/var/tmp")
        self.addCleanup(self._remove)
        self.workdir = os.path.join(self.base, "work")
        self.store = os.path.join(self.base, "store")
        os.mkdir(self.workdir)
        self._set("SANDLOCK_ROOT", os.path.join(self.base, "run"))
        self._set("SANDLOCK_STORE", self.store)

    def _remove(self):
        """What the store's removers are at is theirs until they let go."""
        self.eventually(lambda: not any(map(is_locked, glob.glob(
            os.path.join(self.store, "trash", "*")))), "a remover hangs")
        for at, names, _files in os.walk(self.base):
            for name in names:
                path = os.path.join(at, name)
                # The work directory of an overlay has no permissions.
                if not os.path.islink(path):
                    os.chmod(path, 0o700)

        def remove():
            # A supervisor that ends beside it removes its own directory.
            shutil.rmtree(self.base, ignore_errors=True)
            return not os.path.exists(self.base)

        self.eventually(remove, "what a test made stays")

    def make_bundle(self):
        """One whose root file system is the workdir."""
        with open(os.path.join(SHARED, "bundle.json")) as file:
            text = file.read()
        for word, value in (("@WORKDIR@", self.workdir),
                            ("@UID@", os.getuid()), ("@GID@", os.getgid())):
            text = text.replace(word, str(value))
        bundle = os.path.join(self.base, "bundle")
        os.mkdir(bundle)
        with open(os.path.join(bundle, "config.json"), "w") as file:
            file.write(text)
        return bundle

    def _set(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value

        def restore():
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before

        self.addCleanup(restore)

    def path(self, name):
        return os.path.join(self.workdir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def stored(self):
        """Names of the branches in the store."""
        try:
            return sorted(os.listdir(os.path.join(self.store, "branches")))
        except FileNotFoundError:
            return []

    def running(self):
        """Names in the runtime directory."""
        try:
            return sorted(os.listdir(os.environ["SANDLOCK_ROOT"]))
        except FileNotFoundError:
            return []

    def delete_all(self):
        """What is left where a supervisor was killed: its cgroup, too."""
        program = _ffi._find_program(_ffi._find_library()) or "sandlock"
        for name in self.running():
            subprocess.run([program, "delete", "--force", name], check=True)

    def eventually(self, condition, message="it never came true"):
        end = time.monotonic() + LIMIT_S
        while not condition():
            self.assertLess(time.monotonic(), end, message)
            time.sleep(0.02)

    def python(self, *args, **options):
        """Another interpreter with this package."""
        return subprocess.Popen([sys.executable, *args],
                                env={**os.environ, "PYTHONPATH": PACKAGE},
                                **options)


def snapshot(directory):
    """Everything that can be seen of a tree, times included."""
    found = {}
    for base, dirs, files in os.walk(directory):
        for name in [".", *dirs, *files] if base == directory else [*dirs,
                                                                    *files]:
            path = os.path.join(base, name)
            st = os.lstat(path)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, directory)] = (
                st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, content)
    return found
