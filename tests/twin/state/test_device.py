"""The checksums here were computed by Go's own formatter over the kubelet's types."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.twin.state.alloc_response import one_variable
from numaware.twin.state.device import DeviceEntry, decode, encode
from numaware.twin.state.errors import CorruptCheckpointError

NIC = "example.com/nic"
REGISTERED = {NIC: ["nic1", "nic0", "nic-a<b>&c"]}
ENTRY = DeviceEntry(
    "pod-a", "main", NIC, {-1: ["nic-a<b>&c"], 10: ["nic0"], 2: ["nic0"]}, bytes([10, 0, 255])
)
TAIL = r'"AllocResp":"CgD/"}],"RegisteredDevices":{"example.com/nic":["nic-a\u003cb\u003e\u0026c","nic0","nic1"]}}'
HEAD = (
    '{"Data":{"PodDeviceEntries":[{"PodUID":"pod-a","ContainerName":"main","ResourceName":"example.com/nic",'
)
V1 = rf'{HEAD}"DeviceIDs":["nic-a\u003cb\u003e\u0026c","nic0"],{TAIL},"Checksum":2179602366}}'
V2 = rf'{HEAD}"DeviceIDs":{{"-1":["nic-a\u003cb\u003e\u0026c"],"10":["nic0"],"2":["nic0"]}},{TAIL},"Checksum":2220972639}}'


def test_a_file_without_allocations_has_no_list_of_them() -> None:
    empty = '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3467439661}'
    assert encode([], {}) == empty
    assert decode(empty).entries == ()


def test_encode_writes_devices_by_numa_node() -> None:
    assert encode([ENTRY], REGISTERED) == V2


def test_encode_writes_the_old_layout_as_a_plain_list() -> None:
    assert encode([ENTRY], REGISTERED, form="v1") == V1


def test_decode_gives_the_values_back() -> None:
    checkpoint = decode(V2)
    assert checkpoint.entries == (ENTRY,)
    assert checkpoint.registered == {NIC: ("nic-a<b>&c", "nic0", "nic1")}
    assert (checkpoint.stamp.form, checkpoint.stamp.stored, checkpoint.boot_id) == ("v2", 2220972639, "")


def test_devices_of_the_old_layout_count_as_node_0_as_an_upgraded_kubelet_takes_them() -> None:
    checkpoint = decode(V1)
    assert checkpoint.stamp.form == "v1"
    assert checkpoint.entries[0].devices == {0: ["nic-a<b>&c", "nic0"]}


def test_the_boot_id_of_newer_kubelets_is_outside_the_checksum() -> None:
    assert decode(V2.removesuffix("}") + ',"BootID":"b-1"}').boot_id == "b-1"


def test_lists_are_written_in_one_order_however_they_come() -> None:
    entries = [DeviceEntry(uid, "c", NIC, {0: ids}) for uid, ids in (("b", ["2", "1"]), ("a", ["4", "3"]))]
    turned = [DeviceEntry(e.pod_uid, "c", NIC, {0: list(reversed(e.devices[0]))}) for e in reversed(entries)]
    assert encode(entries, {NIC: ["1", "2"]}) == encode(turned, {NIC: ["2", "1"]})


@pytest.mark.parametrize("change", [("nic0", "nic9"), ("2220972639", "0"), ("CgD/", "CgD+")])
def test_a_changed_file_is_corrupt(change: tuple[str, str]) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode(V2.replace(*change))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"Data":[]}',
        V2.replace("CgD/", "C"),
        V2.replace('"10"', '"ten"'),
        V2.replace('["nic0"]', "null"),
        V2.replace("[{", f"[{V1.split('[', 1)[1].split('}]', 1)[0]}}},{{"),
    ],
)
def test_a_file_of_the_wrong_shape_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="not a kubelet_internal_checkpoint"):
        decode(text)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ((), b"\n\x0b\n\x07DEVICES\x12\x00"),
        (("b", "a"), b"\n\x0e\n\x07DEVICES\x12\x03a,b"),
        (("x" * 130,), b"\n\x8e\x01\n\x07DEVICES\x12\x82\x01" + b"x" * 130),
    ],
)
def test_the_recorded_plugins_answer_is_one_variable_with_the_ids(
    ids: tuple[str, ...], message: bytes
) -> None:
    assert one_variable(ids) == message
