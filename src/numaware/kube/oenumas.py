"""openFuyao's Oenuma: which pods sit together on which NUMA node, and whether its runtime plug-in may act on that.

All nodes share one object. An agent writes its own entry in it and nothing else, and only if nobody has written the object
since it was read: whoever comes second reads again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.resources import OENUMAS

# The words of the switch; to openFuyao's plug-in anything but the first means no.
ENABLE, DISABLE = "enable", "disable"


class _Spec(Wire):
    updateenable: str = ""

    @property
    def acts(self) -> bool:
        return self.updateenable.lower() == ENABLE


class Oenuma(Wire):
    """The part that is switched. `updateenable` is as somebody wrote it."""

    metadata: Metadata
    spec: _Spec

    @property
    def acts(self) -> bool:
        """Whether pods may be moved."""
        return self.spec.acts


class NumaPart(msgspec.Struct, frozen=True, rename="camel"):
    """What a NUMA node of the node has: lists of CPUs and of memory nodes."""

    numa_num: int
    cpuset: str
    memset: str


class PlacedContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container and what it may use."""

    container_id: str
    name: str
    cpuset: str
    memset: str


class PlacedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that was put on a NUMA node."""

    numa_num: int
    pod_name: str
    namespace: str
    containers: tuple[PlacedContainer, ...] = ()


class NodeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """What stands in the object of one node."""

    name: str
    numa: tuple[NumaPart, ...] = ()
    pod_affinity: tuple[PlacedPod, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As it stands in JSON."""
        return msgspec.json.decode(msgspec.json.encode(self), type=dict[str, Any])


class _AllNodes(_Spec):
    # Whatever stands in entries of others is theirs.
    node: tuple[Any, ...] | None = None


class Shared(Wire):
    """The object with the entries of all nodes."""

    metadata: Metadata
    spec: _AllNodes = msgspec.field(default_factory=_AllNodes)

    @property
    def acts(self) -> bool:
        """Whether pods may be moved."""
        return self.spec.acts

    def entry(self, node: str) -> object:
        """What stands there of a node, None if nothing does."""
        place = self.place(node)
        return None if place is None else (self.spec.node or ())[place]

    def place(self, node: str) -> int | None:
        """Where that stands."""
        entries = enumerate(self.spec.node or ())
        return next((at for at, one in entries if isinstance(one, dict) and one.get("name") == node), None)

    def size_with(self, entry: NodeEntry) -> int:
        """How many bytes all entries would have with this one."""
        others = [one for one in self.spec.node or () if one != self.entry(entry.name)]
        return len(msgspec.json.encode([*others, entry]))


_OENUMA = Reader("Oenuma", Oenuma)
_SHARED = Reader("Oenuma", Shared)


async def read(client: Client, name: str, namespace: str) -> Oenuma:
    """The object as it is now."""
    return _OENUMA.answered(await client.get(OENUMAS, name, namespace))


async def write(client: Client, before: Oenuma, word: str) -> Oenuma:
    """Another word; `ApiError.conflict` if anybody has written the object since it was read."""
    return _OENUMA.answered(await client.replace_field(OENUMAS, before.metadata, "/spec/updateenable", word))


async def read_shared(client: Client, name: str, namespace: str, within: float) -> Shared:
    """The object as it is now, with the entries of all nodes."""
    return _SHARED.answered(await client.get(OENUMAS, name, namespace, within=within))


async def write_entry(client: Client, before: Shared, entry: NodeEntry, within: float) -> None:
    """The entry of one node; `ApiError.conflict` if anybody has written the object since it was read."""
    plain, at = entry.plain(), before.place(entry.name)
    if before.spec.node is None:
        await client.replace_field(OENUMAS, before.metadata, "/spec/node", [plain], within=within)
    elif at is None:
        await client.replace_field(OENUMAS, before.metadata, "/spec/node/-", plain, within=within)
    else:
        path = f"/spec/node/{at}"
        await client.replace_field(OENUMAS, before.metadata, path, plain, op="replace", within=within)


async def create(client: Client, name: str, namespace: str, entry: NodeEntry, within: float) -> None:
    """The object with its first entry, switched on; `ApiError.conflict` if somebody was first."""
    spec = {"name": name, "replicas": 1, "updateenable": ENABLE, "node": [entry.plain()]}
    body = {**OENUMAS.head, "metadata": {"name": name, "namespace": namespace}, "spec": spec}
    await client.create(OENUMAS, body, namespace, within=within)
