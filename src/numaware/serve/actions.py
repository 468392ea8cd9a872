"""What a scheduler does to a cluster: binds pods, and says on each pod why it has no node.

`KubeActions` is what `scheduler.py` and `extender.py` act through. A bind must not happen twice or by half, so `bind` returns
only when its outcome is certain. Conditions and events are written by `run`, beside the scheduler: the newest message of a pod
replaces one that has not been written yet, and what the pod already says is not written again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from numaware.kube import pods
from numaware.kube.client import Client
from numaware.kube.decoding import DecodeError
from numaware.kube.errors import ApiError
from numaware.kube.events import EventWriter, Subject
from numaware.kube.pods import LivePod
from numaware.kube.resources import PODS
from numaware.serve.scheduler import Bound

_log = structlog.get_logger(__name__)

# As kube-scheduler has them.
_UNSCHEDULABLE = "Unschedulable"
_FAILED = "SchedulerError"
# Ours: nothing is wrong, and no autoscaler could help.
_VOLUMES = "WaitingForVolumes"
# A call that binds takes no longer, nor so much of the time that a leader may go without renewing its lease: a process that was
# stopped for a while and wakes up gives the call up before it is sent, and does not bind what another has given away meanwhile.
BIND_SECONDS = 8.0
_PART_OF_LEASE = 0.8
# Seconds between two looks at a pod of which nobody knows whether it was bound.
_LOOKS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Pods that wait for a word on them; beyond that the oldest word is not said.
_MOST_WORDS = 10_000
_SECONDS_BEFORE_RETRY = 1.0


class KubeActions:
    """The actions of a scheduler on a real API server. `run` is to be running beside the scheduler."""

    def __init__(
        self,
        client: Client,
        events: EventWriter,
        *,
        renew_deadline: float = BIND_SECONDS / _PART_OF_LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._events = events
        self._bind_within = min(BIND_SECONDS, _PART_OF_LEASE * renew_deadline)
        self._now = now
        self._sleep = sleep
        # What is to be said of each pod: the reason, for programs, and the message.
        self._words: dict[str, tuple[LivePod, str, str]] = {}
        self._news = asyncio.Event()

    async def bind(self, pod: LivePod, node: str, annotations: dict[str, str]) -> Bound:
        """Bind, and if the answer leaves it open whether that happened, look until it is known.

        An event costs the API server about as much as a bind, so in a burst pods get their nodes first.
        """
        self._events.hold()
        try:
            await self._client.bind(
                pod.namespace, pod.name, pod.uid, node, annotations, within=self._bind_within
            )
        except ApiError as error:
            if error.not_found:
                return "gone"
            if error.conflict or error.uncertain:
                return await self._look(pod, node)
            _log.warning("bind failed", pod=pod.full_name, node=node, error=str(error))
            return "failed"
        finally:
            self._events.go_on()
        return "bound"

    async def _look(self, pod: LivePod, node: str) -> Bound:
        for seconds in _LOOKS:
            try:
                seen = pods.decode(await self._client.get(PODS, pod.name, pod.namespace))
            except ApiError as error:
                if error.not_found:
                    return "gone"
                _log.warning("cannot see whether a pod was bound", pod=pod.full_name, error=str(error))
            except DecodeError:
                return "failed"
            else:
                if seen.uid != pod.uid:
                    return "gone"
                if seen.node:
                    return "bound" if seen.node == node else "elsewhere"
                return "failed"
            await self._sleep(seconds)
        # Trying again is safe whatever happened: the API server refuses a second bind.
        return "failed"

    def scheduled(self, pod: LivePod, node: str) -> None:
        """An event for people who look at the pod; its PodScheduled condition comes with the bind itself."""
        self._words.pop(pod.uid, None)
        note = f"Successfully assigned {pod.full_name} to {node}"
        self._events.tell(subject(pod), "Normal", "Scheduled", "Binding", note)

    def unschedulable(self, pod: LivePod, message: str) -> None:
        """A condition for programs (autoscalers read it) and an event for people."""
        self._tell(pod, _UNSCHEDULABLE, message)

    def failed(self, pod: LivePod, message: str) -> None:
        """The same for a pod that could not be bound: no autoscaler could help that."""
        self._tell(pod, _FAILED, message)

    def awaits_volumes(self, pod: LivePod, message: str) -> None:
        """The same for a pod that keeps a place until its volumes are there."""
        self._tell(pod, _VOLUMES, message)

    def _tell(self, pod: LivePod, reason: str, message: str) -> None:
        """What the pod says already is not said again; what was to be said of it before is not said any more."""
        self._words.pop(pod.uid, None)
        said = pod.scheduled
        if said is not None and (said.reason, said.message) == (reason, message):
            return
        if len(self._words) >= _MOST_WORDS:
            del self._words[next(iter(self._words))]
        self._words[pod.uid] = pod, reason, message
        self._news.set()

    async def run(self) -> None:
        """Say what there is to say until cancelled."""
        while True:
            while self._words:
                uid = next(iter(self._words))
                await self._say(*self._words.pop(uid))
            self._news.clear()
            await self._news.wait()

    async def _say(self, pod: LivePod, reason: str, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        try:
            await self._client.patch_pod_status(pod.namespace, pod.name, pod.uid, {"conditions": [condition]})
        except ApiError as error:
            if error.not_found or error.conflict:
                return
            _log.warning("could not tell why a pod has no node", pod=pod.full_name, error=str(error))
            self._words.setdefault(pod.uid, (pod, reason, message))
            # A server in trouble gets no more of it.
            await self._sleep(_SECONDS_BEFORE_RETRY)
            return
        if reason == _VOLUMES:
            self._events.tell(subject(pod), "Normal", reason, "Scheduling", message)
        else:
            self._events.tell(subject(pod), "Warning", "FailedScheduling", "Scheduling", message)


def subject(pod: LivePod) -> Subject:
    """The pod as what an event is about."""
    return Subject("Pod", pod.name, pod.namespace, pod.uid)
