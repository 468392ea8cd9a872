"""Claims and volumes of a cluster, what CSI drivers say of its nodes, and what has been decided about them and not yet shown.

Fed by `serve/storage_watch.py`, judged by `filters/volumes.py`. A decision that gives a claim a volume, or a node to be
provisioned on, counts at once (`assume`), for as long as its pod counts as placed: when the pod is taken back, so is this.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

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
        self._of_class: dict[str, dict[str, Volume]] = {}
        self._capacities: dict[str, StorageCapacity] = {}
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
                self._of_class.setdefault(one.storage_class, {})[one.name] = one
            case StorageClass():
                self.classes[one.name] = one
            case NodeDrivers():
                self._on_node[one.node] = dict(one.drivers)
            case StorageDriver():
                self.drivers[one.name] = one
            case StorageCapacity():
                self._capacities[one.name] = one
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
                if known is not None:
                    del self._of_class[known.storage_class][one.name]
            case StorageClass():
                self.classes.pop(one.name, None)
            case NodeDrivers():
                self._on_node.pop(one.node, None)
            case StorageDriver():
                self.drivers.pop(one.name, None)
            case StorageCapacity():
                self._capacities.pop(one.name, None)
            case Attachment():
                before = self._attachments.pop(one.name, None)
                if before is not None:
                    del self._attached[before.node][one.name]

    # Asking

    def of_class(self, name: str) -> Iterable[Volume]:
        """The volumes of a class, by name."""
        return [volume for _, volume in sorted(self._of_class.get(name, {}).items())]

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

    def capacities(self, storage_class: str) -> Iterable[StorageCapacity]:
        """What there is for volumes of the class, by name."""
        return [one for _, one in sorted(self._capacities.items()) if one.storage_class == storage_class]

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
