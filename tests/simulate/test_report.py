"""The report as a file: whole, self-contained, repeatable, safe and small. How it looks is tested in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html.parser import HTMLParser

import msgspec
import pytest

from numaware.diagnose.rules.storms import Storm
from numaware.errors import InputError
from numaware.simulate.report import render
from numaware.simulate.report_style import PAGE_TOKENS
from numaware.simulate.result import Result, Talk
from support.colour_contrast import contrast
from support.made_results import OUTCOMES, everything, result

VOID = {"meta", "input"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed in its turn."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        assert len(attributes) == len(attrs), f"{tag} has an attribute twice"
        self.found.append((tag, attributes))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def report(results: Sequence[Result], **changes: str) -> bytes:
    words = {"title": "A comparison", "cluster": "gpu-pool", "trace": "trainings"} | changes
    return render(results, settings={"kubelet policy": "restricted", "scope": "pod"}, **words)


CASES = {
    "one run": [result()],
    "two policies": [result("numaware"), result("kube-scheduler")],
    "all policies, several seeds": everything(3),
    "no GPUs": [result("numaware", gpus=False), result("random", gpus=False)],
    "two clusters": [
        result("numaware"),
        result("random"),
        result("numaware", cluster="b"),
        result("kai", cluster="b"),
    ],
    "no history, no nodes": [msgspec.structs.replace(result("kai"), series=(), tiles=())],
}


@pytest.mark.parametrize("results", CASES.values(), ids=CASES)
def test_a_report_is_well_formed_and_names_nothing_outside_itself(results: list[Result]) -> None:
    data = report(results)
    page = Page(data)
    assert {tag for tag, _ in page.found}.isdisjoint(
        {"link", "img", "iframe", "object", "image", "use", "base"}
    )
    assert re.findall(rb"https?:|@import|href=|src=|url\((?!#)", data) == []
    identities = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(identities) == len(set(identities))


def test_the_page_allows_its_own_style_and_script_and_nothing_else() -> None:
    data = report(everything()).decode()
    (rule,) = [meta["content"] for meta in Page(data.encode()).all("meta") if "http-equiv" in meta]
    parts = dict(part.strip().split(" ", 1) for part in rule.split(";"))
    assert parts.pop("default-src") == "'none'"
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (code,) = re.findall(rf"<{tag}>(.*?)</{tag}>", data, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert parts.pop(name) == f"'sha256-{digest}'"
    assert not parts
    # Inline styles and handlers would be refused by that rule.
    assert not [
        one
        for _, one in Page(data.encode()).found
        if any(key == "style" or key.startswith("on") for key in one)
    ]


def test_equal_results_give_equal_bytes() -> None:
    assert report(everything(2)) == report(everything(2))


def test_only_marked_numbers_depend_on_the_clock_on_the_wall() -> None:
    slow = [result(policy, speed=10.0) for policy in OUTCOMES]
    fast = [result(policy, speed=98_765.4) for policy in OUTCOMES]
    assert report(slow) != report(fast)
    clock = re.compile(rb'<span class="clock">[^<]*</span>')
    assert clock.sub(b"", report(slow)) == clock.sub(b"", report(fast))


def test_the_table_holds_every_measure_of_every_policy_and_marks_the_best() -> None:
    data = report(everything()).decode()
    (table,) = re.findall(r'<table class="standings">.*?</table>', data)
    rows = re.findall(r"<tr.*?</tr>", table)[1:]
    assert len(rows) == len(OUTCOMES)
    most = max(f"{one.run.device_allocated_percent['gpu']:.1f}" for one in everything())
    for row, one in zip(rows, everything(), strict=True):
        shown = re.sub(r"<[^>]+>", " ", row)
        run = one.run
        assert run.policy in shown
        for expected in (
            f"{run.pods_placed:,}",
            f"{run.kubelet_refusals}",
            f"{one.refusals_per_thousand:.1f}",
            f"{run.aligned_percent:.1f}",
            f"{run.cross_numa_pods}",
            f"{run.cpu_allocated_percent:.1f}",
            f"{run.memory_allocated_percent:.1f}",
            f"{run.device_allocated_percent['gpu']:.1f}",
            f"{run.stranded_percent:.1f}",
            f"{run.decisions_per_second:,.0f}",
        ):
            assert expected in shown.split()
        # Words for those who listen, a star for those who see: not colour alone.
        marked = re.findall(r"<b>([^<]*)<span class=\"hidden\"> best</span></b>", row)
        assert (most in marked) == (f"{run.device_allocated_percent['gpu']:.1f}" == most)
        assert ("0" in marked) == (run.kubelet_refusals == 0)


def test_several_seeds_are_told_with_their_range() -> None:
    results = [result("fgd", seed) for seed in (1, 2, 3)]
    shares = sorted(one.run.device_allocated_percent["gpu"] for one in results)
    text = Page(report(results)).text
    assert "Means of 3 seeds" in text
    assert "% of GPUs allocated, on average of 3 seeds." in text
    assert f"{shares[0]:.1f}\N{EN DASH}{shares[-1]:.1f}" in text
    assert "Bands: lowest to highest seed." in text
    assert "Means of" not in Page(report(results[:1])).text


def test_every_picture_says_in_words_what_it_shows_and_plots_have_tables() -> None:
    page = Page(report(everything()))
    pictures = page.all("svg")
    assert all(
        one.get("role") == "img" or one.get("aria-hidden") == "true" or "viewbox" in one for one in pictures
    )
    labels = [one["aria-label"] for one in pictures if one.get("role") == "img"]
    allocated = next(label for label in labels if label.startswith("GPU allocated"))
    for one in everything():
        assert f"{one.run.policy} {one.run.device_allocated_percent['gpu']:.1f}" in allocated
    assert len(page.all("details")) == 4
    assert sum(label.startswith("numaware: of 120 nodes") for label in labels) == 1


def test_talk_between_numa_nodes_is_drawn_before_and_after_and_no_gain_is_said() -> None:
    def talking(policy: str, planned: int, moves: int) -> Result:
        return msgspec.structs.replace(result(policy), talk=Talk(1_900_000_000, 750_000_000, planned, moves))

    text = Page(report([talking("numaware", 390_000_000, 12), talking("kube-scheduler", 0, 32)])).text
    assert "numaware: 12 moves would leave 390 of 750 MB/s." in text
    assert "Talk between NUMA nodes MB/s, before and after agents move pods that talk" in text
    assert "numaware 750.0 390.0" in text
    assert "kube-scheduler 750.0 0.0" in text
    unmoved = Page(report([talking("numaware", 750_000_000, 0)]))
    assert "numaware: no gain expected, nobody would be moved." in unmoved.text
    assert "Talk between NUMA nodes" not in Page(report(everything())).text


def test_regions_that_scroll_can_be_reached_by_keyboard_and_have_a_name() -> None:
    for one in [attributes for _, attributes in Page(report(everything())).found]:
        if "scroll" in one.get("class", "").split():
            assert one["tabindex"] == "0"
            assert one["aria-label"]


def test_reasons_and_storms_are_listed() -> None:
    text = Page(report(everything())).text
    for word in (
        "Insufficient nvidia.com/gpu",
        "Insufficient cpu",
        "TopologyAffinityError",
        "train/ddp-worker",
    ):
        assert word in text


def test_many_reasons_are_folded_into_one_line() -> None:
    base = result()
    reasons = {f"reason {at:03}": at + 1 for at in range(200)}
    one = msgspec.structs.replace(base, run=msgspec.structs.replace(base.run, unplaced_by_reason=reasons))
    text = Page(report([one])).text
    assert "188 other reasons" in text
    assert "reason 199" in text
    assert "reason 000" not in text
    assert f"all {sum(reasons.values()):,}" in text


def test_settings_are_shown_as_they_were_given() -> None:
    text = Page(report([result()], title="Friday", cluster="pool a: 3 nodes", trace="b.csv")).text
    for words in ("Friday", "cluster pool a: 3 nodes", "trace b.csv", "kubelet policy restricted", "seeds 1"):
        assert words in text


def test_each_cluster_has_its_own_section() -> None:
    page = Page(report(CASES["two clusters"]))
    assert len(page.all("section")) == 2
    assert "gpu-pool · trainings" in page.text
    assert "b · trainings" in page.text


def test_hostile_names_stay_text() -> None:
    evil = "</style><script>alert(1)</script>\"'\x1b[31m\u202e&amp;" + "x" * 5000
    base = result(evil, cluster=evil, trace=evil)
    run = msgspec.structs.replace(
        base.run, unplaced_by_reason={evil: 4}, device_allocated_percent={evil: 4.0, "gpu": 3.0}
    )
    one = msgspec.structs.replace(
        base, run=run, storms=(Storm(evil, (evil,), 9, 0, 1, evil),), refusals_by_reason={evil: 9}
    )
    two = msgspec.structs.replace(one, cluster=f"2{evil}")
    data = render([one, result(), two], title=evil, cluster=evil, trace=evil, settings={evil: evil})
    assert data.count(b"<script>") == 1
    assert data.count(b"<style>") == 1
    assert b"\x1b" not in data
    assert "\u202e".encode() not in data
    page = Page(data)
    assert "<script>alert(1)</script>" in page.text
    assert len(data) < 400_000


def test_ten_policies_with_ten_seeds_on_many_nodes_stay_small() -> None:
    results = everything(10, nodes=1500) + [result("custom", seed, nodes=1500) for seed in range(10)]
    assert len(report(results)) < 400_000


def test_no_runs_are_no_report() -> None:
    with pytest.raises(InputError, match="there are no runs to report on"):
        report([])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground", "least"),
    [
        *(("text", ground, 4.5) for ground in ("bg", "surface", "accent-soft")),
        *(("text-2", ground, 4.5) for ground in ("bg", "surface", "accent-soft")),
        *((ink, "surface", 4.5) for ink in ("accent", *(f"numa-{hue}" for hue in range(8)))),
        *(
            (mark, "surface", 3)
            for mark in ("aligned-mark", "split-mark", "refused-mark", "stranded", "line-strong")
        ),
        ("accent", "bg", 3),
    ],
)
def test_colours_of_the_page_can_be_told_apart(ink: str, ground: str, least: float, theme: int) -> None:
    assert contrast(PAGE_TOKENS[ink][theme], PAGE_TOKENS[ground][theme]) >= least
