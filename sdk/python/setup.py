"""Takes the version from the C header, and the library and the program from

- the directory that $SANDLOCK_BUILD names; if it names nothing, the wheel has
  none of them and looks for the system's;
- build/ of the repository, if it was built there;
- else what make builds of the C sources, which a source distribution holds.
"""
import os
import re
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

HERE = os.path.dirname(os.path.abspath(__file__))
# In a source distribution, and in the repository.
SOURCES = next((path for path in (os.path.join(HERE, "source"),
                                  os.path.dirname(os.path.dirname(HERE)))
                if os.path.exists(os.path.join(path, "include/sandlock.h"))),
               None)
# What make reads for the library and the program.
TREES = ("LICENSE", "Makefile", "cmd", "hooks", "include", "runtime", "spec")
NAMES = ("libsandlock.so", "sandlock")
BUILD = os.environ.get("SANDLOCK_BUILD")
HAS_LIBRARY = BUILD != ""


def files_of(build):
    return [os.path.join(build, name) for name in NAMES]


def version():
    if not SOURCES:
        raise SystemExit("setup.py: there are no C sources here")
    with open(os.path.join(SOURCES, "include", "sandlock", "base.h"),
              encoding="utf-8") as file:
        return re.search(r'^#define SANDLOCK_VERSION "(.+)"', file.read(),
                         re.M)[1]


def compile_into(build):
    """As a packager does: the flags of the environment, and no git."""
    try:
        subprocess.run(["make", f"-j{os.cpu_count()}", "-C", SOURCES,
                        f"B={build}", "commit="] + files_of(build),
                       check=True, env={"CFLAGS": "-O2", **os.environ})
    except (OSError, subprocess.CalledProcessError) as e:
        raise SystemExit(
            f"setup.py: cannot build the C library: {e}\nhint: it needs make, "
            "a C compiler and the headers and archives of libseccomp, yajl, "
            "libcap and libmd (on Debian gcc libc6-dev make libseccomp-dev "
            "libyajl-dev libcap-dev libmd-dev), or SANDLOCK_BUILD, which names "
            "where it was built") from None


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        for path in self.library() if HAS_LIBRARY else ():
            shutil.copy2(path, os.path.join(self.build_lib, "sandlock"))

    def library(self):
        files = files_of(BUILD or os.path.join(SOURCES, "build"))
        if all(map(os.path.exists, files)):
            return files
        if BUILD:
            raise SystemExit(f"setup.py: '{BUILD}' lacks one of "
                             + ", ".join(NAMES))
        build = os.path.abspath(os.path.join(
            self.get_finalized_command("build").build_temp, "c"))
        compile_into(build)
        return files_of(build)


class WithSources(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in TREES:
            path = os.path.join(SOURCES, name)
            copy = os.path.join(base_dir, "source", name)
            if os.path.isdir(path):
                shutil.copytree(path, copy)
            else:
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                shutil.copy2(path, copy)
        shutil.copy2(os.path.join(SOURCES, "LICENSE"), base_dir)


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return HAS_LIBRARY


commands = {"build_py": BuildWithLibrary, "sdist": WithSources}
try:
    from wheel.bdist_wheel import bdist_wheel

    class AnyPython(bdist_wheel):
        """One wheel for every Python 3 of a platform: ctypes has no ABI."""

        def get_tag(self):
            platform = super().get_tag()[2]
            return "py3", "none", platform

    commands["bdist_wheel"] = AnyPython
except ImportError:
    pass

setup(version=version(), distclass=PlatformDistribution, cmdclass=commands)
