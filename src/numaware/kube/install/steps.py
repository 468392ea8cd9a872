"""What installing and removing would do to a cluster, object by object, and doing it.

Each object of ours has a label by which it is known again, so that whoever installs another way, or a newer release, loses what is not
wanted any more, and whoever uninstalls loses all of it and nothing else. What was there before and bears no such label belongs to
somebody else and is not touched.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal

import msgspec

from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.install.kinds import HOLDING, REMOVAL, resource_of
from numaware.kube.install.manifests import Object
from numaware.kube.resources import DEFINITIONS, NAMESPACES, Resource
from numaware.machine.words import printable

LABEL, OURS = "app.kubernetes.io/managed-by", "numaware"
_MANAGER = "numaware-install"
# What the API server writes of its own accord.
_BOOKKEEPING = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
_MOST_SHOWN = 60

Action = Literal["create", "change", "keep", "remove", "leave", "refuse"]


class Step(msgspec.Struct, frozen=True):
    """What is to be done with one object, or why not; `changes` are the fields that would be others."""

    action: Action
    kind: str
    name: str
    namespace: str = ""
    changes: tuple[str, ...] = ()
    why: str = ""
    uid: str = ""


async def planned(client: Client, wanted: Sequence[Object]) -> list[Step]:
    """What applying these would do, as the API server says; nothing is changed."""
    steps: list[Step] = []
    coming: set[str] = set()
    for document in wanted:
        step = await _planned(client, document, coming)
        if step.action == "create" and step.kind == NAMESPACES.kind:
            coming.add(step.name)
        steps.append(step)
    named = {(step.kind, step.namespace, step.name) for step in steps}
    async for resource, found in _ours(client):
        metadata = found["metadata"]
        identity = (resource.kind, metadata.get("namespace", ""), metadata["name"])
        if identity not in named and resource not in HOLDING:
            steps.append(_step("remove", resource, metadata, why="not wanted any more"))
    return steps


async def removal(client: Client, *, kinds: bool) -> list[Step]:
    """What there is of ours and would be removed; the kinds, with all that was published in them, only if that is wanted."""
    kept = "with what was published in it; --kinds removes it, too"
    return [
        _step("leave", resource, found["metadata"], why=kept)
        if resource is DEFINITIONS and not kinds
        else _step("remove", resource, found["metadata"])
        async for resource, found in _ours(client)
    ]


async def carried_out(client: Client, steps: Sequence[Step], wanted: Sequence[Object] = ()) -> list[Step]:
    """Do what was planned; what the API server did not let happen comes back as refused."""
    documents = {_identity(document): document for document in wanted}
    resources = {resource.kind: resource for resource in REMOVAL}
    done = []
    for step in steps:
        resource = resources[step.kind]
        try:
            if step.action in {"create", "change"}:
                document = documents[step.kind, step.namespace, step.name]
                await _apply(client, resource, document)
            elif step.action == "remove":
                await client.delete(resource, step.name, step.namespace, uid=step.uid)
        except ApiError as error:
            if step.action == "remove" and error.not_found:
                done.append(step)
                continue
            done.append(msgspec.structs.replace(step, action="refuse", why=str(error)))
        else:
            done.append(step)
    return done


async def _planned(client: Client, document: Object, coming: set[str]) -> Step:
    resource, metadata = resource_of(document), document["metadata"]
    present = await _present(client, resource, metadata)
    if present is not None and not _is_ours(present):
        if resource in HOLDING:
            return _step("leave", resource, metadata, why="was there before")
        return _step("refuse", resource, metadata, why=_whose(present))
    if metadata.get("namespace", "") in coming:
        # The API server has no answer for what is in a namespace that is not there.
        return _step("create", resource, metadata)
    try:
        answer = msgspec.json.decode(await _apply(client, resource, document, dry_run=True))
    except ApiError as error:
        return _step("refuse", resource, metadata, why=str(error))
    if present is None:
        return _step("create", resource, metadata)
    changes = tuple(_changes(_plain(present), _plain(answer)))
    return _step("change" if changes else "keep", resource, metadata, changes=changes)


async def _apply(client: Client, resource: Resource, document: Object, *, dry_run: bool = False) -> bytes:
    metadata = document["metadata"]
    labels = {**metadata.get("labels", {}), LABEL: OURS}
    body = {**document, "metadata": {**metadata, "labels": labels}}
    return await client.apply(
        resource,
        metadata["name"],
        body,
        metadata.get("namespace", ""),
        manager=_MANAGER,
        strict=True,
        dry_run=dry_run,
    )


async def _present(client: Client, resource: Resource, metadata: Object) -> Object | None:
    try:
        answer: Object = msgspec.json.decode(
            await client.get(resource, metadata["name"], metadata.get("namespace", ""))
        )
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return answer


async def _ours(client: Client) -> AsyncIterator[tuple[Resource, Object]]:
    for resource in REMOVAL:
        async for page in client.list(resource, label_selector=f"{LABEL}={OURS}"):
            for raw in page.items:
                yield resource, msgspec.json.decode(raw)


def _is_ours(document: Object) -> bool:
    return bool((document["metadata"].get("labels") or {}).get(LABEL) == OURS)


def _whose(document: Object) -> str:
    release = (document["metadata"].get("annotations") or {}).get("meta.helm.sh/release-name", "")
    if release:
        return f"Helm has installed it: helm upgrade or helm uninstall {printable(release, 60)}"
    return "was there before, and `numaware install` has not made it; remove it first"


def _identity(document: Object) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _step(
    action: Action,
    resource: Resource,
    metadata: Object,
    *,
    changes: tuple[str, ...] = (),
    why: str = "",
) -> Step:
    namespace = metadata.get("namespace", "")
    return Step(action, resource.kind, metadata["name"], namespace, changes, why, metadata.get("uid", ""))


def _plain(document: Object) -> Object:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _BOOKKEEPING}
    return {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}


def _changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The fields that differ, each as `spec.replicas: 2 -> 3`; lists of one length by their items."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changes(old, new, f"{path}[{index}]")
    elif before != after:
        yield f"{path}: {_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else printable(msgspec.json.encode(value).decode(), _MOST_SHOWN)
