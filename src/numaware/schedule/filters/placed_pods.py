"""Who is where, so that a pod's rules about other pods cost as much as there are domains, not as there are pods.

Pods and nodes come and go one at a time; what pending pods ask for is counted from the first time somebody asks for
it. Rules that placed pods keep up (their anti-affinity, and what they would like) are counted by domain too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.schedule.filters.domain_counts import (
    DomainCounts,
    HostCounts,
    Kin,
    SpreadCounts,
    StampedSums,
    TermCounts,
    add,
)
from numaware.schedule.filters.inter_pod import InterPodRules
from numaware.schedule.filters.soft_spread import HOST, SoftRule, SoftSpread
from numaware.schedule.filters.volume_users import VolumeUsers
from numaware.schedule.node_facts import NodeFacts
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Labels, NodeRules, PodRules, PodTerm, Selector, SpreadRule

# Questions that are being counted; beyond it all are dropped, and counted anew when they are asked again.
MAX_TALLIES = 4096
# What a placed pod's required affinity is worth to those it is about; kube-scheduler's default.
_REQUIRED_WEIGHT = 1
_NAMESPACE_NAME = "kubernetes.io/metadata.name"

_Standing = dict[PodTerm, StampedSums]


class _Placed(msgspec.Struct, frozen=True, gc=False):
    pod: Pod
    node: str
    kin: Kin


class PlacedPods:
    """Placed pods by kin and node. `namespaces` are labels of namespaces, for rules that select namespaces by them.

    While not all namespaces are known (`knows_namespaces`), a rule that selects them may mean any of them.
    """

    def __init__(
        self,
        nodes: Iterable[NodeFacts] = (),
        namespaces: Mapping[str, Labels] | None = None,
        *,
        knows_namespaces: bool = True,
    ) -> None:
        self._namespaces = dict(namespaces or {})
        self.knows_namespaces = knows_namespaces
        self._nodes: dict[str, NodeFacts] = {}
        self._labels: dict[str, dict[str, str]] = {}
        # Pods that nobody has asked about since they came, and that ask for nothing themselves: on most clusters all.
        self._uncounted: dict[str, tuple[Pod, str]] = {}
        self._placed: dict[str, _Placed] = {}
        # Node -> its pods, in the order in which they came.
        self._on: dict[str, dict[str, Pod]] = {}
        self._kin: dict[tuple[str, Labels, bool], Kin] = {}
        # Pods that are being deleted, wherever they are.
        self.leaving: set[str] = set()
        self.volume_users = VolumeUsers()
        self._term_tallies: dict[tuple[PodTerm, ...], TermCounts] = {}
        self._host_tallies: dict[tuple[str, Selector | None], HostCounts] = {}
        self._spread_tallies: dict[tuple[object, ...], SpreadCounts] = {}
        self._repel: _Standing = {}
        self._pull: _Standing = {}
        self._version = 0
        for facts in nodes:
            self.set_node(facts)

    def set_node(self, facts: NodeFacts) -> None:
        """A node is new or has changed; only its labels and taints matter here."""
        known = self._nodes.get(facts.name)
        self._nodes[facts.name] = facts
        if known is not None and known.labels == facts.labels and known.taints == facts.taints:
            return
        pods = self._leave(facts.name) if known is not None else []
        self._labels[facts.name] = dict(facts.labels)
        self._forget_tallies()
        for pod in pods:
            self.place(pod, facts.name)

    def drop_node(self, name: str) -> None:
        """A node is gone, and with it the pods on it."""
        self._leave(name)
        del self._nodes[name]
        del self._labels[name]
        self._forget_tallies()

    def set_namespace(self, name: str, labels: Labels | None) -> bool:
        """A namespace is new, has other labels or is gone (None); whether a rule that somebody has may mean others now."""
        before = self._namespace_labels(name)
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        return self._namespace_labels(name) != before and self._renew_namespaces()

    def know_namespaces(self) -> bool:
        """Every namespace there is has been told of; whether a rule that somebody has may mean others now."""
        self.knows_namespaces = True
        return self._renew_namespaces()

    def _renew_namespaces(self) -> bool:
        for kin in self._kin.values():
            kin.namespace_labels = self._namespace_labels(kin.namespace)
        asked = [term for terms in self._term_tallies for term in terms]
        self._forget_tallies()
        self._version += 1
        return any(term.namespace_selector is not None for term in (*self._repel, *self._pull, *asked))

    def place(self, pod: Pod, node: str) -> None:
        """The pod is on the node now, which has to be known; a pod is known by its uid."""
        if node not in self._nodes:
            raise KeyError(node)
        self.remove(pod.uid)
        self.volume_users.place(pod, node)
        self._uncounted[pod.uid] = pod, node
        if pod.scheduling.pods != _NO_RULES:
            self._count_all()

    def _count_all(self) -> None:
        """Count the pods that came since somebody asked."""
        for uid, (pod, node) in self._uncounted.items():
            leaving = uid in self.leaving
            kin = self._known_kin(pod, leaving=leaving) or self._new_kin(pod, leaving=leaving)
            placed = self._placed[uid] = _Placed(pod, node, kin)
            self._on.setdefault(node, {})[uid] = pod
            self._count(placed, 1)
        self._uncounted.clear()

    def remove(self, uid: str) -> None:
        """The pod is gone; nothing happens if it was not there."""
        self.volume_users.remove(uid)
        if self._uncounted.pop(uid, None) is not None:
            return
        placed = self._placed.pop(uid, None)
        if placed is None:
            return
        del self._on[placed.node][uid]
        self._count(placed, -1)
        if not placed.kin.on:
            del self._kin[placed.pod.namespace, placed.pod.scheduling.labels, placed.kin.leaving]

    def set_leaving(self, uid: str, *, leaving: bool) -> None:
        """The pod is being deleted, or (no longer) known to be: it counts no more where others are to be spread."""
        if leaving == (uid in self.leaving):
            return
        where = self._uncounted.get(uid)
        if where is None and (placed := self._placed.get(uid)):
            where = placed.pod, placed.node
        if where is not None:
            self.remove(uid)
        (self.leaving.add if leaving else self.leaving.discard)(uid)
        if where is not None:
            self.place(*where)

    def rules_for(self, pod: Pod) -> InterPodRules | None:
        """The rules to be kept when the pod is placed; None if it may join anybody and nobody minds or cares."""
        rules, spread = pod.scheduling.pods, pod.scheduling.spread
        if spread:
            spread = tuple(rule for rule in spread if rule.hard)
        if rules == _NO_RULES and not spread and not self._repel and not self._pull:
            return None
        self._count_all()
        kin = self._known_kin(pod) or self._unplaced(pod)
        self._look_up_standing(kin)
        if rules == _NO_RULES and not spread and not kin.repelled and not kin.pulled:
            return None
        near = self._term_tally(*rules.near) if rules.near else None
        spreads = self._spreads(pod, spread)
        apart = [(term.topology_key, self._sums(term)) for term in rules.apart]
        return InterPodRules(
            labels=self._labels,
            spread=tuple((tally.rule.topology_key, tally.most(kin), tally.sums) for tally in spreads),
            near=tuple((term.topology_key, near.sums[term.topology_key]) for term in rules.near)
            if near
            else (),
            first=near is not None and near.wants(kin) and not any(near.sums.values()),
            apart=tuple(apart),
            repelled=tuple(kin.repelled),
            wishes=(
                *((wish.term.topology_key, wish.weight, self._sums(wish.term)) for wish in rules.rather_near),
                *(
                    (wish.term.topology_key, -wish.weight, self._sums(wish.term))
                    for wish in rules.rather_apart
                ),
                *((key, 1, sums) for key, sums in kin.pulled),
            ),
            stamp=(
                *(tally.stamp for tally in spreads),
                *((near.stamp,) if near else ()),
                *(sums.stamp for _, sums in (*apart, *kin.repelled)),
            ),
        )

    def soft_spread(self, pod: Pod, rules: tuple[SpreadRule, ...], *, every_key: bool) -> SoftSpread:
        """How evenly the pod would like to be spread; `every_key`: only over nodes that have the labels of all rules."""
        self._count_all()
        keys = tuple(sorted({rule.topology_key for rule in rules}))
        soft = []
        for rule in rules:
            if rule.topology_key == HOST:
                sums = self._host_tally(pod.namespace, rule.selector).sums
            else:
                wanted = keys if every_key else ()
                sums = self._spread_tally(pod.namespace, rule, wanted, pod.scheduling.node).sums
            soft.append(SoftRule(rule.topology_key, rule.max_skew, sums))
        return SoftSpread(self._labels, tuple(soft), every_key)

    def _host_tally(self, namespace: str, selector: Selector | None) -> HostCounts:
        tally = self._host_tallies.get((namespace, selector))
        if tally is None:
            tally = HostCounts(namespace, selector)
            self._start(tally)
            self._host_tallies[namespace, selector] = tally
        return tally

    def _spreads(self, pod: Pod, rules: tuple[SpreadRule, ...]) -> list[SpreadCounts]:
        keys = tuple(sorted({rule.topology_key for rule in rules}))
        return [self._spread_tally(pod.namespace, rule, keys, pod.scheduling.node) for rule in rules]

    def _sums(self, term: PodTerm) -> StampedSums:
        return self._term_tally(term).sums[term.topology_key]

    def _term_tally(self, *terms: PodTerm) -> TermCounts:
        tally = self._term_tallies.get(terms)
        if tally is None:
            tally = TermCounts(terms, self._labels)
            self._start(tally)
            self._term_tallies[terms] = tally
        return tally

    def _spread_tally(
        self, namespace: str, rule: SpreadRule, keys: tuple[str, ...], rules: NodeRules
    ) -> SpreadCounts:
        heeded = (
            (rules.selector, rules.required) if rule.heed_affinity else None,
            rules.tolerations if rule.heed_taints else None,
        )
        key = (namespace, rule, keys, heeded)
        tally = self._spread_tallies.get(key)
        if tally is None:
            tally = SpreadCounts(namespace, rule, keys, rules, self._nodes.values())
            self._start(tally)
            self._spread_tallies[key] = tally
        return tally

    def _start(self, tally: DomainCounts) -> None:
        """Count everybody who is there, and from now on everybody who comes."""
        if len(self._term_tallies) + len(self._spread_tallies) + len(self._host_tallies) >= MAX_TALLIES:
            self._forget_tallies()
        for kin in self._kin.values():
            if tally.wants(kin):
                kin.tallies.append(tally)
                for node, number in kin.on.items():
                    tally.count(node, number)

    def _forget_tallies(self) -> None:
        if self._term_tallies or self._spread_tallies or self._host_tallies:
            self._term_tallies.clear()
            self._spread_tallies.clear()
            self._host_tallies.clear()
            for kin in self._kin.values():
                kin.tallies.clear()

    def _count(self, placed: _Placed, number: int) -> None:
        pod, node, kin = placed.pod, placed.node, placed.kin
        add(kin.on, node, number)
        for tally in kin.tallies:
            tally.count(node, number)
        rules = pod.scheduling.pods
        if rules == _NO_RULES:
            return
        for term in rules.apart:
            self._stand(self._repel, term, node, number)
        for term in rules.near:
            self._stand(self._pull, term, node, number * _REQUIRED_WEIGHT)
        for wish in rules.rather_near:
            self._stand(self._pull, wish.term, node, number * wish.weight)
        for wish in rules.rather_apart:
            self._stand(self._pull, wish.term, node, -number * wish.weight)

    def _stand(self, standing: _Standing, term: PodTerm, node: str, number: int) -> None:
        """Add to what placed pods ask of a domain; a new term, and one that nobody keeps up any more, changes who is meant."""
        sums = standing.get(term)
        if sums is None:
            sums = standing[term] = StampedSums()
            self._version += 1
        sums.add(self._labels[node].get(term.topology_key), number)
        if not sums:
            del standing[term]
            self._version += 1

    def _look_up_standing(self, kin: Kin) -> None:
        if kin.version == self._version:
            return
        kin.repelled = [(term.topology_key, sums) for term, sums in self._repel.items() if kin.meant_by(term)]
        kin.pulled = [(term.topology_key, sums) for term, sums in self._pull.items() if kin.meant_by(term)]
        kin.version = self._version

    def _known_kin(self, pod: Pod, *, leaving: bool = False) -> Kin | None:
        return self._kin.get((pod.namespace, pod.scheduling.labels, leaving))

    def _unplaced(self, pod: Pod, *, leaving: bool = False) -> Kin:
        labels = self._namespace_labels(pod.namespace)
        return Kin(pod.namespace, pod.scheduling.labels, labels, leaving=leaving)

    def _namespace_labels(self, name: str) -> dict[str, str] | None:
        if not self.knows_namespaces:
            return None
        # Kubernetes itself puts the name of every namespace among its labels.
        return {_NAMESPACE_NAME: name, **dict(self._namespaces.get(name, ()))}

    def _new_kin(self, pod: Pod, *, leaving: bool) -> Kin:
        kin = self._unplaced(pod, leaving=leaving)
        self._kin[pod.namespace, pod.scheduling.labels, leaving] = kin
        known: tuple[DomainCounts, ...] = (
            *self._term_tallies.values(),
            *self._spread_tallies.values(),
            *self._host_tallies.values(),
        )
        kin.tallies.extend(tally for tally in known if tally.wants(kin))
        return kin

    def _leave(self, node: str) -> list[Pod]:
        """Take every pod off a node; returns them."""
        self._count_all()
        pods = list(self._on.get(node, {}).values())
        for pod in pods:
            self.remove(pod.uid)
        self._on.pop(node, None)
        return pods


_NO_RULES = PodRules()
