"""May a pod have its volumes on a node, and what has to be done for that.

Mirrors the filters of kube-scheduler's plugins VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone (v1.37), in
the order in which they are asked, and the score of VolumeBinding. A pod's claims are sorted out once (`volume_rules`); what is then
asked of a node costs as much as the pod has claims. Only claims of classes that wait for their first consumer are looked at beside free volumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.schedule.filters.volume_users import VolumeUsers
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.storage import Assumed, Storage
from numaware.workload.disks import MIGRATED_TO
from numaware.workload.pod import Pod
from numaware.workload.storage import NO_PROVISIONER, READ_WRITE_ONCE_POD, Claim, Volume, VolumePlan

NO_DISK = Reason("disk-conflict")
IN_USE = Reason("claim-in-use")
TOO_MANY = Reason("volume-limit")
ELSEWHERE = Reason("volume-affinity")
NONE_TO_BIND = Reason("volume-binding")
NO_SPACE = Reason("volume-space")
OTHER_ZONE = Reason("volume-zone")
UNBOUND = Reason("claims-unbound")
UNKNOWN = Reason("volumes-unknown")

# Labels of a volume that say where it is, and as which label a node may say the same.
_ZONES = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
# Several zones in one label.
_BETWEEN_ZONES = "__"


class VolumeRules(msgspec.Struct, frozen=True):
    """One pod's volumes, sorted out: claims that have one, claims that wait for a node, zones, disks that it names itself.

    `in_use`: another pod has a claim that only one may have. `promised`: volumes that are kept for one of its claims.
    """

    pod: Pod
    users: VolumeUsers
    storage: Storage | None
    bound: tuple[Volume, ...] = ()
    unbound: tuple[Claim, ...] = ()
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    in_use: bool = False
    assumed: Assumed = Assumed({}, {})
    promised: tuple[Volume, ...] = ()

    def reasons(self, facts: NodeFacts) -> tuple[Reason, ...]:
        """Why the pod cannot have its volumes on the node, empty if it can."""
        if any(self.users.conflicts(disk, facts.name) for disk in self.pod.scheduling.disks):
            return (NO_DISK,)
        if self.in_use:
            return (IN_USE,)
        if self.storage is None:
            return ()
        reason = self._unattachable(self.storage, facts.name)
        if reason is not None:
            return (reason,)
        labels = dict(facts.labels)
        reasons = []
        if not all(volume.reaches(facts.name, labels) for volume in self.bound):
            reasons.append(ELSEWHERE)
        if self.unbound:
            plan = self._found(self.storage, facts.name, labels)
            if isinstance(plan, Reason):
                reasons.append(plan)
        if not reasons and self._in_other_zone(labels):
            reasons.append(OTHER_ZONE)
        return tuple(reasons)

    def plan(self, facts: NodeFacts) -> VolumePlan | None:
        """What has to be done before the pod is bound to a node that it can have its volumes on; None if nothing has."""
        if not self.unbound or self.storage is None:
            return None
        plan = self._found(self.storage, facts.name, dict(facts.labels))
        return plan if isinstance(plan, VolumePlan) else None

    def space_score(self, facts: NodeFacts) -> int:
        """How much is left of what the pod's volumes would be made of, or bound to, 0 to 100; 0 if nobody says."""
        plan = self.plan(facts)
        if plan is None or self.storage is None:
            return 0
        wanted = {claim.key: claim for claim in self.unbound}
        # What is asked for and what there is, by class; volumes that are there already count alone.
        classes: dict[str, tuple[int, int]] = {}
        for key, name in plan.bindings:
            claim, volume = wanted[key], self.storage.volumes[name]
            asked, there = classes.get(claim.storage_class, (0, 0))
            classes[claim.storage_class] = asked + claim.size, there + volume.size
        labels = dict(facts.labels)
        for key in plan.provisions if not plan.bindings else ():
            claim = wanted[key]
            space = self.storage.space(claim.storage_class, claim.size, labels)
            if space is not None and _tracked(self.storage, claim):
                asked, _ = classes.get(claim.storage_class, (0, 0))
                classes[claim.storage_class] = asked + claim.size, space.total
        left = [
            0 if not there or asked > there else 100 - 100 * asked // there
            for asked, there in classes.values()
        ]
        return (2 * sum(left) + len(left)) // (2 * len(left)) if left else 0

    def _in_other_zone(self, labels: Mapping[str, str]) -> bool:
        # KUBE-SCHEDULER: on a node without any label of a zone or region every volume is near.
        if not self.zones or not any(label in labels for label in _ZONES):
            return False
        return any(labels.get(label, labels.get(_ZONES[label])) not in values for label, values in self.zones)

    def _found(self, storage: Storage, node: str, labels: Mapping[str, str]) -> VolumePlan | Reason:
        """A volume for each claim that waits, or that it can be provisioned; else why not."""
        provisions: list[Claim] = []
        to_match: list[Claim] = []
        for claim in self.unbound:
            selected = self.assumed.nodes.get(claim.key, claim.selected_node)
            if selected and selected != node:
                return NONE_TO_BIND
            (provisions if selected else to_match).append(claim)
        bindings: dict[str, Claim] = {}
        for claim in sorted(to_match, key=lambda claim: (claim.size, claim.key)):
            volume = self._match(storage, claim, node, labels, bindings)
            if volume is None:
                provisions.append(claim)
            else:
                bindings[volume.name] = claim
        for claim in provisions:
            reason = _provisioning_reason(storage, claim, labels)
            if reason is not None:
                return reason
        return VolumePlan(
            node,
            tuple((claim.key, volume) for volume, claim in bindings.items()),
            tuple(claim.key for claim in provisions),
        )

    def _match(
        self,
        storage: Storage,
        claim: Claim,
        node: str,
        labels: Mapping[str, str],
        taken: Mapping[str, Claim],
    ) -> Volume | None:
        """The volume that is promised to the claim, or the smallest free one that will do."""
        own = next(
            (volume for volume in self.promised if volume.is_for(claim) and _suits(volume, claim)), None
        )
        if own is not None:
            return own if own.reaches(node, labels) else None
        fitting = [
            volume
            for volume in storage.free(claim.storage_class, node, labels)
            if volume.name not in taken
            and volume.name not in self.assumed.volumes
            and volume.phase == "Available"
            and _suits(volume, claim)
            and {*claim.modes} <= {*volume.modes}
            and (claim.selector is None or claim.selector.matches(dict(volume.labels)))
        ]
        return min(fitting, key=lambda volume: (volume.size, volume.name), default=None)

    def _unattachable(self, storage: Storage, node: str) -> Reason | None:
        """A driver that is not on the node and should be, or that would have to attach more volumes to it than it can."""
        limits = {driver: most for driver, most in storage.limits(node).items() if most is not None}
        if not limits and not storage.drivers_required:
            return None
        new = dict(_attachable(storage, self.pod, node))
        for driver in new.values():
            if not storage.serves(driver, node):
                return Reason("volume-driver", (driver,))
        if not any(driver in limits for driver in new.values()):
            return None
        there = {
            volume: driver
            for other in self.users.on(node)
            for volume, driver in _attachable(storage, other, node)
        }
        for one in storage.attached(node):
            volume = storage.volumes.get(one.volume)
            if volume is not None and volume.driver:
                there[f"{one.driver}/{volume.handle}"] = one.driver
        counts = Counter(there.values())
        wanted = Counter(driver for volume, driver in new.items() if volume not in there)
        exceeded = any(
            driver in limits and counts[driver] + number > limits[driver] for driver, number in wanted.items()
        )
        return TOO_MANY if exceeded else None


def volume_rules(storage: Storage | None, users: VolumeUsers, pod: Pod) -> VolumeRules | Reason | None:
    """The rules of a pod's volumes; a reason if no node can have them; None if every node can."""
    scheduling = pod.scheduling
    if not scheduling.claims and not scheduling.disks:
        return None
    if not scheduling.claims or storage is None:
        return VolumeRules(pod, users, storage)
    if not storage.known:
        return UNKNOWN
    claims = []
    for name in scheduling.claims:
        claim = _claim(storage, pod, name)
        if isinstance(claim, Reason):
            return claim
        claims.append(claim)
    unbound = tuple(claim for claim in claims if not claim.bound)
    if any(claim.volume or not storage.waits(claim) for claim in unbound):
        return UNBOUND
    bound: dict[str, Volume] = {}
    for claim in claims:
        if claim.bound:
            volume = storage.volumes.get(claim.volume)
            if volume is None:
                return Reason("volume-missing", (claim.volume,))
            bound[claim.name] = volume
    own = {*scheduling.ephemeral}
    assumed = storage.assumed(pod.uid) if unbound else Assumed({}, {})
    return VolumeRules(
        pod,
        users,
        storage,
        bound=tuple(bound.values()),
        unbound=unbound,
        zones=tuple(zone for name, volume in bound.items() if name not in own for zone in _zones(volume)),
        in_use=any(
            READ_WRITE_ONCE_POD in claim.modes and users.has_other(claim.key, pod.uid)
            for claim in claims
            if claim.name not in own
        ),
        assumed=assumed,
        promised=tuple(volume for claim in unbound for volume in _promised(storage, assumed, claim)),
    )


def _claim(storage: Storage, pod: Pod, name: str) -> Claim | Reason:
    """The claim of that name, if the pod may have it."""
    ephemeral = name in pod.scheduling.ephemeral
    claim = storage.claims.get((pod.namespace, name))
    if claim is None:
        return Reason("claim-awaited" if ephemeral else "claim-missing", (name,))
    if claim.phase == "Lost":
        return Reason("claim-lost", (name, claim.volume))
    if claim.deleting:
        return Reason("claim-deleted", (name,))
    if ephemeral and claim.owner != pod.uid:
        return Reason("claim-foreign", (f"{pod.namespace}/{name}", f"{pod.namespace}/{pod.name}"))
    return claim


def _promised(storage: Storage, assumed: Assumed, claim: Claim) -> Iterator[Volume]:
    """The volumes that are for this claim, or will be by what is decided."""
    for volume in storage.promised(claim.key):
        if assumed.volumes.get(volume.name, claim.key) == claim.key:
            yield volume
    for name, whose in assumed.volumes.items():
        if whose == claim.key and name in storage.volumes:
            # The volume as it will be.
            yield replace(storage.volumes[name], claim=whose, claim_uid="")


def _suits(volume: Volume, claim: Claim) -> bool:
    """Whether a volume that nobody else has can be the claim's, wherever it is."""
    return (
        volume.storage_class == claim.storage_class
        and volume.size >= claim.size
        and volume.block == claim.block
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def _zones(volume: Volume) -> Iterator[tuple[str, frozenset[str]]]:
    for label, value in volume.labels:
        if label in _ZONES:
            yield label, frozenset(value.split(_BETWEEN_ZONES))


def _provisioning_reason(storage: Storage, claim: Claim, labels: Mapping[str, str]) -> Reason | None:
    """Why no volume can be provisioned for the claim on a node with these labels."""
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return NONE_TO_BIND
    if storage_class.topologies and not any(
        all(labels.get(key) in values for key, values in term) for term in storage_class.topologies
    ):
        return NONE_TO_BIND
    if not _tracked(storage, claim) or storage.space(claim.storage_class, claim.size, labels):
        return None
    return NO_SPACE


def _tracked(storage: Storage, claim: Claim) -> bool:
    """Whether it is said how much can be provisioned of the claim's class."""
    storage_class = storage.classes.get(claim.storage_class)
    driver = storage.drivers.get(storage_class.provisioner) if storage_class is not None else None
    return driver is not None and driver.tracks and claim.size > 0


def _attachable(storage: Storage, pod: Pod, node: str) -> Iterable[tuple[str, str]]:
    """The volumes that a CSI driver attaches for the pod: what each is called, and the driver."""
    # A node that tells of no drivers at all attaches those of in-tree plugins as ever.
    migrated_to = MIGRATED_TO if storage.has_drivers(node) else {}
    for disk in pod.scheduling.disks:
        if disk.driver and migrated_to:
            yield f"{disk.driver}/{disk.name}", disk.driver
    for name in pod.scheduling.claims:
        claim = storage.claims.get((pod.namespace, name))
        if claim is None:
            continue
        volume = storage.volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            driver = volume.driver or migrated_to.get(volume.plugin, "")
            if driver and volume.handle:
                yield f"{driver}/{volume.handle}", driver
        elif storage_class := storage.classes.get(claim.storage_class):
            # Not there yet, but it will be one more.
            driver = migrated_to.get(storage_class.provisioner, storage_class.provisioner)
            yield f"{driver}/{claim.namespace}/{claim.name}", driver
