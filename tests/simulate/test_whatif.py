"""Where pods would go, what every node says, and that asking leaves no trace."""

from __future__ import annotations

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.simulate.traces import Trace
from numaware.simulate.whatif import Trial
from support.lab_worlds import cluster, guaranteed, trace

NO_PODS = Trace("none")


def test_pods_are_placed_one_after_the_other_and_the_last_is_told_why_not() -> None:
    pods = [guaranteed(f"p{index}", 5) for index in range(5)]
    found = Trial.of(cluster(2), NO_PODS).ask(pods)
    assert [destiny.node is not None for destiny in found.destinies] == [True, True, True, True, False]
    last = found.destinies[-1]
    assert say(last.message).startswith(
        "0/2 nodes are available: 2 node(s) could not align the pod on NUMA nodes (restricted)."
    )
    assert "nearest miss: node n0 is 2 CPUs short on NUMA 1" in say(last.message)


def test_every_node_says_what_the_pod_would_get_or_why_not() -> None:
    trial = Trial.of(cluster(2), trace(guaranteed("own", 7), guaranteed("other", 7)))
    found = trial.ask([guaranteed("p", 8)])
    said = {answer.node: answer for answer in found.answers}
    full = said["n0"] if said["n0"].placement is None else said["n1"]
    free = said["n1"] if full is said["n0"] else said["n0"]
    assert full.reasons == (Reason("insufficient", ("cpu",)),)
    assert free.placement is not None
    assert [(zone.numa, zone.cpus) for zone in free.placement.zones] == [(1, "8-15")]
    assert found.destinies[0].node == free.node


def test_asking_twice_gives_the_same_answer() -> None:
    trial = Trial.of(cluster(2), NO_PODS)
    pods = [guaranteed(f"p{index}", 6) for index in range(4)]
    assert trial.ask(pods) == trial.ask(pods)


def test_pods_of_the_cluster_itself_that_find_no_place_are_remembered() -> None:
    trial = Trial.of(cluster(1), trace(*(guaranteed(f"own-{index}", 5) for index in range(3))))
    assert [pod.name for pod in trial.waiting] == ["own-2"]
