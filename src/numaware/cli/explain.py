"""`numaware explain`: what the kubelet of a node will do with a pod, why, and what would change its mind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from numaware.cli.explain_view import lines
from numaware.cli.node_input import LoadedNode, Options, load_node
from numaware.diagnose.explanation import Explanation, explain, to_builtins
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line, Span
from numaware.twin.config import DEFAULT_VERSION
from numaware.workload import manifest
from numaware.workload.manifest import Workload

app = App(name="explain", usage="Usage: numaware explain POD.yaml --node NODE [OPTIONS]")

_MOST_BYTES = 16 << 20


@app.default
def explain_pods(
    file: Annotated[
        str,
        Parameter(
            name="POD.yaml",
            allow_leading_hyphen=True,
            help="A Pod, or anything with a pod template; - is stdin.",
        ),
    ],
    /,
    *,
    node: Annotated[
        tuple[str, ...],
        Parameter(
            name="--node",
            negative="",
            help="A node's folder, a machine (folder, archive or JSON), / for this one, or a short form; repeatable.",
        ),
    ],
    kubelet_config: Annotated[
        Path | None, Parameter(help="The kubelet's configuration, for nodes that do not bring one.")
    ] = None,
    kubelet_flags: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            show_default=False,
            help="Kubelet flags in one string; they win over the file.",
        ),
    ] = "",
    kubelet_version: Annotated[str, Parameter(help="The kubelet's version.")] = DEFAULT_VERSION,
    state: Annotated[
        tuple[Path, ...],
        Parameter(
            negative="", show_default=False, help="State files, or the folder they are in; repeatable."
        ),
    ] = (),
    devices: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="RESOURCE=NODE,NODE,...: one device per NUMA node listed, - for none; repeatable.",
        ),
    ] = (),
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", show_default=False, help="Write JSON, for programs.")
    ] = False,
) -> int:
    """Ask what the kubelet of a node will do with a pod, before it is bound there.

    The verdict comes first; then where each container's CPUs, memory and
    devices would go, or why they cannot, and which single changes would
    admit the pod, each one tried.

    A node's folder holds what you have of it: a capture (numaware topology
    capture) or topology.json, kubelet-config.yaml, and the state files
    cpu_manager_state, memory_manager_state, kubelet_internal_checkpoint.
    On the node itself, --node / finds all of them in their places.

    Exit code: 0 every pod is admitted by some node, 1 some pod by none,
    2 bad input.

    For example:

      numaware explain pod.yaml --node /
      numaware explain pod.yaml --node nodes/gpu-07 --node nodes/gpu-08
      numaware explain job.yaml --node '2x16 +gpu@0,1' --kubelet-config kubelet.yaml
    """
    options = Options(kubelet_config, kubelet_flags, state, devices, kubelet_version)
    source = "standard input" if file == "-" else file
    found = manifest.read(_read(file), source)
    nodes = [load_node(text, options) for text in node]
    answers = [
        (workload, [explain(loaded.name, loaded.node, workload.pod) for loaded in nodes])
        for workload in found.workloads
    ]
    if as_json:
        _write_json(answers, nodes)
    else:
        _write_text(answers, nodes)
    return int(not all(any(one.admitted for one in explanations) for _, explanations in answers))


def _read(file: str) -> bytes:
    if file == "-":
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        with Path(file).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InputError(file, f"larger than {_MOST_BYTES >> 20} MiB, which no manifest is")
    return data


def _write_json(answers: list[tuple[Workload, list[Explanation]]], nodes: list[LoadedNode]) -> None:
    pods: list[dict[str, Any]] = [
        to_builtins(one, workload.spec_path) for workload, explanations in answers for one in explanations
    ]
    document = {"pods": pods, "notes": [note for loaded in nodes for note in loaded.notes]}
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def _write_text(answers: list[tuple[Workload, list[Explanation]]], nodes: list[LoadedNode]) -> None:
    room = min(terminal.width_of(sys.stdout), 120)
    page: list[Line] = []
    for workload, explanations in answers:
        if len(explanations) > 1:
            admitting = [one.name for one in explanations if one.admitted]
            told = f"{workload.namespace}/{workload.pod.name}: {len(admitting)} of {len(explanations)} nodes would admit it"
            page += [
                *([()] if page else []),
                (Span(told + (f": {', '.join(admitting)}" if admitting else ""), "bold"),),
            ]
        for one in explanations:
            page += [*([()] if page else []), *lines(one, room)]
    for loaded in nodes:
        page += [(Span(f"note: {loaded.name}: {note}", "quiet"),) for note in loaded.notes]
    terminal.write(page, sys.stdout)
