"""Sentences with holes, for any language.

`{name}` is a fact, `{name:spec}` a fact told in a language's own way (`{nodes:nodes}` gives "NUMA nodes 0 and 1" or
"NUMA 节点 0、1"). What stands between `[[` and `]]` is left out when one of its facts is not known, so one sentence
serves evidence that is rich and evidence that is poor. Braces meant as such are doubled, as in `str.format`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Specs = Mapping[str, Callable[[Any], str]]

_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


class Text(NamedTuple):
    """The templates of one code: a headline, the cause in plain words, and what to do, best first.

    A fix that needs a fact the finding lacks is not shown.
    """

    title: str
    cause: str
    fix: tuple[str, ...] = ()


def text(title: str, cause: str, *fix: str) -> Text:
    """One row of a language's table."""
    return Text(title, cause, fix)


class MissingFactError(LookupError):
    """A sentence needs a fact that the finding does not have."""


class _Filler(string.Formatter):
    def __init__(self, specs: Specs) -> None:
        self.specs = specs

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:  # noqa: ARG002 - the signature of Formatter
        try:
            return kwargs[field_name], field_name
        except KeyError:
            raise MissingFactError(field_name) from None

    def format_field(self, value: Any, format_spec: str) -> str:
        return self.specs[format_spec](value)


def fill(template: str, facts: Mapping[str, Any], specs: Specs) -> str:
    """The sentence; `MissingFactError` if it cannot do without a fact that is not there."""
    filler = _Filler(specs)

    def optional(match: re.Match[str]) -> str:
        try:
            # Doubled braces survive until the whole is filled.
            return _escaped(filler.vformat(match[1], (), facts))
        except MissingFactError:
            return ""

    return filler.vformat(_OPTIONAL.sub(optional, template), (), facts)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
