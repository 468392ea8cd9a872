"""The volumes of a pod, before the pod itself: what a decision planned for its claims is written, and waited for.

Mirrors BindPodVolumes of kube-scheduler's plugin VolumeBinding (v1.35). A claim that gets a volume which is there: the volume
is promised to it. A claim to be provisioned: the node is written on it, for the provisioner to see. Then the PersistentVolume
controller, or the provisioner, makes both sides fit, which may take minutes; the pod keeps its place on the node meanwhile. If
that fails the place is given back, and the pod is decided on anew from what the API server has by then: a volume that is
promised to its claim is taken up again, and a provisioner that gave up has taken the node off the claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from numaware.kube.storage import BOUND_BY_CONTROLLER, SELECTED_NODE
from numaware.schedule.storage import Storage
from numaware.workload.storage import Claim, ClaimKey, Volume, VolumePlan

# As kube-scheduler waits (bindTimeoutSeconds).
_SECONDS_TO_BIND = 600.0
_SECONDS_BETWEEN_LOOKS = 0.1
# Who waits no longer than this is not worth a word.
_SECONDS_UNSAID = 2.0


class VolumeBinder:
    """Binds volumes through an API server, and sees in `storage`, which somebody keeps up to date, what came of it.

    `labels_of` has the labels of a node; None if it is gone, which is for whoever binds the pod to notice.
    """

    def __init__(
        self,
        client: Client,
        storage: Storage,
        labels_of: Callable[[str], Mapping[str, str] | None],
        *,
        clock: Callable[[], float],
        seconds: float = _SECONDS_TO_BIND,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._storage = storage
        self._labels_of = labels_of
        self._clock = clock
        self._seconds = seconds
        self._sleep = sleep

    async def bind(
        self, plan: VolumePlan, still_wanted: Callable[[], bool], tell: Callable[[str], None]
    ) -> str:
        """Carry a plan out and wait until all claims have their volumes; what went wrong, empty if nothing did.

        Where that takes a while, `tell` is told once what is waited for.
        """
        try:
            await self._write(plan)
        except ApiError as error:
            return f"its volumes were not bound: {error}"
        began, told = self._clock(), False
        # Claims that have been seen with the node written on them: a provisioner that gives up takes it off again.
        selected: set[ClaimKey] = set()
        while still_wanted():
            problem = self._problem(plan, selected)
            if problem:
                return problem
            if self._is_done(plan):
                return ""
            waited = self._clock() - began
            if waited >= self._seconds:
                return f"its volumes were not bound within {self._seconds:.0f} s"
            if waited >= _SECONDS_UNSAID and not told:
                told = True
                tell(self._awaited(plan))
            await self._sleep(_SECONDS_BETWEEN_LOOKS)
        return "it is not to be bound there any more"

    async def _write(self, plan: VolumePlan) -> None:
        for key, name in plan.bindings:
            claim, volume = self._claim(key), self._storage.volumes.get(name)
            if volume is None:
                raise ApiError(404, "NotFound", f"volume {name} is gone")
            if not volume.is_for(claim) or not volume.claim_uid:
                body = _promise(volume, claim)
                await self._client.patch(PERSISTENT_VOLUMES, name, body)
        for key in plan.provisions:
            claim = self._claim(key)
            if claim.selected_node != plan.node:
                metadata = {"resourceVersion": claim.version, "annotations": {SELECTED_NODE: plan.node}}
                body = {"metadata": metadata}
                await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim.name, body, claim.namespace)

    def _claim(self, key: ClaimKey) -> Claim:
        claim = self._storage.claims.get(key)
        if claim is None:
            raise ApiError(404, "NotFound", f"claim {'/'.join(key)} is gone")
        return claim

    def _is_done(self, plan: VolumePlan) -> bool:
        return all(
            claim is not None and claim.bound and claim.volume in self._storage.volumes
            for claim in self._claims(plan)
        )

    def _awaited(self, plan: VolumePlan) -> str:
        """The claims that have no volume yet."""
        names = [
            f"{claim.namespace}/{claim.name}"
            for claim in self._claims(plan)
            if claim is not None and not claim.bound
        ]
        return f"claims {', '.join(names)}" if len(names) > 1 else f"claim {''.join(names)}"

    def _claims(self, plan: VolumePlan) -> list[Claim | None]:
        """The claims of a plan as they are; None for those that are gone."""
        return [
            self._storage.claims.get(key) for key in (*(key for key, _ in plan.bindings), *plan.provisions)
        ]

    def _problem(self, plan: VolumePlan, selected: set[ClaimKey]) -> str:
        """What makes waiting pointless."""
        for key, name in plan.bindings:
            if key not in self._storage.claims:
                return f"claim {'/'.join(key)} is gone"
            volume = self._storage.volumes.get(name)
            if volume is None:
                return f"volume {name} is gone"
            if volume.claim is not None and volume.claim != key:
                return f"volume {name} was given to another claim"
        for key in plan.provisions:
            claim = self._storage.claims.get(key)
            if claim is None:
                return f"claim {'/'.join(key)} is gone"
            if claim.selected_node == plan.node:
                selected.add(key)
            elif key in selected and not claim.bound:
                return f"claim {'/'.join(key)} could not be provisioned"
        return self._out_of_reach(plan)

    def _out_of_reach(self, plan: VolumePlan) -> str:
        """A volume that a claim got and the node cannot have: from a provisioner, or from whoever was faster than we were."""
        labels = self._labels_of(plan.node)
        for claim in self._claims(plan):
            volume = self._storage.volumes.get(claim.volume) if claim is not None and claim.bound else None
            if volume is not None and labels is not None and not volume.reaches(plan.node, labels):
                return f"volume {volume.name} cannot be had on {plan.node}"
        return ""


def _promise(volume: Volume, claim: Claim) -> dict[str, Any]:
    """A volume promised to a claim, if nobody has written it since it was seen; by whom is how it can be taken back."""
    reference = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.version,
    }
    metadata: dict[str, Any] = {"resourceVersion": volume.version}
    if not volume.is_for(claim):
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": metadata, "spec": {"claimRef": reference}}
