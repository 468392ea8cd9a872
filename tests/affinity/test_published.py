"""What an agent publishes of talk is read back as it was, fits the schema that is shipped, and is not taken on trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml

from numaware.affinity import published, report
from numaware.affinity.plan import Code
from numaware.affinity.report import EdgeReport, Mode, Move, NodeReport, PodReport
from numaware.kube.decoding import DecodeError, OwnerReference
from numaware.kube.resources import NODE_TRAFFICS

DEFINITION = Path(__file__).parents[2] / "deploy/crd/nodetraffics.yaml"
TOLD = NodeReport(
    node="n1",
    mode="nri",
    moving=True,
    at=1000,
    numa=(0, 1),
    between=((5, 9), (9, 0)),
    pods=(PodReport("shop", "web-0", (), 0, "move", 1, 7), PodReport("shop", "db-0", (1,), 0, "pinned")),
    edges=(EdgeReport(0, 1, 14, 9, 0),),
    moves=(Move("u", "shop", "web-0", 990, 1, 7), Move("v", "shop", "old", 900, 0, 8, 6, 4, 0, 1)),
    total=14,
    across=9,
    planned=0,
    talking=2,
    silent=3,
    troubles=("traffic: lost",),
)


def schema() -> Any:
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    assert definition["metadata"]["name"] == f"{NODE_TRAFFICS.plural}.{NODE_TRAFFICS.group}"
    assert version["name"] == NODE_TRAFFICS.version
    return version["schema"]["openAPIV3Schema"]["properties"][published.FIELD]


def wire(**changes: Any) -> bytes:
    body = published.encode(TOLD)
    body[published.FIELD] |= changes
    return msgspec.json.encode(body)


def test_what_is_written_is_read_and_goes_with_its_node() -> None:
    body = published.encode(TOLD, OwnerReference("Node", "n1", "uid-1", "v1"))
    assert body["metadata"]["name"] == "n1"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert published.decode(msgspec.json.encode(body)) == TOLD


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (wire(node="n2"), "another node"),
        (wire(edges=[{"one": 0, "other": 2, "rate": 1, "across": 0, "planned": 0}]), "does not name"),
        (wire(pods="many"), "report.pods"),
        (b"{}", "metadata"),
    ],
)
def test_what_makes_no_sense_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        published.decode(raw)


def holes(shape: Any, value: Any, place: str = "") -> list[str]:
    """Where a value has something that its schema does not, or lacks something that it wants."""
    if isinstance(value, dict):
        wrong = [f"{place}.{key}" for key in value.keys() ^ shape["properties"].keys()]
        wrong += [f"{place}.{key} wanted" for key in shape.get("required", ()) if key not in value]
        return wrong + [
            hole
            for key in value.keys() & shape["properties"].keys()
            for hole in holes(shape["properties"][key], value[key], f"{place}.{key}")
        ]
    if isinstance(value, (list, tuple)):
        return [hole for one in value for hole in holes(shape["items"], one, f"{place}[]")]
    if value is None:
        return [] if shape.get("nullable") else [f"{place} null"]
    kinds = {bool: "boolean", int: "integer", str: "string"}
    return [] if shape["type"] == kinds[type(value)] else [f"{place} {shape['type']}"]


def test_the_schema_has_the_fields_the_words_and_the_bounds_of_a_report() -> None:
    shape = schema()
    assert holes(shape, published.encode(TOLD)[published.FIELD]) == []
    fields = shape["properties"]
    assert fields["mode"]["enum"] == list(get_args(Mode))
    assert fields["pods"]["items"]["properties"]["answer"]["enum"] == list(get_args(Code))
    bounds = {name: fields[name]["maxItems"] for name in ("pods", "edges", "moves", "troubles")}
    assert bounds == {
        "pods": report.MOST_PODS,
        "edges": report.MOST_EDGES,
        "moves": report.MOST_MOVES,
        "troubles": report.MOST_TROUBLES,
    }
