"""Questions that ``ask`` rules of a running sandbox put, and their answers, by
the sandbox's name: also of other processes, and of the command."""
from __future__ import annotations

import errno as _errno
import getpass
from ctypes import byref
from dataclasses import dataclass
from typing import Any, List, Optional

from . import _ffi
from ._ffi import lib

__all__ = ["Question", "questions"]


@dataclass(frozen=True)
class Question:
    """What somebody is asked about; answered once, by whoever is first."""

    sandbox: str
    id: str
    """Names this very question: an answer is bound to what it shows."""
    state: str
    """waiting, allowed, denied, expired or withdrawn."""
    what: str
    """In words."""
    is_cut: bool
    """``what`` does not say all."""
    rule: Optional[str]
    """Why it is asked."""
    program: Optional[str]
    """Who wants it."""
    pid: int
    count: int
    """How often it was asked."""
    seconds_left: int

    def allow(self, *, by: Optional[str] = None,
              reason: Optional[str] = None) -> None:
        """Lets it happen. A SandboxError of kind ``"state"`` if it is closed
        already, ``"conflict"`` if the id means another question by now."""
        self._decide(0, by, reason)

    def deny(self, errno: int = _errno.EPERM, *, by: Optional[str] = None,
             reason: Optional[str] = None) -> None:
        """Fails it with ``errno``."""
        if errno <= 0:
            raise ValueError(f"{errno} is no errno")
        self._decide(errno, by, reason)

    def _decide(self, number: int, by: Optional[str],
                reason: Optional[str]) -> None:
        _ffi.call("decide", lib.decide, byref(_ffi.env),
                  _ffi.encode(self.sandbox), _ffi.encode(self.id), number,
                  _ffi.encode(by or getpass.getuser()),
                  _ffi.encode(reason) if reason else None)


def questions(sandbox: str) -> List[Question]:
    """Those that are open, in order."""
    found: List[Question] = []

    def add(_data: Any, pointer: Any) -> int:
        found.append(_question(sandbox, pointer.contents))
        return 0

    _ffi.call("questions", lib.questions, byref(_ffi.env),
              _ffi.encode(sandbox), _ffi.QUESTION_FN(add), None)
    return found


def _question(sandbox: str, q: Any) -> Question:
    return Question(
        sandbox=sandbox, id=_ffi.decode(q.id), state=_ffi.decode(q.state),
        what=_ffi.decode(q.what), is_cut=q.is_cut,
        rule=_ffi.decode(q.rule) or None,
        program=_ffi.decode(q.program) or None, pid=q.pid, count=q.count,
        seconds_left=q.seconds_left)
