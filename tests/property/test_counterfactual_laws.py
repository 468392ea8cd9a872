"""Explanations keep their word: every change is admitted, none could be smaller, and an admitted pod needs none."""

from __future__ import annotations

import json
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.explain.explanation import Explanation, explain, to_builtins
from numaware.machine.cpuset import list_form
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Merge, Node
from numaware.workload.demand import is_memory
from numaware.workload.pod import Pod, amount, units
from property.strategies_twin import kinds_of, nodes, pods
from support.applied_changes import patched_pod, verdict_after

EXAMPLES = 120
KEYS = {
    "kubelet",
    "pod",
    "node",
    "admitted",
    "admittedWhenEmpty",
    "dra",
    "reason",
    "message",
    "containers",
    "why",
    "changes",
    "warnings",
}


class Case(NamedTuple):
    node: Node
    pod: Pod
    explanation: Explanation


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A node on which some pods run, and another pod."""
    node = draw(nodes())
    for number in range(draw(st.integers(0, 4))):
        try:
            node = node.admit(draw(pods(f"pod-{number}", kinds_of(node)))).node
        except KubeletPanic:
            continue
    pod = draw(pods("new", kinds_of(node)))
    return Case(node, pod, explain("n1", node, pod))


@settings(max_examples=EXAMPLES)
@given(cases())
def test_every_change_is_admitted_when_its_patch_is_applied(case: Case) -> None:
    for change in case.explanation.changes:
        assert verdict_after(case.node, case.pod, change.kind, change.patch).admitted, change


@settings(max_examples=EXAMPLES)
@given(cases())
def test_no_larger_request_of_one_resource_would_do(case: Case) -> None:
    for change in case.explanation.changes:
        if change.kind != "request":
            continue
        changed = patched_pod(case.pod, change.patch)
        differences = [
            (index, name, amount(old.requests, name), amount(new.requests, name))
            for index, (old, new) in enumerate(zip(case.pod.in_order, changed.in_order, strict=True))
            for name, _ in old.requests
            if amount(old.requests, name) != amount(new.requests, name)
        ]
        (index, name, asked, given), *others = differences
        if others or given > asked:
            continue
        container = case.pod.in_order[index]
        field = "initContainers" if index < len(case.pod.init_containers) else "containers"
        # Memory is proposed in steps of a page or a mebibyte, so only the next step has to be tried.
        unit = (2 if name.startswith("hugepages-") else 1) << 20 if is_memory(name) else 1
        larger = [units(given) + unit] if is_memory(name) else range(units(given) + 1, units(asked))
        for count in larger:
            if count < units(asked):
                both = {"requests": {name: str(count)}, "limits": {name: str(count)}}
                again = {field: [{"name": container.name, "resources": both}]}
                assert not _admits(case.node, patched_pod(case.pod, again)), (name, count)


def _admits(node: Node, pod: Pod) -> bool:
    try:
        return node.admit(pod).admitted
    except KubeletPanic:
        return False


@settings(max_examples=EXAMPLES)
@given(cases())
def test_fewer_pods_leaving_would_not_do(case: Case) -> None:
    for change in case.explanation.changes:
        if change.kind == "evict":
            uids = [victim["uid"] for victim in change.patch["evict"]]
            for kept in uids:
                left = case.node.release(*(uid for uid in uids if uid != kept))
                assert not _admits(left, case.pod)


@settings(max_examples=EXAMPLES)
@given(cases())
def test_an_admitted_pod_has_no_why_and_its_containers_are_the_twins(case: Case) -> None:
    explanation = case.explanation
    if not explanation.admitted:
        assert explanation.why
        return
    assert (explanation.why, explanation.changes, explanation.reason) == ((), (), "")
    state = case.node.admit(case.pod).node.state
    for placed in explanation.placements:
        own = state.cpu.owned.get(case.pod.uid, {}).get(placed.name, 0)
        assert placed.cpus == list_form(own)
        blocks = state.memory.blocks.get(case.pod.uid, {}).get(placed.name, ())
        ids = case.node.kubelet.layout.node_ids
        assert placed.memory == tuple((ids(block.nodes), block.kind, block.size) for block in blocks)
        held = state.device.owned.get(case.pod.uid, {}).get(placed.name, {})
        assert dict(placed.devices).keys() == held.keys()


@settings(max_examples=EXAMPLES)
@given(cases())
def test_what_a_resource_wants_is_what_its_manager_told_the_merge(case: Case) -> None:
    if case.explanation.reason != "TopologyAffinityError":
        return
    merges: list[Merge] = []
    case.node.admit(case.pod, merges.append)
    told = {
        resource: tuple(map(case.node.kubelet.layout.node_ids, hints.preferred))
        for answer in (merges[-1].device, merges[-1].cpu, merges[-1].memory)
        for resource, hints in answer.items()
        if hints is not None
    }
    assert {cause.resource: cause.wants for cause in case.explanation.why} == told


@settings(max_examples=EXAMPLES)
@given(cases())
def test_the_json_has_the_documented_keys_and_is_the_same_every_time(case: Case) -> None:
    found = to_builtins(case.explanation)
    assert found.keys() == KEYS
    assert [one["name"] for one in found["containers"]] == [one.name for one in case.pod.in_order]
    for one in found["containers"]:
        assert one.keys() == {"name", "cpuset", "memory", "devices", "hint"}
    assert json.dumps(found) == json.dumps(to_builtins(explain("n1", case.node, case.pod)))
