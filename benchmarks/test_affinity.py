"""What looking after talking pods costs: a plan for a large node, counting two thousand connections, a container's wait for us."""

from __future__ import annotations

import asyncio
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from numaware.affinity.plan import Member, Zone, plan
from numaware.affinity.traffic import Pair
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.placements import Placements, Target
from numaware.node.affinity.runtime import ThroughNri
from numaware.node.nri import nri_pb2 as wire
from numaware.node.nri.plugin import CpusAndMems
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.source import PodNetwork
from numaware.node.troubles import Troubles
from support.fake_nri_runtime import FakeNriRuntime, container_of, fake_nri_runtime, pod_of

ZONES = [
    Zone(
        number,
        CpuSet(range(64 * number, 64 * number + 64)),
        256 << 30,
        {other: 10 if other == number else 12 if other // 4 == number // 4 else 32 for other in range(8)},
    )
    for number in range(8)
]


def node_of_a_thousand() -> tuple[list[Member], dict[Pair, int]]:
    dice = random.Random(1)  # noqa: S311 - the same each time
    members = [
        Member(f"u{number:04}", "default", f"p{number:04}", dice.randrange(50, 500), {number % 8: 1 << 28})
        for number in range(1000)
    ]
    talk: dict[Pair, int] = {}
    for _ in range(3000):
        one = dice.randrange(1000)
        other = (one + 8 * dice.randrange(1, 20)) % 1000
        if one != other:
            talk[min((members[one].uid, members[other].uid), (members[other].uid, members[one].uid))] = (
                dice.randrange(1_000_000, 50_000_000)
            )
    return members, talk


def test_a_plan_for_a_thousand_pods_on_eight_numa_nodes(benchmark: BenchmarkFixture) -> None:
    members, talk = node_of_a_thousand()
    planned = benchmark(plan, ZONES, members, talk)
    assert planned.moves


def test_counting_two_thousand_sockets(benchmark: BenchmarkFixture) -> None:
    path = "/proc/self/ns/net"
    pods = [PodNetwork("here", Path(path).stat().st_ino, path)]
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        clients, accepted = [], []
        for _ in range(1000):
            clients.append(socket.create_connection(server.getsockname()))
            accepted.append(server.accept()[0])
        collector = Collector()
        collector.collect(pods)
        counted = benchmark(collector.collect, pods)
        collector.close()
        for one in (*clients, *accepted):
            one.close()
    # Once in a period of five seconds: two per cent of a core are 100 ms.
    benchmark.extra_info["percent of a core"] = round(counted.cpu_seconds / 5 * 100, 2)
    assert counted.connections >= 1000


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """In memory, as /run is."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.mark.parametrize("beside", ["nothing", "a plan for a thousand pods"])
def test_adjusting_a_container_among_five_hundred(
    benchmark: BenchmarkFixture, memory_folder: Path, beside: str
) -> None:
    """As the runtime waits for it, over a real socket; both ends are in this process."""
    placements = Placements(memory_folder / "before.json", CpusAndMems("0-63", "0-1"))
    loop = asyncio.new_event_loop()
    took: list[float] = []
    over = threading.Event()

    async def adjusted(runtime: FakeNriRuntime, number: int) -> None:
        request = wire.CreateContainerRequest(pod=pod_of(number % 500), container=container_of(500 + number))
        began = time.perf_counter()
        answer = await runtime.call("CreateContainer", request.SerializeToString())
        took.append(time.perf_counter() - began)
        made = wire.CreateContainerResponse.FromString(answer)
        assert made.adjust.linux.resources.cpu.cpus == "0-31"

    async def go() -> None:
        async with fake_nri_runtime(memory_folder / "nri.sock") as runtime:
            through = ThroughNri(str(memory_folder / "nri.sock"), placements, Troubles(), Path("/"))
            running = asyncio.create_task(through.run())
            await runtime.start_plugin(pods=500)
            placements.place({f"u{number}": Target(CpuSet(range(32)), 0) for number in range(500)})
            for number in range(300):
                await adjusted(runtime, number)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def keep_planning() -> None:
        members, talk = node_of_a_thousand()
        while not over.is_set():
            plan(ZONES, members, talk)

    planning = threading.Thread(target=keep_planning)
    if beside != "nothing":
        planning.start()
    try:
        benchmark.pedantic(lambda: loop.run_until_complete(go()), rounds=1)  # type: ignore[no-untyped-call] # theirs
    finally:
        over.set()
        if planning.is_alive():
            planning.join()
        loop.close()
    took.sort()
    benchmark.extra_info["median ms"] = round(took[len(took) // 2] * 1000, 2)
    benchmark.extra_info["P99 ms"] = round(took[len(took) * 99 // 100] * 1000, 2)
