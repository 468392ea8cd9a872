from __future__ import annotations

import pytest

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Cluster
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.need import Need
from numaware.schedule.pod_kinds import kind_of
from numaware.schedule.pool import Pool
from numaware.schedule.profile import Profile
from numaware.schedule.room import WHOLE
from numaware.schedule.stranding import Mix
from numaware.twin.node import Node, Verdict
from numaware.workload.pod import NANO, Container, Pod
from support.small_clusters import cluster_of, facts_of, gpu_node
from support.twin_nodes import GI, container, pod, pod_of

FILL = Profile(medium=(("most-allocated", 1),))


def pool_of(made: Cluster, *names: str) -> Pool:
    """All members, or those with these names."""
    return Pool(
        made,
        Evaluator(FILL),
        lambda member: None if not names or member.name in names else Reason("node-name"),
    )


def best(pool: Pool, asking: Pod) -> str | None:
    found = pool.best(asking, kind_of(asking))
    return found[0].name if found else None


def test_of_equal_members_the_first_is_the_best() -> None:
    assert best(pool_of(cluster_of(gpu_node(), gpu_node())), pod("a", 2)) == "n0"


def test_only_members_of_the_pool_are_considered() -> None:
    assert best(pool_of(cluster_of(gpu_node(), gpu_node()), "n1"), pod("a", 2)) == "n1"


def test_a_pool_sees_what_happened_to_its_members_since_it_was_asked() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    pool = pool_of(made)
    assert best(pool, pod("a", 2)) == "n0"
    made.bind(pod("x", 2), "n1")
    assert best(pool, pod("a", 2)) == "n1"
    made.release("x")
    assert best(pool, pod("a", 2)) == "n0"


def test_a_class_that_was_left_and_entered_again_is_found_again() -> None:
    made = cluster_of(gpu_node())
    pool = pool_of(made)
    assert best(pool, pod("a", 8)) == "n0"
    made.bind(pod("x", 7), "n0")
    made.bind(pod("y", 8), "n0")
    assert best(pool, pod("a", 8)) is None
    made.release("y")
    assert best(pool, pod("a", 8)) == "n0"


def test_the_lowest_member_wins_among_classes_of_one_score() -> None:
    """Two kinds of nodes that score alike: which was seen first must not matter."""
    made = cluster_of(gpu_node("none"), gpu_node("best-effort"), gpu_node("none"))
    pool = Pool(made, Evaluator(Profile(medium=(("distance", 1),))), lambda _: None)
    assert best(pool, pod("a", 2)) == "n0"


def test_each_member_answers_and_so_does_one_that_is_not_there() -> None:
    made = cluster_of(gpu_node("single-numa-node"), gpu_node("single-numa-node"), gpu_node("restricted"))
    asking = pod("a", 12)
    pool = pool_of(made)

    def reasons() -> list[tuple[Reason, ...]]:
        return [answer.reasons for answer in pool.answers(asking, kind_of(asking), ["n0", "n1", "n2", "n3"])]

    strict, nobody = (Reason("numa-alignment", ("single-numa-node",)),), (Reason("node-unknown"),)
    assert reasons() == [strict, strict, (), nobody]
    made.bind(pod("x", 8), "n0")
    assert reasons() == [(Reason("insufficient", ("cpu",)),), strict, (), nobody]


def test_forgetting_scores_loses_no_class() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    pool = pool_of(made)
    made.bind(pod("x", 2), "n1")
    assert best(pool, pod("a", 2)) == "n1"
    pool.forget_scores()
    assert best(pool, pod("a", 2)) == "n1"


def test_a_member_that_enters_a_class_under_a_lower_name_comes_first() -> None:
    made = cluster_of(gpu_node(), gpu_node(), gpu_node())
    for name in ("n0", "n1"):
        made.bind(pod(name, 2), name)
    pool = pool_of(made, "n0", "n1")
    assert best(pool, pod("a", 2)) == "n0"
    made.release("n0")
    assert best(pool, pod("a", 2)) == "n1"
    made.bind(pod("again", 2), "n0")
    assert best(pool, pod("a", 2)) == "n0"


def test_a_member_that_is_dropped_or_kept_out_is_not_found_and_one_that_is_let_in_is() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    cordoned = Reason("unschedulable")
    pool = Pool(made, Evaluator(FILL), lambda member: cordoned if member.facts.unschedulable else None)
    asking = pod("a", 2)

    def reasons() -> tuple[Reason, ...]:
        return pool.answers(asking, kind_of(asking), ["n0"])[0].reasons

    made.put(facts_of("n0", gpu_node(), unschedulable=True))
    assert (best(pool, asking), reasons()) == ("n1", (cordoned,))
    made.put(facts_of("n0", gpu_node()))
    assert (best(pool, asking), reasons()) == ("n0", ())
    made.drop("n0")
    assert (best(pool, asking), reasons()) == ("n1", (Reason("node-unknown"),))


def test_members_that_come_and_go_do_not_pile_up_in_a_class() -> None:
    """The first member hides the names of those that have moved on; they are thrown out all the same."""
    made = cluster_of(gpu_node(), gpu_node())
    pool = pool_of(made)
    for number in range(100):
        made.bind(pod(f"p{number}", 2), "n1")
        assert best(pool, pod("a", 2)) == "n1"
        made.release(f"p{number}")
        assert best(pool, pod("a", 2)) == "n0"
    assert max(len(some.names) for some in pool._classes.values()) < 50


_HALF = (("cpu", NANO // 2), ("memory", GI * NANO))
# Of two containers the kubelet is asked, even if one owns nothing.
_TWO = pod_of("a", container("app", {"cpu": 2, "memory": GI}), Container("beside", _HALF, _HALF))


@pytest.mark.parametrize(("asking", "expected"), [(_TWO, [["p5"]]), (pod("a", 2), [])], ids=["two", "one"])
def test_most_classes_are_never_asked_and_none_where_its_answer_is_certain(
    monkeypatch: pytest.MonkeyPatch, asking: Pod, expected: list[list[str]]
) -> None:
    made = cluster_of(*[gpu_node()] * 8)
    for number in range(1, 8):
        made.bind(pod(f"p{number}", number), f"n{number}")
    admit, asked = Node.admit, []

    def asked_to_admit(node: Node, asking: Pod) -> Verdict:
        asked.append(sorted(node.state.pods))
        return admit(node, asking)

    monkeypatch.setattr(Node, "admit", asked_to_admit)
    pool = pool_of(made)
    pool.evaluator.learn(Mix({Need(2, 1, 1, WHOLE): 1}))
    assert best(pool, asking) == "n5"
    assert asked == expected
