"""How Go prints values: the two texts every state file rests on.

A kubelet writes its state as JSON (`encoding/json`) and guards it with a hash of another text, the `%#v` form of
go-spew with sorted keys. In that form a type stands before the value of a struct field, but not before an element
of a map or list; strings are bare, and `<nil>` is a list or map that was never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

import msgspec

from numaware.twin.state.checksum import fnv1a

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


class Wrapped(Protocol):
    """A file's content that can hold itself once more as text; until it does, its last three fields are unset."""

    pod_entries: Any
    checksum: int | msgspec.UnsetType
    data: str | msgspec.UnsetType
    data_checksum: int | msgspec.UnsetType


def wrap(content: Wrapped) -> str:
    """The layout since 1.37: what older kubelets read, then the same as text with a checksum of its own.

    What only newer kubelets know (`pod_entries`) is in the text alone.
    """
    checksum, content.checksum = content.checksum, msgspec.UNSET
    content.data = json_text(content)
    content.data_checksum = fnv1a(f"(string){content.data}")
    content.checksum, content.pod_entries = checksum, msgspec.UNSET
    return json_text(content)


def dump_list(items: Iterable[str]) -> str:
    """A list whose elements are already text."""
    return f"[{' '.join(items)}]"


def dump_map(items: Mapping[str, str] | Mapping[int, str]) -> str:
    """A map whose values are already text; number keys sort as numbers here, unlike in the JSON."""
    return f"map[{' '.join(f'{key}:{value}' for key, value in sorted(items.items()))}]"
