"""What a scheduler must honour about a pod besides its amounts: where it may go, and beside whom.

Plain values, normalised while they are read: selectors are sorted requirements, defaults are filled in, a term's
namespaces name the pod's own where nothing else was written. So two pods that ask for the same compare equal, and
whoever answers one can reuse the answer for the other. `node` is kept apart from the rest because it alone decides
which nodes are possible at all, and is shared by pods whose labels differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from numaware.workload.disks import Disk

# (key, value), ascending by key, no key twice.
Labels = tuple[tuple[str, str], ...]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

DEFAULT_SCHEDULER = "default-scheduler"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - the name of a host port's address, nothing is bound to it
VOLCANO_POLICY = "volcano.sh/numa-topology-policy"
OWN_ANNOTATIONS = "numaware.io/"
# Where a pod was put, by who put it there and by who saw it: records, which decide nothing.
PLACEMENT_PREDICTED = "numaware.io/placement-predicted"
PLACEMENT_OBSERVED = "numaware.io/placement-observed"

# strconv.ParseInt with base 10: no blanks, no underscores, and it has to fit into 64 bits.
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)


class Requirement(msgspec.Struct, frozen=True, order=True):
    """One condition on labels; `values` ascending."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Whether the label is the larger or the smaller number; what is no number never compares."""
        has = _integer(value)
        wants = _integer(self.values[0]) if len(self.values) == 1 else None
        if has is None or wants is None:
            return False
        return has > wants if self.operator == "Gt" else has < wants


class Selector(msgspec.Struct, frozen=True):
    """Labels that fulfil every requirement; without any it takes everything. (One that is missing takes nothing.)"""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


class NodeTerm(msgspec.Struct, frozen=True):
    """One way to be the right node: all of its labels and, for `names`, its own name. Never empty."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.labels) and all(
            requirement.matches({"metadata.name": name}) for requirement in self.names
        )


class PreferredNodes(msgspec.Struct, frozen=True):
    """Nodes that are worth `weight` more than others."""

    weight: int
    term: NodeTerm


class Toleration(msgspec.Struct, frozen=True):
    """A taint that does not keep the pod away; without `key` any, without `effect` every effect.

    One that `compares` tolerates taints whose value is the larger (Gt) or the smaller number (Lt); what is no number is
    not tolerated.
    """

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: str = ""
    compares: Literal["", "Gt", "Lt"] = ""

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        if (self.effect and self.effect != effect) or (self.key and self.key != key):
            return False
        if not self.compares:
            return self.exists or self.value == value
        wants, has = decimal(self.value), decimal(value)
        if wants is None or has is None:
            return False
        return has > wants if self.compares == "Gt" else has < wants


class NodeRules(msgspec.Struct, frozen=True, cache_hash=True):
    """Which nodes the pod may go to, whatever runs on them.

    `required` are the terms of which one must match: None if there is no such rule, while no terms at all match nothing.
    `features` are those that a node has to declare.
    """

    node_name: str = ""
    selector: Labels = ()
    required: tuple[NodeTerm, ...] | None = None
    preferred: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    features: tuple[str, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Some pods, and how near is near: those that `selector` finds in the namespaces, on nodes that share `topology_key`.

    The namespaces are those listed and those that `namespace_selector` finds; an absent selector finds none.
    """

    topology_key: str
    selector: Selector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None


class PreferredPods(msgspec.Struct, frozen=True):
    """Pods that are worth `weight` to have near, or, in an anti-affinity, to have elsewhere."""

    weight: int
    term: PodTerm


class PodRules(msgspec.Struct, frozen=True, cache_hash=True):
    """Beside which pods this one must or would like to be (`near`), and which it must or would like to avoid (`apart`)."""

    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    rather_near: tuple[PreferredPods, ...] = ()
    rather_apart: tuple[PreferredPods, ...] = ()

    @property
    def selects_namespaces(self) -> bool:
        """Whether a namespace is meant or not by its labels."""
        wishes = (*self.rather_near, *self.rather_apart)
        terms = (*self.near, *self.apart, *(wish.term for wish in wishes))
        return any(term.namespace_selector and term.namespace_selector.requirements for term in terms)


class SpreadRule(msgspec.Struct, frozen=True, cache_hash=True):
    """How evenly pods of a kind are to be spread over the values of a node label.

    `hard` is whenUnsatisfiable: DoNotSchedule. `heed_affinity` and `heed_taints` say whether nodes that the pod cannot
    use for that reason are left out of the count.
    """

    topology_key: str
    max_skew: int
    hard: bool
    selector: Selector | None
    min_domains: int = 1
    heed_affinity: bool = True
    heed_taints: bool = False


class HostPort(msgspec.Struct, frozen=True, order=True):
    """A port of the node itself that the pod occupies."""

    protocol: str
    address: str
    port: int


class Owner(msgspec.Struct, frozen=True):
    """An object the pod belongs to."""

    kind: str
    name: str
    controller: bool = False


class PodClaim(msgspec.Struct, frozen=True):
    """Devices that a pod claims (DRA): what it calls the claim, and the claim itself or the template it is made by.

    `claim` is empty as long as nobody has made one.
    """

    name: str
    claim: str = ""
    template: str = ""


class ServedResources(msgspec.Struct, frozen=True):
    """Extended resources of a pod that kube-scheduler has had served by DRA, and the claim that it made for them."""

    claim: str
    resources: tuple[str, ...]


class Scheduling(msgspec.Struct, frozen=True, cache_hash=True):
    """The scheduling part of a pod. `claims` are volumes to be bound first, `resource_claims` devices of DRA, `served` resources
    that turned out to be such devices.

    Of the claims, `ephemeral` are made for this pod alone; `disks` are named by it directly. `group` is the group of pods that
    it is to be scheduled with.
    `images` are those of all containers, init containers first, and of volumes, as nodes name them. Annotations are kept only
    where this program heeds them: its own, and Volcano's topology policy. `priority` is None where neither a number nor one of
    Kubernetes' own classes was named. `unread` says what of a live pod could not be read: whatever that would mean, no node
    may be chosen without it.
    """

    labels: Labels = ()
    annotations: Labels = ()
    node: NodeRules = NodeRules()
    pods: PodRules = PodRules()
    spread: tuple[SpreadRule, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    gates: tuple[str, ...] = ()
    priority: int | None = None
    priority_class: str = ""
    preempts: bool = True
    scheduler: str = DEFAULT_SCHEDULER
    claims: tuple[str, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    served: ServedResources | None = None
    owners: tuple[Owner, ...] = ()
    unread: str = ""
    images: tuple[str, ...] = ()
    ephemeral: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    group: str = ""

    def annotation(self, key: str) -> str:
        """One annotation, empty where there is none."""
        return dict(self.annotations).get(key, "") if self.annotations else ""


NO_SCHEDULING = Scheduling()


def decimal(text: str) -> int | None:
    """A whole number of 64 bits in the one way that Kubernetes takes it (no plus, no leading zeros), None if it is none."""
    return _integer(text) if _CANONICAL.fullmatch(text) else None


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
