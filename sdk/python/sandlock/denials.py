"""What was refused to a sandbox, by its name: also of other processes, and of
the command."""
from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from datetime import datetime
from typing import Any, List, Optional

from . import _ffi
from ._ffi import lib

__all__ = ["Denial", "denials"]


@dataclass(frozen=True)
class Denial:
    """Something that was refused, and why."""

    code: str
    """``"syscall.mount"``, ``"net.connect_tcp"``: sandlock-why(1)."""
    call: str
    errno: int
    object: Optional[str]
    """A path or an address."""
    rule: Optional[str]
    where: Optional[str]
    """The file and the line of the rule."""
    remedy: Optional[str]
    """The narrowest option that would allow it."""
    program: str
    pid: int
    """Of the last time."""
    count: int
    first: datetime
    last: datetime


def _text(text: Optional[bytes]) -> Optional[str]:
    return _ffi.decode(text) if text is not None else None


def denials(sandbox: str) -> List[Denial]:
    """Of one that runs, or has ended and whose branch is pending; oldest
    first, at most 1,000."""
    found: List[Denial] = []

    def add(_data: Any, pointer: Any) -> int:
        d = pointer.contents
        found.append(Denial(
            code=_ffi.decode(d.code), call=_ffi.decode(d.call),
            errno=d.error, object=_text(d.object), rule=_text(d.rule),
            where=_text(d.where), remedy=_text(d.remedy),
            program=_ffi.decode(d.program), pid=d.pid, count=d.count,
            first=_ffi.moment(d.first), last=_ffi.moment(d.last)))
        return 0

    _ffi.call("denials", lib.denials, byref(_ffi.env), _ffi.encode(sandbox),
              _ffi.DENIAL_FN(add), None)
    return found
