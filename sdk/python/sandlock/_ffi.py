"""libsandlock by ctypes: the only module that knows the C interface.

Layouts are those of include/sandlock.h; tests/test_layout.py compares them with
what a C compiler says. ctypes lets other threads run during each call.

The library is $SANDLOCK_LIBRARY, else the one in this package (wheels bring
it), else the system's. It starts the program ``sandlock`` for what serves a
sandbox: $SANDLOCK_PROGRAM, else the one beside the library, else the one that
is installed.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import threading
from ctypes import (
    CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int,
    c_int64, c_long, c_size_t, c_ubyte, c_uint, c_uint16, c_uint32, c_uint64,
    c_void_p,
)
from datetime import datetime, timezone
from typing import Any, Iterable, Iterator, Optional, Union

from . import exceptions as exc

log = logging.getLogger("sandlock")
log.addHandler(logging.NullHandler())

Text = Union[str, bytes, "os.PathLike[Any]"]


def encode(text: Text) -> bytes:
    """Bytes for C, which cannot hold a NUL."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError(f"a NUL byte in {text!r}")
    return data


def decode(data: Optional[bytes]) -> str:
    return os.fsdecode(data) if data else ""


# ------------------------------------------------------------- structures --


class Error(Structure):
    _fields_ = [("kind", c_int), ("sys", c_int), ("msg", c_char * 768),
                ("hint", c_char * 256)]


LOG_FN = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Env(Structure):
    _fields_ = [("root", c_char_p), ("store", c_char_p),
                ("program", c_char_p), ("log", LOG_FN),
                ("log_data", c_void_p), ("stop_fd", POINTER(c_int)),
                ("log_debug", c_bool)]


class Result(Structure):
    _fields_ = [("exit_kind", c_int), ("exit_value", c_int),
                ("outcome", c_int), ("n_changes", c_size_t),
                ("outcome_error", Error), ("name", c_char * 256),
                ("quota_bytes", c_uint64), ("quota_used", c_uint64)]


class Timespec(Structure):
    _fields_ = [("tv_sec", c_long), ("tv_nsec", c_long)]


class Stdio(Structure):
    _fields_ = [("kind", c_int), ("fd", c_int)]


class Launch(Structure):
    _fields_ = [("argv", POINTER(c_char_p)), ("stdin", Stdio),
                ("stdout", Stdio), ("stderr", Stdio),
                ("timeout_ms", c_uint64), ("capture_max", c_size_t),
                ("refuse_conflicts", c_bool), ("fds", POINTER(c_int)),
                ("n_fds", c_size_t)]


class Entry(Structure):
    _fields_ = [("kind", c_int), ("mode", c_uint32), ("size", c_uint64),
                ("has_digest", c_bool), ("digest", c_ubyte * 32),
                ("target", c_char_p)]


class Changed(Structure):
    _fields_ = [("letter", c_char), ("flags", c_uint), ("path", c_char_p),
                ("root", c_char_p), ("before", Entry), ("after", Entry)]


class Report(Structure):
    _fields_ = [("result", Result), ("out_data", c_void_p),
                ("err_data", c_void_p), ("out_len", c_size_t),
                ("err_len", c_size_t), ("out_cut", c_bool),
                ("err_cut", c_bool), ("changes", POINTER(Changed)),
                ("n_changes", c_size_t), ("changes_error", Error)]


class TransactionResult(Structure):
    _fields_ = [("outcome", c_int), ("outcome_error", Error),
                ("n_run", c_size_t), ("failed", c_size_t),
                ("name", c_char * 256)]


class Root(Structure):
    _fields_ = [("lower", c_char_p), ("upper", c_char_p)]


class BranchInfo(Structure):
    _fields_ = [("name", c_char_p), ("state", c_char_p), ("lower", c_char_p),
                ("dir", c_char_p), ("upper", c_char_p),
                ("command", c_char_p), ("roots", POINTER(Root)),
                ("n_roots", c_size_t), ("on_exit", c_int),
                ("on_error", c_int), ("exit_kind", c_int),
                ("exit_value", c_int), ("created", Timespec)]


class Side(Structure):
    _fields_ = [("mode", c_uint32), ("uid", c_uint32), ("gid", c_uint32),
                ("size", c_uint64), ("rdev", c_uint64), ("mtime", Timespec),
                ("link_target", c_char_p)]


class Change(Structure):
    _fields_ = [("letter", c_char), ("flags", c_uint), ("path", c_char_p),
                ("before", Side), ("after", Side), ("link_to", c_char_p),
                ("xattrs", c_char_p), ("conflict", c_char_p),
                ("root", c_char_p)]


CHANGE_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Change))


class Commit(Structure):
    _fields_ = [("conflicts", c_int), ("force_torn", c_bool),
                ("allow_special", c_bool), ("lock_timeout_ms", c_int),
                ("paths", POINTER(c_char_p)), ("n_paths", c_size_t),
                ("on_conflict", CHANGE_FN), ("data", c_void_p),
                ("n_published", c_size_t), ("n_skipped", c_size_t),
                ("gone", c_bool)]


class Denial(Structure):
    _fields_ = [("code", c_char_p), ("call", c_char_p), ("error", c_int),
                ("object", c_char_p), ("rule", c_char_p),
                ("where", c_char_p), ("remedy", c_char_p),
                ("program", c_char_p), ("pid", c_int), ("count", c_uint64),
                ("first", Timespec), ("last", Timespec)]


DENIAL_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Denial))


class Why(Structure):
    _fields_ = [("what", c_char_p), ("verdict", c_int), ("because", c_char_p),
                ("remedy", c_char_p)]


WHY_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Why))


class Event(Structure):
    _fields_ = [("syscall", c_char_p), ("category", c_char_p),
                ("pid", c_int), ("parent_pid", c_int),
                ("program", c_char_p), ("path", c_char_p),
                ("writes", c_bool), ("host", c_char_p), ("port", c_uint16),
                ("protocol", c_char_p), ("argv", POINTER(c_char_p)),
                ("n_argv", c_size_t), ("is_cut", c_bool),
                ("denied", c_bool), ("interpreter", c_char_p)]


class Question(Structure):
    _fields_ = [("id", c_char_p), ("state", c_char_p), ("what", c_char_p),
                ("is_cut", c_bool), ("rule", c_char_p),
                ("program", c_char_p), ("pid", c_int), ("count", c_uint),
                ("seconds_left", c_uint), ("by", c_char_p),
                ("reason", c_char_p), ("json", c_char_p)]


QUESTION_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Question))
POLICY_FN = CFUNCTYPE(c_int, c_void_p, POINTER(Event), c_void_p)
DEFERRED_FN = CFUNCTYPE(None, c_void_p, POINTER(Event), c_void_p, c_void_p)
FREE_FN = CFUNCTYPE(None, c_void_p)



class CallInfo(Structure):
    _fields_ = [("id", c_uint64), ("pid", c_int), ("flags", c_uint32),
                ("nr", c_int), ("arch", c_uint32),
                ("instruction_pointer", c_uint64), ("args", c_uint64 * 6)]


class Action(Structure):
    _fields_ = [("kind", c_int), ("error", c_int), ("value", c_int64),
                ("fd", c_int), ("close_on_exec", c_bool), ("signal", c_int)]


HANDLER_FN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(Action))


class Handler(Structure):
    _fields_ = [("syscall", c_char_p), ("nr", c_int), ("fn", HANDLER_FN),
                ("data", c_void_p), ("free_fn", FREE_FN),
                ("on_exception", c_int)]


# C name of each structure, for the test of the layouts.
STRUCTURES = {
    "sandlock_error": Error, "sandlock_env": Env, "sandlock_result": Result,
    "sandlock_stdio": Stdio, "sandlock_launch": Launch,
    "sandlock_entry": Entry, "sandlock_changed": Changed,
    "sandlock_report": Report, "sandlock_root": Root,
    "sandlock_branch_info": BranchInfo,
    "sandlock_side": Side, "sandlock_change": Change,
    "sandlock_commit": Commit,
    "sandlock_transaction_result": TransactionResult,
    "sandlock_event": Event, "sandlock_question": Question,
    "sandlock_call_info": CallInfo, "sandlock_action": Action,
    "sandlock_handler": Handler,
}
# Members that Python names otherwise: "in" is a word of the language.
RENAMED = {"stdin": "in", "stdout": "out", "stderr": "err"}

KINDS = ("none", "usage", "system", "bundle", "name", "exists", "not_found",
         "state", "unsupported", "conflict", "locked", "torn",
         "exec_missing", "exec_denied", "hook", "timeout")
ENTRY_KINDS = ("", "file", "dir", "symlink", "other", "other", "other",
               "other")
OUTCOMES = ("none", "pending", "committed", "aborted", "empty")
CONFLICTS = {"refuse": 0, "skip": 1, "force": 2}

EXIT_UNKNOWN, EXIT_CODE, EXIT_SIGNAL, EXIT_TIMEOUT, EXIT_QUOTA = range(5)
(STDIO_INHERIT, STDIO_PIPE, STDIO_NULL, STDIO_CAPTURE,
 STDIO_FD) = range(5)
STATE_NEW, STATE_CREATED, STATE_RUNNING, STATE_ENDED = range(4)
WANT_UNCHANGED, WANT_CHILDREN = 1, 2

# ---------------------------------------------------------------- library --

_LOG_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def _find_library() -> str:
    named = os.environ.get("SANDLOCK_LIBRARY")
    if named:
        return named
    ours = os.path.join(os.path.dirname(__file__), "libsandlock.so")
    return ours if os.path.exists(ours) else "libsandlock.so.0"


def _find_program(library: str) -> Optional[bytes]:
    named = os.environ.get("SANDLOCK_PROGRAM")
    if named:
        return encode(named)
    if "/" in library:
        beside = os.path.join(os.path.dirname(os.path.abspath(library)),
                              "sandlock")
        if os.access(beside, os.X_OK):
            return encode(beside)
    return None


def _load(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(
            f"sandlock: cannot load its C library: {e}; install libsandlock, "
            "or name the file in SANDLOCK_LIBRARY") from e


_P = c_void_p
_E = POINTER(Error)
_ENV = POINTER(Env)
_S = POINTER(c_char_p)

# name: (result, arguments)
PROTOTYPES: "dict[str, tuple[Any, list[Any]]]" = {
    "version": (c_char_p, []),
    "request_new": (_P, []),
    "request_free": (None, [_P]),
    "request_set": (c_int, [_P, c_char_p, c_char_p, c_char_p, _E]),
    "request_load": (c_int, [_P, c_char_p, c_bool, _E]),
    "request_json": (c_int, [_P, POINTER(_P), _E]),
    "profiles": (c_int, [POINTER(POINTER(c_void_p)), POINTER(c_size_t), _E]),
    "sandbox_new": (c_int, [_ENV, _P, POINTER(_P), _E]),
    "sandbox_free": (None, [_P]),
    "sandbox_create": (c_int, [_P, POINTER(Launch), _E]),
    "sandbox_start": (c_int, [_P, _E]),
    "sandbox_spawn": (c_int, [_P, POINTER(Launch), _E]),
    "sandbox_wait": (c_int, [_P, c_int, POINTER(POINTER(Report)), _E]),
    "sandbox_kill": (c_int, [_P, _E]),
    "sandbox_signal": (c_int, [_P, c_int, _E]),
    "sandbox_pause": (c_int, [_P, _E]),
    "sandbox_resume": (c_int, [_P, _E]),
    "sandbox_ports": (c_int, [_P, POINTER(_P), _E]),
    "sandbox_get_state": (c_int, [_P]),
    "sandbox_pid": (c_int, [_P]),
    "sandbox_name": (c_int, [_P, POINTER(_P), _E]),
    "sandbox_pending": (c_bool, [_P]),
    "sandbox_upper_dir": (c_int, [_P, POINTER(_P), _E]),
    "sandbox_upper_dir_of": (c_int, [_P, c_char_p, POINTER(_P), _E]),
    "sandbox_commit": (c_int, [_P, POINTER(Commit), _E]),
    "sandbox_abort": (c_int, [_P, _E]),
    "sandbox_set_policy": (c_int, [_P, POLICY_FN, _P, FREE_FN, _E]),
    "sandbox_set_deferred_policy": (c_int, [_P, DEFERRED_FN, _P, FREE_FN,
                                            _E]),
    "sandbox_add_handler": (c_int, [_P, POINTER(Handler), _E]),
    "sandbox_limit_handlers": (c_int, [_P, c_uint, c_uint64, _E]),
    "call_get_info": (POINTER(CallInfo), [_P]),
    "call_read": (c_int, [_P, c_uint64, _P, c_size_t]),
    "call_read_string": (c_int, [_P, c_uint64, _P, c_size_t]),
    "call_write": (c_int, [_P, c_uint64, c_char_p, c_size_t]),
    "call_install_fd": (c_int, [_P, c_int, c_bool]),
    "call_get_fd": (c_int, [_P, c_int]),
    "call_open_process": (c_int, [_P]),
    "call_is_cancelled": (c_bool, [_P]),
    "call_answer": (c_int, [_P, POINTER(Action)]),
    "call_free": (None, [_P]),
    "syscall_name": (_P, [c_int]),
    "context_restrict_network": (c_int, [_P, c_int, _S, c_size_t, _E]),
    "context_grant_network": (c_int, [_P, c_int, _S, c_size_t, _E]),
    "context_restrict_max_memory": (c_int, [_P, c_uint64, _E]),
    "context_restrict_max_processes": (c_int, [_P, c_uint32, _E]),
    "context_deny_path": (c_int, [_P, c_char_p, _E]),
    "context_allow_path": (c_int, [_P, c_char_p, _E]),
    "questions": (c_int, [_ENV, c_char_p, QUESTION_FN, _P, _E]),
    "decide": (c_int, [_ENV, c_char_p, c_char_p, c_int, c_char_p, c_char_p,
                       _E]),
    "approval_resolve": (c_int, [_P, c_int]),
    "approval_is_cancelled": (c_bool, [_P]),
    "approval_free": (None, [_P]),
    "confine": (c_int, [_ENV, _P, _E]),
    "transaction_new": (c_int, [_ENV, POINTER(_P), _E]),
    "transaction_free": (None, [_P]),
    "transaction_add": (c_int, [_P, _P, POINTER(Launch), _E]),
    "transaction_run": (c_int, [_P, c_uint64, POINTER(TransactionResult),
                                _E]),
    "transaction_kill": (None, [_P]),
    "transaction_stage": (_P, [_P, c_size_t]),
    "transaction_set_savepoints": (c_int, [_P, _E]),
    "transaction_rollback": (c_int, [_P, c_size_t, _E]),
    "transaction_end": (c_int, [_P, c_int, POINTER(TransactionResult), _E]),
    "transaction_report": (POINTER(Report), [_P, c_size_t]),
    "branches": (c_int, [_ENV, POINTER(POINTER(BranchInfo)),
                         POINTER(c_size_t), _E]),
    "branches_free": (None, [POINTER(BranchInfo), c_size_t]),
    "diff": (c_int, [_ENV, c_char_p, c_uint, _S, c_size_t, CHANGE_FN, _P,
                     _E]),
    "digest": (c_int, [_ENV, c_char_p, c_char_p, c_bool, c_char_p, _E]),
    "uncovered": (c_int, [_ENV, c_char_p, CHANGE_FN, _P, _E]),
    "commit": (c_int, [_ENV, c_char_p, POINTER(Commit), _E]),
    "abort": (c_int, [_ENV, c_char_p, _S, c_size_t, _E]),
    "recover": (c_int, [_ENV, c_char_p, c_bool, POINTER(c_int), _E]),
    "denials": (c_int, [_ENV, c_char_p, DENIAL_FN, _P, _E]),
    "explain": (c_int, [_ENV, c_char_p, c_char_p, WHY_FN, _P, _E]),
    "state": (c_int, [_ENV, c_char_p, POINTER(_P), _E]),
    "inspect": (c_int, [_ENV, c_char_p, c_bool, POINTER(_P), _E]),
    "kill": (c_int, [_ENV, c_char_p, c_int, c_bool, _E]),
    "kill_tree": (c_int, [_ENV, c_char_p, _E]),
    "features": (c_int, [POINTER(_P), _E]),
}


class _Library:
    """The functions, without "sandlock_" before their names."""

    def __init__(self, path: str) -> None:
        self._dll = _load(path)
        for name, (restype, argtypes) in PROTOTYPES.items():
            try:
                function = getattr(self._dll, "sandlock_" + name)
            except AttributeError:
                raise ImportError(
                    f"sandlock: the C library '{path}' is too old, it has no "
                    f"sandlock_{name}") from None
            function.restype = restype
            function.argtypes = argtypes
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


_path = _find_library()
lib = _Library(_path)
libc = ctypes.CDLL(None, use_errno=True)
libc.free.restype = None
libc.free.argtypes = [c_void_p]


def _log(_data: Any, level: int, message: bytes) -> None:
    log.log(_LOG_LEVELS[min(level, 3)], "%s",
            message.decode("utf-8", "replace"))


env = Env(program=_find_program(_path), log=LOG_FN(_log))

# ----------------------------------------------------------------- errors --

_CLASSES = {
    "usage": exc.PolicyError, "name": exc.PolicyError,
    "unsupported": exc.ConfinementError, "conflict": exc.BranchConflictError,
    "locked": exc.BranchError, "torn": exc.BranchError,
    "exec_missing": exc.ChildError, "exec_denied": exc.ChildError,
}


def to_exception(e: Error, step: str) -> exc.SandlockError:
    kind = KINDS[e.kind] if e.kind < len(KINDS) else "system"
    cls = _CLASSES.get(kind, exc.SandboxError)
    if step in ("commit", "abort") and kind == "system":
        cls = exc.BranchError
    return cls(e.msg.decode("utf-8", "replace"), errno=e.sys, step=step,
               hint=e.hint.decode("utf-8", "replace"), kind=kind)


def call(step: str, function: Any, *args: Any) -> int:
    """Calls a function whose last argument is the error; raises it."""
    e = Error()
    ret: int = function(*args, byref(e))
    if ret < 0:
        if not e.kind:
            e.kind, e.sys = KINDS.index("system"), -ret
            e.msg = os.strerror(-ret).encode()
        raise to_exception(e, step)
    return ret


def take_string(pointer: c_void_p) -> str:
    """Copies and frees a string that C has given to us."""
    try:
        return decode(ctypes.cast(pointer, c_char_p).value)
    finally:
        libc.free(pointer)


def get_string(step: str, function: Any, *args: Any) -> str:
    pointer = c_void_p()
    call(step, function, *args, byref(pointer))
    return take_string(pointer)


def moment(t: Timespec) -> datetime:
    return datetime.fromtimestamp(t.tv_sec + t.tv_nsec / 1e9, timezone.utc)


def strings(texts: Iterable[Text]) -> Any:
    """A NULL-terminated array of C strings."""
    data = [encode(t) for t in texts]
    return (c_char_p * (len(data) + 1))(*data, None)


_callback = threading.local()


@contextlib.contextmanager
def callback(sandbox: c_void_p) -> Iterator[None]:
    """Around what a thread of the library calls. No run ends before it
    returns, so it must not wait for its own."""
    _callback.sandbox = sandbox.value
    try:
        yield
    finally:
        _callback.sandbox = None


def is_callback(sandbox: Optional[c_void_p] = None) -> bool:
    """Whether this thread is in a callback, of ``sandbox`` or of any."""
    own = getattr(_callback, "sandbox", None)
    return own is not None and (sandbox is None or own == sandbox.value)


def state_error(message: str, step: str,
                number: int = errno.EBUSY) -> exc.SandboxError:
    return exc.SandboxError(message, errno=number, step=step, kind="state")
