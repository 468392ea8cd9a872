"""Files of any kind come in; what each is, is found from its content, and what it says goes into the bundle.

`numaware diagnose` and the console hand every file to `take`, which tries the readers of this folder and the rules on
single files. No file is refused: what is not recognised is `unknown`, and what looks like something but cannot be read
is searched as text, in which the lines that are known still count. What is packed is opened by `machine.unpacking`, within
the budget of the whole input; a file that ends too early has told what came before, and is put down in `Bundle.cuts`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, cast

from numaware.diagnose.evidence import kube_objects, kubectl_text, topology_report
from numaware.diagnose.evidence.bundle import Bundle, Cut, Piece, StateFile
from numaware.diagnose.evidence.logs import messages, scan
from numaware.diagnose.rules.lint import findings_of_kubelet_flags, lint
from numaware.diagnose.rules.state_files import checkpoint_of, state_findings
from numaware.errors import InputError
from numaware.machine import codec, sources
from numaware.machine.unpacking import (
    REGULAR,
    Budget,
    Member,
    Readable,
    UnpackError,
    is_tar,
    members,
    unpacked,
)
from numaware.machine.unzipping import is_zip, zip_members
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin import flags as kubelet_flags
from numaware.twin.state import cpu, device, memory
from numaware.twin.state.verify import Checkpoint
from numaware.workload import manifest
from numaware.workload.yamlfile import Node, documents

UNKNOWN = "unknown"
HEAD = 1 << 16
# What may come out of everything that is packed, where nobody else waits for it.
MOST_UNPACKED = 16 << 30
# What is larger is a log, whatever it begins with.
MOST_BYTES = 16 << 20
# Unless it is a list of Kubernetes objects.
_MOST_LISTING = 64 << 20
_LARGE = 1 << 18
# An archive in an archive, each compressed, and what is compressed in that one.
_MOST_LAYERS = 6
_MOST_NAMED = 5

_LOG_LINE = re.compile(
    rb"(?m)^.{0,200}?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |^\{\"(?:ts|time|log|MESSAGE|__CURSOR|level|insertId)\"|"
    rb"^.{0,120}(?:kubelet|k3s|rke2)(?:-server|-agent)?\[\d{1,10}\]: |^time=\"[^\"]{1,40}\" level=\w{1,10} msg="
)
# Which programs speak in what journalctl or a syslog daemon wrote, and which of them are or hold a kubelet.
_PROGRAM = re.compile(
    rb'(?m)^.{15,300}?[ "]([\w.@/-]{1,64})\[\d{1,10}\]: |"SYSLOG_IDENTIFIER" ?: ?"([\w.@/-]{1,64})"'
)
_KUBELETS = re.compile(rb"kubelet|kubelite|kubenswrapper|hyperkube|k3s|rke2|k0s")
_NO_ENTRIES = re.compile(rb"\s*(?:--[^\n]*--\s*)*-- No entries --")
_LISTING = re.compile(rb'\s{0,8}\{\s{0,40}"(?:apiVersion|items|kind)"\s*:')
_STATE = re.compile(rb'"(?i:policyName|defaultCpuSet|machineState|PodDeviceEntries)"\s*:')
_OBJECT = re.compile(
    rb"(?m)^[ \t{,-]{0,200}\"?(?:apiVersion|kind|items|involvedObject|kubelet|kubeletconfig|cpuManager\w+|topologyManager\w+|"
    rb"memoryManagerPolicy|reserved(?:Memory|SystemCPUs)|kubeReserved|systemReserved|evictionHard|featureGates)\"?\s*:"
)
_FLAGS = re.compile(
    rb"--(?:cpu-manager-policy|topology-manager-(?:policy|scope)|memory-manager-policy|reserved-cpus|reserved-memory|"
    rb"kube-reserved|system-reserved)\b"
)
_TOOLS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("numactl", re.compile(rb"(?m)^[ \t]{0,40}available: \d+ nodes")),
    (
        "nvidia-smi",
        re.compile(
            rb"(?m)^[^\w\n]{0,40}(?:\[4m)?[ \t]{0,40}GPU0\b[^\n]{0,4000}\bCPU Affinity|^[ \t]{0,40}GPU0[ \t]{1,40}X\s"
        ),
    ),
    ("lscpu", re.compile(rb"(?m)^(?:Architecture:\s|CPU\(s\):\s+\d|CPU NODE SOCKET|NUMA node\d+ CPU\(s\):)")),
    ("hwloc", re.compile(rb"<!DOCTYPE topology|<topology\b")),
    ("nccl", re.compile(rb"<system version=")),
    ("cadvisor", re.compile(rb'"num_cores"\s*:')),
)
_PRINTED = ("numactl", "nvidia-smi", "lscpu")
_STATE_NAMES: dict[type[Checkpoint], str] = {
    cpu.CpuCheckpoint: cpu.FILE,
    memory.MemoryCheckpoint: memory.FILE,
    device.DeviceCheckpoint: device.FILE,
}


def take(bundle: Bundle, file: str, stream: Readable, budget: Budget | None = None) -> None:
    """Find out what a file is and take it in; one budget is for all that one person hands in."""
    _take(bundle, file, stream, budget or Budget(MOST_UNPACKED), 0)


def _take(bundle: Bundle, file: str, stream: Readable, budget: Budget, layers: int) -> None:
    bundle.files.append((file, _kind(bundle, file, stream, budget, layers)))


def _kind(bundle: Bundle, file: str, stream: Readable, budget: Budget, layers: int) -> str:
    """Take a file in; the answer is what it was."""
    source = cast("IO[bytes]", _UpToDamage(bundle, file, stream, budget))
    head = _up_to(source, HEAD)
    whole = cast("IO[bytes]", _Rejoined(head, source))
    content = unpacked(head, whole, budget)
    listed = members if is_tar(head) else partial(zip_members, budget=budget) if is_zip(head) else None
    if (content or listed) and layers >= _MOST_LAYERS:
        _cut(bundle, file, Sentence("is packed in more than {most} layers", most=_MOST_LAYERS), 0)
        return "archive"
    if content:
        return _kind(bundle, file, content, budget, layers + 1)
    if listed:
        return _archive(bundle, file, listed(whole), budget, layers + 1)
    if not head.strip():
        return _unknown(bundle, file, "empty")
    if b"\0" in head[:1024] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _unknown(bundle, file, "binary")
    if _LOG_LINE.search(head):
        return _log(bundle, file, whole)
    most = _MOST_LISTING if _LISTING.match(head) else MOST_BYTES
    data = _up_to(whole, most + 1)
    if len(data) > most:
        return _log(bundle, file, cast("IO[bytes]", _Rejoined(data, source)))
    kind = _document(bundle, file, data)
    if kind and kind not in _PRINTED:
        return kind
    # People paste what a tool printed and the lines of a log into one text.
    said = _log(bundle, file, io.BytesIO(data))
    return ", ".join(filter(None, (kind, said if said != UNKNOWN else ""))) or UNKNOWN


def _archive(bundle: Bundle, file: str, entries: Iterator[Member], budget: Budget, layers: int) -> str:
    """A tar or zip archive, such as a must-gather as it is sent: each file in it is evidence of its own."""
    member = ""
    try:
        for entry in entries:
            member = printable(entry.name, 400)
            if entry.kind in REGULAR:
                budget.begin_file()
                _take(bundle, f"{file}/{member}", entry.content, budget, layers)
    except UnpackError as error:
        # Its last member ends there as well, and is told about with it.
        for inner in [name for name in bundle.cuts if name.startswith(f"{file}/{member}")]:
            del bundle.cuts[inner]
        _cut(bundle, file, error.sentence, 0, member)
    return "archive"


def _cut(bundle: Bundle, file: str, problem: Sentence, read: int, member: str = "") -> None:
    """Put down that a file could not be read on: with the first thing that was wrong, and the last member that was reached."""
    known = bundle.cuts.get(file) or Cut(problem, read)
    bundle.cuts[file] = known._replace(member=member or known.member)


class _UpToDamage:
    """A file up to where it is damaged, or to where the budget is spent: there it ends."""

    def __init__(self, bundle: Bundle, file: str, stream: Readable, budget: Budget) -> None:
        self.bundle = bundle
        self.file = file
        self.stream = stream
        self.budget = budget
        self.got = 0
        self.ended = False

    def read(self, size: int = -1, /) -> bytes:
        if self.ended:
            return b""
        try:
            self.budget.check()
            part = self.stream.read(size if size >= 0 else MOST_BYTES)
        except UnpackError as error:
            _cut(self.bundle, self.file, error.sentence, self.got)
            part = b""
        self.ended = not part
        self.got += len(part)
        return part


class _Rejoined(io.RawIOBase):
    """A stream whose beginning was read already; what is read comes in the sizes asked for, if there is so much."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self.head = head
        self.rest = rest

    def read(self, size: int = -1, /) -> bytes:
        if not self.head:
            return self.rest.read(size)
        if size < 0:
            taken, self.head = self.head + self.rest.read(), b""
            return taken
        taken, self.head = self.head[:size], self.head[size:]
        return taken


def _up_to(stream: IO[bytes], most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while left > 0:
        part = stream.read(min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


# Logs and other text


def _log(bundle: Bundle, file: str, stream: IO[bytes]) -> str:
    """A log, and in a text that is small enough what kubectl printed."""
    beginning = _up_to(stream, kubectl_text.MOST_BYTES)
    small = len(beginning) < kubectl_text.MOST_BYTES
    folded = scan.unfolded(beginning) if small else None
    lines = scan.lines(cast("IO[bytes]", _Rejoined(beginning, stream)))
    said = messages.read(folded or lines, file, bundle.journal)
    attempts = []
    if small:
        text = beginning.decode("utf-8", "replace")
        said += messages.read_bare(text, file, bundle.journal)
        attempts = list(kubectl_text.read(text, file))
        bundle.attempts += attempts
    if said:
        return "kubelet log"
    if attempts:
        return "kubectl text"
    if _NO_ENTRIES.match(beginning):
        return _unknown(bundle, file, "no-entries")
    programs = dict.fromkeys(name or identifier for name, identifier in _PROGRAM.findall(beginning))
    if programs and not any(map(_KUBELETS.search, programs)):
        names = [printable(name.decode(), 60) for name in programs][:_MOST_NAMED]
        return _unknown(bundle, file, "other-log", programs=names)
    return "kubelet log" if _LOG_LINE.search(beginning[:HEAD]) else UNKNOWN


def _unknown(bundle: Bundle, file: str, state: str, **facts: object) -> str:
    bundle.unknown[file] = {"state": state, **facts}
    return UNKNOWN


# Documents


def _document(bundle: Bundle, file: str, data: bytes) -> str:
    """What a small file is; empty where it is none of the documents known."""
    kinds = (read(bundle, file, data) for read in (_state, _tool, _objects, _flags))
    return next(filter(None, kinds), "")


def _state(bundle: Bundle, file: str, data: bytes) -> str:
    begin = data.find(b"{")
    if not 0 <= begin < 400 or not _STATE.search(data):
        return ""
    checkpoint = checkpoint_of(data, file)
    findings = list(state_findings(data, file))
    bundle.findings += findings
    if checkpoint is None:
        return "state file" if findings else ""
    name = _STATE_NAMES[type(checkpoint)]
    bundle.states.append(Piece(file, StateFile(name, data, checkpoint)))
    return name


def _tool(bundle: Bundle, file: str, data: bytes) -> str:
    for kind, pattern in _TOOLS:
        if pattern.search(data[: 1 << 20]):
            try:
                bundle.machines.append(Piece(file, sources.read_source(kind, data, file)))
            except InputError:
                continue
            return kind
    if b'"numa"' in data and b'"cpuCount"' in data:
        with contextlib.suppress(InputError):
            bundle.machines.append(Piece(file, codec.decode(data, file)))
            return "topology"
    return ""


def _objects(bundle: Bundle, file: str, data: bytes) -> str:
    if not _OBJECT.search(data):
        return ""
    listing = kube_objects.listing(data) if len(data) > _LARGE else None
    if listing is not None:
        return _listing(bundle, file, listing)
    try:
        parsed = documents(data, file)
        every = [node for _, _, node in manifest.objects(parsed, file) if node.mapping]
        # What runs on a cluster is told about where something went wrong with it; advice is for what somebody wrote.
        live = any(node.get("status", "phase").text for node in every)
        linted = None if live else lint(data, file)
        has_pods = linted is None or "manifest" in linted.kind
        workloads = manifest.scan_documents(parsed, file).workloads if has_pods else ()
    except InputError:
        return ""
    for node in every:
        bundle.attempts += kube_objects.attempts(node, file)
        report = topology_report.read(node)
        if report is not None:
            bundle.reports.append(Piece(file, report))
    bundle.workloads += [Piece(file, one) for one in workloads]
    if linted is None:
        return _kinds(every)
    if linted.config is not None:
        bundle.settings.append(Piece(file, linted.config.settings))
    bundle.findings += linted.findings
    if linted.kind != "other":
        return linted.kind
    return _kinds(every) or ("settings" if linted.findings else "")


def _listing(bundle: Bundle, file: str, listing: list[dict[str, Any]]) -> str:
    """A long list as `kubectl get -o json` prints it: what is told about refused pods, and what those ask for."""
    nodes = []
    for item in listing:
        node = kube_objects.reduced(item)
        nodes.append(node)
        attempts = list(kube_objects.attempts(node, file))
        bundle.attempts += attempts
        if attempts and "spec" in item:
            with contextlib.suppress(InputError):
                one = manifest.scan(json.dumps(item).encode(), file)
                bundle.workloads += [Piece(file, workload) for workload in one.workloads]
    return _kinds(nodes)


def _kinds(nodes: list[Node]) -> str:
    kinds = dict.fromkeys(node.get("kind").text or "" for node in nodes)
    names = {"Event": "events", "Pod": "pods"}
    return ", ".join(names.get(kind, kind[:80]) for kind in kinds if kind)


def _flags(bundle: Bundle, file: str, data: bytes) -> str:
    if not _FLAGS.search(data) or len(data) > kubelet_flags.MAX_CHARACTERS:
        return ""
    try:
        settings = kubelet_flags.read(data.decode("utf-8", "replace"), file)
    except InputError:
        return ""
    bundle.settings.append(Piece(file, settings))
    bundle.findings += findings_of_kubelet_flags(data, file)
    return "kubelet flags"
