"""Where the code of a peer panics: a refusal here, but never mistaken for an answer of that code."""

from __future__ import annotations


class CrashError(Exception):
    """The peer's own code would have panicked at this point."""
