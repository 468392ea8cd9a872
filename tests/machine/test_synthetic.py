from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.closeness import with_links
from numaware.machine.synthetic import read
from support.invented_machines import numa_node


def test_two_numbers_are_nodes_and_cpus() -> None:
    machine = read("2x14")
    assert [(node.id, str(node.cpus), node.memory_bytes) for node in machine.numa] == [
        (0, "0-13", 64 << 30),
        (1, "14-27", 64 << 30),
    ]
    assert [(package.id, package.numa) for package in machine.packages] == [(0, (0,)), (1, (1,))]
    assert (machine.core_count, machine.memory_bytes) == (28, 128 << 30)


def test_threads_are_numbered_after_all_cores() -> None:
    machine = read("2s x 2n x 16c x 2t")
    assert str(machine.cpus[0].siblings) == "0,64"
    assert [str(node.cpus) for node in machine.numa] == [
        "0-15,64-79",
        "16-31,80-95",
        "32-47,96-111",
        "48-63,112-127",
    ]
    assert [str(package.cpus) for package in machine.packages] == ["0-31,64-95", "32-63,96-127"]
    assert machine.cpus[127].core == 31


def test_distances_tell_sockets_apart() -> None:
    assert numa_node(read("2s x 2n x 1c"), 1).distances == ((0, 12), (1, 10), (2, 21), (3, 21))


def test_caches_are_private_to_cores_but_the_last_level_to_nodes() -> None:
    caches = read("2n x 2c x 2t").caches
    assert [str(cache.cpus) for cache in caches if cache.level == 2] == ["0,4", "1,5", "2,6", "3,7"]
    assert [str(cache.cpus) for cache in caches if cache.level == 3] == ["0-1,4-5", "2-3,6-7"]


def test_devices_sit_below_the_root_port_of_their_node() -> None:
    machine = read("2s x 2n x 4c +gpu@2,0,0 +nic@1 mem=1Gi")
    assert [(device.name, device.kind, device.numa) for device in machine.devices] == [
        ("GPU0", "gpu", 0),
        ("GPU1", "gpu", 0),
        ("NIC0", "nic", 1),
        ("GPU2", "gpu", 2),
    ]
    functions = {function.address: function for function in machine.pci}
    for device in machine.devices:
        function = functions[device.pci or ""]
        assert (function.class_code, function.vendor) == {
            "gpu": ("030200", "10de"),
            "nic": ("020000", "15b3"),
        }[device.kind]
        assert function.parent is not None
        assert (functions[function.parent].class_code, functions[function.parent].numa) == (
            "060400",
            device.numa,
        )
    assert numa_node(machine, 0).memory_bytes == 1 << 30
    assert len(functions) == 7


def test_many_devices_on_one_node_have_addresses_of_their_own() -> None:
    machine = read("1x1 +gpu@" + ",".join("0" * 100))
    assert len({device.pci for device in machine.devices}) == 100
    assert [device.name for device in machine.devices] == [f"GPU{n}" for n in range(100)]
    assert [device.pci for device in machine.devices] == sorted(
        device.pci or "" for device in machine.devices
    )


@pytest.mark.parametrize("text", ["2s x 4c", "  2s  x  4c ", "2sx4c", "2s x 1n x 4c x 1t", "2x4", "2 x 4"])
def test_blanks_and_ones_may_be_left_out(text: str) -> None:
    assert read(text) == read("2x4")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "2",
        "2x",
        "0x4",
        "2s x 4t",
        "4c x 2s",
        "2c x 2c",
        "2x4x2",
        "2x4 +gpu@2",
        "2x4 +gpu",
        "2x4 +fpga@0",
        "2x4 mem=much",
        "2x4 mem=-1Gi",
        "9999x9999",
        "2000x1",
        "1x1 +gpu@" + ",".join("0" * 1025),
        "1x1" + " " * 30000,
    ],
)
def test_what_makes_no_machine_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="write it like 2x14") as caught:
        read(text)
    assert len(str(caught.value)) < 300


def test_switches_have_letters() -> None:
    # The machine of eight GPUs whose table many guides print: pairs behind one switch.
    machine = with_links(read("2s x 32c x 2t +gpu@0a,0a,0b,0b,1a,1a,1b,1b"))
    words = {(link.a, link.b): link.type for link in machine.links}
    assert len(words) == 28
    for (a, b), word in words.items():
        one, other = int(a[3:]), int(b[3:])
        assert word == ("PIX" if one // 2 == other // 2 else "NODE" if one // 4 == other // 4 else "SYS")


def test_each_node_may_have_an_amount_of_its_own_and_sockets_another_distance() -> None:
    machine = read("2x16 mem=192359Mi, 193493Mi dist=20")
    assert [node.memory_bytes for node in machine.numa] == [192359 << 20, 193493 << 20]
    assert machine.memory_bytes == (192359 + 193493) << 20
    assert machine.numa[0].distances == ((0, 10), (1, 20))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2x4 mem=1Gi,2Gi,3Gi", "3 amounts of memory for 2 NUMA nodes"),
        ("2x4 dist=9", "a distance of 9"),
        ("2x4 dist=255", "a distance of 255"),
        (f"2x4 +gpu@0a{',0a' * 224}", "more than 224 devices on switches"),
    ],
)
def test_what_no_machine_has_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read(text)
