"""What an upgrade would change, worked out by the twins of both releases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.texts import language, say
from numaware.diagnose.upgrade import Change, upgrade_changes
from numaware.twin.node import Node
from numaware.twin.rules import RULES
from support.twin_nodes import GI, admitted, config, machine, pod


def node(version: str, *, gates: tuple[tuple[str, bool], ...] = (), whole: bool = True) -> Node:
    options = (("full-pcpus-only", "true"),) if whole else ()
    settings = replace(config(version=version, cpu_options=options), feature_gates=gates)
    return admitted(Node.fresh(machine(1, 8, threads=2), settings), pod("a", 4, GI))


def about(changes: tuple[Change, ...], area: str) -> dict[str, str]:
    return {one.subject: str(one.text) for one in changes if one.area == area}


def test_the_same_release_changes_nothing_but_who_is_lost_anyway() -> None:
    (lost,) = upgrade_changes(node("v1.35.8"), "v1.35.9")
    assert (lost.area, lost.breaks) == ("pod", True)
    assert "SMTAlignmentError" in str(lost.text)


def test_1_37_keeps_the_pod_and_writes_other_files() -> None:
    changes = upgrade_changes(node("v1.35.8"), "v1.37.0")
    assert not any(one.breaks for one in changes)
    assert about(changes, "file").keys() == {"cpu_manager_state", "memory_manager_state"}
    assert "held_first" in about(changes, "rule")
    assert about(changes, "gate")["PodLevelResourceManagers"] == "is new: beta, off by default"


def test_a_gate_that_is_gone_stops_the_new_kubelet() -> None:
    changes = upgrade_changes(node("v1.35.8", gates=(("MemoryManager", True),), whole=False), "v1.36.0")
    assert changes[0].breaks
    assert "unrecognized feature gate: MemoryManager" in str(changes[0].text)
    assert about(changes, "gate")["MemoryManager"].startswith("is gone")


def test_an_option_that_the_older_release_does_not_know_stops_it() -> None:
    changes = upgrade_changes(node("v1.35.8"), "v1.21.0")
    assert "sidecars" in about(changes, "rule")
    spread = replace(config(version="v1.35.8"), cpu_options=(("strict-cpu-reservation", "true"),))
    down = upgrade_changes(Node.fresh(machine(), spread), "v1.31.0")
    assert down[0].breaks
    assert "unknown CPU Manager Policy option" in str(down[0].text)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_its_chinese(name: str) -> None:
    assert RULES[name].says in language("zh").SENTENCES


def test_in_chinese() -> None:
    words = [say(one.text, "zh") for one in upgrade_changes(node("v1.35.8"), "v1.37.0")]
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in words)
