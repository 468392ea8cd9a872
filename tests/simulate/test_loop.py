"""The lab's loop: the same however it is moved along, and kubelets that a scheduler cannot talk into anything."""

from __future__ import annotations

from itertools import count

from msgspec.structs import replace

from numaware.schedule.engine import Decision
from numaware.schedule.ledger import placement_of
from numaware.simulate.clusters import build
from numaware.simulate.loop import Admission, Arrived, GaveUp, Happening, LabLoop, Waits
from numaware.simulate.policies import POLICIES, Ours, Policy, Setting
from numaware.simulate.traces import SECOND, Arrival, Trace, arrivals
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod
from support.lab_worlds import cluster, guaranteed, trace

FOREVER = 10**9


def loop(
    played: Trace,
    policy: str | type[Ours] = "numaware",
    nodes: int = 1,
    recreations: int = 2,
    patience: int | None = None,
) -> LabLoop:
    twins = build(cluster(nodes, "single-numa-node"))
    scheduler: Policy = POLICIES[policy](Setting(twins, (), 1)) if isinstance(policy, str) else policy(twins)
    coming = arrivals(played, 1, "", 0)
    return LabLoop(twins, scheduler, coming, recreations=recreations, patience=patience)


def told(happenings: list[Happening]) -> list[tuple[object, ...]]:
    """What happened, without the values that are equal only if they are the same."""
    return [
        (type(one).__name__, one.pending.pod.uid, one.node, one.verdict.reason)
        if isinstance(one, Admission)
        else (type(one).__name__, *one)
        for one in happenings
    ]


PODS = trace(*(guaranteed(f"p{index}", 3 + index % 5) for index in range(30)), lifetime=9 * SECOND)


def test_it_is_the_same_life_in_one_go_and_in_small_steps() -> None:
    whole = loop(PODS, "kube-scheduler", 2)
    at_once = list(whole.advance(FOREVER))
    by_step = loop(PODS, "kube-scheduler", 2)
    in_steps = [one for moment in range(0, 200_000, 300) for one in by_step.advance(moment)]
    assert told(in_steps) == told(at_once)
    assert not whole.running
    assert any(isinstance(one, Admission) and not one.verdict.admitted for one in at_once)


def test_pods_are_taken_from_an_endless_stream_as_they_come() -> None:
    twins = build(cluster(1))
    stream = (Arrival(number * SECOND, guaranteed(f"p{number}", 1), "web", None) for number in count())
    lab = LabLoop(twins, Ours(twins), stream, recreations=0)
    assert sum(isinstance(one, Arrived) for one in lab.advance(SECOND)) == 2
    assert (lab.now, len(lab.running)) == (SECOND, 2)


def test_who_has_waited_too_long_is_given_up() -> None:
    pods = trace(guaranteed("a", 7), guaranteed("b", 8), guaranteed("c", 8), lifetime=60 * SECOND)
    patient, impatient = loop(pods), loop(pods, patience=50 * SECOND)
    assert not any(isinstance(one, GaveUp) for one in patient.advance(61 * SECOND))
    given_up = [one.pending.pod.name for one in impatient.advance(62 * SECOND) if isinstance(one, GaveUp)]
    assert given_up == ["c"]


def test_a_scheduler_can_be_replaced_while_pods_run() -> None:
    lab = loop(
        trace(guaranteed("a", 5), guaranteed("b", 5), guaranteed("c", 5)), "kube-scheduler", recreations=0
    )
    list(lab.advance(SECOND))
    assert len(lab.running) == 2
    lab.policy = Ours(lab.cluster)
    happened = list(lab.advance(FOREVER))
    assert any(isinstance(one, Waits) for one in happened)
    assert not any(isinstance(one, Admission) for one in happened), "ours sees that the third does not align"


# Schedulers that are wrong


class Misled(Ours):
    """Foresees another NUMA node than the kubelet will take."""

    def decide(self, pod: Pod, now: int) -> Decision:
        return replace(super().decide(pod, now), hints=(Hint(0b10, True),))


class Reckless(Ours):
    """Sends every pod to the first node, sure that it fits."""

    def decide(self, pod: Pod, now: int) -> Decision:  # noqa: ARG002 - it does not even look at the clock
        return Decision(pod, "n0", 0, (Hint(0b11, True),))


def test_a_place_that_was_foreseen_wrongly_is_seen_and_put_right() -> None:
    lab = loop(trace(guaranteed("a", 4), guaranteed("b", 4)), Misled)
    first, second = (one for one in lab.advance(FOREVER) if isinstance(one, Admission))
    node = lab.cluster.by_name["n0"].node
    for admission, numa in ((first, 0), (second, 1)):
        pod = admission.pending.pod
        foreseen, came = placement_of(admission.foreseen(), pod), placement_of(admission.verdict.node, pod)
        assert [zone.numa for zone in foreseen.zones] == [1]
        assert [zone.numa for zone in came.zones] == [numa] if numa == 0 else came == foreseen
        assert placement_of(node, pod) == came, "what counts afterwards is what the kubelet did"


def test_a_kubelet_refuses_what_a_reckless_scheduler_sends_and_holds_nothing_of_it() -> None:
    lab = loop(trace(guaranteed("wide", 10)), Reckless)
    answers = [one for one in lab.advance(FOREVER) if isinstance(one, Admission)]
    assert [one.verdict.reason for one in answers] == ["TopologyAffinityError"] * 3
    assert all(placement_of(one.foreseen(), one.decision.pod).zones for one in answers)
    assert not lab.running
    assert not lab.cluster.where
    assert lab.cluster.by_name["n0"].load.used == {}
