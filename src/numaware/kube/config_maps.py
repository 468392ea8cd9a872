"""ConfigMaps: one key of one of them, written anew without losing what others have written.

The write is a JSON patch, because that is the one kind of write that nothing between here and the server sends twice: when
it fails, it has failed because somebody else was first, or because nobody knows, but never because it had succeeded before.
"""

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
    place = key.replace("~", "~0").replace("/", "~1")
    patch = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": before.version},
        {"op": "replace", "path": f"/data/{place}", "value": text},
    ]
    return _decoded(await client.patch(CONFIG_MAPS, before.name, patch, before.namespace, kind="json"))


class _ConfigMap(Wire):
    metadata: Metadata
    data: dict[str, str] | None = None


_CONFIG_MAP = Reader("ConfigMap", _ConfigMap)


def _decoded(answer: bytes) -> ConfigMap:
    wire = _CONFIG_MAP.answered(answer)
    metadata = wire.metadata
    return ConfigMap(metadata.name, metadata.namespace, metadata.resource_version, wire.data or {})
