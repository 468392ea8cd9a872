#!/usr/bin/env python3
"""Writes `web/src/lib/types.ts`: what the API gives and takes, from its own OpenAPI document.

`make web` calls it, and with `--check`, which only looks whether the file is up to date, `make lint`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from numaware.serve.console.api.operations import openapi
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import operations_of
from numaware.serve.console.lab.world import LabWorld

PATH = Path(__file__).parents[1] / "web/src/lib/types.ts"
_HEAD = "// Made by scripts/page_types.py from the OpenAPI document (`make web`); changes here are lost.\n"
_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}


def made() -> str:
    """The text of the file, by the operations of this source."""
    return types(openapi(operations_of(Console(LabWorld(0), lambda: 0))))


def types(document: dict[str, Any]) -> str:
    """A declaration for every schema of the document."""
    schemas = document["components"]["schemas"]
    packed = {name for name, schema in schemas.items() if "prefixItems" in schema}
    text = "".join(
        f"\n{_comment(schema)}export {_declared(name, schema)}\n" for name, schema in sorted(schemas.items())
    )
    # Inside others what is packed stays packed: a wall has thousands of them.
    return _HEAD + re.sub(rf"(?<=[ (])({'|'.join(sorted(packed))})(?=\[\])", r"Packed\1", text)


def _comment(schema: dict[str, Any]) -> str:
    words = " ".join(schema.get("description", "").split())
    return f"/** {words} */\n" if words else ""


def _declared(name: str, schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        fields = {item["title"]: item for item in schema["prefixItems"]}
        names = ", ".join(fields)
        return (
            f"{_declared(name, {'type': 'object', 'properties': fields, 'required': fields})}\n"
            f"export type Packed{name} = {_written(schema)};\n"
            f"export const unpacked{name} = ([{names}]: Packed{name}): {name} => ({{ {names} }});"
        )
    if schema.get("type") != "object" or "properties" not in schema:
        return f"type {name} = {_written(schema)};"
    required = schema.get("required", ())
    lines = [
        # What has a default may be left out by whoever asks; the server always says it.
        f"  {field}{'' if field in required or 'default' in inner else '?'}: {_written(inner)};\n"
        for field, inner in schema["properties"].items()
    ]
    return f"interface {name} {{\n{''.join(lines)}}}"


def _written(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(map(_written, schema["anyOf"]))
    if "prefixItems" in schema:
        items = [(item.get("title"), _written(item)) for item in schema["prefixItems"]]
        return f"[{', '.join(f'{name}: {kind}' if name else kind for name, kind in items)}]"
    match schema.get("type"):
        case "array":
            inner = _written(schema["items"])
            return f"({inner})[]" if " " in inner else f"{inner}[]"
        case "object":
            values = schema.get("additionalProperties")
            return f"Record<string, {_written(values) if isinstance(values, dict) else 'unknown'}>"
        case kind:
            return _PLAIN.get(str(kind), "unknown")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PATH.read_text(encoding="utf-8") != made() and f"{PATH} is out of date: run make web")
    PATH.write_text(made(), encoding="utf-8")
