"""Watches of an API server: every change goes to `cluster_cache.py` first and then to the listeners.

So a scheduler that wakes because a pod has gone finds its CPUs free. `look` fills a cache once, for commands that end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import structlog
from msgspec.structs import replace

from numaware.kube import namespaces, nodes, pods, priority, replicas
from numaware.kube.client import Client
from numaware.kube.decoding import DecodeError
from numaware.kube.definitions import missing_text, waiting_for
from numaware.kube.errors import ApiError
from numaware.kube.namespaces import Namespace
from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.kube.priority import PriorityClass
from numaware.kube.reflector import Change, Reflector
from numaware.kube.replicas import Controller, Service
from numaware.kube.resources import (
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    PODS,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from numaware.kube.topology import nrt, volcano
from numaware.kube.topology.report import Report
from numaware.schedule.storage import Stored
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.dra_watch import CLASSES, DEVICES, DraFeed
from numaware.serve.node_estimate import unread_text
from numaware.serve.storage_watch import STORAGE_KINDS, StorageFeed
from numaware.workload.dra.objects import DraObject

_log = structlog.get_logger(__name__)

# Pods that have done their work hold nothing and owe no explanation.
_PODS_THAT_MATTER = "status.phase!=Succeeded"
# The server is heard of at least every other minute; after this long what is known may be anything.
_SECONDS_TO_WORRY = 300.0
_SECONDS_BETWEEN_LOOKS = 5.0
# How long what makes decisions better, but is not needed for them, is waited for at the start.
_SECONDS_OF_GRACE = 5.0
# Kinds whose pods are replicas of one thing, besides Services.
_CONTROLLERS = (
    ("replica sets", REPLICA_SETS, replicas.decode_controller),
    ("stateful sets", STATEFUL_SETS, replicas.decode_controller),
    ("replication controllers", REPLICATION_CONTROLLERS, replicas.decode_replication_controller),
)


class Listener(Protocol):
    """Somebody who acts on changes; the cluster cache knows of them already."""

    def pod_changed(self, uid: str, pod: LivePod | None) -> None:
        """A pod is new, other, or gone."""

    def nodes_changed(self, names: Collection[str]) -> None:
        """Something about these nodes is not as it was."""

    def volumes_changed(self, uids: Collection[str]) -> None:
        """Something about the volumes of these pods, which wait, is not as it was."""


class ClusterWatch:
    """Feeds `cluster_cache` from an API server and tells the listeners, while `run` runs.

    `decides` is for listeners who decide which pod comes first and beside whom: only they need to hear of PriorityClasses,
    Namespaces, and of Services and controllers, whose replicas are spread. Nobody depends on the latter two: without
    namespaces, only pods that select them by labels have no answer. `shows` is for those who show people where devices of DRA
    are. Claims and volumes are watched for a cluster that has
    `storage`; without them, only pods with claims have no answer.
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        listeners: Iterable[Listener],
        clock: Callable[[], float],
        *,
        decides: bool = False,
        shows: bool = False,
    ) -> None:
        self._cache = cache
        self._listeners = tuple(listeners)
        self._clock = clock
        self._known = asyncio.Event()

        def reflect(
            kind: str, resource: Resource, decode: Callable[[bytes], Any], on_change: Any, **more: Any
        ) -> None:
            def problem(key: str, message: str) -> None:
                _log.warning("an object cannot be read", kind=kind, object=key, problem=message)

            def trouble(error: ApiError) -> None:
                self._trouble(kind, error)

            self.reflectors[kind] = Reflector(
                client,
                resource,
                decode,
                on_change=on_change,
                on_problem=problem,
                on_trouble=trouble,
                clock=clock,
                **more,
            )

        # What kept each kind from being read when that was last tried in vain.
        self._causes: dict[str, str] = {}
        self._classes: dict[str, PriorityClass] = {}
        self.reflectors: dict[str, Reflector[Any]] = {}
        reflect("nodes", NODES, nodes.decode, self._node)
        reflect(
            "topologies",
            NODE_RESOURCE_TOPOLOGIES,
            nrt.decode,
            self._report,
            on_missing=_tell_missing,
            until_defined=waiting_for(client, NODE_RESOURCE_TOPOLOGIES),
        )
        reflect("Volcano topologies", NUMATOPOLOGIES, volcano.decode, self._report)
        reflect("pods", PODS, pods.decode, self._pod, field_selector=_PODS_THAT_MATTER)
        if decides:
            reflect("priority classes", PRIORITY_CLASSES, priority.decode, self._priority_class)
        self._needed = [*self.reflectors]
        if decides:
            reflect("namespaces", NAMESPACES, namespaces.decode, self._namespace)
            reflect("services", SERVICES, replicas.decode_service, self._service)
            for kind, resource, decode in _CONTROLLERS:
                reflect(kind, resource, decode, partial(self._controller, resource.kind))
        feed = DraFeed(cache)
        for one in (CLASSES, *DEVICES) if shows else (CLASSES,):
            # Said once, of the first of them.
            more = {"on_missing": _tell_no_dra} if one is CLASSES else {}
            reflect(one.name, one.resource, one.decode, partial(self._dra, feed), **more)
        storage = cache.engine.cluster.storage
        self._storage = None if storage is None else StorageFeed(cache, storage)
        if self._storage is not None:
            for each in STORAGE_KINDS:
                reflect(each.name, each.resource, each.decode, partial(self._stored, self._storage))

    async def run(self) -> None:
        """Watch until cancelled."""
        # Lists have no order; the cache sorts what they bring by the time it happened, once all have come.
        self._cache.pause()
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors.values():
                tasks.create_task(reflector.run())
            if "namespaces" in self.reflectors:
                tasks.create_task(self._know_namespaces(self.reflectors["namespaces"]))
            if self._storage is not None:
                tasks.create_task(self._know_storage(self._storage))
            for kind in self._needed:
                await self.reflectors[kind].synced.wait()
            await self._grace()
            self._tell_nodes(self._cache.resume())
            self._known.set()
            while True:
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
                self._tell_nodes(self._cache.refresh())

    async def _grace(self) -> None:
        """Wait a little for the kinds that nobody depends on, unless they cannot be read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_OF_GRACE):
                for one in self.reflectors.values():
                    while not one.synced.is_set() and not one.in_trouble:  # noqa: ASYNC110 - of trouble there is no event
                        await asyncio.sleep(0.02)

    async def synced(self) -> None:
        """Return when everything that there is has been listed once."""
        await self._known.wait()

    def unready(self) -> str:
        """Why what is known should not be acted on, empty if it may be."""
        now = self._clock()
        for kind in self._needed:
            reflector = self.reflectors[kind]
            if not reflector.synced.is_set():
                return f"{kind} have not been listed yet"
            if reflector.last_contact is not None and now - reflector.last_contact > _SECONDS_TO_WORRY:
                return f"nothing has been heard of {kind} for {now - reflector.last_contact:.0f} s"
        return ""

    def _trouble(self, kind: str, error: ApiError) -> None:
        """One line for each cause: a server that is away is away for all kinds."""
        cause = _cause(kind, error)
        logged = {
            self._causes.get(other) for other, reflector in self.reflectors.items() if reflector.in_trouble
        }
        self._causes[kind] = cause
        if cause not in logged:
            _log.warning(cause, kind=kind, problem=str(error))

    # What the watches bring

    async def _know_namespaces(self, reflector: Reflector[Namespace]) -> None:
        await reflector.synced.wait()
        self._tell_nodes(self._cache.know_namespaces())

    async def _know_storage(self, feed: StorageFeed) -> None:
        for each in STORAGE_KINDS:
            await self.reflectors[each.name].synced.wait()
        self._tell_volumes(feed.know())

    def _stored(self, feed: StorageFeed, change: Change[Stored]) -> None:
        self._tell_volumes(feed.put(change.old, change.new))

    def _dra(self, feed: DraFeed, change: Change[DraObject]) -> None:
        self._tell_nodes(feed.put(change.old, change.new))

    def _namespace(self, change: Change[Namespace]) -> None:
        labels = change.new.labels if change.new is not None else None
        self._tell_nodes(self._cache.put_namespace(change.key, labels))

    def _service(self, change: Change[Service]) -> None:
        namespace, _, name = change.key.partition("/")
        selector = change.new.selector if change.new is not None else None
        self._cache.engine.cluster.selectors.set_service(namespace, name, selector)

    def _controller(self, kind: str, change: Change[Controller]) -> None:
        namespace, _, name = change.key.partition("/")
        selector = change.new.selector if change.new is not None else None
        self._cache.engine.cluster.selectors.set_owner((kind, namespace, name), selector)

    def _priority_class(self, change: Change[PriorityClass]) -> None:
        """Pods carry their priority in numbers, unless the admission that writes them is off."""
        if change.new is None:
            self._classes.pop(change.key, None)
        else:
            self._classes[change.key] = change.new
        for pod in [*self.reflectors["pods"].items.values()]:
            if not pod.node and pod.pod.scheduling.priority is None:
                for listener in self._listeners:
                    listener.pod_changed(pod.uid, self._ranked(pod))

    def _ranked(self, pod: LivePod) -> LivePod:
        """The pod with the priority that its class is worth, if it does not say one itself."""
        scheduling = pod.pod.scheduling
        if scheduling.priority is not None:
            return pod
        named = self._classes.get(scheduling.priority_class) if scheduling.priority_class else None
        default = next((one for one in self._classes.values() if one.global_default), None)
        priority_class = named or (default if not scheduling.priority_class else None)
        if priority_class is None:
            return pod
        ranked = replace(pod.pod, scheduling=replace(scheduling, priority=priority_class.value))
        return replace(pod, pod=ranked)

    def _node(self, change: Change[LiveNode]) -> None:
        if change.new is None:
            self._tell_nodes(self._cache.drop_node(change.key))
        else:
            self._tell_nodes(self._cache.put_node(change.new))

    def _report(self, change: Change[Report]) -> None:
        if change.new is not None:
            if change.new.problem and (change.old is None or change.old.problem != change.new.problem):
                _log.warning("a topology cannot be used", node=change.new.node, problem=change.new.problem)
            self._tell_nodes(self._cache.put_report(change.new))
        elif change.old is not None:
            self._tell_nodes(self._cache.drop_report(change.old))

    def _pod(self, change: Change[LivePod]) -> None:
        pod = self._ranked(change.new) if change.new is not None else None
        if pod is not None:
            if pod.unread and (change.old is None or change.old.unread != pod.unread):
                _log.warning(
                    "a pod cannot be read in full", pod=pod.full_name, node=pod.node, problem=pod.unread
                )
            uid, names = pod.uid, self._cache.put_pod(pod)
        elif change.old is not None:
            uid, names = change.old.uid, self._cache.drop_pod(change.old.uid)
        else:
            return
        for listener in self._listeners:
            listener.pod_changed(uid, pod)
        self._tell_nodes(names)

    def _tell_nodes(self, names: Collection[str]) -> None:
        if names:
            for listener in self._listeners:
                listener.nodes_changed(names)

    def _tell_volumes(self, uids: Collection[str]) -> None:
        if uids:
            for listener in self._listeners:
                listener.volumes_changed(uids)


def _tell_missing(missing: bool) -> None:
    """Agents have nowhere to publish, and without them no pod that owns something is placed: that has to be said."""
    if missing:
        _log.warning("nothing is known of NUMA nodes", problem=missing_text(NODE_RESOURCE_TOPOLOGIES))
    else:
        _log.info("NodeResourceTopology is defined by now")


def _tell_no_dra(missing: bool) -> None:
    """That is as it should be on a cluster without such drivers; whoever wonders where its devices are finds it here."""
    if missing:
        _log.info("this server has no resource.k8s.io/v1: nothing is known of devices that come by DRA")
    else:
        _log.info("resource.k8s.io/v1 is served by now")


def _cause(kind: str, error: ApiError) -> str:
    """Why a kind cannot be read, in words that tell a person where to look."""
    if error.reason == "BadCertificate":
        return "the API server's certificate is not trusted"
    if error.status in (401, 403):
        return f"this account may not list and watch {kind}: apply the RBAC that comes with this version"
    if error.status == 0 and error.reason in ("Unreachable", "Timeout", "Broken"):
        return "the API server does not answer: what is known may be out of date"
    if error.status == 429 or error.status >= 500:
        return "the API server is busy or in trouble: what is known may be out of date"
    return f"{kind} cannot be watched"


async def look(client: Client, cache: ClusterCache) -> list[str]:
    """Fill `cluster_cache` once, without watching: for commands that answer and end. Returns what could not be read."""
    problems: list[str] = []
    missing: list[Resource] = []
    reported = False

    async def each(
        resource: Resource, decode: Callable[[Any], Any], field_selector: str = ""
    ) -> AsyncIterator[Any]:
        try:
            async for page in client.list(resource, field_selector=field_selector):
                for raw in page.items:
                    try:
                        yield decode(raw)
                    except DecodeError as error:
                        problems.append(str(error))
        except ApiError as error:
            # A kind that the cluster does not know has no objects.
            if not error.not_found:
                raise
            missing.append(resource)

    cache.pause()
    async for node in each(NODES, nodes.decode):
        cache.put_node(node)
    for resource, decode in ((NODE_RESOURCE_TOPOLOGIES, nrt.decode), (NUMATOPOLOGIES, volcano.decode)):
        async for report in each(resource, decode):
            cache.put_report(report)
            reported = True
    # Volcano's publisher does without.
    if NODE_RESOURCE_TOPOLOGIES in missing and not reported:
        problems.append(missing_text(NODE_RESOURCE_TOPOLOGIES))
    async for pod in each(PODS, pods.decode, _PODS_THAT_MATTER):
        cache.put_pod(pod)
        if pod.unread and not pod.node:
            # Of one that has a node, the node tells.
            problems.append(unread_text(pod))
    cache.resume()
    # Who may not read these goes on without: only pods that depend on them say that they cannot be judged.
    try:
        async for namespace in each(NAMESPACES, namespaces.decode):
            cache.put_namespace(namespace.name, namespace.labels)
    except ApiError as error:
        if error.status != 403:
            raise
    else:
        cache.know_namespaces()
    try:
        about_dra = DraFeed(cache)
        for one in (CLASSES, *DEVICES):
            async for found in each(one.resource, one.decode):
                about_dra.put(None, found)
    except ApiError as error:
        if error.status != 403:
            raise
        cache.engine.cluster.dra.hidden = True
    storage = cache.engine.cluster.storage
    if storage is not None:
        feed = StorageFeed(cache, storage)
        try:
            for kind in STORAGE_KINDS:
                async for stored in each(kind.resource, kind.decode):
                    feed.put(None, stored)
        except ApiError as error:
            if error.status != 403:
                raise
        else:
            feed.know()
    return problems
