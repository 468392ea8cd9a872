"""The node as the API server has it: cordoned, emptied through the eviction API, and ready again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from numaware.kube.errors import ApiError
from numaware.kube.nodes import LiveNode, said_ready
from numaware.kube.nodes import decode as decode_node
from numaware.kube.pods import LivePod
from numaware.kube.pods import decode as decode_pod
from numaware.kube.resources import NODES, PODS

if TYPE_CHECKING:
    # A plan that asks no API server does without the wires to one.
    from numaware.kube.client import Client

_CALL_SECONDS = 10.0
_POLL_SECONDS = 0.5
_MOST_SHOWN = 5


class DrainError(Exception):
    """Pods that did not go within the time that was given, and why."""


class ClusterNode:
    """One node through a client; `ApiError` for what the API server refuses."""

    def __init__(self, client: Client, name: str) -> None:
        self.name = name
        self._client = client

    async def read(self) -> LiveNode:
        return decode_node(await self._client.get(NODES, self.name, within=_CALL_SECONDS))

    async def pods(self) -> list[LivePod]:
        """The pods of this node that have not ended, in the order in which they were made."""
        found = []
        async for page in self._client.list(PODS, field_selector=f"spec.nodeName={self.name}"):
            found += [decode_pod(item) for item in page.items]
        first = datetime.min.replace(tzinfo=UTC)
        return sorted(
            (pod for pod in found if not pod.finished), key=lambda pod: (pod.created or first, pod.full_name)
        )

    async def set_unschedulable(self, *, on: bool) -> None:
        body = {"spec": {"unschedulable": True if on else None}}
        await self._client.patch(NODES, self.name, body, within=_CALL_SECONDS)

    async def is_ready_since(self, moment: float) -> bool:
        """Whether its kubelet has said so itself since then: nobody takes back what a stopped one said last."""
        raw = await self._client.get(NODES, self.name, within=_CALL_SECONDS)
        said = said_ready(raw)
        # The API server keeps whole seconds.
        return said is not None and said.timestamp() >= int(moment)

    async def drain(self, uids: Sequence[str], seconds: float) -> None:
        """Evict these pods and wait until they are gone; a budget that says no is asked again until the time is over."""
        deadline = time.monotonic() + seconds
        asked: set[str] = set()
        refusals: dict[str, str] = {}
        while True:
            left = [pod for pod in await self.pods() if pod.uid in uids]
            if not left:
                return
            for pod in left:
                if pod.uid not in asked and await self._evicted(pod, refusals):
                    asked.add(pod.uid)
            if time.monotonic() >= deadline:
                why = [f"{pod.full_name}: {refusals.get(pod.uid, 'is still ending')}" for pod in left]
                raise DrainError("; ".join(why[:_MOST_SHOWN]))
            await asyncio.sleep(_POLL_SECONDS)

    async def _evicted(self, pod: LivePod, refusals: dict[str, str]) -> bool:
        try:
            await self._client.evict(pod.namespace, pod.name, pod.uid, within=_CALL_SECONDS)
        except ApiError as error:
            if error.not_found or error.conflict:
                return True
            if error.status != 429:
                raise
            refusals[pod.uid] = error.message
            return False
        return True


def leaves(pod: LivePod) -> bool:
    """Whether a drain moves it: not what stands on every node, nor what the kubelet has from a file."""
    return not any(owner.kind in ("DaemonSet", "Node") for owner in pod.owners)


def is_unmanaged(pod: LivePod) -> bool:
    """Whether nobody makes it anew when it is evicted."""
    return not pod.owners
