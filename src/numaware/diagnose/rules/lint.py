"""Manifests and kubelet configurations before they are applied: all that is wrong with a file.

`numaware lint`, `diagnose`, the doctor and the console hand their files to `lint`. A file may hold several documents, of
both kinds; each goes to the rules of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.finding import Finding, Subject, finding, worst_first
from numaware.diagnose.rules.config_check import ConfigCheck
from numaware.diagnose.rules.device_claims import claim_findings, has_claims
from numaware.diagnose.rules.device_plugin import plugin_findings
from numaware.diagnose.rules.kubelet_config import kubelet_findings
from numaware.diagnose.rules.manifests import pod_findings, problem_findings
from numaware.diagnose.rules.node_kinds import NodeKind, fitting_findings
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.twin import flags as kubelet_flags
from numaware.twin import kubelet_config
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet_config import KubeletConfigFile
from numaware.workload import manifest
from numaware.workload.yamlfile import Node, documents

Kind = Literal[
    "manifest",
    "kubelet configuration",
    "manifest and kubelet configuration",
    "kubelet flags",
    "device plugin configuration",
    "other",
]

# Pieces in the wrong place told one by one.
_MOST_MISPLACED = 20
# The settings by which a file is known to be meant for a kubelet, whatever it is.
_TELLING = (
    "cpuManagerPolicy",
    "cpuManagerPolicyOptions",
    "memoryManagerPolicy",
    "reservedMemory",
    "reservedSystemCPUs",
    "topologyManagerPolicy",
    "topologyManagerPolicyOptions",
    "topologyManagerScope",
)
# What manuals write into their examples: <1> after a value, explained below, and three dots for what they leave out.
_MARK = re.compile(r"[ \t](?:<[0-9]{1,2}>[ \t]*)+\Z|[ \t]+(?:\.\.\.|\N{HORIZONTAL ELLIPSIS})[ \t]*\Z")
_FLAG = re.compile(
    rb"--(?:(?:cpu|memory|topology)-manager-(?:policy|scope)|reserved-(?:cpus|memory)|(?:kube|system)-reserved)[=\s-]"
)


class World(NamedTuple):
    """What is known besides the file: the kubelet's version, its machine, the kinds of nodes of a cluster.

    `cpu_policies` are those of the kubelets whose configurations are given with it.
    """

    version: str = DEFAULT_VERSION
    hardware: Hardware | None = None
    cluster: str = ""
    nodes: tuple[NodeKind, ...] = ()
    cpu_policies: frozenset[str] = frozenset()


FILE_ALONE = World()


class Linted(NamedTuple):
    """What a file is, and what was found in it, the worst first."""

    kind: Kind
    findings: list[Finding]
    config: KubeletConfigFile | None = None


def lint(data: bytes, source: str, world: World = FILE_ALONE) -> Linted:
    """A file of either kind; `InputError` where its text cannot be read at all."""
    data, marks = _without_marks(data, source)
    try:
        parsed = documents(data, source)
    except InputError:
        if not _FLAG.search(data):
            raise
        parsed = []
    if _FLAG.search(data) and not any(node.mapping for node in parsed):
        return Linted("kubelet flags", findings_of_kubelet_flags(data, source, world))
    source_text = SourceText(data, source)
    pods = manifest.scan_documents(parsed, source)
    config, about = _config_findings(parsed, source_text, world)
    has_config = config is not None or bool(about)
    findings = [*marks, *about]
    has_pods = bool(pods.workloads or pods.problems)
    if has_pods:
        findings += _pod_findings(pods, source_text, world)
    policies = world.cpu_policies | ({config.config.cpu_policy} if config else frozenset())
    plugins = plugin_findings(parsed, source_text, policies)
    findings += plugins or ()
    findings += claim_findings(parsed, pods, source_text, policies)
    if not has_config and not has_pods:
        findings += islice(_misplaced(parsed, source_text), _MOST_MISPLACED)
    kind: Kind = "other"
    if has_config:
        kind = "manifest and kubelet configuration" if has_pods else "kubelet configuration"
    elif has_pods or has_claims(parsed, source):
        kind = "manifest"
    elif plugins is not None:
        kind = "device plugin configuration"
    return Linted(kind, worst_first(findings), config)


def findings_of_kubelet_flags(data: bytes, source: str, world: World = FILE_ALONE) -> list[Finding]:
    """All about the kubelet's flags in a text: kubelet.env, a systemd unit, a command line."""
    source_text = SourceText(data, source)
    subject = Subject("Kubelet", name=source)
    try:
        settings = kubelet_flags.read(data.decode(errors="replace"), source)
    except InputError as error:
        return [_refused(subject, source_text, error)]
    file = kubelet_config.of_settings(settings, world.version)
    # Flags are laid over a file that may say the rest.
    file = msgspec.structs.replace(file, laid_over=True)
    return worst_first(kubelet_findings(ConfigCheck(file, source_text, subject, world.hardware)))


# Kubelet configurations


def _config_findings(
    parsed: list[Node], source_text: SourceText, world: World
) -> tuple[KubeletConfigFile | None, list[Finding]]:
    """The configuration, unless the kubelet cannot even decode it, and what is wrong with it; neither if there is none."""
    source = source_text.file
    names = [node.get("metadata", "name").text or "" for node in parsed]
    subject = Subject("KubeletConfiguration", name=printable(next(filter(None, names), source), 160))
    try:
        file = kubelet_config.of_documents(parsed, source, world.version)
    except kubelet_config.NoConfigurationError:
        return None, []
    except InputError as error:
        return None, [_refused(subject, source_text, error)]
    return file, kubelet_findings(ConfigCheck(file, source_text, subject, world.hardware))


def _refused(subject: Subject, source_text: SourceText, error: InputError) -> Finding:
    """A value that the kubelet's decoder does not take, at the line that the error names."""
    line = error.line
    text = source_text.lines[line - 1].strip() if 0 < line <= len(source_text.lines) else ""
    field = text.partition(":")[0].strip("\"'- ")
    facts = {
        "path": printable(field, 80) or error.source,
        "message": printable(str(error.problem), 600),
        "fix": printable(str(error.hint), 200) or None,
    }
    evidence = [source_text.at(line)] if line else [source_text.whole()]
    return finding("kubelet-configuration-invalid", subject, facts, evidence)


def _misplaced(parsed: list[Node], source_text: SourceText) -> Iterator[Finding]:
    """Settings of the managers in a file that no kubelet reads."""
    for node in parsed:
        if node.get("kind").value is not None or node.get("apiVersion").value is not None:
            continue
        for key, child in node.mapping.items():
            settings = [name for name in child.mapping if name in _TELLING]
            if settings:
                values = {name: child.get(name) for name in settings}
                facts = {
                    "file": source_text.file,
                    "under": printable(key, 80),
                    "settings": settings,
                    "yaml": "\n".join(
                        f"{name}: {printable(value.text, 80)}" for name, value in values.items() if value.text
                    ),
                }
                evidence = [source_text.field(key, name) for name in settings]
                yield finding(
                    "not-a-kubelet-configuration", Subject("File", name=source_text.file), facts, evidence
                )


def _without_marks(data: bytes, source: str) -> tuple[bytes, list[Finding]]:
    """A file without marks of a manual, which are no part of it, and a finding if there were any."""
    if not any(name.encode() in data for name in (*_TELLING, "kubeletConfig", "containers")):
        return data, []
    source_text = SourceText(data, source)
    marks = {number: line.split()[-1] for number, line in enumerate(source_text.lines, 1) if _is_marked(line)}
    if not marks:
        return data, []
    evidence = [source_text.at(line, mark) for line, mark in islice(marks.items(), 8)]
    facts = {"lines": list(marks)[:100], "marks": sorted({mark[:40] for mark in marks.values()})[:5]}
    lines = (_MARK.sub("", line) if _is_marked(line) else line for line in source_text.lines)
    subject = Subject("File", name=source)
    return "\n".join(lines).encode(), [finding("marks-of-a-manual", subject, facts, evidence)]


def _is_marked(line: str) -> bool:
    text = line.rstrip()
    if text.endswith(">"):
        return _MARK.search(line) is not None
    return text != line.strip() and text.strip() in ("...", "\N{HORIZONTAL ELLIPSIS}")


# Manifests


def _pod_findings(pods: manifest.Manifest, source_text: SourceText, world: World) -> list[Finding]:
    findings = [*problem_findings(pods.problems, source_text)]
    for workload in pods.workloads:
        findings += pod_findings(workload, source_text)
        if world.nodes:
            findings += fitting_findings(workload, source_text, world.cluster, world.nodes)
    return findings
