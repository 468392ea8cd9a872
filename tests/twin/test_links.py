"""Links between devices: found by address or by vendor's name, and only where they tell more than NUMA nodes do."""

from __future__ import annotations

from itertools import combinations

import msgspec

from numaware.machine import synthetic
from numaware.machine.topology import Device, Link
from numaware.twin.hardware import DeviceLink
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.links import MOST_DEVICES, links_between

GPU = "nvidia.com/gpu"
NIC = "example.com/vf"
MACHINE = synthetic.read("2x4 +gpu@0,0,1,1 +nic@0")


def words(found: tuple[DeviceLink, ...]) -> dict[tuple[str, str], str]:
    return {(link.a[1], link.b[1]): link.kind for link in found}


def test_devices_named_by_their_address_are_found_on_the_bus() -> None:
    found = hardware_of(MACHINE)
    assert words(found.links) == {
        ("0000:01:00.0", "0000:01:01.0"): "PIX",
        ("0001:01:00.0", "0001:01:01.0"): "PIX",
    }


def test_devices_of_other_resources_are_linked_too() -> None:
    nic = next(device for device in MACHINE.devices if device.kind == "nic")
    gpus = [device for device in MACHINE.devices if device.kind == "gpu"]
    resources = [
        plugin_resource(GPU, {str(device.pci): (device.numa or 0,) for device in gpus}),
        plugin_resource(NIC, {str(nic.pci): (0,)}),
    ]
    found = links_between(MACHINE, resources)
    assert DeviceLink((NIC, str(nic.pci)), (GPU, str(gpus[0].pci)), "PIX") in found
    assert not [link for link in found if link.kind in ("NODE", "SYS")]


def test_what_the_vendors_tool_says_wins_and_its_names_are_known() -> None:
    named = tuple(
        msgspec.structs.replace(device, alias=f"GPU-{index}") if device.kind == "gpu" else device
        for index, device in enumerate(MACHINE.devices)
    )
    gpus = [device for device in named if device.kind == "gpu"]
    links = tuple(Link(a.name, b.name, "NV12") for a, b in combinations(gpus, 2))
    machine = msgspec.structs.replace(MACHINE, devices=named, links=links)
    resource = plugin_resource(GPU, {str(device.alias): () for device in gpus})
    assert set(words(links_between(machine, [resource])).values()) == {"NV12"}
    assert len(links_between(machine, [resource])) == 6


def test_of_devices_that_discovery_does_not_know_nothing_is_said() -> None:
    machine = msgspec.structs.replace(MACHINE, devices=(Device("GPU0", "gpu"),))
    resource = plugin_resource(GPU, {"GPU0": (0,), "a-name-of-its-own": (0,)})
    assert links_between(machine, [resource]) == ()


def test_a_table_that_nobody_could_read_is_not_made() -> None:
    machine = synthetic.read(f"1x2 +gpu@{','.join('0' * (MOST_DEVICES + 1))}")
    assert hardware_of(machine).links == ()
