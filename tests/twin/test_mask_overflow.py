"""NUMA ids beyond the 64 bits of the kubelet's masks, on a captured POWER machine whose GPUs have memory nodes 250 to 255.

What v1.35.8 does there was seen on the kubelet itself (`tests/e2e/test_kubelet_twin.py`).
"""

from __future__ import annotations

import msgspec
import pytest

from numaware.kube.topology import nrt, publish
from numaware.machine import sysfs
from numaware.machine.tree import open_tree
from numaware.twin.errors import KubeletPanic
from numaware.twin.hardware import Hardware, PluginDevice, PluginResource
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node
from support.shared_data import shared
from support.twin_nodes import GPU, config, cpus_of, pod

IN_HINTS = "invalid memory address or nil pointer dereference"
IN_MERGE = "interface conversion: bitmask.BitMask is nil"


def power(*, gpus: bool = False) -> Hardware:
    """Two NUMA nodes with CPUs (0 and 8), six of GPU memory (250 to 255)."""
    archive = shared("data", "topologies", "nvidiagpunumanodes", "nvidiagpunumanodes.tar.bz2")
    devices = tuple(PluginDevice(f"gpu-{number}", (8 * (number // 3),)) for number in range(6))
    return hardware_of(sysfs.read(open_tree(archive)), [PluginResource(GPU, devices)] if gpus else [])


def test_without_hints_such_a_kubelet_works() -> None:
    node = Node.fresh(power(gpus=True), config())
    assert node.kubelet.layout.ids == (0, 8, 250, 251, 252, 253, 254, 255)
    verdict = node.admit(pod("a", 4, gpu=1))
    assert verdict.admitted
    assert cpus_of(verdict.node, "a")


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_with_a_policy_it_starts_and_crashes_on_the_first_pod(policy: str, scope: str) -> None:
    node = Node.fresh(power(gpus=True), config(policy, scope=scope))
    # CPU hints go over the nodes with CPUs alone, so that the merge is what crashes; devices may be anywhere.
    for asking, text in (
        (pod("easy"), IN_MERGE),
        (pod("a", 4), IN_MERGE),
        (pod("b", 4, gpu=1), IN_HINTS),
    ):
        with pytest.raises(KubeletPanic, match=text):
            node.admit(asking)


def test_static_memory_crashes_it_for_pods_that_own_memory_and_only_for_those() -> None:
    node = Node.fresh(power(), config(memory=True))
    assert node.admit(pod("easy")).admitted
    with pytest.raises(KubeletPanic, match=IN_HINTS):
        node.admit(pod("a", 4))


@pytest.mark.parametrize("policy", ["none", "restricted"])
def test_it_is_published_whatever_its_policy(policy: str) -> None:
    node = Node.fresh(power(gpus=True), config(policy))
    document = publish.encode("power", node, 1)
    assert [zone["name"] for zone in document["zones"]][-1] == "node-255"
    report = nrt.decode(msgspec.json.encode(document))
    assert report.complete is not None, report.problem
    assert report.complete.node.kubelet.layout.ids == node.kubelet.layout.ids
