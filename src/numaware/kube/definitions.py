"""Kinds of objects that somebody has to define first (a CustomResourceDefinition): how to say that one is missing, and to wait for it.

Whoever watches such a kind hears 404 until it is defined (`reflector.py`). Asking again and again from every node of a large
cluster would be a burden, and asking seldom makes people wait; so the definition itself is watched while it is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Condition, Metadata, Reader, Wire, condition
from numaware.kube.reflector import Reflector
from numaware.kube.resources import (
    DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_TRAFFICS,
    NUMATOPOLOGIES,
    OENUMAS,
    WHITELISTS,
    Resource,
)

# What to do about a kind that is missing.
_REMEDIES = {
    kind: f"kubectl apply -f deploy/crd/{file}.yaml"
    for kind, file in (
        (NODE_RESOURCE_TOPOLOGIES, "noderesourcetopology"),
        (NODE_TRAFFICS, "nodetraffics"),
        (NUMATOPOLOGIES, "numatopologies"),
        (OENUMAS, "oenumas"),
        (WHITELISTS, "whitelists"),
    )
}


class _Version(Wire):
    name: str = ""
    served: bool = False


class _Spec(Wire):
    versions: tuple[_Version, ...] = ()


class _Status(Wire):
    conditions: tuple[Condition, ...] | None = None


class _Definition(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_DEFINITION = Reader("CustomResourceDefinition", _Definition)


def missing_text(resource: Resource) -> str:
    """That the API server does not know a kind, and which command ends that."""
    return f"this cluster has no {resource.kind} ({resource.group}/{resource.version}): {remedy(resource)}"


def remedy(resource: Resource) -> str:
    """The command that defines a kind, where it is one that we ship."""
    return _REMEDIES.get(resource, "install what defines it")


def waiting_for(client: Client, resource: Resource) -> Callable[[], Coroutine[None, None, None]]:
    """A wait that is over when the kind is defined; one that lasts for ever where its definition may not be watched."""
    name = f"{resource.plural}.{resource.group}"

    async def wait() -> None:
        defined = asyncio.Event()

        def decode(raw: bytes) -> bool | None:
            found = _DEFINITION.read(raw)
            if found.metadata.name == name and _serves(found, resource.version):
                defined.set()
            return None

        reflector = Reflector(client, DEFINITIONS, decode, field_selector=f"metadata.name={name}")
        watching = asyncio.create_task(reflector.run())
        try:
            await defined.wait()
        finally:
            watching.cancel()
            await asyncio.wait((watching,))

    return wait


def _serves(definition: _Definition, version: str) -> bool:
    established = condition(definition.status.conditions, "Established").status == "True"
    return established and any(one.name == version and one.served for one in definition.spec.versions)
