"""Callbacks that decide about system calls, at once or later."""
from __future__ import annotations

import errno as _errno
import inspect
import os
import threading
from ctypes import c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from . import _ffi
from ._ffi import lib
from .exceptions import SandboxError

__all__ = ["Approval", "PolicyContext", "PolicyFn", "SyscallEvent"]

_ALLOW, _DENY, _AUDIT = 0, -1, -2


@dataclass(frozen=True)
class SyscallEvent:
    """A system call that is about to be made."""

    syscall: str
    """``"execve"``, ``"openat"``, ``"connect"`` and so on."""
    category: str
    """``"file"``, ``"network"``, ``"process"`` or ``"memory"``."""
    pid: int
    parent_pid: int = 0
    host: Optional[str] = None
    """The address, in numbers."""
    port: int = 0
    argv: Optional[Tuple[str, ...]] = None
    """Of execve and execveat; what is run after an allow has these."""
    denied: bool = False
    """A rule has denied it: there is nothing to decide, and ``fn`` is told."""
    path: Optional[str] = None
    """What is opened or executed."""
    writes: bool = False
    """It is opened for more than reading."""
    protocol: Optional[str] = None
    """``"tcp"`` or ``"udp"``."""
    program: Optional[str] = None
    """What the caller is; None where the command itself, or one of ``sandlock
    exec``, is started."""
    is_cut: bool = False
    """``argv`` or ``path`` was too long to be passed whole."""
    interpreter: Optional[str] = None
    """What the kernel executes ``path`` with, if that is a script (``#!``)."""

    def argv_contains(self, s: str) -> bool:
        """Whether a word of the command contains ``s``."""
        return any(s in word for word in self.argv or ())


class PolicyContext:
    """What a callback may do besides; only until it returns."""

    def __init__(self, pointer: Any) -> None:
        self._pointer = pointer

    def restrict_network(self, ips: Sequence[str]) -> None:
        """From now on nothing but ``ips`` is reached, this call included.

        They are written as those of ``net_allow``, without host names, and
        never add to what the sandbox's own rules allow. An empty list takes
        the network away. That is for good: further lists only take away more.
        """
        self._set_network(lib.context_restrict_network, 0, ips)

    def restrict_pid_network(self, pid: int, ips: Sequence[str]) -> None:
        """The same for one process and what descends from it, which no longer
        follows :meth:`restrict_network`; it takes the place of what was said of
        the process before."""
        self._set_network(lib.context_restrict_network, _process(pid), ips)

    def grant_network(self, ips: Sequence[str]) -> None:
        """What :meth:`restrict_network` took from all is not given back: a
        SandboxError. Without that there is nothing to grant."""
        self._set_network(lib.context_grant_network, 0, ips)

    def grant_pid_network(self, pid: int, ips: Sequence[str]) -> None:
        """Adds to what :meth:`restrict_pid_network` left to a process, within
        the sandbox's own rules."""
        self._set_network(lib.context_grant_network, _process(pid), ips)

    def restrict_max_memory(self, bytes: int) -> None:
        """From now on all processes together use at most so much, for good.
        Whoever uses too much already is killed."""
        limit = _count(bytes, 64)
        _ffi.call("restrict", lib.context_restrict_max_memory, self._alive(),
                  limit)

    def restrict_max_processes(self, n: int) -> None:
        """From now on there are at most ``n`` processes, for good. Those that
        run go on."""
        limit = _count(n, 32)
        _ffi.call("restrict", lib.context_restrict_max_processes,
                  self._alive(), limit)

    def deny_path(self, path: str) -> None:
        """From now on nothing at or below the absolute ``path`` is opened or
        executed (``EACCES``), this call included; what is open stays open."""
        _ffi.call("deny", lib.context_deny_path, self._alive(),
                  os.fsencode(path))

    def allow_path(self, path: str) -> None:
        """Takes back a :meth:`deny_path` of the same path, nothing else."""
        _ffi.call("allow", lib.context_allow_path, self._alive(),
                  os.fsencode(path))

    def _set_network(self, function: Any, pid: int,
                     ips: Sequence[str]) -> None:
        _ffi.call("network", function, self._alive(), pid, _ffi.strings(ips),
                  len(ips))

    def _alive(self) -> Any:
        if self._pointer is None:
            raise SandboxError("a context lives only until its callback "
                               "returns", errno=_errno.EBADF, step="policy",
                               kind="state")
        return self._pointer


def _process(pid: int) -> int:
    if pid <= 0:
        raise ValueError(f"{pid} is no process")
    return pid


def _count(n: int, bits: int) -> int:
    """C would take the lowest bits of anything."""
    if not 0 < n < 1 << bits:
        raise ValueError(f"{n} is no limit")
    return n


class Approval:
    """The answer to one system call, owed by whoever has this.

    ``allow`` or ``deny`` it once, from any thread. One that is closed, or
    forgotten, is denied; so is one that nobody answers in time, and then an
    answer is a :class:`SandboxError` of kind ``"expired"``, ``"cancelled"``
    where the caller is gone, or ``"answered"`` the second time.
    """

    _KINDS = {
        _errno.EALREADY: ("answered", "it was answered before"),
        _errno.ECANCELED: ("cancelled", "nobody waits for it any more"),
        _errno.ETIMEDOUT: ("expired", "the answer comes too late"),
    }

    def __init__(self, pointer: Any) -> None:
        self._lock = threading.Lock()
        self._pointer = pointer
        self._is_answered = False

    def allow(self) -> None:
        """Lets the call be made, if rules and the kernel do."""
        self._resolve(_ALLOW)

    def deny(self, errno: int = _errno.EPERM) -> None:
        """Fails it with ``errno``."""
        if errno <= 0:
            raise ValueError(f"{errno} is no errno")
        self._resolve(errno)

    @property
    def cancelled(self) -> bool:
        """An answer would come too late, or nobody waits for one."""
        with self._lock:
            if self._pointer is None:
                return not self._is_answered
            return bool(lib.approval_is_cancelled(self._pointer))

    def close(self) -> None:
        """Denies it, if it was not answered."""
        with self._lock:
            self._free()

    def _resolve(self, verdict: int) -> None:
        with self._lock:
            if self._pointer is None:
                number = (_errno.EALREADY if self._is_answered
                          else _errno.ECANCELED)
            else:
                number = -lib.approval_resolve(self._pointer, verdict)
                self._is_answered = number == 0
                self._free()
        if number:
            kind, text = self._KINDS.get(number, ("system", "no answer"))
            raise SandboxError(text, errno=number, step="approval", kind=kind)

    def _free(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            lib.approval_free(pointer)

    def __enter__(self) -> "Approval":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self._free()


Verdict = Union[None, bool, int, str]
Decide = Callable[[SyscallEvent, PolicyContext], Verdict]
DecideLater = Callable[[SyscallEvent, PolicyContext, Optional[Approval]],
                       Any]


class PolicyFn:
    """A callback for ``Sandbox(policy_fn=...)``.

    ``PolicyFn(fn)``, or just ``fn``: ``fn(event, context)`` decides at once.
    None, False or 0 allow; True or -1 deny; an errno denies with it; "audit"
    allows and is on record. Anything else, and an exception, denies.

    ``PolicyFn.deferred(fn)``: ``fn(event, context, approval)`` returns at once
    and somebody answers the :class:`Approval` later. It is ``None`` where
    there is nothing to decide. An exception denies, also where the approval
    was handed on already.

    The first call is the execve of the command itself, with no ``program``. A
    deferred callback is only told of it: who answers may wait for the start.

    Callbacks run one at a time, on a thread of their own.
    """

    def __init__(self, fn: Callable[..., Any], *,
                 is_deferred: bool = False) -> None:
        _check_fn(fn, ("event", "context", "approval")[:2 + is_deferred])
        self.fn = fn
        self.is_deferred = is_deferred

    @classmethod
    def deferred(cls, fn: DecideLater) -> "PolicyFn":
        return cls(fn, is_deferred=True)

    def install(self, sandbox: c_void_p) -> Any:
        """Returns what has to live as long as the sandbox."""
        if self.is_deferred:
            later = _ffi.DEFERRED_FN(partial(self._call_deferred, sandbox))
            _ffi.call("configure", lib.sandbox_set_deferred_policy, sandbox,
                      later, None, _ffi.FREE_FN())
            return later
        now = _ffi.POLICY_FN(partial(self._call, sandbox))
        _ffi.call("configure", lib.sandbox_set_policy, sandbox, now, None,
                  _ffi.FREE_FN())
        return now

    def _call(self, sandbox: c_void_p, _data: Any, event: Any,
              pointer: Any) -> int:
        context = PolicyContext(pointer)
        with _ffi.callback(sandbox):
            try:
                return to_verdict(self.fn(to_event(event.contents), context))
            except BaseException:
                _ffi.log.exception("policy_fn failed: the call is denied")
                return _DENY
            finally:
                context._pointer = None

    def _call_deferred(self, sandbox: c_void_p, _data: Any, event: Any,
                       pointer: Any, handle: Any) -> None:
        approval = Approval(handle) if handle else None
        context = PolicyContext(pointer)
        with _ffi.callback(sandbox):
            try:
                self.fn(to_event(event.contents), context, approval)
            except BaseException:
                _ffi.log.exception("policy_fn failed: the call is denied")
                if approval:
                    approval.close()
            finally:
                context._pointer = None


def _check_fn(fn: Any, names: Sequence[str]) -> None:
    """What cannot be called would deny every call."""
    form = f"fn({', '.join(names)})"
    if not callable(fn):
        raise TypeError(f"policy_fn: {fn!r} is no function: it is {form}")
    if any(map(inspect.iscoroutinefunction, (fn, fn.__call__))):
        raise TypeError(f"policy_fn: {fn!r} is a coroutine function, which "
                        f"nobody awaits: it is {form}, without async")
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return  # as of what is written in C
    try:
        signature.bind(*names)
    except TypeError as e:
        raise TypeError(f"policy_fn: {fn!r} cannot be called as {form}: {e}"
                        ) from None


def to_verdict(value: Any) -> int:
    """What is none of the known verdicts denies."""
    if value is None or value is False:
        return _ALLOW
    if value == "audit":
        return _AUDIT
    if value is True or not isinstance(value, int) or value < _AUDIT:
        return _DENY
    return value


def _text(data: Optional[bytes]) -> Optional[str]:
    return None if data is None else _ffi.decode(data)


def to_event(e: Any) -> SyscallEvent:
    argv = (tuple(_ffi.decode(e.argv[i]) for i in range(e.n_argv))
            if e.argv else None)
    return SyscallEvent(
        syscall=_ffi.decode(e.syscall), category=_ffi.decode(e.category),
        pid=e.pid, parent_pid=e.parent_pid, host=_text(e.host), port=e.port,
        argv=argv, denied=e.denied, path=_text(e.path), writes=e.writes,
        protocol=_text(e.protocol), program=_text(e.program), is_cut=e.is_cut,
        interpreter=_text(e.interpreter))
