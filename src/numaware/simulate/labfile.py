"""Files of the lab in YAML: the nodes of a cluster, the pods that come, what happens meanwhile.

    nodes:
      - name: gpu                       gpu-0, gpu-1, ... where there are several
        count: 3
        machine: 2x14 +gpu@0,1,1        a short form, or a capture or topology JSON beside this file
        kubelet: {cpuManagerPolicy: static, ...}        or the name of a file
    workloads:
      - manifest: web.yaml              Kubernetes objects: a file, or written here
      - generate: 200                   so many pods of these shapes
        every: 2s
        lifetime: [10m, 1h]
        shapes: [{name: small, weight: 3, limits: {cpu: 2, memory: 4Gi}}]
    events:
      - {at: 30m, drain: gpu-0}

A cluster has nodes, a trace has workloads or events; one file may have all of them. Whatever is wrong is one
`InputError` with the file, the line and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.machine.words import printable
from numaware.schedule.node_facts import Taint
from numaware.simulate.clusters import MOST_PODS, ClusterSpec, NodeSpec, twin_of
from numaware.simulate.labfields import Reader
from numaware.simulate.traces import Trace
from numaware.simulate.workloads import read_trace
from numaware.twin import kubelet_config
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig
from numaware.twin.hardware import Hardware, PluginResource
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.workload.yamlfile import Node, documents

MOST_NODES = 100_000
_PARTS = ("name", "nodes", "workloads", "events")
_NODE_FIELDS = ("name", "count", "machine", "devices", "kubelet", "version", "labels", "taints", "pods")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

MachineLoader = Callable[[Path], Machine]


class LabFile(msgspec.Struct, frozen=True):
    """What a file holds: a cluster if it has nodes, and a trace, which may be empty.

    `memory_assumed` are those kinds of nodes whose memory the file does not tell.
    """

    cluster: ClusterSpec | None
    trace: Trace
    memory_assumed: tuple[str, ...] = ()


def is_lab_file(data: bytes, source: str) -> bool:
    """Whether the first document is one of the lab's, not a Kubernetes object."""
    given = documents(data, source)
    return bool(given) and any(part in given[0].mapping for part in _PARTS[1:])


def read(path: Path, load_machine: MachineLoader) -> LabFile:
    """The file at `path`; names of other files in it count from its folder."""
    source = str(path)
    reader = Reader(source, path.parent)
    given = documents(reader.bytes_of(path), source)
    root = given[0] if given else Node(None, 1)
    reader.mapping(root, _PARTS, "a file of the lab")
    name = reader.text(root.get("name"), "name") or path.stem
    cluster = None
    assumed = []
    if root.get("nodes").value is not None:
        specs: dict[str, NodeSpec] = {}
        for node in reader.entries(root.get("nodes"), "nodes"):
            machine = node.get("machine").text or ""
            if reader.beside(machine) is None and synthetic.assumes_memory(machine):
                assumed.append(node.get("name").text or "")
            for spec in _nodes(node, reader, load_machine):
                if spec.name in specs:
                    raise reader.error(node, f"node {printable(spec.name, 80)!r} is there twice")
                specs[spec.name] = spec
                if len(specs) > MOST_NODES:
                    raise reader.error(node, f"more than {MOST_NODES} nodes")
        if not specs:
            raise reader.error(root.get("nodes"), "no nodes are listed")
        cluster = ClusterSpec(name, tuple(specs.values()))
    return LabFile(cluster, read_trace(root, name, reader), tuple(assumed))


def _nodes(node: Node, reader: Reader, load_machine: MachineLoader) -> Iterator[NodeSpec]:
    reader.mapping(node, _NODE_FIELDS, "a kind of node")
    name = reader.required(node, "name")
    count = reader.number(node.get("count"), "count", 1, MOST_NODES, default=1)
    hardware = _hardware(node, reader, load_machine)
    spec = NodeSpec(
        name,
        hardware,
        _kubelet(node, reader),
        reader.labels(node.get("labels")),
        tuple(_taint(taint, reader) for taint in reader.entries(node.get("taints"), "taints")),
        reader.number(node.get("pods"), "pods", 0, 100_000, default=MOST_PODS),
    )
    try:
        twin_of(spec)
    except InputError as error:
        raise reader.error(node, f"{error.source}: {error.problem}") from None
    if count == 1 and node.get("count").value is None:
        yield spec
    else:
        width = len(str(count - 1))
        for index in range(count):
            yield msgspec.structs.replace(spec, name=f"{name}-{index:0{width}}")


def _hardware(node: Node, reader: Reader, load_machine: MachineLoader) -> Hardware:
    text = reader.required(node, "machine")
    path = reader.beside(text)
    try:
        machine = load_machine(path) if path is not None else synthetic.read(text)
    except InputError as error:
        known = "" if path is not None else "no such file, and as a short form: "
        problem = f"machine {printable(text, 80)!r}: {known}{error.problem}"
        raise reader.error(node.get("machine"), problem, hint=error.hint) from None
    devices = _devices(node.get("devices"), machine, reader)
    try:
        return hardware_of(machine, devices)
    except ValueError as error:
        raise reader.error(node.get("machine"), f"{printable(text, 80)!r}: {error}") from None


def _devices(node: Node, machine: Machine, reader: Reader) -> list[PluginResource] | None:
    """`nvidia.com/gpu: [0, 0, 1]`: one device on each NUMA node listed, null for one on none."""
    if node.value is None:
        return None
    known = {numa.id for numa in machine.numa}
    resources = []
    for name, listed in reader.members(node, "devices"):
        places: dict[str, tuple[int, ...]] = {}
        for index, item in enumerate(reader.entries(listed, f"devices of {name}")):
            if item.value is not None and (not isinstance(item.value, int) or item.value not in known):
                raise reader.error(item, f"the machine has no NUMA node {printable(str(item.value), 40)}")
            places[f"device-{index:04}"] = (item.value,) if isinstance(item.value, int) else ()
        resources.append(plugin_resource(name, places))
    return resources


def _kubelet(node: Node, reader: Reader) -> KubeletConfig:
    given = node.get("kubelet")
    version = reader.text(node.get("version"), "version") or DEFAULT_VERSION
    if given.value is None:
        return KubeletConfig(version=version)
    path = reader.beside(given.text) if given.text is not None else None
    if given.text is not None and path is None:
        raise reader.error(given, f"kubelet: there is no file {printable(given.text, 80)!r}")
    data = reader.bytes_of(path) if path is not None else reader.json(given)
    try:
        file = kubelet_config.read(data, str(path or "kubelet"), version)
    except InputError as error:
        raise reader.error(given, f"kubelet: {error.problem}", hint=error.hint) from None
    for problem in file.problems:
        if problem.severity == "error":
            raise reader.error(given, f"the kubelet would not start: {problem}")
    return file.config


def _taint(node: Node, reader: Reader) -> Taint:
    reader.mapping(node, ("key", "value", "effect"), "a taint")
    effect: Any = reader.required(node, "effect")
    if effect not in _EFFECTS:
        raise reader.error(node, f"effect is {printable(effect, 40)!r}", hint=f"known: {', '.join(_EFFECTS)}")
    return Taint(reader.required(node, "key"), reader.text(node.get("value"), "value"), effect)
