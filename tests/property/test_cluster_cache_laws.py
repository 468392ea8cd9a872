"""Laws of the cluster cache: it has the kubelet's books, and it does not matter by which way news came first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from numaware.kube.topology.report import Report
from numaware.serve.cluster_cache import ClusterCache
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from property.strategies_twin import Step, histories, nodes
from support.cache_world import cache_of, complete, counted, ended, live_node, live_pod, twin
from support.twin_nodes import state_key

News = Callable[[ClusterCache], object]


class Moment(NamedTuple):
    """One step of a node's life: what the API server tells of it, and the node afterwards."""

    news: tuple[News, ...]
    node: Node


def life(node: Node, steps: list[Step]) -> list[Moment]:
    """A kubelet's life as others see it: pods are bound, taken or refused, end or are deleted."""
    found = []
    for number, step in enumerate(steps):
        if step.pod is not None:
            verdict = node.admit(step.pod)
            # Some refusals leave traces in a kubelet's memory groups, which only its next report can tell.
            assume(verdict.admitted or state_key(verdict.node) == state_key(node))
            node = verdict.node
            came = bound(step.pod, number)
            news = [came] if verdict.admitted else [came, failed(step.pod, number, verdict.reason)]
        else:
            uid = f"pod-{step.leaves}"
            news = [over(node.state.pods[uid], number)] if uid in node.state.pods else []
            node = node.release(uid)
        found.append(Moment(tuple(news), node))
    return found


def bound(pod: Pod, number: int) -> News:
    return lambda cache: cache.put_pod(live_pod(pod, second=number))


def failed(pod: Pod, number: int, reason: str) -> News:
    return lambda cache: cache.put_pod(ended(live_pod(pod, second=number), "Failed", reason))


def over(pod: Pod, number: int) -> News:
    """Some pods end, some are deleted."""
    if number % 2:
        return lambda cache: cache.drop_pod(pod.uid)
    return lambda cache: cache.put_pod(ended(live_pod(pod)))


def reported(report: Report) -> News:
    return lambda cache: cache.put_report(report)


def books(node: Node) -> tuple[object, ...]:
    return state_key(node)[1:]


@settings(max_examples=60)
@given(st.data())
def test_the_cache_has_the_kubelets_books_however_late_reports_are(data: st.DataObject) -> None:
    """Pods are heard of as they come and go; each report is old when it comes, and some never do."""
    fresh = data.draw(nodes())
    try:
        moments = life(fresh, data.draw(histories(fresh, 10)))
    except KubeletPanic:
        assume(False)
    cache = cache_of(live_node(fresh))
    cache.put_report(complete(fresh))
    past = 0
    for now, moment in enumerate(moments):
        for news in moment.news:
            news(cache)
        assert books(twin(cache)) == books(moment.node)
        if data.draw(st.booleans(), label="a report comes"):
            past = data.draw(st.integers(past, now), label="taken after step")
            cache.put_report(complete(moments[past].node, generation=now + 2))
            assert books(twin(cache)) == books(moment.node)
        assert not cache.engine.cluster.by_name["n1"].load.astray
        assert twin(cache).state.pods.keys() == moment.node.state.pods.keys()


@settings(max_examples=60)
@given(st.data())
def test_it_does_not_matter_which_of_pods_reports_and_nodes_is_heard_of_first(data: st.DataObject) -> None:
    """The API server tells of each kind in order, and of the kinds in any: in the end all know the same."""
    fresh = data.draw(nodes())
    try:
        moments = life(fresh, data.draw(histories(fresh, 8)))
    except KubeletPanic:
        assume(False)
    taken = sorted(data.draw(st.lists(st.integers(0, len(moments) - 1), max_size=3), label="reports after"))
    streams: list[list[News]] = [
        [news for moment in moments for news in moment.news],
        [reported(complete(moments[step].node, generation=number)) for number, step in enumerate(taken)],
        [lambda cache: cache.put_node(live_node(fresh))],
    ]
    first, second = (told(data, streams) for _ in range(2))
    assert summary(first) == summary(second)


def told(data: st.DataObject, streams: list[list[News]]) -> ClusterCache:
    cache = cache_of()
    left = [list(stream) for stream in streams]
    while any(left):
        index = data.draw(
            st.sampled_from([number for number, stream in enumerate(left) if stream]), label="next"
        )
        left[index].pop(0)(cache)
    return cache


def summary(cache: ClusterCache) -> object:
    member = cache.engine.cluster.by_name["n1"]
    return (
        books(member.node),
        member.pods,
        member.node.state.cpu.owned,
        member.node.state.memory.blocks,
        member.node.state.device.owned,
        {name: amount for name, amount in member.load.used.items() if amount},
        member.load.astray,
        cache.knowledge("n1"),
    )


@settings(max_examples=40)
@given(st.data())
def test_what_a_pod_holds_is_never_free_on_a_node_that_others_count(data: st.DataObject) -> None:
    """Counts may be old, and whom they counted is known by a fingerprint: at worst too little is promised."""
    fresh = data.draw(nodes())
    ids = [numa.id for numa in fresh.kubelet.hardware.numa]
    assume(ids == list(range(len(ids))))
    assume(
        all(
            sum(size for _, size in numa.hugepages) < numa.memory_bytes
            for numa in fresh.kubelet.hardware.numa
        )
    )
    try:
        moments = life(fresh, data.draw(histories(fresh, 6)))
    except KubeletPanic:
        assume(False)
    cache = cache_of(live_node(fresh))
    past = 0
    for now, moment in enumerate(moments):
        for news in moment.news:
            news(cache)
        if data.draw(st.booleans(), label="a report comes"):
            past = data.draw(st.integers(past, now), label="taken after step")
            cache.put_report(counted(moments[past].node))
        known = cache.knowledge("n1")
        assert known is not None
        if known.level == "counts" and known.current and not known.astray:
            for position, real in enumerate(free(moment.node)):
                assert free(twin(cache))[position] <= real


def free(node: Node) -> list[int]:
    """CPUs that a new pod could own, by NUMA node."""
    cpus = node.kubelet.cpus
    left = node.effective_shared() & ~cpus.reserved if cpus else 0
    return [(left & mask).bit_count() for mask in node.kubelet.layout.node_cpus]
