"""Clusters and traces as they are named on the command line: files of the lab, manifests, `openb:` lists, `dlrm:`, the console's
lab (`lab:`), or a cluster that runs (`live:`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, look_at
from numaware.cli.machine_input import load_machine
from numaware.cli.options import optional
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.textfile import read_bounded
from numaware.machine.words import printable
from numaware.schedule.cluster import Cluster
from numaware.sentence import Sentence
from numaware.simulate import dlrm, labfile, openb, pod_churn, workloads
from numaware.simulate.clusters import ClusterSpec, machines_of
from numaware.simulate.csv_rows import MOST_BYTES
from numaware.simulate.traces import Trace
from numaware.workload.pod import Pod
from numaware.workload.qos import requested_in_all

OPENB, DLRM, LAB, LIVE = "openb:", "dlrm:", "lab:", "live:"

KubeletPolicy = Literal["restricted", "single-numa-node", "best-effort", "none"]
KubeletScope = Literal["pod", "container"]

# Options of every command that asks about such a cluster.
ClusterName = Annotated[
    str,
    Parameter(
        name="CLUSTER",
        help="A cluster file, openb:NODES.csv, dlrm:COUNT, lab: (the console's), or live: (one that runs).",
    ),
]
Policy = Annotated[
    KubeletPolicy | None,
    optional("Topology policy of openb: and dlrm: clusters (restricted if not given), or to try on live:."),
]
Scope = Annotated[
    KubeletScope | None,
    optional("Topology scope of openb: and dlrm: clusters (container if not given), or to try on live:."),
]


class Place(msgspec.Struct, frozen=True):
    """A cluster, and the pods and events that its own file brings; kinds of nodes whose memory had to be assumed."""

    cluster: ClusterSpec
    own: Trace
    whole_cpus: bool = True
    memory_assumed: tuple[str, ...] = ()

    def notes(self, pods: Iterable[Pod]) -> tuple[Sentence, ...]:
        """What had to be assumed and matters to these pods."""
        if not self.memory_assumed or not any(requested_in_all(pod).get("memory") for pod in pods):
            return ()
        names = printable(", ".join(self.memory_assumed), 200)
        return (Sentence("{source}: {problem}", source=names, problem=synthetic.memory_note()),)


def load_cluster(
    name: str,
    policy: KubeletPolicy | None,
    scope: KubeletScope | None,
    live: ClusterOptions = USUAL_CLUSTER,
) -> Place:
    """The cluster of that name; of one that runs the machines alone.

    A policy and a scope are for node lists and counts, which tell of no kubelets, and to try on a cluster that runs.
    """
    config = openb.kubelet(policy or "restricted", scope or "container")
    if name.startswith(DLRM):
        return Place(dlrm.nodes(name.removeprefix(DLRM), config), Trace(""), openb.pins(config))
    if name.startswith(OPENB):
        path = Path(name.removeprefix(OPENB))
        cluster = openb.nodes(read_bounded(path, MOST_BYTES), str(path), config)
        return Place(msgspec.structs.replace(cluster, name=path.stem), Trace(""), openb.pins(config))
    if name == LIVE:
        tried = {"topology_policy": policy, "topology_scope": scope}
        given = {field: value for field, value in tried.items() if value is not None}
        spec = machines_of(load_live(live))
        nodes = (
            msgspec.structs.replace(node, config=msgspec.structs.replace(node.config, **given))
            for node in spec.nodes
        )
        return Place(msgspec.structs.replace(spec, nodes=tuple(nodes)), Trace(""))
    if policy or scope:
        option = "--kubelet-policy" if policy else "--scope"
        raise InputError(
            option, "is for openb: and dlrm: clusters", hint=f"{name} says it in its kubelet configurations"
        )
    if name == LAB:
        from numaware.serve.console.lab.world import lab_cluster  # noqa: PLC0415 - few ask for it

        return Place(lab_cluster(), Trace(""))
    lab = labfile.read(Path(name), load_machine)
    if lab.cluster is None:
        raise InputError(name, "lists no nodes", hint="a cluster file has nodes")
    return Place(lab.cluster, lab.trace, memory_assumed=lab.memory_assumed)


def load_live(live: ClusterOptions) -> Cluster:
    """The cluster that runs, with the pods that are on it now."""
    cluster = look_at(live)[0].engine.cluster
    if not len(cluster):
        raise InputError(LIVE, "the cluster has no nodes")
    return cluster


def load_trace(name: str, *, whole_cpus: bool, timed: bool = False) -> Trace:
    """The trace of that name."""
    if name.startswith(LAB):
        return _of_the_lab(name.removeprefix(LAB))
    path = Path(name.removeprefix(OPENB).removeprefix(DLRM))
    data = read_bounded(path, MOST_BYTES)
    if name.startswith(DLRM):
        return msgspec.structs.replace(dlrm.pods(data, str(path), timed=timed), name=path.stem)
    if name.startswith(OPENB):
        trace = openb.pods(data, str(path), whole_cpus=whole_cpus, timed=timed)
        return msgspec.structs.replace(trace, name=path.stem)
    if timed:
        raise InputError(
            "--timed", "is for openb: and dlrm: traces", hint="a file of the lab has times of its own"
        )
    if not labfile.is_lab_file(data, name):
        return workloads.of_manifests(data, name, path.stem)
    trace = labfile.read(path, load_machine).trace
    if not (trace.pods or trace.generators):
        raise InputError(name, "brings no pods", hint="a trace has workloads")
    return trace


def _of_the_lab(count: str) -> Trace:
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= pod_churn.MOST_PODS):
        problem = f"{printable(count, 20)!r} is no number of pods from 1 to {pod_churn.MOST_PODS}"
        raise InputError(LAB, problem, hint="write it like lab:600")
    return pod_churn.trace_of(int(count))
