"""Several commands over one branch: all of it is published, or nothing."""
from __future__ import annotations

import os
from ctypes import byref, c_void_p
from dataclasses import dataclass, field
from typing import Any, List, Optional, Sequence, cast

from . import _ffi
from ._ffi import lib, state_error
from ._run import CAPTURE, INHERIT, launch_of, to_ms, to_result
from .exceptions import PolicyError, SandlockError
from .pipeline import Stage
from .result import Result

__all__ = ["Transaction", "TransactionResult"]


@dataclass
class TransactionResult:
    """What came of a transaction."""

    success: bool
    """Every stage succeeded, and what they wrote is published."""
    outcome: str
    """committed, empty (nothing was written), aborted (a stage has failed), or
    pending (it could not be committed)."""
    stages: List[Result] = field(default_factory=list)
    """Of those that were begun; ``changes`` are of all so far."""
    failed: Optional[int] = None
    """The index of the stage that failed."""
    name: Optional[str] = None
    """Of the branch."""
    error: Optional[str] = None
    exception: Optional[SandlockError] = field(default=None, repr=False)
    """Why it could not be committed."""


FIELDS_OF_STAGES = "run it by itself, with on_exit=BranchAction.DEFER"


class Transaction:
    """Stages that run one after the other over one branch.

        transaction = Transaction([
            sandbox.cmd(["./configure"]), sandbox.cmd(["make"])])
        transaction.run().success

    A stage sees what the ones before it wrote. All have the same workdir; what
    becomes of the branch is not theirs to say: a stage with DEFER, ABORT on
    exit or KEEP is a PolicyError, and none has run then.
    """

    def __init__(self, stages: Sequence[Stage] = ()) -> None:
        self._owner = os.getpid()
        self._is_begun = False
        self._n = 0
        self._pointer: Any = None
        self._has_roots = False
        pointer = c_void_p()
        _ffi.call("configure", lib.transaction_new, byref(_ffi.env),
                  byref(pointer))
        self._pointer = pointer
        for stage in stages:
            self.add(stage)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) and self._owner == os.getpid():
            lib.transaction_free(self._pointer)

    def add(self, stage: Stage) -> None:
        """One more stage; nothing is run."""
        sandbox = stage.sandbox
        if not sandbox.workdir:
            raise PolicyError("a stage works in a workdir", step="configure",
                              kind="usage")
        for name in ("policy_fn", "handlers"):
            if getattr(sandbox, name):
                raise PolicyError(f"a stage has no {name}", step="configure",
                                  kind="usage", hint=FIELDS_OF_STAGES)
        request = sandbox._request({}, bare=True)
        launch = launch_of(stage.args, INHERIT, CAPTURE, CAPTURE)
        _ffi.call("configure", lib.transaction_add, self._pointer,
                  request.pointer, byref(launch))
        self._has_roots = len(sandbox._workdirs()) > 1
        self._n += 1

    def run(self, timeout: Optional[float] = None) -> TransactionResult:
        """All of them, once, in ``timeout`` seconds."""
        if self._is_begun:
            raise state_error("a transaction runs once", "run")
        self._is_begun = True
        result = _ffi.TransactionResult()
        _ffi.call("run", lib.transaction_run, self._pointer, to_ms(timeout),
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
