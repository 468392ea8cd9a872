"""Which pods are replicas of one thing: the selectors of Services, ReplicaSets, StatefulSets and ReplicationControllers.

kube-scheduler spreads such pods over hosts and zones without being asked (its `System` default constraints). Fed by
`serve/watches.py`; asked by `preferences.py`, once for all pods of a template.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaware.workload.pod import Pod
from numaware.workload.scheduling import Labels, Requirement, Selector, SpreadRule

# (kind, namespace, name)
Key = tuple[str, str, str]

# KUBE-SCHEDULER: systemDefaultConstraints of PodTopologySpread: topology key and maxSkew.
_DEFAULTS = (("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5))
_MOST_TEMPLATES = 16_384


class ReplicaSelectors:
    """Selectors by the object they stand in; those of Services mean pods by their labels, the others by ownership."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, Mapping[str, str]]] = {}
        self._owners: dict[Key, Selector] = {}
        self._rules: dict[tuple[str, Labels, Key | None], tuple[SpreadRule, ...]] = {}

    def set_service(self, namespace: str, name: str, selector: Mapping[str, str] | None) -> None:
        """A Service is new or other; without a selector, or gone, it means nobody."""
        known = self._services.setdefault(namespace, {})
        if known.get(name) == (selector or None):
            return
        if selector:
            known[name] = selector
        else:
            known.pop(name, None)
        self._rules.clear()

    def set_owner(self, key: Key, selector: Selector | None) -> None:
        """A ReplicaSet, StatefulSet or ReplicationController is new, other, or gone (None)."""
        if self._owners.get(key) == selector:
            return
        if selector is None:
            self._owners.pop(key, None)
        else:
            self._owners[key] = selector
        self._rules.clear()

    def default_spread(self, pod: Pod) -> tuple[SpreadRule, ...]:
        """How the replicas that the pod is one of are spread where it says nothing itself; none for a pod on its own."""
        if not self._services and not self._owners:
            return ()
        scheduling = pod.scheduling
        owner = next((one for one in scheduling.owners if one.controller), None)
        key = (owner.kind, pod.namespace, owner.name) if owner else None
        place = pod.namespace, scheduling.labels, key
        rules = self._rules.get(place)
        if rules is None:
            if len(self._rules) >= _MOST_TEMPLATES:
                self._rules.clear()
            rules = self._rules[place] = _rules(self._selector(pod.namespace, dict(scheduling.labels), key))
        return rules

    def _selector(self, namespace: str, labels: Mapping[str, str], owner: Key | None) -> Selector:
        requirements: set[Requirement] = set()
        for selector in self._services.get(namespace, {}).values():
            if all(labels.get(name) == value for name, value in selector.items()):
                requirements.update(Requirement(name, "In", (value,)) for name, value in selector.items())
        if owner is not None and (own := self._owners.get(owner)):
            requirements.update(own.requirements)
        return Selector(tuple(sorted(requirements)))


def _rules(selector: Selector) -> tuple[SpreadRule, ...]:
    if not selector.requirements:
        return ()
    return tuple(SpreadRule(key, skew, hard=False, selector=selector) for key, skew in _DEFAULTS)
