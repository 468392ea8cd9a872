"""What the scheduler and the extender do about the outcomes that `prediction_audit.py` finds.

Outcomes are counted, the owner of a storm gets an event, and refused pods are deleted where the user asked for that. Only the
process that leads does so, so that nothing is reported twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

import structlog

from numaware.diagnose.rules.storms import Storm
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.events import EventWriter, Subject
from numaware.kube.pods import LivePod
from numaware.kube.resources import PODS
from numaware.serve.actions import subject
from numaware.serve.metrics import Metrics
from numaware.serve.prediction_audit import PredictionAudit

_log = structlog.get_logger(__name__)

# Refused pods that wait to be deleted; beyond that they are left for the next time the pod is seen.
_MOST_LEFTOVERS = 1000


class OutcomeActions:
    """A listener. With `clean_up` it deletes refused pods of the schedulers called `names`, never others'."""

    def __init__(
        self,
        audit: PredictionAudit,
        events: EventWriter,
        metrics: Metrics,
        client: Client,
        *,
        names: Collection[str],
        clean_up: bool,
        leads: Callable[[], bool],
    ) -> None:
        self._audit = audit
        self._events = events
        self._metrics = metrics
        self._client = client
        self._names = frozenset(names)
        self._clean_up = clean_up
        self._leads = leads
        self._leftovers: asyncio.Queue[LivePod] = asyncio.Queue(_MOST_LEFTOVERS)

    def pod_changed(self, uid: str, pod: LivePod | None) -> None:
        """A pod is new, other, or gone."""
        if pod is None:
            self._audit.gone(uid)
            return
        audited = self._audit.seen(pod) if self._leads() else None
        if audited is None:
            return
        if audited.outcome is not None:
            self._metrics.predictions.labels(audited.outcome).inc()
        if audited.storm is not None:
            self._report(pod, audited.storm)
            if not audited.again:
                self._metrics.storms.inc()
        if self._clean_up and pod.refused and pod.scheduler in self._names and not self._leftovers.full():
            self._leftovers.put_nowait(pod)

    def nodes_changed(self, names: Collection[str]) -> None:
        """Of no concern here."""

    def volumes_changed(self, uids: Collection[str]) -> None:
        """Of no concern here."""

    def _report(self, pod: LivePod, storm: Storm) -> None:
        _log.warning("pods are refused again and again", owner=storm.owner, text=storm.text)
        owner = next((one for one in pod.owners if one.controller), None)
        about = (
            Subject(owner.kind, owner.name, pod.namespace, owner.uid, owner.api_version)
            if owner is not None
            else subject(pod)
        )
        self._events.tell(about, "Warning", "NumaAdmissionStorm", "HoldOff", storm.text, related=subject(pod))

    async def run(self) -> None:
        """Delete what is to be deleted until cancelled."""
        while True:
            pod = await self._leftovers.get()
            try:
                await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)
            except ApiError as error:
                if not (error.not_found or error.conflict):
                    _log.warning("could not delete a refused pod", pod=pod.full_name, error=str(error))
