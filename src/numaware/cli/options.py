"""How options are declared, so that a verb's signature reads as its list of options; and the option nearly every verb has."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def flag(text: str, name: str | None = None) -> Parameter:
    """A switch that is off unless it is given."""
    return Parameter(name=name, negative="", show_default=False, help=text)


def option(text: str) -> Parameter:
    """A value with a default, which its help shows."""
    return Parameter(help=text)


def optional(text: str) -> Parameter:
    """A value that may be left out; its help says what holds then."""
    return Parameter(show_default=False, help=text)


def known_as_flag(text: str, name: str, *, show_default: bool = True) -> Parameter:
    """A value that may also be given with one dash, as programs written in Go have it, for whoever comes from one of those."""
    return Parameter(name=(f"--{name}", f"-{name}"), show_default=show_default, help=text)


def repeatable(text: str, name: str | None = None, *, show_default: bool | None = None) -> Parameter:
    """A value that may be given several times."""
    return Parameter(name=name, negative="", show_default=show_default, help=text)


def dashed(text: str, name: str | None = None) -> Parameter:
    """A value that may begin with a dash, such as `-` for standard input."""
    return Parameter(name=name, allow_leading_hyphen=True, show_default=False, help=text)


AsJson = Annotated[bool, flag("Write JSON, for programs.", "--json")]
