"""A machine written as JSON is the same machine when read back, and nothing read can do harm."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine.codec import decode, encode, to_builtins
from numaware.machine.topology import Machine
from property.strategies import machines

KEYS = st.sampled_from(
    [
        "cpus",
        "numa",
        "machine",
        "caches",
        "pci",
        "devices",
        "links",
        "warnings",
        "id",
        "level",
        "memoryBytes",
        "hugepages",
        "distances",
        "kind",
        "siblings",
        "2Mi",
        "0",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["0-3", "3-0", "0-99999999999", "0-65535:1/2"])
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(machines())
def test_a_machine_reads_back_as_itself(machine: Machine) -> None:
    assert decode(encode(machine)) == machine


@given(machines())
def test_equal_machines_give_equal_bytes(machine: Machine) -> None:
    written = encode(machine)
    assert encode(decode(written)) == written
    assert written.endswith(b"}\n")


@given(machines(), st.randoms(use_true_random=False))
def test_order_and_unknown_fields_of_the_document_do_not_matter(
    machine: Machine, shuffler: random.Random
) -> None:
    document = shuffled(to_builtins(machine), shuffler)
    document["somethingNew"] = {"from": "a later version"}
    assert decode(msgspec.json.encode(document)) == machine


@given(st.binary(max_size=60) | DOCUMENTS.map(msgspec.json.encode))
def test_any_bytes_are_a_machine_or_an_input_error(data: bytes) -> None:
    survives(data)


@given(machines(), st.data())
def test_a_machine_with_one_field_gone_wrong_is_a_machine_or_an_input_error(
    machine: Machine, data: st.DataObject
) -> None:
    document = to_builtins(machine)
    place: Any = document
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
        else:
            break
    place[key] = data.draw(DOCUMENTS)
    survives(msgspec.json.encode(document))


def survives(data: bytes) -> None:
    """Either one `InputError` that names its source, or a machine that can be written and read again."""
    try:
        machine = decode(data, "some.json")
    except InputError as error:
        assert str(error).startswith("some.json: ")  # noqa: PT017 - the other branch is as good an outcome
        return
    assert decode(encode(machine)) == machine


def shuffled(value: Any, shuffler: random.Random) -> Any:
    """The same document with the keys of every object, and the CPUs and nodes, in another order."""
    if isinstance(value, list):
        return [shuffled(item, shuffler) for item in value]
    if not isinstance(value, dict):
        return value
    items = list(value.items())
    shuffler.shuffle(items)
    result = {key: shuffled(item, shuffler) for key, item in items}
    for numbered in ("cpus", "numa"):
        if isinstance(result.get(numbered), list) and "machine" in result:
            shuffler.shuffle(result[numbered])
    return result
