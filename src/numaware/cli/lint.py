"""`numaware lint`: manifests and kubelet configurations, checked before they are applied."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from numaware.cli.file_input import read_file, source_of
from numaware.cli.machine_input import check_version, existing, named_machine
from numaware.cli.options import dashed, flag, option, optional
from numaware.cli.output import complain
from numaware.diagnose.finding import Finding, Message, worst_first
from numaware.diagnose.render import github, sarif
from numaware.diagnose.render import json as as_json
from numaware.diagnose.render import text as as_text
from numaware.diagnose.rules.lint import World, lint
from numaware.diagnose.rules.node_kinds import kinds_of
from numaware.diagnose.texts import Lang, label
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line, Span
from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.errors import StartError
from numaware.twin.hardware import Hardware
from numaware.twin.inventory import hardware_of
from numaware.twin.kubelet_config import KubeletConfigFile
from numaware.twin.node import Node
from numaware.workload.yamlfile import MAX_BYTES

app = App(name="lint", usage="Usage: numaware lint FILE... [OPTIONS]")

Form = Literal["text", "json", "sarif", "github"]

_ENDINGS = (".yaml", ".yml", ".json")
_MOST_FILES = 10_000

# What tells of a device plugin with NVIDIA's flags, or of a driver that hands out CPUs.
_BESIDE_CPUS = re.compile(
    rb"passDeviceSpecs|migStrategy|compatWithCPUManager|k8s-device-plugin|dra\.cpu|dra-driver-cpu"
)

# What a file is called in messages, and its bytes.
_Given = tuple[str, bytes]


@app.default
def lint_files(
    files: Annotated[
        list[str],
        dashed(
            "Manifests and kubelet configurations; a folder is all YAML and JSON below it; - is stdin.",
            "FILE",
        ),
    ],
    /,
    *,
    against: Annotated[
        str,
        optional(
            "A cluster file of the lab, or openb:LIST.csv: prove that some kind of its nodes can admit the pods."
        ),
    ] = "",
    machine: Annotated[
        str,
        optional(
            "The machine that the kubelet configurations are for: a capture, topology JSON or a short form."
        ),
    ] = "",
    kubelet_version: Annotated[
        str, option("The version of the kubelets, such as v1.27.3.")
    ] = DEFAULT_VERSION,
    form: Annotated[
        Form, Parameter(name="--format", help="text, json, sarif or github (annotations).")
    ] = "text",
    json: Annotated[bool, flag("The same as --format json.")] = False,
    lang: Annotated[Lang, option("The language of the findings: en or zh.")] = "en",
) -> int:
    """Check manifests and kubelet configurations before they are applied.

    Manifests: anything with pods in it, Volcano jobs too. Will its containers
    be pinned (whole CPUs, requests equal to limits)? Does an init container
    take more than the app? Will the API server take it at all?

    Kubelet configurations: a KubeletConfiguration, a piece of one, or one
    inside OpenShift's KubeletConfig, PerformanceProfile or MachineConfig, a
    kind cluster, kubeadm's files or a ConfigMap. Will the kubelet start
    (reservations, sums of reservedMemory, options, gates), and do the
    settings do what they seem to?

    Device plugins with NVIDIA's flags: does passDeviceSpecs fit the CPU manager
    of the kubelet configuration that is given with them?

    Claims of devices (DRA): what keeps several devices on one NUMA node, which
    pods lose the kubelet's alignment by them, and is there a driver of CPUs
    beside the static CPU manager?

    With --against, each pod is tried on an empty node of every kind that the
    cluster has: what all of them refuse can never run there (never-fits).
    With --machine, the kubelet is started on that machine, and the pods are
    tried on it with the configurations given beside them.

    Exit code: 0 no errors (there may be warnings), 1 errors, 2 bad input.

    For example:

      numaware lint deploy/*.yaml kubelet-config.yaml
      numaware lint job.yaml --against cluster.yaml
      numaware lint kubelet.yaml pod.yaml --machine '2s x 1n x 16c x 2t +gpu@0,1'
      numaware lint k8s/ --format sarif > numaware.sarif
      numaware lint k8s/ --format github      # in a GitHub workflow
    """
    world = _world(against, machine, kubelet_version)
    given, complaints = _read_all(files)
    world = _with_cpu_policies(_with_configured_nodes(world, given), given)
    findings: list[Finding] = []
    kinds: list[tuple[str, str]] = []
    for source, data in given:
        try:
            linted = lint(data, source, world)
        except InputError as error:
            complaints.append(str(error))
            continue
        findings += linted.findings
        kinds.append((source, linted.kind))
    findings = worst_first(findings)
    _write(findings, kinds, "json" if json else form, lang)
    if machine and existing(machine) is None and synthetic.assumes_memory(machine):
        # Not in the answer, which programs read too.
        size = synthetic.ASSUMED_MEMORY >> 30
        sys.stderr.write(
            f"--machine: each NUMA node is assumed to have {size} GiB of memory (mem= says how much)\n"
        )
    for complaint in complaints:
        complain(complaint)
    return 2 if complaints else int(any(one.severity == "error" for one in findings))


# What is known besides the files


def _world(against: str, machine: str, version: str) -> World:
    check_version("--kubelet-version", version)
    world = World(version=version)
    if machine:
        world = world._replace(hardware=_hardware(machine))
    if against:
        # Only who asks about a cluster pays for the lab.
        from numaware.cli.lab_input import load_cluster  # noqa: PLC0415
        from numaware.simulate.clusters import twin_of  # noqa: PLC0415

        cluster = load_cluster(against, None, None).cluster
        nodes = [(spec.name, twin_of(spec)[1]) for spec in cluster.nodes]
        world = world._replace(cluster=against, nodes=kinds_of(nodes))
    return world


def _hardware(text: str) -> Hardware:
    try:
        return hardware_of(named_machine(text))
    except ValueError as error:
        raise InputError(f"--machine {printable(text, 80)}", printable(str(error), 300)) from None


def _with_configured_nodes(world: World, given: Sequence[_Given]) -> World:
    """The machine under each of the configurations given is one more kind of node."""
    if world.hardware is None:
        return world
    nodes = [
        (source, node)
        for source, config in _configured(world, given)
        if (node := _started(world.hardware, config))
    ]
    return world._replace(nodes=(*world.nodes, *kinds_of(nodes)))


def _with_cpu_policies(world: World, given: Sequence[_Given]) -> World:
    """Which CPU managers a device plugin or driver that is given beside kubelet configurations will meet; asked only if there is one."""
    if len(given) < 2 or not any(_BESIDE_CPUS.search(data) for _, data in given):
        return world
    policies = frozenset(config.config.cpu_policy for _, config in _configured(world, given))
    return world._replace(cpu_policies=policies)


def _configured(world: World, given: Sequence[_Given]) -> Iterator[tuple[str, KubeletConfigFile]]:
    """The kubelet configurations among the files, by where they are from."""
    for source, data in given:
        try:
            config = lint(data, source, world).config
        except InputError:
            continue
        if config is not None:
            yield source, config


def _started(hardware: Hardware, config: KubeletConfigFile) -> Node | None:
    try:
        return None if config.refused else Node.fresh(hardware, config.config)
    except (StartError, ValueError):
        return None


# Files


def _read_all(names: Sequence[str]) -> tuple[list[_Given], list[str]]:
    given, complaints = [], []
    for name in dict.fromkeys(names):
        try:
            given += list(_read(name))
        except OSError as error:
            complaints.append(f"{name}: {error.strerror or error}")
        except InputError as error:
            complaints.append(str(error))
    return given, complaints


def _read(name: str) -> Iterator[_Given]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        yield source_of(name), read_file(name, MAX_BYTES)
        return
    entries = sorted(entry for entry in path.rglob("*") if entry.suffix in _ENDINGS and entry.is_file())
    if not entries:
        raise InputError(name, "holds no YAML or JSON file")
    if len(entries) > _MOST_FILES:
        raise InputError(name, f"holds more than {_MOST_FILES} files")
    for entry in entries:
        yield str(entry), read_file(entry, MAX_BYTES)


# The answer


def _write(findings: Sequence[Finding], kinds: Sequence[tuple[str, str]], form: Form, lang: Lang) -> None:
    match form:
        case "json":
            sys.stdout.write(as_json.render(findings, kinds, lang).decode())
        case "sarif":
            sys.stdout.write(sarif.render(findings, lang).decode())
        case "github":
            sys.stdout.writelines(f"{line}\n" for line in github.render(findings, lang))
        case "text":
            terminal.write(list(_page(findings, len(kinds), lang)), sys.stdout)


def _page(findings: Sequence[Finding], files: int, lang: Lang) -> Iterator[Line]:
    """Errors and warnings in full, remarks as one line each, and the count."""
    room = terminal.reading_width(sys.stdout)
    yield from as_text.body(findings, room, lang, lambda one: one.code)
    counts = {
        "files": files,
        "errors": sum(one.severity == "error" for one in findings),
        "warnings": sum(one.severity == "warning" for one in findings),
    }
    yield (Span(label(Message("diagnosed", counts), lang), "bold"),)
