"""Plots keep their text inside, their labels apart and their marks different."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from defusedxml.ElementTree import fromstring

from numaware.machine.drawing.shapes import LABEL, Block, text_width
from numaware.simulate import comparison, plots
from numaware.simulate.comparison import Point, Spread
from numaware.simulate.plots import NARROW, WIDE, Bar, Trail
from numaware.simulate.result import Tile
from support.made_results import OUTCOMES, result

LONG = "a-policy-with-a-name-of-sixty-three-characters-which-is-the-most"


def trails(names: list[str], end: float = 90.0) -> list[Trail]:
    points = [
        Point(float(load), Spread(load * end / 130, load * end / 140, load * end / 120))
        for load in range(131)
    ]
    return [Trail(at, name, points, f"{end:.1f}") for at, name in enumerate(names)]


def elements(block: Block, tag: str) -> list[dict[str, str]]:
    root = fromstring(plots.svg(block, "label", "wide"))
    return [{**element.attrib, "text": "".join(element.itertext())} for element in root.iter(tag)]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("names", [["one"], list(OUTCOMES), [f"{LONG}{at}" for at in range(30)]], ids=len)
def test_names_at_the_ends_of_lines_stay_inside_and_apart(names: list[str], width: int) -> None:
    block = plots.lines(trails(names), (0, 100), "load", width, all_of_it=True)
    labels = [one for one in elements(block, "text") if one["text"].endswith(" 90.0")]
    assert len(labels) == len(names)
    heights = sorted(float(one["y"]) for one in labels)
    assert all(lower - upper >= 13.9 for upper, lower in pairwise(heights))
    assert heights[0] > 0
    assert heights[-1] <= block.height
    for one in labels:
        assert float(one["x"]) + text_width(one["text"], LABEL) <= width + 2


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_line_stays_within_the_plot_even_beyond_its_heights(width: int) -> None:
    block = plots.lines(trails(["numaware"], 240), (20, 100), "load", width)
    drawn = [one for one in elements(block, "path") if "transform" not in one]
    assert any(one["class"].startswith("trail") for one in drawn)
    for one in drawn:
        places = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", one["d"])
        assert all(0 <= float(x) <= width and 0 <= float(y) <= block.height for x, y in places)


def test_seeds_that_agree_draw_no_band() -> None:
    agreed = [Point(point.load, Spread(*[point.value.mean] * 3)) for point in trails(["a"])[0].points]
    assert "band" not in plots.lines([Trail(0, "a", agreed, "1")], (0, 100), "load", WIDE).body
    assert plots.lines(trails(["a"]), (0, 100), "load", WIDE).body.count("band") == 1


def test_no_two_of_thirty_two_policies_look_alike() -> None:
    assert len({plots.key(place) for place in range(32)}) == 32


def bar(place: int, mean: float, least: float, most: float) -> Bar:
    return Bar(place, f"policy-{place}", Spread(mean, least, most), f"{mean:.1f}")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_bars_are_as_long_as_their_values(width: int) -> None:
    block = plots.bars([bar(0, 0, 0, 0), bar(1, 50, 40, 60), bar(2, 100, 100, 100)], "refused", width)
    half, whole = (int(one["width"]) for one in elements(block, "rect"))
    assert abs(2 * half - whole) <= 1
    assert block.body.count('class="range"') == 1
    for one in elements(block, "text"):
        if one.get("text-anchor") != "end":
            assert float(one["x"]) + text_width(one["text"], LABEL) <= width


def test_bars_of_nothing_are_drawn_without_a_bar() -> None:
    assert elements(plots.bars([bar(0, 0, 0, 0)], "refused", WIDE), "rect") == []


@pytest.mark.parametrize(("share", "parts"), [(100.0, 1), (99.99, 2), (50.0, 2), (0.0, 2)])
def test_only_what_is_whole_looks_whole(share: float, parts: int) -> None:
    drawn = elements(plots.shares([bar(0, share, share, share)], ("aligned", "split"), WIDE), "rect")
    assert len(drawn) == parts
    assert all(int(one["width"]) >= 0 for one in drawn)


@pytest.mark.parametrize(
    ("used", "name"),
    [
        (0, "empty"),
        (1, "under half"),
        (499, "under half"),
        (500, "half and more"),
        (999, "90 % and more"),
        (1000, "full"),
    ],
)
def test_a_node_is_full_or_empty_only_if_it_is_exactly_so(used: int, name: str) -> None:
    assert plots.LEVELS[plots.level(Tile("n", 0, 0, 0, used, 0))][1] == name
    assert plots.LEVELS[plots.level(Tile("n", 0, used, 0, None, 0))][1] == name


def squares(block: Block) -> int:
    """Squares and dots in a wall, counted from the dashes of its strokes."""
    total = 0
    for one in elements(block, "path"):
        if "stroke-dasharray" in one:
            long, gap = map(int, one["stroke-dasharray"].split())
            total += sum(-(-int(run) // (long + gap)) for run in re.findall(r"h(\d+)", one["d"]))
    return total


@pytest.mark.parametrize("nodes", [1, 7, 399, 401, 1523, 2000])
def test_a_wall_has_a_square_for_every_node(nodes: int) -> None:
    tiles, each = plots.cells(result("kai", nodes=nodes).tiles)
    assert each == 1
    assert squares(plots.wall(tiles, NARROW)) == nodes


def test_a_wall_of_many_nodes_stays_small() -> None:
    tiles, each = plots.cells(result("kai", nodes=50_000).tiles)
    assert each == 25
    assert squares(plots.wall(tiles, NARROW)) == 2000
    assert len(plots.wall(tiles, NARROW).body) < 30_000


def test_a_wall_marks_each_node_with_much_stranded() -> None:
    tiles = [Tile(f"n{at}", 0, 0, 0, 400, stranded) for at, stranded in enumerate((0, 99, 100, 600))]
    (notch,) = [one["d"] for one in elements(plots.wall(tiles, NARROW), "path") if one["class"] == "notch"]
    assert notch.count("M") == 2


def test_the_top_of_an_axis_is_round_and_high_enough() -> None:
    for tenth in range(1001):
        top = plots.nice_top(tenth / 10)
        assert top >= tenth / 10
        assert top / 4 == round(top / 4, 2)


def test_curves_of_the_lab_can_be_drawn_as_they_come() -> None:
    (contest,) = comparison.contests([result("numaware"), result("fgd")])
    curves = [comparison.curve(one, lambda at: at.device_percent, 130.0) for one in contest.standings]
    drawn = [Trail(at, "p", points, "1") for at, points in enumerate(curves)]
    assert plots.lines(drawn, (0, 100), "load", WIDE).body.count('class="trail') == 2
