"""The JSON object inside whatever a person saved: the file itself, jq's output, or a paste out of a terminal.

A kubelet writes bare JSON. What reaches us has been through editors, `jq`, tickets and documents, so a byte order
mark, colours, `#` and `//` remarks and the prompt lines around the object are looked past; `as_written` remembers that
a kubelet would not have done so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES, read_text
from numaware.twin.state.checksum import Stamp, fnv1a
from numaware.twin.state.golang import Unsigned

# A string, which may hold anything, or a remark to the end of its line.
_STRING_OR_REMARK = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?:#|//)[^\n]*')


# What is in a file, with its `stamp`.
Stamped = TypeVar("Stamped", bound=msgspec.Struct)


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
        return Document(fields_of(raw))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    try:
        return Document(fields_of(_cut_out(read_text(raw, source))), as_written=False)
    except (ValueError, RecursionError):
        raise InputError(source, f"not JSON: {problem}") from None


class Wrapper(msgspec.Struct):
    """What kubelets of 1.37 and later write around the content: the same once more as text, with its checksum."""

    data: str = ""
    datachecksum: Unsigned = 0

    def stamp(self, form: str) -> Stamp:
        """How the text's checksum turned out."""
        return Stamp(form, self.datachecksum, fnv1a(f"(string){self.data}"))


def parse(
    fields: Mapping[str, Any],
    source: str,
    file: str,
    read_fields: Callable[[Mapping[str, Any]], Stamped],
    wrapped: str = "",
) -> Stamped:
    """The content of one of the three files, its checksum not judged; `InputError` if it is not that file.

    Kubelets of 1.37 and later write a layout, `wrapped`, whose content is in a string with a checksum of its own. Only that
    counts; the fields around it are there for older kubelets.
    """
    try:
        if not wrapped or not fields.keys() & {"data", "datachecksum"}:
            return read_fields(fields)
        wrapper = msgspec.convert(fields, Wrapper)
        return msgspec.structs.replace(read_fields(fields_of(wrapper.data)), stamp=wrapper.stamp(wrapped))
    except (ValueError, RecursionError) as error:
        raise not_this(source, file, error) from None


def not_this(source: str, file: str, error: Exception) -> InputError:
    """What is wrong with a file whose fields are not those of `file`."""
    return InputError(source, f"not a {file}: {error}")


def fields_of(json_object: str | bytes) -> dict[str, Any]:
    """The object's fields, keyed in lower case; `ValueError` where it is none."""
    return {
        key.lower(): value for key, value in msgspec.json.decode(json_object, type=dict[str, Any]).items()
    }


def _cut_out(text: str) -> str:
    """The first object of the text, remarks removed and what stands before and after it left out."""
    text = _STRING_OR_REMARK.sub(lambda match: match[1] or "", text)
    start = text.index("{")
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[start:end]
