"""One run of a command: a handle of the C library, and what it reports."""
from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import logging
import os
import threading
import time
from ctypes import byref, c_int, c_void_p
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _ffi
from ._ffi import Text, lib
from .exceptions import SandboxError, SandlockError
from .handler import Handlers, Installed
from .policy import PolicyFn
from .result import Change, Entry, ExitReason, Result

# A Python signal handler runs between two waits of the main thread.
SLICE_MS = 100

Stdio = Tuple[int, int]  # kind and fd
INHERIT: Stdio = (_ffi.STDIO_INHERIT, -1)
CAPTURE: Stdio = (_ffi.STDIO_CAPTURE, -1)
PIPE: Stdio = (_ffi.STDIO_PIPE, -1)
NULL: Stdio = (_ffi.STDIO_NULL, -1)


def use_fd(fd: int) -> Stdio:
    return (_ffi.STDIO_FD, fd)


def to_ms(timeout: Optional[float]) -> int:
    """For C, where 0 is no limit."""
    return 0 if timeout is None else max(1, int(timeout * 1000))


class Request:
    """Keys and values as sandlock.toml(5) has them."""

    def __init__(self) -> None:
        self.pointer = lib.request_new()
        if not self.pointer:
            raise MemoryError

    def set(self, key: str, value: Text, where: str) -> None:
        try:
            data = _ffi.encode(value)
        except ValueError as e:
            raise ValueError(f"{where}: {e}") from None
        _ffi.call("configure", lib.request_set, self.pointer, key.encode(),
                  data, where.encode())

    def __del__(self) -> None:
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            lib.request_free(pointer)


def check_command(cmd: Sequence[Text], may_be_empty: bool = False
                  ) -> List[Text]:
    if isinstance(cmd, (str, bytes, os.PathLike)):
        raise TypeError("the command is a list of words, not one: "
                        f"[{cmd!r}], or ['sh', '-c', {cmd!r}]")
    words = list(cmd)
    if not words and not may_be_empty:
        raise ValueError("there is no command to run: the list is empty")
    return words


def launch_of(cmd: Sequence[Text], stdin: Stdio, stdout: Stdio,
              stderr: Stdio, timeout: Optional[float] = None,
              fds: Iterable[int] = ()) -> _ffi.Launch:
    numbers = list(fds)
    return _ffi.Launch(
        argv=_ffi.strings(cmd), stdin=_ffi.Stdio(*stdin),
        stdout=_ffi.Stdio(*stdout), stderr=_ffi.Stdio(*stderr),
        timeout_ms=to_ms(timeout), fds=(c_int * len(numbers))(*numbers),
        n_fds=len(numbers))


def install_handlers(pointer: c_void_p, handlers: Handlers,
                     threads: Optional[int], timeout: Optional[float],
                     loop: Optional[asyncio.AbstractEventLoop]) -> Installed:
    installed = Installed(pointer, loop)
    installed.limit(threads, timeout)
    for syscall, handler in handlers:
        installed.add(syscall, handler)
    return installed


def _free(pointer: c_void_p, _policy: Any,
          handlers: Optional[Installed]) -> None:
    """Callbacks live until the last of them has returned."""
    lib.sandbox_free(pointer)
    if handlers:
        handlers.close()


class Run:
    """Any thread may call anything. The C handle is freed when nobody has a
    reference to this any more, so never while a call is in it."""

    def __init__(self, request: Request, has_roots: bool = False) -> None:
        self.has_roots = has_roots  # more than one workdir
        self._pid_of_owner = os.getpid()
        self._pointer: Optional[c_void_p] = c_void_p()
        _ffi.env.log_debug = _ffi.log.isEnabledFor(logging.DEBUG)
        _ffi.call("configure", lib.sandbox_new, byref(_ffi.env),
                  request.pointer, byref(self.pointer))
        self._policy: Any = None
        self._handlers: Optional[Installed] = None

    def set_policy(self, policy: PolicyFn) -> None:
        self._policy = policy.install(self.pointer)

    def set_handlers(self, handlers: Handlers, threads: Optional[int],
                     timeout: Optional[float],
                     loop: Optional[asyncio.AbstractEventLoop]) -> None:
        self._handlers = install_handlers(self.pointer, handlers, threads,
                                          timeout, loop)

    @property
    def pointer(self) -> c_void_p:
        if self._pointer is None:
            raise _ffi.state_error("it was freed", "sandbox")
        return self._pointer

    def _is_ours(self) -> bool:
        """A forked child has a copy of the memory, not the sandbox."""
        return self._pid_of_owner == os.getpid()

    def __del__(self) -> None:
        pointer = getattr(self, "_pointer", None)
        if not pointer or not self._is_ours():
            return
        # In a cycle of references others' finalizers come after this one.
        self._pointer = None
        if not _ffi.is_callback():
            _free(pointer, self._policy, self._handlers)
            return
        # It waits for the callback that we are in.
        try:
            threading.Thread(
                target=_free, name="sandlock-free",
                args=(pointer, self._policy, self._handlers)).start()
        except RuntimeError:
            pass  # the interpreter ends, and with it what runs

    def create(self, cmd: Sequence[Text], stdin: Stdio, stdout: Stdio,
               stderr: Stdio, timeout: Optional[float] = None,
               fds: Iterable[int] = ()) -> Tuple[int, int, int]:
        """The fds that are ours of streams that are pipes, -1 of others."""
        return self._launch("create", lib.sandbox_create, cmd, stdin, stdout,
                            stderr, timeout, fds)

    def spawn(self, cmd: Sequence[Text], stdin: Stdio, stdout: Stdio,
              stderr: Stdio, timeout: Optional[float] = None
              ) -> Tuple[int, int, int]:
        """:meth:`create` and :meth:`start`."""
        return self._launch("start", lib.sandbox_spawn, cmd, stdin, stdout,
                            stderr, timeout, ())

    def _launch(self, step: str, function: Any, cmd: Sequence[Text], stdin: Stdio,
                stdout: Stdio, stderr: Stdio, timeout: Optional[float],
                fds: Iterable[int]) -> Tuple[int, int, int]:
        launch = launch_of(cmd, stdin, stdout, stderr, timeout, fds)
        _ffi.call(step, function, self.pointer, byref(launch))
        fd_in, fd_out, fd_err = (
            s.fd if s.kind == _ffi.STDIO_PIPE else -1
            for s in (launch.stdin, launch.stdout, launch.stderr))
        return fd_in, fd_out, fd_err

    def start(self) -> None:
        _ffi.call("start", lib.sandbox_start, self.pointer)

    def wait(self, timeout: Optional[float] = None) -> Optional[Result]:
        """The result, or None if it still runs when the time is over."""
        if _ffi.is_callback(self.pointer):
            raise _ffi.state_error("a callback cannot wait for its own "
                                   "sandbox", "wait", errno.EDEADLK)
        deadline = None if timeout is None else time.monotonic() + timeout
        is_main = threading.current_thread() is threading.main_thread()
        while True:
            ms = -1 if deadline is None else max(
                0, int((deadline - time.monotonic()) * 1000))
            if is_main and not 0 <= ms <= SLICE_MS:
                ms = SLICE_MS
            result = self._wait_once(ms)
            if result or (deadline is not None
                          and time.monotonic() >= deadline):
                return result

    def _wait_once(self, ms: int) -> Optional[Result]:
        report = ctypes.POINTER(_ffi.Report)()
        try:
            _ffi.call("wait", lib.sandbox_wait, self.pointer, ms,
                      byref(report))
        except SandboxError as e:
            if e.kind == "timeout":
                return None
            raise
        if self._handlers:
            self._handlers.close()
        return to_result(report.contents, self.has_roots)

    def kill(self) -> None:
        _ffi.call("kill", lib.sandbox_kill, self.pointer)

    def kill_quietly(self) -> bool:
        try:
            self.kill()
        except SandlockError:
            return False
        return True

    def stop(self) -> None:
        """Ends it, if it runs, and settles its branch; in its own callback
        that is left to whoever waits for it."""
        if not self._is_ours():
            return
        is_killed = self.kill_quietly()
        if not self.is_running or _ffi.is_callback(self.pointer):
            return
        try:
            self.wait()
        except SandboxError as e:
            if e.kind != "state" or not is_killed:
                raise
            # One that was only created has no end before it is started,
            # which nothing comes of any more.
            try:
                self.start()
                self.wait()
            except SandlockError:
                pass

    def pause(self) -> None:
        _ffi.call("pause", lib.sandbox_pause, self.pointer)

    def resume(self) -> None:
        _ffi.call("resume", lib.sandbox_resume, self.pointer)

    def ports(self) -> Dict[str, int]:
        text = _ffi.get_string("ports", lib.sandbox_ports, self.pointer)
        ports: Dict[str, int] = json.loads(text)
        return ports

    @property
    def state(self) -> int:
        return int(lib.sandbox_get_state(self.pointer))

    @property
    def is_running(self) -> bool:
        return (self._pointer is not None and self._is_ours()
                and self.state in (_ffi.STATE_CREATED, _ffi.STATE_RUNNING))

    @property
    def pid(self) -> Optional[int]:
        return lib.sandbox_pid(self.pointer) or None

    @property
    def pending(self) -> bool:
        return bool(lib.sandbox_pending(self.pointer))

    @property
    def upper_dir(self) -> Optional[str]:
        try:
            return _ffi.get_string("upper_dir", lib.sandbox_upper_dir,
                                   self.pointer)
        except SandboxError as e:
            if e.kind == "state":
                return None
            raise

    def upper_dir_of(self, root: Text) -> str:
        return _ffi.get_string("upper_dir", lib.sandbox_upper_dir_of,
                               self.pointer, _ffi.encode(root))

    def commit(self, conflicts: str) -> None:
        options = _ffi.Commit(conflicts=_ffi.CONFLICTS[conflicts])
        _ffi.call("commit", lib.sandbox_commit, self.pointer, byref(options))

    def abort(self) -> None:
        _ffi.call("abort", lib.sandbox_abort, self.pointer)


# ---------------------------------------------------------------- reports --


def _entry(e: _ffi.Entry) -> Optional[Entry]:
    if not e.kind:
        return None
    kind = _ffi.ENTRY_KINDS[e.kind]
    return Entry(kind=kind, mode=e.mode,
                 size=e.size if kind == "file" else 0,
                 digest=bytes(e.digest) if e.has_digest else None,
                 target=_ffi.decode(e.target) if e.target else None)


def _changes(report: _ffi.Report, has_roots: bool) -> List[Change]:
    found = [report.changes[i] for i in range(report.n_changes)]
    return [Change(path=_ffi.decode(c.path), before=_entry(c.before),
                   after=_entry(c.after),
                   root=_ffi.decode(c.root) if has_roots else None)
            for c in found]


def _exit(result: _ffi.Result) -> "Dict[str, Any]":
    if result.exit_kind == _ffi.EXIT_CODE:
        return {"exit_code": result.exit_value, "reason": ExitReason.EXITED}
    if result.exit_kind == _ffi.EXIT_SIGNAL:
        return {"exit_code": -1, "reason": ExitReason.SIGNALED,
                "signal": result.exit_value}
    if result.exit_kind == _ffi.EXIT_TIMEOUT:
        return {"exit_code": -1, "reason": ExitReason.TIMEOUT}
    if result.exit_kind == _ffi.EXIT_QUOTA:
        return {"exit_code": -1, "reason": ExitReason.KILLED,
                "over_quota": True}
    return {"exit_code": -1, "reason": ExitReason.KILLED}


def to_result(report: _ffi.Report, has_roots: bool) -> Result:
    r = report.result
    error = None
    for what, step in ((report.changes_error, "changes"),
                       (r.outcome_error, "commit")):
        if what.kind:
            error = _ffi.to_exception(what, step)
    return Result(
        success=(r.exit_kind == _ffi.EXIT_CODE and r.exit_value == 0
                 and not r.outcome_error.kind),
        stdout=ctypes.string_at(report.out_data, report.out_len)
        if report.out_data else b"",
        stderr=ctypes.string_at(report.err_data, report.err_len)
        if report.err_data else b"",
        error=str(error) if error else None, exception=error,
        changes=_changes(report, has_roots), name=_ffi.decode(r.name),
        outcome=_ffi.OUTCOMES[r.outcome],
        truncated=report.out_cut or report.err_cut, **_exit(r))
