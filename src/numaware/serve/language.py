"""The language of an answer: whoever calls names it in Accept-Language."""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from numaware.diagnose.texts import Lang

_LONGEST = 200


def language_of(headers: Headers) -> Lang:
    """The language that the caller would rather read; English unless it asks for Chinese first."""
    wishes = []
    for wish in headers.get("accept-language", "")[:_LONGEST].split(","):
        name, _, weight = wish.partition(";")
        number = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*", weight)
        wishes.append((-(float(number[1]) if number else 1.0), name.strip().lower()))
    for less, name in sorted(wishes, key=lambda one: one[0]):
        if less < 0 and name.partition("-")[0] in ("en", "zh"):
            return "zh" if name.startswith("zh") else "en"
    return "en"
