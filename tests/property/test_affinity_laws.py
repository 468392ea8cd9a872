"""Laws of plans: nobody is moved who may not be, no NUMA node is overfilled, and a plan that is carried out is the last."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from numaware.affinity.plan import Member, Rules, Zone, plan
from numaware.affinity.traffic import pair_of
from numaware.machine.cpuset import CpuSet

GIB = 1 << 30
RULES = Rules()


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[Zone], list[Member], dict[tuple[str, str], int]]:
    number = draw(st.integers(1, 4))
    widths = draw(st.lists(st.integers(0, 16), min_size=number, max_size=number))
    zones, first = [], 0
    for zone, width in enumerate(widths):
        distances = {other: 10 if other == zone else draw(st.integers(11, 40)) for other in range(number)}
        zones.append(
            Zone(zone, CpuSet(range(first, first + width)), draw(st.integers(0, 8)) * GIB, distances)
        )
        first += width
    ids = st.integers(0, number - 1)
    members = [
        Member(
            f"u{index}",
            "default",
            f"p{index}",
            draw(st.integers(0, 6000)),
            memory=draw(st.dictionaries(ids, st.integers(0, 2 * GIB), max_size=2)),
            zones=tuple(sorted(draw(st.sets(ids, max_size=2)))),
            devices=tuple(sorted(draw(st.sets(ids, max_size=1)))),
            barred=draw(st.sampled_from([None, None, None, "pinned", "not-chosen"])),
            resting=draw(st.sampled_from([0, 0, 0, 5])),
        )
        for index in range(draw(st.integers(0, 8)))
    ]
    uids = [member.uid for member in members]
    pairs = st.tuples(st.sampled_from(uids), st.sampled_from(uids)) if uids else st.nothing()
    talk = draw(st.dictionaries(pairs, st.integers(0, 10**9), max_size=12)) if uids else {}
    return zones, members, {pair_of(one, other): rate for (one, other), rate in talk.items() if one != other}


@given(nodes())
def test_only_who_may_be_moved_is_moved_and_only_where_he_may_go(
    node: tuple[list[Zone], list[Member], dict[tuple[str, str], int]],
) -> None:
    zones, members, talk = node
    by_uid = {member.uid: member for member in members}
    planned = plan(zones, members, talk, RULES)
    assert [answer.uid for answer in planned.answers] == sorted(by_uid)
    for answer in planned.moves:
        member = by_uid[answer.uid]
        assert member.barred is None
        assert member.resting == 0
        assert not member.devices or answer.target in member.devices
        zone = next(zone for zone in zones if zone.id == answer.target)
        assert answer.cpus == zone.cpus
        assert zone.cpus
        assert answer.saving >= RULES.least


@given(nodes())
def test_no_numa_node_is_promised_more_than_it_has(
    node: tuple[list[Zone], list[Member], dict[tuple[str, str], int]],
) -> None:
    zones, members, talk = node
    by_uid = {member.uid: member for member in members}
    planned = plan(zones, members, talk, RULES)
    for zone in zones:
        entering = [by_uid[answer.uid] for answer in planned.moves if answer.target == zone.id]
        if not entering:
            continue
        assert sum(member.cpu for member in entering) <= len(zone.cpus) * 10 * RULES.fill
        moved = {answer.uid for answer in planned.moves}
        back = sum(by_uid[uid].memory.get(zone.id, 0) for uid in moved)
        needed = sum(size for member in entering for size in member.memory.values())
        assert needed <= max(0, zone.free_memory + back - RULES.margin)


@given(nodes(), st.randoms(use_true_random=False))
def test_less_crosses_than_before_and_the_order_of_pods_does_not_matter(
    node: tuple[list[Zone], list[Member], dict[tuple[str, str], int]], dice: st.DataObject
) -> None:
    zones, members, talk = node
    planned = plan(zones, members, talk, RULES)
    assert planned.across_after <= planned.across_before
    shuffled, turned = list(members), list(zones)
    dice.shuffle(shuffled)  # type: ignore[attr-defined] # it is a random.Random
    dice.shuffle(turned)  # type: ignore[attr-defined]
    assert plan(turned, shuffled, dict(reversed(talk.items())), RULES) == planned


@given(nodes(), st.booleans())
def test_what_was_carried_out_is_not_moved_again(
    node: tuple[list[Zone], list[Member], dict[tuple[str, str], int]], rested: bool
) -> None:
    """Steady talk: no move after the first round, neither while those who were moved rest nor after that."""
    zones, members, talk = node
    # Memory that would have to follow each time is left out: it lies where its pod is after a while.
    light = [msgspec.structs.replace(member, memory={}, resting=0) for member in members]
    targets = {answer.uid: answer.target for answer in plan(zones, light, talk, RULES).moves}
    light = [
        msgspec.structs.replace(member, zones=(targets[member.uid],), resting=0 if rested else 300)
        if member.uid in targets
        else member
        for member in light
    ]
    assert plan(zones, light, talk, RULES).moves == ()
