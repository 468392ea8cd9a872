"""Sentences with holes, for any language.

`{name}` is a fact, `{name:spec}` a fact told in a language's own way (`{nodes:nodes}` gives "NUMA nodes 0 and 1" or
"NUMA 节点 0、1"). What stands between `[[` and `]]` is left out when one of its facts is not known, so one sentence
serves evidence that is rich and evidence that is poor. Braces meant as such are doubled, as in `str.format`.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

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


class Each(NamedTuple):
    """How a language lists things: the template of one, by its facts, and what stands between them and before the last.

    Where there are several templates the fact `state` chooses. Facts that are empty count as not known.
    """

    template: str | Mapping[str, str]
    between: str
    last: str = ""


Specs = Mapping[str, Callable[[Any], str] | Each]


def listed(parts: Sequence[str], between: str, last: str = "") -> str:
    """The parts as one text."""
    if len(parts) < 2 or not last:
        return between.join(parts)
    return f"{between.join(parts[:-1])}{last}{parts[-1]}"


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
        told = self.specs[format_spec]
        if not isinstance(told, Each):
            return told(value)
        parts = []
        for one in value:
            template = told.template if isinstance(told.template, str) else told.template[one["state"]]
            facts = {name: fact for name, fact in one.items() if fact not in (None, "")}
            parts.append(fill(template, facts, self.specs))
        return listed(parts, told.between, told.last)


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
