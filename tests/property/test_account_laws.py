"""One node, one account: every room counts what is free alike, and as the kubelet would give it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.cli.explain_view import lines
from numaware.diagnose.explain.explanation import explain
from numaware.kube.topology import publish, volcano
from numaware.machine.cpuset import CpuSet
from numaware.schedule.cluster import Member
from numaware.schedule.ledger import zones_of
from numaware.schedule.room import WHOLE, gpu_resource, numa_rooms
from numaware.serve.console.views.strips import strips_of
from numaware.serve.listing import zone_rows
from numaware.simulate.views import numa_info_of, topology_of
from numaware.twin.account import account, fewest_nodes, fewest_nodes_for, holders, numa_nodes, resources
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Merge, Node
from numaware.workload.demand import demand, is_memory
from numaware.workload.pod import NANO
from property.strategies_twin import Step, histories, nodes
from support.small_clusters import cluster_of
from support.twin_nodes import GI, admitted, config, container, machine, pod, pod_of

UINT64 = (1 << 64) - 1


@st.composite
def stories(draw: st.DrawFn) -> Node:
    """A node after pods came and went."""
    node = draw(nodes(versions=("v1.35.0", "v1.31.2", "v1.28.0", "v1.24.3", "v1.20.15")))
    for step in draw(histories(node)):
        node = after(node, step)
    return node


def after(node: Node, step: Step) -> Node:
    return node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")


def member_of(node: Node) -> Member:
    return cluster_of(node).members[0]


def free_cpus_by_room(node: Node) -> dict[str, list[int]]:
    """Free CPUs of each NUMA node, as every room that tells them does."""
    member = member_of(node)
    kubelet = node.kubelet
    reserved = kubelet.cpus.reserved if kubelet.cpus else 0
    published = [
        {entry["name"]: entry["available"] for entry in zone["resources"]}
        for zone in publish.encode("n", node, 1)["zones"]
    ]
    listed = CpuSet.parse(volcano.encode("n", node)["spec"]["numares"]["cpu"]["allocatable"]).mask
    places = kubelet.layout.node_cpus
    return {
        "scores": [zone.cpus for zone in numa_rooms(node, {})],
        "published topology": [int(amounts["cpu"]) for amounts in published],
        "published for Volcano": [(listed & cpus & ~reserved).bit_count() for cpus in places],
        "told to peers in the lab": [dict(zone.available)["cpu"] // NANO for zone in topology_of(node).zones],
        "told to Volcano in the lab": [
            ((numa_info_of(node).free or 0) & cpus & ~reserved).bit_count() for cpus in places
        ],
        "strips of the console": [
            strip.cpus - strip.reserved - strip.exclusive for strip in strips_of(member)
        ],
        "list of nodes": [row.free_to_pin["cpu"] for row in zone_rows(member)],
    }


def test_cpus_of_a_pod_that_came_and_went_on_an_old_kubelet_are_free_in_every_room() -> None:
    """From v1.22.1 to v1.31 the CPU Manager has not let go of them yet, but the next pod gets them."""
    fresh = Node.fresh(machine(2), config("single-numa-node", version="v1.28.0"))
    node = admitted(fresh, pod("gone", 4)).release("gone")
    assert node.state.cpu.owned
    assert admitted(node, pod("next", 7)).state.cpu.owned["next"]["app"] == 0b1111_1110
    assert free_cpus_by_room(node) == {room: [7, 8] for room in free_cpus_by_room(node)}
    picture = ["".join(span.text for span in line) for line in lines(explain("n", node, pod("next", 7)), 100)]
    assert any("NUMA 0" in line and "7 of 8 CPUs" in line for line in picture)


# Every room


@settings(max_examples=200, deadline=None)
@given(stories())
def test_every_room_tells_the_numbers_of_the_account(node: Node) -> None:
    member = member_of(node)
    managed = {name: account(node, name) for name in resources(node)}
    if "cpu" in managed:
        free = [part.free for part in managed["cpu"]]
        assert free_cpus_by_room(node) == dict.fromkeys(free_cpus_by_room(node), free)
        assert [(strip.reserved, strip.exclusive) for strip in strips_of(member)] == [
            (part.reserved, part.held) for part in managed["cpu"]
        ]
    for position, zone in enumerate(publish.encode("n", node, 1)["zones"]):
        told = {entry["name"]: entry for entry in zone["resources"]}
        for name, parts in managed.items():
            part, entry = parts[position], told.get(name, {})
            amounts = tuple(int(entry.get(key, 0)) for key in ("capacity", "allocatable", "available"))
            assert amounts == ((part.total, part.allocatable, part.free) if part.total else (0, 0, 0))
    for position, row in enumerate(zone_rows(member)):
        assert row.free_to_pin == {name: parts[position].free for name, parts in managed.items()}
        assert row.capacity == {name: parts[position].total for name, parts in managed.items()}
    for position, zone in enumerate(topology_of(node).zones):
        for name, amount in zone.available:
            if name in managed:
                assert amount == managed[name][position].free * NANO
    gpu = gpu_resource(node)
    if "memory" in managed:
        assert [zone.memory for zone in numa_rooms(node, {})] == [part.free for part in managed["memory"]]
    if gpu:
        inventory = node.kubelet.devices.inventories[gpu]
        if inventory.placed.bit_count() == len(inventory.ids):
            assert [zone.gpus for zone in numa_rooms(node, {})] == [
                (WHOLE,) * part.free for part in managed[gpu]
            ]
        assert [(strip.gpus, strip.gpus - strip.gpus_used) for strip in strips_of(member)] == [
            (part.total, part.free) for part in managed[gpu]
        ]


# The account and the twin


def strict(node: Node, **changes: object) -> Node:
    """The node as if its kubelet insisted on a single NUMA node."""
    config_ = replace(node.kubelet.config, topology_policy="single-numa-node", topology_options=(), **changes)
    # A kubelet with this policy does not start with that option.
    options = tuple(option for option in config_.cpu_options if option[0] != "align-by-socket")
    config_ = replace(config_, cpu_options=options)
    return Node(Node.fresh(node.kubelet.hardware, config_).kubelet, node.state)


def largest(node: Node, most: int, unit: int = 1, **amounts: int) -> int:
    """The most of the resource whose amount is 0 that the kubelet gives to one container, by asking."""
    ((name, _),) = [(key, value) for key, value in amounts.items() if not value]
    for count in range(most // unit, 0, -1):
        try:
            if node.admit(pod_of("asked", container("app", {**amounts, name: count * unit}))).admitted:
                return count * unit
        except KubeletPanic:
            continue
    return 0


@settings(max_examples=200, deadline=None)
@given(stories())
def test_free_cpus_and_devices_are_what_the_kubelet_would_give(node: Node) -> None:
    """Asked for ever less on a single NUMA node, with nothing else in the way, it says yes at the account's number.

    A kubelet that gives whole cores stops at a whole core, and counts the cores of the system out on the machine in all.
    """
    node = strict(node, memory_policy="None", reserved_memory=())
    cpus = node.kubelet.cpus
    for resource in resources(node):
        parts = account(node, resource)
        free = max(part.free for part in parts)
        if cpus and resource == "cpu" and cpus.options.full_pcpus_only:
            per_core = node.kubelet.layout.cpus_per_core
            whole = (node.effective_shared() & ~cpus.reserved_cores).bit_count()
            free = min(free, whole) // per_core * per_core
        more = {"memory": GI} if resource == "cpu" else {}
        assert largest(node, max(part.total for part in parts), **{resource: 0}, **more) == free


@settings(max_examples=200, deadline=None)
@given(stories())
def test_free_memory_is_what_the_kubelet_would_give(node: Node) -> None:
    """On NUMA nodes that serve alone; those of a group take no pod of their own, whatever is free there."""
    if node.kubelet.memory is None:
        return
    node = strict(node, cpu_policy="none", cpu_options=())
    alone = [not part.cells & (part.cells - 1) for part in node.state.memory.nodes]
    memory = account(node, "memory")
    free = max([part.free for part, single in zip(memory, alone, strict=True) if single], default=0)
    assert largest(node, max(part.total for part in memory), GI, cpu=1, memory=0) == free


@settings(max_examples=300, deadline=None)
@given(stories())
def test_all_of_a_numa_node_is_free_held_reserved_or_named_as_unpinnable(node: Node) -> None:
    for resource in resources(node):
        parts = account(node, resource)
        for part in parts:
            assert part.total == (part.free + part.held + part.reserved + part.unpinnable) & UINT64
            assert min(part.free, part.held, part.reserved, part.unpinnable) >= 0
        held = Counter[int]()
        for holder in holders(node, resource):
            assert holder.uid in node.state.pods
            held[holder.nodes[0]] += holder.amount
        if is_memory(resource):
            # Which byte of a block over several NUMA nodes is where, no kubelet knows.
            assert held.total() == sum(part.held for part in parts)
        elif resource != "cpu" or _has_even_sockets(node):
            assert [held[part.numa] for part in parts] == [part.held for part in parts]
        empty = account(Node.fresh(node.kubelet.hardware, node.kubelet.config), resource)
        assert [part.free for part in empty] == [part.allocatable for part in parts]


def _has_even_sockets(node: Node) -> bool:
    """KUBELET: with sockets of different sizes one is taken for free that is not, and a CPU given twice (isSocketFree)."""
    return len({cpus.bit_count() for _, cpus in node.kubelet.layout.sockets}) == 1


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_pod_lies_where_its_verdict_put_it(data: st.DataObject) -> None:
    node = data.draw(nodes())
    ids = node.kubelet.layout.node_ids
    for step in data.draw(histories(node)):
        verdict = node.admit(step.pod) if step.pod else None
        node = verdict.node if verdict else node.release(f"pod-{step.leaves}")
        if verdict is None or step.pod is None or not verdict.admitted:
            continue
        uid = step.pod.uid
        lies_on = numa_nodes(node, uid)
        told = {
            numa
            for name in resources(node)
            for holder in holders(node, name)
            if holder.uid == uid
            for numa in holder.nodes
        }
        assert set(ids(lies_on)) == told
        assert {zone.numa for zone in zones_of(node, step.pod)} <= told
        # A device of two NUMA nodes lies on both.
        single = all(inventory.single for inventory in node.kubelet.devices.inventories.values())
        masks = [hint.mask for hint in verdict.hints]
        if (
            node.kubelet.config.topology_policy == "single-numa-node"
            and masks
            and None not in masks
            and single
            and _has_even_sockets(node)
        ):
            allowed = 0
            for mask in masks:
                allowed |= mask or 0
            assert lies_on & ~allowed == 0


@settings(max_examples=200, deadline=None)
@given(nodes(policies=("best-effort",)), st.integers(1, 24))
def test_the_fewest_numa_nodes_are_those_of_a_preferred_hint_on_an_empty_machine(
    node: Node, count: int
) -> None:
    plain = replace(node.kubelet.config, cpu_options=())
    node = Node.fresh(node.kubelet.hardware, plain)
    asked = pod("asked", count, count * GI)
    heard: list[Merge] = []
    node.admit(asked, heard.append)
    for name, hints in [*heard[0].cpu.items(), *heard[0].memory.items()]:
        wanted = dict(demand(asked).memory).get(name, count)
        for mask in hints.preferred if hints else ():
            assert mask.bit_count() == fewest_nodes(node, name, wanted)
    assert fewest_nodes_for(node, asked) == max(
        fewest_nodes(node, name, {"cpu": count, "memory": count * GI}.get(name, 0))
        for name in ("cpu", "memory")
    )


def test_what_a_refused_pod_already_got_is_not_free_to_it_on_an_old_kubelet() -> None:
    """Its first container holds CPUs while its second is refused; only the next pod finds them free."""
    node = Node.fresh(machine(1), config("single-numa-node", version="v1.28.0"))
    wanted = pod_of("asked", *(container(name, {"cpu": 4, "memory": GI}) for name in ("first", "second")))
    verdict = node.admit(wanted)
    assert not verdict.admitted
    refused = Node(node.kubelet, verdict.held)
    (mine,), (others,) = account(refused, "cpu", "asked"), account(refused, "cpu")
    assert (mine.free, mine.held, others.free, others.held) == (3, 4, 7, 0)


def test_cpus_that_go_from_an_init_container_to_the_next_are_held_once() -> None:
    init, app = (container(name, {"cpu": 4, "memory": GI}) for name in ("init", "app"))
    node = admitted(Node.fresh(machine(2), config()), pod_of("a", app, init=(init,)))
    assert [(holder.container, holder.amount) for holder in holders(node, "cpu")] == [("app", 4)]
