"""What every node says to one pod: aligned, split, refused, full or never, and why in one line.

Nodes of one class say the same (`schedule.evaluation`), so a wall of thousands costs a few hundred questions, and the
next change of one node one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from numaware.diagnose.explain.causes import requested_by
from numaware.diagnose.explain.change import admits
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.constraints import Neighbours, Question, cannot_judge, capacity_reasons, static_reason
from numaware.schedule.evaluation import Evaluator, numa_reason
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.profile import DEFAULT_PROFILE
from numaware.schedule.room import WHOLE, NumaRoom, gpu_resource, room
from numaware.schedule.stranding import Need, need_of
from numaware.serve.console.views.pod_shape import AS_THEY_ARE, Rules
from numaware.simulate.measure import numa_nodes
from numaware.twin.account import account, fewest_nodes_for, free_in_all, resources
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.workload.demand import demand
from numaware.workload.pod import Pod

Verdict = Literal["aligned", "split", "refused", "full", "never"]
VERDICTS: tuple[Verdict, ...] = ("aligned", "split", "refused", "full", "never")
Code = Literal["only-on", "short-on-every", "short-on-node", "too-small", "policy", "outside"]

# Classes and answers kept before everything is forgotten.
_MOST = 1 << 16


class Reason(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that stands in the way, in parts, so that a page can say it in any language.

    `only-on`: the amount is free only on these NUMA nodes. `short-on-every`: every NUMA node lacks at least `amount`.
    `short-on-node`: the whole node lacks `amount`. `too-small`: the empty machine lacks it. Else `text` tells.
    """

    code: Code
    resource: str = ""
    numa: tuple[int, ...] = ()
    amount: int = 0
    text: str = ""


class Judgement(msgspec.Struct, frozen=True):
    """A node's answer. `numa` is where the pod would lie, `stranded` how many such pods NUMA borders keep out."""

    verdict: Verdict
    numa: tuple[int, ...] = ()
    reasons: tuple[Reason, ...] = ()
    # What kube-scheduler would say, to be counted over nodes.
    told: tuple[str, ...] = ()
    stranded: int = 0


class Judge:
    """Judgements of a cluster's nodes, with a memory that survives changes of other nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._classes = Evaluator(DEFAULT_PROFILE)
        self._numbers: dict[str, tuple[int, int]] = {}
        # Questions by number, and the answers of classes to them.
        self._questions: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[int, int], Judgement] = {}

    def learn(self, member: Member) -> None:
        """Find out which class a changed node belongs to, so that the next question need not wait for that."""
        self._number(member)

    def judge(self, members: Iterable[Member], pod: Pod, rules: Rules = AS_THEY_ARE) -> list[Judgement]:
        """What nodes say to a pod about which no other pod matters (see `judge_all`)."""
        if max(len(self._known), len(self._questions)) >= _MOST:
            self._questions.clear()
            self._known.clear()
        question = self._questions.setdefault((pod.shape, pod.overhead, rules), len(self._questions))
        answers = []
        for member in members:
            outside = static_reason(pod.scheduling, member.facts)
            if outside:
                answers.append(Judgement("never", (), (Reason("outside", text=outside),), (outside,)))
                continue
            key = self._number(member), question
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = _judged(member, pod, rules)
            answers.append(found)
        return answers

    def judge_all(self, pod: Pod, rules: Rules = AS_THEY_ARE) -> list[Judgement]:
        """Every node in order of name, other pods considered where the pod asks for that."""
        hindrance = cannot_judge(pod.scheduling)
        if hindrance:
            told = Judgement("never", (), (Reason("outside", text=hindrance),), (hindrance,))
            return [told] * len(self.cluster)
        question = self._question(pod)
        found = self.judge(self.cluster, pod, rules)
        if question is not None:
            for place, member in enumerate(self.cluster):
                outside = question.reason(member.name)
                if outside:
                    found[place] = Judgement("full", (), (Reason("outside", text=outside),), (outside,))
        return found

    def _question(self, pod: Pod) -> Question | None:
        """What the pod has to do with others; looking them all up is worth it only for a pod that asks."""
        alone = Neighbours(member.facts for member in self.cluster)
        if alone.ask(pod) is None:
            return None
        for member in self.cluster:
            for other in member.pods.values():
                alone.place(other, member.name)
        return alone.ask(pod)

    def _number(self, member: Member) -> int:
        known = self._numbers.get(member.name)
        if known is None or known[0] != member.version:
            if len(self._numbers) > _MOST:
                self._classes = self._classes.emptied()
                self._numbers.clear()
                self._known.clear()
            known = self._numbers[member.name] = member.version, self._classes.number_of(member)
        return known[1]


def under(node: Node, rules: Rules) -> Node | None:
    """The node as it would be under other policies; None where its kubelet would not start."""
    changed: dict[str, str] = {}
    if rules.policy is not None:
        changed["topology_policy"] = rules.policy
    if rules.scope is not None:
        changed["topology_scope"] = rules.scope
    if not changed:
        return node
    try:
        kubelet = start(node.kubelet.hardware, msgspec.structs.replace(node.kubelet.config, **changed))
    except (StartError, ValueError):
        return None
    return Node(kubelet, node.state)


def judged_apart(member: Member, pod: Pod, rules: Rules = AS_THEY_ARE) -> Judgement:
    """What the node a pod is on would say if the pod came anew."""
    load = member.load
    used = dict(load.used)
    for name, amount in pod_requests(pod):
        used[name] = used.get(name, 0) - amount
    return _judged(
        Member(member.facts, replace(load, node=load.node.release(pod.uid), used=used)), pod, rules
    )


def _judged(member: Member, pod: Pod, rules: Rules) -> Judgement:
    node = under(member.node, rules)
    if node is None:
        text = "the kubelet would not start with this policy"
        return Judgement("never", (), (Reason("policy", text=text),), (text,))
    used = member.load.used
    requests = pod_requests(pod)
    short = capacity_reasons(requests, member.allocatable, used)
    if short:
        if capacity_reasons(requests, member.allocatable, {}):
            lacking = tuple(_lacking(requests, member.allocatable, "too-small"))
            return Judgement("never", (), lacking, short)
        kind: Verdict = "full" if admits(_fresh(node), pod) else "never"
        return Judgement(kind, (), tuple(_lacking(requests, _left(member), "short-on-node")), short)
    try:
        verdict = node.admit(pod)
    except KubeletPanic as crash:
        text = f"the kubelet would crash: {crash}"
        return Judgement("refused", (), (Reason("policy", text=text),), (text,))
    stranded = _stranded(member, pod)
    if verdict.admitted:
        mask = numa_nodes(_with(member, verdict.node), pod)
        ids = node.kubelet.layout.node_ids(mask)
        if mask.bit_count() <= max(1, fewest_nodes_for(node, pod)):
            return Judgement("aligned", ids, stranded=stranded)
        return Judgement("split", ids, tuple(_scattered(node, pod, "")), stranded=stranded)
    told = (numa_reason(node, verdict),)
    if not admits(_fresh(node), pod):
        return Judgement(
            "never",
            (),
            tuple(_scattered(node, pod, verdict.container)) or (Reason("policy", text=told[0]),),
            told,
        )
    kind = "refused" if _enough_in_all(node, pod) else "full"
    reasons = tuple(_scattered(node, pod, verdict.container)) or (Reason("policy", text=told[0]),)
    return Judgement(kind, (), reasons, told, stranded)


def _fresh(node: Node) -> Node:
    return Node.fresh(node.kubelet.hardware, node.kubelet.config)


def _with(member: Member, node: Node) -> Member:
    return Member(member.facts, replace(member.load, node=node))


def _left(member: Member) -> dict[str, int]:
    used = member.load.used
    return {name: amount - used.get(name, 0) for name, amount in member.allocatable.items()}


def _lacking(requests: tuple[tuple[str, int], ...], left: dict[str, int], code: Code) -> Iterator[Reason]:
    for name, wanted in requests:
        lacks = wanted - left.get(name, 0)
        if lacks > 0:
            # CPUs are counted in thousandths here, in whole ones where people read them.
            yield Reason(code, name, amount=-(-lacks // 1000) if name == "cpu" else lacks)


def _scattered(node: Node, pod: Pod, container: str) -> Iterator[Reason]:
    """Where each resource could be had in one piece, or how much is missing for that."""
    wanted = requested_by(demand(pod, sidecars=node.kubelet.rules.sidecars), container)
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
    wanted = requested_by(demand(pod, sidecars=node.kubelet.rules.sidecars), "")
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
    here = room(load.node, load.shares, member.allocatable, load.used)
    if all(_fitting(need, zone) == 0 for zone in _empty_zones(member)):
        return 0
    return max(0, _fitting(need, here.whole) - sum(_fitting(need, zone) for zone in here.capped))


def _empty_zones(member: Member) -> Sequence[NumaRoom]:
    return room(_fresh(member.node), {}, member.allocatable, {}).capped


def _fitting(need: Need, zone: NumaRoom) -> int:
    limits = [zone.cpus // need.cpus] if need.cpus else []
    if need.memory:
        limits.append(zone.memory // need.memory)
    if need.gpus:
        limits.append(sum(left >= WHOLE for left in zone.gpus) // need.gpus)
    return min(limits, default=0)
