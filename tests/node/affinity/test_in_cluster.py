"""What the cluster is told of talk on a node, and what it says of moving pods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server, until
from numaware.affinity import published
from numaware.affinity.report import Move, NodeReport
from numaware.kube.client import Client
from numaware.kube.decoding import OwnerReference
from numaware.kube.events import EventWriter
from numaware.kube.oenumas import NodeEntry, NumaPart, PlacedContainer, PlacedPod
from numaware.kube.resources import EVENTS, NODE_TRAFFICS, OENUMAS, WHITELISTS
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity import entry, in_cluster
from numaware.node.affinity.entry import entry_of
from numaware.node.affinity.in_cluster import InCluster, SharedObjects
from numaware.node.affinity.placements import Target
from numaware.node.nri.plugin import CpusAndMems, RunningContainer
from numaware.node.troubles import Troubles

PODAFI = OENUMAS.path("tcs", "podafi")
NUMA = (NumaPart(0, "0,1", "0"), NumaPart(1, "2,3", "1"))
PLACED = NodeEntry(
    "n1", NUMA, (PlacedPod(1, "web-0", "shop", (PlacedContainer("containerd://c1", "main", "2,3", "0,1"),)),)
)
MOVED = Move("u", "shop", "web-0", 990, 1, 7 << 20, before=9 << 20, planned=0)
OTHERS = {"name": "n0", "numa": [], "theirs": [1]}


def told(**changes: Any) -> NodeReport:
    empty = NodeReport("n1", "nri", True, 1000, (0, 1), ((0, 0), (0, 0)), (), (), (), 0, 0, 0, 0, 0)
    return msgspec.structs.replace(empty, **changes)


class Scene:
    """One node's side, and the server that it talks to."""

    def __init__(self, server: FakeApiServer, client: Client, events: EventWriter, *, acts: bool) -> None:
        self.server = server
        self.troubles = Troubles()
        self.shared = InCluster(
            "n1",
            client,
            self.troubles,
            SharedObjects(seconds=0.01),
            lambda: OwnerReference("Node", "n1", "uid-n1", "v1"),
            events,
            acts=acts,
        )

    @property
    def published(self) -> NodeReport | None:
        found = self.server.objects.get(NODE_TRAFFICS.path("", "n1"))
        return None if found is None else published.decode(msgspec.json.encode(found))

    @property
    def entries(self) -> list[Any]:
        return list(self.server.objects.get(PODAFI, {}).get("spec", {}).get("node") or ())

    @property
    def notes(self) -> list[tuple[str, str]]:
        found = [one for path, one in self.server.objects.items() if path.startswith("/apis/events.k8s.io")]
        return [(one["reason"], one["note"]) for one in found]

    def put(self, **spec: Any) -> None:
        self.server.put(OENUMAS, "podafi", "tcs", spec=spec)

    def writes(self, path: str) -> int:
        return sum(method != "GET" and asked.startswith(path) for method, asked, _ in self.server.calls)

    async def rounds(self, more: int = 3) -> None:
        """Let it look so many times more."""
        asked = WHITELISTS.path("tcs", "whitelist")
        wanted = sum(path == asked for _, path, _ in self.server.calls) + more
        await until(lambda: sum(path == asked for _, path, _ in self.server.calls) >= wanted)


def run(story: Callable[[Scene], Awaitable[None]], *, acts: bool = True) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            client = await stack.enter_async_context(Client(connection(server)))
            events = await stack.enter_async_context(EventWriter(client, controller="c", instance="n1"))
            scene = Scene(server, client, events, acts=acts)
            running = asyncio.create_task(scene.shared.run())
            await story(scene)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(play())


def test_a_report_is_published_in_the_name_of_the_node_and_again_only_when_it_matters() -> None:
    async def story(scene: Scene) -> None:
        scene.shared.tell(told(total=5), PLACED)
        await until(lambda: scene.published is not None)
        assert scene.published == told(total=5)
        (owner,) = scene.server.objects[NODE_TRAFFICS.path("", "n1")]["metadata"]["ownerReferences"]
        assert owner["uid"] == "uid-n1"
        scene.shared.tell(told(total=6, at=1001), PLACED)
        await scene.rounds()
        assert scene.published == told(total=5)
        scene.shared.tell(told(total=7, moves=(MOVED,)), PLACED)
        await until(lambda: scene.published == told(total=7, moves=(MOVED,)))
        assert scene.writes(NODE_TRAFFICS.path("", "n1")) == 2

    run(story)


def test_amounts_alone_are_written_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_cluster, "_STEADY_SECONDS", 0.0)

    async def story(scene: Scene) -> None:
        for total in (5, 6):
            scene.shared.tell(told(total=total), PLACED)
            await until(lambda total=total: scene.published == told(total=total))  # type: ignore[misc] # as told

    run(story)


def test_the_nodes_entry_stands_beside_those_of_others_which_stay_as_they_are() -> None:
    async def story(scene: Scene) -> None:
        scene.put(updateenable="enable", replicas=3, node=[OTHERS])
        scene.shared.tell(told(), PLACED)
        await until(lambda: len(scene.entries) == 2)
        assert scene.entries == [OTHERS, PLACED.plain()]
        written = scene.writes(PODAFI)
        await scene.rounds()
        assert scene.writes(PODAFI) == written
        gone = msgspec.structs.replace(PLACED, pod_affinity=())
        scene.shared.tell(told(), gone)
        await until(lambda: scene.entries == [OTHERS, gone.plain()])
        spec = scene.server.objects[PODAFI]["spec"]
        assert (spec["updateenable"], spec["replicas"]) == ("enable", 3)

    run(story)


@pytest.mark.parametrize("node", [None, []])
def test_an_object_without_entries_gets_the_first(node: list[Any] | None) -> None:
    async def story(scene: Scene) -> None:
        scene.put(updateenable="enable", **({} if node is None else {"node": node}))
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.entries == [PLACED.plain()])

    run(story)


def test_who_moves_pods_makes_the_object_and_who_observes_does_not() -> None:
    async def made(scene: Scene) -> None:
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.entries == [PLACED.plain()])
        assert scene.server.objects[PODAFI]["spec"]["updateenable"] == "enable"

    async def not_made(scene: Scene) -> None:
        scene.shared.tell(told(mode="observe"), PLACED)
        await scene.rounds()
        assert PODAFI not in scene.server.objects
        assert scene.shared.allowed

    run(made)
    run(not_made, acts=False)


def test_pods_may_be_moved_as_the_switch_stands_and_nobody_knows_before_it_was_read() -> None:
    async def story(scene: Scene) -> None:
        assert scene.shared.allowed is None
        for word, allowed in (("disable", False), ("Enable", True), ("", False)):
            scene.put(updateenable=word)
            await until(lambda allowed=allowed: scene.shared.allowed is allowed)  # type: ignore[misc] # as it stands
        scene.server.remove(OENUMAS, "podafi", "tcs")
        await until(lambda: scene.shared.allowed is True)

    run(story)


def test_the_whitelist_is_heard_and_one_that_is_not_there_says_nothing() -> None:
    async def story(scene: Scene) -> None:
        assert scene.shared.whitelist is None
        await until(lambda: scene.shared.whitelist is not None)
        assert not scene.shared.whitelist.effective  # type: ignore[attr-defined] # it is there now
        pods = [{"namespace": "shop", "names": ["web-0"]}, {"namespace": "shop", "names": ["db-0 db-1"]}]
        scene.server.put(WHITELISTS, "whitelist", "tcs", spec={"effectiveflag": True, "targetPods": pods})
        await until(lambda: bool(scene.shared.whitelist and scene.shared.whitelist.effective))
        assert all(scene.shared.whitelist.has("shop", name) for name in ("web-0", "db-0", "db-1"))  # type: ignore[attr-defined] # as above

    run(story)


@pytest.mark.parametrize("kind", ["whitelist", "podafi"])
def test_what_may_not_be_read_is_trouble_and_all_else_is_told_all_the_same(kind: str) -> None:
    async def story(scene: Scene) -> None:
        path = {"whitelist": WHITELISTS.path("tcs", "whitelist"), "podafi": PODAFI}[kind]
        scene.server.forbidden.add(path)
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.published is not None and "cluster" in scene.troubles.current)
        assert (scene.shared.whitelist is None, scene.shared.allowed is None) == (
            kind == "whitelist",
            kind == "podafi",
        )
        scene.server.forbidden.clear()
        await until(lambda: not scene.troubles.current)

    run(story)


def test_a_cluster_without_the_kind_is_told_how_to_get_it() -> None:
    async def story(scene: Scene) -> None:
        scene.server.missing.add(NODE_TRAFFICS.path())
        scene.shared.tell(told(), PLACED)
        await until(lambda: "cluster" in scene.troubles.current)
        assert "deploy/crd/nodetraffics.yaml" in scene.troubles.current["cluster"][1]

    run(story)


def test_who_has_no_use_for_openfuyaos_kinds_needs_none_of_them() -> None:
    async def story(scene: Scene) -> None:
        scene.server.missing |= {OENUMAS.path("tcs"), WHITELISTS.path("tcs")}
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.published is not None)
        await scene.rounds()
        assert not scene.troubles.current
        assert scene.shared.allowed

    run(story)


def test_an_object_that_is_full_has_the_nodes_resources_without_its_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare = msgspec.structs.replace(PLACED, pod_affinity=())
    room = len(msgspec.json.encode([OTHERS, bare.plain()]))
    monkeypatch.setattr(in_cluster, "_MOST_BYTES", room + 10)

    async def story(scene: Scene) -> None:
        scene.put(updateenable="enable", node=[OTHERS])
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.entries == [OTHERS, bare.plain()])
        # And it is not written again and again.
        written = scene.writes(PODAFI)
        await scene.rounds()
        assert scene.writes(PODAFI) == written

    run(story)


def test_in_the_end_nobody_is_said_to_be_where_he_was_put() -> None:
    async def story(scene: Scene) -> None:
        scene.shared.tell(told(), PLACED)
        await until(lambda: scene.entries == [PLACED.plain()])
        await scene.shared.farewell()
        assert scene.entries == [msgspec.structs.replace(PLACED, pod_affinity=()).plain()]

    run(story)


def test_a_move_is_an_event_of_its_pod_and_so_is_what_came_of_it() -> None:
    async def story(scene: Scene) -> None:
        scene.shared.tell(told(moves=(MOVED,)), PLACED)
        scene.shared.tell(told(moves=(MOVED,)), PLACED)
        await until(lambda: len(scene.notes) == 1)
        measured = msgspec.structs.replace(MOVED, measured=7 << 20, after=2 << 20)
        for _ in range(2):
            scene.shared.tell(told(moves=(measured,)), PLACED)
        await until(lambda: len(scene.notes) == 2)
        start = "shop/web-0 on NUMA 1: 9 MiB/s to and from other NUMA nodes before the move, 0 B/s predicted"
        assert sorted(scene.notes) == [
            ("NumaAffinityMeasured", f"{start}, 2 MiB/s measured"),
            ("NumaAffinityMoved", start),
        ]
        (body, *_) = (
            one for path, one in scene.server.objects.items() if path.startswith(EVENTS.path("shop"))
        )
        assert body["regarding"] == {
            "kind": "Pod",
            "name": "web-0",
            "namespace": "shop",
            "uid": "u",
            "apiVersion": "v1",
        }

    run(story)


def test_an_entry_has_what_the_node_has_and_no_more_pods_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = synthetic.read("2s x 2c x 1t mem=8Gi")
    targets = {uid: Target(CpuSet.parse("2-3"), 1) for uid in ("u1", "u2", "gone")}
    placed = {"u1": ((RunningContainer("c1", "s", "main", "2-3"), CpusAndMems("2-3", "0-1")),)}
    names = {"u1": ("shop", "web-0"), "u2": ("bank", "till")}
    made = entry_of("n1", machine, "containerd v2.1", targets, placed, names)
    assert made.numa == NUMA
    assert made.pod_affinity == (PlacedPod(1, "till", "bank"), *PLACED.pod_affinity)
    assert entry_of("n1", machine, "control groups", targets, placed, names).pod_affinity[1].containers == (
        PlacedContainer("c1", "main", "2,3", "0,1"),
    )
    monkeypatch.setattr(entry, "MOST_PODS", 1)
    assert len(entry_of("n1", machine, "", targets, placed, names).pod_affinity) == 1
