"""`numaware whatif`: where on a cluster pods would go, what every node says, and why not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from numaware.cli.explain_view import (
    by_reasons,
    grouped,
    lines,
    lying,
    note,
    paragraph,
    phrase,
    picture,
)
from numaware.cli.file_input import read_file, source_of
from numaware.cli.lab_input import (
    LIVE,
    ClusterName,
    KubeletPolicy,
    KubeletScope,
    Policy,
    Scope,
    load_cluster,
    load_live,
)
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, Language
from numaware.cli.machine_input import existing
from numaware.cli.options import AsJson
from numaware.cli.output import write_json
from numaware.cli.profile_input import ProfileName, load_profile
from numaware.diagnose.explain.explanation import to_builtins
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, say
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line
from numaware.machine.words import printable
from numaware.schedule.ledger import Placement
from numaware.schedule.profile import Profile
from numaware.schedule.trial_policies import TrialPolicies
from numaware.schedule.tried_changes import explained_by
from numaware.sentence import Sentence, sentence_of
from numaware.simulate.pod_churn import pod_of
from numaware.simulate.traces import renamed
from numaware.simulate.whatif import Destiny, Trial, WhatIf
from numaware.workload import manifest
from numaware.workload.manifest import Workload
from numaware.workload.pod import Pod
from numaware.workload.yamlfile import MAX_BYTES

app = App(name="whatif", usage="Usage: numaware whatif CLUSTER FILE [OPTIONS]")

_MOST_PODS = 100_000
_MOST_NAMES = 5


@app.default
def whatif(
    cluster: ClusterName,
    file: Annotated[
        str,
        Parameter(
            name="FILE",
            allow_leading_hyphen=True,
            help="A Pod, or anything with a pod template; - is stdin. Or amounts: cpu=8,memory=16Gi.",
        ),
    ],
    /,
    *,
    count: Annotated[
        int | None, Parameter(help="How many pods to try, instead of what the file says.")
    ] = None,
    explain_on: Annotated[
        tuple[str, ...],
        Parameter(name="--explain", negative="", help="Explain one node's answer in full; repeatable."),
    ] = (),
    kubelet_policy: Policy = None,
    scope: Scope = None,
    profile: ProfileName = None,
    live: ClusterOptions = USUAL_CLUSTER,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """Ask where pods would go on a cluster, before they are created.

    The pods that the cluster file brings (not those it generates) are placed
    first. Then every node answers: what the pod would get there, or why it
    cannot go there; and the pods are placed one after the other. Nothing is
    changed anywhere. With live: it is a cluster that runs, read once, with
    the pods that are on it.

    Exit code: 0 every pod finds a node, 1 some do not, 2 bad input.

    For example:

      numaware whatif examples/vmstorage.yaml pod.yaml
      numaware whatif examples/eight-gpus.yaml train.yaml --count 20
      numaware whatif lab.yaml pod.yaml --explain node-7
      numaware whatif live: cpu=24,memory=96Gi,nvidia.com/gpu=2 --kubelet-policy restricted
    """
    if count is not None and not 1 <= count <= _MOST_PODS:
        raise InputError("--count", f"{count} is not from 1 to {_MOST_PODS}")
    workloads = _workloads(file)
    trial, notes = _trial(cluster, (kubelet_policy, scope), load_profile(profile), live, workloads)
    strange = [name for name in explain_on if name not in trial.cluster.by_name]
    if strange:
        raise InputError("--explain", f"the cluster has no node {printable(strange[0], 80)!r}")
    answers = [(workload, trial.ask(_pods(workload, count))) for workload in workloads]
    if as_json:
        _write_json(trial, answers, explain_on, notes, lang)
    else:
        _write_text(trial, answers, explain_on, notes, lang)
    return int(any(destiny.node is None for _, answer in answers for destiny in answer.destinies))


def _workloads(file: str) -> Sequence[Workload]:
    """What is in the file, or a pod of the amounts that stand in its place."""
    if "=" not in file or existing(file) is not None:
        return manifest.read(read_file(file, MAX_BYTES), source_of(file)).workloads
    amounts = dict(part.partition("=")[::2] for part in file.split(","))
    try:
        pod = pod_of("default/pod", "pod", amounts)
    except ValueError as error:
        raise InputError(printable(file, 200), sentence_of(error)) from None
    return (Workload("Pod", "pod", "default", pod, 1, "", None, 0, "spec", ()),)


def _trial(
    name: str,
    kubelets: tuple[KubeletPolicy | None, KubeletScope | None],
    profile: Profile,
    live: ClusterOptions,
    workloads: Sequence[Workload],
) -> tuple[Trial, Sequence[Sentence]]:
    """The cluster to ask, and what was assumed of it that matters to the pods."""
    if name != LIVE:
        place = load_cluster(name, *kubelets)
        return Trial.of(place.cluster, place.own, profile), place.notes(one.pod for one in workloads)
    trial = Trial(load_live(live), profile)
    if any(kubelets):
        trial.try_policies(TrialPolicies(*kubelets))
    return trial, ()


def _pods(workload: Workload, number: int | None) -> list[Pod]:
    wanted = number if number is not None else min(workload.replicas or 1, _MOST_PODS)
    if wanted == 1 and workload.kind == "Pod":
        return [workload.pod]
    return [renamed(workload.pod, f"{workload.pod.name}-{index}") for index in range(wanted)]


def _write_json(
    trial: Trial,
    answers: Sequence[tuple[Workload, WhatIf]],
    names: Sequence[str],
    notes: Sequence[Sentence],
    lang: Lang,
) -> None:
    document = {
        "notes": [say(one, lang) for one in notes],
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
                        "aligned": destiny.aligned,
                        "message": say(destiny.message, lang),
                    }
                    for destiny in answer.destinies
                ],
                "nodes": [
                    {
                        "node": on_node.node,
                        "fits": on_node.placement is not None,
                        "placement": _zones(on_node.placement),
                        "aligned": on_node.aligned,
                        "reasons": [say(reason, lang) for reason in on_node.reasons],
                    }
                    for on_node in answer.answers
                ],
                "explanations": [
                    to_builtins(
                        explained_by(trial.engine, name, workload.pod),
                        workload.spec_path,
                        lang,
                    )
                    for name in names
                ],
            }
            for workload, answer in answers
        ],
    }
    write_json(document, indent=2)


def _zones(placement: Placement | None) -> Any:
    if placement is None:
        return None
    return [
        {"zone": f"node-{zone.numa}", "amount": dict(zone.amounts), "cpus": zone.cpus}
        for zone in placement.zones
    ]


def _write_text(
    trial: Trial,
    answers: Sequence[tuple[Workload, WhatIf]],
    names: Sequence[str],
    notes: Sequence[Sentence],
    lang: Lang,
) -> None:
    room = terminal.reading_width(sys.stdout)
    page: list[Line] = []
    for workload, answer in answers:
        page += [
            *([()] if page else []),
            *_summary(trial, workload, answer, room, lang),
            (),
            *grouped(
                by_reasons((one.node, one.reasons) for one in answer.answers),
                room,
                lang,
                {one.node: one.aligned for one in answer.answers},
            ),
        ]
        for name in names:
            page += [(), *lines(explained_by(trial.engine, name, workload.pod), room, lang)]
    if trial.waiting:
        first = f"{trial.waiting[0].namespace}/{trial.waiting[0].name}"
        waiting = Message("whatif-waiting", {"count": len(trial.waiting), "first": first})
        page += [(), *note(waiting, room, lang)]
    for one in notes:
        page += [(), *note(one, room, lang)]
    terminal.write(page, sys.stdout)


def _summary(trial: Trial, workload: Workload, answer: WhatIf, room: int, lang: Lang) -> Iterator[Line]:
    placed = [destiny for destiny in answer.destinies if destiny.node is not None]
    summary = phrase(
        "whatif-summary",
        lang,
        kind=workload.kind,
        name=f"{workload.namespace}/{workload.name}",
        placed=len(placed),
        pods=len(answer.destinies),
    )
    yield from paragraph(summary, room, style="bold" if len(placed) == len(answer.destinies) else "warning")
    for destiny in answer.destinies[:_MOST_NAMES]:
        if destiny.node is not None:
            facts = {**lying(destiny.aligned, lang), **_where(destiny)}
            goes = phrase("whatif-goes", lang, pod=destiny.pod.name, node=destiny.node, **facts)
            yield from paragraph(goes, room, indent=2, hang=2)
    if len(placed) > _MOST_NAMES:
        yield from paragraph(phrase("whatif-more", lang, count=len(placed) - _MOST_NAMES), room, indent=2)
    if placed and placed[0].node:
        # Nothing stays of what was tried, so the first pod finds its node as it is.
        before = trial.cluster.by_name[placed[0].node].node
        yield from picture(before, before.admit(placed[0].pod).node, room, lang)
    refused = next((destiny for destiny in answer.destinies if destiny.node is None), None)
    if refused is not None:
        none = phrase("whatif-none", lang, pod=refused.pod.name, message=refused.message)
        yield from paragraph(none, room, indent=2, hang=2)


def _where(destiny: Destiny) -> dict[str, Any]:
    zones = destiny.placement.zones if destiny.placement else ()
    return {"zones": [{"numa": zone.numa, "cpus": zone.cpus} for zone in zones]} if zones else {}
