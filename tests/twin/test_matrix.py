"""The truth table of tests/MATRIX.md, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, admitted, config, container, machine, pod, pod_of

TABLE = (Path(__file__).parents[1] / "MATRIX.md").read_text(encoding="utf-8")
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
ROWS: dict[str, list[str]] = {
    name: [cell.strip() for cell in cells.split("|")]
    for name, cells in re.findall(r"^\| (\w+) \|[^|]*\|([^|]*\|[^|]*\|[^|]*\|[^|]*)\|$", TABLE, re.MULTILINE)
    if name != "row"
}

# Two NUMA nodes of 8 CPUs, 16Gi and two GPUs each; CPU 0 and 1Gi of node 0 are kept for the system.
BOX = machine(2, 8, memory=16 * GI, devices={GPU: {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}})
TWO = pod_of("u", container("a", {"cpu": 6, "memory": GI}), container("b", {"cpu": 6, "memory": GI}))

# What runs already, and what is asked for.
SITUATIONS: dict[str, tuple[tuple[Pod, ...], Pod]] = {
    "one": ((), pod("u", 4, 4 * GI, gpu=1)),
    "full": ((pod("a", 7),), pod("u", 4, 4 * GI, gpu=1)),
    "busy": ((pod("a", 4), pod("b", 5)), pod("u", 6)),
    "both": ((), pod("u", 10)),
    "all": ((), pod("u", 10, 20 * GI, gpu=3)),
    "apart": ((), pod("u", 4, gpu=3)),
    "halves": ((pod("a", 7), pod("b", 1, gpu=2)), pod("u", 4, gpu=2)),
    "cpus": ((), pod("u", 16)),
    "gpus": ((), pod("u", 2, gpu=5)),
    "memory": ((), pod("u", 2, 40 * GI)),
    "two": ((), TWO),
    "effortless": ((), pod("u", gpu=3)),
}


def outcome(policy: str, scope: str, running: tuple[Pod, ...], asked: Pod) -> str:
    """`1` and `2`: admitted on so many nodes. `T`, `U`: refused with TopologyAffinity- or UnexpectedAdmissionError."""
    node = admitted(Node.fresh(BOX, config(policy, scope=scope, memory=True)), *running)
    verdict = node.admit(asked)
    if not verdict.admitted:
        return verdict.reason[0]
    layout, state = node.kubelet.layout, verdict.held
    nodes = 0
    for cpus in state.cpu.owned.get("u", {}).values():
        nodes |= sum(1 << position for position, mask in enumerate(layout.node_cpus) if mask & cpus)
    for blocks in state.memory.blocks.get("u", {}).values():
        for block in blocks:
            nodes |= block.nodes
    for resources in state.device.owned.get("u", {}).values():
        inventory = node.kubelet.devices.inventories[GPU]
        held = resources.get(GPU, 0)
        nodes |= sum(1 << position for position, mask in enumerate(inventory.on_node) if mask & held)
    return str(nodes.bit_count())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("row", SITUATIONS)
def test_the_table_holds(row: str, policy: str) -> None:
    cell = ROWS[row][POLICIES.index(policy)]
    scopes = [outcome(policy, scope, *SITUATIONS[row]) for scope in ("container", "pod")]
    assert cell == (scopes[0] if scopes[0] == scopes[1] else "/".join(scopes))


def test_no_row_goes_untested() -> None:
    assert ROWS.keys() == SITUATIONS.keys()
