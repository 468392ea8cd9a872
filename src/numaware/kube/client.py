"""The few calls we make to an API server.

Everything on this path is made for a scheduler that binds hundreds of pods a second: bodies are encoded straight from
values, the answer to a write is handed back as the bytes it came in, and nothing is looked up twice. What happens when the
server is busy or away is told in `transport`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from numaware.errors import InputError
from numaware.kube.decoding import Metadata
from numaware.kube.errors import ApiError, decoded, refusal
from numaware.kube.resources import PODS, Resource
from numaware.kube.transport import Transport
from numaware.kube.watching import WatchEvent, WatchLines

PatchKind = Literal["merge", "strategic", "json"]

_PATCHES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
# JSON is YAML, so the encoder serves this too.
_APPLY = "application/apply-patch+yaml"

# A server that restarts listens again within moments; one that answers slowly is asked once more, with more patience.
_LISTENS_SECONDS = 1.5
_ANSWERS_SECONDS = 8.0
_OTHER_CLUSTER = (
    "is it running, and is it the cluster you mean? Choose another one with --kubeconfig or --context"
)
_HINTS = {
    "Unreachable": _OTHER_CLUSTER,
    "Timeout": _OTHER_CLUSTER,
    "BadCertificate": "certificate-authority in the kubeconfig is not the one that has signed for this server",
    "Unauthorized": "the token or certificate in the kubeconfig is not accepted, or has expired",
}

_encode = msgspec.json.Encoder().encode


class Page(msgspec.Struct, frozen=True):
    """Part of a list: the objects as they came, and the resourceVersion that all parts of the list share."""

    items: list[msgspec.Raw]
    version: str


class _ListMeta(msgspec.Struct, rename={"version": "resourceVersion", "more": "continue"}):
    version: str = ""
    more: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_List)


class Client(Transport):
    """A session with one API server: `async with Client(await connect(None, None)) as client`."""

    async def server_version(self) -> str:
        """Which Kubernetes answers; `InputError` if none does, so that a person learns it in one line.

        A server that is slow is given time; where nobody listens, nobody is waited for.
        """
        try:
            answer = await self._greet()
            return msgspec.json.decode(answer, type=_Version).version
        except msgspec.MsgspecError:
            raise InputError(self._base, "what answers there is not a Kubernetes API server") from None
        except ApiError as error:
            problem = f"cannot talk to the API server: {error if error.status else error.message}"
            raise InputError(self._base, problem, hint=_HINTS.get(error.reason, "")) from None

    async def _greet(self) -> bytes:
        try:
            return await self._send("GET", "/version", safe=True, within=min(self._timeout, _LISTENS_SECONDS))
        except ApiError as error:
            if error.reason == "Unreachable":
                raise
        return await self._send("GET", "/version", safe=True, within=min(self._timeout, _ANSWERS_SECONDS))

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """One object."""
        return await self._send("GET", resource.path(namespace, name, subresource), safe=True, within=within)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        field_selector: str = "",
        label_selector: str = "",
        limit: int = 500,
    ) -> AsyncGenerator[Page, None]:
        """All objects that match, as they are now, a page at a time; `ApiError.gone` if reading took too long."""
        query = {"limit": str(limit)} | _selector(field_selector)
        if label_selector:
            query["labelSelector"] = label_selector
        while True:
            answer = await self._send("GET", f"{resource.path(namespace)}?{urlencode(query)}", safe=True)
            page = decoded(_LIST, answer, "a list")
            yield Page(page.items or [], page.metadata.version)
            if not page.metadata.more:
                return
            query["continue"] = page.metadata.more

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        version: str,
        field_selector: str = "",
        seconds: int = 300,
        quiet: float = 150.0,
    ) -> AsyncGenerator[WatchEvent, None]:
        """What changes after `version`, until the server ends the stream, which it does after about `seconds`.

        An ERROR event is raised as the `ApiError` it holds, and so is a stream that breaks, ends in mid-line or holds
        anything but events. A server sends a bookmark about every minute, so a stream that is `quiet` for much longer
        has died without a word and is given up too.
        """
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        } | _selector(field_selector)
        lines = WatchLines()
        async with aclosing(self._stream(f"{resource.path(namespace)}?{urlencode(query)}", quiet)) as chunks:
            async for chunk in chunks:
                for event in lines.feed(chunk):
                    if event.type == "ERROR":
                        raise refusal(0, {}, event.object)
                    yield event
                # A server that always has more must not keep everything else in this loop waiting.
                await asyncio.sleep(0)
        lines.end()

    async def create(
        self, resource: Resource, body: object, namespace: str = "", *, within: float | None = None
    ) -> bytes:
        """A new object; `ApiError.conflict` if there is one of that name."""
        return await self._send(
            "POST", resource.path(namespace), body=_encode(body), safe=False, within=within
        )

    async def update(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        within: float | None = None,
    ) -> bytes:
        """The whole object anew; `ApiError.conflict` if its resourceVersion is not the newest any more."""
        path = resource.path(namespace, name)
        return await self._send("PUT", path, body=_encode(body), safe=False, within=within)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        within: float | None = None,
    ) -> bytes:
        """Part of an object; strategic patches only exist for Kubernetes' own kinds, not for custom ones."""
        return await self._send(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=_encode(body),
            content=_PATCHES[kind],
            safe=kind != "json",
            within=within,
        )

    async def apply(
        self,
        resource: Resource,
        name: str,
        body: object,
        namespace: str = "",
        *,
        manager: str,
        force: bool = True,
        strict: bool = False,
        dry_run: bool = False,
        within: float | None = None,
    ) -> bytes:
        """Server-side apply: make the object have these fields and own them as `manager`; creates it if need be.

        With `strict` a field that its kind does not have is refused; with `dry_run` the answer is what would be, and nothing is.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        query |= ({"fieldValidation": "Strict"} if strict else {}) | ({"dryRun": "All"} if dry_run else {})
        return await self._send(
            "PATCH",
            f"{resource.path(namespace, name)}?{urlencode(query)}",
            body=_encode(body),
            content=_APPLY,
            safe=True,
            within=within,
        )

    async def replace_field(
        self,
        resource: Resource,
        before: Metadata,
        path: str,
        value: object,
        *,
        op: Literal["add", "replace"] = "add",
        within: float | None = None,
    ) -> bytes:
        """One field of an object anew, there before or not; `ApiError.conflict` if anybody has written the object since then.

        In a list `add` puts the value before what stands at that place, and `replace` in its place.

        A JSON patch is the one kind of write that nothing between here and the server sends twice: when it fails, it has
        failed because somebody else was first, or because nobody knows, but never because it had succeeded before.
        """
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": before.resource_version},
            {"op": op, "path": path, "value": value},
        ]
        return await self.patch(resource, before.name, patch, before.namespace, kind="json", within=within)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> bytes:
        """One object, and only if it still is the one with that `uid`."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._send("DELETE", resource.path(namespace, name), body=_encode(options), safe=True)

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
        *,
        within: float | None = None,
    ) -> None:
        """Give a pod its node, and its annotations in the same write.

        `ApiError.conflict` if it has one already or is another pod of that name by now.
        """
        metadata: dict[str, object] = {"name": name, "namespace": namespace, "uid": uid}
        if annotations:
            metadata["annotations"] = annotations
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._send(
            "POST", PODS.path(namespace, name, "binding"), body=_encode(body), safe=False, within=within
        )

    async def evict(self, namespace: str, name: str, uid: str, *, within: float | None = None) -> None:
        """Ask a pod to go, as budgets allow; status 429 if one does not, `ApiError.conflict` if it is another pod by now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = PODS.path(namespace, name, "eviction")
        await self._send("POST", path, body=_encode(body), safe=False, within=within)

    async def patch_pod_status(
        self, namespace: str, name: str, uid: str, status: Mapping[str, object]
    ) -> None:
        """Part of a pod's status; conditions are matched by their type, so one is set and the others stay."""
        body = {"metadata": {"uid": uid}, "status": status}
        await self.patch(PODS, name, body, namespace, kind="strategic", subresource="status")


class _Version(msgspec.Struct, rename={"version": "gitVersion"}):
    version: str


def _selector(field: str) -> dict[str, str]:
    return {"fieldSelector": field} if field else {}
