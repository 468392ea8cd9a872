"""How Go prints values: the two texts every state file rests on.

A kubelet writes its state as JSON (`encoding/json`) and guards it with a hash of another text, the `%#v` form of
go-spew with sorted keys. In that form a type stands before the value of a struct field, but not before an element
of a map or list; strings are bare, and `<nil>` is a list or map that was never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

NIL = "<nil>"

# Sizes and checksums are uint64 in the kubelet; a file with a negative one is refused.
Unsigned = Annotated[int, msgspec.Meta(ge=0)]

# encoding/json escapes these even inside strings, so that its output can be pasted into a web page.
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def json_text(value: object) -> str:
    """Compact JSON, map keys in byte order, as `json.Marshal` writes it (give maps text keys: Go sorts `10` before `2`)."""
    return msgspec.json.encode(value, order="deterministic").decode().translate(_ESCAPES)


def dump_list(items: Iterable[str]) -> str:
    """A list whose elements are already text."""
    return f"[{' '.join(items)}]"


def dump_map(items: Mapping[str, str] | Mapping[int, str]) -> str:
    """A map whose values are already text; number keys sort as numbers here, unlike in the JSON."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(items.items()))}]"
