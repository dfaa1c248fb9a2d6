"""What the consumer of a gather reads: the outputs of its sources, by name.

    from sandlock import inputs
    code = inputs["code"]

``_SANDLOCK_GATHER`` says which file descriptor is whose: ``data:3,code:0``.
Each is read to its end when it is first asked for, and remembered.
"""
from __future__ import annotations

import os
from typing import Dict, KeysView

__all__ = ["inputs"]

VARIABLE = "_SANDLOCK_GATHER"


class _Inputs:
    def __init__(self) -> None:
        self._read: Dict[str, str] = {}

    def _fds(self) -> Dict[str, int]:
        fds = {}
        for pair in filter(None, os.environ.get(VARIABLE, "").split(",")):
            name, _, fd = pair.rpartition(":")
            fds[name] = int(fd)
        return fds

    def __getitem__(self, name: str) -> str:
        if name not in self._read:
            fds = self._fds()
            if name not in fds:
                raise KeyError(f"no input '{name}'; there are "
                               f"{', '.join(fds) or 'none'}")
            with os.fdopen(fds[name]) as file:
                self._read[name] = file.read()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fds()

    def keys(self) -> KeysView[str]:
        return self._fds().keys()

    def __repr__(self) -> str:
        return f"inputs({', '.join(self._fds())})"


inputs = _Inputs()
