"""Our device plugin registered with a real kubelet: the devices of a made machine, handed out as the twin says."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from e2e.control_plane import free_port
from e2e.fake_plugin import FakePlugin
from e2e.kubelet_beside_twin import SideBySide, container, pod
from e2e.program import Program, eventually
from e2e.real_kubelet import RealKubelet
from numaware.machine import synthetic
from numaware.machine.closest_devices import closest
from numaware.machine.nearness import of_functions
from numaware.node.podresources import PodResources
from numaware.twin.state import alloc_response

pytestmark = pytest.mark.e2e

GPU, NIC = "nvidia.com/gpu", "vendor.example/nic"
# Two switches with two GPUs each on both NUMA nodes, and two cards on node 0.
MACHINE = "2s x 1n x 12c +gpu@0a,0a,0b,0b,1a,1a,1b,1b +nic@0,0 mem=16Gi"
CONFIG = {
    "topologyManagerPolicy": "restricted",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
}
PLUGIN = {
    "version": "v1",
    "flags": {"plugin": {"passDeviceSpecs": True}},
    "resources": [
        {"name": GPU, "gpus": {"vendor": "nvidia"}},
        {"name": NIC, "pci": {"class": "0200"}, "replicas": 4},
    ],
}


class OurPlugin(FakePlugin):
    """What the plugin announces under one name, where the others of the kubelet are; it registers itself."""

    prefers = True

    def register(self) -> None:
        pass


class Stage:
    """A kubelet, our plugin beside it, and the twin of both."""

    def __init__(self, folder: Path) -> None:
        machine = synthetic.read(MACHINE)
        drivers = {"030200": "nvidia", "020000": "mlx5_core"}
        pci = tuple(
            replace(function, driver=drivers.get(function.class_code, function.driver))
            for function in machine.pci
        )
        self.kubelet = RealKubelet(folder / "node", replace(machine, pci=pci), CONFIG)
        self.port = free_port()
        config = folder / "plugin.yaml"
        config.write_text(yaml.safe_dump(PLUGIN), encoding="utf-8")
        self.command: list[str | Path] = [
            Path(sys.executable).with_name("numaware"),
            "device-plugin",
            f"--config={config}",
            f"--root={self.kubelet.made}",
            "--no-nvml",
        ]
        self.plugin = Program(
            "plugin",
            [
                *self.command,
                f"--device-plugins={self.kubelet.plugins_folder}",
                f"--listen=127.0.0.1:{self.port}",
                "--seconds=0.5",
                "--log=json",
            ],
            folder / "plugin.log",
        )
        self.machine = self.kubelet.machine()
        functions = {function.address: function for function in self.machine.pci}
        self.gpus = {name: one.numa for name, one in functions.items() if one.class_code == "030200"}
        cards = [name for name, one in functions.items() if one.class_code == "020000"]
        replicas = {f"{card}::{number}": (0,) for card in cards for number in range(4)}
        self.kubelet.plugins = [
            OurPlugin(
                self.kubelet.plugins_folder, GPU, {name: (node or 0,) for name, node in self.gpus.items()}
            ),
            OurPlugin(self.kubelet.plugins_folder, NIC, replicas),
        ]

    def allocatable(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Resource -> device -> NUMA nodes, as PodResources says what can be handed out."""

        async def ask() -> dict[str, dict[str, tuple[int, ...]]]:
            async with PodResources(self.kubelet.podresources) as service:
                told = await service.allocatable()
            found: dict[str, dict[str, tuple[int, ...]]] = {}
            for entry in told.devices if told else ():
                found.setdefault(entry.resource, {}).update(dict.fromkeys(entry.ids, entry.nodes))
            return found

        return asyncio.run(ask())

    def expected(self) -> dict[str, dict[str, tuple[int, ...]]]:
        return {plugin.resource: plugin.devices for plugin in self.kubelet.plugins}

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found, name
        return float(found[1])

    def held(self, name: str) -> dict[str, Any]:
        """Of a pod that runs: resource -> the entry of the kubelet's checkpoint."""
        uid = self.kubelet.pods()[f"{name}-{self.kubelet.name}"]["metadata"]["uid"]
        entries = self.kubelet.state("kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"] or []
        return {entry["ResourceName"]: entry for entry in entries if entry["PodUID"] == uid}

    def ids(self, name: str, resource: str = GPU) -> list[str]:
        return sorted(one for ids in self.held(name)[resource]["DeviceIDs"].values() for one in ids)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    with stage.kubelet, stage.plugin:
        eventually(lambda: stage.allocatable() == stage.expected(), "it is registered", alive=stage.plugin)
        yield stage


@pytest.fixture
def side(stage: Stage) -> Iterator[SideBySide]:
    side = SideBySide(stage.kubelet)
    yield side
    side.clear()


def asking(name: str, gpus: int = 0, nics: int = 0, cpus: int = 1) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "100Mi"}
    amounts |= {resource: str(count) for resource, count in ((GPU, gpus), (NIC, nics)) if count}
    return pod(name, container("app", amounts))


def test_the_kubelet_knows_every_device_with_its_numa_node(stage: Stage) -> None:
    told = stage.allocatable()
    assert told == stage.expected()
    assert sorted(told[GPU].values()) == [(0,)] * 4 + [(1,)] * 4
    assert stage.metric(f'numaware_device_plugin_devices{{health="healthy",numa="1",resource="{GPU}"}}') == 4


def test_pods_get_what_the_twin_promised_and_of_several_gpus_the_closest(
    stage: Stage, side: SideBySide
) -> None:
    nearness = of_functions(stage.machine, {name: name for name in stage.gpus})
    free = set(stage.gpus)
    # Three leave one on node 0, which the next one has to share a NUMA node with nobody for.
    for name, count in (("three", 3), ("two", 2), ("one", 1)):
        assert side.add(asking(name, count)).admitted
        chosen = stage.ids(name)
        (node,) = {stage.gpus[one] for one in chosen}
        assert tuple(chosen) == closest(nearness, [one for one in free if stage.gpus[one] == node], count)
        free -= {*chosen}
    assert not side.add(asking("five", 5)).admitted, "no NUMA node has five, and two are left"


def test_a_container_gets_what_its_runtime_needs(stage: Stage, side: SideBySide) -> None:
    side.add(asking("app", 1, 1))
    (gpu,), (card,) = stage.ids("app"), stage.ids("app", NIC)
    told = {
        resource: alloc_response.decode(base64.b64decode(entry["AllocResp"]))
        for resource, entry in stage.held("app").items()
    }
    index = sorted(stage.gpus).index(gpu)
    assert told[GPU].envs == {"NVIDIA_VISIBLE_DEVICES": str(index)}
    assert [(node.host_path, node.permissions) for node in told[GPU].devices] == [
        (f"/dev/nvidia{index}", "rw")
    ]
    assert told[NIC].envs == {"PCIDEVICE_VENDOR_EXAMPLE_NIC": card.partition("::")[0]}


def test_shared_devices_are_spread_evenly(stage: Stage, side: SideBySide) -> None:
    for number in range(3):
        side.add(asking(f"pair-{number}", nics=2))
        taken = [one.partition("::")[0] for one in stage.ids(f"pair-{number}", NIC)]
        assert len(set(taken)) == 2, "one of each card"


def test_it_registers_again_within_five_seconds_after_the_kubelet_restarted(
    stage: Stage, side: SideBySide, record_property: Any
) -> None:
    side.add(asking("kept", 2, 1))
    before = stage.ids("kept")
    stage.kubelet.stop()
    stage.kubelet.start()
    begin = time.monotonic()
    eventually(lambda: stage.allocatable() == stage.expected(), "it is registered", 5, stage.plugin)
    record_property("measured", f"{time.monotonic() - begin:.2f} s after the kubelet was there again")
    eventually(lambda: stage.ids("kept") == before, "the pod has its devices", alive=stage.kubelet.program)
    side.add(asking("later", 1))


def test_it_registers_again_within_five_seconds_after_its_socket_was_removed(
    stage: Stage, side: SideBySide, record_property: Any
) -> None:
    counter = f'numaware_device_plugin_registrations_total{{resource="{GPU}"}}'
    before = stage.metric(counter)
    (stage.kubelet.plugins_folder / "numaware-nvidia.com_gpu.sock").unlink()
    begin = time.monotonic()
    eventually(lambda: stage.metric(counter) > before, "it has registered again", 5, stage.plugin)
    eventually(lambda: stage.allocatable() == stage.expected(), "nothing is missing", 5, stage.plugin)
    record_property("measured", f"{time.monotonic() - begin:.2f} s after its socket was removed")
    assert side.add(asking("after", 2)).admitted


def test_it_is_back_after_it_was_killed_and_pods_keep_their_devices(stage: Stage, side: SideBySide) -> None:
    side.add(asking("kept", 2))
    before = stage.ids("kept")
    stage.plugin.kill()
    eventually(lambda: GPU not in stage.allocatable(), "the kubelet misses it", alive=stage.kubelet.program)
    stage.plugin.start()
    eventually(lambda: stage.allocatable() == stage.expected(), "it is registered", alive=stage.plugin)
    assert stage.ids("kept") == before


def test_a_device_that_loses_its_driver_or_vanishes_is_reported_and_comes_back(
    stage: Stage, side: SideBySide
) -> None:
    unbound, gone = min(stage.gpus), max(stage.gpus)
    functions = stage.kubelet.made / "sys/bus/pci/devices"
    driver = functions / unbound / "driver"
    target = driver.readlink()
    place = (functions / gone).readlink()

    def without(*missing: str) -> bool:
        return set(stage.allocatable()[GPU]) == stage.gpus.keys() - {*missing}

    driver.unlink()
    eventually(lambda: without(unbound), "the kubelet no longer gives it away", alive=stage.plugin)
    (functions / gone).unlink()
    eventually(lambda: without(unbound, gone), "nor the one that is gone", alive=stage.plugin)
    unhealthy = f'numaware_device_plugin_devices{{health="unhealthy",numa="0",resource="{GPU}"}}'
    assert stage.metric(unhealthy) == 1
    log = stage.plugin.log.read_text()
    assert "lost its driver" in log
    assert "vanished" in log
    driver.symlink_to(target)
    (functions / gone).symlink_to(place)
    eventually(without, "both are back", alive=stage.plugin)


def test_two_resources_that_can_take_one_device_are_one_clear_error_and_no_socket(
    stage: Stage, tmp_path: Path
) -> None:
    config = tmp_path / "plugin.yaml"
    config.write_text(
        'resources:\n- name: x.io/a\n  pci: {vendor: "15b3"}\n- name: x.io/b\n  pci: {class: "0200"}\n'
    )
    done = subprocess.run(
        [stage.command[0], "device-plugin", f"--config={config}", f"--device-plugins={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"numaware: {config}:4: x.io/a and x.io/b can take the same device "
        "(let them differ in vendor, device, class, driver or address)\n"
    )
    assert not list(tmp_path.glob("*.sock"))
