"""`numaware why-pending`: why a pod of a live cluster has no node, node by node, and what would give it one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from numaware.cli.explain_view import grouped, lines, paragraph
from numaware.cli.live_input import Context, Kubeconfig, Language, look_at, split_name
from numaware.cli.options import AsJson
from numaware.diagnose.evidence import fit_error
from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import Lang, Words, label, say
from numaware.errors import InputError
from numaware.machine.drawing import terminal
from numaware.machine.drawing.lines import Line
from numaware.machine.words import printable

if TYPE_CHECKING:
    from numaware.kube.pods import LivePod
    from numaware.serve.cluster_cache import ClusterCache

app = App(name="why-pending", usage="Usage: numaware why-pending NAMESPACE/NAME [OPTIONS]")


@app.default
def why_pending(
    pod: Annotated[str, Parameter(name="POD", help="NAMESPACE/NAME; a name alone is in default.")],
    /,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """Say why a pod waits: what every node says to it, and which one misses it by how much.

    The cluster is read once and every node's twin is asked; whoever schedules
    the pod, the answer is what the kubelets would say. A pod that some node
    would take waits for its scheduler, not for room.

    Exit code: 0 it has a node or some node would take it, 1 no node would,
    2 bad input.

    For example:

      numaware why-pending ml/trainer-0
      kubectl numa why-pending ml/trainer-0
    """
    cache, _ = look_at(kubeconfig, context)
    live = find(cache, pod)
    if live.node:
        where = {"pod": live.full_name, "node": live.node}
        told = {**where, "message": label(Message("pending-placed", where), lang)}
        sys.stdout.write((msgspec.json.encode(told).decode() if as_json else str(told["message"])) + "\n")
        return 0
    from numaware.schedule.message import nearest_miss, refusal  # noqa: PLC0415 - needed only now

    engine = cache.engine
    decision = engine.decide(live.pod)
    groups: dict[tuple[Reason, ...], list[str]] = {}
    for member, answer in zip(engine.cluster, engine.ask(live.pod), strict=True):
        groups.setdefault(answer.reasons, []).append(member.name)
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
    if as_json:
        document = {
            "pod": live.full_name,
            "node": None,
            "wouldGoTo": decision.node,
            "message": say(message, lang),
            "said": live.scheduled.message if live.scheduled else "",
            "nodes": [
                {"reasons": [say(reason, lang) for reason in reasons], "nodes": names}
                for reasons, names in sorted(groups.items())
            ],
        }
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        terminal.write(_page(live, message, groups, lang), sys.stdout)
    return int(decision.node is None)


def find(cache: ClusterCache, text: str) -> LivePod:
    """The pod that a user names."""
    wanted = split_name(text)
    for live in cache.pods:
        if (live.namespace, live.name) == wanted:
            return live
    raise InputError(
        printable("/".join(wanted), 200),
        "the cluster has no such pod",
        hint="finished pods are not looked at",
    )


def _page(
    live: LivePod, message: Words, groups: dict[tuple[Reason, ...], list[str]], lang: Lang
) -> list[Line]:
    room = terminal.reading_width(sys.stdout)
    page: list[Line] = [*paragraph(say(message, lang), room, style="bold")]
    said = live.scheduled.message if live.scheduled is not None else ""
    if said and said != say(message):
        quote = said if lang == "en" else fit_error.read(said) or said
        page += paragraph(
            label(Message("pending-said", {"message": quote}), lang), room, hang=2, style="quiet"
        )
    page += [(), *grouped(groups, room, lang), ()]
    page += paragraph(label(Message("pending-see", {"pod": live.full_name}), lang), room, style="quiet")
    return page


def explain_live(
    pod: str, on: tuple[str, ...], kubeconfig: str | None, context: str | None, lang: Lang, *, as_json: bool
) -> int:
    """`numaware explain pod`: the kubelet's answer in full, on nodes of the live cluster."""
    from numaware.diagnose.explain.explanation import explain, to_builtins  # noqa: PLC0415 - needed only now

    cache, _ = look_at(kubeconfig, context)
    live = find(cache, pod)
    cluster = cache.engine.cluster
    chosen = on or ((live.node,) if live.node else tuple(cluster.by_name))
    strange = [name for name in chosen if name not in cluster.by_name]
    if strange:
        raise InputError(printable(strange[0], 80), "the cluster has no such node")
    # Seen without the pod itself: what would its kubelet say if it came now?
    cache.drop_pod(live.uid)
    found = [explain(name, cluster.by_name[name].node, live.pod) for name in chosen]
    if as_json:
        sys.stdout.write(
            msgspec.json.encode({"pods": [to_builtins(one, lang=lang) for one in found]}).decode() + "\n"
        )
    else:
        room = terminal.reading_width(sys.stdout)
        page: list[Line] = []
        for one in found:
            page += [*([()] if page else []), *lines(one, room, lang)]
        terminal.write(page, sys.stdout)
    return int(not any(one.admitted for one in found))
