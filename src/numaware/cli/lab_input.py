"""Clusters and traces as they are named on the command line: files of the lab, manifests, `openb:` lists, or `dlrm:`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from numaware.cli.machine_input import load_machine
from numaware.cli.options import optional
from numaware.errors import InputError
from numaware.machine.textfile import read_bounded
from numaware.simulate import dlrm, labfile, openb, workloads
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.csv_rows import MOST_BYTES
from numaware.simulate.traces import Trace

OPENB, DLRM = "openb:", "dlrm:"

KubeletPolicy = Literal["restricted", "single-numa-node", "best-effort", "none"]
KubeletScope = Literal["pod", "container"]

# Options of every command that asks about such a cluster.
ClusterName = Annotated[
    str, Parameter(name="CLUSTER", help="A cluster file, openb:NODES.csv, or dlrm:COUNT.")
]
Policy = Annotated[
    KubeletPolicy | None, optional("Topology policy of openb: and dlrm: clusters; restricted if not given.")
]
Scope = Annotated[
    KubeletScope | None, optional("Topology scope of openb: and dlrm: clusters; container if not given.")
]


class Place(msgspec.Struct, frozen=True):
    """A cluster, and the pods and events that its own file brings."""

    cluster: ClusterSpec
    own: Trace
    whole_cpus: bool = True


def load_cluster(name: str, policy: KubeletPolicy | None, scope: KubeletScope | None) -> Place:
    """The cluster of that name; a policy and a scope are for node lists and counts, which tell of no kubelets."""
    config = openb.kubelet(policy or "restricted", scope or "container")
    if name.startswith(DLRM):
        return Place(dlrm.nodes(name.removeprefix(DLRM), config), Trace(""), openb.pins(config))
    if name.startswith(OPENB):
        path = Path(name.removeprefix(OPENB))
        cluster = openb.nodes(read_bounded(path, MOST_BYTES), str(path), config)
        return Place(msgspec.structs.replace(cluster, name=path.stem), Trace(""), openb.pins(config))
    if policy or scope:
        option = "--kubelet-policy" if policy else "--scope"
        raise InputError(
            option, "is for openb: and dlrm: clusters", hint=f"{name} says it in its kubelet configurations"
        )
    lab = labfile.read(Path(name), load_machine)
    if lab.cluster is None:
        raise InputError(name, "lists no nodes", hint="a cluster file has nodes")
    return Place(lab.cluster, lab.trace)


def load_trace(name: str, *, whole_cpus: bool, timed: bool = False) -> Trace:
    """The trace of that name."""
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
