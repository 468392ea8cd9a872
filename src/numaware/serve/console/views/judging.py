"""What every node says to one pod, as the page shows it: aligned, split, refused, full or never, and why in one line.

The answers are the engine's (`Engine.ask`), so the page says what schedulers are told. What it adds (would an empty node take
the pod, is there enough in all, how many such pods do NUMA borders keep out) is the same for nodes with one answer, and
worked out once for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from numaware.diagnose.explain.causes import requested_by
from numaware.diagnose.explain.change import admits
from numaware.diagnose.explain.explanation import Explanation
from numaware.diagnose.reason import Code as ReasonCode
from numaware.diagnose.reason import Reason as NodeReason
from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.engine import Engine
from numaware.schedule.filters import capacity_reasons
from numaware.schedule.need import Need, need_of
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.parts_by_dra import left_of
from numaware.schedule.room import WHOLE, NumaRoom, gpu_resource, room, site
from numaware.schedule.shares import choices
from numaware.schedule.trial_policies import AS_THEY_ARE, TrialPolicies
from numaware.schedule.tried_changes import tried_changes
from numaware.twin.account import account, free_in_all, is_aligned, resources
from numaware.twin.node import Node
from numaware.workload.demand import Amounts
from numaware.workload.pod import Pod

Verdict = Literal["aligned", "split", "refused", "full", "never"]
VERDICTS: tuple[Verdict, ...] = ("aligned", "split", "refused", "full", "never")
Code = Literal["only-on", "short-on-every", "short-on-node", "too-small", "policy", "outside"]

# Judgements kept before everything is forgotten.
_MOST = 1 << 16
# What other pods on the node, or near it, keep the pod from; it may be had when they are gone.
_TAKEN: frozenset[ReasonCode] = frozenset(
    {
        "host-ports",
        "topology-spread",
        "topology-spread-label",
        "pod-affinity",
        "pod-anti-affinity",
        "existing-anti-affinity",
    }
)
# Nobody can tell, or the node has said no before.
_DOUBTED: frozenset[ReasonCode] = frozenset({"pods-astray", "held-back", "kubelet-crash", "outcome-unknown"})


class Reason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that stands in the way, in parts, so that a page can say it in any language.

    `only-on`: the amount is free to pin only on these NUMA nodes. `short-on-every`: every NUMA node lacks at least `amount`.
    `short-on-node`: the whole node lacks `amount`. `too-small`: the empty machine lacks it. Else `text` tells.
    """

    code: Code
    resource: str = ""
    numa: tuple[int, ...] = ()
    amount: int = 0
    text: str = ""


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """A node's answer. `numa` is where the pod would lie, `stranded` how many such pods NUMA borders keep out.

    `parts` say what stands in the way where numbers can; where they are empty, `reasons` tell.
    """

    verdict: Verdict
    numa: tuple[int, ...] = ()
    parts: tuple[Reason, ...] = ()
    reasons: tuple[NodeReason, ...] = ()
    stranded: int = 0


class Judge:
    """Judgements of a cluster's nodes, with a memory that survives changes of other nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = Engine(cluster)
        # By the engine's answer, which is kept with it, so that no other answer comes to have its identity.
        self._known: dict[int, tuple[Answer, Judgement]] = {}

    def judge(
        self, pod: Pod, names: Sequence[str] | None = None, policies: TrialPolicies = AS_THEY_ARE
    ) -> list[Judgement]:
        """What each of these nodes, or every node in order of name, says; a pod that is on one is taken to come anew."""
        known = self._known
        if len(known) >= _MOST:
            known.clear()
        if names is None:
            names = [member.name for member in self.cluster]
        with self.cluster.without(pod.uid):
            answers = self.engine.ask(pod, names, policies)
            for name, answer in zip(names, answers, strict=True):
                if id(answer) not in known:
                    # Pods that differ only in what DRA serves there share the answer, and so what is made of it.
                    asked = left_of(self.cluster, pod, name)
                    known[id(answer)] = answer, _judged(self.engine.member(name, policies), asked, answer)
        return [known[id(answer)][1] for answer in answers]

    def tried(self, explanation: Explanation, policies: TrialPolicies) -> Explanation:
        """The explanation of a node's kubelet with those of its changes that the engine agrees to."""
        return replace(explanation, changes=tried_changes(self.engine, explanation, policies))


def _judged(member: Member | None, pod: Pod, answer: Answer) -> Judgement:
    reasons = answer.reasons
    if member is None:
        return Judgement("never", reasons=reasons)
    if not reasons:
        return _placed(member, pod, answer)
    code = reasons[0].code
    if code in ("insufficient", "too-many-pods"):
        return _short(member, pod, reasons)
    if code == "gpu-share":
        could = any(choices(_fresh(member.node), {}, pod))
        return Judgement("full" if could else "never", reasons=reasons)
    if reasons[0].is_kubelets:
        return _unaligned(member, pod, reasons)
    return Judgement(
        "full" if code in _TAKEN else "refused" if code in _DOUBTED else "never", reasons=reasons
    )


def _placed(member: Member, pod: Pod, answer: Answer) -> Judgement:
    node, stranded = member.node, _stranded(member, pod)
    ids = node.kubelet.layout.node_ids(answer.numa)
    if is_aligned(node, pod, answer.numa):
        return Judgement("aligned", ids, stranded=stranded)
    return Judgement("split", ids, tuple(_scattered(node, pod, "")), stranded=stranded)


def _short(member: Member, pod: Pod, reasons: tuple[NodeReason, ...]) -> Judgement:
    """The node has too little in all, now or ever."""
    requests = pod_requests(pod)
    if capacity_reasons(requests, member.allocatable, {}):
        lacking = tuple(_lacking(requests, member.allocatable, "too-small"))
        return Judgement("never", parts=lacking, reasons=reasons)
    verdict: Verdict = "full" if admits(_fresh(member.node), pod) else "never"
    return Judgement(
        verdict, parts=tuple(_lacking(requests, member.not_requested, "short-on-node")), reasons=reasons
    )


def _unaligned(member: Member, pod: Pod, reasons: tuple[NodeReason, ...]) -> Judgement:
    """The kubelet refuses: for good, because of borders between NUMA nodes, or for want of room in all."""
    node = member.node
    parts = tuple(_scattered(node, pod, node.admit(pod).container))
    if not admits(_fresh(node), pod):
        return Judgement("never", parts=parts, reasons=reasons)
    verdict: Verdict = "refused" if _enough_in_all(node, pod) else "full"
    return Judgement(verdict, parts=parts, reasons=reasons, stranded=_stranded(member, pod))


def _fresh(node: Node) -> Node:
    return Node.fresh(node.kubelet.hardware, node.kubelet.config)


def _lacking(requests: Amounts, left: Mapping[str, int], code: Code) -> Iterator[Reason]:
    for name, wanted in requests:
        lacks = wanted - left.get(name, 0)
        if lacks > 0:
            # CPUs are counted in thousandths here, in whole ones where people read them.
            yield Reason(code, name, amount=-(-lacks // 1000) if name == "cpu" else lacks)


def _scattered(node: Node, pod: Pod, container: str) -> Iterator[Reason]:
    """Where each resource could be had in one piece, or how much is missing for that."""
    wanted = requested_by(node.kubelet.demand(pod), container)
    for name, amount in wanted.items():
        here = account(node, name) if amount else ()
        if not here:
            continue
        on = tuple(zone.numa for zone in here if zone.free >= amount)
        if not on:
            yield Reason("short-on-every", name, amount=amount - max(zone.free for zone in here))
        elif len(on) < len(here):
            yield Reason("only-on", name, numa=on)


def _enough_in_all(node: Node, pod: Pod) -> bool:
    """Whether the whole node has free all that the pod wants for itself: then only its borders are in the way."""
    wanted = requested_by(node.kubelet.demand(pod), "")
    looked_after = resources(node)
    return all(free_in_all(node, name) >= amount for name, amount in wanted.items() if name in looked_after)


def _stranded(member: Member, pod: Pod) -> int:
    """Pods of this shape that would fit if NUMA did not matter, less those that fit on one NUMA node each.

    Counted by amounts; a pod that no single NUMA node could ever hold strands nothing.
    """
    need = need_of(pod, gpu_resource(member.node) or "")
    if not need.cpus:
        return 0
    load = member.load
    empty = site(load.node.kubelet, member.facts.allocatable).empty
    if not any(_fitting(need, zone) for zone in empty.capped):
        return 0
    here = room(load.node, load.shares, member.allocatable, load.used)
    return max(0, _fitting(need, here.whole) - sum(_fitting(need, zone) for zone in here.capped))


def _fitting(need: Need, zone: NumaRoom) -> int:
    limits = [zone.cpus // need.cpus] if need.cpus else []
    if need.memory:
        limits.append(zone.memory // need.memory)
    if need.gpus:
        limits.append(sum(left >= WHOLE for left in zone.gpus) // need.gpus)
    return min(limits, default=0)
