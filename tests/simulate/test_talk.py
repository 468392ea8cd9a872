"""The lab's modelled talk: the same for the same pods, between services of one node, and planned as an agent plans it."""

from __future__ import annotations

from numaware.serve.console.lab.world import HOUR, LabWorld
from numaware.simulate.pod_churn import pod_of
from numaware.simulate.talk import MIX, talk_of, talking
from numaware.workload.pod import Pod


def services(**counts: int) -> dict[str, Pod]:
    pods = {}
    for name, number in counts.items():
        for index in range(number):
            pod = pod_of(f"services/{name}", f"{name}-{index}", {"cpu": "1", "memory": "1Gi"}, shared=True)
            pods[pod.uid] = pod
    return pods


def test_what_a_service_says_is_spread_over_all_that_it_calls() -> None:
    front = next(calls.rate for calls in MIX if calls.caller == "services/front")
    talk = talk_of(services(front=3, back=2))
    assert len(talk) == 6
    assert 3 * front - 6 <= sum(talk.values()) <= 3 * front
    assert talk == talk_of(services(back=2, front=3))


def test_who_calls_nobody_on_its_node_says_nothing() -> None:
    assert talk_of(services(front=5)) == {}
    assert talk_of(services(other=5, back=1)) == {}


def test_the_plan_for_the_lab_saves_bytes_on_some_nodes_and_none_of_it_costs_more() -> None:
    world = LabWorld(0)
    world.advance(HOUR)
    plans = [talking(member.node).plan for member in world.cluster]
    assert any(plan.moves for plan in plans)
    assert all(plan.across_after <= plan.across_before for plan in plans)
    for member in world.cluster:
        for answer in talking(member.node).plan.moves:
            assert not member.node.state.cpu.owned.get(answer.uid)
