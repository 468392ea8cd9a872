"""The static policy on a machine so odd that its own arithmetic matters."""

from __future__ import annotations

from numaware.twin.cpu.static import CpuState, StaticCpus
from numaware.twin.hardware import CpuPlace, Layout, NumaHardware
from numaware.twin.options import CpuOptions
from numaware.twin.rules import rules_for
from numaware.twin.topology.hints import Hint
from numaware.workload.demand import ContainerDemand

# (core, socket) of each CPU, NUMA node by NUMA node: a core lies in two nodes, and a node in two sockets.
PLACES = (((0, 0), (0, 1), (2, 1)), ((1, 1), (2, 1), (2, 1)), ((3, 1), (7, 1), (8, 1)))


def test_what_falls_short_is_made_up_for_every_time() -> None:
    """CPUs that are listed twice count twice when they are taken, so three come out for four; the fourth is taken then."""
    layout = Layout(
        tuple(
            NumaHardware(
                node, tuple(CpuPlace(3 * node + index, *place) for index, place in enumerate(places))
            )
            for node, places in enumerate(PLACES)
        )
    )
    cpus = StaticCpus(layout, CpuOptions(), rules_for("1.35.0"), 0, 0)
    free = 0b110001011
    assert cpus.take(free, 4).bit_count() == 3
    wanted = ContainerDemand("app", ends=False, cpus=4, memory=(), devices=())
    first, second = (
        cpus.allocate(CpuState(free, {}), "u", wanted, Hint(0b111, preferred=True)) for _ in range(2)
    )
    assert first == second
    assert first.owned["u"]["app"].bit_count() == 4
