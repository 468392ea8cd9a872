"""Containers changed in control groups, which are folders here; the kernel's own are in the end-to-end tests."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import FolderTree
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.pod_groups import PodGroup, read_pods
from numaware.node.affinity.through_cgroups import ThroughCgroups
from numaware.node.nri.plugin import Changes, CpusAndMems
from support.made_cgroups import LAYOUTS, Layout, add_container, add_pod

UID = "1f1e2d3c-1111-2222-3333-444455556666"
ONE, OTHER = "a" * 64, "b" * 64
FIRST = Target(CpuSet.parse("0-7"), 0)
SECOND = Target(CpuSet.parse("8-15"), 1, "1")


class Node:
    """A pod with two containers, and an agent that may be started any number of times."""

    def __init__(self, root: Path, layout: Layout) -> None:
        self.root = root
        self.layout = layout
        self.file = root / "run/before.json"
        add_pod(root, layout, UID, "shop", "web-0", {"anon": {0: 10}})
        nothing = "" if layout.startswith("v2") else "0-15"
        self.folders = {
            ONE: add_container(root, layout, UID, ONE, nothing, "" if layout.startswith("v2") else "0-1"),
            OTHER: add_container(root, layout, UID, OTHER, "2-13", "0-1"),
        }
        self.first = self.values()
        self.start()

    def start(self) -> None:
        self.placements = Placements(self.file, CpusAndMems("0-15", "0-1"))
        self.runtime = ThroughCgroups(str(self.root), self.placements)

    def pods(self) -> list[PodGroup]:
        return read_pods(Source(FolderTree(str(self.root), "the node")), 10)

    def follow(self) -> frozenset[str]:
        return asyncio.run(self.runtime.follow(self.pods()))

    def update(self, changes: Changes) -> tuple[str, ...]:
        return asyncio.run(self.runtime.update(changes))

    def place(self, target: Target) -> tuple[str, ...]:
        return self.update(self.placements.place({UID: target}))

    def value(self, container: str, name: str = "cpuset.cpus") -> str:
        return (self.folders[container] / name).read_text().strip()

    def values(self) -> dict[str, tuple[str, str]]:
        return {one: (self.value(one), self.value(one, "cpuset.mems")) for one in self.folders}

    def say(self, container: str, cpus: str) -> None:
        (self.folders[container] / "cpuset.cpus").write_text(f"{cpus}\n")


@pytest.fixture(params=LAYOUTS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    return Node(tmp_path, request.param)


def test_containers_get_what_they_have_of_the_numa_node_and_their_first_back(node: Node) -> None:
    node.follow()
    assert node.place(SECOND) == ()
    assert node.values() == {ONE: ("8-15", "1"), OTHER: ("8-13", "1")}
    assert node.update(node.placements.restore()) == ()
    assert node.values() == node.first


def test_where_the_kernel_lets_nobody_who_runs_have_nothing_all_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Version 1 has no groups without CPUs.
    node = Node(tmp_path, "v2-systemd")
    write = Path.write_text

    def as_the_kernel(path: Path, text: str, **more: Any) -> int:
        if path.name in ("cpuset.cpus", "cpuset.mems") and not text.strip():
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text, **more)

    pod = node.folders[ONE].parent
    (pod / "cpuset.cpus.effective").write_text("0-15\n")
    (pod / "cpuset.mems.effective").write_text("0-1\n")
    node.follow()
    node.place(SECOND)
    assert node.value(ONE) == "8-15"
    monkeypatch.setattr(Path, "write_text", as_the_kernel)
    assert node.update(node.placements.restore()) == ()
    assert node.values() == {ONE: ("0-15", "0-1"), OTHER: node.first[OTHER]}


def test_memory_nodes_are_left_alone_if_nobody_asked(node: Node) -> None:
    node.follow()
    node.place(FIRST)
    assert node.values() == {ONE: ("0-7", node.first[ONE][1]), OTHER: ("2-7", "0-1")}


def test_an_agent_that_comes_after_one_that_was_killed_gives_back(node: Node) -> None:
    node.follow()
    node.place(SECOND)
    node.start()
    node.follow()
    assert node.values() == node.first


def test_what_the_kubelet_writes_is_answered_with_what_of_it_is_there(node: Node) -> None:
    node.follow()
    node.place(SECOND)
    node.say(OTHER, "4-11")
    assert node.follow() == frozenset()
    assert node.value(OTHER) == "8-11"
    node.say(OTHER, "0-3")
    node.follow()
    # Nothing of that is there, so it stands.
    assert node.value(OTHER) == "0-3"
    node.update(node.placements.restore())
    assert node.value(OTHER) == "0-3"
    assert node.value(ONE) == node.first[ONE][0]


def test_what_was_written_a_moment_ago_is_not_written_over_when_all_is_given_back(node: Node) -> None:
    node.follow()
    node.place(FIRST)
    node.say(OTHER, "5")
    node.update(node.placements.restore())
    assert node.value(OTHER) == "5"


def test_what_is_changed_in_the_middle_of_a_look_is_not_taken_for_somebody_elses(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by pages that have followed, whose containers are confined to their memory node beside the rounds."""
    node.follow()
    node.place(FIRST)
    changes = node.placements.place({UID: Target(FIRST.cpus, 0, "0")})
    change = Thread(target=node.update, args=(changes,))
    tell = node.placements.updated

    def tell_and_wait(*told: Any) -> CpusAndMems | None:
        if change.ident is None:
            change.start()
            # It either waits until the look is over, or is through by then.
            change.join(0.5)
        return tell(*told)

    monkeypatch.setattr(node.placements, "updated", tell_and_wait)
    node.say(ONE, "0-3")
    node.follow()
    change.join()
    node.follow()
    assert {mems for _, mems in node.values().values()} == {"0"}
    node.update(node.placements.restore())
    assert node.values()[OTHER] == node.first[OTHER]


def test_who_insists_has_the_last_word(node: Node) -> None:
    node.follow()
    node.place(FIRST)
    for _ in range(5):
        node.say(OTHER, "2-13")
        assert node.follow() == frozenset()
        assert node.value(OTHER) == "2-7"
    node.say(OTHER, "2-13")
    assert node.follow() == {UID}
    assert node.value(OTHER) == "2-13"


def test_a_container_that_comes_later_goes_where_its_pod_is(node: Node) -> None:
    node.follow()
    node.place(FIRST)
    node.folders["c" * 64] = add_container(node.root, node.layout, UID, "c" * 64, "4-15", "0-1")
    node.follow()
    assert node.value("c" * 64) == "4-7"


def test_what_could_not_be_written_down_is_told_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.follow()
    node.place(FIRST)
    third = "c" * 64
    node.folders[third] = add_container(node.root, node.layout, UID, third, "4-15", "0-1")
    node.say(OTHER, "1-9")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("numaware.node.affinity.placements.replace_file", refuse)
        with pytest.raises(OSError, match="No space left"):
            node.follow()
    node.follow()
    assert (node.value(OTHER), node.value(third)) == ("1-7", "4-7")
    node.update(node.placements.restore())
    assert (node.value(OTHER), node.value(third)) == ("1-9", "4-15")


def test_who_is_gone_is_forgotten(node: Node) -> None:
    node.follow()
    node.place(FIRST)
    for folder in list(node.root.rglob(f"*{OTHER}*")):
        shutil.rmtree(folder, ignore_errors=True)
    node.follow()
    assert set(node.placements.restore()) == {ONE}
    for folder in list(node.root.rglob(f"*{ONE}*")):
        shutil.rmtree(folder, ignore_errors=True)
    node.follow()
    assert node.placements.known() == {}


def test_a_group_that_may_not_lose_what_those_below_it_have_is_changed_after_them(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in version 1, where it is the other way round when CPUs are given back."""
    below = node.folders[OTHER] / "inner"
    shutil.copytree(node.folders[OTHER], below)
    for folder in node.root.rglob(f"*{OTHER}*"):
        (folder / "inner").mkdir(exist_ok=True)
        (folder / "inner/cgroup.procs").write_text("44\n")
    written = Path.write_text

    def kernel(path: Path, data: str, **how: Any) -> int:
        if path.name == "cpuset.cpus" and path.parent in (below, below.parent):
            mine = CpuSet.parse(data)
            if path.parent == below and not mine <= CpuSet.parse((below.parent / path.name).read_text()):
                raise PermissionError(errno.EACCES, "Permission denied")
            if path.parent != below and not CpuSet.parse((below / path.name).read_text()) <= mine:
                raise OSError(errno.EBUSY, "Device or resource busy")
        return written(path, data, **how)

    monkeypatch.setattr(Path, "write_text", kernel)
    node.folders["inner"] = below
    first = node.values()
    node.follow()
    assert node.place(FIRST) == ()
    assert (node.value(OTHER), node.value("inner")) == ("2-7", "2-7")
    assert node.update(node.placements.restore()) == ()
    assert node.values() == first


def test_a_file_system_that_may_not_be_written_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.follow()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    changes = node.placements.place({UID: FIRST})
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(OSError, match="Read-only file system"):
        node.update(changes)
    assert node.values() == node.first


def test_a_runtime_that_has_kept_what_containers_had_finds_it_under_the_same_name(node: Node) -> None:
    """So that an agent may be started with NRI after one that was killed had none, and the other way round."""
    node.follow()
    assert {one.id for one in node.placements.known()[UID]} == {ONE, OTHER}
