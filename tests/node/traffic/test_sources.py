"""Several sources of talk together, and no more often than what they cost allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from numaware.affinity.traffic import Pair
from numaware.errors import InputError
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.conntrack import Conntrack
from numaware.node.traffic.process_pairs import ProcessPairs
from numaware.node.traffic.source import Counted, Counters, PodNetwork
from numaware.node.traffic.sources import Sources, check, sources_of


class FakeSource:
    """Says the same each time, at the same cost."""

    def __init__(self, said: Mapping[Pair, int], cost: float = 0.0, problem: str = "") -> None:
        self._counted = Counted(said, 1, (), {"here": problem} if problem else {}, cost)
        self.closed = False

    def collect(self, _: Sequence[PodNetwork]) -> Counted:
        return self._counted

    def close(self) -> None:
        self.closed = True


def test_what_several_have_seen_counts_once_as_whoever_has_seen_most_says() -> None:
    one = FakeSource({("a", "b"): 5, ("a", "c"): 1}, 0.1)
    other = FakeSource({("a", "b"): 7, ("b", "c"): 2}, 0.2, "denied")
    sources = Sources([one, other], 1.0)
    counted = sources.collect([], 0.0)
    assert counted is not None
    assert counted.bytes == {("a", "b"): 7, ("a", "c"): 1, ("b", "c"): 2}
    assert counted.unread == {"here": "denied"}
    assert sources.cpu_seconds == pytest.approx(0.3)
    sources.close()
    assert one.closed
    assert other.closed


def test_counting_costs_no_more_than_its_budget() -> None:
    sources = Sources([FakeSource({("a", "b"): 5}, 0.5)], 0.02)
    asked = [now for now in range(200) if sources.collect([], float(now)) is not None]
    # Half a second of CPU each time, in twenty-five seconds.
    assert asked == list(range(0, 200, 25))
    assert sources.rests == 200 - len(asked)
    assert sources.cpu_seconds <= 0.02 * 200


def test_what_costs_little_is_never_left_out() -> None:
    sources = Sources([FakeSource({}, 0.02)], 0.02)
    assert all(sources.collect([], 5.0 * period) is not None for period in range(100))
    assert sources.rests == 0


def test_sources_are_known_by_name_each_once() -> None:
    names = ("conntrack", "sockets", "/run/pairs", "sockets")
    assert [type(source) for source in sources_of(names, "/")] == [Conntrack, Collector, ProcessPairs]


def test_a_name_of_no_source_is_one_clear_error() -> None:
    with pytest.raises(InputError, match="'ebpf' is no source"):
        check(["sockets", "ebpf"])


def test_counters_that_fall_are_somebody_elses_and_those_that_ended_begin_anew() -> None:
    counters: Counters[str] = Counters()
    counters.begin({"a": 100})
    assert counters.grown({"a": 150, "b": 10}, ()) == {"a": 50, "b": 10}
    assert counters.grown({"a": 20, "b": 15}, {"b"}) == {"a": 20, "b": 5}
    assert counters.grown({"b": 15}, ()) == {"b": 15}
