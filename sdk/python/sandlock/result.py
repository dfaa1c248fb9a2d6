"""What came of a run."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Dict, List, Optional, Sequence, Tuple

from .exceptions import SandlockError

__all__ = ["Change", "Entry", "ExitReason", "Result", "renames"]


class ExitReason(IntEnum):
    """How the command ended."""

    EXITED = 0
    """By itself, with ``Result.exit_code``."""
    SIGNALED = 1
    """By the signal ``Result.signal``."""
    KILLED = 2
    """In a way that left no status, or see ``Result.over_quota``."""
    TIMEOUT = 3
    """Killed because its time was over."""


@dataclass(frozen=True)
class Entry:
    """One side of a :class:`Change`."""

    kind: str
    """``"file"``, ``"dir"``, ``"symlink"`` or ``"other"``."""
    mode: int
    """Permission bits."""
    size: int
    """Bytes of a file, else 0."""
    digest: Optional[bytes]
    """SHA-256 of a file, ``None`` if it could not be read."""
    target: Optional[str]
    """Where a symbolic link points."""


@dataclass(frozen=True)
class Change:
    """A path that a run made, removed, or opened for writing."""

    path: str
    """Relative to the workdir."""
    before: Optional[Entry]
    """``None`` if it did not exist."""
    after: Optional[Entry]
    """``None`` if it was removed."""
    root: Optional[str] = None
    """The workdir that it is in, where a sandbox has several."""

    @property
    def kind(self) -> str:
        """``"A"`` added, ``"M"`` modified, ``"D"`` deleted."""
        if self.after is None:
            return "D"
        return "M" if self.before else "A"

    @property
    def content_unchanged(self) -> bool:
        """It has the bytes, or points, where it did: only its mode or times
        changed, or it was opened for writing and nothing else."""
        a, b = self.before, self.after
        return (a is not None and b is not None
                and (a.kind, a.digest, a.target)
                == (b.kind, b.digest, b.target))

    @property
    def type_changed(self) -> bool:
        """A file where a directory was, and the like."""
        return (self.before is not None and self.after is not None
                and self.before.kind != self.after.kind)

    def __str__(self) -> str:
        return f"{self.kind}  {self.path}"


def _by_digest(found: "Sequence[Tuple[Optional[bytes], str]]"
               ) -> Dict[bytes, Optional[str]]:
    """Paths by their digest, None where there are several of it."""
    paths: Dict[bytes, Optional[str]] = {}
    for digest, path in found:
        if digest is not None:
            paths[digest] = None if digest in paths else path
    return paths


def renames(changes: Sequence[Change]) -> List[Tuple[str, str]]:
    """Pairs of (deleted, added) paths with the same bytes, where it is clear
    which belongs to which."""
    deleted = _by_digest([(c.before.digest, c.path) for c in changes
                          if c.before and c.after is None])
    added = _by_digest([(c.after.digest, c.path) for c in changes
                        if c.after and c.before is None])
    return sorted((old, new) for digest, old in deleted.items()
                  for new in [added.get(digest)] if old and new)


@dataclass
class Result:
    """What came of a run. ``if result.success`` or ``result.check()``."""

    success: bool
    """The command exited with 0, and a commit on exit was done."""
    exit_code: int = 0
    """-1 if there is none; see ``reason``."""
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)
    error: Optional[str] = None
    """Why it could not be run, or why a commit on exit was not done."""
    reason: Optional[ExitReason] = None
    """``None`` if it was not run."""
    signal: int = -1
    """The signal if ``reason`` is ``SIGNALED``."""
    changes: List[Change] = field(default_factory=list)
    """What it did to the workdir, collected before any of it was committed or
    discarded. Empty without a workdir."""
    name: Optional[str] = None
    """The sandbox's name, which is that of its branch."""
    outcome: str = "none"
    """What became of the branch: none, pending, committed, aborted, empty."""
    truncated: bool = False
    """There was more output than is captured."""
    over_quota: bool = False
    """It was killed because the branch took more than ``max_disk``."""
    exception: Optional[SandlockError] = field(default=None, repr=False)
    """The same as ``error``, with ``errno``, ``step`` and ``hint``."""

    def check(self) -> "Result":
        """Raises what went wrong; itself if nothing did."""
        if self.exception is not None:
            raise self.exception
        if not self.success:
            raise SandlockError(self._how_it_ended(), step="run", kind="exit")
        return self

    def _how_it_ended(self) -> str:
        if self.reason == ExitReason.SIGNALED:
            return f"the command was killed by signal {self.signal}"
        if self.reason == ExitReason.TIMEOUT:
            return "the command was killed because its time was over"
        if self.over_quota:
            return "the command was killed because it took more than max_disk"
        if self.reason == ExitReason.KILLED:
            return "the command ended in an unknown way"
        return f"the command exited with status {self.exit_code}"


def failed(error: SandlockError) -> Result:
    """The result of what could not be run."""
    codes = {"exec_missing": 127, "exec_denied": 126}
    code = codes.get(error.kind, -1)
    return Result(success=False, exit_code=code, error=str(error),
                  exception=error,
                  reason=ExitReason.EXITED if code > 0 else None)
