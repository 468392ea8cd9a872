"""The closest set of devices, held against every subset: on captured machines, tables of nvidia-smi and made-up gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.machine import nvidia_smi, synthetic, sysfs
from numaware.machine.closest_devices import closest
from numaware.machine.nearness import FARTHEST, Gap, Nearness, of_functions
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from support.gpu_tables import of_table
from support.shared_data import shared

TABLES = (
    "3xp100-topo-mp.txt",
    "2gpu-nv2-numa-na.txt",
    "4gpu-4nic-2numa-rtx6000ada.txt",
    "4gpu-nv4-pairs-1nic.txt",
    "4xa100-odd-even-cpulists.txt",
    "8gpu-10nic-nv18-ansi-header.txt",
    "8xa100-respaced-columns.txt",
    "8xh100-ht-cpulists.txt",
    "dgx-a100-8numa-12mlx5.txt",
)
MOST = 16


def every_subset(
    nearness: Nearness, available: list[str], size: int, must_include: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The definition, word for word."""

    def cost(names: tuple[str, ...]) -> tuple[object, ...]:
        homes = {nearness.nodes[name] if nearness.nodes[name] is not None else name for name in names}
        gaps = [nearness.gap(a, b) for a, b in combinations(names, 2)]
        return (
            len(homes),
            sum(gap.distance for gap in gaps),
            sum(gap.rank for gap in gaps),
            -sum(gap.nvlinks for gap in gaps),
            names,
        )

    subsets = combinations(sorted(available), size)
    return min((names for names in subsets if {*must_include} <= {*names}), key=cost)


def check_all_sizes(nearness: Nearness, names: list[str]) -> None:
    """The definition for all sizes at once: 65,000 subsets of sixteen, each made from one that is smaller by a device."""
    subsets: list[tuple[tuple[str, ...], frozenset[object], int, int, int]] = [((), frozenset(), 0, 0, 0)]
    for name in sorted(names):
        gaps = {other: nearness.gap(name, other) for other in names if other != name}
        home = name if nearness.nodes[name] is None else nearness.nodes[name]
        for taken, homes, distance, rank, nvlinks in subsets[:]:
            between = [gaps[other] for other in taken]
            subsets.append(
                (
                    (*taken, name),
                    homes | {home},
                    distance + sum(gap.distance for gap in between),
                    rank + sum(gap.rank for gap in between),
                    nvlinks + sum(gap.nvlinks for gap in between),
                )
            )
    best: dict[int, tuple[int, int, int, int, tuple[str, ...]]] = {}
    for taken, homes, distance, rank, nvlinks in subsets[1:]:
        cost = (len(homes), distance, rank, -nvlinks, taken)
        best[len(taken)] = min(cost, best.get(len(taken), cost))
    assert {size: closest(nearness, names, size) for size in best} == {
        size: cost[-1] for size, cost in best.items()
    }


def captured() -> Iterator[Path]:
    for told in sorted(shared("data", "topologies").glob("*/expected.json")):
        yield told.parent / json.loads(told.read_bytes())["archive"]


def functions_of(machine: Machine) -> dict[str, str]:
    """What one might hand out: no bridges; the first sixteen of many."""
    found = [function.address for function in machine.pci if not function.class_code.startswith("06")]
    return {address: address for address in found[:MOST]}


@pytest.mark.parametrize("name", TABLES)
def test_the_gpus_of_a_table_are_chosen_as_by_every_subset(name: str) -> None:
    path = shared("data", "nvidia-smi-topo", name)
    nearness = of_table(nvidia_smi.read(path.read_bytes(), name))
    assert len(nearness.kin) > 1
    check_all_sizes(nearness, [*nearness.kin])


def test_the_functions_of_captured_machines_are_chosen_as_by_every_subset() -> None:
    tried = 0
    for path in captured():
        machine = sysfs.read(open_tree(path))
        names = functions_of(machine)
        if len(names) > 1:
            tried += 1
            check_all_sizes(of_functions(machine, names), [*names])
    assert tried > 5


@st.composite
def made_up(draw: st.DrawFn, least: int = 1, most: int = 9) -> Nearness:
    """Devices on a few nodes with gaps of any kind; node and gap need not fit each other."""
    names = [f"d{number:02}" for number in range(draw(st.integers(least, most)))]
    nodes = {name: draw(st.sampled_from([None, 0, 1, 2, 3])) for name in names}
    gaps: dict[tuple[int, int], Gap] = {}
    gap = st.builds(Gap, st.sampled_from([10, 12, 21, FARTHEST]), st.integers(0, 4), st.just(0))
    for a, b in combinations(range(len(names)), 2):
        gaps[a, b] = gaps[b, a] = draw(gap)
    links: Mapping[frozenset[str], int] = draw(
        st.dictionaries(
            st.sampled_from([frozenset(pair) for pair in combinations(names, 2)] or [frozenset(names)]),
            st.integers(1, 18),
            max_size=6,
        )
    )
    return Nearness(nodes, {name: number for number, name in enumerate(names)}, gaps, links)


@settings(max_examples=300)
@given(made_up(), st.data())
def test_whatever_the_gaps_the_choice_is_that_of_every_subset(
    nearness: Nearness, data: st.DataObject
) -> None:
    names = [*nearness.kin]
    size = data.draw(st.integers(1, len(names)))
    must = tuple(data.draw(st.lists(st.sampled_from(names), max_size=size, unique=True)))
    assert closest(nearness, names, size, must) == every_subset(nearness, names, size, must)


@settings(max_examples=6)
@given(made_up(MOST, MOST), st.integers(1, MOST))
def test_whatever_the_gaps_of_sixteen_the_choice_is_that_of_every_subset(
    nearness: Nearness, size: int
) -> None:
    names = [*nearness.kin]
    assert closest(nearness, names, size) == every_subset(nearness, names, size)


def test_the_answer_does_not_depend_on_the_order_of_the_question() -> None:
    machine = synthetic.read("2s x 2n x 4c +gpu@0,0,1,1,2,2,3,3")
    names = functions_of(machine)
    nearness = of_functions(machine, names)
    assert closest(nearness, names, 3) == closest(nearness, reversed(names), 3)


def test_hundreds_of_functions_of_one_card_are_no_harder_than_a_few() -> None:
    machine = synthetic.read("2s x 1n x 4c +nic@" + ",".join(["0"] * 100 + ["1"] * 100))
    names = {
        function.address: function.address for function in machine.pci if function.class_code[:2] == "02"
    }
    assert len(names) == 200
    nearness = of_functions(machine, names)
    chosen = closest(nearness, names, 8)
    assert list(chosen) == sorted(name for name in names if nearness.nodes[name] == 0)[:8]


@pytest.mark.parametrize(
    ("available", "size", "must", "problem"),
    [
        (["a", "x"], 1, (), "x is no device of this resource"),
        (["a", "b"], 3, (), "3 devices, 0 of them set, cannot be taken from 2"),
        (["a", "b"], 1, ("a", "b"), "1 devices, 2 of them set"),
        (["a", "b"], -1, (), "-1 devices"),
    ],
)
def test_a_question_without_an_answer_is_refused(
    available: list[str], size: int, must: tuple[str, ...], problem: str
) -> None:
    nearness = Nearness({"a": 0, "b": 0}, {"a": 0, "b": 0}, {(0, 0): Gap(10, 0)}, {})
    with pytest.raises(ValueError, match=problem):
        closest(nearness, available, size, must)


def test_nvlinks_break_a_tie_and_pcie_comes_before_them() -> None:
    machine = synthetic.read("1s x 1n x 4c +gpu@0a,0a,0b,0b")
    names = {f"g{number}": address for number, address in enumerate(functions_of(machine))}
    apart = of_functions(machine, names, {frozenset(("g1", "g2")): 12})
    assert closest(apart, names, 2) == ("g0", "g1")
    together = of_functions(machine, names, {frozenset(("g2", "g3")): 4})
    assert closest(together, names, 2) == ("g2", "g3")
