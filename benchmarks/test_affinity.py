"""What looking after talking pods costs: a plan for a large node, and counting two thousand connections."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from numaware.affinity.plan import Member, Zone, plan
from numaware.machine.cpuset import CpuSet
from numaware.node.traffic.collector import Collector, PodNetwork

ZONES = [
    Zone(
        number,
        CpuSet(range(64 * number, 64 * number + 64)),
        256 << 30,
        {other: 10 if other == number else 12 if other // 4 == number // 4 else 32 for other in range(8)},
    )
    for number in range(8)
]


def test_a_plan_for_a_thousand_pods_on_eight_numa_nodes(benchmark: BenchmarkFixture) -> None:
    dice = random.Random(1)  # noqa: S311 - the same each time
    members = [
        Member(f"u{number:04}", "default", f"p{number:04}", dice.randrange(50, 500), {number % 8: 1 << 28})
        for number in range(1000)
    ]
    talk = {}
    for _ in range(3000):
        one = dice.randrange(1000)
        other = (one + 8 * dice.randrange(1, 20)) % 1000
        if one != other:
            talk[min((members[one].uid, members[other].uid), (members[other].uid, members[one].uid))] = (
                dice.randrange(1_000_000, 50_000_000)
            )
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
