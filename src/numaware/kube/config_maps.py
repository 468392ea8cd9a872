"""ConfigMaps: one key of one of them, written anew without losing what others have written."""

from __future__ import annotations

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.resources import CONFIG_MAPS


class ConfigMap(msgspec.Struct, frozen=True):
    """A map as it was when it was read."""

    name: str
    namespace: str
    version: str
    data: dict[str, str]


async def read(client: Client, name: str, namespace: str) -> ConfigMap:
    """The map as it is now."""
    return _decoded(await client.get(CONFIG_MAPS, name, namespace))


async def write(client: Client, before: ConfigMap, key: str, text: str) -> ConfigMap:
    """Another text under a key that is there; `ApiError.conflict` if anybody has written the map since it was read."""
    path = f"/data/{key.replace('~', '~0').replace('/', '~1')}"
    return _decoded(
        await client.replace_field(CONFIG_MAPS, before.name, before.namespace, before.version, path, text)
    )


class _ConfigMap(Wire):
    metadata: Metadata
    data: dict[str, str] | None = None


_CONFIG_MAP = Reader("ConfigMap", _ConfigMap)


def _decoded(answer: bytes) -> ConfigMap:
    wire = _CONFIG_MAP.answered(answer)
    metadata = wire.metadata
    return ConfigMap(metadata.name, metadata.namespace, metadata.resource_version, wire.data or {})
