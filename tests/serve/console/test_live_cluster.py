"""A live cluster in the console: its nodes as they are known, its pods as its watches tell of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from affinity.test_published import TOLD
from numaware.affinity.report import NodeReport
from numaware.schedule.ledger import encode, placement_of
from numaware.sentence import Sentence
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.console.api.routes import Console
from numaware.serve.console.live_cluster import LiveCluster
from numaware.twin.node import Node
from support.cache_world import Clock, cache_of, complete, counted, ended, live_node, live_pod
from support.console_world import NOW, client
from support.twin_nodes import admitted, config, machine, pod


def fresh(policy: str = "restricted") -> Node:
    """Two NUMA nodes of four CPUs, the first CPU the system's."""
    return Node.fresh(machine(2, 4), config(policy))


class Told:
    """A cluster whose news go to the cache and to the console, as `serve.live` would send them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cache: ClusterCache = cache_of(live_node(fresh()), clock=self.clock)
        self.world = LiveCluster("prod", self.cache, self.clock, NOW)
        self.console = Console(self.world, lambda: self.world.now)

    def pod(self, found: Any) -> None:
        self.cache.put_pod(found)
        self.world.pod_changed(found.uid, found)

    def gone(self, uid: str) -> None:
        self.cache.drop_pod(uid)
        self.world.pod_changed(uid, None)

    def get(self, path: str) -> Any:
        answer = client(self.console).get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def test_a_node_that_the_agent_reports_is_shown_with_its_cpus() -> None:
    told = Told()
    told.cache.put_report(complete(admitted(fresh(), pod("a", 3))))
    told.pod(live_pod(pod("a", 3)))
    view = told.get("/api/v1/nodes/n1")
    assert view["kubelet"]["topologyPolicy"] == "restricted"
    assert [one["cpus"] for one in view["pods"]] == ["1-3"]
    assert view["summary"]["source"] == "reported"
    assert told.get("/api/v1/cluster?cpu=4&memory=1Gi&gpu=0")["kind"] == "cluster"


@pytest.mark.parametrize("known", ["counts", "none"])
def test_a_node_that_is_hardly_known_breaks_no_page(known: str) -> None:
    told = Told()
    if known == "counts":
        told.cache.put_report(counted(fresh()))
    for path in (
        "/api/v1/cluster?cpu=2&memory=1Gi&gpu=0",
        "/api/v1/wall?cpu=2&memory=1Gi&gpu=0",
        "/api/v1/nodes",
        "/api/v1/nodes/n1",
        "/api/v1/pods",
        "/api/v1/explain?node=n1&cpu=2&memory=1Gi&gpu=0",
        "/api/v1/headroom?cpu=2&memory=1Gi&gpu=0",
        "/api/v1/monitoring?node=n1",
        "/api/v1/policies",
    ):
        told.get(path)


def test_what_was_there_before_has_not_just_happened() -> None:
    told = Told()
    told.pod(live_pod(pod("a", 1)))
    told.pod(ended(live_pod(pod("b", 1)), "Failed", "TopologyAffinityError"))
    told.world.begin()
    assert list(told.world.events) == []
    assert list(told.world.stories) == ["a"]
    told.pod(live_pod(pod("c", 1)))
    assert [(event.kind, event.pod) for event in told.world.events] == [("admitted", "default/c")]


def test_pods_wait_are_admitted_refused_and_leave() -> None:
    told = Told()
    told.world.begin()
    waiting = live_pod(pod("a", 1), node="")
    told.pod(waiting)
    assert told.get("/api/v1/pods")["items"][0]["phase"] == "Pending"
    told.pod(live_pod(pod("a", 1)))
    told.pod(live_pod(pod("a", 1)))
    told.pod(ended(live_pod(pod("a", 1))))
    # It had a node, which is not to say that it was taken there.
    told.pod(live_pod(pod("b", 1), looked_at=False))
    refused = ended(live_pod(pod("b", 1)), "Failed", "TopologyAffinityError")
    told.pod(refused)
    told.pod(msgspec.structs.replace(refused, version="2"))
    told.gone("b")
    assert [(event.kind, event.pod) for event in told.world.events] == [
        ("admitted", "default/a"),
        ("left", "default/a"),
        ("refused", "default/b"),
    ]
    assert not told.world.stories
    assert not told.world.waiting
    assert told.get("/api/v1/cluster")["refusals"] == 1


def test_a_prediction_is_held_against_what_was_seen() -> None:
    told = Told()
    node = admitted(fresh(), pod("a", 2))
    text = encode(placement_of(node, pod("a", 2)))
    for observed, expected in ((text, True), (text.replace("node-0", "node-1"), False), ("", False)):
        told.pod(live_pod(pod("a", 2), predicted=text, observed=observed))
        assert told.get("/api/v1/pods/default/a")["summary"]["predicted"] is expected
    told.pod(live_pod(pod("a", 2), predicted="<script>", observed=text))
    assert told.get("/api/v1/pods/default/a")["summary"]["predicted"] is None


def test_nothing_is_switched_from_here() -> None:
    told = Told()
    answer = client(told.console).put("/api/v1/policies/numaaware", json={"status": "open"})
    assert answer.status_code == 409
    assert "only looks" in answer.json()["detail"]


def test_a_report_that_no_longer_covers_all_pods_grows_old() -> None:
    told = Told()
    told.cache.put_report(counted(fresh()))
    told.clock.now += 200
    told.cache.refresh()
    assert told.world.reported("n1")[1] in (NOW, NOW - 200_000)


class Agents:
    """What agents have told, as `serve.talk_watch` would have it."""

    def __init__(self, *reports: NodeReport, missing: Sentence | None = None) -> None:
        self.reports = {report.node: report for report in reports}
        self.missing = missing or Sentence()


def talking(node: str, ago: int) -> NodeReport:
    return replace(TOLD, node=node, at=NOW // 1000 - ago)


def traffic_of(agents: Agents, lang: str = "en") -> tuple[Any, TestClient]:
    cache = cache_of(*(live_node(fresh(), name, name) for name in ("n1", "n2")), clock=Clock())
    world = LiveCluster("prod", cache, Clock(), NOW, talk=agents)
    api = client(Console(world, lambda: world.now))
    return api.get("/api/v1/traffic", headers={"accept-language": lang}).json(), api


def test_talk_is_shown_as_agents_told_it_and_with_its_age() -> None:
    told, api = traffic_of(Agents(talking("n1", 40), talking("n2", 10), talking("gone", 1)))
    assert (told["source"], told["time"]) == ("measured", NOW - 40_000)
    assert [one["node"] for one in told["nodes"]] == ["n1", "n2"]
    assert told["total"] == 2 * TOLD.total
    node = api.get("/api/v1/traffic/n2").json()
    assert (node["source"], node["time"], node["stale"]) == ("measured", NOW - 10_000, False)
    assert api.get("/api/v1/traffic/gone").status_code == 404


def test_what_an_agent_told_long_ago_is_shown_as_old_and_not_counted() -> None:
    told, _ = traffic_of(Agents(talking("n1", 3600), talking("n2", 10)))
    assert {one["node"]: one["stale"] for one in told["nodes"]} == {"n1": True, "n2": False}
    assert (told["total"], told["time"]) == (TOLD.total, NOW - 10_000)


def test_why_agents_cannot_be_heard_is_said_in_the_readers_language() -> None:
    missing = Sentence(
        "the account of this console may not list and watch {what}: {command}", what="x", command="y"
    )
    agents = Agents(missing=missing)
    assert traffic_of(agents)[0]["missing"] == str(missing)
    assert "权限" in traffic_of(agents, "zh")[0]["missing"]
