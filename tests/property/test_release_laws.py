"""Laws between kubelets of different releases on one node: files go forwards and backwards, and rules change what they say."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.machine.cpuset import CpuSet, iter_bits
from numaware.twin.cpu.distributed import AccountingError, take_distributed
from numaware.twin.errors import EndlessLoop, KubeletPanic, StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.hardware import CpuPlace, Layout, NumaHardware, layout
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.twin.rules import NEWEST_MINOR
from property.strategies_twin import Step, histories, nodes

RELEASES = st.integers(22, NEWEST_MINOR).map("v1.{}".format)


@st.composite
def lived(draw: st.DrawFn) -> Node:
    node = draw(nodes())
    steps: list[Step] = draw(histories(node, 5))
    for step in steps:
        try:
            node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
        except KubeletPanic:
            break
    return node


@given(node=lived(), version=RELEASES)
def test_a_release_takes_the_files_of_another_with_all_that_is_in_them(node: Node, version: str) -> None:
    """Or it does not know an option, or does not start with this state in any release."""
    files = {name: text.encode() for name, text in state_files(node.kubelet, node.state).items()}
    config = replace(node.kubelet.config, version=version)
    try:
        expected = load_state(node.kubelet, files)
        kubelet = start(node.kubelet.hardware, config)
    except (StartError, KubeletPanic):
        return
    try:
        found = load_state(kubelet, files)
    except StartError as error:
        # Other reserved CPUs may be picked by another release, and before v1.32 groups of memory were compared node by node.
        assert "cpus" in error.message.lower() or "expected machine state" in error.message  # noqa: PT017
        return
    except KubeletPanic:
        return
    assert (found.cpu.owned, found.memory.blocks, found.device.owned) == (
        expected.cpu.owned,
        expected.memory.blocks,
        expected.device.owned,
    )


@given(data=st.data(), sockets=st.sampled_from([1, 2]), group=st.sampled_from([1, 2]))
def test_since_1_37_distributed_cpus_stay_in_one_socket_if_as_many_nodes_of_it_have_room(
    data: st.DataObject, sockets: int, group: int
) -> None:
    """By the words of the rule, not by its code: of the fewest nodes that will do, those of one socket come first."""
    per_socket = data.draw(st.sampled_from([2, 4]))
    tables = layout(
        tuple(
            NumaHardware(
                node, tuple(CpuPlace(4 * node + cpu, cpu // 2, node // per_socket) for cpu in range(4))
            )
            for node in range(sockets * per_socket)
        )
    )
    free = data.draw(st.integers(1, tables.all_cpus)) & tables.all_cpus
    count = data.draw(st.integers(1, max(1, free.bit_count() // group))) * group
    if not 0 < count <= free.bit_count():
        return
    try:
        taken = take_distributed(tables, free, count, group, within_reach=True, by_socket=True)
    except (AccountingError, EndlessLoop):
        return
    assert not taken & ~free
    assert taken.bit_count() == count
    nodes_with = {node: (cpus & free).bit_count() for node, cpus in tables.numas if cpus & free}
    wanted = math.ceil(count / group)
    groups_per_node = math.ceil(math.ceil(tables.cpu_count / group) / len(tables.numas))
    for size in range(math.ceil(wanted / groups_per_node), min(wanted, len(nodes_with)) + 1):
        fitting = [
            combination
            for combination in combinations(nodes_with, size)
            if sum(nodes_with[node] // group * group for node in combination) >= count
        ]
        if not fitting:
            continue
        if any(_sockets(tables, combination) == 1 for combination in fitting) and size <= 3:
            used = [node for node, cpus in tables.numas if cpus & taken]
            assert _sockets(tables, used) == 1, (CpuSet.from_mask(free), count, list(iter_bits(taken)))
        return


def _sockets(tables: Layout, numas: Iterable[int]) -> int:
    touched = 0
    for node in numas:
        touched |= tables.sockets_of_node[tables.ids.index(node)]
    return touched.bit_count()
