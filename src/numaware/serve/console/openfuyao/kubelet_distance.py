"""NUMA distance on a live cluster: an order to all kubelets (`distance_order.py`), which the agents of their nodes carry out.

If a node does not come up with it, it is put back by its agent, and the nodes before it are put back from here.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from msgspec.structs import replace

from numaware.kube import kubelet_policies
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.kubelet_policies import KubeletPolicy
from numaware.kube.nodes import decode as decode_node
from numaware.kube.resources import KUBELET_POLICIES, NODES
from numaware.kube.reviews import may_i
from numaware.kube.transport import Clock, Sleep
from numaware.sentence import Sentence
from numaware.serve.console.openfuyao.distance_order import (
    NAME,
    PLACE,
    called_back,
    conf_for,
    conf_of,
    how_far,
    put_back,
    spec_of,
    status_of,
    still_to_go_back,
)
from numaware.serve.console.world import (
    DISTANCE,
    Progress,
    Status,
    Switch,
    SwitchError,
    locked_switch,
    unread_switch,
)

_SECONDS_BETWEEN_LOOKS = 0.5
# A node whose agent has not said a word by then has none that knows of orders.
_SILENT_SECONDS = 20.0

_log = structlog.get_logger(__name__)


class KubeletDistance:
    """The switch of one cluster. `patience` is how long all its kubelets may take, in seconds."""

    def __init__(
        self,
        client: Client,
        *,
        patience: float = 3600.0,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._switch = Switch(DISTANCE, "close", place=PLACE, broken=Sentence("it has not been read yet"))
        self._progress: Progress | None = None

    @property
    def switch(self) -> Switch:
        """As last read, and how far it is if it is being moved."""
        return replace(self._switch, progress=self._progress)

    async def read(self) -> None:
        """Look at the order, and whether one may be given."""
        try:
            policy = await self._policy()
            verbs = ("patch",) if policy is not None else ("create", "patch")
            for verb in verbs:
                if not await may_i(self._client, verb, KUBELET_POLICIES):
                    self._switch = _locked(verb)
                    return
            self._know(policy)
        except ApiError as error:
            self._switch = _unread(error)

    def switched(self, status: Status) -> str:
        """What would be ordered."""
        return self._switch.conf if status == self._switch.status else conf_for(status)

    async def move(self, status: Status, by: str) -> bool:
        """Order it and wait until all nodes have it, or `SwitchError`."""
        if self._progress is not None:
            raise SwitchError(Sentence("it is being moved already"), busy=True)
        self._progress = Progress("writing")
        try:
            policy = await self._policy()
            if status_of(policy) == status:
                return False
            ordered = await self._order(policy, status)
            _log.info("kubelets ordered", place=PLACE, status=status, by=by)
            await self._followed(ordered)
        except ApiError as error:
            raise SwitchError(Sentence("the API server says: {problem}", problem=str(error))) from None
        finally:
            self._progress = None
        return True

    async def _order(self, before: KubeletPolicy | None, status: Status) -> KubeletPolicy:
        attempt = before.spec.attempt + 1 if before is not None else 0
        spec = {**spec_of(status), "order": "Apply", "attempt": attempt}
        if status == "close":
            spec["whereMissing"] = None
        if before is None:
            spec = {key: value for key, value in spec.items() if value is not None}
        policy = await kubelet_policies.order(self._client, NAME, spec)
        self._know(policy)
        return policy

    async def _followed(self, ordered: KubeletPolicy) -> None:
        """Watch the nodes until all are done; the first that fails ends it, and those before it go back."""
        began = self._clock()
        while True:
            nodes = await self._nodes()
            policy = await kubelet_policies.read(self._client, NAME)
            self._know(policy)
            if policy.wanted != ordered.wanted or policy.spec.order in ("Abort", "RollBack"):
                raise called_back()
            far = how_far(policy, nodes, ordered.wanted)
            if far.failed:
                await self._put_back(far.failed, far.why)
            self._progress = Progress("switching", far.done, far.acting + far.silent)
            waited = self._clock() - began
            if (not far.silent or waited >= _SILENT_SECONDS) and far.done == far.acting:
                if not far.acting:
                    self._know(await kubelet_policies.order(self._client, NAME, {"order": "RollBack"}))
                    raise SwitchError(
                        Sentence(
                            "no agent may change its kubelet: none was started with --allow-kubelet-changes"
                        )
                    )
                return
            if waited >= self._patience:
                await kubelet_policies.order(self._client, NAME, {"order": "Pause"})
                raise SwitchError(Sentence("not all nodes were done in time; the order is paused"))
            await self._sleep(_SECONDS_BETWEEN_LOOKS)

    async def _put_back(self, node: str, message: str) -> None:
        """Call the order back; nodes that had it already go back, one by one."""
        await kubelet_policies.order(self._client, NAME, {"order": "RollBack"})
        began = self._clock()
        while self._clock() - began < self._patience:
            policy = await kubelet_policies.read(self._client, NAME)
            self._know(policy)
            left = still_to_go_back(policy, await self._nodes())
            if not left:
                break
            self._progress = Progress("undoing", 0, left)
            await self._sleep(_SECONDS_BETWEEN_LOOKS)
        else:
            raise SwitchError(
                Sentence(
                    "node {node} did not take it, and not all kubelets were put back in time: {why}",
                    node=node,
                    why=message,
                )
            )
        raise put_back(node, message)

    async def _nodes(self) -> list[str]:
        found = [decode_node(item) async for page in self._client.list(NODES) for item in page.items]
        return sorted(node.name for node in found)

    async def _policy(self) -> KubeletPolicy | None:
        """The order, None if there is none yet."""
        try:
            return await kubelet_policies.read(self._client, NAME)
        except ApiError as error:
            # A cluster that does not know the kind does not name the object.
            if error.not_found and NAME in error.message:
                return None
            raise

    def _know(self, policy: KubeletPolicy | None) -> None:
        self._switch = Switch(DISTANCE, status_of(policy), place=PLACE, conf=conf_of(policy))


def _locked(verb: str) -> Switch:
    return locked_switch(DISTANCE, verb, "kubeletpolicies.numaware.io")


def _unread(error: ApiError) -> Switch:
    if error.status == 403:
        return _locked("get")
    if not error.not_found:
        return unread_switch(DISTANCE, PLACE, error)
    missing = Sentence(
        "the cluster does not know KubeletPolicy objects: deploy/crd/kubeletpolicies.yaml brings them"
    )
    return Switch(DISTANCE, "close", missing=missing)
