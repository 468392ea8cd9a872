"""The pods and events in a file of the lab, or in plain manifests, as a trace."""

from __future__ import annotations

from collections.abc import Iterator

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.simulate.labfields import Reader
from numaware.simulate.traces import (
    MOST_PODS,
    SECOND,
    FinishEvent,
    Generator,
    NodeAction,
    NodeEvent,
    Shape,
    TimedPod,
    Trace,
    renamed,
)
from numaware.workload import manifest
from numaware.workload.manifest import Workload
from numaware.workload.pod import Pod
from numaware.workload.yamlfile import Node

_GIVEN = ("manifest", "at", "lifetime", "replicas")
_GENERATED = ("generate", "at", "every", "lifetime", "shapes")
_SHAPE = ("name", "weight", "limits", "requests", "labels", "manifest")
_NODE_ACTIONS: tuple[NodeAction, ...] = ("drain", "lose", "return")
_ACTIONS = (*_NODE_ACTIONS, "finish")
_MOST_WEIGHT = 1_000_000


def of_manifests(data: bytes, source: str, name: str) -> Trace:
    """Plain Kubernetes objects: their pods come at once, in the order they stand, and stay."""
    return Trace(name, tuple(_pods(manifest.read(data, source).workloads, 0, None, None)))


def read_trace(root: Node, name: str, reader: Reader) -> Trace:
    """The workloads and events of a file."""
    pods: list[TimedPod] = []
    generators: list[Generator] = []
    for node in reader.entries(root.get("workloads"), "workloads"):
        if "generate" in node.mapping:
            generators.append(_generator(node, reader))
        else:
            pods += _given(node, reader)
        if len(pods) + sum(generator.count for generator in generators) > MOST_PODS:
            raise reader.error(node, f"more than {MOST_PODS} pods")
    nodes: list[NodeEvent] = []
    finishes: list[FinishEvent] = []
    for node in reader.entries(root.get("events"), "events"):
        reader.mapping(node, ("at", *_ACTIONS), "an event")
        chosen = [action for action in _ACTIONS if action in node.mapping]
        if len(chosen) != 1:
            raise reader.error(node, "an event does one thing", hint=f"one of {', '.join(_ACTIONS)}")
        at, subject = reader.duration(node.get("at"), "at"), reader.required(node, chosen[0])
        nodes += [
            NodeEvent(at, action, subject, node.line) for action in _NODE_ACTIONS if action == chosen[0]
        ]
        if chosen[0] == "finish":
            finishes.append(FinishEvent(at, subject))
    return Trace(name, tuple(pods), tuple(generators), tuple(nodes), tuple(finishes))


def _given(node: Node, reader: Reader) -> Iterator[TimedPod]:
    reader.mapping(node, _GIVEN, "a workload")
    replicas = node.get("replicas")
    count = None if replicas.value is None else reader.number(replicas, "replicas", 0, MOST_PODS, default=1)
    lifetime = node.get("lifetime")
    yield from _pods(
        _workloads(node.get("manifest"), reader),
        reader.duration(node.get("at"), "at"),
        None if lifetime.value is None else reader.duration(lifetime, "lifetime"),
        count,
    )


def _workloads(node: Node, reader: Reader) -> tuple[Workload, ...]:
    """Kubernetes objects: the name of a file, several documents as text, or one object written out."""
    text = node.text
    path = reader.beside(text) if text is not None and "\n" not in text else None
    if text is not None and "\n" not in text and path is None:
        raise reader.error(node, f"manifest: there is no file {printable(text, 80)!r}")
    try:
        if path is not None:
            return manifest.read(reader.bytes_of(path), str(path)).workloads
        return manifest.read(text.encode() if text is not None else reader.json(node), "manifest").workloads
    except InputError as error:
        where = error.source if path is not None else "manifest"
        raise reader.error(node, f"{where}: {error.problem}", hint=error.hint) from None


def _pods(
    workloads: tuple[Workload, ...], at: int, lifetime: int | None, replicas: int | None
) -> Iterator[TimedPod]:
    for workload in workloads:
        owner = f"{workload.kind}/{workload.name}"
        if workload.kind == "Pod" and replicas is None:
            yield TimedPod(_with_uid(workload.pod), owner, at, lifetime)
        elif workload.replicas is None:
            yield TimedPod(_with_uid(workload.pod), owner, at, lifetime, on_every_node=True)
        else:
            for index in range(workload.replicas if replicas is None else replicas):
                yield TimedPod(renamed(workload.pod, f"{workload.pod.name}-{index}"), owner, at, lifetime)


def _with_uid(pod: Pod) -> Pod:
    return renamed(pod, pod.name)


def _generator(node: Node, reader: Reader) -> Generator:
    reader.mapping(node, _GENERATED, "a generator")
    lifetime = node.get("lifetime")
    bounds: tuple[int, int] | None = None
    if isinstance(lifetime.value, list):
        times = [reader.duration(item, "lifetime") for item in lifetime.items]
        if len(times) != 2 or times[0] > times[1]:
            raise reader.error(lifetime, "lifetime: expected the shortest and the longest time")
        bounds = times[0], times[1]
    elif lifetime.value is not None:
        bounds = (reader.duration(lifetime, "lifetime"),) * 2
    every = node.get("every")
    shapes = tuple(_shape(shape, reader) for shape in reader.entries(node.get("shapes"), "shapes"))
    if not shapes:
        raise reader.error(
            node, "a generator needs shapes", hint="such as {name: a, limits: {cpu: 2, memory: 4Gi}}"
        )
    return Generator(
        shapes,
        reader.number(node.get("generate"), "generate", 0, MOST_PODS, default=0),
        reader.duration(node.get("at"), "at"),
        SECOND if every.value is None else reader.duration(every, "every"),
        bounds,
    )


def _shape(node: Node, reader: Reader) -> Shape:
    """One kind of pod: amounts as a container has them, or any object with one pod template."""
    reader.mapping(node, _SHAPE, "a shape")
    weight = reader.number(node.get("weight"), "weight", 1, _MOST_WEIGHT, default=1)
    written = node.get("manifest")
    if written.value is None:
        name = reader.required(node, "name")
        resources: dict[str, Node] = {
            field: node.get(field) for field in ("limits", "requests") if field in node.mapping
        }
        container = Node({"name": Node("app", node.line), "resources": Node(resources, node.line)}, node.line)
        metadata = Node({"name": Node(name, node.line), "labels": node.get("labels")}, node.line)
        spec = Node({"containers": Node([container], node.line)}, node.line)
        written = Node({"kind": Node("Pod", node.line), "metadata": metadata, "spec": spec}, node.line)
    workloads = _workloads(written, reader)
    if len(workloads) != 1:
        raise reader.error(node, f"a shape is one kind of pod, and {len(workloads)} are here")
    return Shape(workloads[0].pod, f"{workloads[0].kind}/{workloads[0].name}", weight)
