"""Whether what Sandbox is given has the type that it is of.

None is what was not given. An error names the argument, and what is in it.
"""
from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import Any, Callable, Dict, Tuple

__all__ = ["check_types"]

_Check = Tuple[Callable[[Any], bool], str]


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float)
                              and math.isfinite(value))


_STR: _Check = (lambda v: isinstance(v, str), "a string")
_TEXT: _Check = (_is_text, "a string or a path")
_BOOL: _Check = (lambda v: isinstance(v, bool), "True or False")
_COUNT: _Check = (_is_int, "an integer")
_SIZE: _Check = (lambda v: _is_int(v) or isinstance(v, str),
                 "a number of bytes, or a string like '512M'")
_SECONDS: _Check = (_is_number, "a number of seconds")
_TIME: _Check = (lambda v: _is_number(v) or isinstance(v, str),
                 "a number of seconds, or a string like '5m'")
_PORT: _Check = (lambda v: _is_int(v) or isinstance(v, str),
                 "a port, or a string like '8000-8005'")
_VALUE: _Check = (lambda v: _is_text(v) or _is_int(v),
                  "a string, a path or an integer")
_PAIR: _Check = (lambda v: isinstance(v, (tuple, list)) and len(v) == 2,
                 "a pair of a system call and a Handler")

_SINGLE: Dict[str, _Check] = {
    "no_coredump": _BOOL, "port_remap": _BOOL, "clean_env": _BOOL,
    "control_socket": _BOOL, "explain": _BOOL, "no_supervisor": _BOOL,
    "max_memory": _SIZE, "max_disk": _SIZE, "max_processes": _COUNT,
    "max_open_files": _COUNT, "handler_threads": _COUNT, "ask_limit": _COUNT,
    "uid": _COUNT, "gid": _COUNT, "handler_timeout": _SECONDS,
    "timeout": _TIME, "ask_timeout": _TIME, "chroot": _TEXT, "cwd": _TEXT,
    "fs_storage": _TEXT, "bundle": _TEXT, "ask_by": _TEXT,
    "isolation": _STR, "name": _STR,
}
_LISTS: Dict[str, _Check] = {
    "fs_writable": _TEXT, "fs_readable": _TEXT, "fs_denied": _TEXT,
    "extra_deny_syscalls": _STR, "extra_allow_syscalls": _STR,
    "net_allow": _STR, "net_deny": _STR, "net_allow_bind": _PORT,
    "net_deny_bind": _PORT, "workdir": _TEXT, "ask_exec": _TEXT,
    "ask_open": _TEXT, "ask_connect": _STR, "allow_degraded": _COUNT,
    "disable": _COUNT, "handlers": _PAIR,
}
_MAPPINGS: Dict[str, Tuple[_Check, _Check]] = {
    "env": (_TEXT, _VALUE),
    "fs_mount": (_TEXT, _TEXT), "fs_mount_ro": (_TEXT, _TEXT),
}


def _demand(where: str, value: Any, check: _Check) -> None:
    is_right, wanted = check
    if not is_right(value):
        raise TypeError(f"{where}: {value!r} is not {wanted}")


def _check_list(name: str, value: Any, check: _Check) -> None:
    if isinstance(value, (str, bytes, os.PathLike)):
        _demand(name, value, check)
        return
    if not isinstance(value, Collection) or isinstance(value, Mapping):
        raise TypeError(f"{name}: {value!r} is not a list")
    for i, item in enumerate(value):
        _demand(f"{name}[{i}]", item, check)


def _check_mapping(name: str, value: Any,
                   checks: Tuple[_Check, _Check]) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: {value!r} is not a mapping")
    for key, item in value.items():
        _demand(f"a key of {name}", key, checks[0])
        _demand(f"{name}[{key!r}]", item, checks[1])


def check_types(given: Mapping[str, Any]) -> None:
    """TypeError."""
    for name, value in given.items():
        if value is None:
            continue
        if name in _SINGLE:
            _demand(name, value, _SINGLE[name])
        elif name in _LISTS:
            _check_list(name, value, _LISTS[name])
        elif name in _MAPPINGS:
            _check_mapping(name, value, _MAPPINGS[name])
