"""What is for nodes with a label is found by it, the right things among others, and forgotten without a trace."""

from __future__ import annotations

from numaware.schedule.by_label import EVERYWHERE, ByLabel, one_of
from numaware.workload.scheduling import Requirement


def test_what_there_is_for_one_node_is_found_among_that_of_all_others() -> None:
    things = ByLabel[str]()
    things.put("disk", "both", "both", (("host", "a"), ("host", "b"), ("host", "a")))
    things.put("disk", "c", "c", (("host", "c"),))
    things.put("disk", "zone", "zone", (("zone", "z"),))
    things.put("disk", "all", "all", EVERYWHERE)
    things.put("tape", "other", "other", EVERYWHERE)

    def near(**labels: str) -> list[str]:
        return sorted(things.near("disk", labels))

    assert near(host="a") == near(host="b") == ["all", "both"]
    assert near(host="c", zone="z") == ["all", "c", "zone"]
    assert near() == ["all"]
    for name in ("both", "c", "zone", "all", "all", "other"):
        things.drop(name)
    assert near(host="a") == near(zone="z") == near() == []
    assert not things._things
    assert not things._where


def test_the_first_requirement_that_names_values_says_where() -> None:
    exists, among = Requirement("disk", "Exists"), Requirement("host", "In", ("a", "b"))
    assert one_of((exists, among)) == (("host", "a"), ("host", "b"))
    assert one_of((exists,)) == one_of(()) == EVERYWHERE
