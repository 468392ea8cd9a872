"""Volcano's rule about topology policies."""

from __future__ import annotations

import pytest

from numaware.diagnose.texts import say
from numaware.schedule.filters import volcano_reason
from numaware.schedule.node_facts import NodeFacts
from numaware.workload.pod import Pod, Qos
from numaware.workload.scheduling import VOLCANO_POLICY, Scheduling


def pod(policy: str, qos: Qos = "Guaranteed") -> Pod:
    return Pod("p", qos=qos, scheduling=Scheduling(annotations=((VOLCANO_POLICY, policy),)))


def node(topology: str | None, cpu: str | None) -> NodeFacts:
    return NodeFacts("n", topology_policy=topology, cpu_policy=cpu)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (node("restricted", "static"), None),
        (
            node("best-effort", "static"),
            "task topology policy[restricted] is different with node[best-effort]",
        ),
        (
            node("single-numa-node", "static"),
            "task topology policy[restricted] is different with node[single-numa-node]",
        ),
        (node("restricted", "none"), "cpu manager policy isn't static"),
        (node("none", "none"), "cpu manager policy isn't static"),
        (node(None, None), "numa info is empty"),
    ],
)
def test_a_guaranteed_pod_needs_a_node_of_the_policy_it_names(where: NodeFacts, reason: str | None) -> None:
    refusal = volcano_reason(pod("restricted"), where)
    assert (refusal and say(refusal)) == reason


def test_a_pod_that_names_no_policy_or_is_not_guaranteed_goes_anywhere() -> None:
    nowhere = node(None, None)
    assert volcano_reason(pod("none"), nowhere) is None
    assert volcano_reason(pod(""), nowhere) is None
    assert volcano_reason(Pod("p", qos="Guaranteed"), nowhere) is None
    assert volcano_reason(pod("restricted", "Burstable"), nowhere) is None
