"""What changes for a pod between releases: one small case for each rule that decides about placements."""

from __future__ import annotations

import pytest

from numaware.twin.errors import StartError
from numaware.twin.files import devices_by_node, state_files
from numaware.twin.node import Node, Restart
from numaware.twin.state import cpu, memory
from support.twin_nodes import GI, GPU, admitted, config, cpus_of, machine, pod

BEFORE_37 = ("v1.27.16", "v1.32.13", "v1.35.8", "v1.36.4")


@pytest.mark.parametrize("version", BEFORE_37)
def test_until_1_36_a_pod_that_holds_most_whole_cores_is_refused_after_a_restart(version: str) -> None:
    ((_, verdict),) = _after_restart(version).verdicts
    assert (verdict.admitted, verdict.reason) == (False, "SMTAlignmentError")


def test_since_1_37_what_a_container_has_is_accepted_first() -> None:
    ((_, verdict),) = _after_restart("v1.37.1").verdicts
    assert verdict.admitted


def _after_restart(version: str) -> Restart:
    hardware = machine(1, 8, threads=2)
    node = Node.fresh(hardware, config(version=version, cpu_options=(("full-pcpus-only", "true"),)))
    return admitted(node, pod("a", 4, GI)).restart()


@pytest.mark.parametrize(("version", "cpus"), [("v1.35.8", "1-2,4-7"), ("v1.36.0", "1-6")])
def test_since_1_36_device_hints_stay_on_the_nodes_with_devices(version: str, cpus: str) -> None:
    hardware = machine(2, 4, devices={GPU: {"g0": (0,), "g1": (0,)}})
    node = admitted(Node.fresh(hardware, config("best-effort", version=version)), pod("a", 6, GI, gpu=1))
    assert cpus_of(node, "a") == cpus


@pytest.mark.parametrize("version", ["v1.20.15", "v1.35.8", "v1.36.4"])
def test_a_device_on_a_node_that_the_machine_does_not_have_is_taken_as_the_kubelet_takes_it(
    version: str,
) -> None:
    hardware = machine(2, 4, devices={GPU: {"g0": (0,), "lost": (7,)}})
    node = Node.fresh(hardware, config("best-effort", version=version))
    assert devices_by_node(node.kubelet, GPU, 0b11) == {0: ["g0"], 7: ["lost"]}
    assert node.admit(pod("a", 1, GI, gpu=2)).admitted


def test_devices_that_are_all_on_unknown_nodes_give_no_hint_but_are_handed_out() -> None:
    hardware = machine(2, 4, devices={GPU: {"lost": (7,)}})
    node = Node.fresh(hardware, config("best-effort", version="v1.36.4"))
    assert node.admit(pod("a", 1, GI, gpu=1)).admitted
    restricted = Node.fresh(hardware, config("restricted", version="v1.36.4"))
    assert restricted.admit(pod("a", 1, GI, gpu=1)).reason == "TopologyAffinityError"


def test_files_are_written_as_the_release_writes_them() -> None:
    for version, wrapped in (("v1.36.4", False), ("v1.37.0", True)):
        node = Node.fresh(machine(), config(version=version, memory=True))
        files = state_files(node.kubelet, node.state)
        assert all(('"dataChecksum"' in files[name]) == wrapped for name in (cpu.FILE, memory.FILE))


@pytest.mark.parametrize("version", ["v1.22.17", "v1.25.16", "v1.27.16", "v1.28.0"])
def test_until_1_27_an_unknown_scope_stops_the_kubelet_under_policy_none_too(version: str) -> None:
    settings = config("none", version=version, scope="bogus")
    if version == "v1.28.0":
        Node.fresh(machine(), settings)
        return
    with pytest.raises(StartError, match='unknown scope: "bogus"'):
        Node.fresh(machine(), settings)
