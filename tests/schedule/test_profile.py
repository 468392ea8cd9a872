from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.schedule.engine import Engine
from numaware.schedule.profile import DEFAULT_PROFILE, SHIPPED, Profile, read, shipped
from numaware.schedule.room import NumaRoom, Room, Site
from numaware.schedule.score import SCORES, TOP, Outcome
from numaware.schedule.stranding import Mix
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import pod

ROOM = Room((NumaRoom(4, 4, ()),), 4, 4)
NOTHING = Outcome(Site(ROOM, ((10,),), "never"), ROOM, ROOM)


def test_the_default_profile_names_only_scores_that_exist() -> None:
    for kind in ("high", "medium", "low"):
        assert {name for name, _ in getattr(DEFAULT_PROFILE, kind)} <= SCORES.keys()


def test_classes_that_are_not_named_keep_their_default() -> None:
    profile = read(b"high: {stranding: 8, distance: 3}", "p.yaml")
    assert profile.high == (("distance", 3), ("stranding", 8))
    assert profile.low == DEFAULT_PROFILE.low


def test_the_order_of_weights_in_a_file_does_not_matter() -> None:
    assert read(b"low: {distance: 1, stranding: 2}", "p") == read(b"low: {stranding: 2, distance: 1}", "p")


def test_a_weighted_score_is_the_mean_of_its_parts() -> None:
    profile = Profile(high=(("distance", 3), ("stranding", 1)))
    assert profile.weigh("high", NOTHING, Mix()) == (3 * TOP + TOP // 2) // 4


def test_weights_of_zero_give_a_score_of_zero() -> None:
    assert Profile(low=(("distance", 0),)).weigh("low", NOTHING, Mix()) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[1, 2]", "not a profile"),
        (b"", "not a profile"),
        (b"high: [", "not YAML"),
        (b"\xff\xfe\x00", "not YAML"),
        (b"urgent: {distance: 1}", "'urgent' is no class of workload"),
        (b"high: 3", "high: expected scores and weights"),
        (b"high: {}", "high: expected scores and weights"),
        (b"high: {speed: 1}", "high: 'speed' is no score"),
        (b"high: {distance: -1}", "the weight of distance is not a whole number"),
        (b"high: {distance: 1.5}", "the weight of distance is not a whole number"),
        (b"high: {distance: true}", "the weight of distance is not a whole number"),
        (b"high: {distance: 100000}", "the weight of distance is not a whole number"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
    ],
)
def test_a_bad_profile_is_refused_with_the_reason(text: bytes, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text, "p.yaml")
    assert str(refused.value).startswith("p.yaml: ")
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_can_be_read(name: str) -> None:
    profile = shipped(name)
    assert all(getattr(profile, kind) for kind in ("high", "medium", "low"))


def test_the_default_is_the_profile_of_that_name() -> None:
    assert shipped("default") == DEFAULT_PROFILE


def test_switches_are_true_or_false() -> None:
    assert not read(b"align-first: false", "p").align_first
    with pytest.raises(InputError, match="large-jobs is neither true nor false"):
        read(b"large-jobs: 3", "p")


@pytest.mark.parametrize(("name", "nodes"), [("pack", 1), ("spread", 2), ("default", 1)])
def test_profiles_lead_to_other_placements(name: str, nodes: int) -> None:
    engine = Engine(cluster_of(gpu_node("restricted"), gpu_node("restricted")), shipped(name))
    where = set()
    for number in range(2):
        decision = engine.decide(pod(f"p{number}", 2, gpu=1))
        assert engine.bind(decision).admitted
        where.add(decision.node)
    assert len(where) == nodes
