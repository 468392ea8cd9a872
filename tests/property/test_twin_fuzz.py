"""Scenarios bent out of shape: the twin answers, or says in one ValueError what is wrong; it never falls over."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.twin.recording import Recording, replay

GROUPS = ("edge", "legacy-v1.27", "topology")
FOLDER = Path(__file__).parents[1] / "vectors" / "kubelet"
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    64,
    1 << 70,
    -(1 << 63),
    1.5,
    "",
    "-1",
    "0",
    "0.5",
    "1e99",
    "99999999999999999999",
    "100%",
    "nan%",
    "0-999999",
    "5-1",
    "static",
    "Always",
    "v1.20.0",
    "v1.99",
    "\ud800",
    [],
    {},
    [1, 1],
    {"cpu": "1"},
    {"memory": "1Gi"},
)


def scenarios() -> list[dict[str, Any]]:
    """Some small scenarios of each kind."""
    chosen = []
    for group in GROUPS:
        with gzip.open(FOLDER / f"{group}.jsonl.gz") as lines:
            small = sorted(lines.readlines(), key=len)[: 60 if group == "edge" else 200 : 4]
        chosen += [json.loads(line)["scenario"] for line in small]
    return chosen


SCENARIOS = scenarios()


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path] if path else []
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in members:
        found += places(inner, (*path, key))
    return found


def bent(scenario: dict[str, Any], path: tuple[str | int, ...], value: object, how: str) -> dict[str, Any]:
    """The scenario with one place replaced, removed or doubled."""
    copy: Any = deepcopy(scenario)
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    if how == "remove":
        del holder[path[-1]]
    elif how == "double" and isinstance(holder, list):
        holder.append(deepcopy(holder[int(path[-1])]))
    else:
        holder[path[-1]] = value
    result: dict[str, Any] = copy
    return result


@settings(max_examples=600)
@given(st.sampled_from(SCENARIOS), st.data())
def test_a_bent_scenario_is_answered_or_refused_with_a_word(
    scenario: dict[str, Any], data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(scenario)))
        value = data.draw(st.sampled_from(ODD))
        scenario = bent(scenario, path, value, data.draw(st.sampled_from(["replace", "remove", "double"])))
        if not places(scenario):
            break
    line = json.dumps({"scenario": scenario}).encode()
    answer = answered(line)
    if isinstance(answer, str):
        assert answer != ""
    else:
        assert answer["id"] == scenario["id"]
        msgspec.json.encode(answer)


def answered(line: bytes) -> dict[str, Any] | str:
    """The twin's answer, or what it found wrong."""
    try:
        return replay(msgspec.json.decode(line, type=Recording).scenario)
    except ValueError as error:
        return str(error)
