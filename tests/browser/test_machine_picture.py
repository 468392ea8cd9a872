"""The node's machine and the pod's place as pictures: what they show, light up, and give away as a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from browser.test_console import OUTSIDE, PAGES, opened, paths, pod_path, wrong
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import LabWorld, lab_cluster
from numaware.twin.hardware import DeviceLink
from numaware.twin.inventory import hardware_of, plugin_resource
from support.console_server import RunningConsole, running
from support.console_world import console, get

SVG = "{http://www.w3.org/2000/svg}"
GPU = "nvidia.com/gpu"
PHONE = 390


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(console) as found:
        yield found


def first_pod(server: RunningConsole, node: str = "gpu-1") -> Any:
    """A pod of the node that holds CPUs, memory and devices, as the API tells of it."""
    pods = api(server, f"/api/v1/nodes/{node}")["pods"]
    return next(pod for pod in pods if pod["cpus"] and pod["devices"])


def api(server: RunningConsole, path: str) -> Any:
    del server  # The module's console and the shared one lead the same life to the same moment.
    return get(path)


# Links


def test_links_between_devices_are_those_of_the_api(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/gpu-1") as page:
        rows = page.locator(".links tbody tr")
        shown = [rows.nth(row).locator("td").all_inner_texts() for row in range(rows.count())]
        assert shown == api(server, "/api/v1/nodes/gpu-1")["links"]
        words = "PIX: one PCIe switch; NODE: same NUMA node; SYS: across NUMA nodes."
        expect(page.get_by_text(words)).to_be_visible()
        # Pairs, two beside each NUMA node.
        expect(page.locator(".zone text", has_text="PCIe switch · PIX")).to_have_count(4)


def test_nvlinks_are_drawn_and_devices_without_a_place_are_set_apart(browser: Browser) -> None:
    def make() -> Console:
        spec = lab_cluster()
        resource = plugin_resource(GPU, {"a": (0,), "b": (0,), "c": (1,), "lost": ()})
        hardware = msgspec.structs.replace(
            hardware_of(synthetic.read("2s x 32c x 2t mem=512Gi"), [resource]),
            links=(DeviceLink((GPU, "a"), (GPU, "b"), "NV12"),),
        )
        node = msgspec.structs.replace(spec.nodes[0], name="nv", hardware=hardware)
        world = LabWorld(0, spec=msgspec.structs.replace(spec, nodes=(node,)))
        return Console(world, lambda: world.now)

    with running(make) as server, opened(browser, server, "/nodes/nv") as page:
        expect(page.locator(".zone text", has_text="NV12")).to_have_count(1)
        expect(page.locator(".loose")).to_contain_text("NUMA unknown")
        expect(page.locator(".loose .chip")).to_have_text("GPU 3 · free to pin")
        assert page.locator(".links tbody tr").first.locator("td").all_inner_texts() == [
            "X",
            "NV12",
            "SYS",
            "?",
        ]
        assert wrong(page) == []


def test_the_way_between_packages_has_its_distance(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/gpu-1") as page:
        expect(page.locator(".way")).to_have_text("21")
    with opened(browser, server, "/nodes/epyc-0") as page:
        expect(page.locator(".way")).to_have_text("21")
        expect(page.locator(".pkg")).to_have_count(2)
        expect(page.locator(".zone text", has_text=re.compile(r"^L3 L#\d · 32 MiB$"))).to_have_count(8)
        expect(page.get_by_text("This node has no devices that pods can own.")).to_be_visible()


# Lighting up


def lit(page: Page) -> set[int]:
    """The CPUs that stand out."""
    found = page.locator(".zone .hold.on[data-cpu]").evaluate_all("all => all.map(one => one.dataset.cpu)")
    return {int(cpu) for cpu in found}


def test_pointing_at_anything_of_a_pod_lights_up_all_it_holds(
    browser: Browser, server: RunningConsole
) -> None:
    pod = first_pod(server)
    devices = sum(len(ids) for ids in pod["devices"].values())
    with opened(browser, server, "/nodes/gpu-1") as page:
        holds = page.locator(f'.zone [data-pod="{pod["pod"]}"]')
        cell = holds.locator(".cellno", has_text=re.compile(rf"^{min(CpuSet.parse(pod['cpus']))}$")).first
        for place in (cell, holds.locator(".dev").first):
            page.mouse.move(1, 1)
            expect(page.locator(".zone .hold.on")).to_have_count(0)
            place.hover(force=True)
            expect(page.locator("aside tr.on")).to_contain_text(pod["pod"])
            assert lit(page) == set(CpuSet.parse(pod["cpus"]))
            assert page.locator(".zone .hold.on .dev").count() == devices
            assert page.locator(".links tbody tr.on").count() == devices
            # One segment of the memory bar on each NUMA node where it has memory.
            assert page.locator(".zone .hold.on").count() == len(lit(page)) + devices + len(pod["numa"])
        opacity = "one => getComputedStyle(one).opacity"
        assert page.locator(".zone .hold:not(.on)").first.evaluate(opacity) == "0.28"
        assert holds.first.evaluate(opacity) == "1"


def test_the_keyboard_lights_up_the_same(browser: Browser, server: RunningConsole) -> None:
    pod = first_pod(server)
    with opened(browser, server, "/nodes/gpu-1") as page:
        link = page.locator("aside").get_by_role("link", name=pod["pod"], exact=True)
        for _ in range(80):
            page.keyboard.press("Tab")
            if link.evaluate("one => one === document.activeElement"):
                break
        expect(link).to_be_focused()
        assert lit(page) == set(CpuSet.parse(pod["cpus"]))
        page.keyboard.press("Shift+Tab")
        assert not lit(page) & set(CpuSet.parse(pod["cpus"]))


def test_a_pod_that_is_not_on_the_node_dims_nothing(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/gpu-1?pod=no/body") as page:
        expect(page.locator(".zone").first).to_be_visible()
        expect(page.locator(".linked")).to_have_count(0)


# Colours


@pytest.mark.parametrize(("mode", "told"), [("busy", "how busy the CPUs"), ("remote", "where the memory")])
def test_a_colour_without_data_says_what_would_give_it_some(
    browser: Browser, server: RunningConsole, mode: str, told: str
) -> None:
    with opened(browser, server, "/nodes/gpu-1") as page:
        page.get_by_role("group", name="View").get_by_role("button", name=mode).click()
        expect(page).to_have_url(re.compile(f"color={mode}"))
        expect(page.locator(".empty")).to_contain_text(told)
        expect(page.locator(".empty li")).to_have_count(3)
        page.get_by_role("button", name="owner").click()
        expect(page.locator(".zone")).to_have_count(2)


def test_measured_shares_colour_cpus_and_are_said_in_numbers(
    browser: Browser, server: RunningConsole
) -> None:
    pod = first_pod(server)
    namespace, name = pod["pod"].split("/")
    answers = {
        "numa_node_cpu_usage_ratio": [({"numa": "0"}, "0.43"), ({"numa": "1"}, "0.97")],
        "numa_pod_remote_memory_ratio": [({"namespace": namespace, "pod": name}, "0.25")],
    }

    def answer(route: Any) -> None:
        query = next(key for key in answers if key in route.request.url)
        result = [{"metric": metric, "value": [0, value]} for metric, value in answers[query]]
        route.fulfill(json={"status": "success", "data": {"resultType": "vector", "result": result}})

    with opened(browser, server, "/nodes/gpu-1") as page:
        page.route("**/api/v1/monitoring/prometheus", lambda route: route.fulfill(json={"state": "answers"}))
        page.route("**/rest/scheduling/api/v1/query?**", answer)
        page.get_by_role("button", name="busy").click()
        expect(page.locator(".zone text", has_text="busy 43 %")).to_have_count(1)
        expect(page.locator(".zone text", has_text="busy 97 %")).to_have_count(1)
        assert page.locator(".zone").nth(1).locator(".heat4").count() >= 60
        page.get_by_role("button", name="remote").click()
        expect(page.locator("aside")).to_contain_text("25 % of its memory is remote")
        expect(page.locator(f'.zone [data-pod="{pod["pod"]}"] .heat1').first).to_be_visible()
        assert wrong(page) == []
        page.locator("aside").get_by_role("link", name=pod["pod"], exact=True).click()
        expect(page.locator(".facts .big")).to_have_text("25 %")


# The file


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_drawing_is_saved_as_a_file_that_needs_nothing_else(
    browser: Browser, server: RunningConsole, tmp_path: Path, theme: Any
) -> None:
    with opened(browser, server, "/nodes/gpu-1", theme=theme) as page:
        with page.expect_download() as download:
            page.get_by_role("button", name="Save the drawing as an SVG file").click()
        assert download.value.suggested_filename == "gpu-1.svg"
        saved = tmp_path / "gpu-1.svg"
        download.value.save_as(saved)
        pods = {pod["pod"] for pod in api(server, "/api/v1/nodes/gpu-1")["pods"] if pod["slot"] is not None}
        root = ET.fromstring(saved.read_text())  # noqa: S314 - our own page wrote it
        assert {found for one in root.iter() if (found := one.get("data-pod"))} == pods
        texts = [text.text or "" for text in root.iter(f"{SVG}text")]
        assert all(any(pod in text for text in texts) for pod in pods)
        assert {str(cpu) for cpu in range(128)} <= set(texts)
        assert {"Package L#0", "Package L#1", "21"} <= set(texts)
        assert not re.findall(r"var\(|href|<style|class=|@import", saved.read_text())
        patterns = {one.get("id") for one in root.iter(f"{SVG}pattern")}
        assert set(re.findall(r"url\(#(\w+)\)", saved.read_text())) <= patterns
    alone = browser.new_context().new_page()
    asked: list[str] = []
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(saved.as_uri())
    assert asked == [saved.as_uri()]
    box = alone.locator("text", has_text="NUMA 1").first.bounding_box()
    assert box is not None
    assert box["width"] > 10
    alone.context.close()


def test_there_is_nothing_to_save_where_nothing_is_drawn(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/gpu-1?view=text") as page:
        expect(page.get_by_role("button", name="Save the drawing as an SVG file")).to_be_disabled()


# The pod


def test_a_pods_page_shows_its_cpus_and_devices_where_they_are(
    browser: Browser, server: RunningConsole
) -> None:
    path = pod_path(server)
    view = api(server, f"/api/v1{path}")
    with opened(browser, server, path) as page:
        seat = page.locator("section.linked")
        expect(seat.locator(".zone")).to_have_count(len(view["summary"]["numa"]))
        assert lit(page) == set(CpuSet.parse(view["cpus"]))
        for ids in view["devices"].values():
            for device in ids:
                expect(page.get_by_role("cell", name=re.compile(re.escape(device))).first).to_be_visible()
        expect(page.get_by_text("No traffic is recorded.")).to_be_visible()
        expect(page.locator(".facts").get_by_role("link", name="Policies")).to_have_attribute(
            "href", "/policies"
        )


def test_a_list_without_a_match_can_be_cleared(browser: Browser, server: RunningConsole) -> None:
    for path, box in (("/pods", "Find a pod"), ("/nodes", "Filter")):
        with opened(browser, server, path) as page:
            everything = page.locator(".rows tbody tr").count()
            page.get_by_role("searchbox", name=box).fill("zzz")
            expect(page.locator(".empty")).to_contain_text("zzz")
            page.get_by_role("button", name="Clear the filter").click()
            expect(page.locator(".rows tbody tr")).to_have_count(everything)


# Phones


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", [*PAGES, "pod"])
def test_no_page_scrolls_sideways_on_a_phone_and_all_can_be_touched(
    browser: Browser, server: RunningConsole, name: str, language: Any
) -> None:
    with opened(browser, server, paths(server)[name], width=PHONE, language=language) as page:
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
        assert page.evaluate(SMALL) == []
        here = page.locator(".nav [aria-current]").bounding_box()
        assert here is not None
        assert 0 <= here["x"] <= PHONE - here["width"]


# Buttons and fields; links within sentences may be as low as their line.
SMALL = """() => [...document.querySelectorAll("main button, main input:not([type=file]), main select, main .btn, .nav a")]
  .map(one => [one, one.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < 24 || box.width < 24))
  .filter(([one]) => !one.matches("[type=checkbox], [type=radio]"))
  .map(([one, box]) => `${one.outerHTML.slice(0, 80)} ${box.width}x${box.height}`)"""
