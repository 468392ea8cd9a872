"""The worker with a container runtime (a fake one) and pods that talk: what it takes for moved, and what it outlives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numaware.affinity.chosen import KEY, Said
from numaware.affinity.plan import Rules
from numaware.affinity.report import Move
from numaware.affinity.traffic import Smoothing
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity import mover
from numaware.node.affinity.migration import Migrated
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.status import AffinityStatus, read
from numaware.node.affinity.worker import AffinityOptions, AffinityWorker
from numaware.node.nri import nri_pb2 as wire
from numaware.node.nri.plugin import CpusAndMems, Plugin, RunningContainer, Sandbox
from numaware.node.podresources import PodHoldings, PodResourcesError
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.source import Counted
from numaware.node.troubles import Troubles
from support import made_sysfs
from support.fake_nri_runtime import FakeNriRuntime, fake_nri_runtime
from support.made_cgroups import add_container, add_pod

ONE, OTHER = (f"{number}f1e2d3c-1111-2222-3333-444455556666" for number in (1, 2))


class FakeKubelet:
    async def pods(self) -> tuple[PodHoldings, ...]:
        return ()


Made = Callable[..., AffinityWorker]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Of a node with two pods that never stop talking."""
    root = made_sysfs.write(tmp_path / "root", synthetic.read("2s x 4c x 1t mem=8Gi"))
    for uid, name in ((ONE, "web-0"), (OTHER, "db-0")):
        add_pod(root, "v2-cgroupfs", uid, "shop", name, {"anon": {0: 10}})
        (root / f"sys/fs/cgroup/kubepods/burstable/pod{uid}/cgroup.procs").write_text("41\n")
    said = Counted({(ONE, OTHER): 1 << 40}, 1, (), {}, 0.0)
    monkeypatch.setattr(Collector, "collect", lambda *_: said)

    def make(said: Callable[[], Said | None] | None = None, **more: Any) -> AffinityWorker:
        options = AffinityOptions(
            period=0.01,
            rules=Rules(margin=0),
            smoothing=Smoothing(milliseconds=1, periods=1, needed=1),
            nri=str(tmp_path / "nri.sock"),
            folder=tmp_path / "run",
            **more,
        )
        return AffinityWorker("n1", str(root), FakeKubelet(), Troubles(), options, said)  # type: ignore[arg-type] # a stand-in

    return make


@pytest.fixture
def worker(made: Made) -> AffinityWorker:
    return made(mode="nri")


async def synchronise(runtime: FakeNriRuntime, labels: dict[str, str]) -> None:
    await runtime.start_plugin()
    request = wire.SynchronizeRequest(
        pods=[
            wire.PodSandbox(id=f"s-{uid}", uid=uid, namespace="shop", labels=labels) for uid in (ONE, OTHER)
        ],
        containers=[wire.Container(id=f"c-{uid}", pod_sandbox_id=f"s-{uid}") for uid in (ONE, OTHER)],
    )
    await runtime.call("Synchronize", request.SerializeToString())


def counts(worker: AffinityWorker) -> dict[str, float]:
    (family,) = (one for one in worker.families() if one.name == "numa_affinity_moves")
    return {labels[0]: value for labels, value in family.samples}


def run(
    worker: AffinityWorker,
    tmp_path: Path,
    until: Callable[[], bool],
    failing: set[str],
    *,
    garbage: bytes = b"",
    labels: dict[str, str] | None = None,
) -> tuple[FakeNriRuntime, AffinityStatus]:
    async def go() -> tuple[FakeNriRuntime, AffinityStatus]:
        async with fake_nri_runtime(tmp_path / "nri.sock") as runtime:
            runtime.failing = failing
            runtime.garbage = garbage
            running = asyncio.create_task(worker.run())
            try:
                await synchronise(runtime, labels or {})
                async with asyncio.timeout(60):
                    while not until() and not running.done():  # noqa: ASYNC110 - ends with what it waits for
                        await asyncio.sleep(0.01)
                    written = (tmp_path / "run/affinity.json").stat().st_mtime_ns
                    while (tmp_path / "run/affinity.json").stat().st_mtime_ns == written:  # noqa: ASYNC110 - as above
                        await asyncio.sleep(0.01)
                seen = read(tmp_path / "run/affinity.json")
            finally:
                running.cancel()
                (result,) = await asyncio.gather(running, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError)
            return runtime, seen

    return asyncio.run(go())


def test_pods_that_talk_are_moved_together_and_put_back_in_the_end(
    worker: AffinityWorker, tmp_path: Path
) -> None:
    runtime, seen = run(worker, tmp_path, lambda: counts(worker)["moved"] == 2, set())
    assert seen.intents.keys() == {ONE, OTHER}
    assert {move.uid for move in seen.moves} == {ONE, OTHER}
    assert counts(worker) == {"moved": 2, "failed": 0}
    last = {update.container_id: update.linux.resources.cpu.cpus for update in runtime.updates}
    assert last == {f"c-{ONE}": "0-7", f"c-{OTHER}": "0-7"}


def test_a_pod_that_the_runtime_could_not_change_is_not_said_to_be_moved(
    worker: AffinityWorker, tmp_path: Path
) -> None:
    _, seen = run(worker, tmp_path, lambda: counts(worker)["failed"] > 0, {f"c-{ONE}"})
    assert seen.intents.keys() == {OTHER}
    assert {move.uid for move in seen.moves} == {OTHER}
    # It rests before it is tried again.
    assert counts(worker) == {"moved": 1, "failed": 1}
    assert next(member for member in seen.members if member.uid == ONE).zones == ()


def test_a_pod_that_may_not_be_moved_any_more_is_given_back_to_until_it_has_it(
    worker: AffinityWorker, tmp_path: Path
) -> None:
    placements = worker._mover._placements  # type: ignore[union-attr] # it may move

    async def until(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not true():  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)

    async def go() -> None:
        async with fake_nri_runtime(tmp_path / "nri.sock") as runtime:
            running = asyncio.create_task(worker.run())
            await synchronise(runtime, {})
            await until(lambda: counts(worker)["moved"] == 2)
            runtime.failing = {f"c-{ONE}"}
            asked = len(runtime.updates)
            worker._observer._said = lambda: Said({ONE: "off"})
            await until(lambda: len(runtime.updates) > asked)
            assert ONE in placements.kept()
            runtime.failing = set()
            await until(lambda: placements.kept() == {OTHER})
            assert {one.container_id for one in runtime.updates[asked:]} == {f"c-{ONE}"}
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())


def test_without_an_api_server_pods_say_it_to_the_runtime(worker: AffinityWorker, tmp_path: Path) -> None:
    def known() -> bool:
        return worker._plan is not None and {one.code for one in worker._plan.answers} == {"not-chosen"}

    runtime, seen = run(worker, tmp_path, known, set(), labels={KEY: "off"})
    assert {member.barred for member in seen.members} == {"not-chosen"}
    assert runtime.updates == []


def test_as_long_as_nobody_knows_what_pods_say_nobody_is_moved(made: Made, tmp_path: Path) -> None:
    known: list[Said] = []
    worker = made(said=lambda: known[0] if known else None, mode="nri")

    async def go() -> None:
        async with fake_nri_runtime(tmp_path / "nri.sock") as runtime, asyncio.timeout(60):
            running = asyncio.create_task(worker.run())
            await synchronise(runtime, {})
            # The file is written after whoever was to be moved has been.
            for _ in range(2):
                (tmp_path / "run/affinity.json").unlink(missing_ok=True)
                while not (tmp_path / "run/affinity.json").exists():  # noqa: ASYNC110 - ends with what it waits for
                    await asyncio.sleep(0.01)
            assert worker._plan is not None
            assert len(worker._plan.moves) == 2
            assert runtime.updates == []
            known.append(Said())
            while counts(worker)["moved"] < 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())


def test_an_answer_of_the_runtime_that_makes_no_sense_moves_nobody_and_ends_nothing(
    worker: AffinityWorker, tmp_path: Path
) -> None:
    _, seen = run(worker, tmp_path, lambda: counts(worker)["failed"] > 0, set(), garbage=b"\xff\xff")
    assert not seen.intents
    assert not seen.moves
    assert counts(worker) == {"moved": 0, "failed": 2}


def test_what_a_move_was_to_save_is_held_against_what_it_has_saved(tmp_path: Path, made: Made) -> None:
    for uid in (ONE, OTHER):
        add_container(tmp_path / "root", "v2-cgroupfs", uid, uid[0] * 64, "", "")
    worker = made(mode="cgroup")

    async def go() -> tuple[Move, ...]:
        running = asyncio.create_task(worker.run())
        file = tmp_path / "run/affinity.json"
        async with asyncio.timeout(60):
            while not file.exists() or not (moves := read(file).moves) or moves[-1].after is None:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return moves

    for move in asyncio.run(go()):
        # Both floated over two NUMA nodes, so half of what they say crossed.
        assert move.before > 0
        assert (move.planned, move.after) == (0, 0)
        assert move.measured


def test_without_nri_they_are_moved_in_their_control_groups(tmp_path: Path, made: Made) -> None:
    folders = [
        add_container(tmp_path / "root", "v2-cgroupfs", uid, uid[0] * 64, "", "") for uid in (ONE, OTHER)
    ]
    worker = made(mode="cgroup", memory="only")

    def values(name: str) -> set[str]:
        return {(folder / name).read_text().strip() for folder in folders}

    async def go() -> None:
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while counts(worker)["moved"] != 2:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
        assert values("cpuset.cpus") == {"0-3"}
        assert values("cpuset.mems") == {"0"}
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert values("cpuset.cpus") == values("cpuset.mems") == {""}


def test_memory_is_confined_only_after_pages_have_followed(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {
        uid: add_container(tmp_path / "root", "v2-cgroupfs", uid, uid[0] * 64, "", "") for uid in (ONE, OTHER)
    }
    followed: list[tuple[tuple[int, ...], int, int, set[str]]] = []

    def migrate(_: Path, processes: tuple[int, ...], node: int, rate: int, __: threading.Event) -> Migrated:
        mems = {(folder / "cpuset.mems").read_text().strip() for folder in folders.values()}
        followed.append((processes, node, rate, mems))
        return Migrated(node, 4096, 0, 1, 7)

    monkeypatch.setattr(mover, "migrate", migrate)
    worker = made(mode="cgroup", memory="only", migrate=64_000_000)

    async def go() -> None:
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while {(folder / "cpuset.mems").read_text() for folder in folders.values()} != {"0"}:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
            while len(read(tmp_path / "run/affinity.json").migrated) != 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert [one[:3] for one in followed] == [((41, 42), 0, 64_000_000)] * 2
    assert followed[0][3] == {""}
    assert {(folder / "cpuset.mems").read_text().strip() for folder in folders.values()} == {""}
    (longest,) = (one for one in worker.families() if one.name == "numa_affinity_migration_stall_seconds")
    assert [value for _, value in longest.samples] == [7e-6]


def test_pages_that_may_not_be_moved_are_told_and_the_pod_stays_where_it_is(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uid in (ONE, OTHER):
        add_container(tmp_path / "root", "v2-cgroupfs", uid, uid[0] * 64, "", "")

    def refuse(*_: object) -> Migrated:
        raise PermissionError("pages of process 41 cannot be moved: Operation not permitted")

    monkeypatch.setattr(mover, "migrate", refuse)
    worker = made(mode="cgroup", migrate=64_000_000)

    async def go() -> AffinityStatus:
        running = asyncio.create_task(worker.run())
        file = tmp_path / "run/affinity.json"
        async with asyncio.timeout(60):
            while not file.exists() or not read(file).troubles:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
        seen = read(file)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return seen

    seen = asyncio.run(go())
    assert "Operation not permitted" in seen.troubles[0]
    assert seen.intents.keys() == {ONE, OTHER}


def test_what_a_killed_agent_has_left_is_given_back_though_no_kubelet_answers(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_container(tmp_path / "root", "v2-cgroupfs", ONE, "1" * 64, "0-3", "0-1")
    kept = Placements(tmp_path / "run/affinity-before.json", CpusAndMems("0-7", "0-1"))
    kept.synchronized([Sandbox(ONE, ONE, "shop", "web-0")], [RunningContainer("1" * 64, ONE, "main", "0-7")])
    kept.place({ONE: Target(CpuSet.parse("0-3"), 0)})

    async def silent(_: FakeKubelet) -> tuple[PodHoldings, ...]:
        raise PodResourcesError("unavailable", "no kubelet")

    monkeypatch.setattr(FakeKubelet, "pods", silent)
    worker = made(mode="cgroup")

    async def go() -> None:
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while (folder / "cpuset.cpus").read_text() != "0-7":  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())


def test_pods_on_which_somebody_insists_are_left_to_him_and_rest(tmp_path: Path, made: Made) -> None:
    folder = add_container(tmp_path / "root", "v2-cgroupfs", ONE, "1" * 64, "0-7", "0-1")
    add_container(tmp_path / "root", "v2-cgroupfs", OTHER, "2" * 64, "0-7", "0-1")
    worker = made(mode="cgroup")

    async def go() -> None:
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while counts(worker)["moved"] != 2:  # noqa: ASYNC110 - ends with what it waits for
                await asyncio.sleep(0.01)
            seen = read(tmp_path / "run/affinity.json")
            while not seen.troubles:
                (folder / "cpuset.cpus").write_text("0-7")
                await asyncio.sleep(0.01)
                seen = read(tmp_path / "run/affinity.json")
        assert "changed again and again by somebody else" in seen.troubles[0]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())
    assert counts(worker)["moved"] == 2
    assert (folder / "cpuset.cpus").read_text() == "0-7"


def test_a_connection_that_ends_as_nobody_foresaw_is_not_passed_over_in_silence(
    worker: AffinityWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(Plugin, "run", broken)

    async def go() -> None:
        async with asyncio.timeout(60):
            await worker.run()

    with pytest.raises(RuntimeError, match="unforeseen"):
        asyncio.run(go())
