from __future__ import annotations

from numaware.schedule.need import Need, need_of
from numaware.schedule.room import WHOLE, NumaRoom, Room, Site, Spans
from numaware.schedule.stranding import Mix
from support.small_clusters import share_pod
from support.twin_nodes import GI, GPU, pod

FULL = NumaRoom(8, 64, (WHOLE, WHOLE))


def node(*zones: NumaRoom) -> Room:
    return Room(zones, sum(zone.cpus for zone in zones), sum(zone.memory for zone in zones))


def stranded(mix: Mix, *zones: NumaRoom, spans: Spans = "never") -> int:
    return mix.stranded(Site(node(FULL, FULL), ((10, 20), (20, 10)), spans), node(*zones))


def test_needs_are_counted_in_whole_cpus_bytes_and_gpus() -> None:
    assert need_of(pod("a", 3, 2 * GI, gpu=2), GPU) == Need(3, 2 * GI, 2, WHOLE, pinned=True)
    assert need_of(share_pod("a", 250), GPU) == Need(0, 0, 1, 250)


def test_nothing_is_stranded_while_every_pod_of_the_mix_can_use_all_of_it() -> None:
    assert stranded(Mix({Need(4, 8, 1, WHOLE): 3}), FULL, FULL) == 0


def test_gpus_beside_too_few_cpus_are_stranded() -> None:
    mix = Mix({Need(4, 8, 1, WHOLE): 3})
    assert stranded(mix, FULL, NumaRoom(3, 64, (WHOLE,))) == 3 * WHOLE


def test_what_spans_zones_finds_use_for_what_each_zone_alone_has_too_little_of() -> None:
    mix = Mix({Need(4, 8, 2, WHOLE): 1})
    halves = (NumaRoom(8, 64, (WHOLE,)), NumaRoom(8, 64, (WHOLE,)))
    assert stranded(mix, *halves, spans="never") == 2 * WHOLE
    assert stranded(mix, *halves, spans="freely") == 0


def test_a_pod_that_fits_no_single_zone_uses_several_where_the_kubelet_lets_it() -> None:
    mix = Mix({Need(12, 8, 4, WHOLE): 1})
    assert stranded(mix, FULL, FULL, spans="if needed") == 0
    assert stranded(mix, FULL, FULL, spans="never") == 4 * WHOLE


def test_a_restricted_kubelet_has_no_use_for_a_pod_whose_memory_fits_into_one_zone_and_its_gpus_do_not() -> (
    None
):
    machine = Site(node(FULL, FULL), ((10, 20), (20, 10)), "if needed", ("cpus", "memory"))
    lost = {
        (memory, pinned): Mix({Need(12, memory, 4, WHOLE, pinned): 1}).stranded(machine, machine.empty)
        for memory in (8, 100)
        for pinned in (True, False)
    }
    assert lost == {(8, True): 4 * WHOLE, (8, False): 0, (100, True): 0, (100, False): 0}


def test_a_part_of_a_gpu_is_of_use_only_to_those_who_want_as_little() -> None:
    mix = Mix({Need(1, 1, 1, 500): 1, Need(1, 1, 1, WHOLE): 1})
    # Three pods of half a GPU leave 100 thousandths, one of a whole GPU leaves the 600 of the other.
    assert stranded(mix, NumaRoom(8, 64, (600, WHOLE))) == 100 + 600


def test_gpus_that_have_cpus_for_a_first_pod_only_are_stranded_but_for_one() -> None:
    mix = Mix({Need(4, 8, 1, WHOLE): 1})
    assert stranded(mix, NumaRoom(7, 64, (WHOLE, WHOLE))) == WHOLE


def test_without_pods_that_want_gpus_cpus_are_what_is_stranded() -> None:
    mix = Mix({Need(6, 1, 0, WHOLE): 2})
    # One such pod leaves two of eight CPUs, and none can use five.
    assert stranded(mix, NumaRoom(8, 64, ()), NumaRoom(5, 64, ())) == 2 * (2 + 5) * WHOLE


def test_what_is_remembered_for_one_zone_holds_for_those_that_no_pod_tells_apart() -> None:
    mix = Mix({Need(3, 8, 1, WHOLE): 2, Need(5, 16, 2, WHOLE): 1})
    alone = {
        (cpus, memory): stranded(Mix(dict(mix.kinds)), NumaRoom(cpus, memory, (WHOLE,) * 3))
        for cpus in range(12)
        for memory in range(0, 40, 7)
    }
    for (cpus, memory), expected in alone.items():
        assert stranded(mix, NumaRoom(cpus, memory, (WHOLE,) * 3)) == expected


def test_an_empty_mix_strands_nothing() -> None:
    assert stranded(Mix(), NumaRoom(0, 0, ()), FULL) == 0
