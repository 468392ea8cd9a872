"""Which placed pods have volumes: by node, for disks and limits, and by claim, for those that only one pod may have."""

from __future__ import annotations

from collections.abc import Iterable

from numaware.workload.disks import Disk
from numaware.workload.pod import Pod
from numaware.workload.storage import ClaimKey


class VolumeUsers:
    """Kept by `PlacedPods`; most pods have no volumes and are never heard of here."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Pod]] = {}
        self._of: dict[ClaimKey, set[str]] = {}
        self._where: dict[str, tuple[Pod, str]] = {}

    def place(self, pod: Pod, node: str) -> None:
        """The pod is on the node now."""
        scheduling = pod.scheduling
        if not scheduling.claims and not scheduling.disks:
            return
        self._where[pod.uid] = pod, node
        self._on.setdefault(node, {})[pod.uid] = pod
        for claim in scheduling.claims:
            self._of.setdefault((pod.namespace, claim), set()).add(pod.uid)

    def remove(self, uid: str) -> None:
        """The pod is gone; nothing happens if it had no volumes."""
        known = self._where.pop(uid, None)
        if known is None:
            return
        pod, node = known
        del self._on[node][uid]
        if not self._on[node]:
            del self._on[node]
        # Claims of ephemeral volumes have names that never come again.
        for claim in {*pod.scheduling.claims}:
            users = self._of[pod.namespace, claim]
            users.remove(uid)
            if not users:
                del self._of[pod.namespace, claim]

    def on(self, node: str) -> Iterable[Pod]:
        """The pods with volumes on a node."""
        return self._on.get(node, {}).values()

    def conflicts(self, disk: Disk, node: str) -> bool:
        """Whether a pod on the node has the disk in a way that keeps others from it."""
        return any(disk.conflicts(other) for pod in self.on(node) for other in pod.scheduling.disks)

    def has_other(self, claim: ClaimKey, uid: str) -> bool:
        """Whether another pod than that one has the claim."""
        return bool(self._of.get(claim, set()) - {uid})
