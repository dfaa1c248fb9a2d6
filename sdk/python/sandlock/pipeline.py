"""Commands whose outputs are other commands' inputs, each in its sandbox.

    (a.cmd(["cat", "f"]) | b.cmd(["wc"])).run()
    (a.cmd([...]).as_("code") + b.cmd([...]).as_("data") | c.cmd([...])).run()
"""
from __future__ import annotations

import os
import time
from typing import (
    TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Set, Tuple, Union,
    cast,
)

from ._ffi import Text
from ._run import CAPTURE, INHERIT, Run, Stdio, check_command, use_fd
from .exceptions import SandlockError
from .inputs import VARIABLE
from .result import ExitReason, Result, failed

if TYPE_CHECKING:
    from .sandbox import Sandbox

__all__ = ["Gather", "GatherPipeline", "NamedStage", "Pipeline", "Stage"]


def _check_stage(stage: Any) -> None:
    if not isinstance(stage, Stage):
        raise TypeError(f"{stage!r} is no stage: sandbox.cmd([...]) is one")


class Stage:
    """A command and the sandbox that it will run in."""

    def __init__(self, sandbox: "Sandbox", args: Sequence[Text]) -> None:
        self.sandbox = sandbox
        self.args = check_command(args)

    def as_(self, name: str) -> "NamedStage":
        """A source of a gather."""
        return NamedStage(self, name)

    def run(self, timeout: Optional[float] = None) -> Result:
        return self.sandbox.run(self.args, timeout=timeout)

    def __or__(self, other: "Union[Stage, Pipeline]") -> "Pipeline":
        more = other.stages if isinstance(other, Pipeline) else [other]
        return Pipeline([self, *more])


class Pipeline:
    """Stages that run at once, each one's output the next one's input."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = list(stages)
        if len(self.stages) < 2:
            raise ValueError("a pipeline has at least 2 stages")
        for stage in self.stages:
            _check_stage(stage)

    def __or__(self, other: "Union[Stage, Pipeline]") -> "Pipeline":
        more = other.stages if isinstance(other, Pipeline) else [other]
        return Pipeline(self.stages + more)

    def run(self, stdout: Optional[int] = None,
            timeout: Optional[float] = None) -> Result:
        """The last stage's result, its output in it or on the fd ``stdout``.

        The first stage reads our standard input. After ``timeout`` seconds all
        are killed.
        """
        def add_all(group: _Group) -> None:
            source = INHERIT
            for stage in self.stages[:-1]:
                read_fd, write_fd = group.pipe()
                group.add(stage, source, use_fd(write_fd), INHERIT)
                source = use_fd(read_fd)
            group.add(self.stages[-1], source,
                      CAPTURE if stdout is None else use_fd(stdout), CAPTURE)

        return _run_all(add_all, timeout, "Pipeline timed out")


class NamedStage:
    """A stage whose output has a name: ``stage.as_("data")``."""

    def __init__(self, stage: Stage, name: str) -> None:
        _check_stage(stage)
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name of an input: it is a str")
        if not name or set(name) & set(",:\0"):
            raise ValueError(f"'{name}' is no name of an input")
        self.stage = stage
        self.name = name

    def __add__(self, other: "Union[NamedStage, Gather]") -> "Gather":
        return Gather([(self.name, self.stage)]) + other

    def __or__(self, consumer: Stage) -> "GatherPipeline":
        return Gather([(self.name, self.stage)]) | consumer


class Gather:
    """Named stages that one consumer will read."""

    def __init__(self, sources: Sequence[Tuple[str, Stage]]) -> None:
        self.sources = list(sources)
        names: Set[str] = set()
        for name, stage in self.sources:
            NamedStage(stage, name)
            if name in names:
                raise ValueError(f"there are two inputs '{name}'")
            names.add(name)

    def __add__(self, other: "Union[NamedStage, Gather]") -> "Gather":
        if isinstance(other, NamedStage):
            other = Gather([(other.name, other.stage)])
        if not isinstance(other, Gather):
            raise TypeError(f"{other!r} is no source: stage.as_(name) is one")
        return Gather(self.sources + other.sources)

    def __or__(self, other: Stage) -> "GatherPipeline":
        return GatherPipeline(self.sources, other)


class GatherPipeline:
    """Sources that run at once, and the consumer of their outputs, which it
    finds in :data:`sandlock.inputs`."""

    def __init__(self, sources: Sequence[Tuple[str, Stage]],
                 consumer: Stage) -> None:
        self.sources = Gather(sources).sources
        if not self.sources:
            raise ValueError("there is nothing to gather: it has no sources")
        _check_stage(consumer)
        self.consumer = consumer

    def run(self, timeout: Optional[float] = None) -> Result:
        """The consumer's result. The last source is its standard input, the
        others are its fds 3, 4 and so on."""
        def add_all(group: _Group) -> None:
            fds = []
            for _name, stage in self.sources:
                read_fd, write_fd = group.pipe()
                group.add(stage, INHERIT, use_fd(write_fd), INHERIT)
                fds.append(read_fd)
            numbers = [*range(3, 2 + len(fds)), 0]
            names = ",".join(f"{name}:{number}" for (name, _), number
                             in zip(self.sources, numbers))
            group.add(self.consumer, use_fd(fds[-1]), CAPTURE, CAPTURE,
                      fds[:-1], **{VARIABLE: names})

        return _run_all(add_all, timeout, "Gather timed out")


class _Group:
    """Runs that belong together: all are started, or none is left."""

    def __init__(self, timeout: Optional[float]) -> None:
        self.timeout = timeout
        self.runs: List[Run] = []
        self.fds: List[int] = []

    def pipe(self) -> Tuple[int, int]:
        fds = os.pipe2(os.O_CLOEXEC)
        self.fds += fds
        return fds

    def add(self, stage: Stage, stdin: Stdio, stdout: Stdio, stderr: Stdio,
            fds: Sequence[int] = (), **extra_env: str) -> None:
        run = stage.sandbox._new_run(extra_env)
        self.runs.append(run)
        run.create(stage.args, stdin, stdout, stderr, fds=fds)

    def run(self, timed_out: str) -> Result:
        """What the last one says. It is the one whose output we read, so the
        others end, or are killed, after it."""
        for run in self.runs:
            run.start()
        self._close_fds()
        deadline = (None if self.timeout is None
                    else time.monotonic() + self.timeout)
        result = self.runs[-1].wait(self.timeout)
        for run in self.runs[:-1]:
            left = (None if deadline is None
                    else max(0.0, deadline - time.monotonic()))
            if result is None or run.wait(left) is None:
                run.stop()
        if result is None:
            self.runs[-1].kill_quietly()
            result = cast(Result, self.runs[-1].wait())
            result.success, result.exit_code, result.signal = False, -1, -1
            result.reason, result.error = ExitReason.TIMEOUT, timed_out
        return result

    def _close_fds(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def close(self) -> None:
        self._close_fds()
        for run in self.runs:
            if run.is_running:
                run.stop()


def _run_all(add: Callable[[_Group], None], timeout: Optional[float],
             timed_out: str) -> Result:
    """As of one run, only what was asked for wrongly is raised."""
    group = _Group(timeout)
    try:
        add(group)
        return group.run(timed_out)
    except SandlockError as e:
        if e.step == "configure":
            raise
        return failed(e)
    finally:
        group.close()
