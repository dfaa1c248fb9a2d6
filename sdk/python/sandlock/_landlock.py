"""Which Landlock there is, and which one a run asks for."""
from __future__ import annotations

from ctypes import c_long, c_size_t, c_uint, c_void_p

from ._ffi import libc

__all__ = ["landlock_abi_version", "min_landlock_abi"]

# The same number on every architecture, as all system calls since 5.1.
_CREATE_RULESET = 444
_VERSION = 1


def landlock_abi_version() -> int:
    """What this kernel has; -1 if it has none."""
    number = c_long(_CREATE_RULESET)
    return int(libc.syscall(number, c_void_p(None), c_size_t(0),
                            c_uint(_VERSION)))


def min_landlock_abi() -> int:
    """What every :class:`Protection` together takes. With less, say which of
    them may be missing: ``Sandbox(allow_degraded=...)``."""
    return 6
