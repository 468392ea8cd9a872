"""Claims and volumes of a cluster, what CSI drivers say of its nodes, and what has been decided about them and not yet shown.

Fed by `serve/storage_watch.py`, judged by `filters/volumes.py`. A decision that gives a claim a volume, or a node to be
provisioned on, counts at once (`assume`), for as long as its pod counts as placed: when the pod is taken back, so is this.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from numaware.schedule.by_label import EVERYWHERE, ByLabel, Where, one_of
from numaware.workload.storage import (
    Attachment,
    Claim,
    ClaimKey,
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumePlan,
)

Stored = Claim | Volume | StorageClass | NodeDrivers | StorageDriver | StorageCapacity | Attachment

# What stands for the name of a node among its labels.
_NAME = "metadata.name"
# Plans of pods that have left are dropped when there are so many.
_MOST_PLANS = 1024


class Assumed(NamedTuple):
    """What is decided and not yet shown: whose each volume is, and where claims are to be provisioned."""

    volumes: Mapping[str, ClaimKey]
    nodes: Mapping[ClaimKey, str]


class Storage:
    """`known` is whether everything there is has been told of; until then nothing can be said about claims."""

    def __init__(self, *, known: bool = True) -> None:
        self.known = known
        self.claims: dict[ClaimKey, Claim] = {}
        self.volumes: dict[str, Volume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, StorageDriver] = {}
        self._on_node: dict[str, dict[str, int | None]] = {}
        self._free = ByLabel[Volume]()
        # Those that are bound or promised, by whom they are for.
        self._taken: dict[ClaimKey, dict[str, Volume]] = {}
        self._capacities = ByLabel[StorageCapacity]()
        self._attachments: dict[str, Attachment] = {}
        self._attached: dict[str, dict[str, Attachment]] = {}
        self._plans: dict[str, VolumePlan] = {}
        self._placed: Container[str] = ()

    def follow(self, placed: Container[str]) -> None:
        """Whose plans count: those of the pods that are placed, by uid."""
        self._placed = placed

    # News

    def put(self, one: Stored) -> None:
        """Something is new, or other."""
        self._forget(one)
        match one:
            case Claim():
                self.claims[one.key] = one
            case Volume():
                self.volumes[one.name] = one
                if one.claim is None:
                    self._free.put(one.storage_class, one.name, one, _where(one))
                else:
                    self._taken.setdefault(one.claim, {})[one.name] = one
            case StorageClass():
                self.classes[one.name] = one
            case NodeDrivers():
                self._on_node[one.node] = dict(one.drivers)
            case StorageDriver():
                self.drivers[one.name] = one
            case StorageCapacity():
                where = one_of(one.nodes.requirements) if one.nodes is not None else ()
                self._capacities.put(one.storage_class, one.name, one, where)
            case Attachment():
                self._attachments[one.name] = one
                self._attached.setdefault(one.node, {})[one.name] = one

    def drop(self, one: Stored) -> None:
        """Something is gone."""
        self._forget(one)

    def _forget(self, one: Stored) -> None:
        match one:
            case Claim():
                self.claims.pop(one.key, None)
            case Volume():
                known = self.volumes.pop(one.name, None)
                self._free.drop(one.name)
                if known is not None and known.claim is not None:
                    del self._taken[known.claim][one.name]
                    if not self._taken[known.claim]:
                        del self._taken[known.claim]
            case StorageClass():
                self.classes.pop(one.name, None)
            case NodeDrivers():
                self._on_node.pop(one.node, None)
            case StorageDriver():
                self.drivers.pop(one.name, None)
            case StorageCapacity():
                self._capacities.drop(one.name)
            case Attachment():
                before = self._attachments.pop(one.name, None)
                if before is not None:
                    del self._attached[before.node][one.name]

    # Asking

    def free(self, storage_class: str, node: str, labels: Mapping[str, str]) -> Iterator[Volume]:
        """Volumes of the class that are nobody's and may be had on the node."""
        for volume in self._free.near(storage_class, {**labels, _NAME: node}):
            if volume.reaches(node, labels):
                yield volume

    def promised(self, claim: ClaimKey) -> Iterable[Volume]:
        """Volumes that say they are for the claim, by name."""
        return [volume for _, volume in sorted(self._taken.get(claim, {}).items())]

    def waits(self, claim: Claim) -> bool:
        """Whether the claim is bound only when a pod wants it."""
        storage_class = self.classes.get(claim.storage_class) if claim.storage_class else None
        return storage_class is not None and storage_class.waits

    def limits(self, node: str) -> Mapping[str, int | None]:
        """The drivers of the node, and how many volumes each can attach to it; None: it does not say, and has no limit."""
        return self._on_node.get(node, {})

    def has_drivers(self, node: str) -> bool:
        """Whether the node tells of its CSI drivers at all."""
        return node in self._on_node

    @property
    def drivers_required(self) -> bool:
        """Whether there is a driver that wants none of its volumes on nodes without it."""
        return any(driver.required for driver in self.drivers.values())

    def serves(self, driver: str, node: str) -> bool:
        """Whether volumes of the driver may be wanted on the node: it is there, or does not mind if not."""
        known = self.drivers.get(driver)
        return known is None or not known.required or driver in self._on_node.get(node, {})

    def space(self, storage_class: str, size: int, labels: Mapping[str, str]) -> StorageCapacity | None:
        """What a volume of this size can be made of for a node with these labels; the first by name that is enough."""
        fitting = [
            one
            for one in self._capacities.near(storage_class, labels)
            if one.largest is not None and one.largest >= size and one.nodes and one.nodes.matches(labels)
        ]
        return min(fitting, key=lambda one: one.name, default=None)

    def attached(self, node: str) -> Iterable[Attachment]:
        return self._attached.get(node, {}).values()

    # Deciding

    def assume(self, uid: str, plan: VolumePlan) -> None:
        """The pod is about to be bound, and its volumes before it."""
        if len(self._plans) >= _MOST_PLANS:
            self._plans = {uid: plan for uid, plan in self._plans.items() if uid in self._placed}
        self._plans[uid] = plan

    def assumed(self, besides: str = "") -> Assumed:
        """What is decided for all pods but one."""
        volumes: dict[str, ClaimKey] = {}
        nodes: dict[ClaimKey, str] = {}
        for uid, plan in self._plans.items():
            if uid != besides and uid in self._placed:
                volumes.update((volume, claim) for claim, volume in plan.bindings)
                nodes.update((claim, plan.node) for claim in plan.provisions)
        return Assumed(volumes, nodes)


def _where(volume: Volume) -> Iterator[Where]:
    """The labels, or the name, of which nodes that the volume can be had on have one."""
    for term in volume.affinity or ():
        yield from one_of(term.labels or tuple(replace(name, key=_NAME) for name in term.names))
    if volume.affinity is None:
        yield from EVERYWHERE
