"""What containers had before they were moved, and how they get it back whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.placements import Placements, Target
from numaware.node.nri.plugin import CpusAndMems, RunningContainer, Sandbox

ALL = CpusAndMems("0-15", "0-1")
FIRST = Target(CpuSet.parse("0-7"), 0)
SECOND = Target(CpuSet.parse("8-15"), 1, "1")


def sandbox(name: str) -> Sandbox:
    return Sandbox(f"s-{name}", f"u-{name}", "default", name)


def container(name: str, cpus: str = "", mems: str = "") -> RunningContainer:
    return RunningContainer(f"c-{name}", f"s-{name}", "main", cpus, mems)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run/before.json"


def placed(file: Path) -> Placements:
    placements = Placements(file, ALL)
    placements.synchronized([sandbox("a"), sandbox("b")], [container("a", "2-13"), container("b")])
    return placements


def test_a_pod_gets_what_it_has_of_its_numa_node(file: Path) -> None:
    changes = placed(file).place({"u-a": SECOND, "u-b": FIRST, "u-gone": FIRST})
    assert changes == {"c-a": CpusAndMems("8-13", "1"), "c-b": CpusAndMems("0-7")}


def test_who_has_nothing_there_is_left_as_he_is(file: Path) -> None:
    placements = Placements(file, ALL)
    placements.synchronized([sandbox("a")], [container("a", "0-3")])
    assert placements.place({"u-a": SECOND}) == {}


def test_all_is_given_back(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND, "u-b": FIRST})
    changes = placements.restore()
    # Memory nodes only where those were changed.
    assert changes == {"c-a": CpusAndMems("2-13", "0-1"), "c-b": CpusAndMems("0-15")}
    placements.forget(set(changes))
    assert placements.restore() == {}
    assert placements.targets == {}


def test_an_agent_that_was_killed_gives_back_when_it_comes_again(file: Path) -> None:
    placed(file).place({"u-a": SECOND})
    again = Placements(file, ALL)
    changes = again.synchronized([sandbox("a"), sandbox("b")], [container("a", "8-13", "1"), container("b")])
    assert changes == {"c-a": CpusAndMems("2-13", "0-1")}
    # Nobody tells whether it has it now: an agent that comes again says it again.
    assert Placements(file, ALL).synchronized([sandbox("a")], [container("a", "2-13")]) == changes


def test_what_was_given_back_is_what_it_has_when_it_is_moved_again(file: Path) -> None:
    placed(file).place({"u-a": SECOND})
    again = Placements(file, ALL)
    again.synchronized([sandbox("a")], [container("a", "8-13", "1")])
    assert again.place({"u-a": FIRST}) == {"c-a": CpusAndMems("2-7")}
    assert again.restore() == {"c-a": CpusAndMems("2-13", "0-1")}


def test_one_pod_is_let_go_and_the_others_stay(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND, "u-b": FIRST})
    assert placements.restore({"u-b"}) == {"c-b": CpusAndMems("0-15")}
    assert placements.targets == {"u-a": SECOND}


def test_a_runtime_that_comes_again_finds_them_where_they_were(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    changes = placements.synchronized([sandbox("a")], [container("a", "8-13", "1")])
    assert changes == {"c-a": CpusAndMems("8-13", "1")}
    assert placements.restore() == {"c-a": CpusAndMems("2-13", "0-1")}


def test_the_kubelets_new_pool_is_what_it_has_from_then_on(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    answered = placements.updated(sandbox("a"), container("a", "8-13"), CpusAndMems("4-11"))
    assert answered == CpusAndMems("8-11", "1")
    assert placements.restore() == {"c-a": CpusAndMems("4-11", "0-1")}


def test_a_pod_that_could_not_be_moved_is_nowhere_and_has_kept_what_the_kubelet_gave_it_last(
    file: Path,
) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    placements.leave(["u-a", "u-gone"])
    assert placements.targets == {}
    assert placements.updated(sandbox("a"), container("a", "8-13"), CpusAndMems("4-11")) is None
    assert placements.restore() == {"c-a": CpusAndMems("4-11", "0-1")}


def test_a_pool_without_any_cpu_there_stands(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    assert placements.updated(sandbox("a"), container("a", "8-13"), CpusAndMems("0-3")) is None


def test_updates_of_others_and_of_other_things_stand(file: Path) -> None:
    placements = placed(file)
    assert placements.updated(sandbox("a"), container("a", "2-13"), CpusAndMems("4-11")) is None
    placements.place({"u-a": SECOND})
    assert placements.updated(sandbox("a"), container("a", "4-11"), CpusAndMems()) is None


def test_a_container_that_comes_again_goes_where_its_pod_is(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    new = RunningContainer("c-new", "s-a", "main", "2-13")
    assert placements.created(sandbox("a"), new) == CpusAndMems("8-13", "1")
    assert placements.created(sandbox("b"), container("b")) is None


def test_a_pod_whose_sandbox_is_made_anew_stays_where_it_was_put(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    anew = Sandbox("s-anew", "u-a", "default", "a")
    assert placements.created(anew, RunningContainer("c-new", "s-anew", "main", "2-13")) is not None
    placements.removed("s-a", "")
    assert placements.targets == {"u-a": SECOND}
    placements.removed("s-anew", "")
    assert placements.targets == {}


def test_who_is_gone_is_forgotten(file: Path) -> None:
    placements = placed(file)
    placements.place({"u-a": SECOND})
    placements.removed("s-a", "c-a")
    placements.removed("s-a", "")
    assert placements.targets == {}
    assert placements.restore() == {}
    assert Placements(file, ALL).synchronized([sandbox("a")], [container("a")]) == {}


@pytest.mark.parametrize("damage", [b"", b"{", b'{"before": [1]}', b"\xff"])
def test_a_damaged_file_is_no_reason_to_stop(file: Path, damage: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(damage)
    assert Placements(file, ALL).restore() == {}
