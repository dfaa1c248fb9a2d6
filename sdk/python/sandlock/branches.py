"""Branches in the store, by name: also those of other processes, of the
command, and of programs that have ended."""
from __future__ import annotations

import ctypes
import stat
from ctypes import byref, c_int, c_size_t
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Iterable, List, Optional

from . import _ffi
from ._ffi import Text, lib
from .result import Change, Entry

__all__ = ["Branch", "branches"]

_RECOVERED = ("nothing", "settled", "forward", "back")
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink"}


@dataclass(frozen=True)
class Branch:
    """What a sandbox wrote, and nobody has decided about."""

    name: str
    state: str
    """``"pending"``, ``"open"`` while it runs, and so on: sandlock-branch(7)."""
    workdir: str
    upper_dir: str
    command: str
    created: datetime

    def changes(self) -> List[Change]:
        """What a commit would do, files that were only opened for writing
        included."""
        found: List[Any] = []

        def add(_data: Any, pointer: Any) -> int:
            c = pointer.contents
            found.append((c.path, c.root, _copy(c.before), _copy(c.after)))
            return 0

        _ffi.call("changes", lib.diff, byref(_ffi.env), self._name,
                  _ffi.WANT_UNCHANGED | _ffi.WANT_CHILDREN, None, 0,
                  _ffi.CHANGE_FN(add), None)
        return [Change(_ffi.decode(path), self._entry(path, False, *before),
                       self._entry(path, True, *after),
                       _ffi.decode(root) if root else None)
                for path, root, before, after in found]

    def commit(self, paths: Iterable[Text] = (), *,
               conflicts: str = "force") -> None:
        """Publishes it, or these paths of it; see :meth:`Sandbox.commit`."""
        names = _ffi.strings(paths)
        options = _ffi.Commit(conflicts=_ffi.CONFLICTS[conflicts],
                              paths=names, n_paths=len(names) - 1)
        _ffi.call("commit", lib.commit, byref(_ffi.env), self._name,
                  byref(options))

    def abort(self, paths: Iterable[Text] = ()) -> None:
        """Discards it, or these paths of it."""
        names = _ffi.strings(paths)
        _ffi.call("abort", lib.abort, byref(_ffi.env), self._name, names,
                  len(names) - 1)

    def recover(self, *, rollback: bool = False) -> str:
        """Ends a commit or a settling that was cut off; with ``rollback``
        takes the commit back. ``"nothing"`` was to be done, or it was
        ``"settled"``, goes ``"forward"`` or went ``"back"``."""
        done = c_int()
        _ffi.call("recover", lib.recover, byref(_ffi.env), self._name,
                  rollback, byref(done))
        return _RECOVERED[done.value]

    def uncovered(self) -> List[str]:
        """Mounts that it does not cover: what is written there is no change
        of the branch."""
        found: List[str] = []

        def add(_data: Any, pointer: Any) -> int:
            found.append(_ffi.decode(pointer.contents.path))
            return 0

        _ffi.call("uncovered", lib.uncovered, byref(_ffi.env), self._name,
                  _ffi.CHANGE_FN(add), None)
        return found

    @property
    def _name(self) -> bytes:
        return _ffi.encode(self.name)

    def _entry(self, path: bytes, is_after: bool, mode: int, size: int,
               target: Optional[bytes]) -> Optional[Entry]:
        if not mode:
            return None
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        digest = None
        if kind == "file":
            text = ctypes.create_string_buffer(65)
            _ffi.call("changes", lib.digest, byref(_ffi.env), self._name,
                      path, is_after, text)
            digest = bytes.fromhex(text.value.decode())
        return Entry(kind=kind, mode=stat.S_IMODE(mode),
                     size=size if kind == "file" else 0, digest=digest,
                     target=_ffi.decode(target)
                     if kind == "symlink" else None)


def _copy(side: _ffi.Side) -> Any:
    return side.mode, side.size, side.link_target


def branches() -> List[Branch]:
    """All of them, sorted by name."""
    found = ctypes.POINTER(_ffi.BranchInfo)()
    n = c_size_t()
    _ffi.call("branches", lib.branches, byref(_ffi.env), byref(found),
              byref(n))
    try:
        return [_branch(found[i]) for i in range(n.value)]
    finally:
        lib.branches_free(found, n)


def _branch(b: _ffi.BranchInfo) -> Branch:
    return Branch(name=_ffi.decode(b.name), state=_ffi.decode(b.state),
                  workdir=_ffi.decode(b.lower),
                  upper_dir=_ffi.decode(b.upper),
                  command=_ffi.decode(b.command),
                  created=_ffi.moment(b.created))
