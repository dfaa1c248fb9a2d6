"""Handlers: Python code that answers system calls in the place of the kernel.

    class Greeting(Handler):
        def handle(self, ctx):
            if ctx.read_path() == "/etc/greeting":
                return NotifAction.inject_bytes(b"hello\\n")
            return NotifAction.continue_()

    Sandbox().run_with_handlers(["cat", "/etc/greeting"],
                                [("openat", Greeting())])
"""
from __future__ import annotations

import asyncio
import ctypes
import errno as _errno
import fcntl
import inspect
import os
import threading
from ctypes import byref, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import (
    Any, Awaitable, Callable, List, Optional, Sequence, Tuple, TypeVar, Union,
)

from . import _ffi
from ._ffi import lib
from .exceptions import NotOfferedError

__all__ = ["ExceptionPolicy", "Handler", "HandlerCtx", "Handlers",
           "NotifAction"]

(_CONTINUE, _ERRNO, _RETURN, _FD, _HOLD, _KILL) = range(1, 7)
_FAILED, _LATER = -1, 1
_ERRNO_MAX = 511

# Which argument is the path, of calls that have one.
_PATH_ARGS = {name: number for number, names in (
    (0, "access chdir chmod chown chroot creat execve getxattr lchown "
        "lgetxattr listxattr llistxattr lremovexattr lsetxattr lstat mkdir "
        "mknod open readlink removexattr rmdir setxattr stat statfs truncate "
        "unlink utime utimes"),
    (1, "execveat faccessat faccessat2 fchmodat fchmodat2 fchownat futimesat "
        "inotify_add_watch mkdirat mknodat name_to_handle_at newfstatat "
        "open_tree openat openat2 readlinkat statx unlinkat utimensat"),
) for name in names.split()}


class ExceptionPolicy(IntEnum):
    """What becomes of a call whose handler fails: raises, returns something
    that is no :class:`NotifAction`, or never answers."""

    KILL = 0
    """SIGKILL to all of the sandbox."""
    DENY_EPERM = 1
    CONTINUE = 2
    """As if there were no such handler."""
    DENY_EIO = 3


@dataclass(frozen=True)
class NotifAction:
    """What becomes of a call; made by the class methods."""

    kind: int
    errno_value: int = 0
    return_value: int = 0
    srcfd: int = -1
    newfd_flags: int = 0
    sig: int = 0
    pgid: int = 0

    @classmethod
    def continue_(cls) -> "NotifAction":
        """The next handler of the call decides, after the last one the kernel
        carries it out. It reads memory again then, which other threads of the
        caller may have changed: this is no way to allow what was looked at."""
        return cls(_CONTINUE)

    @classmethod
    def errno(cls, value: int) -> "NotifAction":
        """It fails with this errno."""
        if not 0 < value <= _ERRNO_MAX:
            raise ValueError(f"{value} is no errno")
        return cls(_ERRNO, errno_value=value)

    @classmethod
    def returns(cls, value: int) -> "NotifAction":
        """It returns ``value``, and was not carried out."""
        return cls(_RETURN, return_value=value)

    @classmethod
    def hold(cls) -> "NotifAction":
        """It is not answered: until a signal, or with EIO when its time is
        over."""
        return cls(_HOLD)

    @classmethod
    def kill(cls, sig: int, pgid: int = 0) -> "NotifAction":
        """``sig`` to every process of the sandbox."""
        if pgid:
            raise NotOfferedError(
                "a process group cannot be named", step="NotifAction.kill",
                hint="leave pgid out: the whole sandbox gets the signal",
                kind="unsupported")
        return cls(_KILL, sig=sig)

    @classmethod
    def inject_fd_send(cls, srcfd: int, newfd_flags: int = 0) -> "NotifAction":
        """It returns a copy of ``srcfd``, which is ours no longer: do not close
        it. ``newfd_flags`` may be ``os.O_CLOEXEC``, for the copy."""
        if srcfd < 0:
            raise ValueError(f"{srcfd} is no descriptor")
        return cls(_FD, srcfd=srcfd, newfd_flags=newfd_flags)

    @classmethod
    def inject_bytes(cls, data: bytes, *, seal: bool = True,
                     cloexec: bool = True) -> "NotifAction":
        """It returns the descriptor of a file that has these bytes: one that
        cannot be changed, unless ``seal`` is false."""
        fd = os.memfd_create("bytes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(data)
            os.lseek(fd, 0, os.SEEK_SET)
            if seal:
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                            fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK
                            | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
        except BaseException:
            os.close(fd)
            raise
        return cls.inject_fd_send(fd, os.O_CLOEXEC if cloexec else 0)

    def _fill(self, action: Any) -> None:
        """The descriptor is the library's from here on."""
        action.kind = self.kind
        action.error = self.errno_value
        action.value = self.return_value
        action.fd = self.srcfd
        action.close_on_exec = bool(self.newfd_flags & os.O_CLOEXEC)
        action.signal = self.sig


_T = TypeVar("_T")


class _Call:
    """A call of C, which one thread uses at a time, until it is answered."""

    def __init__(self, pointer: int) -> None:
        self._lock = threading.Lock()
        self._pointer: Optional[int] = pointer

    def use(self, function: Callable[..., _T], *args: Any,
            gone: _T) -> _T:
        with self._lock:
            if self._pointer is None:
                return gone
            return function(self._pointer, *args)

    def give_back(self) -> None:
        """To the library, that had lent it."""
        with self._lock:
            self._pointer = None

    def answer(self, action: Optional[NotifAction]) -> None:
        """None: its handler has failed."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
            if pointer is None:
                return
            if action:
                c_action = _ffi.Action()
                action._fill(c_action)
                # The run may be over: then nobody wants to know.
                lib.call_answer(pointer, byref(c_action))
            lib.call_free(pointer)


@dataclass(frozen=True)
class HandlerCtx:
    """A call that waits for an answer, and its caller. Once it has got one, or
    does not wait any more, its memory is out of reach."""

    id: int
    pid: int
    """The thread that calls."""
    flags: int
    syscall_nr: int
    arch: int
    instruction_pointer: int
    args: Tuple[int, int, int, int, int, int]
    _mem_handle: Any = None

    @property
    def syscall(self) -> str:
        """Its name, or ``""``."""
        return syscall_name(self.syscall_nr)

    @property
    def cancelled(self) -> bool:
        """Nobody waits for an answer any more."""
        return bool(self._use(lib.call_is_cancelled, gone=True))

    def read(self, addr: int, length: int) -> Optional[bytes]:
        """Bytes at ``addr`` in the caller, or None if they are out of reach."""
        data = ctypes.create_string_buffer(length)
        return (data.raw if self._use(lib.call_read, addr, data, length) == 0
                else None)

    def read_cstr(self, addr: int, max_len: int) -> Optional[str]:
        """The same up to a NUL, that is within ``max_len`` bytes."""
        data = ctypes.create_string_buffer(max_len)
        return (_ffi.decode(data.value)
                if self._use(lib.call_read_string, addr, data, max_len) == 0
                else None)

    def read_path(self, arg: Optional[int] = None,
                  max_len: int = 4096) -> Optional[str]:
        """The path that argument ``arg`` points to; it need not be said where
        the call has exactly one."""
        if arg is None:
            arg = _PATH_ARGS.get(self.syscall)
            if arg is None:
                raise ValueError(f"'{self.syscall or self.syscall_nr}' has no "
                                 "path, or several: pass arg= explicitly")
        if not 0 <= arg < len(self.args):
            raise ValueError(f"a call has no argument {arg}")
        return self.read_cstr(self.args[arg], max_len)

    def write(self, addr: int, data: bytes) -> bool:
        """Whether ``data`` is at ``addr`` in the caller now."""
        return self._use(lib.call_write, addr, data, len(data)) == 0

    def install_fd(self, fd: int, cloexec: bool = True) -> int:
        """Gives the caller a copy of ``fd``: its number there."""
        return self._number(self._use(lib.call_install_fd, fd, cloexec))

    def get_fd(self, fd: int) -> int:
        """A copy of the caller's descriptor ``fd``, to be closed."""
        return self._number(self._use(lib.call_get_fd, fd))

    def open_process(self) -> int:
        """A pidfd of the caller's process, to be closed: it can be read once
        that has ended, which no handler is told of."""
        return self._number(self._use(lib.call_open_process))

    def _use(self, function: Callable[..., int], *args: Any,
             gone: int = -_errno.ESRCH) -> int:
        if self._mem_handle is None:
            return gone
        return int(self._mem_handle.use(function, *args, gone=gone))

    @staticmethod
    def _number(number: int) -> int:
        if number < 0:
            raise OSError(-number, os.strerror(-number))
        return number


class Handler:
    """Answers system calls; for ``Sandbox(handlers=[("openat", Handler())])``
    and :meth:`Sandbox.run_with_handlers`.

    :meth:`handle` may be called on several threads at once. As ``async def`` it
    runs in an event loop, that of :meth:`Sandbox.arun` or one of the package's
    own, and holds up neither other calls nor a thread while it awaits; its
    ``continue_()`` reaches the next handler, too.
    """

    on_exception: ExceptionPolicy = ExceptionPolicy.KILL

    def handle(self, ctx: HandlerCtx
               ) -> "Union[NotifAction, Awaitable[NotifAction]]":
        raise NotImplementedError


Handlers = Sequence[Tuple[Union[int, str], Handler]]


def syscall_name(number: int) -> str:
    pointer = lib.syscall_name(number)
    return _ffi.take_string(c_void_p(pointer)) if pointer else ""


class _Loop:
    """An event loop that coroutines run in, made when one is there."""

    def __init__(self, loop: Optional[asyncio.AbstractEventLoop]) -> None:
        self._lock = threading.Lock()
        self._loop = loop
        self._thread: Optional[threading.Thread] = None
        self._tasks: "set[Any]" = set()
        self._is_closed = False

    def run(self, answer: "Awaitable[Any]", call: _Call) -> None:
        with self._lock:
            if self._is_closed:
                raise asyncio.CancelledError
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), daemon=True,
                    name="sandlock-handlers")
                self._thread.start()
            task = asyncio.run_coroutine_threadsafe(
                _answer_later(call, answer), self._loop)
            self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before it has begun answers nothing.
        task.add_done_callback(lambda _task: call.answer(None))

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(
                asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()

    def close(self) -> None:
        """Cancels what still runs: nobody waits for it any more."""
        with self._lock:
            self._is_closed = True
            tasks = list(self._tasks)
            thread, self._thread = self._thread, None
        for task in tasks:
            task.cancel()
        if thread and self._loop:
            self._loop.call_soon_threadsafe(self._loop.stop)


class Installed:
    """The handlers of one sandbox; has to live as long as it."""

    def __init__(self, sandbox: c_void_p,
                 loop: Optional[asyncio.AbstractEventLoop]) -> None:
        self._sandbox = sandbox
        self._loop = _Loop(loop)
        self._functions: List[Any] = []

    def limit(self, threads: Optional[int], timeout: Optional[float]) -> None:
        _ffi.call("configure", lib.sandbox_limit_handlers, self._sandbox,
                  threads or 0,
                  0 if timeout is None else max(1, int(timeout * 1000)))

    def add(self, syscall: Union[int, str], handler: Handler) -> None:
        if not isinstance(handler, Handler):
            raise TypeError(f"{handler!r} is no Handler")
        if isinstance(syscall, bool) or not isinstance(syscall, (int, str)):
            raise TypeError(f"{syscall!r} is no system call: a name or a "
                            "number")
        function = _ffi.HANDLER_FN(partial(self._call, handler))
        self._functions.append(function)
        c_handler = _ffi.Handler(
            syscall=_ffi.encode(syscall) if isinstance(syscall, str) else None,
            nr=syscall if isinstance(syscall, int) else 0, fn=function,
            on_exception=ExceptionPolicy(handler.on_exception))
        _ffi.call("configure", lib.sandbox_add_handler, self._sandbox,
                  byref(c_handler))

    def _call(self, handler: Handler, _data: Any, pointer: int,
              ret: Any) -> int:
        call = _Call(pointer)
        with _ffi.callback(self._sandbox):
            try:
                answer = handler.handle(_ctx(pointer, call))
                if inspect.isawaitable(answer):
                    self._loop.run(answer, call)
                    return _LATER
                _check(answer)._fill(ret.contents)
                call.give_back()
                return 0
            except BaseException:
                _ffi.log.exception("a handler failed: %s",
                                   ExceptionPolicy(handler.on_exception).name)
                call.give_back()
                return _FAILED

    def close(self) -> None:
        """When a run has ended: what still runs of it is cancelled."""
        self._loop.close()


def _ctx(pointer: int, call: _Call) -> HandlerCtx:
    info = lib.call_get_info(pointer).contents
    return HandlerCtx(
        id=info.id, pid=info.pid, flags=info.flags, syscall_nr=info.nr,
        arch=info.arch, instruction_pointer=info.instruction_pointer,
        args=tuple(info.args), _mem_handle=call)


def _check(answer: Any) -> NotifAction:
    if not isinstance(answer, NotifAction):
        raise TypeError(f"{answer!r} is no NotifAction")
    return answer


async def _answer_later(call: _Call, answer: "Awaitable[Any]") -> None:
    action = None
    try:
        action = _check(await answer)
    except Exception:
        _ffi.log.exception("a handler failed")
    finally:
        call.answer(action)

