"""The templates of one code in one language."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """The templates of one code: a headline, the cause in plain words, and what to do, best first.

    A fix that needs a fact the finding lacks is not shown.
    """

    title: str
    cause: str
    fix: tuple[str, ...] = ()
