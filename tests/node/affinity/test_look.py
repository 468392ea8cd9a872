"""What the agent sees of a node before it plans: control groups, namespaces, who is pinned, who may be moved."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from numaware.affinity.chosen import Chosen, Said
from numaware.affinity.whitelist import Whitelist
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import open_tree
from numaware.node.affinity.look import Look, members_of, zones_of
from numaware.node.affinity.placements import Target
from numaware.node.affinity.pod_groups import PodGroup, read_pods
from numaware.node.affinity.pod_networks import networks_of
from numaware.node.affinity.worker import AffinityOptions, AffinityWorker
from numaware.node.podresources import ContainerHoldings, Devices, PodHoldings, PodResourcesError
from numaware.node.troubles import Troubles
from support import made_sysfs
from support.made_cgroups import LAYOUTS, Layout, add_pod

UID = "0f1e2d3c-1111-2222-3333-444455556666"
MACHINE = synthetic.read("2s x 4c x 1t mem=8Gi")


def group_of(root: Path) -> Path:
    return next(path.parent for path in root.rglob("memory.numa_stat"))


def pods_below(root: Path) -> list[PodGroup]:
    (root / "sys/devices/system/cpu").mkdir(parents=True)
    return read_pods(Source(open_tree(str(root))), 10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pod_is_read_from_its_control_groups(tmp_path: Path, layout: Layout) -> None:
    add_pod(tmp_path, layout, UID, "shop", "web-0", {"anon": {0: 10, 1: 5}, "file": {0: 1, 1: 0}})
    group = group_of(tmp_path)
    container = group / ("cri-containerd-abc.scope" if layout.endswith("systemd") else "abc")
    container.mkdir()
    (group / "cgroup.procs").write_text("")
    (container / "cgroup.procs").write_text("41\n42\n")
    if layout.startswith("v1"):
        for controller, name, value in (("cpu", "cpu.shares", 512), ("cpuacct", "cpuacct.usage", 7_000_000)):
            place = Path(str(group).replace("/memory/", f"/{controller}/"))
            place.mkdir(parents=True)
            (place / name).write_text(f"{value}\n")
    else:
        (group / "cpu.weight").write_text("20\n")
        (group / "cpu.stat").write_text("usage_usec 7000\nuser_usec 1\n")
    (pod,) = pods_below(tmp_path)
    assert (pod.uid, pod.namespace, pod.name) == (UID, "shop", "web-0")
    assert pod.processes == (41, 42)
    assert pod.requested in (500, 488)
    assert pod.used == 7_000_000
    assert pod.memory == {0: 11 * 4096, 1: 5 * 4096}


def test_a_pod_without_processes_is_left_out(tmp_path: Path) -> None:
    add_pod(tmp_path, "v2-cgroupfs", UID, "shop", "web-0", {"anon": {0: 10}})
    assert pods_below(tmp_path) == []


def pod(name: str, *processes: int) -> PodGroup:
    return PodGroup(f"u-{name}", "shop", name, processes, (), 250, 0, {0: 4096})


def test_pods_that_share_a_namespace_are_said_to(tmp_path: Path) -> None:
    for process, name in ((1, "host"), (2, "own"), (3, "host"), (4, "two"), (5, "two")):
        namespaces = tmp_path / "proc" / str(process) / "ns"
        namespaces.mkdir(parents=True)
        (tmp_path / name).touch()
        (namespaces / "net").symlink_to(tmp_path / name)
    pods = [pod("own", 99, 2), pod("host", 3), pod("x", 4), pod("y", 5), pod("ended", 77)]
    networks = networks_of(str(tmp_path), pods)
    assert [(one.uid, one.shared) for one in networks] == [
        ("u-own", False),
        ("u-host", True),
        ("u-x", True),
        ("u-y", True),
    ]


def look(*pods: PodGroup, held: tuple[PodHoldings, ...] = (), said: Said | None = None) -> Look:
    return Look(MACHINE, pods, held, {0: 1 << 30, 1: 2 << 30}, {"u-busy": 900}, said)


def test_exclusive_cpus_are_nobody_elses_and_who_holds_them_is_pinned() -> None:
    held = (PodHoldings("shop", "db", (ContainerHoldings("main", CpuSet.parse("1-2")),)),)
    seen = look(pod("db", 1), pod("web", 2), held=held)
    assert [(zone.id, str(zone.cpus), zone.free_memory) for zone in zones_of(seen)] == [
        (0, "0,3", 1 << 30),
        (1, "4-7", 2 << 30),
    ]
    db, web = members_of(seen, {}, {}, Chosen())
    assert (db.barred, db.zones) == ("pinned", (0,))
    assert (web.barred, web.zones) == (None, ())


def test_a_pod_needs_the_larger_of_what_it_asks_for_and_what_it_uses() -> None:
    busy, idle = members_of(look(pod("busy", 1), pod("idle", 2)), {}, {}, Chosen())
    assert (busy.cpu, idle.cpu) == (900, 250)


def test_where_it_was_put_and_which_devices_it_uses_is_known() -> None:
    held = (
        PodHoldings("shop", "web", (ContainerHoldings("main", devices=(Devices("x/nic", ("n",), (1,)),)),)),
    )
    (web,) = members_of(
        look(pod("web", 1), held=held), {"u-web": Target(CpuSet.parse("4-7"), 1)}, {"u-web": 9}, Chosen()
    )
    assert (web.zones, web.devices, web.resting, web.barred) == ((1,), (1,), 9, None)


def test_who_may_not_be_moved_is_barred() -> None:
    pods = pod("web", 1), pod("db", 2)
    (web, db) = members_of(look(*pods, said=Said({"u-db": "off"})), {}, {}, Chosen())
    assert (web.barred, db.barred) == (None, "not-chosen")
    listed = Whitelist.of({"shop": ["db"]})
    (web, db) = members_of(look(*pods, said=Said(whitelist=listed)), {}, {}, Chosen())
    assert (web.barred, db.barred) == ("not-chosen", None)


class FakeKubelet:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.silent = False

    async def pods(self) -> tuple[PodHoldings, ...]:
        if self.silent:
            raise PodResourcesError("unavailable", "no kubelet")
        return ()


def test_observing_writes_what_was_seen_and_moves_nobody(tmp_path: Path) -> None:
    root = made_sysfs.write(tmp_path / "root", MACHINE)
    add_pod(root, "v2-cgroupfs", UID, "shop", "web-0", {"anon": {0: 10}})
    (group_of(root) / "cgroup.procs").write_text("41\n")
    kubelet, troubles = FakeKubelet(), Troubles()
    options = AffinityOptions(period=0.01, folder=tmp_path / "run")
    worker = AffinityWorker("n1", str(root), kubelet, troubles, options)  # type: ignore[arg-type] # a stand-in
    status = tmp_path / "run/affinity.json"

    async def go() -> None:
        running = asyncio.create_task(worker.run())
        while not status.exists():  # noqa: ASYNC110 - ends with what it waits for
            await asyncio.sleep(0.01)
        kubelet.silent = True
        while "affinity" not in troubles.current:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    seen = json.loads(status.read_bytes())
    assert [member["name"] for member in seen["members"]] == ["web-0"]
    assert seen["mode"] == "observe"
    assert not (tmp_path / "run/affinity-before.json").exists()
    assert status.stat().st_mode & 0o077 == 0
    names = {family.name for family in worker.families()}
    counting = {"cpu_seconds", "budget_seconds", "rests"}
    assert {f"numa_affinity_collector_{name}" for name in counting} <= names
