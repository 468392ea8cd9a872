"""A pod that is not there yet: what every node says to it, and how many of it there is room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from numaware.diagnose.finding import Message
from numaware.diagnose.reason import most_frequent_first, nodes_available
from numaware.diagnose.texts import Lang, label, say
from numaware.schedule.cluster import Member
from numaware.schedule.engine import Engine
from numaware.schedule.filters import capacity_reasons
from numaware.schedule.node_facts import pod_requests
from numaware.serve.console.views.judging import Judgement, Reason, Verdict
from numaware.serve.console.views.strips import Strip
from numaware.serve.console.views.wall_model import WORST_FIRST
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class

# Pods of one kind counted on one node; nobody plans further ahead.
MOST_PER_NODE = 120


class NodeAnswer(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One node's answer; `why` tells its reasons in words."""

    node: str
    verdict: Verdict
    policy: str
    scope: str
    numa: tuple[int, ...]
    reasons: tuple[Reason, ...]
    why: str
    stranded: int
    strips: tuple[Strip, ...]


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """The pod in question, in the units people use for it."""

    name: str
    qos: str
    cpu_milli: int
    memory: int
    devices: dict[str, int]


class WhatIf(msgspec.Struct, frozen=True, rename="camel"):
    """All answers, and kube-scheduler's own summary of them; `telling` is the node whose answer tells most.

    They are of the moment `time`, whenever the pod came: one that is on a node is asked about as if it came then.
    """

    pod: Asked
    message: str
    verdicts: dict[str, int]
    nodes: tuple[NodeAnswer, ...]
    telling: str
    serial: int
    time: int


class Headroom(msgspec.Struct, frozen=True, rename="camel"):
    """How many more such pods kubelets would admit if they came one after the other; `most` is where counting ends."""

    pods: int
    nodes: int
    by_node: dict[str, int]
    most: int


def asked(pod: Pod) -> Asked:
    requests = dict(pod_requests(pod))
    return Asked(
        f"{pod.namespace}/{pod.name}",
        qos_class(pod),
        requests.get("cpu", 0),
        requests.get("memory", 0),
        {name: amount for name, amount in requests.items() if "/" in name},
    )


def told(judged: Sequence[Judgement], lang: Lang = "en") -> str:
    """`71/248 nodes are available: 25 …`, as kube-scheduler puts it."""
    fitting = sum(not judgement.reasons for judgement in judged)
    counts = Counter(reason for judgement in judged for reason in set(judgement.reasons))
    return say(nodes_available(fitting, len(judged), most_frequent_first(counts)), lang)


def reasons_of(judgement: Judgement, lang: Lang) -> tuple[Reason, ...]:
    """What stands in the way, in numbers where they tell it, else in the words of a language."""
    return judgement.parts or tuple(
        Reason("policy" if reason.is_kubelets else "outside", text=say(reason, lang))
        for reason in judgement.reasons
    )


@lru_cache(maxsize=4096)
def reasons_in_words(reasons: tuple[Reason, ...], lang: Lang) -> str:
    """All of them in one line."""
    return label(Message("reasons", {"reasons": [_in_words(one, lang) for one in reasons]}), lang)


def _in_words(reason: Reason, lang: Lang) -> str:
    if reason.text:
        return reason.text
    amount = (reason.resource, reason.amount)
    facts = {"resource": reason.resource, "amount": amount, "numa": list(reason.numa)}
    return label(Message(reason.code, facts), lang)


def telling(answers: Sequence[NodeAnswer]) -> str:
    """The node to show to whoever has chosen none: the first of those that are worst off."""
    return min(answers, key=lambda answer: WORST_FIRST.index(answer.verdict)).node if answers else ""


class Room(msgspec.Struct, frozen=True):
    """A class of nodes at one moment: values only, so that they can be counted on another thread."""

    node: Node
    left: dict[str, int]
    names: tuple[str, ...]


def rooms(engine: Engine, judged: Mapping[str, Judgement]) -> list[Room]:
    """The nodes that take a first pod, by what they say to it, those in equal state together."""
    classes: dict[object, tuple[Member, list[str]]] = {}
    for member in engine.cluster:
        if not judged[member.name].reasons:
            classes.setdefault(engine.class_of(member), (member, []))[1].append(member.name)
    return [
        Room(
            first.node,
            first.not_requested,
            tuple(names),
        )
        for first, names in classes.values()
    ]


def headroom(found: Sequence[Room], pod: Pod) -> Headroom:
    """Count, asking the twins."""
    by_node: dict[str, int] = {}
    for room in found:
        number = _count(room, pod)
        if number:
            by_node.update(dict.fromkeys(room.names, number))
    return Headroom(sum(by_node.values()), len(by_node), dict(sorted(by_node.items())), MOST_PER_NODE)


def _count(room: Room, pod: Pod) -> int:
    node, left = room.node, dict(room.left)
    requests = pod_requests(pod)
    for number in range(MOST_PER_NODE):
        if capacity_reasons(requests, left, {}):
            return number
        try:
            verdict = node.admit(msgspec.structs.replace(pod, uid=f"{pod.uid}/{number}"))
        except KubeletPanic:
            return number
        if not verdict.admitted:
            return number
        node = verdict.node
        for name, amount in requests:
            left[name] = left.get(name, 0) - amount
    return MOST_PER_NODE
