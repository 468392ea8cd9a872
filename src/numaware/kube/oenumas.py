"""openFuyao's Oenuma: which pods sit together on which NUMA node, and whether its runtime plug-in may act on that."""

from __future__ import annotations

from numaware.kube.client import Client
from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.resources import OENUMAS


class _Spec(Wire):
    updateenable: str = ""


class Oenuma(Wire):
    """The part that is switched. `updateenable` is as somebody wrote it."""

    metadata: Metadata
    spec: _Spec

    @property
    def acts(self) -> bool:
        """Whether the plug-in moves pods; to it anything but this word means no."""
        return self.spec.updateenable.lower() == "enable"


_OENUMA = Reader("Oenuma", Oenuma)


async def read(client: Client, name: str, namespace: str) -> Oenuma:
    """The object as it is now."""
    return _OENUMA.answered(await client.get(OENUMAS, name, namespace))


async def write(client: Client, before: Oenuma, word: str) -> Oenuma:
    """Another word; `ApiError.conflict` if anybody has written the object since it was read."""
    return _OENUMA.answered(await client.replace_field(OENUMAS, before.metadata, "/spec/updateenable", word))
