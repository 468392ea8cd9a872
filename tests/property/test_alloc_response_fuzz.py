"""A plugin's answer in a checkpoint: what protobuf writes is read back, and of bytes of any kind never more than protobuf reads."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.node.device_plugin import deviceplugin_pb2 as wire
from numaware.twin.state.alloc_response import AllocResponse, DeviceNode, Mount, decode

# Protobuf refuses halves of surrogate pairs, as every UTF-8 writer does.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)
PAIRS = st.dictionaries(TEXTS, TEXTS, max_size=4)
ANSWERS = st.builds(
    AllocResponse,
    PAIRS,
    st.lists(st.builds(Mount, TEXTS, TEXTS, st.booleans()), max_size=3).map(tuple),
    st.lists(st.builds(DeviceNode, TEXTS, TEXTS, TEXTS), max_size=3).map(tuple),
    PAIRS,
    st.lists(TEXTS, max_size=3).map(tuple),
)


def encoded(answer: AllocResponse) -> bytes:
    return wire.ContainerAllocateResponse(
        envs=answer.envs,
        mounts=[
            wire.Mount(container_path=one.container_path, host_path=one.host_path, read_only=one.read_only)
            for one in answer.mounts
        ],
        devices=[
            wire.DeviceSpec(
                container_path=one.container_path, host_path=one.host_path, permissions=one.permissions
            )
            for one in answer.devices
        ],
        annotations=answer.annotations,
        cdi_devices=[wire.CDIDevice(name=name) for name in answer.cdi_devices],
    ).SerializeToString()


def of_protobuf(data: bytes) -> AllocResponse | None:
    try:
        found = wire.ContainerAllocateResponse.FromString(data)
    except DecodeError:
        return None
    return AllocResponse(
        dict(found.envs),
        tuple(Mount(one.container_path, one.host_path, one.read_only) for one in found.mounts),
        tuple(DeviceNode(one.container_path, one.host_path, one.permissions) for one in found.devices),
        dict(found.annotations),
        tuple(one.name for one in found.cdi_devices),
    )


def puts_pairs_aside(data: bytes) -> bool:
    """Whether this library takes a pair for an unknown field, since something unknown is in it; the kubelet's takes the pair."""
    aside = UnknownFieldSet(wire.ContainerAllocateResponse.FromString(data))
    numbers = {aside[place].field_number for place in range(len(aside))}
    fields = wire.ContainerAllocateResponse.DESCRIPTOR.fields_by_name
    return not numbers.isdisjoint((fields["envs"].number, fields["annotations"].number))


def check(data: bytes) -> None:
    try:
        found = decode(data)
    except ValueError:
        return
    expected = of_protobuf(data)
    assert expected is not None
    if puts_pairs_aside(data):
        assert expected.envs.items() <= found.envs.items()
        assert expected.annotations.items() <= found.annotations.items()
        found = replace(found, envs=expected.envs, annotations=expected.annotations)
    assert found == expected


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An answer with some bytes changed, left out or put in."""
    data = bytearray(encoded(draw(ANSWERS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        data[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


EXAMPLES = st.binary(max_size=300) | damaged()


@given(ANSWERS)
def test_what_protobuf_writes_is_read_back(answer: AllocResponse) -> None:
    assert decode(encoded(answer)) == answer


def test_a_pair_with_something_unknown_in_it_is_a_pair() -> None:
    # The key as a number, which no key is.
    assert decode(b"\n\x02\x08\x01").envs == {"": ""}
    check(b"\n\x02\x08\x01")


@settings(max_examples=500)
@given(EXAMPLES)
def test_damaged_bytes_are_refused_or_read_as_protobuf_reads_them(data: bytes) -> None:
    check(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\n\x05abc", "ends in the middle of a field"),
        (b"\n", "ends in the middle of a number"),
        (b"\xff" * 11, "more than 64 bits"),
        (b"\x00\x00", "no number of a field"),
        (b"\x0b", "no type of a field"),
        (b"\n\x03\n\x01\xff", "utf-8"),
    ],
)
def test_what_is_no_message_is_told(data: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode(data)
