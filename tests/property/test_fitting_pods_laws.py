"""The law behind asking sets: what fits by all resources together is what fits by each, counted kind by kind."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.schedule.fitting_pods import FittingPods
from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, NumaRoom, gpus_left

MOST = 16
SHARES = st.builds(Need, st.integers(0, 9), st.integers(0, 40), st.just(1), st.integers(1, WHOLE))
WHOLES = st.builds(Need, st.integers(0, 9), st.integers(0, 40), st.integers(1, 4), st.just(WHOLE))
NONE = st.builds(Need, st.integers(1, 9), st.integers(0, 40), st.just(0), st.just(WHOLE))
ZONES = st.builds(
    NumaRoom,
    st.integers(-3, 60),
    st.integers(-9, 400),
    st.lists(st.integers(1, WHOLE), max_size=4).map(lambda lefts: tuple(sorted(lefts))),
)


def fitting(need: Need, zone: NumaRoom) -> int:
    """How many pods of a kind fit beside each other, counted one resource after the other."""
    counts = [MOST]
    if need.cpus:
        counts.append(max(0, zone.cpus) // need.cpus)
    if need.memory:
        counts.append(max(0, zone.memory) // need.memory)
    if need.gpus:
        counts.append(sum(left // need.milli for left in zone.gpus) // need.gpus)
    return min(counts)


@st.composite
def weighed_kinds(draw: st.DrawFn) -> tuple[dict[Need, int], bool]:
    by_gpus = draw(st.booleans())
    kinds = st.dictionaries(
        st.one_of(SHARES, WHOLES) if by_gpus else NONE, st.integers(1, 1 << 30), max_size=12
    )
    return draw(kinds), by_gpus


@settings(max_examples=200)
@given(weighed_kinds(), st.lists(ZONES, min_size=1, max_size=6))
def test_sets_of_pods_use_what_their_kinds_use_one_by_one(
    weighed: tuple[dict[Need, int], bool], zones: list[NumaRoom]
) -> None:
    kinds, by_gpus = weighed
    pods = FittingPods(sorted(kinds.items()), by_gpus=by_gpus)
    for zone in zones:
        expected = sum(
            weight * need.size(by_gpus=by_gpus) * fitting(need, zone) for need, weight in kinds.items()
        )
        assert pods.useful(zone.cpus, zone.memory, zone.gpus) == expected
    counts = {zone: 1 + zones.index(zone) for zone in zones}
    assert pods.usable(counts) == {
        need: sum(count * need.size(by_gpus=by_gpus) * fitting(need, zone) for zone, count in counts.items())
        for need in kinds
    }


@given(weighed_kinds(), ZONES, st.integers(0, 3), st.integers(0, WHOLE))
def test_what_gpus_serve_afterwards_is_told_for_every_choice(
    weighed: tuple[dict[Need, int], bool], zone: NumaRoom, count: int, share: int
) -> None:
    sets = FittingPods(sorted(weighed[0].items()), by_gpus=weighed[1]).sets
    assert sets.served_after(count, share)[zone.gpus] == [
        sets.served[left] for left in gpus_left(zone.gpus, count, share)
    ]
