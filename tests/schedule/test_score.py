from __future__ import annotations

from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, NumaRoom, Room, Site, Spans
from numaware.schedule.score import (
    SCORES,
    TOP,
    Outcome,
    balanced,
    distance,
    least_allocated,
    most_allocated,
    spare,
    stranding,
)
from numaware.schedule.stranding import Mix

FAR = ((10, 20, 30), (20, 10, 30), (30, 30, 10))
FULL = NumaRoom(8, 8, (WHOLE, WHOLE))


def room(*zones: NumaRoom) -> Room:
    return Room(zones, sum(zone.cpus for zone in zones), sum(zone.memory for zone in zones))


def outcome(
    *after: NumaRoom, spans: Spans = "if needed", distances: tuple[tuple[int, ...], ...] = FAR
) -> Outcome:
    """From an empty node of three zones to what is left."""
    empty = room(FULL, FULL, FULL)
    return Outcome(Site(empty, distances, spans), empty, room(*after))


def test_one_zone_is_as_near_as_can_be() -> None:
    assert distance(outcome(NumaRoom(4, 8, ()), FULL, FULL), Mix()) == TOP


def test_two_near_zones_beat_two_far_ones_and_three() -> None:
    taken = NumaRoom(4, 8, ())
    near = distance(outcome(taken, taken, FULL), Mix())
    far = distance(outcome(taken, FULL, taken), Mix())
    all_three = distance(outcome(taken, taken, taken), Mix())
    # The mean over all ordered pairs, each with itself included: 60/4, 80/4 and 190/9 against 10.
    assert (near, far, all_three) == (TOP * 20 // 60, TOP * 20 // 80, TOP * 30 // 190)


def test_a_machine_that_tells_no_distances_is_judged_by_the_number_of_zones() -> None:
    taken = NumaRoom(4, 8, ())
    silent = ((), (), ())
    two = distance(outcome(taken, taken, FULL, distances=silent), Mix())
    three = distance(outcome(taken, taken, taken, distances=silent), Mix())
    assert TOP > two > three


def test_most_and_least_allocated_look_at_the_zones_that_are_used_and_are_each_others_opposite() -> None:
    half = outcome(NumaRoom(4, 4, (WHOLE,)), FULL, FULL)
    little = outcome(NumaRoom(7, 7, (WHOLE, WHOLE)), FULL, FULL)
    assert most_allocated(half, Mix()) == TOP // 2
    assert most_allocated(half, Mix()) + least_allocated(half, Mix()) == TOP
    assert least_allocated(little, Mix()) > least_allocated(half, Mix())


def test_balanced_likes_zones_whose_resources_run_out_together() -> None:
    assert balanced(outcome(NumaRoom(4, 4, (WHOLE,)), FULL, FULL), Mix()) == TOP
    assert balanced(outcome(NumaRoom(0, 8, (WHOLE, WHOLE)), FULL, FULL), Mix()) == 0


def test_stranding_is_in_the_middle_when_nothing_changes_and_falls_with_what_is_lost() -> None:
    mix = Mix({Need(4, 4, 1, WHOLE): 1})
    still = outcome(NumaRoom(4, 4, (WHOLE,)), FULL, FULL)
    lost = outcome(NumaRoom(3, 8, (WHOLE, WHOLE)), FULL, FULL)
    assert stranding(still, mix) == TOP // 2
    assert stranding(lost, mix) < TOP // 2


def test_a_placement_that_uses_up_what_was_stranded_is_better_than_the_middle() -> None:
    mix = Mix({Need(4, 4, 1, WHOLE): 1})
    broken = room(NumaRoom(3, 8, (WHOLE,)), FULL, FULL)
    mended = Outcome(Site(room(FULL, FULL, FULL), FAR, "never"), broken, room(NumaRoom(0, 8, ()), FULL, FULL))
    assert stranding(mended, mix) > TOP // 2


def test_a_pod_without_gpus_is_better_off_where_no_gpus_are_idle() -> None:
    beside = outcome(NumaRoom(4, 8, (WHOLE, WHOLE)), FULL, FULL)
    with_one = outcome(NumaRoom(4, 8, (WHOLE,)), FULL, FULL)
    assert spare(beside, Mix()) == 0
    assert spare(with_one, Mix()) == TOP


def test_every_score_stays_between_nothing_and_the_top() -> None:
    mix = Mix({Need(4, 4, 1, WHOLE): 1, Need(8, 8, 2, WHOLE): 5})
    for after in (
        (NumaRoom(0, 0, ()),) * 3,
        (FULL,) * 3,
        (NumaRoom(0, 8, (WHOLE, WHOLE)), FULL, NumaRoom(8, 0, ())),
    ):
        for spans in ("freely", "if needed", "never"):
            judged = outcome(*after, spans=spans)
            assert all(0 <= score(judged, mix) <= TOP for score in SCORES.values())
