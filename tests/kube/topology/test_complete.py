"""Our own attributes: links between devices survive the numbering that readers give them."""

from __future__ import annotations

import msgspec
import pytest

from numaware.kube.topology import complete
from numaware.machine import synthetic
from numaware.twin.config import KubeletConfig
from numaware.twin.hardware import DeviceLink, Hardware, LastCache
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node

GPU = "nvidia.com/gpu"


def attributes(spec: str) -> dict[str, str]:
    return complete.encode(Node.fresh(hardware_of(synthetic.read(spec)), KubeletConfig()), 1)


def read(told: dict[str, str]) -> Hardware:
    report = complete.decode(told)
    assert report is not None
    return report.node.kubelet.hardware


def test_links_are_between_the_same_devices_after_they_were_numbered() -> None:
    assert read(attributes("2x4 +gpu@0,0,1,1")).links == (
        DeviceLink((GPU, "000000"), (GPU, "000001"), "PIX"),
        DeviceLink((GPU, "000002"), (GPU, "000003"), "PIX"),
    )


def test_caches_are_those_of_the_machine() -> None:
    told = attributes("2s x 2c x 2t")
    assert read(told).caches == (LastCache(0b110011, 32 << 20), LastCache(0b11001100, 32 << 20))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("links", [[[GPU, "0000:01:00.0"], [GPU, "0000:09:00.0"], "PIX"]]),
        ("links", [[[GPU, "0000:01:00.0"], [GPU, "0000:01:00.0"], "P" * 9]]),
        ("links", [[0, 1, "PIX"]]),
        ("caches", [[-1, 1]]),
        ("caches", [[1 << 20, 1]]),
        ("caches", [[1, -1]]),
    ],
)
def test_a_link_or_cache_that_cannot_be_is_a_problem(part: str, value: object) -> None:
    told = attributes("2x4 +gpu@0,1")
    machine = msgspec.json.decode(told[complete.MACHINE])
    assert machine["resources"][0]["devices"][0][0] == "0000:01:00.0"
    machine[part] = value
    told[complete.MACHINE] = msgspec.json.encode(machine).decode()
    with pytest.raises(ValueError, match=r"a link|a cache|Expected"):
        complete.decode(told)


def test_the_published_form_is_what_format_2_says() -> None:
    """Whoever changes this changes what other releases read: then `numaware.io/format` has to change too."""
    told = attributes("2x1 +gpu@0")
    assert told[complete.FORMAT] == "2"
    assert msgspec.json.decode(told[complete.KUBELET_SETTINGS]) == {
        "version": "v1.35.0",
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
        "topologyManagerPolicyOptions": {},
        "cpuManagerPolicy": "none",
        "cpuManagerPolicyOptions": {},
        "memoryManagerPolicy": "None",
        "kubeReserved": {},
        "systemReserved": {},
        "evictionHard": {},
        "reservedSystemCPUs": None,
        "reservedMemory": [],
        "featureGates": {},
    }
    assert msgspec.json.decode(told[complete.MACHINE]) == {
        "numa": [
            {"id": 0, "cpus": [[0, 0, 0, None]], "memoryBytes": 64 << 30, "distances": [10, 21]},
            {"id": 1, "cpus": [[1, 1, 1, None]], "memoryBytes": 64 << 30, "distances": [21, 10]},
        ],
        "resources": [{"name": GPU, "devices": [["0000:01:00.0", [0], True]]}],
        "caches": [[1, 32 << 20], [2, 32 << 20]],
    }
    assert told[complete.STATE] == '{"cpu":{"shared":0,"owned":{}}}'
