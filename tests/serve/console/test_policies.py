"""Another kubelet policy tried on a pool: who would not come back, and how many pods would be aligned now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from numaware.serve.console.policies import PolicyWish, try_policy
from numaware.twin.node import Node
from support.twin_nodes import admitted, config, machine, pod


def member(policy: str, *cpus: int) -> Any:
    """A node of two NUMA nodes with eight CPUs each, on which pods with so many CPUs came one after the other."""
    node = Node.fresh(machine(2, 8), config(policy))
    pods = [pod(f"p{number}", count) for number, count in enumerate(cpus)]
    node = admitted(node, *pods)
    return SimpleNamespace(name="n1", node=node)


def test_what_another_policy_means_for_alignment_is_told_before_anything_is_ordered() -> None:
    # Of the last one half is on either NUMA node, as none has six left.
    split = member("best-effort", 5, 4, 5)
    strict = try_policy([split], PolicyWish("n", "restricted", "container"))
    assert (strict.owning, strict.aligned_before, strict.aligned_after, strict.refused) == (3, 2, 2, 1)
    same = try_policy([split], PolicyWish("n", "best-effort", "container"))
    assert (same.aligned_before, same.aligned_after, same.refused) == (2, 2, 0)


def test_a_policy_that_aligns_more_says_so() -> None:
    spread = member("none", 7, 4, 4)
    better = try_policy([spread], PolicyWish("n", "best-effort", "container"))
    assert better.owning == 3
    assert better.aligned_before <= better.aligned_after
