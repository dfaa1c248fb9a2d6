"""What can go wrong.

Every error carries ``errno`` (0 if no system call failed), ``step`` (the call
of this package that failed: ``"create"``, ``"commit"``), ``hint`` (what to do
next, or ``""``) and ``kind`` (``"usage"``, ``"state"``, ``"locked"`` and so
on, as in ``enum sandlock_error_kind``).

SandboxError and PolicyError are RuntimeErrors as well, and PolicyError is a
ValueError: that is what earlier versions of this interface raised.
"""
from __future__ import annotations

from typing import Any, Tuple, Type

__all__ = [
    "BranchConflictError",
    "BranchError",
    "ChildError",
    "ConfinementError",
    "ForkError",
    "LandlockUnavailableError",
    "MemoryProtectError",
    "NotOfferedError",
    "NotifError",
    "PolicyError",
    "SandboxError",
    "SandlockError",
    "SeccompError",
]


class SandlockError(Exception):
    """Base of all errors of this package."""

    def __init__(self, message: str = "", *, errno: int = 0, step: str = "",
                 hint: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.errno = errno
        self.step = step
        self.hint = hint
        self.kind = kind

    def __str__(self) -> str:
        text = self.message
        if self.step:
            text = f"{self.step}: {text}"
        if self.hint:
            text = f"{text} ({self.hint})"
        return text

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.errno, self.step,
                           self.hint, self.kind))


def _rebuild(cls: "Type[SandlockError]", message: str, errno: int, step: str,
             hint: str, kind: str) -> SandlockError:
    return cls(message, errno=errno, step=step, hint=hint, kind=kind)


class NotOfferedError(SandlockError, TypeError):
    """A part of the interface that this package does not have."""


class PolicyError(SandlockError, RuntimeError, ValueError):
    """What was asked for is not valid."""


class SandboxError(SandlockError, RuntimeError):
    """A call that the sandbox cannot do, or cannot do now."""


class ForkError(SandboxError):
    """No process could be made."""


class ConfinementError(SandboxError):
    """This kernel, container or user cannot confine as asked."""


class LandlockUnavailableError(ConfinementError):
    """The kernel has no Landlock, or too little of it."""


class SeccompError(ConfinementError):
    """A system call filter could not be installed."""


class NotifError(SeccompError):
    """The supervisor of trapped system calls failed."""


class ChildError(SandboxError):
    """The command could not be executed."""


class BranchError(SandboxError):
    """The branch could not be committed or discarded; it is still there."""


class BranchConflictError(BranchError):
    """The workdir was changed in the same places meanwhile."""


class MemoryProtectError(SandlockError):
    """Memory could not be protected."""
