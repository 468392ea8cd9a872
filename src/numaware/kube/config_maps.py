"""ConfigMaps: one key of one of them, written anew without losing what others have written."""

from __future__ import annotations

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.resources import CONFIG_MAPS


class ConfigMap(Wire):
    """A map as it was when it was read."""

    metadata: Metadata
    data: dict[str, str] = msgspec.field(default_factory=dict)


_CONFIG_MAP = Reader("ConfigMap", ConfigMap)


async def read(client: Client, name: str, namespace: str) -> ConfigMap:
    """The map as it is now."""
    return _CONFIG_MAP.answered(await client.get(CONFIG_MAPS, name, namespace))


async def write(client: Client, before: ConfigMap, key: str, text: str) -> ConfigMap:
    """Another text under a key that is there; `ApiError.conflict` if anybody has written the map since it was read."""
    path = f"/data/{key.replace('~', '~0').replace('/', '~1')}"
    return _CONFIG_MAP.answered(await client.replace_field(CONFIG_MAPS, before.metadata, path, text))
