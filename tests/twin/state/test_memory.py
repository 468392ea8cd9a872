"""The checksums here were computed by Go's own formatter over the kubelet's types."""

from __future__ import annotations

import json

import pytest

from numaware.errors import InputError
from numaware.twin.state.errors import CorruptCheckpointError, policy_changed
from numaware.twin.state.memory import MemoryBlock, MemoryTable, NodeEntry, decode, encode

NODES = {
    2: NodeEntry(
        1, {"memory": MemoryTable(100, 10, 90, 40, 50), "hugepages-2Mi": MemoryTable(8, 0, 8, 0, 8)}, (2, 10)
    ),
    10: NodeEntry(1, {"memory": MemoryTable(100, 10, 90, 0, 90)}, (2, 10)),
}
BLOCK = MemoryBlock((2, 10), "memory", 40)
CONTENT = (
    '"policyName":"Static","machineState":{'
    '"10":{"numberOfAssignments":1,"memoryMap":{'
    '"memory":{"total":100,"systemReserved":10,"allocatable":90,"reserved":0,"free":90}},"cells":[2,10]},'
    '"2":{"numberOfAssignments":1,"memoryMap":{'
    '"hugepages-2Mi":{"total":8,"systemReserved":0,"allocatable":8,"reserved":0,"free":8},'
    '"memory":{"total":100,"systemReserved":10,"allocatable":90,"reserved":40,"free":50}},"cells":[2,10]}},'
    '"entries":{"pod-a":{"main":[{"numaAffinity":[2,10],"type":"memory","size":40}]}}'
)
V1 = f'{{{CONTENT},"checksum":863164982}}'
POD_BLOCKS = '"podEntries":{"pod-b":{"memoryBlocks":[{"numaAffinity":[10],"type":"memory","size":7}]}}'
V2 = f'{{{CONTENT},{POD_BLOCKS},"checksum":2929571068}}'


def test_the_file_of_policy_none_is_the_one_every_kubelet_writes() -> None:
    assert encode("None", {}, {}) == '{"policyName":"None","machineState":{},"checksum":4236770233}'


def test_encode_sorts_nodes_as_text_in_the_file_and_as_numbers_under_the_checksum() -> None:
    assert encode("Static", NODES, {"pod-a": {"main": [BLOCK]}}) == V1


def test_decode_gives_the_values_back() -> None:
    checkpoint = decode(V1)
    assert checkpoint.machine_state == NODES
    assert checkpoint.entries == {"pod-a": {"main": (BLOCK,)}}
    assert (checkpoint.policy, checkpoint.stamp.form, checkpoint.stamp.stored) == ("Static", "v1", 863164982)


def test_blocks_of_a_whole_pod_are_read() -> None:
    checkpoint = decode(V2)
    assert checkpoint.stamp.form == "v2"
    assert checkpoint.pods == {"pod-b": (MemoryBlock((10,), "memory", 7),)}


def test_in_the_newest_layout_the_inner_text_counts() -> None:
    inner = f"{{{CONTENT}}}"
    outer = {"policyName": "x", "machineState": {}, "checksum": 1, "data": inner, "dataChecksum": 2572042752}
    checkpoint = decode(json.dumps(outer))
    assert checkpoint.stamp.form == "v3"
    assert checkpoint.machine_state == NODES


def test_blocks_are_written_in_one_order_however_they_come() -> None:
    huge = MemoryBlock((0,), "hugepages-2Mi", 8)
    plain = MemoryBlock((0,), "memory", 8)
    one, other = ({"u": {"c": order}} for order in ([plain, huge], [huge, plain]))
    assert encode("Static", NODES, one) == encode("Static", NODES, other)
    assert decode(encode("Static", NODES, one)).entries["u"]["c"] == (huge, plain)


@pytest.mark.parametrize(
    "change", [('"free":50', '"free":51'), ("863164982", "0"), (',"checksum":863164982', "")]
)
def test_a_changed_or_missing_checksum_is_corrupt(change: tuple[str, str]) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode(V1.replace(*change))


@pytest.mark.parametrize(
    "change",
    [('"size":40', '"size":-1'), ('"10":{', '"x":{'), ("[2,10]", "null"), ('"total":100', '"total":1.5')],
)
def test_a_file_of_the_wrong_shape_is_an_input_error(change: tuple[str, str]) -> None:
    with pytest.raises(InputError, match="not a memory_manager_state"):
        decode(V1.replace(*change))


def test_a_changed_policy_is_told_in_the_words_of_the_kubelet() -> None:
    assert policy_changed("memory", "Static", "None") == (
        '[memorymanager] configured policy "Static" differs from state checkpoint policy "None"'
    )
