"""Handlers that are wanted often; not part of ``sandlock`` itself.

    from sandlock.presets import COMMON_PATH_SYSCALLS, PathDenyHandler

    deny = PathDenyHandler(["/etc/shadow", "/home/*/.ssh/*"])
    Sandbox().run_with_handlers(
        ["make"], [(name, deny) for name in COMMON_PATH_SYSCALLS])

Paths are compared as the caller wrote them, and other threads of it can change
them before the kernel reads them again: these keep a program from a mistake,
``fs_denied`` keeps out who means harm.
"""
from __future__ import annotations

import errno as _errno
import fnmatch
import logging
from typing import Any, Callable, List, Optional, Sequence

from .handler import ExceptionPolicy, Handler, HandlerCtx, NotifAction

__all__ = ["COMMON_PATH_SYSCALLS", "AuditPathsHandler", "LogSyscallsHandler",
           "PathAllowHandler", "PathDenyHandler"]

COMMON_PATH_SYSCALLS: List[str] = [
    "openat", "unlinkat", "newfstatat", "statx", "faccessat", "readlinkat",
    "mkdirat", "execveat", "execve",
]
"""What programs of today call with a path."""

_PATH_MAX = 4096


class AuditPathsHandler(Handler):
    """Calls ``callback(path, ctx)`` for each call, on several threads at once;
    ``path`` is None where it cannot be read. All calls go on."""

    on_exception = ExceptionPolicy.CONTINUE

    def __init__(self, callback: Callable[[Optional[str], HandlerCtx], Any],
                 max_len: int = _PATH_MAX) -> None:
        self.callback = callback
        self.max_len = max_len

    def handle(self, ctx: HandlerCtx) -> NotifAction:
        self.callback(ctx.read_path(max_len=self.max_len), ctx)
        return NotifAction.continue_()


class _Patterns(Handler):
    on_exception = ExceptionPolicy.KILL

    def __init__(self, name: str, patterns: Sequence[str], errno: int,
                 max_len: int) -> None:
        if not isinstance(patterns, (list, tuple)):
            raise TypeError(f"{name} is a list of patterns, not {patterns!r}")
        self.patterns = list(patterns)
        self.errno = errno
        self.max_len = max_len

    def _matches(self, ctx: HandlerCtx) -> Optional[bool]:
        """None: there is no path to be read."""
        path = ctx.read_path(max_len=self.max_len)
        return None if path is None else any(
            fnmatch.fnmatchcase(path, p) for p in self.patterns)


class PathDenyHandler(_Patterns):
    """Fails calls whose path matches a pattern of fnmatch(3), with ``errno``. A
    path that cannot be read is left to the next handler."""

    def __init__(self, deny: Sequence[str], errno: int = _errno.EPERM,
                 max_len: int = _PATH_MAX) -> None:
        super().__init__("deny", deny, errno, max_len)

    def handle(self, ctx: HandlerCtx) -> NotifAction:
        if self._matches(ctx):
            return NotifAction.errno(self.errno)
        return NotifAction.continue_()


class PathAllowHandler(_Patterns):
    """Fails calls whose path matches no pattern, or cannot be read."""

    def __init__(self, allow: Sequence[str], errno: int = _errno.EACCES,
                 max_len: int = _PATH_MAX) -> None:
        super().__init__("allow", allow, errno, max_len)

    def handle(self, ctx: HandlerCtx) -> NotifAction:
        if self._matches(ctx):
            return NotifAction.continue_()
        return NotifAction.errno(self.errno)


class LogSyscallsHandler(Handler):
    """Calls ``logger(line)`` for each call: by default it is logged as
    ``sandlock.audit``. All calls go on."""

    on_exception = ExceptionPolicy.CONTINUE

    def __init__(self,
                 logger: Optional[Callable[[str], Any]] = None) -> None:
        self.logger = logger or logging.getLogger("sandlock.audit").info

    def handle(self, ctx: HandlerCtx) -> NotifAction:
        self.logger(f"syscall={ctx.syscall_nr} pid={ctx.pid} "
                    f"args={ctx.args}")
        return NotifAction.continue_()
