"""Tiles: what the wall tells of a node is what its own page and the answer to the question tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from numaware.machine.cpuset import CpuSet
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import LabWorld, lab_cluster
from numaware.serve.console.views.pod_shape import Shape
from numaware.serve.console.views.strips import strips_of
from numaware.serve.console.views.wall_model import Tile
from numaware.serve.console.world import Source
from support.console_world import NOW, client, get, lopsided_console, post

FIELDS = [field.name for field in msgspec.structs.fields(Tile)]
DATABASE = {"cpu": "10", "memory": "120Gi", "gpu": 0}
SHAPES = [DATABASE, {"cpu": "14", "memory": "40Gi", "gpu": 0}, {"cpu": "24", "memory": "96Gi", "gpu": 2}]


def tiles(shape: Mapping[str, Any], found: Console | None = None) -> list[dict[str, Any]]:
    wall = client(found).get("/api/v1/wall", params=dict(shape)).json()
    return [dict(zip(FIELDS, tile, strict=True)) for tile in wall["tiles"]]


class Unheard(LabWorld):
    """A lab in which one node is only guessed at, and another has fallen silent."""

    def reported(self, node: str) -> tuple[Source, int]:
        if node == "box-0":
            return "inferred", self.now
        return ("reported", self.now - 95_000) if node == "box-1" else super().reported(node)


def unheard() -> Console:
    world = Unheard(NOW - 60_000, spec=lab_cluster())
    world.advance(NOW)
    return Console(world, lambda: world.now)


def test_a_tile_tells_source_and_age_as_the_page_of_its_node_does() -> None:
    found = unheard()
    by_name = {tile["name"]: tile for tile in tiles({}, found)}
    for name, tile in by_name.items():
        summary = client(found).get(f"/api/v1/nodes/{name}").json()["summary"]
        assert tile["source"] == summary["source"]
        assert (tile["reported_at"] or found.world.now) == summary["reportedAt"]
        assert tile["stale"] == summary["stale"]
    assert (by_name["box-0"]["source"], by_name["box-0"]["reported_at"]) == ("inferred", 0)
    assert (by_name["box-1"]["source"], by_name["box-1"]["stale"]) == ("reported", True)
    assert by_name["box-1"]["reported_at"] == NOW - 95_000


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tile_names_the_numa_nodes_that_the_answer_names(shape: dict[str, Any]) -> None:
    answers = post("/api/v1/whatif", {"shape": shape})["nodes"]
    by_tile = {tile["name"]: tile["numa"] for tile in tiles(shape)}
    assert by_tile == {answer["node"]: answer["numa"] for answer in answers}


def test_memory_decides_where_cpus_alone_would_fit_elsewhere_too() -> None:
    decided, found = 0, lopsided_console()
    asking = client(found)
    for tile in tiles(DATABASE, found):
        for numa in asking.get(f"/api/v1/nodes/{tile['name']}").json()["numa"]:
            enough = numa["managed"] and len(CpuSet.parse(numa["freeToPinCpus"])) >= 10
            if tile["verdict"] == 0 and enough and numa["freeToPinMemory"] < 120 << 30:
                decided += 1
                assert numa["id"] not in tile["numa"]
                query = {key: str(amount) for key, amount in DATABASE.items()}
                query["node"] = tile["name"]
                places = asking.get("/api/v1/explain", params=query).json()["places"]
                assert [place["numa"] for place in places if place["memory"]] == tile["numa"]
    assert decided


def test_tiles_are_ranked_worst_first() -> None:
    """Refused, split, full, aligned, never; among those storms, refusals, stranded pods, silence."""
    wall = get("/api/v1/wall")
    worst_first = ["refused", "split", "full", "aligned", "never"]
    ranked = sorted(tiles({}, unheard()) + tiles({}), key=lambda tile: tile["rank"])
    keys = [
        (
            worst_first.index(wall["verdicts"][tile["verdict"]]),
            not tile["storm"],
            -tile["refusals"],
            -tile["stranded"],
            not tile["stale"],
        )
        for tile in ranked
    ]
    assert keys == sorted(keys)
    assert len(set(keys)) == len({tile["rank"] for tile in ranked})


def test_a_strip_tells_the_cpus_that_are_free_to_pin() -> None:
    for node in get("/api/v1/nodes")["items"]:
        for numa, view in zip(node["numa"], get(f"/api/v1/nodes/{node['name']}")["numa"], strict=True):
            assert numa[8] == len(CpuSet.parse(view["freeToPinCpus"]))


def test_nodes_that_share_their_strips_have_the_same_ones() -> None:
    """Strips are worked out once for nodes in equal state."""
    world = LabWorld(0)
    wall_model = Console(world, lambda: world.now).wall_model
    shared = []
    for moment in range(0, 120_000, 10_000):
        world.advance(moment)
        wall_model.refresh()
        for member in world.cluster:
            assert wall_model.strips(member.name) == strips_of(member)
        shared.append(len({id(wall_model.strips(member.name)) for member in world.cluster}))
    assert min(shared) < len(world.cluster)
    assert len(set(shared)) > 1


def test_only_nodes_that_changed_are_judged_again() -> None:
    found = lopsided_console()
    model, shape = found.wall_model, Shape("10", "120Gi", 0)
    assert model.unjudged(shape) == [member.name for member in model.cluster]
    model.judged(shape)
    assert model.unjudged(shape) == []
    assert model.unjudged(Shape("1", "1Gi", 0)) == [member.name for member in model.cluster]
    name, uid = next((member.name, uid) for member in model.cluster for uid in member.pods)
    model.cluster.release(uid)
    assert model.unjudged(shape) == [name]
