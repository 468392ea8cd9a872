from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.twin.hardware import Hardware, PluginDevice, PluginResource, checked, layout, mask_order, sums
from support.twin_nodes import GPU, NIC, machine


def test_a_machine_is_put_in_order_whatever_order_it_is_listed_in() -> None:
    good = checked(machine(3, 2, devices={GPU: {"a": (0,), "b": (2,)}, NIC: {"c": ()}}))
    gpu, nic = good.resources
    mixed = Hardware(good.numa[::-1], (nic, replace(gpu, devices=gpu.devices[::-1])))
    assert checked(mixed) == good


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (PluginResource("memory", ()), "'memory' is no name for devices"),
        (PluginResource(GPU, (PluginDevice("a"), PluginDevice("a"))), "device 'a' of .* is listed twice"),
        (PluginResource(GPU, (PluginDevice("a", (-2,)),)), "on NUMA node -2, which is no NUMA node's number"),
        (PluginResource(GPU, (PluginDevice("a\x1b[31m" * 50, (-5,)),)), "device 'a[^\x1b]*' of"),
    ],
)
def test_devices_that_cannot_be_are_refused(resource: PluginResource, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        checked(Hardware(machine().numa, (resource,)))


def test_a_resource_listed_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="listed twice"):
        checked(Hardware(machine().numa, (PluginResource(GPU, ()), PluginResource(GPU, ()))))


def test_masks_come_by_size_and_then_by_node() -> None:
    assert [f"{mask:03b}" for mask in mask_order(3)] == ["001", "010", "100", "011", "101", "110", "111"]


def test_sums_are_those_of_the_nodes_in_each_mask() -> None:
    values = [3, 0, 5, 7]
    table = sums(values)
    for mask in range(16):
        assert table[mask] == sum(value for node, value in enumerate(values) if mask >> node & 1)


def test_cores_are_named_by_their_lowest_cpu_and_averaged_by_count() -> None:
    tables = layout(machine(2, 4, threads=2).numa)
    assert tables.cores == (0b11, 0b1100, 0b110000, 0b11000000)
    assert (tables.cpus_per_core, tables.cpus_per_socket, tables.cpus_per_uncore) == (2, 4, 4)
    assert tables.siblings(0b10) == 0b11
    assert tables.cpus_in(0b10) == 0b11110000
