"""The JSON object inside whatever a person saved: the file itself, jq's output, or a paste out of a terminal.

A kubelet writes bare JSON. What reaches us has been through editors, `jq`, tickets and documents, so a byte order
mark, colours, `#` and `//` remarks and the prompt lines around the object are looked past; `as_written` remembers that
a kubelet would not have done so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES, read_text
from numaware.twin.state.checksum import Stamp, fnv1a
from numaware.twin.state.golang import Unsigned

# A string, which may hold anything, or a remark to the end of its line.
_STRING_OR_REMARK = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?:#|//)[^\n]*')


class Document(msgspec.Struct, frozen=True):
    """The object's fields, keyed in lower case since Go matches field names without regard to case."""

    fields: dict[str, Any]
    as_written: bool = True


def read(data: str | bytes, source: str) -> Document:
    """Find the object; `InputError` says what a kubelet would trip over."""
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_TEXT_BYTES:
        raise InputError(source, f"larger than {MAX_TEXT_BYTES >> 20} MiB, which no kubelet state file is")
    if not raw.strip():
        raise InputError(source, "empty file: unexpected end of JSON input")
    try:
        return Document(_fields(raw))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    try:
        return Document(_fields(_cut_out(read_text(raw, source))), as_written=False)
    except (ValueError, RecursionError):
        raise InputError(source, f"not JSON: {problem}") from None


class _Wrapper(msgspec.Struct):
    data: str = ""
    datachecksum: Unsigned = 0


def is_wrapped(fields: Mapping[str, Any]) -> bool:
    """Kubelets of 1.37 and later put the content into a string with a checksum of its own."""
    return "data" in fields or "datachecksum" in fields


def unwrap(fields: Mapping[str, Any], form: str) -> tuple[dict[str, Any], Stamp]:
    """What counts in such a file: the fields inside the string, and the stamp of the string."""
    wrapper = msgspec.convert(fields, _Wrapper)
    stamp = Stamp(form, wrapper.datachecksum, fnv1a(f"(string){wrapper.data}"))
    return _fields(wrapper.data), stamp


def _fields(json_object: str | bytes) -> dict[str, Any]:
    return {
        key.lower(): value for key, value in msgspec.json.decode(json_object, type=dict[str, Any]).items()
    }


def _cut_out(text: str) -> str:
    """The first object of the text, remarks removed and what stands before and after it left out."""
    text = _STRING_OR_REMARK.sub(lambda match: match[1] or "", text)
    start = text.index("{")
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end]
