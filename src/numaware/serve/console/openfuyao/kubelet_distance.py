"""NUMA distance on a live cluster: an order to all kubelets, which the agents of their nodes carry out one by one.

Switching it on sets `prefer-closest-numa-nodes`; where a kubelet has no topology policy or does not pin CPUs, that is configured
on the way, since the option means nothing without. If a node does not come up with it, it is put back by its agent, and the
nodes before it are put back from here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import structlog
import yaml
from msgspec.structs import replace

from numaware.kube import kubelet_policies
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.kubelet_policies import KubeletPolicy, NodeStatus
from numaware.kube.nodes import decode as decode_node
from numaware.kube.resources import KUBELET_POLICIES, NODES
from numaware.kube.reviews import may_i
from numaware.kube.transport import Clock, Sleep
from numaware.sentence import Sentence
from numaware.serve.console.world import DISTANCE, Progress, Status, Switch, SwitchError, unread_switch
from numaware.twin.options import PREFER_CLOSEST

NAME = "numa-distance"
PLACE = f"KubeletPolicy {NAME}"
# The kubelet looks at the option only with a policy, and few pods have hints without pinned CPUs.
_ON_THE_WAY = {
    "topologyManagerPolicy": "best-effort",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "recommended",
}
_SECONDS_BETWEEN_LOOKS = 0.5
# A node whose agent has not said a word by then has none that knows of orders.
_SILENT_SECONDS = 20.0
_OVER = ("Done", "RolledBack", "NotAllowed")

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
        return self._switch.conf if status == self._switch.status else _conf(_spec(status))

    async def move(self, status: Status, by: str) -> bool:
        """Order it and wait until all nodes have it, or `SwitchError`."""
        if self._progress is not None:
            raise SwitchError(Sentence("it is being moved already"), busy=True)
        self._progress = Progress("writing")
        try:
            policy = await self._policy()
            if _status(policy) == status:
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
        spec = {**_spec(status), "order": "Apply", "attempt": attempt}
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
            entries = {name: policy.nodes[name] for name in nodes if name in policy.nodes}
            current = {
                name: one
                for name, one in entries.items()
                if one.wanted == ordered.wanted or one.phase == "NotAllowed"
            }
            waited = self._clock() - began
            failed = next((name for name, one in current.items() if one.phase in ("Failed", "Refused")), None)
            if failed is not None:
                await self._put_back(failed, current[failed].message)
            silent = [name for name in nodes if name not in entries]
            acting = [name for name in nodes if name in entries and entries[name].phase != "NotAllowed"]
            done = [name for name in acting if _is_over(current.get(name))]
            self._progress = Progress("switching", len(done), len(acting) + len(silent))
            if (not silent or waited >= _SILENT_SECONDS) and len(done) == len(acting):
                if not acting:
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
            # Of a node that has left the cluster an entry may be left, which nobody writes any more.
            entries = [policy.nodes[name] for name in await self._nodes() if name in policy.nodes]
            left = [one for one in entries if one.phase in ("Done", "Switching")]
            if not left:
                break
            self._progress = Progress("undoing", 0, len(left))
            await self._sleep(_SECONDS_BETWEEN_LOOKS)
        else:
            raise SwitchError(
                Sentence(
                    "node {node} did not take it, and not all kubelets were put back in time: {why}",
                    node=node,
                    why=message,
                )
            )
        problem = Sentence(
            "node {node} did not take it, and all kubelets were put back: {why}", node=node, why=message
        )
        raise SwitchError(problem, undone=True)

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
        conf = "" if policy is None else _conf(_shown(policy))
        self._switch = Switch(DISTANCE, _status(policy), place=PLACE, conf=conf)


def _is_over(entry: NodeStatus | None) -> bool:
    return entry is not None and entry.phase in _OVER


def _status(policy: KubeletPolicy | None) -> Status:
    if policy is None or policy.spec.order in ("RollBack", "Abort"):
        return "close"
    options = policy.spec.kubelet.get("topologyManagerPolicyOptions") or {}
    return "open" if options.get(PREFER_CLOSEST) == "true" else "close"


def _spec(status: Status) -> dict[str, Any]:
    on = status == "open"
    spec: dict[str, Any] = {
        "kubelet": {"topologyManagerPolicyOptions": {PREFER_CLOSEST: "true" if on else "false"}}
    }
    return {**spec, "whereMissing": _ON_THE_WAY} if on else spec


def _shown(policy: KubeletPolicy) -> dict[str, Any]:
    spec: dict[str, Any] = {"kubelet": dict(policy.spec.kubelet)}
    return {**spec, "whereMissing": dict(policy.spec.where_missing)} if policy.spec.where_missing else spec


def _conf(spec: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump({"spec": dict(spec)}, sort_keys=True)
    return text


def _locked(verb: str) -> Switch:
    missing = Sentence(
        "the account of this console may not {verb} {what}", verb=verb, what="kubeletpolicies.numaware.io"
    )
    return Switch(DISTANCE, "close", missing=missing, locked=True)


def _unread(error: ApiError) -> Switch:
    if error.status == 403:
        return _locked("get")
    if not error.not_found:
        return unread_switch(DISTANCE, PLACE, error)
    missing = Sentence(
        "the cluster does not know KubeletPolicy objects: deploy/crd/kubeletpolicies.yaml brings them"
    )
    return Switch(DISTANCE, "close", missing=missing)
