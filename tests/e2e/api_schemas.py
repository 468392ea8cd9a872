"""What a real API server says about its kinds, as JSON schemas for kubeconform, which would fetch such from elsewhere.

Fields that no schema names are mistakes, so every object with named fields is closed. Kinds of CustomResourceDefinitions are there
like all others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.control_plane import ControlPlane

# How kubeconform is told where they lie.
LOCATION = "{{.ResourceKind}}-{{.Group}}-{{.ResourceAPIVersion}}.json"


def write(plane: ControlPlane, folder: Path) -> int:
    """One file for each kind; how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    found = 0
    documents = json.loads(plane.kubectl("get", "--raw", "/openapi/v3"))["paths"].values()
    for document in documents:
        told = json.loads(plane.kubectl("get", "--raw", document["serverRelativeURL"]))
        schemas = _closed(told.get("components", {}).get("schemas", {}))
        for name, schema in schemas.items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
                # kubeconform calls the core group by its version.
                group = kind["group"] or kind["version"]
                path = folder / f"{kind['kind'].lower()}-{group}-{kind['version']}.json"
                path.write_text(json.dumps(whole), encoding="utf-8")
                found += 1
    return found


def _closed(schema: Any) -> Any:
    """The same with no room for fields that nobody knows, at any depth."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(one) for name, one in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        open_ = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
        return closed if open_ else {**closed, "additionalProperties": False}
    return closed
