from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.kube.topology import nrt
from numaware.machine.cpuset import CpuSet
from numaware.schedule import ledger
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.listing import NodeRow, PodRow, node_rows, pod_row, pod_rows
from numaware.twin.node import Node
from support.cache_world import cache_of, complete, counted, ended, live_node, live_pod
from support.twin_nodes import GPU, admitted, config, machine, pod


def gpu_node(policy: str = "best-effort") -> Node:
    """Two NUMA nodes of four CPUs and a GPU each, the first CPU the system's."""
    return Node.fresh(machine(2, 4, devices={GPU: {"g0": (0,), "g1": (1,)}}), config(policy))


def known(node: Node, name: str = "n1") -> ClusterCache:
    cache = cache_of(live_node(node, name))
    cache.put_report(complete(node, name))
    return cache


def only(cache: ClusterCache) -> NodeRow:
    (row,) = node_rows(cache)
    return row


def row_of(cache: ClusterCache, uid: str) -> PodRow:
    found = cache.pod(uid)
    assert found is not None
    return pod_row(cache, found)


# Nodes


def test_a_node_that_an_agent_tells_of_shows_policies_and_numa_nodes() -> None:
    row = only(known(gpu_node("restricted")))
    assert (row.name, row.topology_policy, row.topology_scope) == ("n1", "restricted", "container")
    assert (row.cpu_policy, row.memory_policy, row.known, row.source) == (
        "static",
        "None",
        "complete",
        "numaware",
    )
    assert [(zone.numa, zone.capacity, zone.free_to_pin) for zone in row.zones] == [
        (0, {"cpu": 4, GPU: 1}, {"cpu": 3, GPU: 1}),
        (1, {"cpu": 4, GPU: 1}, {"cpu": 4, GPU: 1}),
    ]


def test_a_node_that_is_counted_shows_only_what_counting_tells() -> None:
    node = admitted(gpu_node("restricted"), pod("a", 2))
    cache = cache_of(live_node(node))
    cache.put_report(counted(node))
    row = only(cache)
    assert (row.known, row.topology_policy, row.memory_policy) == ("counts", "restricted", None)
    assert [zone.free_to_pin["cpu"] for zone in row.zones] == [1, 4]


def test_a_node_that_nobody_tells_of_has_no_numa_nodes_to_show() -> None:
    row = only(cache_of(live_node(gpu_node())))
    assert (row.known, row.source, row.zones, row.topology_policy) == ("none", "", (), None)


def test_what_is_wrong_with_a_topology_stands_beside_its_node() -> None:
    cache = cache_of(live_node(gpu_node()))
    cache.put_report(nrt.decode(b'{"metadata":{"name":"n1"},"zones":[]}'))
    row = only(cache)
    assert row.known == "none"
    assert "lists no zone" in row.problem


def test_pods_that_no_report_shows_yet_are_on_their_way() -> None:
    node = gpu_node()
    cache = known(node)
    cache.put_pod(live_pod(pod("a", 2)))
    assert (only(cache).pods, only(cache).waiting) == (1, 1)
    cache.put_report(complete(admitted(node, pod("a", 2)), generation=2))
    assert (only(cache).pods, only(cache).waiting, only(cache).generation) == (1, 0, 2)


def test_nodes_come_by_name() -> None:
    cache = cache_of(*(live_node(gpu_node(), name, name) for name in ("n2", "n10", "n1")))
    assert [row.name for row in node_rows(cache)] == ["n1", "n10", "n2"]


# Pods


def test_a_pod_shows_where_it_is_and_what_it_owns_there() -> None:
    cache = known(gpu_node())
    cache.put_pod(live_pod(pod("a", 2, gpu=1), phase="Running"))
    row = row_of(cache, "a")
    assert (row.namespace, row.name, row.node, row.phase) == ("default", "a", "n1", "Running")
    assert (row.numa, row.cpus, row.aligned) == ((0,), "1-2", True)


def test_a_pod_on_more_numa_nodes_than_it_needs_is_not_aligned() -> None:
    cache = known(gpu_node())
    for uid, cpus in (("a", 2), ("b", 2), ("c", 3)):
        cache.put_pod(live_pod(pod(uid, cpus)))
    assert [row.aligned for row in pod_rows(cache)] == [True, True, False]
    assert row_of(cache, "c").numa == (0, 1)


def test_a_pod_that_is_too_large_for_one_numa_node_is_aligned_on_two() -> None:
    cache = known(gpu_node())
    cache.put_pod(live_pod(pod("a", 6)))
    assert (row_of(cache, "a").numa, row_of(cache, "a").aligned) == ((0, 1), True)


def test_nobody_can_tell_of_pods_that_own_nothing_wait_or_are_on_nodes_nobody_knows() -> None:
    cache = known(gpu_node())
    cache.put_pod(live_pod(pod("easy")))
    cache.put_pod(live_pod(pod("waits", 2), node=""))
    cache.put_node(live_node(gpu_node(), "n2", "u2"))
    cache.put_pod(live_pod(pod("dark", 2), node="n2"))
    for row in pod_rows(cache):
        assert (row.numa, row.cpus, row.aligned, row.outcome) == ((), "", None, ""), row.name


def test_a_pod_that_its_kubelet_would_never_have_taken_is_not_guessed_at() -> None:
    cache = known(gpu_node("single-numa-node"))
    cache.put_pod(live_pod(pod("astray", 6)))
    row = row_of(cache, "astray")
    assert (row.numa, row.aligned) == ((), None)


def told(node: Node, asking: str, cpus: int) -> str:
    """The placement of the pod that comes next to the node, as annotations hold it."""
    wanted = pod(asking, cpus)
    return ledger.encode(ledger.placement_of(admitted(node, wanted), wanted))


def test_the_outcome_needs_both_sides() -> None:
    node = gpu_node()
    here, there = told(node, "a", 2), told(admitted(node, pod("x", 3)), "a", 2)
    cache = known(node)
    for predicted, observed, outcome in (
        ("", "", ""),
        (here, "", ""),
        ("", here, ""),
        (here, here, "match"),
        (here, there, "wrong_zone"),
        ("{", here, ""),
    ):
        cache.put_pod(live_pod(pod("a", 2), predicted=predicted, observed=observed))
        assert row_of(cache, "a").outcome == outcome
    cache.put_pod(live_pod(pod("a", 2), predicted=here, observed=there))
    assert (row_of(cache, "a").predicted, row_of(cache, "a").observed) == ((0,), (1,))


def test_a_refusal_is_an_outcome_whether_or_not_it_was_foreseen() -> None:
    cache = known(gpu_node())
    refused = ended(live_pod(pod("a", 2)), "Failed", "TopologyAffinityError")
    cache.put_pod(refused)
    assert row_of(cache, "a").outcome == "rejected"
    cache.put_pod(msgspec.structs.replace(refused, predicted=told(gpu_node(), "a", 2)))
    assert row_of(cache, "a").outcome == "rejected"
    assert row_of(cache, "a").numa == ()


# Laws

lives = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans()), max_size=8)


@settings(max_examples=60, deadline=None)
@given(lives, st.sampled_from(["best-effort", "restricted", "none"]))
def test_what_pods_own_and_what_is_free_add_up_to_the_machine(
    sizes: list[tuple[int, int, bool]], policy: str
) -> None:
    """Pods come, some of them go; at the end nothing is shown twice and nothing is missing."""
    node = gpu_node(policy)
    cache = known(node)
    for number, (cpus, gpus, leaves) in enumerate(sizes):
        wanted = pod(f"p{number}", cpus, **({"gpu": gpus} if gpus else {}))
        if cache.engine.ask(wanted, ["n1"])[0].admitted:
            cache.put_pod(live_pod(wanted))
            if leaves:
                cache.drop_pod(wanted.uid)
    rows = list(pod_rows(cache))
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    owned: Counter[int] = Counter()
    for row in rows:
        cpus_of_row = list(CpuSet.parse(row.cpus))
        owned.update(cpus_of_row)
        assert {cpu // 4 for cpu in cpus_of_row} <= set(row.numa)
    assert not [cpu for cpu, times in owned.items() if times > 1]
    for zone in only(cache).zones:
        here = [cpu for cpu in owned if cpu // 4 == zone.numa]
        reserved = 1 if zone.numa == 0 else 0
        assert zone.free_to_pin["cpu"] == zone.capacity["cpu"] - reserved - len(here)
        assert 0 <= zone.free_to_pin[GPU] <= zone.capacity[GPU]
