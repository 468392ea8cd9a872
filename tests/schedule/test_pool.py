from __future__ import annotations

from numaware.schedule.cluster import Cluster
from numaware.schedule.evaluation import Evaluator
from numaware.schedule.kinds import kind_of
from numaware.schedule.pool import Pool
from numaware.schedule.profile import Profile
from numaware.workload.pod import Pod
from small_clusters import cluster_of, gpu_node
from twin_nodes import pod

FILL = Profile(medium=(("most-allocated", 1),))


def pool_of(made: Cluster, *names: str) -> Pool:
    """All members, or those with these names."""
    return Pool(
        made, Evaluator(FILL), lambda member: None if not names or member.name in names else "not asked"
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


def test_refusals_are_counted_by_member() -> None:
    made = cluster_of(gpu_node("single-numa-node"), gpu_node("single-numa-node"), gpu_node("restricted"))
    asking = pod("a", 12)
    pool = pool_of(made)
    assert pool.reasons(asking, kind_of(asking)) == {
        "node(s) could not align the pod on NUMA nodes (single-numa-node)": 2
    }
    made.bind(pod("x", 8), "n0")
    assert pool.reasons(asking, kind_of(asking)) == {
        "node(s) could not align the pod on NUMA nodes (single-numa-node)": 1,
        "Insufficient cpu": 1,
    }


def test_forgetting_scores_loses_no_class() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    pool = pool_of(made)
    made.bind(pod("x", 2), "n1")
    assert best(pool, pod("a", 2)) == "n1"
    pool.forget_scores()
    assert best(pool, pod("a", 2)) == "n1"
