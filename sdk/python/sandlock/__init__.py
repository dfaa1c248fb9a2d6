"""sandlock: run a command in a sandbox on a copy-on-write branch, see what it
changed, then commit or abort.

    from sandlock import BranchAction, Sandbox

    sandbox = Sandbox(workdir="project", on_exit=BranchAction.DEFER)
    result = sandbox.run(["make"])
    if sandbox.pending and input(f"{result.changes}? ") == "y":
        sandbox.commit()
"""
from __future__ import annotations

from typing import Any

from . import _missing
from ._ffi import decode as _decode, lib as _lib
from ._features import features
from ._landlock import landlock_abi_version, min_landlock_abi
from ._profile import list_profiles, load_profile
from .branches import Branch, branches
from .denials import Denial, denials
from .exceptions import (
    BranchConflictError, BranchError, ChildError, ConfinementError, ForkError,
    LandlockUnavailableError, MemoryProtectError, NotOfferedError, NotifError,
    PolicyError, SandboxError, SandlockError, SeccompError,
)
from .handler import ExceptionPolicy, Handler, HandlerCtx, NotifAction
from .inputs import inputs
from .pipeline import Gather, GatherPipeline, NamedStage, Pipeline, Stage
from .policy import Approval, PolicyContext, PolicyFn, SyscallEvent
from .questions import Question, questions
from .result import Change, Entry, ExitReason, Result, renames
from .running import Why, explain, inspect, kill, state
from .sandbox import (
    BranchAction, Process, Protection, Sandbox, StdioMode, confine,
    parse_ports,
)
from .transaction import Transaction, TransactionResult

__version__ = _decode(_lib.version())

__all__ = [
    "Approval", "Branch", "BranchAction", "BranchConflictError", "BranchError",
    "Change", "ChildError", "ConfinementError", "Denial", "Entry",
    "ExceptionPolicy", "ExitReason", "ForkError", "Gather", "GatherPipeline",
    "Handler", "HandlerCtx", "LandlockUnavailableError", "MemoryProtectError",
    "NamedStage", "NotOfferedError", "NotifAction", "NotifError", "Pipeline",
    "PolicyContext", "PolicyError", "PolicyFn", "Process", "Protection",
    "Question", "Result", "Sandbox", "SandboxError", "SandlockError",
    "SeccompError", "Stage", "StdioMode", "SyscallEvent", "Transaction",
    "TransactionResult", "Why", "__version__", "branches", "confine",
    "denials", "explain", "features", "inputs", "inspect", "kill",
    "landlock_abi_version", "list_profiles", "load_profile",
    "min_landlock_abi", "parse_ports", "questions", "renames", "state",
]


def __getattr__(name: str) -> Any:
    raise _missing.name_of(__name__, name)
