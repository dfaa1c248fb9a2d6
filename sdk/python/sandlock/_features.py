"""What the C library can do."""
from __future__ import annotations

import json
from typing import Any, Dict

from . import _ffi
from ._ffi import lib

__all__ = ["features"]


def features() -> Dict[str, Any]:
    """The features object of the OCI runtime specification."""
    found: Dict[str, Any] = json.loads(
        _ffi.get_string("features", lib.features))
    return found
