"""Laws a node keeps, whatever comes to it: what is given is given once, what is released comes back, and so on.

They hold as the kubelet keeps its books: see docs/kubelet/oddities.md for where those books are odd.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import reduce
from itertools import combinations, permutations
from operator import or_
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.machine.cpuset import iter_bits
from numaware.twin.equivalence import node_class
from numaware.twin.errors import StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware
from numaware.twin.memory.state import NodeMemory
from numaware.twin.node import Node, NodeState, Verdict
from numaware.twin.recording import replay
from numaware.twin.scenario import Scenario
from numaware.workload.demand import ContainerDemand, demand
from numaware.workload.pod import Container, Pod
from property.strategies_twin import Step, histories, kinds_of, nodes, pods
from support.twin_nodes import admitted as all_admitted
from support.twin_nodes import config, cpus_of, shared_pool, state_key
from support.twin_nodes import pod as pod_of_cpus

NOTHING = Pod(name="nothing", uid="nothing", containers=(Container("app"),))


@st.composite
def stories(draw: st.DrawFn, most: int = 6) -> tuple[Node, list[Step]]:
    node = draw(nodes())
    return node, draw(histories(node, most))


def live(node: Node, steps: list[Step]) -> Iterator[Node]:
    """The node after each step."""
    for step in steps:
        node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
        yield node


def admitted(node: Node, steps: list[Step]) -> Iterator[tuple[Node, Pod | None, Verdict | None, Node]]:
    """Each step: the node before it, the pod that comes and what it is told, the node after it."""
    for step, after in zip(steps, live(node, steps), strict=True):
        yield node, step.pod, node.admit(step.pod) if step.pod else None, after
        node = after


def lived(node: Node, steps: list[Step]) -> Node:
    return [node, *live(node, steps)][-1]


def settled(node: Node) -> Node:
    """The node once the kubelet has turned to another pod: some releases let go of the last one only then."""
    return node.admit(NOTHING).node.release(NOTHING.uid)


def containers_of(node: Node, pod: Pod) -> tuple[ContainerDemand, ...]:
    return demand(pod, sidecars=node.kubelet.rules.sidecars).containers


# The same again


@settings(max_examples=150)
@given(stories())
def test_a_story_told_again_ends_the_same(story: tuple[Node, list[Step]]) -> None:
    """Whatever a kubelet remembers of the first time."""
    first = [node.state for node in live(*story)]
    assert [node.state for node in live(*story)] == first


@settings(max_examples=150)
@given(stories())
def test_a_pod_is_taken_by_known_hints_as_it_was_admitted(story: tuple[Node, list[Step]]) -> None:
    node, steps = story
    for step, after in zip(steps, live(node, steps), strict=True):
        verdict = node.admit(step.pod) if step.pod else None
        if step.pod and verdict and verdict.admitted:
            assert node.take(step.pod, verdict.hints).state == after.state
        node = after


# Given once


def shares(node: Node) -> Iterator[tuple[str, str, bool, str, int]]:
    """Who holds what: (pod, container, whether the container ends, CPUs or a device resource, mask)."""
    state = node.state
    for uid, pod in state.pods.items():
        ends = {wanted.name: wanted.ends for wanted in containers_of(node, pod)}
        for name, cpus in state.cpu.owned.get(uid, {}).items():
            yield uid, name, ends[name], "cpu", cpus
        for name, resources in state.device.owned.get(uid, {}).items():
            for resource, held in resources.items():
                yield uid, name, ends[name], resource, held


def given_again(before: Node, pod: Pod, verdict: Verdict) -> Iterator[tuple[int, int]]:
    """What each container of the pod got, and those CPUs among it that were not free: others had them, or the system.

    KUBELET: a socket or a core passes for free when as many of its CPUs are free as an average one has, and is then taken
    as a whole (isSocketFree, isCoreFree). Recordings show it: shapes-00140 has sockets of 1 and 12 CPUs.
    """
    cpus = before.kubelet.cpus
    free = before.effective_shared(pod.uid) & ~cpus.reserved if cpus else 0
    reusable = 0
    for container in containers_of(before, pod):
        got = verdict.held.cpu.owned.get(pod.uid, {}).get(container.name, 0)
        yield got, got & ~(free | reusable)
        free &= ~got
        reusable = reusable | got if container.ends else reusable & ~got


def all_given_again(before: Node, pod: Pod, verdict: Verdict) -> int:
    """The CPUs that containers of the pod got although they were not free."""
    return reduce(or_, (again for _, again in given_again(before, pod, verdict)), 0)


@settings(max_examples=150)
@given(stories())
def test_a_cpu_is_given_again_only_with_a_unit_that_passes_for_free(story: tuple[Node, list[Step]]) -> None:
    """That is one larger than the average; where sockets and cores are of one size no CPU is ever given again."""
    for before, pod, verdict, _ in admitted(*story):
        if pod is None or verdict is None:
            continue
        layout = before.kubelet.layout
        large = [unit for _, unit in layout.sockets if unit.bit_count() > layout.cpus_per_socket]
        large += [core for core in layout.cores if core.bit_count() > layout.cpus_per_core]
        for got, again in given_again(before, pod, verdict):
            # Kubelets before v1.23 took only what was free of such a unit.
            assert before.kubelet.rules.numa_allocator or not again
            assert again & ~reduce(or_, (unit for unit in large if unit & ~got == 0), 0) == 0


def test_a_socket_with_as_many_free_cpus_as_an_average_one_is_given_as_a_whole() -> None:
    """Sockets of 4 and 8 CPUs: with two of the eight taken six are left, which is the average, and eight are asked for."""
    places = [CpuPlace(cpu, cpu, int(cpu >= 4)) for cpu in range(12)]
    node = Node.fresh(
        Hardware((NumaHardware(0, tuple(places[:4])), NumaHardware(1, tuple(places[4:])))), config()
    )
    node = all_admitted(node, pod_of_cpus("first", 3), pod_of_cpus("second", 2)).release("first")
    node = all_admitted(node, pod_of_cpus("third", 8))
    assert (cpus_of(node, "second"), cpus_of(node, "third"), shared_pool(node)) == ("4-5", "4-11", "0-3")
    assert shared_pool(node.release("third")) == "0-11"


@settings(max_examples=150)
@given(stories())
def test_no_cpu_and_no_device_is_given_twice(story: tuple[Node, list[Step]]) -> None:
    """But to an init container that ends and a later container of its pod, and CPUs of a unit that passes for free."""
    excepted = 0
    for before, pod, verdict, node in admitted(*story):
        if pod is not None and verdict is not None:
            excepted |= all_given_again(before, pod, verdict)
        for one, other in combinations(shares(node), 2):
            if one[3] == other[3] and one[4] & other[4] & ~(excepted if one[3] == "cpu" else 0):
                assert one[0] == other[0]
                assert one[2] or other[2]


@settings(max_examples=150)
@given(stories())
def test_every_cpu_is_either_shared_or_owned(story: tuple[Node, list[Step]]) -> None:
    """But those of a unit that passed for free, which may be both, and none of which is kept for the system any more."""
    excepted = 0
    for before, pod, verdict, node in admitted(*story):
        cpus = node.kubelet.cpus
        if cpus is None:
            continue
        if pod is not None and verdict is not None:
            excepted |= all_given_again(before, pod, verdict)
        owned = 0
        for containers in node.state.cpu.owned.values():
            for mask in containers.values():
                owned |= mask
        assert node.state.cpu.shared & owned & ~excepted == 0
        assert (node.state.cpu.shared | owned) & ~excepted == cpus.pool & ~excepted
        assert owned & cpus.reserved & ~excepted == 0


@settings(max_examples=150)
@given(stories())
def test_only_devices_that_were_free_and_healthy_are_given(story: tuple[Node, list[Step]]) -> None:
    for node in live(*story):
        for name, inventory in node.kubelet.devices.inventories.items():
            taken = node.state.device.taken.get(name, 0)
            assert taken & ~inventory.healthy == 0
            held = 0
            for _, _, _, resource, mask in shares(node):
                held |= mask if resource == name else 0
            assert taken == held


@settings(max_examples=200)
@given(stories())
def test_no_byte_is_given_twice(story: tuple[Node, list[Step]]) -> None:
    """Of each kind exactly what the blocks of all containers add up to is missing, and no node gave what it lacks."""
    for node in live(*story):
        manager, state = node.kubelet.memory, node.state.memory
        if manager is None:
            continue
        for index, kind in enumerate(manager.kinds):
            missing = [
                manager.allocatable[position][index] - entry.free[index]
                for position, entry in enumerate(state.nodes)
            ]
            assert all(0 <= used <= manager.allocatable[p][index] for p, used in enumerate(missing))
            held = [
                block.size
                for containers in state.blocks.values()
                for blocks in containers.values()
                for block in blocks
                if block.kind == kind
            ]
            assert sum(missing) == sum(held)


# Given back


def group_sums(entries: tuple[NodeMemory, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Each node's assignments and group, and what is free in the group as a whole."""
    return [
        (
            entry.assignments,
            entry.cells,
            tuple(map(sum, zip(*(entries[p].free for p in iter_bits(entry.cells)), strict=True))),
        )
        for entry in entries
    ]


def keeps_groups(before: NodeState, after: NodeState, uid: str) -> bool:
    """Whether the pod's memory left every group of nodes as it was.

    A single node may be charged although it belongs to a group; its group is forgotten then, and stays so.
    """
    return all(
        not before.memory.nodes[position].assignments or before.memory.nodes[position].cells == block.nodes
        for blocks in after.memory.blocks.get(uid, {}).values()
        for block in blocks
        for position in iter_bits(block.nodes)
    )


def assert_as_before(before: Node, after: Node, pod: Pod, verdict: Verdict) -> None:
    """The pod has come and gone: CPUs that it got although they were not free are free now, whoever else has them."""
    old, new = before.state, after.state
    groups = keeps_groups(old, verdict.held, pod.uid)
    assert new.cpu.shared == old.cpu.shared | all_given_again(before, pod, verdict)
    assert new.cpu.owned == old.cpu.owned
    assert new.memory.blocks == old.memory.blocks
    assert [sum(free) for free in zip(*(entry.free for entry in new.memory.nodes), strict=True)] == [
        sum(free) for free in zip(*(entry.free for entry in old.memory.nodes), strict=True)
    ]
    if groups:
        assert group_sums(new.memory.nodes) == group_sums(old.memory.nodes)
    assert new.device.owned == old.device.owned
    assert {name: mask for name, mask in new.device.taken.items() if mask} == {
        name: mask for name, mask in old.device.taken.items() if mask
    }
    assert new.pods == old.pods


@settings(max_examples=200)
@given(stories(), st.data())
def test_what_a_pod_got_is_all_there_again_when_it_is_gone(
    story: tuple[Node, list[Step]], data: st.DataObject
) -> None:
    before = settled(lived(*story))
    pod = data.draw(pods("new", kinds_of(before)))
    verdict = before.admit(pod)
    after = settled(verdict.node.release(pod.uid))
    assert_as_before(before, after, pod, verdict)


@settings(max_examples=200)
@given(stories(), st.data())
def test_a_refused_pod_holds_nothing_once_the_kubelet_has_cleaned_up(
    story: tuple[Node, list[Step]], data: st.DataObject
) -> None:
    before = settled(lived(*story))
    pod = data.draw(pods("new", kinds_of(before)))
    verdict = before.admit(pod)
    if verdict.admitted:
        assert pod.uid in verdict.node.state.pods
        return
    assert (verdict.reason, verdict.message) != ("", "")
    assert pod.uid not in verdict.node.state.pods
    after = settled(verdict.node)
    assert_as_before(before, after, pod, verdict)


# Aligned


def homes(node: Node, uid: str, container: str) -> set[int]:
    """The NUMA nodes on which all of a container could be at home: where each of its things is."""
    kubelet, state = node.kubelet, node.state
    common = set(range(len(kubelet.layout.ids)))
    cpus = state.cpu.owned.get(uid, {}).get(container, 0)
    if cpus:
        common &= {p for p, mask in enumerate(kubelet.layout.node_cpus) if cpus & ~mask == 0}
    for block in state.memory.blocks.get(uid, {}).get(container, ()):
        common &= {p for p in common if block.nodes == 1 << p}
    for resource, held in state.device.owned.get(uid, {}).get(container, {}).items():
        inventory = kubelet.devices.inventories[resource]
        for device in iter_bits(held & inventory.placed):
            common &= set(iter_bits(inventory.nodes[device]))
    return common


@settings(max_examples=250)
@given(nodes(policies=("single-numa-node",)), st.data())
def test_single_numa_node_never_spans(node: Node, data: st.DataObject) -> None:
    """CPUs, memory and devices of a container share a NUMA node; with scope pod, so do all of its containers.

    Devices without topology are nowhere and do not count. With scope pod the Memory Manager asks only about kinds of
    memory that some app container wants, so init containers here want no others.
    """
    for step in data.draw(histories(node)):
        if step.pod is None:
            node = node.release(f"pod-{step.leaves}")
            continue
        pod = step.pod
        wanted = containers_of(node, pod)
        kinds = {kind for container in wanted[len(pod.init_containers) :] for kind, _ in container.memory}
        verdict = node.admit(pod)
        node = verdict.node
        if not verdict.admitted:
            continue
        places = [homes(node, pod.uid, container.name) for container in wanted]
        if not node.kubelet.by_pod:
            assert all(places)
        elif {kind for container in wanted for kind, _ in container.memory} <= kinds:
            assert set.intersection(*places)


# The same answer


@settings(max_examples=100)
@given(stories(), st.data())
def test_the_order_in_which_a_machine_is_listed_does_not_matter(
    story: tuple[Node, list[Step]], data: st.DataObject
) -> None:
    node, steps = story
    machine = node.kubelet.hardware
    numa = [
        replace(entry, cpus=tuple(data.draw(st.permutations(entry.cpus))))
        for entry in data.draw(st.permutations(machine.numa))
    ]
    resources = [
        replace(entry, devices=tuple(data.draw(st.permutations(entry.devices))))
        for entry in data.draw(st.permutations(machine.resources))
    ]
    other = Node.fresh(Hardware(tuple(numa), tuple(resources)), node.kubelet.config)
    assert [entry.state for entry in live(other, steps)] == [entry.state for entry in live(node, steps)]


def shuffled(value: object, data: st.DataObject) -> object:
    if isinstance(value, dict):
        keys = data.draw(st.permutations(sorted(value)))
        return {key: shuffled(value[key], data) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, data) for item in value]
    return value


@pytest.mark.parametrize("group", ["edge", "topology"])
def test_the_order_of_keys_in_a_scenario_does_not_matter(group: str) -> None:
    path = Path(__file__).parents[1] / "vectors" / "kubelet" / f"{group}.jsonl.gz"
    with gzip.open(path) as lines:
        scenarios = [json.loads(line)["scenario"] for line in lines][::37]

    @settings(max_examples=30)
    @given(st.sampled_from(scenarios), st.data())
    def check(scenario: dict[str, object], data: st.DataObject) -> None:
        one, other = (msgspec.convert(form, Scenario) for form in (scenario, shuffled(scenario, data)))
        assert json.dumps(replay(one), sort_keys=True) == json.dumps(replay(other), sort_keys=True)

    check()


def _told(verdict: Verdict) -> tuple[bool, str, str]:
    return verdict.admitted, verdict.reason, verdict.message


@settings(max_examples=150)
@given(stories(), st.data())
def test_asking_changes_nothing(story: tuple[Node, list[Step]], data: st.DataObject) -> None:
    """A node is a value: the same question twice has the same answer, and what it is is what it was."""
    node = lived(*story)
    pod = data.draw(pods("new", kinds_of(node)))
    before = (state_key(node), state_files(node.kubelet, node.state))
    first, second = node.admit(pod), node.admit(pod)
    assert (_told(first), first.held) == (_told(second), second.held)
    assert (state_key(node), state_files(node.kubelet, node.state)) == before


@settings(max_examples=150)
@given(stories(), st.data())
def test_watching_changes_nothing(story: tuple[Node, list[Step]], data: st.DataObject) -> None:
    node = lived(*story)
    pod = data.draw(pods("new", kinds_of(node)))
    watched, unwatched = node.admit(pod, lambda _: None), node.admit(pod)
    assert (_told(watched), watched.held) == (_told(unwatched), unwatched.held)


@settings(max_examples=200)
@given(stories(), st.data())
def test_nodes_with_equal_keys_answer_alike(story: tuple[Node, list[Step]], data: st.DataObject) -> None:
    """Whoever holds what is taken, and however it came about."""
    node, steps = story
    renamed = [
        step if step.pod is None else Step(replace(step.pod, uid=f"{step.pod.uid}-again")) for step in steps
    ]
    reached = list(live(node, steps))
    again = node
    for step in renamed:
        again = again.admit(step.pod).node if step.pod else again.release(f"pod-{step.leaves}-again")
        reached.append(again)
    reached.append(settled(reached[-1]))
    pod = data.draw(pods("new", kinds_of(node)))
    answers: dict[object, object] = {}
    for known in reached:
        verdict = known.admit(pod)
        given_now = (
            verdict.held.cpu.owned.get(pod.uid),
            verdict.held.memory.blocks.get(pod.uid),
            verdict.held.device.owned.get(pod.uid),
        )
        answer = (_told(verdict), given_now)
        assert answers.setdefault(state_key(known), answer) == answer


@settings(max_examples=300)
@given(nodes(), st.data())
def test_nodes_of_one_class_answer_alike_and_stay_of_one_class(node: Node, data: st.DataObject) -> None:
    """Many ways to fill one node; wherever two of them are called alike, no pod can tell them apart."""
    reached: dict[object, tuple[Verdict, object]] = {}
    kinds = kinds_of(node)
    pod = data.draw(pods("new", kinds))
    others = [data.draw(pods(f"pod-{number}", kinds)) for number in range(3)]
    for order in permutations(others):
        for known in live(node, [*map(Step, order), Step(leaves=0), Step(leaves=1)]):
            verdict = known.admit(pod)
            seen, after = reached.setdefault(node_class(known), (verdict, node_class(verdict.node)))
            assert (verdict.admitted, verdict.reason) == (seen.admitted, seen.reason)
            assert node_class(verdict.node) == after


# On disk


@settings(max_examples=200)
@given(stories())
def test_state_files_give_back_the_node_they_were_written_for(story: tuple[Node, list[Step]]) -> None:
    """Unless a restarting kubelet would refuse them, and then for the same reason."""
    node = lived(*story)
    kubelet = node.kubelet
    texts = state_files(kubelet, node.state)
    files = {name: text.encode() for name, text in texts.items()}
    refused = refusal(node)
    if refused:
        with pytest.raises(StartError) as loading:
            load_state(kubelet, files)
        assert loading.value.message == refused
        return
    state = load_state(kubelet, files)
    assert state_files(kubelet, state) == texts
    assert (state.cpu.shared, state.cpu.owned) == (node.state.cpu.shared, node.state.cpu.owned)
    assert (state.memory.nodes, state.memory.blocks) == (node.state.memory.nodes, node.state.memory.blocks)
    assert state.device.owned == node.state.device.file


def refusal(node: Node) -> str:
    """What the kubelet says at a restart when it does not take its own files back."""
    try:
        node.restart()
    except StartError as error:
        return error.message
    return ""
