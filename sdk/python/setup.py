"""Takes the version from the C header, and the library and the program from a
build: $SANDLOCK_BUILD, or build/ of the repository. Without one the wheel has
no library in it, and looks for the system's."""
import os
import re
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("SANDLOCK_BUILD", os.path.join(REPOSITORY, "build"))
FILES = [os.path.join(BUILD, name) for name in ("libsandlock.so", "sandlock")]
HAS_LIBRARY = all(map(os.path.exists, FILES))
if not HAS_LIBRARY:
    print(f"setup.py: no library in '{BUILD}' to bring: SANDLOCK_BUILD names "
          "another directory")


def version():
    """A source distribution has no header any more, but PKG-INFO."""
    for path, pattern in (
            (os.path.join(REPOSITORY, "include", "sandlock", "base.h"),
             r'^#define SANDLOCK_VERSION "(.+)"'),
            (os.path.join(HERE, "PKG-INFO"), r"^Version: (.+)")):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return re.search(pattern, file.read(), re.M)[1]
    raise SystemExit("setup.py: there is no include/sandlock/base.h")


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        for path in FILES if HAS_LIBRARY else ():
            shutil.copy2(path, os.path.join(self.build_lib, "sandlock"))


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return HAS_LIBRARY


options = {}
try:
    from wheel.bdist_wheel import bdist_wheel

    class AnyPython(bdist_wheel):
        """One wheel for every Python 3 of a platform: ctypes has no ABI."""

        def get_tag(self):
            platform = super().get_tag()[2]
            return "py3", "none", platform

    options["bdist_wheel"] = AnyPython
except ImportError:
    pass

setup(version=version(), distclass=PlatformDistribution,
      cmdclass={"build_py": BuildWithLibrary, **options})
