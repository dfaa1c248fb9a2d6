"""The structures of ctypes against what a C compiler makes of the header."""
from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest

from sandlock import _ffi

HEADER = os.environ.get("SANDLOCK_HEADER") or os.path.join(
    os.path.dirname(__file__), *[os.pardir] * 3, "include", "sandlock.h")


def lines_of(name, structure):
    """C statements that print a structure's size and its members' places."""
    yield f'printf("{name} %zu\\n", sizeof(struct {name}));'
    for member, *_ in structure._fields_:
        c = _ffi.RENAMED.get(member, member)
        c = f"struct {name}, {c}"
        yield (f'printf("{name}.{member} %zu %zu\\n", offsetof({c}), '
               f"sizeof(((struct {name} *)0)->{c.split()[-1]}));")


def expected(name, structure):
    yield f"{name} {ctypes.sizeof(structure)}"
    for member, *_ in structure._fields_:
        place = getattr(structure, member)
        yield f"{name}.{member} {place.offset} {place.size}"


@unittest.skipUnless(shutil.which("cc") and os.path.exists(HEADER),
                     "needs a C compiler and include/sandlock.h")
class Layout(unittest.TestCase):
    def test_every_structure_is_what_the_compiler_says(self):
        body = [line for item in _ffi.STRUCTURES.items()
                for line in lines_of(*item)]
        source = "\n".join(
            ["#include <stddef.h>", "#include <stdio.h>",
             f'#include "{os.path.abspath(HEADER)}"', "int main(void) {",
             *body, "return 0; }"])
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "layout")
            subprocess.run(["cc", "-x", "c", "-o", program, "-"], check=True,
                           input=source, text=True)
            found = subprocess.run([program], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.split("\n")
        wanted = [line for item in _ffi.STRUCTURES.items()
                  for line in expected(*item)]
        self.assertEqual(found[:-1], wanted)


if __name__ == "__main__":
    unittest.main()
