"""`numaware why-pending`: why a pod of a live cluster has no node, node by node, and what would give it one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from numaware.cli.explain_view import by_reasons, grouped, paragraph, phrase
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, Language, find_pod, look_at
from numaware.cli.options import AsJson
from numaware.cli.output import write_json
from numaware.diagnose.evidence import fit_error
from numaware.diagnose.finding import Finding, Message, Subject, finding
from numaware.diagnose.reason import Reason
from numaware.diagnose.render.json import to_builtins
from numaware.diagnose.texts import Lang, Words, finding_text, say
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line
from numaware.machine.words import printable
from numaware.workload.dra.known import Ask
from numaware.workload.scheduling import VOLCANO_POLICY

if TYPE_CHECKING:
    from numaware.kube.pods import LivePod

app = App(name="why-pending", usage="Usage: numaware why-pending NAMESPACE/NAME [OPTIONS]")


@app.default
def why_pending(
    pod: Annotated[str, Parameter(name="POD", help="NAMESPACE/NAME; a name alone is in default.")],
    /,
    *,
    cluster: ClusterOptions = USUAL_CLUSTER,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """Say why a pod waits: what every node says to it, and which one misses it by how much.

    The cluster is read once and every node's twin is asked; whoever schedules
    the pod, the answer is what the kubelets would say. A pod that some node
    would take waits for its scheduler, not for room. Of a pod of Volcano's it
    is also told what is wrong there: parts that are missing, or the numa-aware
    plugin that is off.

    Exit code: 0 it has a node or some node would take it, 1 no node would,
    2 bad input.

    For example:

      numaware why-pending ml/trainer-0
      kubectl numa why-pending ml/trainer-0
    """
    cache, _ = look_at(cluster)
    live = find_pod(cache, pod)
    if live.node:
        where = {"pod": live.full_name, "node": live.node}
        placed = phrase("pending-placed", lang, **where)
        if as_json:
            write_json({**where, "message": placed})
        else:
            sys.stdout.write(f"{placed}\n")
        return 0
    from numaware.schedule.message import nearest_miss, refusal  # noqa: PLC0415 - needed only now
    from numaware.schedule.parts_by_dra import asks_on  # noqa: PLC0415 - as above

    engine = cache.engine
    decision = engine.decide(live.pod)
    by_dra = [_what(ask) for ask in asks_on(engine.cluster, live.pod, engine.cluster.by_name)]
    groups = by_reasons(
        (member.name, answer.reasons)
        for member, answer in zip(engine.cluster, engine.ask(live.pod, but_for_dra=bool(by_dra)), strict=True)
    )
    message = (
        Message(
            "pending-taken",
            {
                "pod": live.full_name,
                "count": len(groups.get((), ())),
                "node": decision.node,
                "scheduler": live.scheduler,
            },
        )
        if decision.node is not None
        else refusal(decision, len(engine.cluster), nearest_miss(engine, live.pod))
    )
    of_volcano = _volcano(live, cluster)
    about_dra = Message("pending-dra", {"what": by_dra, "count": len(groups.get((), ()))}) if by_dra else None
    if as_json:
        write_json(
            {
                "pod": live.full_name,
                "node": None,
                "wouldGoTo": decision.node,
                "message": say(message, lang),
                "dra": say(about_dra, lang) if about_dra else None,
                "said": live.scheduled.message if live.scheduled else "",
                "findings": [to_builtins(one, lang) for one in of_volcano],
                "nodes": [
                    {"reasons": [say(reason, lang) for reason in reasons], "nodes": names}
                    for reasons, names in sorted(groups.items())
                ],
            }
        )
    else:
        terminal.write(_page(live, message, about_dra, groups, of_volcano, lang), sys.stdout)
    return int(() not in groups if about_dra else decision.node is None)


def _what(ask: Ask) -> str:
    """What the pod has by DRA, as it calls it."""
    return printable(ask.name or ", ".join(ask.resources), 80)


def _volcano(live: LivePod, cluster: ClusterOptions) -> list[Finding]:
    """What is wrong with Volcano, where the pod is Volcano's; or that kube-scheduler does not know Volcano's annotation."""
    if live.scheduler == "volcano":
        from numaware.cli.cluster_view import look_at_volcano  # noqa: PLC0415 - few pods pay for it

        return look_at_volcano(cluster.kubeconfig, cluster.context)
    policy = live.pod.scheduling.annotation(VOLCANO_POLICY)
    if policy and live.scheduler == "default-scheduler":
        return [
            finding("numa-policy-unheeded", Subject("Pod", live.namespace, live.name), {"policy": policy})
        ]
    return []


def _page(
    live: LivePod,
    message: Words,
    about_dra: Message | None,
    groups: dict[tuple[Reason, ...], list[str]],
    of_volcano: list[Finding],
    lang: Lang,
) -> list[Line]:
    room = terminal.reading_width(sys.stdout)
    page: list[Line] = [*paragraph(say(message, lang), room, style="bold")]
    if about_dra is not None:
        page += paragraph(say(about_dra, lang), room, style="warning")
    said = live.scheduled.message if live.scheduled is not None else ""
    if said and said != say(message):
        quote = said if lang == "en" else fit_error.read(said) or said
        page += paragraph(phrase("pending-said", lang, message=quote), room, hang=2, style="quiet")
    for one in of_volcano:
        words = finding_text(one, lang)
        page += paragraph(f"[{one.code}] {words.title}", room, hang=2, style="warning")
        page += paragraph(f"  {words.fix[0]}", room, hang=4) if words.fix else []
    page += [(), *grouped(groups, room, lang), ()]
    page += paragraph(phrase("pending-see", lang, pod=live.full_name), room, style="quiet")
    return page
