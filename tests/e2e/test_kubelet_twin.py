"""The twin against a real kubelet: what it predicts is what happens, on machines and configurations of every kind."""

from __future__ import annotations

import json
import os
import random
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from e2e.kubelet_beside_twin import STARTS_LATER, VERSION, SideBySide, container, pod
from e2e.program import eventually
from e2e.real_kubelet import SYSCTLS, RealKubelet
from numaware.machine import synthetic
from numaware.machine.cpuset import list_form
from numaware.machine.topology import HugePages, Machine
from numaware.twin import kubelet_config
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.inventory import hardware_of
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.workload import manifest
from support.twin_nodes import state_key

pytestmark = pytest.mark.e2e
GPU, NIC = "nvidia.com/gpu", "vendor.example/nic"
MI, GI = 1 << 20, 1 << 30
PAGES = "hugepages-2Mi"


@pytest.fixture
def p100(tmp_path: Path) -> Iterator[SideBySide]:
    """The box of the published allocations: 2 x 14 CPUs, one GPU on node 0, two on node 1, best-effort."""
    config = {
        "topologyManagerPolicy": "best-effort",
        "cpuManagerPolicy": "static",
        "kubeReserved": {"cpu": "100m"},
        "systemReserved": {"cpu": "100m"},
    }
    gpus = {GPU: {"gpu0": (0,), "gpu1": (1,), "gpu2": (1,)}}
    with RealKubelet(tmp_path, synthetic.read("2x14"), config, gpus) as kubelet:
        side = SideBySide(kubelet)
        side.wait_for_devices()
        yield side


def ask(name: str, cpus: int = 0, gpus: int = 0) -> dict[str, Any]:
    amounts = {
        "memory": "100Mi",
        **({"cpu": str(cpus)} if cpus else {}),
        **({GPU: str(gpus)} if gpus else {}),
    }
    return pod(name, container("app", amounts))


def cpus(side: SideBySide, name: str) -> str:
    """From the kubelet's own file."""
    entries = side.kubelet.state("cpu_manager_state")["entries"]
    return str(entries[side.running[f"{name}-node-1"]]["app"])


def gpus(side: SideBySide, name: str) -> dict[int, int]:
    found = side._ask(lambda service: service.pods())
    (one,) = [entry for entry in found if entry.name == f"{name}-node-1"]
    return {entry.nodes[0]: len(entry.ids) for entry in one.containers[0].devices}


def test_the_published_allocations_happen_again(p100: SideBySide) -> None:
    """Each story starts on the empty box; numbers are those that people printed (seeds), with today's merge rule."""
    p100.add(ask("a", 3))
    assert cpus(p100, "a") == "1-3"
    p100.clear()
    p100.add(ask("b", 13))
    assert cpus(p100, "b") == "1-13"
    p100.clear()
    p100.add(ask("c", 14))
    p100.add(ask("d", 12))
    assert (cpus(p100, "c"), cpus(p100, "d")) == ("14-27", "1-12")
    p100.clear()
    p100.add(ask("e", gpus=2))
    assert gpus(p100, "e") == {1: 2}
    p100.clear()
    p100.add(ask("f", 3, 1))
    p100.add(ask("g", 3, 2))
    assert (gpus(p100, "f"), cpus(p100, "f")) == ({0: 1}, "1-3")
    assert (gpus(p100, "g"), cpus(p100, "g")) == ({1: 2}, "14-16")
    p100.clear()
    p100.add(ask("h", 12))
    p100.add(ask("i", 3, 1))
    assert (gpus(p100, "i"), cpus(p100, "i")) == ({1: 1}, "14-16")
    p100.remove("h-node-1")
    p100.add(ask("j", 16, 2))
    assert (gpus(p100, "j"), cpus(p100, "j")) == ({0: 1, 1: 1}, "1-5,17-27")


def test_the_impossible_pod_fails_with_topology_affinity_error(tmp_path: Path) -> None:
    """CPUs are left on node 1 only, memory on node 0 only: the published loop of create and refuse."""
    config = {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "reservedSystemCPUs": "0",
        "systemReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
    }
    with RealKubelet(tmp_path, synthetic.read("2s x 1n x 16c mem=188Gi"), config) as kubelet:
        side = SideBySide(kubelet)
        assert side.add(pod("cpus", container("app", {"cpu": "12", "memory": "10Gi"}))).admitted
        assert side.add(pod("memory", container("app", {"cpu": "4", "memory": "180Gi"}))).admitted
        verdict = side.add(pod("vmstorage", container("app", {"cpu": "8", "memory": "100Gi"})))
        assert (verdict.admitted, verdict.reason) == (False, "TopologyAffinityError")


def test_state_survives_a_restart(p100: SideBySide) -> None:
    p100.add(ask("a", 5, 1))
    p100.add(ask("b", 10))
    p100.kubelet.stop()
    p100.kubelet.start()
    p100.wait_for_devices()
    p100.node = p100.node.restart().node
    p100.add(ask("c", 4, 1))


def test_configz_tells_the_configuration_that_the_file_does(p100: SideBySide) -> None:
    """What the agent reads of a kubelet without a configuration file is as good as the file."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{p100.kubelet.port}/configz"
    with urllib.request.urlopen(url, context=unverified, timeout=10) as stream:
        told = kubelet_config.read(stream.read(), "configz", VERSION).accepted("configz")
    data = p100.kubelet.config_file.read_bytes()
    file = kubelet_config.read(data, "file", VERSION).accepted("file")
    hardware = p100.fresh.kubelet.hardware
    assert told.topology_policy == file.topology_policy == "best-effort"
    assert state_key(Node.fresh(hardware, told))[1:] == state_key(Node.fresh(hardware, file))[1:]
    assert (told.kube_reserved, told.system_reserved, told.eviction_hard) == (
        file.kube_reserved,
        file.system_reserved,
        file.eviction_hard,
    )


def test_the_kubelets_of_these_tests_leave_the_machine_alone(p100: SideBySide) -> None:
    """The kubelet sets sysctls at its start; those of the machine stay what they were."""
    copies = [p100.kubelet.folder / "sysctl" / str(number) for number in range(len(SYSCTLS))]
    assert copies[0].read_text().strip() == "1", "the kubelet wrote to the cover"
    log = (p100.kubelet.folder / "kubelet.log").read_text()
    assert "Updating kernel flag" in log
    for sysctl, before in p100.kubelet.sysctls.items():
        assert Path(f"/proc/sys/{sysctl}").read_text() == before


# Random sequences. NUMAWARE_SEQUENCES asks for more of them than `make e2e` has time for, NUMAWARE_RESTARTS for kubelets that
# play three with a restart each.
SEQUENCES = int(os.environ.get("NUMAWARE_SEQUENCES", "240"))
PER_KUBELET = 12
# No more than four NUMA nodes: the kubelet tries every combination of hints, and with six of them a pod that asks for five
# kinds of things keeps it busy for more than half a minute. Eight are for pods that ask for two kinds at most.
WIDE = ("2s x 4n x 2c x 2t mem=4Gi", "8s x 1n x 4c mem=4Gi", "1s x 8n x 3c mem=4Gi")
MACHINES = (
    "2x14",
    "2s x 1n x 4c x 2t mem=16Gi",
    "2s x 2n x 3c x 2t mem=8Gi",
    "1s x 1n x 8c x 2t mem=16Gi",
    "4s x 1n x 4c mem=8Gi",
    "1s x 4n x 2c x 2t mem=4Gi",
    "3s x 1n x 6c mem=8Gi",
)
CPU_OPTIONS = (
    "full-pcpus-only",
    "distribute-cpus-across-numa",
    "align-by-socket",
    "distribute-cpus-across-cores",
    "strict-cpu-reservation",
    "prefer-align-cpus-by-uncorecache",
)


class Case:
    """One machine, configuration and set of devices, all by chance; only such as a kubelet would start with.

    On a `wide` machine only CPUs and one kind of device have places.
    """

    def __init__(self, chance: random.Random, *, wide: bool = False) -> None:
        while True:
            self.machine = synthetic.read(chance.choice(WIDE if wide else MACHINES))
            if not wide:
                self.machine = _with_pages(chance, self.machine)
            self.config = _config(chance, self.machine)
            if wide:
                self.config.pop("memoryManagerPolicy", None)
                self.config.pop("reservedMemory", None)
            found = kubelet_config.read(_json(self.config), "config", VERSION)
            try:
                if not found.refused:
                    self.kubelet = start(hardware_of(self.machine, []), found.config)
                    break
            except StartError:
                continue
        nodes = [node.id for node in self.machine.numa]
        self.devices: dict[str, dict[str, tuple[int, ...]]] = {}
        for resource in chance.sample([GPU, NIC], chance.randint(0, 1 if wide else 2)):
            placed = chance.random() < 0.85
            self.devices[resource] = {
                f"{resource[:3]}-{number}": (chance.choice(nodes),) if placed else ()
                for number in range(chance.randint(1, 6))
            }


def _json(config: dict[str, Any]) -> bytes:
    return json.dumps(
        {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **config}
    ).encode()


def _with_pages(chance: random.Random, machine: Machine) -> Machine:
    if chance.random() < 0.5:
        return machine
    nodes = tuple(
        replace(node, hugepages=(HugePages(2 * MI, count := chance.choice([0, 128, 256]), count),))
        for node in machine.numa
    )
    return replace(machine, numa=nodes)


def _config(chance: random.Random, machine: Machine) -> dict[str, Any]:
    options = {name: "true" for name in CPU_OPTIONS if chance.random() < 0.25}
    config: dict[str, Any] = {
        "topologyManagerPolicy": chance.choice(
            ["none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node"]
        ),
        "topologyManagerScope": chance.choice(["container", "pod"]),
        "cpuManagerPolicy": "static",
        "systemReserved": {"cpu": chance.choice(["1", "1500m", "2"]), "memory": "1Gi"},
        "evictionHard": {"memory.available": "100Mi"},
        "featureGates": {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True},
    }
    if options:
        config["cpuManagerPolicyOptions"] = options
    if chance.random() < 0.3 and config["topologyManagerPolicy"] != "none":
        config["topologyManagerPolicyOptions"] = {"prefer-closest-numa-nodes": "true"}
    if chance.random() < 0.4:
        online = list(machine.online)
        config["reservedSystemCPUs"] = list_form(sum(1 << cpu for cpu in chance.sample(online, 2)))
        del config["systemReserved"]["cpu"]
    if chance.random() < 0.7:
        config["memoryManagerPolicy"] = "Static"
        first = chance.choice([1124, 612])
        config["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": f"{first}Mi"}}]
        if first < 1124:
            config["reservedMemory"].append({"numaNode": machine.numa[-1].id, "limits": {"memory": "512Mi"}})
    return config


class Wishes:
    """Makes pods that the node as a whole has room for: others are refused before any NUMA node is looked at."""

    def __init__(self, chance: random.Random, side: SideBySide, case: Case) -> None:
        self.chance = chance
        self.side = side
        pages = sum(pool.size_bytes * pool.total for node in case.machine.numa for pool in node.hugepages)
        self.room = {
            "cpu": len(case.machine.online) - -(-side.node.kubelet.reservation["cpu"].milli_value // 1000),
            "memory": sum(node.memory_bytes or 0 for node in case.machine.numa) - pages - 1124 * MI,
            PAGES: pages,
            **{resource: len(devices) for resource, devices in case.devices.items()},
        }
        self.taken: dict[str, dict[str, int]] = {}

    def next(self) -> dict[str, Any]:
        chance = self.chance
        left = {
            name: most - sum(taken.get(name, 0) for taken in self.taken.values())
            for name, most in self.room.items()
        }
        # A name used before would have to wait until the pod that had it is gone for good.
        name = f"p{self.side.steps}"
        init: tuple[dict[str, Any], ...] = ()
        if chance.random() < 0.06 and STARTS_LATER:
            init = (
                self._container("init", left, command=["exit"])
                if chance.random() < 0.5
                else self._container("sidecar", left, restartPolicy="Always"),
            )
        made = pod(
            name,
            *(self._container(f"c{number}", left) for number in range(chance.choice([1, 1, 1, 2, 3]))),
            init=init,
        )
        whole = {
            key: most - sum(taken.get(key, 0) for taken in self.taken.values())
            for key, most in self.room.items()
        }
        self.taken[f"{name}-{self.side.kubelet.name}"] = {key: whole[key] - left[key] for key in whole}
        return made

    def _container(self, name: str, left: dict[str, int], **more: Any) -> dict[str, Any]:
        """Takes from `left` what it asks for."""
        chance = self.chance
        whole = max(2, self.room["cpu"] // 3)
        most = min(left["cpu"] - 1, chance.choice([2, whole, self.room["cpu"]]))
        amounts: dict[str, str] = {}
        if most >= 1 and chance.random() < 0.95:
            number = chance.randint(1, most)
            fraction = chance.random() < 0.1
            amounts["cpu"] = f"{number * 1000 - 500}m" if fraction else str(number)
            left["cpu"] -= number
        bytes_left = left["memory"] // MI - 64
        size = chance.randint(
            1, max(1, min(bytes_left, chance.choice([64, 1024, bytes_left // 2 or 1, bytes_left])))
        )
        amounts["memory"] = f"{size}Mi"
        left["memory"] -= size * MI
        if left[PAGES] and chance.random() < 0.3:
            pages = chance.randint(1, left[PAGES] // (2 * MI))
            amounts[PAGES] = str(pages * 2 * MI)
            left[PAGES] -= pages * 2 * MI
        for resource in (GPU, NIC):
            if left.get(resource, 0) and chance.random() < 0.4:
                number = chance.randint(1, left[resource])
                amounts[resource] = str(number)
                left[resource] -= number
        if chance.random() < 0.12:
            # Burstable: neither CPUs nor memory of its own, devices all the same.
            bound = {key: text for key, text in amounts.items() if key not in ("cpu", "memory")}
            return container(name, amounts, limits=bound, **more)
        return container(name, amounts, **more)


@pytest.mark.parametrize("number", range(-(-SEQUENCES // PER_KUBELET)))
def test_random_pods_land_where_the_twin_says(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(number)  # noqa: S311 - the same pods in every run
    told = play(chance, Case(chance), tmp_path, PER_KUBELET)
    record_property("measured", f"kubelet {number}: {told}, all as the twin said")


@pytest.mark.parametrize("number", range(10))
def test_random_pods_land_where_the_twin_says_on_eight_numa_nodes(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(8000 + number)  # noqa: S311 - the same pods in every run
    told = play(chance, Case(chance, wide=True), tmp_path, PER_KUBELET // 2)
    record_property("measured", f"kubelet with eight NUMA nodes {number}: {told}, all as the twin said")


def play(chance: random.Random, case: Case, folder: Path, sequences: int) -> str:
    """Sequences of pods that come and go, on the kubelet and the twin alike; how many were taken and how many not."""
    admitted = refused = 0
    with RealKubelet(folder, case.machine, case.config, case.devices) as kubelet:
        side = SideBySide(kubelet)
        side.wait_for_devices()
        for _ in range(sequences):
            side.clear()
            wishes = Wishes(chance, side, case)
            for _ in range(chance.randint(4, 9)):
                if side.running and chance.random() < 0.25:
                    name = chance.choice(sorted(side.running))
                    side.remove(name)
                    del wishes.taken[name]
                    continue
                asked = wishes.next()
                if side.add(asked).admitted:
                    admitted += 1
                else:
                    refused += 1
                    wishes.taken.pop(f"{asked['metadata']['name']}-{kubelet.name}")
    assert admitted
    return f"{admitted} admitted, {refused} refused"


@pytest.mark.parametrize("number", range(int(os.environ.get("NUMAWARE_RESTARTS", "6"))))
def test_random_pods_keep_what_they_have_when_the_kubelet_restarts(number: int, tmp_path: Path) -> None:
    """Without devices: those of a plugin that has not come back yet are no device manager's to judge."""
    chance = random.Random(1000 + number)  # noqa: S311 - the same pods in every run
    case = Case(chance)
    case.devices = {}
    with RealKubelet(tmp_path, case.machine, case.config) as kubelet:
        side = SideBySide(kubelet)
        for _ in range(3):
            side.clear()
            wishes = Wishes(chance, side, case)
            for _ in range(3):
                asked = wishes.next()
                if not side.add(asked).admitted:
                    wishes.taken.pop(f"{asked['metadata']['name']}-{kubelet.name}")
            side.restart()
            side.add(wishes.next())


def renumbered(machine: Machine, *ids: int) -> Machine:
    """The machine with other numbers for its NUMA nodes."""
    new = {node.id: number for node, number in zip(machine.numa, ids, strict=True)}
    numa = tuple(
        replace(node, id=new[node.id], distances=tuple((new[to], far) for to, far in node.distances))
        for node in machine.numa
    )
    return replace(
        machine, numa=numa, cpus=tuple(replace(cpu, numa=new[cpu.numa or 0]) for cpu in machine.cpus)
    )


@pytest.mark.parametrize(
    ("policy", "amounts"),
    [
        ("none", {"cpu": "2", "memory": "100Mi"}),
        ("restricted", {"cpu": "2", "memory": "100Mi"}),
        ("restricted", {"memory": "100Mi"}),
    ],
)
def test_a_numa_node_beyond_the_masks_crashes_both_where_masks_are_made(
    tmp_path: Path, policy: str, amounts: dict[str, str]
) -> None:
    machine = renumbered(synthetic.read("2x4 mem=8Gi"), 0, 70)
    config = {"topologyManagerPolicy": policy, "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    with RealKubelet(tmp_path, machine, config) as kubelet:
        side = SideBySide(kubelet)
        assert side.fresh.kubelet.layout.ids == (0, 70)
        body = pod("first", container("app", amounts))
        if policy == "none":
            side.add(body)
            return
        with pytest.raises(KubeletPanic) as crash:
            side.fresh.admit(manifest.first(json.dumps(body).encode(), "pod.json").pod)
        (kubelet.manifests / "first.json").write_text(json.dumps(body), encoding="utf-8")
        eventually(lambda: not kubelet.program.running, "the kubelet has crashed", 60)
        assert f"panic: {crash.value}" in kubelet.program.log.read_text(encoding="utf-8")
