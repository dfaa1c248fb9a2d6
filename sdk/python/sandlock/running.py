"""What runs, by its name: also what other processes or the command started."""
from __future__ import annotations

import json
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from . import _ffi
from ._ffi import lib

__all__ = ["Why", "explain", "inspect", "kill", "state"]


@dataclass(frozen=True)
class Why:
    """Whether a sandbox can do something, and why."""

    what: str
    """``"read"``, ``"write"`` or ``"call"``."""
    verdict: str
    """``"allowed"``, ``"denied"``, or ``"cannot tell"``."""
    because: str
    remedy: Optional[str]
    """An option of ``sandlock run``."""


_VERDICTS = ("allowed", "denied", "cannot tell")


def explain(sandbox: str, word: str) -> List[Why]:
    """Of one that runs: ``word`` is an absolute path, or the name of a system
    call."""
    found: List[Why] = []

    def add(_data: Any, pointer: Any) -> int:
        w = pointer.contents
        found.append(Why(
            what=_ffi.decode(w.what), verdict=_VERDICTS[w.verdict],
            because=_ffi.decode(w.because),
            remedy=None if w.remedy is None else _ffi.decode(w.remedy)))
        return 0

    _ffi.call("explain", lib.explain, byref(_ffi.env), _ffi.encode(sandbox),
              _ffi.encode(word), _ffi.WHY_FN(add), None)
    return found


def state(sandbox: str) -> Dict[str, Any]:
    """The state object of the OCI runtime specification."""
    found: Dict[str, Any] = json.loads(_ffi.get_string(
        "state", _by_name(lib.state), _ffi.encode(sandbox)))
    return found


def inspect(sandbox: str) -> Dict[str, Any]:
    """What it was asked for, from its supervisor at this moment."""
    found: Dict[str, Any] = json.loads(_ffi.get_string(
        "inspect", _by_name(lib.inspect), _ffi.encode(sandbox), False))
    return found


def kill(sandbox: str, signal: Optional[int] = None) -> None:
    """Ends all of it, and returns when it is dead and its branch settled; with
    ``signal``, sends that to its first process."""
    name = _ffi.encode(sandbox)
    if signal is None:
        _ffi.call("kill", lib.kill_tree, byref(_ffi.env), name)
    else:
        _ffi.call("kill", lib.kill, byref(_ffi.env), name, int(signal), False)


def _by_name(function: Any) -> Any:
    return lambda *args: function(byref(_ffi.env), *args)
