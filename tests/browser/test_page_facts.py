"""What the page says of a node is what the server says: it draws, and works nothing out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import LabWorld
from numaware.serve.console.views.pod_shape import Shape
from numaware.serve.console.views.wall_model import Tile
from numaware.serve.console.world import Source
from support.console_server import RunningConsole, running
from support.console_world import NOW, console, lopsided_console

DATABASE = Shape("10", "120Gi", 0)


class Unheard(LabWorld):
    """One node is only guessed at, another has fallen silent, the others are current."""

    def reported(self, node: str) -> tuple[Source, int]:
        if node == "box-1":
            return "reported", NOW - 150_000
        return ("inferred" if node == "box-0" else "reported"), self.now


def unheard() -> Console:
    world = Unheard(NOW - 60_000)
    world.advance(NOW)
    return Console(world, lambda: world.now)


@contextmanager
def opened(browser: Browser, server: RunningConsole, path: str, locale: str = "en-US") -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, locale=locale)
    page = context.new_page()
    page.goto(server.url + path)
    yield page
    context.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(console) as found:
        yield found


def seconds(chip: Locator) -> int:
    """The age that a provenance chip tells."""
    told = re.search(r"(\d+) (s|min)$", chip.inner_text())
    assert told, chip.inner_text()
    return int(told[1]) * (60 if told[2] == "min" else 1)


def tile_of(console: Console, name: str, shape: Shape) -> Tile:
    return console.wall_model.tiles(shape, [name])[0]


def test_the_rail_tells_source_and_age_of_the_very_node(browser: Browser) -> None:
    with running(unheard) as server, opened(browser, server, "/overview") as page:
        rail = page.locator("aside .panel").first
        for name, source, least, most in (
            ("box-0", "inferred", 0, 11),
            ("box-1", "reported", 150, 180),
            ("gpu-0", "reported", 0, 11),
        ):
            page.locator(f".tile[data-name='{name}']").hover()
            expect(rail.get_by_role("heading", name=name)).to_be_visible()
            chip = rail.locator(".prov")
            expect(chip).to_have_class(re.compile(rf"\b{source}\b"))
            assert least <= seconds(chip) <= most
            expect(page.locator("aside .prov.old")).to_have_count(int(name == "box-1"))
        for path in ("/nodes/box-1", "/whatif?node=box-1&shape=cpu:4,mem:8Gi,gpu:0"):
            page.goto(server.url + path)
            chip = page.locator(".prov", has_text="allocations")
            expect(chip).to_have_class(re.compile(r"\breported\b.*\bold\b"))
            assert seconds(chip) >= 120


def test_the_age_of_a_node_follows_its_reports(browser: Browser) -> None:
    """A node that does not change is as old as its last report, not as its last change."""
    with running(lambda: console(nodes=4)) as server, opened(browser, server, "/nodes/gpu-0") as page:
        chip = page.locator(".prov", has_text="allocations")
        expect(chip).to_be_visible()
        for _ in range(4):
            server.advance(6_000)
            page.wait_for_timeout(300)
            assert seconds(chip) <= 12


def test_the_rail_names_the_numa_node_that_memory_decides(browser: Browser) -> None:
    """Both NUMA nodes have ten CPUs free, but only the second one has 120 GiB."""
    name, query = "gpu-5", "shape=cpu:10,mem:120Gi,gpu:0"
    with (
        running(lopsided_console) as server,
        opened(browser, server, f"/overview?{query}") as page,
    ):
        tile = server.do(lambda found: tile_of(found, name, DATABASE))
        assert [strip.free_to_pin >= 10 for strip in tile.strips] == [True, True]
        assert tile.numa == (1,)
        page.locator(f".tile[data-name='{name}']").hover()
        expect(page.locator("aside")).to_contain_text(f"Would be admitted on NUMA {tile.numa[0]}.")
        page.goto(f"{server.url}/whatif?node={name}&{query}")
        expect(page.locator(".banner")).to_contain_text(f"Would be admitted on NUMA {tile.numa[0]}.")
        expect(page.locator(".ghosts .zone")).to_have_count(2)
        drawn = [zone.locator(".ghost").count() for zone in page.locator(".ghosts .zone").all()]
        assert [number for number, ghosts in enumerate(drawn) if ghosts] == list(tile.numa)


def test_tiles_stand_in_the_servers_order(browser: Browser, server: RunningConsole) -> None:
    ranks = server.do(lambda found: {tile.name: tile.rank for tile in found.wall_model.tiles(Shape())})
    with opened(browser, server, "/overview?group=none") as page:
        expect(page.locator(".tile")).to_have_count(len(ranks))
        names = page.locator(".tile").evaluate_all("all => all.map(one => one.dataset.name)")
        assert [ranks[name] for name in names] == sorted(ranks.values())


def test_reasons_come_in_the_readers_language(browser: Browser, server: RunningConsole) -> None:
    question = "/whatif?node=box-0&shape=cpu:14,mem:40Gi,gpu:0"
    for locale, words in (("en-US", "short by|only on"), ("zh-CN", "差|仅")):
        with opened(browser, server, question, locale) as page:
            expect(page.locator(".vitem .why").filter(has_text=re.compile(words)).first).to_be_visible()
