"""A module of the Rust project that is not offered here."""
from . import _missing

raise _missing.name_of(__name__, "mcp")
