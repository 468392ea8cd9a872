"""openFuyao's Oenuma: which pods sit together on which NUMA node, and whether its runtime plug-in may act on that."""

from __future__ import annotations

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.resources import OENUMAS


class Oenuma(msgspec.Struct, frozen=True):
    """The part that is switched. `update_enable` is as somebody wrote it."""

    name: str
    namespace: str
    version: str
    update_enable: str

    @property
    def acts(self) -> bool:
        """Whether the plug-in moves pods; to it anything but this word means no."""
        return self.update_enable.lower() == "enable"


async def read(client: Client, name: str, namespace: str) -> Oenuma:
    """The object as it is now."""
    return _decoded(await client.get(OENUMAS, name, namespace))


async def write(client: Client, before: Oenuma, update_enable: str) -> Oenuma:
    """Another word; `ApiError.conflict` if anybody has written the object since it was read."""
    path = "/spec/updateenable"
    return _decoded(
        await client.replace_field(
            OENUMAS, before.name, before.namespace, before.version, path, update_enable
        )
    )


class _Spec(Wire):
    updateenable: str = ""


class _Oenuma(Wire):
    metadata: Metadata
    spec: _Spec


_OENUMA = Reader("Oenuma", _Oenuma)


def _decoded(answer: bytes) -> Oenuma:
    wire = _OENUMA.answered(answer)
    metadata = wire.metadata
    return Oenuma(metadata.name, metadata.namespace, metadata.resource_version, wire.spec.updateenable)
