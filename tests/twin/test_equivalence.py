from __future__ import annotations

from msgspec.structs import replace

from numaware.machine.cpuset import CpuSet
from numaware.twin.cpu.static import CpuState
from numaware.twin.equivalence import node_class
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware
from numaware.twin.node import Node
from support.twin_nodes import GI, config, cpus_of, machine, pod


def with_free(node: Node, free: str) -> Node:
    """The node with only these CPUs left beside the reserved CPU 0."""
    cpus = node.kubelet.cpus
    assert cpus is not None
    shared = CpuSet.parse(f"0,{free}").mask
    owned = {"someone": {"app": cpus.pool & ~shared}}
    return Node(node.kubelet, replace(node.state, cpu=CpuState(shared, owned)))


def test_which_of_several_equally_free_cores_is_taken_does_not_matter() -> None:
    node = Node.fresh(machine(1, 8, threads=2), config())
    assert node_class(with_free(node, "2-3,5")) == node_class(with_free(node, "4,6-7"))
    assert node_class(with_free(node, "2-3,5")) != node_class(with_free(node, "3,5,7"))


def test_sockets_that_share_a_numa_node_are_told_apart() -> None:
    """CPUs come from the socket with fewest left, so it matters on which socket the broken core is."""
    places = tuple(CpuPlace(cpu, cpu // 2, cpu // 6) for cpu in range(12))
    node = Node.fresh(Hardware((NumaHardware(0, places, 64 * GI),)), config())
    one, other = with_free(node, "3,6-9"), with_free(node, "2-3,7-9")
    after = [known.admit(pod("u", 1)).node for known in (one, other)]
    assert [cpus_of(known, "u") for known in after] == ["3", "2"]
    assert node_class(after[0]) != node_class(after[1])
    assert node_class(one) != node_class(other)


def test_cores_of_another_size_are_told_apart() -> None:
    places = tuple(CpuPlace(cpu, core, 0) for cpu, core in enumerate((0, 0, 1, 1, 2)))
    node = Node.fresh(Hardware((NumaHardware(0, places, 64 * GI),)), config())
    assert node_class(with_free(node, "2")) != node_class(with_free(node, "4"))
