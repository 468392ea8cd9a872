"""Files of any kind come in; what each is, is found from its content, and what it says goes into the bundle.

`numaware diagnose` and the console hand every file to `take`, which tries the readers of this folder and the rules on
single files. No file is refused: what is not recognised is `unknown`, and what looks like something but cannot be read
is searched as text, in which the lines that are known still count.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import re
import tarfile
import zlib
from typing import IO, Any, cast

from numaware.diagnose.evidence import kube_objects, kubectl_text, topology_report
from numaware.diagnose.evidence.bundle import Bundle, Piece, StateFile
from numaware.diagnose.evidence.logs import messages, scan
from numaware.diagnose.rules.lint import findings_of_kubelet_flags, lint
from numaware.diagnose.rules.state_files import checkpoint_of, state_findings
from numaware.errors import InputError
from numaware.machine import codec, sources
from numaware.machine.words import printable
from numaware.twin import flags as kubelet_flags
from numaware.twin.state import cpu, device, memory
from numaware.twin.state.verify import Checkpoint
from numaware.workload import manifest
from numaware.workload.yamlfile import Node, documents

UNKNOWN = "unknown"
HEAD = 1 << 16
# What is larger is a log, whatever it begins with.
MOST_BYTES = 16 << 20
# Unless it is a list of Kubernetes objects.
_MOST_LISTING = 64 << 20
_LARGE = 1 << 18
_MOST_WRAPPERS = 3
_MOST_MEMBERS = 100_000

_LOG_LINE = re.compile(
    rb"(?m)^.{0,200}?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} |^\{\"(?:ts|time|log|MESSAGE|__CURSOR|level|insertId)\"|"
    rb"^.{0,120}kubelet\[\d{1,10}\]: "
)
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
_STATE_NAMES: dict[type[Checkpoint], str] = {
    cpu.CpuCheckpoint: cpu.FILE,
    memory.MemoryCheckpoint: memory.FILE,
    device.DeviceCheckpoint: device.FILE,
}


def take(bundle: Bundle, file: str, stream: IO[bytes]) -> None:
    """Find out what a file is and take it in."""
    bundle.files.append((file, _take(bundle, file, stream)))


def _take(bundle: Bundle, file: str, stream: IO[bytes], wrappers: int = 0) -> str:
    head = stream.read(HEAD)
    whole = cast("IO[bytes]", _Rejoined(head, stream))
    opened = _opened(head, whole) if wrappers < _MOST_WRAPPERS else None
    if opened is not None:
        return _take(bundle, file, opened, wrappers + 1)
    if head[257:262] == b"ustar" and wrappers < _MOST_WRAPPERS:
        return _archive(bundle, file, whole)
    if b"\0" in head[:1024] and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return UNKNOWN
    if _LOG_LINE.search(head):
        return _log(bundle, file, whole)
    most = _MOST_LISTING if _LISTING.match(head) else MOST_BYTES
    data = _up_to(whole, most + 1)
    if len(data) > most:
        return _log(bundle, file, cast("IO[bytes]", _Rejoined(data, stream)))
    return _document(bundle, file, data) or _log(bundle, file, io.BytesIO(data))


def _archive(bundle: Bundle, file: str, whole: IO[bytes]) -> str:
    """A tar archive, such as a must-gather as it is sent: each file in it is evidence of its own."""
    # One that was cut off has told what came before the cut.
    with (
        contextlib.suppress(tarfile.TarError, EOFError, ValueError),
        tarfile.open(fileobj=whole, mode="r|") as archive,
    ):
        for number, member in enumerate(archive):
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                take(bundle, f"{file}/{printable(member.name, 400)}", content)
            if number >= _MOST_MEMBERS:
                break
    return "archive"


def _opened(head: bytes, whole: IO[bytes]) -> IO[bytes] | None:
    """The content of a compressed file, None where it is not one."""
    if head.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", _Unpacked(gzip.GzipFile(fileobj=whole)))
    if head.startswith(b"BZh"):
        return cast("IO[bytes]", _Unpacked(bz2.BZ2File(whole)))
    return cast("IO[bytes]", _Unpacked(lzma.LZMAFile(whole))) if head.startswith(b"\xfd7zXZ\0") else None


class _Unpacked:
    """What a compressed file holds, up to where it is damaged: a copy that was cut off still tells its beginning."""

    def __init__(self, stream: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self.stream = stream
        self.ended = False

    def read(self, size: int = -1) -> bytes:
        parts: list[bytes] = []
        left = size if size >= 0 else MOST_BYTES
        while left > 0 and not self.ended:
            try:
                part = self.stream.read1(left)
            except (EOFError, OSError, zlib.error, lzma.LZMAError):
                part = b""
            self.ended = not part
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


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
    if said or _LOG_LINE.search(beginning[:HEAD]):
        return "kubelet log"
    return "kubectl text" if attempts else UNKNOWN


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
