"""Profiles, sandlock.toml(5), read by the C library as the command does."""
from __future__ import annotations

import ctypes
import json
import os
from ctypes import c_size_t, c_void_p, byref
from typing import Any, Callable, Dict, List, Tuple, Union

from . import _ffi
from ._ffi import lib
from ._run import Request
from .exceptions import PolicyError, SandboxError
from .sandbox import KEYS, BranchAction, Sandbox

__all__ = ["list_profiles", "load_profile", "load_profile_path"]


def list_profiles() -> List[str]:
    """Names of the profiles that can be loaded, sorted."""
    found = ctypes.POINTER(c_void_p)()
    n = c_size_t()
    _ffi.call("list_profiles", lib.profiles, byref(found), byref(n))
    try:
        return [_ffi.take_string(c_void_p(found[i])) for i in range(n.value)]
    finally:
        _ffi.libc.free(ctypes.cast(found, c_void_p))


def load_profile(name: str) -> Sandbox:
    """The sandbox that a profile describes.

    Its ``[program]`` command is not part of it: that goes to ``run``. A
    profile without a workdir gives a sandbox without one; ``on_exit`` and
    ``on_error`` have this class's defaults.
    """
    return _load(name, os.sep in name)


def load_profile_path(path: "Union[str, os.PathLike[str]]") -> Sandbox:
    """:func:`load_profile` of a file, wherever it is."""
    return _load(os.path.abspath(os.fspath(path)), True)


def _load(name: str, is_path: bool) -> Sandbox:
    request = Request()
    try:
        _ffi.call("load_profile", lib.request_load, request.pointer,
                  _ffi.encode(name), is_path)
    except SandboxError as e:
        if e.kind != "not_found":
            raise
        raise PolicyError(e.message, errno=e.errno, step=e.step, hint=e.hint,
                          kind=e.kind) from None
    text = _ffi.get_string("load_profile", lib.request_json, request.pointer)
    fields: Dict[str, Any] = {}
    for section, members in json.loads(text).items():
        for key, value in members.items():
            fields.update(_field(f"{section}.{key}", value))
    return Sandbox(**fields)


def _field(key: str, value: Any) -> Dict[str, Any]:
    if key in ("program.exec", "program.args"):
        return {}
    convert = _OTHERS.get(key)
    if convert:
        return convert(value)
    for name, known in KEYS.items():
        if known == key:
            return {name: value}
    raise PolicyError(f"the profile's {key} has no field of Sandbox",
                      step="load_profile", kind="usage")


def _mounts(values: List[str]) -> Dict[str, Any]:
    found: Tuple[Dict[str, str], Dict[str, str]] = ({}, {})
    for text in values:
        inside, _, host = text.partition(":")
        is_read_only = host.endswith(":ro")
        if host.endswith((":ro", ":rw")):
            host = host[:-3]
        if inside in found[0] or inside in found[1]:
            raise PolicyError(f"'{inside}' is mounted more than once",
                              step="load_profile", kind="usage")
        found[is_read_only][inside] = host
    return {"fs_mount": found[0], "fs_mount_ro": found[1]}


def _user(value: str) -> Dict[str, Any]:
    uid, _, gid = value.partition(":")
    return {"uid": int(uid), "gid": int(gid)}


_OTHERS: Dict[str, Callable[[Any], Dict[str, Any]]] = {
    "config.workdir": lambda v: {"workdir": v[0] if len(v) == 1 else v},
    "config.branch": lambda v: {},
    "filesystem.write": lambda v: {"fs_writable": v},
    "filesystem.mount": _mounts,
    "filesystem.on_exit": lambda v: {"on_exit": BranchAction(v)},
    "filesystem.on_error": lambda v: {"on_error": BranchAction(v)},
    "program.env": lambda v: {"env": v},
    "program.user": _user,
}
