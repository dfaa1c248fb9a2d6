"""Several commands over one branch: all of it is published, or nothing."""
from __future__ import annotations

import os
import threading
from ctypes import byref, c_void_p
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, cast

from . import _ffi
from ._ffi import lib, state_error
from ._run import (
    CAPTURE, INHERIT, install_handlers, launch_of, to_ms, to_result,
)
from .exceptions import PolicyError, SandlockError
from .handler import Installed
from .pipeline import Stage
from .result import Result

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["Transaction", "TransactionResult"]


@dataclass
class TransactionResult:
    """What came of a transaction."""

    success: bool
    """Every stage succeeded, and what they wrote is published."""
    outcome: str
    """committed, empty (nothing was written), aborted (a stage has failed), or
    pending (it could not be committed; or, with savepoints, it has stopped at
    a stage that has failed, or was kept)."""
    stages: List[Result] = field(default_factory=list)
    """Of those that were begun; ``changes`` are of all so far."""
    failed: Optional[int] = None
    """The index of the stage that failed."""
    name: Optional[str] = None
    """Of the branch."""
    error: Optional[str] = None
    exception: Optional[SandlockError] = field(default=None, repr=False)
    """Why it could not be committed."""


_COMMIT, _ABORT, _KEEP = range(3)


def _free(pointer: c_void_p, _policies: Any,
          handlers: List[Installed]) -> None:
    """Callbacks live until the last of them has returned."""
    lib.transaction_free(pointer)
    for installed in handlers:
        installed.close()


class Transaction:
    """Stages that run one after the other over one branch.

        transaction = Transaction([
            sandbox.cmd(["./configure"]), sandbox.cmd(["make"])])
        transaction.run().success

    A stage sees what the ones before it wrote. All have the same workdir; what
    becomes of the branch is not theirs to say: a stage with DEFER, ABORT on
    exit or KEEP is a PolicyError, and none has run then.

    With ``savepoints`` a stage that fails stops the transaction:

        transaction = Transaction(stages, savepoints=True)
        while not transaction.run().success:
            mend()                      # run() undoes it, and runs it again

    Or ``rollback(n)`` goes back further, and ``commit()``, ``keep()`` and
    ``abort()`` end it with what the stages before that one wrote. If nobody
    says, the branch waits.
    """

    def __init__(self, stages: Sequence[Stage] = (),
                 savepoints: bool = False) -> None:
        self._owner = os.getpid()
        self._is_begun = False
        self._savepoints = savepoints
        self._policies: List[Any] = []
        self._handlers: List[Installed] = []
        self._n = 0
        self._pointer: Any = None
        self._has_roots = False
        pointer = c_void_p()
        _ffi.call("configure", lib.transaction_new, byref(_ffi.env),
                  byref(pointer))
        self._pointer = pointer
        if savepoints:
            _ffi.call("configure", lib.transaction_set_savepoints, pointer)
        for stage in stages:
            self.add(stage)

    def __del__(self) -> None:
        if not getattr(self, "_pointer", None) or self._owner != os.getpid():
            return
        if not _ffi.is_callback():
            _free(self._pointer, self._policies, self._handlers)
            return
        # It waits for the callback that we are in.
        try:
            threading.Thread(target=_free, name="sandlock-free",
                             args=(self._pointer, self._policies,
                                   self._handlers)).start()
        except RuntimeError:
            pass  # the interpreter ends, and with it what runs

    def add(self, stage: Stage) -> None:
        """One more stage; nothing is run."""
        sandbox = stage.sandbox
        if not sandbox.workdir and not sandbox.bundle:
            raise PolicyError("a stage works in a workdir, or is a bundle",
                              step="configure", kind="usage")
        request = sandbox._request({}, bare=True)
        launch = launch_of(stage.args, INHERIT, CAPTURE, CAPTURE)
        _ffi.call("configure", lib.transaction_add, self._pointer,
                  request.pointer, byref(launch))
        self._has_roots = len(sandbox._workdirs()) > 1
        self._set_callbacks(sandbox)
        self._n += 1

    def _set_callbacks(self, sandbox: Sandbox) -> None:
        pointer = c_void_p(lib.transaction_stage(self._pointer, self._n))
        policy = sandbox._policy()
        if policy:
            self._policies.append(policy.install(pointer))
        if sandbox.handlers:
            self._handlers.append(install_handlers(
                pointer, [*sandbox.handlers], sandbox.handler_threads,
                sandbox.handler_timeout, None))

    def run(self, timeout: Optional[float] = None) -> TransactionResult:
        """All of them, in ``timeout`` seconds; once, but with savepoints, from
        the stage on that has failed or was gone back to."""
        if self._is_begun and not self._savepoints:
            raise state_error("a transaction runs once", "run")
        self._is_begun = True
        result = _ffi.TransactionResult()
        _ffi.call("run", lib.transaction_run, self._pointer, to_ms(timeout),
                  byref(result))
        return self._to_result(result)

    def rollback(self, stages: int) -> None:
        """Back to the state after the first ``stages``, of which each has
        succeeded; 0: to the beginning."""
        _ffi.call("rollback", lib.transaction_rollback, self._pointer, stages)

    def commit(self) -> TransactionResult:
        """Publishes what the stages that have succeeded wrote, and ends it."""
        return self._end(_COMMIT)

    def abort(self) -> TransactionResult:
        """Discards all, and ends it."""
        return self._end(_ABORT)

    def keep(self) -> TransactionResult:
        """Leaves what the stages that have succeeded wrote in the store, to be
        committed or aborted by name, and ends it."""
        return self._end(_KEEP)

    def _end(self, what: int) -> TransactionResult:
        result = _ffi.TransactionResult()
        _ffi.call("end", lib.transaction_end, self._pointer, what,
                  byref(result))
        return self._to_result(result)

    def kill(self) -> None:
        """Ends the stage that runs, and begins no other one. From any
        thread."""
        lib.transaction_kill(self._pointer)

    def _to_result(self, r: _ffi.TransactionResult) -> TransactionResult:
        outcome = _ffi.OUTCOMES[r.outcome]
        stages = [to_result(report.contents, self._has_roots) for report in
                  (lib.transaction_report(self._pointer, i)
                   for i in range(r.n_run)) if report]
        error = (_ffi.to_exception(cast(_ffi.Error, r.outcome_error), "commit")
                 if r.outcome_error.kind else None)
        return TransactionResult(
            success=outcome in ("committed", "empty"), outcome=outcome,
            stages=stages, failed=r.failed if r.failed < r.n_run else None,
            name=_ffi.decode(r.name), exception=error,
            error=str(error) if error else None)
