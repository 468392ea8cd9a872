"""What processes should have and what they have, compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import FolderTree
from numaware.node.affinity.intent import Intent, Mismatch, verify
from numaware.node.affinity.look import Look, intents_of
from numaware.node.affinity.placements import Target
from numaware.node.affinity.pod_groups import PodGroup
from numaware.node.podresources import ContainerHoldings, Memory, PodHoldings

MACHINE = synthetic.read("2s x 4c x 1t mem=8Gi")
PINNED = (Intent(CpuSet.parse("2-3"), CpuSet.parse("0"), exclusive=True), Intent())


def pod(name: str, *processes: int) -> PodGroup:
    return PodGroup(f"u-{name}", "shop", name, processes, (), 0, 0, {})


def kernel(root: Path, **processes: tuple[str, str]) -> Source:
    """Process -> CPUs and memory nodes that it may have; p1 is process 1."""
    for name, (cpus, mems) in processes.items():
        folder = root / "proc" / name[1:]
        folder.mkdir(parents=True)
        text = f"Name:\tx\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
        (folder / "status").write_text(text)
    return Source(FolderTree(str(root), "the node"))


def test_who_was_moved_and_who_is_pinned_should_be_there() -> None:
    held = (
        PodHoldings(
            "shop",
            "db",
            (
                ContainerHoldings("main", CpuSet.parse("2-3"), memory=(Memory("memory", 1 << 30, (0,)),)),
                ContainerHoldings("log"),
            ),
        ),
        PodHoldings("shop", "web", (ContainerHoldings("main"),)),
    )
    look = Look(MACHINE, (pod("db", 1), pod("web", 2), pod("idle", 3)), held, {}, {}, None)
    # Who holds something for himself is nobody's to move, whatever is written down.
    targets = {"u-web": Target(CpuSet.parse("4-7"), 1, "1"), "u-db": Target(CpuSet.parse("4-7"), 1)}
    assert intents_of(look, targets) == {
        "u-db": PINNED,
        "u-web": (Intent(CpuSet.parse("4-7"), CpuSet.parse("1")),),
    }


def test_every_process_of_every_pod_is_read(tmp_path: Path) -> None:
    source = kernel(tmp_path, p1=("2-3", "0"), p2=("0-1,4-7", "0-1"), p3=("4-7", "1"), p4=("0-1", "0-1"))
    pods = [pod("db", 1, 2), pod("web", 3, 9), pod("idle", 4)]
    intents = {"u-db": PINNED, "u-web": (Intent(CpuSet.parse("4-7"), CpuSet.parse("1")),)}
    found = verify(source, pods, intents)
    assert (found.processes, found.mismatches) == (4, ())


@pytest.mark.parametrize(
    ("name", "cpus", "mems", "mismatch"),
    [
        ("web", "0-7", "1", Mismatch("u-web", 1, "intruding", CpuSet.parse("2-3"), CpuSet())),
        ("web", "1,4", "1", Mismatch("u-web", 1, "astray", CpuSet.parse("1,4"), CpuSet.parse("4-7"))),
        ("web", "4-5", "0-1", Mismatch("u-web", 1, "memory", CpuSet.parse("0-1"), CpuSet.parse("1"))),
        ("idle", "3-4", "0", Mismatch("u-idle", 1, "intruding", CpuSet.parse("3"), CpuSet())),
        # Neither on the CPUs of its own nor off them.
        ("db", "3-4", "0", Mismatch("u-db", 1, "astray", CpuSet.parse("3-4"), CpuSet.parse("2-3"))),
        ("db", "2-3", "0-1", Mismatch("u-db", 1, "memory", CpuSet.parse("0-1"), CpuSet.parse("0"))),
    ],
)
def test_who_is_elsewhere_is_found(
    tmp_path: Path, name: str, cpus: str, mems: str, mismatch: Mismatch
) -> None:
    intents = {"u-db": PINNED, "u-web": (Intent(CpuSet.parse("4-7"), CpuSet.parse("1")),)}
    found = verify(kernel(tmp_path, p1=(cpus, mems)), [pod(name, 1)], intents)
    assert mismatch in found.mismatches


def test_what_keeps_a_pods_namespaces_is_nobodys_to_move(tmp_path: Path) -> None:
    source = kernel(tmp_path, p1=("0-7", "0-1"))
    status = tmp_path / "proc/1/status"
    status.write_text(status.read_text().replace("Name:\tx", "Name:\tpause"))
    intents = {"u-db": PINNED}
    assert verify(source, [pod("db", 1)], intents).processes == 0
