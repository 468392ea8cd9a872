from __future__ import annotations

from numaware.affinity.traffic import Flows, Smoothing, after, pair_of, talking

PAIR = pair_of("b", "a")
SMOOTHING = Smoothing()


def played(rates: list[int], flows: Flows | None = None) -> tuple[Flows, list[bool]]:
    """Each rate for a period of five seconds; whether the two talked after each."""
    current: Flows = flows or {}
    said = []
    for rate in rates:
        current = after(current, {PAIR: rate * 5}, 5000, SMOOTHING)
        said.append(bool(talking(current)))
    return current, said


def test_five_megabytes_a_second_are_talk_and_a_kilobyte_is_not() -> None:
    flows, said = played([5_000_000] * 30)
    assert said[-1]
    assert talking(flows)[PAIR] > 4_900_000
    _, said = played([1000] * 30)
    assert not any(said)


def test_one_burst_is_no_friendship() -> None:
    _, said = played([20_000_000, 0, 0, 0, 0, 0, 0, 0])
    assert not any(said[:2])


def test_a_rate_at_the_border_does_not_come_and_go() -> None:
    flows, _ = played([3_000_000] * 30)
    _, said = played([1_100_000, 700_000] * 20, flows)
    assert all(said)


def test_who_fell_silent_is_forgotten() -> None:
    flows, _ = played([5_000_000] * 30)
    flows, said = played([0] * 120, flows)
    assert not said[-1]
    assert PAIR not in flows


def test_no_time_passed_changes_nothing() -> None:
    flows, _ = played([5_000_000] * 3)
    assert after(flows, {PAIR: 10**9}, 0, SMOOTHING) == flows
