"""The law of the one reader of topology objects: it takes anything, and what is well written comes out as it went in."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.machine.node_topology import (
    Attribute,
    Cost,
    NodeTopology,
    Zone,
    ZoneResource,
    read,
    read_numatopology,
)
from numaware.schedule.peers import nrt as plugin

TEXT = st.text(max_size=8)
NAMES = st.sampled_from(["node-0", "node-1", "node-64", "node-x", "socket-0"]) | TEXT
AMOUNTS = (
    st.sampled_from(["1", "8", "500m", "1Gi", "-1", "many", ""])
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
ATTRIBUTES = st.lists(
    st.builds(
        Attribute,
        st.sampled_from(["topologyManagerPolicy", "topologyManagerScope", "topologyManagerMaxNUMANodes"])
        | TEXT,
        st.sampled_from(["restricted", "pod", "12"]) | TEXT,
    ),
    max_size=4,
).map(tuple)
ZONES = st.builds(
    Zone,
    NAMES,
    st.sampled_from(["Node", "Socket"]) | TEXT,
    st.lists(st.builds(Cost, NAMES, st.integers(-(1 << 63), (1 << 63) - 1)), max_size=3).map(tuple),
    ATTRIBUTES,
    st.lists(st.builds(ZoneResource, TEXT, AMOUNTS, AMOUNTS, AMOUNTS), max_size=4).map(tuple),
)
TOPOLOGIES = st.builds(
    NodeTopology,
    st.lists(ZONES, max_size=4).map(tuple),
    st.lists(st.sampled_from(["None", "SingleNUMANodePodLevel"]) | TEXT, max_size=2).map(tuple),
    ATTRIBUTES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def plain(topology: NodeTopology) -> Any:
    return msgspec.json.decode(msgspec.json.encode(topology))


@given(TOPOLOGIES)
def test_what_is_well_written_comes_out_as_it_went_in(topology: NodeTopology) -> None:
    reading = read(plain(topology))
    assert (reading.topology, reading.problems) == (topology, ())


@settings(max_examples=300)
@given(st.data())
def test_anything_anywhere_is_left_out_or_read(data: st.DataObject) -> None:
    document = plain(data.draw(TOPOLOGIES)) or {"zones": []}
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    topology, problems = read(document)
    assert read(plain(topology)) == (topology, ())
    assert all("\n" not in problem for problem in problems)
    # Peers read on from there: whatever is no amount is theirs to refuse.
    try:
        plugin.read(topology)
    except ValueError as error:
        assert "quantity" in str(error) or "below zero" in str(error) or "2^63" in str(error)  # noqa: PT017


@given(JSON, st.sampled_from(["policies", "resReserved", "numares", "cpuDetail"]))
def test_volcanos_objects_never_fail(value: object, part: str) -> None:
    read(value)
    read_numatopology(value)
    read_numatopology({"spec": value})
    reading = read_numatopology({"spec": {part: value}})
    assert bool(reading.problems) or isinstance(value, dict | None)
