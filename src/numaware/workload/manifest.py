"""Manifests: any file with objects that make pods, as workloads.

`scan` takes everything it finds and says what is wrong with it, for those who want to see all of it; `read` is for
those who want pods: it refuses what the API server would refuse, so that no verdict rests on a pod that cannot exist.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.workload.fields import Field, PodReading
from numaware.workload.pod import Pod
from numaware.workload.podspec import read_pod
from numaware.workload.problem import Problem
from numaware.workload.schedulingspec import PodSource
from numaware.workload.template import Template, required_spec, templates
from numaware.workload.yamlfile import Node, documents

# Objects in one file, counted through lists in lists: aliases could make it any number.
MAX_OBJECTS = 100_000

_UIDS = uuid.UUID("7d1c9b52-5a55-5b59-9f2e-1a1b4c7d3e60")


class Workload(msgspec.Struct, frozen=True):
    """A pod, or the pods of one template, and where they were written.

    `kind` and `name` are the owner's (the pod's own for a bare pod); `group` names the task or worker group if the
    owner has several. `replicas` is None for one pod per node. `topology_policy` is what a Volcano task asks for.
    `document` counts from 0. Paths in `lines` are those of the API server, from the object's root.
    """

    kind: str
    name: str
    namespace: str
    pod: Pod
    replicas: int | None
    group: str
    topology_policy: str | None
    document: int
    spec_path: str
    lines: tuple[tuple[str, int], ...]

    def line_of(self, *paths: str) -> int:
        """The line of the first of these fields that was written, such as `spec.containers[0].resources`; 0 for none."""
        lines = dict(self.lines)
        return next(filter(None, map(lines.get, paths)), 0)


class Skipped(msgspec.Struct, frozen=True):
    """An object without pods."""

    kind: str
    name: str
    document: int
    line: int


class Manifest(msgspec.Struct, frozen=True):
    """What a file holds. A workload that the API server would refuse is not in `workloads` but in `problems`."""

    workloads: tuple[Workload, ...]
    skipped: tuple[Skipped, ...]
    problems: tuple[Problem, ...]


def read(data: bytes, source: str) -> Manifest:
    """The workloads of a file; `InputError` for what cannot be read or run, or if there is nothing to run at all."""
    return _runnable(scan(data, source), source)


def first(data: bytes, source: str) -> Workload:
    """The first workload of a file for whoever uses no other: what comes after it is not read. `InputError` as from `read`."""
    skipped: list[Skipped] = []
    for part in _parts(documents(data, source), source):
        skipped.extend(part.skipped)
        if part.workloads or part.problems:
            return _runnable(part, source).workloads[0]
    return _runnable(Manifest((), tuple(skipped), ()), source).workloads[0]


def _runnable(manifest: Manifest, source: str) -> Manifest:
    errors = [problem for problem in manifest.problems if problem.severity == "error"]
    if errors:
        more = Sentence("and {count} more", count=len(errors) - 1) if len(errors) > 1 else ""
        raise InputError(f"{source}:{errors[0].line}", errors[0].sentence, hint=more)
    if not manifest.workloads:
        kinds = sorted({skipped.kind for skipped in manifest.skipped if skipped.kind})
        hint = Sentence("found {kinds}", kinds=", ".join(kinds[:8])) if kinds else ""
        raise InputError(source, Sentence("holds no pod and no pod template"), hint=hint)
    return manifest


def scan(data: bytes, source: str) -> Manifest:
    """Everything in a file, good or bad; `InputError` only where the text itself cannot be read."""
    return scan_documents(documents(data, source), source)


def scan_documents(given: list[Node], source: str) -> Manifest:
    """The same for a file whose text has been read already."""
    workloads: list[Workload] = []
    skipped: list[Skipped] = []
    problems: list[Problem] = []
    for part in _parts(given, source):
        workloads.extend(part.workloads)
        skipped.extend(part.skipped)
        problems.extend(part.problems)
    return Manifest(tuple(workloads), tuple(skipped), tuple(problems))


def _parts(given: list[Node], source: str) -> Iterator[Manifest]:
    """Template by template, or object by object where one has none: what each holds, read when it is its turn."""
    for index, kind, node in objects(given, source):
        has_pods = False
        for template in templates(node):
            has_pods = True
            reading = PodReading()
            workload = _workload(node, kind, template, index, reading)
            yield Manifest(() if reading.refused else (workload,), (), tuple(reading.problems))
        wanted = required_spec(node)
        if not has_pods and wanted:
            yield Manifest((), (), (Problem("error", f"{wanted}.containers", "Required value", node.line),))
        elif not has_pods:
            name = node.get("metadata", "name").text or ""
            yield Manifest((), (Skipped(printable(kind, 80), printable(name, 80), index, node.line),), ())


def objects(given: list[Node], source: str) -> Iterator[tuple[int, str, Node]]:
    """Every object with its document's index and its kind; lists are opened, and lists in lists."""
    stack = [(index, node, "") for index, node in enumerate(given)]
    stack.reverse()
    count = 0
    while stack:
        index, node, implied = stack.pop()
        count += 1
        if count > MAX_OBJECTS:
            raise InputError(
                f"{source}:{node.line}", Sentence("holds more than {most} objects", most=MAX_OBJECTS)
            )
        if node.value is None:
            continue
        kind = node.get("kind").text or implied
        items = node.get("items")
        if kind.endswith("List") and isinstance(items.value, list):
            stack.extend((index, item, kind.removesuffix("List")) for item in reversed(items.items))
        else:
            yield index, kind, node


def _workload(owner: Node, kind: str, template: Template, document: int, reading: PodReading) -> Workload:
    root = Field(owner, "", reading)
    metadata = root.get("metadata")
    name = metadata.get("name").text() or metadata.get("generateName").text()
    if not name:
        text = Sentence("is missing; the API server asks for a name")
        reading.problems.append(Problem("note", "metadata.name", text, owner.line))
    namespace = metadata.get("namespace").text() or "default"
    kind = kind or "Pod"
    pod_name = "-".join(part for part in (name or "unnamed", template.group) if part)
    made_up = str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}/{template.path}"))
    is_pod = template.node is owner
    own_uid = metadata.get("uid").node.text if is_pod else None
    status = root.get("status") if is_pod else Field(Node(None, owner.line), "status", reading)
    source = PodSource(
        root=Field(template.node, template.path, reading),
        holder=template.holder,
        kind=kind,
        owner=name or "unnamed",
        pod=pod_name,
        namespace=namespace,
    )
    pod = read_pod(source, own_uid or made_up, status)
    return Workload(
        kind=kind,
        name=name or "unnamed",
        namespace=namespace,
        pod=pod,
        replicas=_replicas(kind, template, reading),
        group=template.group,
        topology_policy=template.holder.get("topologyPolicy").text,
        document=document,
        spec_path=template.spec_path,
        lines=tuple(reading.lines.items()),
    )


def _replicas(kind: str, template: Template, reading: PodReading) -> int | None:
    """How many such pods there are: `replicas`, or a Job's `parallelism`; one unless it says otherwise."""
    if kind == "DaemonSet":
        return None
    field = "replicas" if "replicas" in template.holder.mapping else "parallelism"
    node = template.holder.get(field)
    if node.value is None or template.path == "":
        return 1
    if isinstance(node.value, bool) or not isinstance(node.value, int) or node.value < 0:
        path = ".".join(part for part in (template.path.rpartition(".")[0], field) if part)
        text = Sentence("expected a whole number of pods, 0 or more")
        Field(node, path, reading).error(text)
        return 1
    return node.value
