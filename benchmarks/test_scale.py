"""How far it goes and what it takes on the way (`make scale`): hollow nodes on a real API server, and a fleet in the lab.

Everything is on one machine, so pods a second are those of etcd, API server, kubelets and scheduler together; CPU seconds and
memory are each program's own. Decisions a second are CPU seconds of one process. What comes out is in docs/scale.md.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from e2e import load
from e2e.console_program import ConsoleProgram
from e2e.control_plane import ROOT, ControlPlane
from e2e.fake_kubelet import FakeKubelet
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon
from e2e.program import eventually
from numaware.kube import pods
from numaware.kube.topology import publish
from numaware.machine import synthetic
from numaware.simulate.clusters import NodeSpec
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of
from support.charts import Chart, Line, svg
from support.engine_load import LOADS
from support.twin_nodes import quantities

pytestmark = pytest.mark.long

SIZES = tuple(int(size) for size in os.environ.get("NUMAWARE_SIZES", "100,300,1000,2000").split(","))
PODS_A_NODE = 3
OUT = ROOT / "dist/scale"
PODS = "/api/v1/namespaces/default/pods"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
# As many CPUs, in more and more parts.
MACHINES = {1: "1s x 1n x 64c", 2: "2s x 1n x 32c", 4: "2s x 2n x 16c", 8: "2s x 4n x 8c"}
FLEETS = [name for name in LOADS if name.startswith("a fleet of")]

Measured = dict[str, Any]


class TopologyWatch(threading.Thread):
    """What one watcher of all NodeResourceTopologies has to read."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(name="watch", daemon=True)
        self.events = self.bytes = 0
        version = plane.api().get(TOPOLOGIES, limit="1")["metadata"]["resourceVersion"]
        target = f"{TOPOLOGIES}?watch=1&resourceVersion={version}&timeoutSeconds=1800"
        self._connection, self._response = plane.api().stream(target)

    def run(self) -> None:
        try:
            while line := self._response.readline():
                self.events, self.bytes = self.events + 1, self.bytes + len(line)
        except (OSError, HTTPException, ValueError):
            # Closed, as enough was read.
            return

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()


@pytest.fixture(scope="module")
def found() -> Iterator[Measured]:
    """All that is measured, written down however far it came."""
    found: Measured = {"live": [], "fleets": [], "objects": []}
    yield found
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "scale.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (OUT / "scale.svg").write_text(_picture(found), encoding="utf-8")


@pytest.mark.parametrize("size", SIZES)
def test_hollow_nodes_on_a_real_api_server(
    tmp_path: Path, found: Measured, size: int, record_property: Callable[[str, object], None]
) -> None:
    count = size * PODS_A_NODE
    with ControlPlane(tmp_path) as plane:
        empty = plane.etcd_bytes()
        with FakeNodes(plane, load.nodes(size)) as fakes:
            nodes = plane.etcd_bytes()
            ours = [Daemon(plane, "scheduler"), Daemon(plane, "extender"), ConsoleProgram(plane)]
            for program in ours:
                program.start()
            scheduler, extender, _ = ours
            assert isinstance(scheduler, Daemon)
            assert isinstance(extender, Daemon)
            for daemon in (scheduler, extender):
                eventually(
                    partial(_knows, daemon, size),
                    "it knows all nodes",
                    300,
                    daemon,
                )
            idle = {name: program.memory_mib() for name, program in plane.programs.items()}
            watch = TopologyWatch(plane)
            watch.start()
            spent = scheduler.cpu_seconds()
            plane.api().create_all(PODS, load.pods(count, scheduler="numaware"))
            eventually(lambda: len(fakes.admissions()) == count, "every pod has its node", 1200, scheduler)
            fakes.wait_idle()
            watch.close()
            times = [one.at for one in fakes.admissions()]
            assert fakes.refusals() == []
            # The last news is still on its way to the console.
            time.sleep(3)
            one = {
                "nodes": size,
                "pods": count,
                "podsPerSecond": round((count - 1) / (max(times) - min(times))),
                "schedulerCpuPerThousandPods": round((scheduler.cpu_seconds() - spent) * 1000 / count, 2),
                "watchEventsPerPod": round(watch.events / count, 2),
                "watchBytesPerPod": round(watch.bytes / count),
                "watchBytesPerEvent": round(watch.bytes / max(watch.events, 1)),
                "etcdBytesPerNode": round((nodes - empty) / size),
                "etcdBytes": plane.etcd_bytes(),
                "idleMib": idle,
                "memoryMib": {name: program.memory_mib() for name, program in plane.programs.items()},
            }
    found["live"].append(one)
    record_property("measured", json.dumps(one))


@pytest.mark.parametrize("zones", MACHINES)
def test_what_an_agent_publishes(found: Measured, zones: int) -> None:
    """Bytes of a node's object without a pod, and with one for every two CPUs."""
    hardware = hardware_of(synthetic.read(f"{MACHINES[zones]} mem=256Gi"))
    config = KubeletConfig(
        topology_policy="restricted", cpu_policy="static", kube_reserved=quantities({"cpu": "1"})
    )
    kubelet = FakeKubelet(NodeSpec("node-0000", hardware, config))
    empty, admitted = _published(kubelet), 0
    (two,) = (shape for shape in load.SHAPES if shape.name == "two")
    for number in range(31):
        pod = load.pod(two, f"training-{number:05}")
        pod["metadata"]["uid"] = f"00000000-0000-4000-8000-{number:012}"
        admitted += kubelet.admit(pods.decode(json.dumps(pod).encode()).pod).admitted
    found["objects"].append(
        {"numaNodes": zones, "empty": empty, "pods": admitted, "full": _published(kubelet)}
    )
    assert admitted > 20


@pytest.mark.parametrize("fleet", FLEETS)
def test_a_fleet_in_the_lab(
    found: Measured, fleet: str, record_property: Callable[[str, object], None]
) -> None:
    """Each in a process of its own, so that neither memory nor caches of another count."""
    command = [sys.executable, "-m", "support.engine_load", fleet]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT / "tests")
    one = {"nodes": LOADS[fleet].nodes, "numaNodes": int(fleet.split()[-2]), **json.loads(run.stdout)}
    found["fleets"].append(one)
    record_property("measured", json.dumps(one))
    # Of those that come to a small fleet some find no GPU any more; a large one has room for all.
    assert one["pods"] > one["refused"]


def _knows(daemon: Daemon, nodes: int) -> bool:
    return daemon.metrics().get('numaware_nodes{knowledge="complete"}') == nodes


def _published(kubelet: FakeKubelet) -> int:
    return len(json.dumps(publish.encode(kubelet.name, kubelet.twin, 1), separators=(",", ":")))


def _picture(found: Measured) -> str:
    live = found["live"]
    charts = []
    if len(live) > 1:
        programs = [
            name for name in live[0]["memoryMib"] if name.startswith(("numaware", "apiserver", "etcd"))
        ]
        memory = [Line(name, [(one["nodes"], one["memoryMib"][name]) for one in live]) for name in programs]
        charts += [
            Chart(f"MiB in memory, with {PODS_A_NODE} pods a node", "hollow nodes", memory),
            Chart(
                "etcd, MiB of data",
                "hollow nodes",
                [Line("etcd", [(one["nodes"], one["etcdBytes"] / 2**20) for one in live])],
            ),
            Chart(
                "CPU seconds of the scheduler for a thousand pods",
                "hollow nodes",
                [Line("scheduler", [(one["nodes"], one["schedulerCpuPerThousandPods"]) for one in live])],
            ),
        ]
    fleets = [
        Line(
            f"{zones} NUMA",
            [(one["nodes"], one["perSecond"]) for one in found["fleets"] if one["numaNodes"] == zones],
        )
        for zones in (2, 8)
    ]
    peaks = [
        Line(
            f"{zones} NUMA",
            [(one["nodes"], one["peakMb"]) for one in found["fleets"] if one["numaNodes"] == zones],
        )
        for zones in (2, 8)
    ]
    for title, lines in (
        ("decisions a CPU second, in the lab", fleets),
        ("MB in memory of the deciding process, in the lab", peaks),
    ):
        if all(line.points for line in lines):
            charts.append(Chart(title, "nodes", lines, logarithmic=True))
    return svg(
        charts,
        "Memory, etcd and the scheduler's CPU over hollow nodes; decisions and memory over nodes of a fleet.",
    )
