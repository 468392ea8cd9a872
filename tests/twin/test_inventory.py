"""From a discovered machine to what its kubelet knows: online CPUs, memory, caches, and the devices of plugins."""

from __future__ import annotations

import msgspec
import pytest

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.topology import Cache, Cpu, HugePages, Machine, NumaNode, PciDevice
from numaware.twin.hardware import CpuPlace, PluginDevice, PluginResource
from numaware.twin.inventory import gpu_resources, hardware_of, plugin_resource, registered_resources
from numaware.twin.state import device
from numaware.twin.state.device import DeviceCheckpoint, DeviceEntry

GPU = "nvidia.com/gpu"


def function(address: str, vendor: str, kind: str, numa: int | None = 0, of: str | None = None) -> PciDevice:
    return PciDevice(address, kind, vendor, "0001", None, numa, virtual_function_of=of)


def checkpoint(registered: dict[str, list[str]], *entries: DeviceEntry) -> DeviceCheckpoint:
    return device.decode(device.encode(list(entries), registered))


def test_cpus_are_placed_by_core_and_package_and_threads_share_a_core() -> None:
    hardware = hardware_of(synthetic.read("2s x 1n x 2c x 2t"))
    assert [[(cpu.id, cpu.core, cpu.socket) for cpu in node.cpus] for node in hardware.numa] == [
        [(0, 0, 0), (1, 1, 0), (4, 0, 0), (5, 1, 0)],
        [(2, 2, 1), (3, 3, 1), (6, 2, 1), (7, 3, 1)],
    ]


def test_cpus_that_are_offline_are_not_there() -> None:
    made = synthetic.read("1s x 1n x 2c x 2t")
    off = tuple(msgspec.structs.replace(cpu, online=cpu.id != 0) for cpu in made.cpus)
    hardware = hardware_of(msgspec.structs.replace(made, cpus=off))
    # The core of CPU 0 is now known by its other thread.
    assert [(cpu.id, cpu.core) for cpu in hardware.numa[0].cpus] == [(1, 1), (2, 2), (3, 1)]


def test_memory_huge_pages_and_distances_are_the_machines() -> None:
    made = synthetic.read("2x2 mem=8Gi")
    pools = (HugePages(1 << 30, 2, 2), HugePages(2 << 20, 8, 0))
    nodes = tuple(msgspec.structs.replace(node, hugepages=pools) for node in made.numa)
    first, second = hardware_of(msgspec.structs.replace(made, numa=nodes)).numa
    assert first.memory_bytes == 8 << 30
    assert first.hugepages == (("hugepages-1Gi", 2 << 30), ("hugepages-2Mi", 16 << 20))
    assert (first.distances, second.distances) == ((10, 21), (21, 10))


def test_a_node_without_cpus_keeps_its_place() -> None:
    made = synthetic.read("1x2")
    extra = NumaNode(1, EMPTY, 4 << 30, (), ((0, 20), (1, 10)), None, EMPTY)
    hardware = hardware_of(msgspec.structs.replace(made, numa=(*made.numa, extra)))
    assert [(node.id, len(node.cpus), node.memory_bytes >> 30) for node in hardware.numa] == [
        (0, 2, 64),
        (1, 0, 4),
    ]


def test_a_cache_as_large_as_its_numa_node_is_no_uncore_since_cadvisor_does_not_tell_of_it() -> None:
    """Then the kubelet takes the socket for it: with several NUMA nodes in one socket, that is something else."""
    made = synthetic.read("1s x 2n x 2c x 2t")
    assert {cache.cpus for cache in made.caches if cache.level == 3} == {node.cpus for node in made.numa}
    assert {cpu.uncore for node in hardware_of(made).numa for cpu in node.cpus} == {None}
    whole = tuple(
        msgspec.structs.replace(cache, cpus=made.online) if cache.level == 3 else cache
        for cache in made.caches
    )
    shared = hardware_of(msgspec.structs.replace(made, caches=whole))
    assert {cpu.uncore for node in shared.numa for cpu in node.cpus} == {0}


def test_the_last_level_cache_is_the_uncore_and_a_smaller_one_is_not() -> None:
    made = synthetic.read("1x4")
    caches = (
        Cache(1, "Instruction", CpuSet([0, 1, 2, 3])),
        Cache(2, "Unified", CpuSet([0])),
        Cache(3, "Unified", CpuSet([2, 3])),
        Cache(3, "Unified", CpuSet([0, 1])),
    )
    (node,) = hardware_of(msgspec.structs.replace(made, caches=caches)).numa
    assert [cpu.uncore for cpu in node.cpus] == [0, 0, 1, 1]
    (node,) = hardware_of(msgspec.structs.replace(made, caches=caches[:2])).numa
    assert node.cpus[0] == CpuPlace(0, 0, 0, None)


@pytest.mark.parametrize(
    ("cpu", "told"),
    [
        (Cpu(0, numa=7, core=0, package=0), "CPU 0 is on no known NUMA node"),
        (Cpu(0, numa=None, core=0, package=0), "CPU 0 is on no known NUMA node"),
        (Cpu(0, numa=0, core=None, package=0), "the core of CPU 0 is not known"),
        (Cpu(0, numa=0, core=0, package=0, online=False), "no online CPU is known"),
    ],
)
def test_a_source_that_says_too_little_is_told(cpu: Cpu, told: str) -> None:
    made = synthetic.read("1x1")
    with pytest.raises(ValueError, match=told):
        hardware_of(msgspec.structs.replace(made, cpus=(cpu,)))


# Devices


def test_gpus_on_the_bus_stand_for_what_the_vendors_plugins_offer() -> None:
    made = msgspec.structs.replace(
        synthetic.read("2x2"),
        pci=(
            function("0000:01:00.0", "10de", "030200", 0),
            function("0000:02:00.0", "10de", "030000", 1),
            function("0000:03:00.0", "1002", "038000", None),
            function("0000:04:00.0", "8086", "038000", 1),
            # None of these computes: Intel's own display, a BMC, a NIC of the same maker, a slice of a GPU.
            function("0000:05:00.0", "8086", "030000"),
            function("0000:06:00.0", "1a03", "030000"),
            function("0000:07:00.0", "10de", "020000"),
            function("0000:01:00.1", "10de", "030200", 0, of="0000:01:00.0"),
        ),
    )
    assert {
        resource.name: [(found.id, found.numa) for found in resource.devices]
        for resource in gpu_resources(made)
    } == {
        "amd.com/gpu": [("0000:03:00.0", ())],
        "gpu.intel.com/i915": [("0000:04:00.0", (1,))],
        GPU: [("0000:01:00.0", (0,)), ("0000:02:00.0", (1,))],
    }
    assert hardware_of(made).resources == tuple(gpu_resources(made))
    assert hardware_of(made, []).resources == ()


GPUS = synthetic.read("2x2 +gpu@0,0,1,1")


def placed(machine: Machine, found: DeviceCheckpoint) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """The one resource of a checkpoint: device -> NUMA nodes, and the notes."""
    (resource,), notes = registered_resources(machine, found)
    return {one.id: one.numa for one in resource.devices}, [str(note) for note in notes]


def test_free_gpus_are_dealt_to_the_nodes_that_have_gpus_left() -> None:
    used = DeviceEntry("u", "main", GPU, {1: ["c"]})
    nodes, notes = placed(GPUS, checkpoint({GPU: ["a", "b", "c", "d"]}, used))
    assert nodes == {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}
    assert notes == [f"{GPU}: NUMA nodes of 3 free devices inferred from the machine's GPUs"]


def test_a_gpu_that_an_init_container_left_to_the_next_one_counts_once() -> None:
    used = [DeviceEntry("u", name, GPU, {1: ["c"]}) for name in ("init", "main")]
    nodes, notes = placed(GPUS, checkpoint({GPU: ["a", "b", "c", "d"]}, *used))
    assert nodes == {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}
    assert notes == [f"{GPU}: NUMA nodes of 3 free devices inferred from the machine's GPUs"]


def test_devices_called_by_their_pci_address_are_looked_up() -> None:
    address = GPUS.pci[0].address
    nodes, notes = placed(GPUS, checkpoint({"x.io/vf": [address]}))
    assert (nodes, notes) == ({address: (0,)}, [])


def test_when_free_devices_cannot_be_placed_none_of_the_resource_is() -> None:
    used = DeviceEntry("u", "main", "x.io/nic", {1: ["n1"]})
    nodes, (note,) = placed(GPUS, checkpoint({"x.io/nic": ["n0", "n1"]}, used))
    assert nodes == {"n0": (), "n1": ()}
    assert note.startswith("x.io/nic: the NUMA nodes of 1 free devices are not known, so all its 2 are taken")


def test_more_devices_than_gpus_are_not_dealt_out() -> None:
    # A GPU shared in time is registered several times.
    nodes, (note,) = placed(GPUS, checkpoint({GPU: [f"g{number}" for number in range(8)]}))
    assert set(nodes.values()) == {()}
    assert "are not known" in note


def test_a_device_in_use_on_two_nodes_or_on_none_is_kept_as_it_was() -> None:
    used = DeviceEntry("u", "main", "x.io/nic", {-1: ["loose"], 0: ["both"], 1: ["both"]})
    (resource,), notes = registered_resources(GPUS, checkpoint({"x.io/nic": ["both", "loose"]}, used))
    assert resource.devices == (PluginDevice("both", (0, 1)), PluginDevice("loose", ()))
    assert notes == []


# Devices that a person lists beside a state file


def listed(*numa: int | None) -> list[PluginResource]:
    devices = {f"device-{index:04}": () if node is None else (node,) for index, node in enumerate(numa)}
    return [plugin_resource(GPU, devices)]


def joined(found: DeviceCheckpoint, *numa: int | None) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    (resource,), notes = registered_resources(synthetic.read("2x2"), found, listed(*numa))
    return {one.id: one.numa for one in resource.devices}, [str(note) for note in notes]


def test_devices_of_the_file_go_where_a_person_lists_them_those_in_use_first() -> None:
    used = DeviceEntry("u", "main", GPU, {1: ["a"]})
    nodes, notes = joined(checkpoint({GPU: ["a", "b", "c"]}, used), 0, 0, 1)
    assert nodes == {"a": (1,), "b": (0,), "c": (0,)}
    assert notes == [f"{GPU}: which of 2 free devices is where is not known; dealt as --devices lists them"]


def test_a_list_longer_or_shorter_than_the_file_wins_and_that_is_said() -> None:
    found = checkpoint({GPU: ["a", "b"]}, DeviceEntry("u", "main", GPU, {0: ["a"]}))
    nodes, notes = joined(found, 0, 1, 1)
    assert nodes == {"a": (0,), "b": (1,), "device-0002": (1,)}
    assert notes[1] == f"{GPU}: 1 devices of --devices are not in the state file, and taken to be free"
    nodes, notes = joined(found, 0)
    assert nodes == {"a": (0,)}
    assert notes == [f"{GPU}: --devices lists 1 devices less than the state file, and is believed"]


def test_a_device_in_use_that_no_plugin_offers_any_more_is_there_all_the_same() -> None:
    nodes, _ = joined(checkpoint({}, DeviceEntry("u", "main", GPU, {1: ["gone"]})), 0, 1)
    assert nodes == {"gone": (1,), "device-0000": (0,)}


def test_devices_on_two_nodes_or_none_are_joined_to_what_can_be_listed_of_them() -> None:
    found = checkpoint({}, DeviceEntry("u", "main", GPU, {0: ["both", "zero"], 1: ["both"], -1: ["loose"]}))
    assert joined(found, 0, 1, None)[0] == {"both": (0, 1), "loose": (), "zero": (0,)}
    # A kubelet before 1.23 lists devices without topology under node 0.
    assert joined(checkpoint({}, DeviceEntry("u", "main", GPU, {0: ["old"]})), None)[0] == {"old": ()}


def test_the_first_layout_knows_no_nodes_so_any_listed_device_will_do() -> None:
    entries = [DeviceEntry("u", "main", GPU, {0: ["a"]})]
    old = device.decode(device.encode(entries, {GPU: ["a"]}, "v1"))
    assert joined(old, 1)[0] == {"a": (1,)}


def test_a_device_in_use_where_none_is_listed_contradicts_the_list() -> None:
    with pytest.raises(InputError, match="a is in use on NUMA node 0, where --devices lists no device"):
        joined(checkpoint({GPU: ["a"]}, DeviceEntry("u", "main", GPU, {0: ["a"]})), 1, 1)
