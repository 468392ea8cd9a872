"""`numaware whatif`: where on a cluster pods would go, what every node says, and why not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from numaware.cli.explain_view import lines, paragraph
from numaware.cli.lab_input import KubeletPolicy, KubeletScope, load_cluster
from numaware.diagnose.explanation import explain, to_builtins
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line
from numaware.machine.words import count as counted
from numaware.machine.words import printable
from numaware.schedule.ledger import Placement
from numaware.simulate.traces import renamed
from numaware.simulate.whatif import Answer, Destiny, Trial, WhatIf
from numaware.workload import manifest
from numaware.workload.manifest import Workload
from numaware.workload.pod import Pod

app = App(name="whatif", usage="Usage: numaware whatif CLUSTER FILE [OPTIONS]")

_MOST_BYTES = 16 << 20
_MOST_PODS = 100_000
_MOST_NAMES = 5
_WIDEST = 120


@app.default
def whatif(
    cluster: Annotated[str, Parameter(name="CLUSTER", help="A cluster file, or openb:NODES.csv.")],
    file: Annotated[Path, Parameter(name="FILE", help="A Pod, or anything with a pod template.")],
    /,
    *,
    count: Annotated[
        int | None, Parameter(help="How many pods to try, instead of what the file says.")
    ] = None,
    explain_on: Annotated[
        tuple[str, ...],
        Parameter(name="--explain", negative="", help="Explain one node's answer in full; repeatable."),
    ] = (),
    kubelet_policy: Annotated[
        KubeletPolicy | None,
        Parameter(show_default=False, help="Topology policy of openb: clusters; restricted if not given."),
    ] = None,
    scope: Annotated[
        KubeletScope | None,
        Parameter(show_default=False, help="Topology scope of openb: clusters; container if not given."),
    ] = None,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", show_default=False, help="Write JSON, for programs.")
    ] = False,
) -> int:
    """Ask where pods would go on a cluster, before they are created.

    The pods that the cluster file brings (not those it generates) are placed
    first. Then every node answers: what the pod would get there, or why it
    cannot go there; and the pods are placed one after the other. Nothing is
    changed anywhere.

    Exit code: 0 every pod finds a node, 1 some do not, 2 bad input.

    For example:

      numaware whatif examples/vmstorage.yaml pod.yaml
      numaware whatif examples/eight-gpus.yaml train.yaml --count 20
      numaware whatif lab.yaml pod.yaml --explain node-7
    """
    if count is not None and not 1 <= count <= _MOST_PODS:
        raise InputError("--count", f"{count} is not from 1 to {_MOST_PODS}")
    place = load_cluster(cluster, kubelet_policy, scope)
    with file.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    workloads = manifest.read(data, str(file)).workloads
    trial = Trial(place.cluster, place.own)
    strange = [name for name in explain_on if name not in trial.cluster.by_name]
    if strange:
        raise InputError("--explain", f"the cluster has no node {printable(strange[0], 80)!r}")
    told = [(workload, trial.ask(_pods(workload, count))) for workload in workloads]
    if as_json:
        _write_json(trial, told, explain_on)
    else:
        _write_text(trial, told, explain_on)
    return int(any(destiny.node is None for _, found in told for destiny in found.destinies))


def _pods(workload: Workload, number: int | None) -> list[Pod]:
    wanted = number if number is not None else min(workload.replicas or 1, _MOST_PODS)
    if wanted == 1 and workload.kind == "Pod":
        return [workload.pod]
    return [renamed(workload.pod, f"{workload.pod.name}-{index}") for index in range(wanted)]


def _write_json(trial: Trial, told: Sequence[tuple[Workload, WhatIf]], names: Sequence[str]) -> None:
    document = {
        "waiting": [f"{pod.namespace}/{pod.name}" for pod in trial.waiting],
        "workloads": [
            {
                "kind": workload.kind,
                "namespace": workload.namespace,
                "name": workload.name,
                "pods": [
                    {
                        "name": destiny.pod.name,
                        "node": destiny.node,
                        "placement": _zones(destiny.placement),
                        "message": destiny.message,
                    }
                    for destiny in found.destinies
                ],
                "nodes": [
                    {
                        "node": answer.node,
                        "fits": answer.placement is not None,
                        "placement": _zones(answer.placement),
                        "reasons": list(answer.reasons),
                    }
                    for answer in found.answers
                ],
                "explanations": [
                    to_builtins(
                        explain(name, trial.cluster.by_name[name].node, workload.pod), workload.spec_path
                    )
                    for name in names
                ],
            }
            for workload, found in told
        ],
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def _zones(placement: Placement | None) -> Any:
    if placement is None:
        return None
    return [
        {"zone": f"node-{zone.numa}", "amount": dict(zone.amounts), "cpus": zone.cpus}
        for zone in placement.zones
    ]


def _write_text(trial: Trial, told: Sequence[tuple[Workload, WhatIf]], names: Sequence[str]) -> None:
    room = min(terminal.width_of(sys.stdout), _WIDEST)
    page: list[Line] = []
    for workload, found in told:
        page += [
            *([()] if page else []),
            *_summary(workload, found, room),
            (),
            *_by_answer(found.answers, room),
        ]
        for name in names:
            page += [(), *lines(explain(name, trial.cluster.by_name[name].node, workload.pod), room)]
    if trial.waiting:
        first = f"{trial.waiting[0].namespace}/{trial.waiting[0].name}"
        told_too = f"note: {counted(len(trial.waiting), 'pod')} of the cluster file found no place, the first of them {first}"
        page += [(), *paragraph(told_too, room, hang=2, style="quiet")]
    terminal.write(page, sys.stdout)


def _summary(workload: Workload, found: WhatIf, room: int) -> Iterator[Line]:
    placed = [destiny for destiny in found.destinies if destiny.node is not None]
    whose = f"{workload.kind} {workload.namespace}/{workload.name}"
    told = f"{whose}: {len(placed)} of {counted(len(found.destinies), 'pod')} would find a node"
    yield from paragraph(told, room, style="bold" if len(placed) == len(found.destinies) else "warning")
    for destiny in found.destinies[:_MOST_NAMES]:
        if destiny.node is not None:
            yield from paragraph(
                f"{destiny.pod.name} → {destiny.node}{_where(destiny)}", room, indent=2, hang=2
            )
    if len(placed) > _MOST_NAMES:
        yield from paragraph(f"and {len(placed) - _MOST_NAMES} more", room, indent=2)
    refused = next((destiny for destiny in found.destinies if destiny.node is None), None)
    if refused is not None:
        yield from paragraph(f"{refused.pod.name}: {refused.message}", room, indent=2, hang=2)


def _where(destiny: Destiny) -> str:
    zones = destiny.placement.zones if destiny.placement else ()
    parts = [f"NUMA {zone.numa}{f' (CPUs {zone.cpus})' if zone.cpus else ''}" for zone in zones]
    return f", on {' and '.join(parts)}" if parts else ""


def _by_answer(answers: Sequence[Answer], room: int) -> Iterator[Line]:
    """Nodes that say the same, together."""
    groups: dict[str, list[str]] = {}
    for answer in answers:
        said = "would take it" if answer.placement is not None else "; ".join(answer.reasons)
        groups.setdefault(said, []).append(answer.node)
    for said, nodes in sorted(
        groups.items(), key=lambda item: (item[0] != "would take it", -len(item[1]), item[0])
    ):
        more = f", and {len(nodes) - _MOST_NAMES} more" if len(nodes) > _MOST_NAMES else ""
        yield from paragraph(f"{counted(len(nodes), 'node')}: {said}", room, hang=2)
        yield from paragraph(f"{', '.join(nodes[:_MOST_NAMES])}{more}", room, indent=2, style="quiet")
