"""The wanted kubelet policy of a pool, as one object of the cluster: what is ordered in its spec, what became of it in its status.

Every agent keeps its own entry in the status. Whoever begins a node claims it with the version of the object it has read, so
that no two begin at once. The schema is in deploy/crd.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.errors import ApiError
from numaware.kube.resources import KUBELET_POLICIES
from numaware.machine.words import printable

if TYPE_CHECKING:
    # Commands that read an order's form do without the wires.
    from numaware.kube.client import Client

# What is ordered: carry it out, begin no further node, stop and put back what is half-way, or put back all that was done.
Order = Literal["Apply", "Pause", "Abort", "RollBack"]
# Where a node stands. `NotAllowed`: its agent may not change its kubelet; `Refused`: the plan does not allow it.
Phase = Literal["Pending", "Switching", "Done", "Refused", "Failed", "RolledBack", "NotAllowed"]
_MOST_MESSAGE = 600
_MANAGER = "numaware-policy"


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is wanted on which nodes; `where_missing` counts only where a kubelet has no such setting of its own.

    `attempt` is counted up to try again what has failed.
    """

    node_selector: Mapping[str, str] = {}
    kubelet: Mapping[str, Any] = {}
    where_missing: Mapping[str, Any] = {}
    max_unavailable: int = 1
    drain: bool = False
    order: Order = "Apply"
    attempt: int = 0


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Where one node stands: with which order, at which step of how many, and why."""

    phase: Phase = "Pending"
    wanted: str = ""
    step: int = 0
    steps: int = 0
    message: str = ""
    time: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    nodes: Mapping[str, NodeStatus] = {}


class KubeletPolicy(Wire):
    """One object."""

    metadata: Metadata
    spec: PolicySpec = msgspec.field(default_factory=PolicySpec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def nodes(self) -> Mapping[str, NodeStatus]:
        return self.status.nodes

    @property
    def wanted(self) -> str:
        """What tells one order from another: the settings, and which attempt it is."""
        content = (
            sorted(self.spec.kubelet.items()),
            sorted(self.spec.where_missing.items()),
            self.spec.attempt,
        )
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:12]

    def with_entry(self, node: str, entry: NodeStatus) -> KubeletPolicy:
        """The object after this node has written its entry."""
        status = msgspec.structs.replace(self.status, nodes={**self.nodes, node: entry})
        return msgspec.structs.replace(self, status=status)

    def covers(self, labels: Sequence[tuple[str, str]]) -> bool:
        """Whether a node with these labels belongs to it; no selector means all."""
        return self.spec.node_selector.items() <= dict(labels).items()


_POLICY = Reader("KubeletPolicy", KubeletPolicy)


def decode(raw: bytes | msgspec.Raw) -> KubeletPolicy:
    """One object; `DecodeError` for what cannot be read."""
    return _POLICY.read(raw)


async def read(client: Client, name: str) -> KubeletPolicy:
    """The object as it is now."""
    return _POLICY.answered(await client.get(KUBELET_POLICIES, name))


async def read_all(client: Client) -> list[KubeletPolicy]:
    """All of them, by name."""
    found = [decode(item) async for page in client.list(KUBELET_POLICIES) for item in page.items]
    return sorted(found, key=lambda policy: policy.name)


async def order(client: Client, name: str, spec: Mapping[str, Any]) -> KubeletPolicy:
    """These fields of its spec, in an object that is made if there is none; fields of the spec that are not named stay."""
    patch = {"spec": spec}
    try:
        return _POLICY.answered(await client.patch(KUBELET_POLICIES, name, patch))
    except ApiError as error:
        if not error.not_found:
            raise
    body = {**KUBELET_POLICIES.head, "metadata": {"name": name}, "spec": spec}
    return _POLICY.answered(await client.create(KUBELET_POLICIES, body))


async def order_anew(client: Client, name: str, spec: Mapping[str, Any]) -> KubeletPolicy:
    """All of its spec; what was ordered before and has failed is tried again. `ApiError.conflict` if somebody else orders, too."""
    try:
        before = await read(client, name)
    except ApiError as error:
        if not error.not_found:
            raise
        return await order(client, name, spec)
    metadata = {"name": name, "resourceVersion": before.metadata.resource_version}
    again = {**spec, "attempt": before.spec.attempt + 1}
    body = {**KUBELET_POLICIES.head, "metadata": metadata, "spec": again}
    return _POLICY.answered(await client.update(KUBELET_POLICIES, name, body))


async def order_tried(client: Client, name: str, spec: Mapping[str, Any]) -> KubeletPolicy:
    """The order as it would be, if the API server would take it; nothing is written."""
    body = {**KUBELET_POLICIES.head, "metadata": {"name": name}, "spec": spec}
    await client.apply(KUBELET_POLICIES, name, body, manager=_MANAGER, strict=True, dry_run=True)
    return decode(msgspec.json.encode(body))


async def claim(client: Client, policy: KubeletPolicy, node: str, status: NodeStatus) -> KubeletPolicy:
    """A node's entry, if nobody has written the object since it was read; else `ApiError.conflict`."""
    return await _write(client, policy, node, status, policy.metadata.resource_version)


async def report(client: Client, policy: KubeletPolicy, node: str, status: NodeStatus) -> KubeletPolicy:
    """A node's entry, whatever others wrote meanwhile: it is this node's alone."""
    return await _write(client, policy, node, status, "")


async def _write(
    client: Client, policy: KubeletPolicy, node: str, status: NodeStatus, version: str
) -> KubeletPolicy:
    shown = msgspec.to_builtins(
        msgspec.structs.replace(status, message=printable(status.message, _MOST_MESSAGE))
    )
    body: dict[str, Any] = {"status": {"nodes": {node: shown}}}
    if version:
        body["metadata"] = {"resourceVersion": version}
    answer = await client.patch(KUBELET_POLICIES, policy.name, body, subresource="status")
    return _POLICY.answered(answer)
