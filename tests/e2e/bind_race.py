"""One scheduler after the other on one API server: the same nodes, the same pods, and how fast they are bound.

No kubelet answers while this is measured, so that only the scheduler and the API server work; what the kubelets would
have said is asked of them afterwards, with the pods in the order in which they were bound.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from e2e import load
from e2e.control_plane import ROOT, ControlPlane
from e2e.fake_kubelet import FakeKubelet
from e2e.fake_nodes import FakeNodes
from e2e.ours import TOKEN, Daemon
from e2e.program import Program, eventually
from numaware.kube import pods
from numaware.serve.extender_config import for_kube_scheduler

PODS = "/api/v1/namespaces/default/pods"
_TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_NODES = "/api/v1/nodes"
# A scheduler that has bound nothing for so long, after its start or since its last bind, will not bind the rest.
_SECONDS_TO_BEGIN = 60.0
_SECONDS_OF_SILENCE = 15.0
_SECONDS_TO_REST = 60.0
# CPU seconds in one that a scheduler spends on nothing.
_CPU_AT_REST = 0.05


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    object: _Pod


_EVENT = msgspec.json.Decoder(_Event)


class Cpu(NamedTuple):
    """CPU seconds: of the schedulers (and extenders), and of the API server with its etcd."""

    scheduler: float
    server: float


class Run(NamedTuple):
    """Pods bound and not, in how many seconds from the first to the last, at which cost, and refused by kubelets."""

    name: str
    nodes: int
    bound: int
    left: int
    seconds: float
    cpu: Cpu
    refused: int

    @property
    def rate(self) -> float:
        """Pods a second."""
        return (self.bound - 1) / self.seconds


class Watcher(threading.Thread):
    """Sees from the API server's side when each pod is bound; `on_first` is called at the first one."""

    def __init__(self, plane: ControlPlane, version: str, on_first: Callable[[], None]) -> None:
        super().__init__(name="watcher", daemon=True)
        self.binds: dict[str, tuple[float, str]] = {}
        self._on_first = on_first
        self._connection, self._response = plane.api().stream(f"{PODS}?watch=1&resourceVersion={version}")

    def run(self) -> None:
        while line := self._line():
            pod = _EVENT.decode(line).object
            if pod.spec.node and pod.metadata.uid not in self.binds:
                self.binds[pod.metadata.uid] = time.monotonic(), pod.spec.node
                if len(self.binds) == 1:
                    self._on_first()

    def _line(self) -> bytes:
        try:
            return self._response.readline()
        except (OSError, HTTPException):
            # Closed, since nobody wants to know more; perhaps in the middle of a chunk.
            return b""

    def wait_for(self, count: int) -> None:
        """Until so many are bound, or no more will be."""
        seen, until = 0, time.monotonic() + _SECONDS_TO_BEGIN
        while len(self.binds) < count and time.monotonic() < until:
            if len(self.binds) > seen:
                seen, until = len(self.binds), time.monotonic() + _SECONDS_OF_SILENCE
            time.sleep(0.01)

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()


Started = list[Program]


def bare(plane: ControlPlane, _: int) -> Started:
    """Only binds, to one node after the other: the most that anything with this client could do."""
    kubeconfig = plane.kubeconfig("numaware-scheduler")
    script = Path(__file__).with_name("bare_binder.py")
    binder = Program("bare", [sys.executable, script, kubeconfig], plane.folder / "bare.log")
    plane.programs["bare"] = binder
    binder.start()
    return [binder]


def numaware(plane: ControlPlane, _: int) -> Started:
    scheduler = Daemon(plane, "scheduler", "--no-leader-election")
    scheduler.start()
    return [scheduler]


def kube_scheduler(plane: ControlPlane, _: int) -> Started:
    return [plane.start_scheduler()]


def with_topology_plugin(plane: ControlPlane, _: int) -> Started:
    """kube-scheduler with NodeResourceTopologyMatch and the cache that its authors advise for bursts.

    Without that cache it asks the API server for the topology of every node it looks at, for every pod.
    """
    plugin = "NodeResourceTopologyMatch"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": {"cacheResyncPeriodSeconds": 5}}],
    }
    return [plane.start_scheduler({"profiles": [profile]}, program=_scheduler_plugins())]


@cache
def _scheduler_plugins() -> Path:
    """The program, built now if it was not before."""
    script = ROOT / "scripts/scheduler-plugins/build"
    done = subprocess.run([script], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{script} failed; its message is above"
    return Path(done.stdout.splitlines()[-1])


def extended(plane: ControlPlane, nodes: int) -> Started:
    """kube-scheduler, which asks the extender about every node and has it bind."""
    extender = Daemon(plane, "extender")
    extender.start()
    extender.wait_ready()
    eventually(
        lambda: extender.metrics().get('numaware_nodes{knowledge="complete"}') == nodes,
        "the extender knows all nodes",
        alive=extender,
    )
    url = f"http://numaware:{TOKEN}@{extender.address}"
    text = for_kube_scheduler(url, fail="closed", weight=10, node_cache=True)
    return [plane.start_scheduler(yaml.safe_load(text)), extender]


class Contender(NamedTuple):
    """One way to get pods onto nodes, and what it leaves out."""

    name: str
    start: Callable[[ControlPlane, int], Started]
    scheduler: str
    leaves_out: str
    # How often it has its turn at most: one that is never at rest takes minutes for each.
    most_turns: int = 100


CONTENDERS = (
    Contender("bare client", bare, "bare", "everything but the bind: no decision, no watch, no event"),
    Contender(
        "numaware scheduler",
        numaware,
        "numaware",
        "preemption, resource claims",
    ),
    Contender("kube-scheduler", kube_scheduler, "default-scheduler", "NUMA nodes; of many nodes, most"),
    Contender(
        "kube-scheduler + NodeResourceTopologyMatch",
        with_topology_plugin,
        "default-scheduler",
        "NUMA nodes but for single-numa-node; tries pods again and again while no agent tells of those it has placed",
        most_turns=1,
    ),
    Contender(
        "kube-scheduler + extender", extended, "default-scheduler", "nothing; two more calls for each pod"
    ),
)


@contextmanager
def cluster(plane: ControlPlane, count: int) -> Iterator[list[FakeKubelet]]:
    """So many nodes with their topologies; gives their kubelets as they are before any pod."""
    with FakeNodes(plane, load.nodes(count)) as fakes:
        assert fakes.problems() == []
    try:
        yield [FakeKubelet(spec) for spec in load.nodes(count)]
    finally:
        for path in (_TOPOLOGIES, _NODES):
            _clear(plane, path)


def run(plane: ControlPlane, one: Contender, kubelets: list[FakeKubelet], count: int) -> Run:
    """All pods are there before the scheduler is; time runs from its first bind to its last."""
    made = plane.api().create_all(PODS, load.pods(count, scheduler=one.scheduler))
    before: list[Cpu] = []
    started: Started = []

    def spent() -> Cpu:
        server = [plane.programs[name] for name in ("apiserver", "etcd")]
        return Cpu(_cpu(started), _cpu(server))

    _collect_garbage(plane)
    watcher = Watcher(plane, made[-1]["metadata"]["resourceVersion"], lambda: before.append(spent()))
    watcher.start()
    started += one.start(plane, len(kubelets))
    try:
        watcher.wait_for(count)
        assert watcher.binds, "\n".join(program.tail() for program in started)
        _wait_for_rest(started)
        after = spent()
    finally:
        for program in started:
            program.kill()
        watcher.close()
        _clear(plane, PODS)
        _clear(plane, "/apis/events.k8s.io/v1/namespaces/default/events")
    times = [at for at, _ in watcher.binds.values()]
    cost = Cpu(*(late - early for late, early in zip(after, before[0], strict=True)))
    refused = _refused(made, watcher.binds, kubelets)
    bound = len(times)
    return Run(one.name, len(kubelets), bound, count - bound, max(times) - min(times), cost, refused)


def _collect_garbage(plane: ControlPlane) -> None:
    """Have an API server with `--profiling` do it now.

    In the middle of a run it costs as much as hundreds of binds, and whom it meets is luck.
    """
    plane.api().get("/debug/pprof/heap", gc="1")


def _refused(
    made: list[dict[str, Any]], binds: dict[str, tuple[float, str]], kubelets: list[FakeKubelet]
) -> int:
    """How many pods kubelets would have refused, each asked in the order of the binds."""
    fresh = {kubelet.name: FakeKubelet(kubelet.spec) for kubelet in kubelets}
    found = {one["metadata"]["uid"]: pods.decode(msgspec.json.encode(one)).pod for one in made}
    return sum(not fresh[node].admit(found[uid]).admitted for uid, (_, node) in binds.items())


def _wait_for_rest(programs: Sequence[Program]) -> None:
    """Until they have nothing more to do: what is left for later, such as events, is part of what they cost."""
    spent, until = 0.0, time.monotonic() + _SECONDS_TO_REST
    while (now := _cpu(programs)) - spent > _CPU_AT_REST and time.monotonic() < until:
        spent = now
        time.sleep(1)


def _cpu(programs: Sequence[Program]) -> float:
    return sum(program.cpu_seconds() for program in programs)


def _clear(plane: ControlPlane, path: str) -> None:
    api = plane.api()
    # Connections that have been idle for minutes may be dead, which only reading survives.
    api.get("/readyz")
    api.delete(path, gracePeriodSeconds="0")
    eventually(lambda: not api.list_all(path), f"{path} is empty", 120)
