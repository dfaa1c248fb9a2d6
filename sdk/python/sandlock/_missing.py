"""Names of the Rust project's module that are not offered here, and what to do
instead. Asking for one is an error that says so; nothing is ignored."""
from __future__ import annotations

from typing import Any, Dict

from .exceptions import NotOfferedError

_CHECKPOINT = "start the command again; a branch keeps what it has written"
_IMAGE = ("unpack the image with another tool, and run it as a bundle: "
          "sandlock run -b DIR")
_HTTP = ("allow destinations with net_allow, and filter requests in a proxy "
         "outside of the sandbox")
_CPU = "start it under taskset(1) or systemd-run -p CPUQuota="
_DETERMINISM = "no replacement: this package does not fake time or chance"
_FORK = "run several Sandbox objects in threads"
_GPU = "make the device visible with fs_writable"

FIELDS: Dict[str, str] = {
    "http_allow": _HTTP, "http_deny": _HTTP, "http_ports": _HTTP,
    "http_ca": _HTTP, "http_key": _HTTP, "http_inject_ca": _HTTP,
    "http_ca_out": _HTTP,
    "max_cpu": _CPU, "cpu_cores": _CPU, "num_cpus": _CPU,
    "random_seed": _DETERMINISM, "time_start": _DETERMINISM,
    "no_randomize_memory": "start it under setarch -R",
    "no_huge_pages": _DETERMINISM, "deterministic_dirs": _DETERMINISM,
    "gpu_devices": _GPU, "image": _IMAGE,
    "notif_policy": "use fs_denied, net_allow and net_deny",
    "init_fn": _FORK, "work_fn": _FORK,
}

METHODS: Dict[str, str] = {
    "checkpoint": _CHECKPOINT, "restore_interactive": _CHECKPOINT,
    "restore_skipped": _CHECKPOINT, "fork": _FORK,
    "reduce": "pipe stages: sandbox.cmd(a) | sandbox.cmd(b)",
    "cpu_pct": _CPU, "memory_bytes": "read the cgroup of Sandbox.pid",
    "dry_run": "Sandbox(on_exit=BranchAction.ABORT, "
               "on_error=BranchAction.ABORT), run() and Result.changes",
}

_MCP = ("run each tool's command with Sandbox(workdir=..., "
        "on_exit=BranchAction.DEFER), as the server "
        "sdk/python/examples/mcp_approval.py does")

NAMES: Dict[str, str] = {
    "mcp": _MCP,
    "Checkpoint": _CHECKPOINT, "SkippedFd": _CHECKPOINT,
    "Image": _IMAGE, "ImageConfig": _IMAGE, "pull_image": _IMAGE,
    "DryRunResult": METHODS["dry_run"],
    "ForkResult": _FORK,
}


def check_fields(given: Dict[str, Any]) -> Dict[str, Any]:
    """What is left of them; one that asks for nothing is no error."""
    for name, value in given.items():
        if name in FIELDS and value not in (None, False, [], (), {}):
            raise NotOfferedError(f"Sandbox has no '{name}'", step="Sandbox",
                                  hint=FIELDS[name], kind="unsupported")
    return {name: value for name, value in given.items()
            if name not in FIELDS}


def method(name: str) -> AttributeError:
    if name in METHODS:
        return AttributeError(f"Sandbox has no '{name}' ({METHODS[name]})")
    return AttributeError(f"'Sandbox' object has no attribute '{name}'")


def name_of(module: str, name: str) -> Exception:
    """An ImportError for what is known, so that the sentence reaches whoever
    writes ``from sandlock import Checkpoint``."""
    if name in NAMES:
        return ImportError(f"sandlock has no '{name}' ({NAMES[name]})",
                           name=module)
    return AttributeError(f"module '{module}' has no attribute '{name}'")
