"""Twelve defects of the program that moves talking pods on openEuler, and a test each that they are not here.

That program joins two pods as soon as it has seen a byte between them and deals the groups out to NUMA nodes in turn. Most of
these are laws that other tests try more thoroughly; here each stands under the name of the defect.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from kube.fake_api_server import connection, fake_api_server, until
from numaware.affinity.chosen import Chosen
from numaware.affinity.plan import Member, Plan, Rules, Zone, plan
from numaware.affinity.report import About, report
from numaware.affinity.traffic import Flows, Pair, Smoothing, after, pair_of, talking
from numaware.kube.client import Client
from numaware.kube.events import EventWriter
from numaware.kube.oenumas import NodeEntry, NumaPart
from numaware.kube.resources import OENUMAS
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import FolderTree
from numaware.node.affinity.in_cluster import InCluster, SharedObjects
from numaware.node.affinity.look import Look, members_of, zones_of
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.pod_groups import PodGroup, read_pods
from numaware.node.affinity.runtime import ThroughNri
from numaware.node.nri.plugin import EVENTS, CpusAndMems, RunningContainer, Sandbox
from numaware.node.podresources import ContainerHoldings, PodHoldings
from numaware.node.troubles import Troubles
from support.fake_nri_runtime import fake_nri_runtime
from support.made_cgroups import add_container, add_pod

GIB, MB = 1 << 30, 1_000_000
RULES = Rules(margin=0)
UID = "1f1e2d3c-1111-2222-3333-444455556666"


def zones(count: int, cpus: int, far: int = 20) -> list[Zone]:
    return [
        Zone(
            number,
            CpuSet(range(cpus * number, cpus * (number + 1))),
            64 * GIB,
            {other: 10 if other == number else far for other in range(count)},
        )
        for number in range(count)
    ]


def pod(name: str, cpu: int = 500, **more: object) -> Member:
    return Member(name, "shop", name, cpu, **more)  # type: ignore[arg-type] # as the tests say


def homes(planned: Plan) -> dict[str, int | None]:
    return {answer.uid: answer.target for answer in planned.moves}


def chain(length: int) -> dict[Pair, int]:
    return {pair_of(f"p{number}", f"p{number + 1}"): 20 * MB for number in range(length - 1)}


def test_1_one_byte_is_no_affinity() -> None:
    flows: Flows = {}
    for _ in range(20):
        flows = after(flows, {("a", "b"): 1, ("c", "d"): 25 * MB}, 5000, Smoothing())
    assert talking(flows).keys() == {("c", "d")}
    members = [pod(name) for name in "abcd"]
    # Even one that is taken for talk is not worth a move.
    assert not plan(zones(2, 4), members, {("a", "b"): 1}, RULES).moves


def test_2_a_chain_of_talkers_is_not_one_group() -> None:
    members = [pod(f"p{number}", 800) for number in range(8)]
    planned = plan(zones(2, 4), members, chain(8), RULES)
    moved = homes(planned)
    assert set(moved.values()) == {0, 1}
    assert planned.across_after < planned.across_before


def test_3_nobody_is_moved_where_there_is_no_room_or_far_if_near_will_do() -> None:
    large = [pod("a", 3000), pod("b", 3000)]
    assert not plan(zones(2, 4), large, {("a", "b"): 20 * MB}, RULES).moves
    # Three NUMA nodes, of which 0 and 1 are close: who cannot sit with his partner sits next to him.
    three = [
        Zone(0, CpuSet(range(4)), GIB, {0: 10, 1: 12, 2: 40}),
        Zone(1, CpuSet(range(4, 8)), GIB, {0: 12, 1: 10, 2: 40}),
        Zone(2, CpuSet(range(8, 12)), GIB, {0: 40, 1: 40, 2: 10}),
    ]
    full = [pod("a", 3600, barred="not-chosen", zones=(0,)), pod("b", 500, zones=(2,))]
    assert homes(plan(three, full, {("a", "b"): 20 * MB}, RULES)) == {"b": 1}


def test_4_the_order_in_which_pods_are_seen_changes_nothing_and_nobody_hops() -> None:
    members = [pod(f"p{number}") for number in range(12)]
    dice = random.Random(4)  # noqa: S311 - the same each time
    talk = {pair_of(f"p{a}", f"p{b}"): dice.randrange(2, 40) * MB for a in range(12) for b in range(a)}
    first = plan(zones(2, 8), members, talk, RULES)
    for _ in range(5):
        dice.shuffle(members)
        pairs = list(talk.items())
        dice.shuffle(pairs)
        assert plan(zones(2, 8), members, dict(pairs), RULES) == first
    there = [
        pod(one.uid, zones=(target,) if (target := homes(first).get(one.uid)) is not None else ())
        for one in members
    ]
    assert not plan(zones(2, 8), there, talk, RULES).moves


def test_5_pods_of_every_namespace_are_seen_and_none_of_other_nodes(tmp_path: Path) -> None:
    for number, namespace in enumerate(("default", "shop", "bank")):
        uid = f"{number}{UID[1:]}"
        add_pod(tmp_path, "v2-systemd", uid, namespace, "web-0", {"anon": {0: 10}})
        add_container(tmp_path, "v2-systemd", uid, "a" * 64, "", "")
    pods = read_pods(Source(FolderTree(str(tmp_path), "the node")), 10)
    # What has control groups here runs here; nobody else is asked.
    assert [one.namespace for one in pods] == ["default", "shop", "bank"]


def test_6_there_may_be_more_pods_relations_and_cpus_than_an_array_was_made_for() -> None:
    members = [pod(f"p{number}", 50) for number in range(1500)]
    planned = plan(zones(2, 96), members, chain(1500), RULES)
    assert len(planned.answers) == 1500
    assert any(answer.cpus == CpuSet(range(96)) for answer in planned.moves)


def test_7_a_node_without_numa_nodes_divides_nothing_by_zero() -> None:
    members = [pod("a"), pod("b")]
    for none in ([], [Zone(0, CpuSet(), 0, {})], zones(1, 4)):
        planned = plan(none, members, {("a", "b"): 20 * MB}, RULES)
        assert {answer.code for answer in planned.answers} == {"one-numa-node"}


def test_8_cpus_that_somebody_has_for_himself_stay_his() -> None:
    machine = synthetic.read("2s x 4c x 1t mem=8Gi")
    held = (PodHoldings("shop", "db", (ContainerHoldings("main", CpuSet.parse("1-2")),)),)
    pods = tuple(PodGroup(f"u-{name}", "shop", name, (1,), (), 0, 0, {}) for name in ("db", "web"))
    look = Look(machine, pods, held, {0: 8 * GIB, 1: 8 * GIB}, {}, None)
    members = members_of(look, {}, {}, Chosen())
    planned = plan(zones_of(look), members, {("u-db", "u-web"): 20 * MB}, RULES)
    assert {answer.uid: (answer.code, str(answer.cpus)) for answer in planned.answers} == {
        "u-db": ("pinned", ""),
        "u-web": ("move", "0,3"),
    }


def test_9_containers_are_placed_while_they_are_made_and_the_kubelet_does_not_undo_it(tmp_path: Path) -> None:
    created, updated = 4, 8
    assert EVENTS & 1 << created - 1
    assert EVENTS & 1 << updated - 1
    placements = Placements(tmp_path / "before.json", CpusAndMems("0-7", "0-1"))
    sandbox = Sandbox("s", "u", "shop", "web")
    placements.synchronized([sandbox], [])
    placements.place({"u": Target(CpuSet.parse("4-7"), 1)})
    container = RunningContainer("c", "s", "main", "0-7")
    assert placements.created(sandbox, container) == CpusAndMems("4-7")
    assert placements.updated(sandbox, container, CpusAndMems("2-5")) == CpusAndMems("4-5")


def test_10_agents_of_all_nodes_write_one_object_and_lose_nothing() -> None:
    names = [f"n{number}" for number in range(12)]

    async def go() -> list[Any]:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            client = await stack.enter_async_context(Client(connection(server)))
            for name in names:
                shared = InCluster(
                    name,
                    client,
                    Troubles(),
                    SharedObjects(seconds=0.01),
                    lambda: None,
                    EventWriter(client, controller="test", instance=name),
                    acts=True,
                )
                told = report(About(name, "nri", moving=True, at=1), [], [], plan([], [], {}))
                shared.tell(told, NodeEntry(name, (NumaPart(0, "0,1", "0"),)))
                running = asyncio.create_task(shared.run())
                stack.callback(running.cancel)

            def entries() -> list[Any]:
                spec = server.objects.get(OENUMAS.path("tcs", "podafi"), {}).get("spec", {})
                return list(spec.get("node", ()))

            await until(lambda: len(entries()) == len(names))
            return entries()

    assert sorted(one["name"] for one in asyncio.run(go())) == sorted(names)


def test_11_who_was_moved_rests_and_gets_back_what_he_had(tmp_path: Path) -> None:
    members = [pod("a", resting=120), pod("b", zones=(1,), resting=0)]
    planned = plan(zones(2, 4), members, {("a", "b"): 20 * MB}, RULES)
    assert "a" not in homes(planned)
    placements = Placements(tmp_path / "before.json", CpusAndMems("0-7", "0-1"))
    placements.synchronized([Sandbox("s", "u", "shop", "web")], [RunningContainer("c", "s", "main", "2-6")])
    placements.place({"u": Target(CpuSet.parse("4-7"), 1)})
    assert placements.restore() == {"c": CpusAndMems("2-6")}


def test_12_a_runtime_that_is_restarted_is_connected_to_again(tmp_path: Path) -> None:
    async def go() -> None:
        placements = Placements(tmp_path / "before.json", CpusAndMems("0-7", "0-1"))
        through = ThroughNri(str(tmp_path / "nri.sock"), placements, Troubles(), tmp_path)
        running = asyncio.create_task(through.run())
        for _ in range(2):
            async with fake_nri_runtime(tmp_path / "nri.sock") as runtime, asyncio.timeout(60):
                await runtime.start_plugin()
                await through.ready.wait()
            (tmp_path / "nri.sock").unlink(missing_ok=True)
            while through.name:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
