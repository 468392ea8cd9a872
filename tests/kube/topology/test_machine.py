"""Machines as text: links between devices survive the numbering that readers give them."""

from __future__ import annotations

import msgspec
import pytest

from numaware.kube.topology import machine
from numaware.machine import synthetic
from numaware.twin.config import KubeletConfig
from numaware.twin.hardware import DeviceLink, LastCache
from numaware.twin.inventory import hardware_of

GPU = "nvidia.com/gpu"
CONFIG = machine.encode_config(KubeletConfig(version="v1.35.0"))


def test_links_are_between_the_same_devices_after_they_were_numbered() -> None:
    hardware = hardware_of(synthetic.read("2x4 +gpu@0,0,1,1"))
    assert len(hardware.links) == 2
    kubelet, _ = machine.decode(machine.encode_hardware(hardware), CONFIG)
    assert kubelet.hardware.links == (
        DeviceLink((GPU, "000000"), (GPU, "000001"), "PIX"),
        DeviceLink((GPU, "000002"), (GPU, "000003"), "PIX"),
    )


def test_caches_are_those_of_the_machine() -> None:
    hardware = hardware_of(synthetic.read("2s x 2c x 2t"))
    assert hardware.caches == (LastCache(0b110011, 32 << 20), LastCache(0b11001100, 32 << 20))
    kubelet, _ = machine.decode(machine.encode_hardware(hardware), CONFIG)
    assert kubelet.hardware.caches == hardware.caches


@pytest.mark.parametrize("link", [[0, 9, "PIX"], [0, -1, "PIX"], [0, 1, "P" * 9]])
def test_a_link_that_cannot_be_is_a_problem(link: list[object]) -> None:
    told = msgspec.json.decode(machine.encode_hardware(hardware_of(synthetic.read("2x4 +gpu@0,1"))))
    told["links"] = [link]
    with pytest.raises((ValueError, msgspec.ValidationError)):
        machine.decode(msgspec.json.encode(told).decode(), CONFIG)


def test_a_machine_without_links_is_written_as_before_there_were_any() -> None:
    assert "links" not in machine.encode_hardware(hardware_of(synthetic.read("2x4 +gpu@0,1")))
