"""A command in a sandbox, and the branch that it writes to."""
from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import errno
import functools
import os
import re
import threading
import warnings
import weakref
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import (
    Any, BinaryIO, Callable, Dict, List, Mapping, Optional, Sequence, Set,
    Tuple, Type, TypeVar, Union, cast,
)

from . import _ffi, _missing
from ._ffi import Text, state_error
from ._run import (
    CAPTURE, INHERIT, NULL, PIPE, Request, Run, check_command,
)
from .exceptions import (
    ConfinementError, PolicyError, SandboxError, SandlockError,
)
from .handler import Handlers
from .pipeline import Stage
from .policy import PolicyFn
from ._types import check_types
from .result import (
    Change, Entry, ExitReason, Result, failed, renames,
)

__all__ = ["BranchAction", "Change", "Entry", "Process", "Protection",
           "Sandbox", "StdioMode", "confine", "parse_ports", "renames"]


class BranchAction(Enum):
    """What becomes of the branch when the command has ended."""

    COMMIT = "commit"
    """What it wrote is published in the workdir."""
    ABORT = "abort"
    """It is discarded."""
    KEEP = "keep"
    """It stays in the store, for ``sandlock commit NAME`` and the like."""
    DEFER = "defer"
    """It is pending, for :meth:`Sandbox.commit` or :meth:`Sandbox.abort`."""


class StdioMode(IntEnum):
    """A standard stream of :meth:`Sandbox.popen`."""

    INHERIT = 0
    PIPED = 1
    NULL = 2


class Protection(IntEnum):
    """Parts of the confinement that a kernel may lack."""

    FS_REFER = 0
    FS_TRUNCATE = 1
    NET_TCP = 2
    FS_IOCTL_DEV = 3
    SIGNAL_SCOPE = 4
    ABSTRACT_UNIX_SOCKET_SCOPE = 5


_PROTECTIONS = ("fs-refer", "fs-truncate", "net-tcp", "fs-ioctl-dev",
                "signal-scope", "abstract-unix-scope")
_PORTS = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_Made = TypeVar("_Made")
_Kind = TypeVar("_Kind", bound=Enum)
_STDIO = {StdioMode.INHERIT: INHERIT, StdioMode.PIPED: PIPE,
          StdioMode.NULL: NULL}


def parse_ports(specs: Sequence[Union[int, str]]) -> List[int]:
    """Sorted port numbers of ``[80, "8000-8002", "22,443"]``; ValueError."""
    ports: Set[int] = set()
    for spec in specs:
        for part in str(spec).split(","):
            match = _PORTS.fullmatch(part.strip())
            if not match:
                raise ValueError(f"'{part}' is no port and no range of ports")
            low, high = int(match[1]), int(match[2] or match[1])
            if not low <= high <= 65535:
                raise ValueError(f"'{part}' is no range below 65536")
            ports.update(range(low, high + 1))
    return sorted(ports)


# Fields and keys of sandlock.toml(5) with the same value, or list of values.
KEYS = {
    "fs_readable": "filesystem.read", "fs_denied": "filesystem.deny",
    "extra_deny_syscalls": "syscalls.extra_deny",
    "extra_allow_syscalls": "syscalls.extra_allow",
    "net_allow": "network.allow", "net_deny": "network.deny",
    "net_allow_bind": "network.allow_bind",
    "net_deny_bind": "network.deny_bind",
    "no_coredump": "program.no_coredump",
    "max_memory": "limits.memory", "max_processes": "limits.processes",
    "max_open_files": "limits.open_files", "max_disk": "limits.disk",
    "timeout": "limits.timeout", "port_remap": "network.port_remap",
    "chroot": "filesystem.chroot",
    "clean_env": "program.clean_env", "cwd": "program.cwd",
    "fs_storage": "config.fs_storage", "name": "name",
    "control_socket": "program.control_socket",
    "no_supervisor": "program.no_supervisor",
    "isolation": "program.isolation",
    "explain": "program.explain", "bundle": "program.bundle",
    "ask_exec": "ask.exec",
    "ask_open": "ask.open", "ask_connect": "ask.connect", "ask_by": "ask.by",
    "ask_timeout": "ask.timeout", "ask_limit": "ask.limit",
}

def _values(value: Any) -> List[Text]:
    if value is True or value is False:
        return ["true" if value else "false"]
    if isinstance(value, (str, bytes, os.PathLike)):
        return [value]
    if isinstance(value, float):
        return [f"{max(1, int(value * 1000))}ms"]
    if isinstance(value, int):
        return [str(value)]
    return [v if isinstance(v, (str, bytes, os.PathLike)) else str(v)
            for v in value]


def _member(name: str, value: Any, kind: Type[_Kind]) -> _Kind:
    try:
        return kind(value)
    except ValueError:
        members = ", ".join(f"{kind.__name__}.{m.name}" for m in kind)
        raise ValueError(f"{name}: {value!r} is none of {members}") from None


def _check_name(name: Optional[str]) -> None:
    problem = None
    if name is not None and not name:
        problem = "must not be empty"
    elif name and "\0" in name:
        problem = "must not contain a NUL"
    if problem:
        raise PolicyError(f"a sandbox's name {problem}", errno=errno.EINVAL,
                          step="Sandbox", kind="usage")


def _variable(name: Any, value: Any) -> str:
    name, value = (str(x) if isinstance(x, int) else os.fsdecode(x)
                   for x in (name, value))
    if not name or "=" in name:
        raise PolicyError(f"env: '{name}' is no name of a variable",
                          errno=errno.EINVAL, step="configure", kind="usage")
    return f"{name}={value}"


def _is_inside(path: Text, directories: Sequence[str]) -> bool:
    real = os.path.realpath(os.fsdecode(path))
    return any(real == d or real.startswith(d.rstrip("/") + "/")
               for d in directories)


@dataclass
class Sandbox:
    """How a command is confined, and the run of one.

        sandbox = Sandbox(workdir="project", on_exit=BranchAction.DEFER)
        result = sandbox.run(["make"])
        if sandbox.pending:
            sandbox.commit()

    One command runs at a time; for several, make several objects. Every method
    may be called from any thread, and each call lets other threads run.

    Without ``fs_readable`` a command sees what ``sandlock run`` shows: the
    system's directories, and the workdir. Leaving ``with`` ends what runs; a
    pending branch is kept in the store, nothing is published.
    """

    fs_writable: Sequence[str] = field(default_factory=list)
    """What is written through at once; in the workdir the branch holds all."""
    fs_readable: Sequence[str] = field(default_factory=list)
    """What may be read, instead of the system's directories."""
    fs_denied: Sequence[str] = field(default_factory=list)
    """What is hidden."""
    extra_deny_syscalls: Sequence[str] = field(default_factory=list)
    """System calls, or groups of them, that fail with EPERM, too."""
    extra_allow_syscalls: Sequence[str] = field(default_factory=list)
    """Groups of system calls that are allowed after all."""
    net_allow: Sequence[str] = field(default_factory=list)
    """What may be connected to: ``"example.org:443"``, ``":53"``,
    ``"10.0.0.0/8:*"``, ``"udp://..."``; without any there is no network."""
    net_deny: Sequence[str] = field(default_factory=list)
    """What may not be; everything else may."""
    no_coredump: bool = False
    net_allow_bind: Sequence[Union[int, str]] = field(default_factory=list)
    """Ports that may be bound: ``8080``, ``"9000-9005"``."""
    net_deny_bind: Sequence[Union[int, str]] = field(default_factory=list)
    """Ports that may not be; all others may."""
    port_remap: bool = False
    """Ports that are bound are free ones of the host: :meth:`ports`."""
    max_memory: Union[str, int, None] = None
    """Bytes, or with K, M, G."""
    max_processes: Optional[int] = None
    max_open_files: Optional[int] = None
    chroot: Optional[str] = None
    """The command's root; to have it on a branch, make it the workdir, too."""
    fs_mount: Mapping[str, str] = field(default_factory=dict)
    """Path inside: path on the host."""
    fs_mount_ro: Mapping[str, str] = field(default_factory=dict)
    """The same, read-only."""
    clean_env: bool = False
    """Pass on only PATH, HOME, USER, TERM, LANG and the like."""
    env: Mapping[str, str] = field(default_factory=dict)
    uid: Optional[int] = None
    gid: Optional[int] = None
    workdir: Union[str, Sequence[str], None] = None
    """The directory that is worked in, on a branch; with ``chroot`` one in it,
    by either path."""
    cwd: Optional[str] = None
    """Where it starts; the workdir if there is one."""
    fs_storage: Optional[str] = None
    """Where the branch is kept."""
    max_disk: Union[str, int, None] = None
    """Bytes that the branch may take on disk, or with K, M, G. Beyond that all
    is killed: :attr:`Result.over_quota`."""
    on_exit: BranchAction = BranchAction.COMMIT
    """What becomes of the branch after success."""
    on_error: BranchAction = BranchAction.ABORT
    """What becomes of it after a failure, a signal or a timeout."""
    allow_degraded: Sequence[int] = field(default_factory=list)
    """Each :class:`Protection` that this kernel may lack."""
    disable: Sequence[int] = field(default_factory=list)
    """Each :class:`Protection` to do without."""
    name: Optional[str] = None
    """Of the sandbox and its branch; one is made up for each run if None."""
    policy_fn: Union[PolicyFn, Callable[..., Any], None] = None
    """Decides about system calls: ``fn(event, context)``, or
    :meth:`PolicyFn.deferred` for answers that come later."""
    handlers: Handlers = field(default_factory=list)
    """Pairs of a system call, by name or number, and the :class:`Handler` that
    answers it; several of one call are asked in this order."""
    handler_threads: Optional[int] = None
    """How many handlers run at once: 64."""
    handler_timeout: Optional[float] = None
    """Seconds that all handlers of a call have, then it is EIO: 30."""
    control_socket: bool = True
    """Whether ``sandlock ps`` and ``inspect`` can see and ask it."""
    timeout: Union[float, str, None] = None
    """Seconds, or with ms, s, m, h; what a call says has the last word."""
    ask_exec: Sequence[str] = field(default_factory=list)
    """Programs that somebody is asked about: :func:`sandlock.questions`."""
    ask_open: Sequence[str] = field(default_factory=list)
    """Files that somebody is asked about."""
    ask_connect: Sequence[str] = field(default_factory=list)
    """Destinations that somebody is asked about."""
    ask_by: Optional[str] = None
    """Who is asked: socket, never, or the path of a program."""
    ask_timeout: Union[float, str, None] = None
    """When what nobody has answered is denied."""
    ask_limit: Optional[int] = None
    """How many questions are open at once."""
    explain: bool = False
    """Put on record which files were out of reach: ``sandlock logs``."""
    no_supervisor: bool = False
    isolation: Optional[str] = None
    """What keeps it in, ``namespaces`` or ``notify``: what works here, if None."""
    """No process answers for it: no control socket, no rule that needs one."""
    bundle: Optional[str] = None
    """A directory with a config.json, which says what the command may do and
    whose root file system it sees, on a branch. ``[]`` is the program of
    config.json. Callbacks, handlers and ``ask_*`` work, but for the network."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._run: Optional[Run] = None
        self._is_starting = False
        self._process: Optional[weakref.ref[Process]] = None
        check_types(self.__dict__)
        _check_name(self.name)
        self._policy()
        # By their values, too.
        self.on_exit = _member("on_exit", self.on_exit, BranchAction)
        self.on_error = _member("on_error", self.on_error, BranchAction)

    def __getattr__(self, name: str) -> Any:
        raise _missing.method(name)

    # A copy has the settings, not the run.
    def __getstate__(self) -> Dict[str, Any]:
        return {f.name: self.__dict__[f.name]
                for f in dataclasses.fields(self)}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_exc: Any) -> None:
        with self._lock:
            run, self._run = self._run, None
        if run:
            run.stop()

    # ------------------------------------------------------------ requests

    def _workdirs(self) -> List[str]:
        """As the command sees them."""
        if self.workdir is None:
            return []
        root = self.chroot and os.path.realpath(self.chroot)
        paths = []
        for text in _values(self.workdir):
            path = os.fsdecode(text)
            real = os.path.realpath(path)
            if not root:
                paths.append(real)
            elif _is_inside(real, [root]):
                paths.append(real[len(root):] or "/")
            else:
                paths.append(path)
        return paths

    def _user(self) -> Optional[str]:
        if self.uid is None and self.gid is None:
            return None
        if self.uid is None or self.gid is None:
            raise PolicyError("uid and gid go together", errno=errno.EINVAL,
                              step="configure", kind="usage")
        return f"{self.uid}:{self.gid}"

    def _request(self, extra_env: Mapping[str, str], bare: bool = False,
                 name: Optional[str] = None) -> Request:
        """With @bare, without what this class says where nothing was said."""
        # They may have been set after this object was made.
        check_types(self.__dict__)
        request = Request()
        own_name = self.name if name is None else name
        for member, key in KEYS.items():
            value = own_name if member == "name" else getattr(self, member)
            if value is None or (bare and value == getattr(_PLAIN, member)):
                continue
            for text in _values(value):
                request.set(key, text, member)
        workdirs = self._workdirs()
        if not workdirs and not bare and self.bundle is None:
            request.set("config.branch", "false", "workdir")
        for path in workdirs:
            request.set("config.workdir", path, "workdir")
        for text in _values(self.fs_writable or ()):
            # A rule for what a branch covers must not go past the branch.
            if not _is_inside(text, workdirs):
                request.set("filesystem.write", text, "fs_writable")
        self._set_mounts(request)
        for name, value in {**(self.env or {}), **extra_env}.items():
            request.set("program.env", _variable(name, value), "env")
        user = self._user()
        if user:
            request.set("program.user", user, "uid")
        for name in ("allow_degraded", "disable"):
            for number in getattr(self, name) or ():
                which = _member(name, number, Protection)
                request.set(name, _PROTECTIONS[which], name)
        for name in ("on_exit", "on_error"):
            action = _member(name, getattr(self, name), BranchAction)
            if bare and action is getattr(_PLAIN, name):
                continue
            request.set("filesystem." + name, action.value, name)
        return request

    def _set_mounts(self, request: Request) -> None:
        mounts = {os.fsdecode(k): os.fsdecode(v)
                  for k, v in (self.fs_mount or {}).items()}
        read_only = {os.fsdecode(k): os.fsdecode(v)
                     for k, v in (self.fs_mount_ro or {}).items()}
        for inside in (*mounts, *read_only):
            if ":" in inside:
                raise PolicyError(f"'{inside}' cannot be mounted on: it has a "
                                  "':'", errno=errno.EINVAL, step="configure",
                                  kind="usage")
            if inside in mounts and inside in read_only:
                raise PolicyError(f"'{inside}' is mounted more than once",
                                  errno=errno.EINVAL, step="configure",
                                  kind="usage")
        for inside, host in mounts.items():
            request.set("filesystem.mount", f"{inside}:{host}:rw", "fs_mount")
        for inside, host in read_only.items():
            request.set("filesystem.mount", f"{inside}:{host}:ro",
                        "fs_mount_ro")

    def _new_run(self, extra_env: Mapping[str, str] = MappingProxyType({}),
                 given: "Optional[_Given]" = None) -> Run:
        given = given or _Given()
        run = Run(self._request(extra_env, name=given.name),
                  len(self._workdirs()) > 1)
        policy = self._policy()
        if policy is not None:
            run.set_policy(policy)
        handlers = [*(self.handlers or ()), *given.handlers]
        if handlers:
            run.set_handlers(handlers, self.handler_threads,
                             self.handler_timeout, given.loop)
        return run

    def _policy(self) -> Optional[PolicyFn]:
        if self.policy_fn is None or isinstance(self.policy_fn, PolicyFn):
            return self.policy_fn
        return PolicyFn(self.policy_fn)

    # ---------------------------------------------------------- life cycle

    def _check_idle(self, step: str) -> None:
        """With the lock held."""
        if self._is_starting or (self._run and self._run.is_running):
            raise state_error("sandbox is already running", step)
        if self._run and self._run.pending:
            raise state_error("sandbox has a pending branch: commit() or "
                              "abort() it first", step)

    def _launch(self, make: Callable[[Run], _Made], cmd: Sequence[Text],
                given: "Optional[_Given]" = None) -> "Tuple[Run, _Made]":
        """Makes the run that this object has from now on, by ``make``."""
        check_command(cmd, self.bundle is not None)
        with self._lock:
            self._check_idle("create")
            self._is_starting = True
            self._process = None
            previous, self._run = self._run, None
        try:
            del previous  # frees it, which may take a moment
            # Somebody may have to approve the start: kill() works meanwhile.
            self._run = run = self._new_run(given=given)
            return run, make(run)
        except BaseException:
            self._run = None
            raise
        finally:
            self._is_starting = False

    def _current(self, step: str) -> Run:
        run = self._run
        if not run or not run.is_running:
            raise state_error("sandbox is not running", step)
        process = self._process and self._process()
        if process:
            raise state_error("it was started by popen(): use the Process",
                              step)
        return run

    def run(self, cmd: Sequence[Text],
            timeout: Optional[float] = None) -> Result:
        """Runs the command to its end.

        It is killed after ``timeout`` seconds. What the command does, and that
        it cannot be started, is in the result; what was asked for wrongly is
        raised (:class:`PolicyError`), as is a run while another one is running
        or pending.
        """
        return self._run_to_end(cmd, timeout, _Given())

    def run_with_handlers(self, cmd: Sequence[Text], handlers: Handlers,
                          name: Optional[str] = None,
                          timeout: Optional[float] = None) -> Result:
        """:meth:`run` with handlers besides those of ``handlers``, and with a
        name of its own."""
        return self._run_to_end(cmd, timeout, _Given(handlers, name))

    def _run_to_end(self, cmd: Sequence[Text], timeout: Optional[float],
                    given: "_Given") -> Result:
        def make(run: Run) -> None:
            given.told.append(run)
            run.spawn(cmd, INHERIT, CAPTURE, CAPTURE, timeout)

        try:
            return self._finish(self._launch(make, cmd, given)[0])
        except SandlockError as e:
            if e.step == "configure" or e.kind == "state":
                raise
            return failed(e)

    def _finish(self, run: Run) -> Result:
        """Waits; an exception of ours, as Ctrl-C, ends it."""
        try:
            return cast(Result, run.wait())
        except BaseException:
            run.stop()
            raise

    async def arun(self, cmd: Sequence[Text],
                   timeout: Optional[float] = None) -> Result:
        """:meth:`run` for asyncio. Cancelling it kills the command."""
        loop = asyncio.get_running_loop()
        given = _Given(loop=loop)
        future = loop.run_in_executor(
            None, self._run_to_end, cmd, timeout, given)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                if given.told:
                    given.told[0].kill_quietly()
                await asyncio.wait([future], timeout=0.05)
            future.exception()  # nobody else asks for it
            raise

    def create(self, cmd: Sequence[Text]) -> None:
        """Makes everything; the command waits for :meth:`start`."""
        self._launch(lambda run: run.create(cmd, INHERIT, CAPTURE, CAPTURE),
                     cmd)

    def start(self) -> None:
        """Lets the command run that :meth:`create` has made ready."""
        if not self.is_running:
            raise state_error("sandbox has not been created, or has ended",
                              "start")
        run = self._current("start")
        if run.state != _ffi.STATE_CREATED:
            raise state_error("sandbox has been started already", "start")
        try:
            run.start()
        except SandlockError:
            run.stop()
            raise

    def spawn(self, cmd: Sequence[Text]) -> None:
        """:meth:`create` and :meth:`start`."""
        self._launch(lambda run: run.spawn(cmd, INHERIT, CAPTURE, CAPTURE),
                     cmd)

    def wait(self) -> Result:
        """The end of what :meth:`spawn` or :meth:`start` has started."""
        return cast(Result, self._current("wait").wait())

    def popen(self, cmd: Sequence[Text], stdin: StdioMode = StdioMode.INHERIT,
              stdout: StdioMode = StdioMode.INHERIT,
              stderr: StdioMode = StdioMode.INHERIT) -> "Process":
        """Starts it with its streams as pipes, to talk to it while it runs."""
        modes = (_STDIO[StdioMode(stdin)], _STDIO[StdioMode(stdout)],
                 _STDIO[StdioMode(stderr)])
        run, fds = self._launch(lambda run: run.spawn(cmd, *modes), cmd)
        process = Process(run, fds)
        self._process = weakref.ref(process)
        return process

    def run_interactive(self, cmd: Sequence[Text]) -> int:
        """With our own streams; the exit status, -1 after a signal."""
        run, _ = self._launch(
            lambda run: run.spawn(cmd, INHERIT, INHERIT, INHERIT), cmd)
        return self._finish(run).exit_code

    def cmd(self, args: Sequence[Text]) -> Stage:
        """A stage of a pipeline: ``a.cmd([...]) | b.cmd([...])``."""
        return Stage(self, args)

    def kill(self) -> None:
        """Ends all of it. From any thread, also of what another one runs."""
        run = self._run
        if not run or not run.is_running:
            raise state_error("sandbox is not running", "kill")
        run.kill()

    def pause(self) -> None:
        """Stops all of it until :meth:`resume`."""
        self._current("pause").pause()

    def resume(self) -> None:
        self._current("resume").resume()

    def ports(self) -> Dict[Union[int, str], int]:
        """Port inside: port on the host; ``"53/udp"`` for one of udp. Empty
        unless it runs with ``port_remap``."""
        run = self._run
        return _ports(run) if run and run.is_running else {}

    @property
    def pid(self) -> Optional[int]:
        """Of the command while it runs."""
        run = self._run
        return run.pid if run else None

    @property
    def is_running(self) -> bool:
        run = self._run
        return self._is_starting or bool(run and run.is_running)

    # -------------------------------------------------------------- branch

    @property
    def pending(self) -> bool:
        """A run with DEFER has ended, and nobody has decided yet."""
        run = self._run
        return bool(run and run.pending)

    @property
    def upper_dir(self) -> Optional[str]:
        """Where the changed files are, laid out as the workdir; ``None``
        unless pending. What was deleted is a character device 0:0. With
        several workdirs it is :meth:`upper_dir_of` each of them."""
        run = self._run
        return run.upper_dir if run else None

    def upper_dir_of(self, root: str) -> Optional[str]:
        """The same of one workdir, the ``root`` of a :class:`Change`."""
        run = self._run
        return run.upper_dir_of(root) if run and run.pending else None

    def _decide(self, step: str, do: Callable[[Run], None]) -> None:
        run = self._run
        if not run or not run.pending:
            raise state_error("there is no pending branch: only a DEFER run "
                              "that has ended has one", step)
        do(run)

    def commit(self, *, conflicts: str = "force") -> None:
        """Publishes the pending branch in the workdir.

        What changed there meanwhile is overwritten; ``conflicts="refuse"``
        raises :class:`BranchConflictError` then, ``"skip"`` leaves those paths
        out. Where somebody else holds the workdir's lock for 5 s it is a
        :class:`BranchError`, and the branch is pending still.
        """
        self._decide("commit", lambda run: run.commit(conflicts))

    def abort(self) -> None:
        """Discards the pending branch."""
        self._decide("abort", Run.abort)


@dataclass
class _Given:
    """What one run has besides what the sandbox says."""

    handlers: Handlers = ()
    name: Optional[str] = None
    loop: Optional[asyncio.AbstractEventLoop] = None
    """Where coroutines of handlers run, if not in a loop of their own."""
    told: List[Run] = field(default_factory=list)
    """The run, as soon as it can be killed."""


def _ports(run: Run) -> Dict[Union[int, str], int]:
    return {int(port) if port.isdigit() else port: real
            for port, real in run.ports().items()}


_init = Sandbox.__init__


@functools.wraps(_init)
def _checked_init(self: Sandbox, *args: Any, **kwargs: Any) -> None:
    _init(self, *args, **_missing.check_fields(kwargs))


setattr(Sandbox, "__init__", _checked_init)
_PLAIN = Sandbox()


def confine(policy: Sandbox) -> None:
    """Confines the calling thread, and what it makes from now on, for good.

    No sandbox, no branch: files by Landlock, system calls by a filter, no
    sockets but unix ones. ``fs_readable``, ``fs_writable``, the lists of system
    calls, ``allow_degraded`` and ``disable`` mean something here; another
    field that is set is a :class:`ConfinementError`, and nothing was done.
    """
    # A rule is for a file, not for a link to it.
    for name, is_set in (("policy_fn", policy.policy_fn is not None),
                         ("handlers", bool(policy.handlers))):
        if is_set:
            raise ConfinementError(f"'{name}' needs a sandbox",
                                   errno=errno.ENOTSUP, step="confine",
                                   kind="unsupported")
    real: Dict[str, Any] = {
        name: [os.path.realpath(p) for p in getattr(policy, name)]
        for name in ("fs_readable", "fs_writable")}
    request = dataclasses.replace(policy, **real)._request({}, bare=True)
    _ffi.call("confine", _ffi.lib.confine, ctypes.byref(_ffi.env),
              request.pointer)


class Process:
    """A command that runs with pipes, from :meth:`Sandbox.popen`.

        with sandbox.popen(["cat"], stdin=StdioMode.PIPED,
                           stdout=StdioMode.PIPED) as process:
            process.stdin.write(b"hello")
            process.stdin.close()
            text = process.stdout.read()

    ``stdin``, ``stdout`` and ``stderr`` are unbuffered files for streams that
    are PIPED, else ``None``. Leaving ``with`` ends what still runs.
    """

    def __init__(self, run: Run, fds: Sequence[int]) -> None:
        self._run = run
        self._result: Optional[Result] = None
        files = [open(fd, mode, buffering=0) if fd >= 0 else None
                 for fd, mode in zip(fds, ("wb", "rb", "rb"))]
        self.stdin, self.stdout, self.stderr = cast(
            "List[Optional[BinaryIO]]", files)

    @property
    def pid(self) -> Optional[int]:
        return self._run.pid

    def ports(self) -> Dict[Union[int, str], int]:
        return _ports(self._run) if self._run.is_running else {}

    def kill(self) -> None:
        """Ends all of it; nothing if it has ended."""
        try:
            self._run.kill()
        except SandboxError as e:
            if e.kind != "state":
                raise

    def wait(self, timeout: Optional[float] = None) -> Result:
        """The end; it is killed after ``timeout`` seconds.

        Closes ``stdin`` first. The output is not in the result, it comes
        through the pipes: read them before, or a command that fills one never
        ends.
        """
        if self._result is None:
            if self.stdin:
                _close(self.stdin)
            result = self._run.wait(timeout)
            if result is None:
                self.kill()
                result = cast(Result, self._run.wait())
                result.reason, result.success = ExitReason.TIMEOUT, False
                result.exit_code, result.signal = -1, -1
            self._result = result
        return self._result

    def close(self) -> None:
        """Ends it if it runs, and closes the pipes."""
        self._run.stop()
        for file in (self.stdin, self.stdout, self.stderr):
            if file:
                _close(file)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run and run.is_running:
            warnings.warn("a Process was neither waited for nor closed: it is "
                          "ended now", ResourceWarning, stacklevel=2,
                          source=self)
            self.close()


def _close(file: BinaryIO) -> None:
    """What nobody reads any more is no error."""
    try:
        file.close()
    except OSError:
        pass
