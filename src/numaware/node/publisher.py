"""Publishes what is true of this node, within a second and only when it changed.

The kernel says when a state file was replaced, the API server when a pod came, ended or went; both mean: look again. What
was seen is applied as the node's NodeResourceTopology under one owner of fields, and each pod is told where it lies. Nothing
is written while nothing changes. The published object is watched, too: what somebody else has deleted or written over is put
right at once (`published.py`), and until then `unready` says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from numaware.affinity.chosen import Said, word_of
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.decoding import OwnerReference
from numaware.kube.errors import ApiError
from numaware.kube.nodes import decode as decode_node
from numaware.kube.pods import KAI_OBSERVED, LivePod
from numaware.kube.pods import decode as decode_pod
from numaware.kube.reflector import Reflector
from numaware.kube.resources import NODES, NUMATOPOLOGIES, PODS
from numaware.kube.topology import publish, volcano
from numaware.kube.topology.fingerprint import Method
from numaware.machine import sysfs
from numaware.machine.topology import Machine
from numaware.machine.tree import open_tree
from numaware.node.inotify import FolderWatch
from numaware.node.kubelet_files import SOCKET, KubeletFiles
from numaware.node.observation import Facts, ObservationError, observe
from numaware.node.podresources import PodResources, PodResourcesError
from numaware.node.published import CALL_SECONDS, MANAGER, PublishedObject, UndefinedError
from numaware.node.troubles import Source, Troubles
from numaware.schedule.ledger import OBSERVED, Placement, placement_of
from numaware.schedule.ledger import encode as encode_placement
from numaware.twin import kubelet_config
from numaware.twin.config import KubeletConfig
from numaware.twin.node import Node
from numaware.twin.rules import rules_for

log = structlog.get_logger("numaware.agent")

# An admission replaces several files one after the other: wait until it is quiet, but not for long.
_QUIET, _LONGEST_QUIET = 0.08, 0.3
_FIRST_RETRY, _LONGEST_RETRY = 0.1, 5.0
_SAFETY_SECONDS = 60.0
_OF_A_LOOK: tuple[Source, ...] = ("podresources", "observation", "configuration", "api")


class Options(msgspec.Struct, frozen=True):
    """What to publish besides the NodeResourceTopology, and how."""

    root: str = "/"
    placements: bool = True
    volcano: bool = False
    kai: bool = False
    method: Method = "with-exclusive-resources"


class Counts(msgspec.Struct):
    """What the publisher has done, for the metrics."""

    writes: int = 0
    scans: int = 0
    last_success: float = 0.0
    last_seconds: float = 0.0


class Publisher:
    """Keeps the published objects of the node called `name` true while `run` runs."""

    def __init__(
        self, name: str, client: Client, files: KubeletFiles, troubles: Troubles, options: Options
    ) -> None:
        self.name = name
        self.counts = Counts()
        self._client = client
        self._files = files
        self._troubles = troubles
        self._options = options
        self._wanted = asyncio.Event()
        self._restarted = True
        self._pods: Reflector[LivePod] = Reflector(
            client,
            PODS,
            decode_pod,
            field_selector=f"spec.nodeName={name}",
            on_change=lambda _: self._wanted.set(),
            on_problem=lambda key, problem: troubles.raised("pods", "unreadable", f"{key}: {problem}"),
            on_trouble=lambda error: troubles.raised("pods", "unwatched", str(error)),
        )
        self._machine: Machine | None = None
        self.config: KubeletConfig | None = None
        # The node as it was last seen whole.
        self.node: Node | None = None
        # The Node as an owner of objects.
        self.owner: OwnerReference | None = None
        self._object = PublishedObject(client, name, troubles, self._wanted.set)
        self._volcano: dict[str, Any] | None = None
        # What all of that came from when last everything was written.
        self._facts: Facts | None = None
        self._checked = 0.0

    async def run(self) -> None:
        """Publish until cancelled."""
        watch = FolderWatch(self._files.watched(), self._file_changed)
        try:
            async with PodResources(self._files.podresources) as service, asyncio.TaskGroup() as group:
                group.create_task(self._pods.run())
                group.create_task(self._object.run())
                await self._pods.synced.wait()
                await self._object.known.wait()
                await self._follow(service, watch)
        finally:
            watch.close()

    def said(self) -> Said | None:
        """What the pods of the node say of being moved; None until they are known."""
        if not self._pods.synced.is_set():
            return None
        rules = {pod.uid: pod.pod.scheduling for pod in self._pods.items.values()}
        words = {uid: word_of(dict(one.labels), dict(one.annotations)) for uid, one in rules.items()}
        return Said({uid: word for uid, word in words.items() if word})

    def unready(self) -> str:
        """Why nothing true is published at the moment, "" if something is."""
        if problem := self._object.unready():
            return problem
        for source, (_, message) in sorted(self._troubles.current.items()):
            return f"{source}: {message}"
        return ""

    def _file_changed(self, name: str) -> None:
        if name in ("", SOCKET):
            # A kubelet that was started anew may have another configuration, and be another release.
            self._restarted = True
        self._wanted.set()

    async def _follow(self, service: PodResources, watch: FolderWatch) -> None:
        wait = 0.0
        while True:
            missing = watch.refresh()
            if missing:
                self._troubles.raised("files", "missing", f"{missing[0]}: no such folder")
            else:
                self._troubles.cleared("files")
            done = await self._try(service)
            wait = 0.0 if done and not missing else min(_LONGEST_RETRY, 2 * wait or _FIRST_RETRY)
            await self._something_happened(wait or _SAFETY_SECONDS)

    async def _something_happened(self, seconds: float) -> None:
        """Wait for a change, at most so long, and then until the change is complete."""
        # Not `wait_for`, which in Python 3.11 may lose a cancellation that comes together with the event.
        try:
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
        except TimeoutError:
            return
        deadline = time.monotonic() + _LONGEST_QUIET
        while self._wanted.is_set() and time.monotonic() < deadline:
            self._wanted.clear()
            await asyncio.sleep(_QUIET)

    async def _try(self, service: PodResources) -> bool:
        """One look and, if need be, one write; whether it worked."""
        self._wanted.clear()
        began = time.monotonic()
        try:
            if self._restarted or began - self._checked >= _SAFETY_SECONDS:
                await self._read_once()
            facts = await self._look(service)
            # Nothing has changed, here or there: what it comes to has not either.
            if facts != self._facts or self._object.unready():
                self._facts = None
                self.node = observe(facts)
                await self._publish(self.node)
                self._facts = facts
        except PodResourcesError as error:
            self._troubles.raised("podresources", error.cause, str(error))
        except ObservationError as error:
            self._troubles.raised("observation", error.cause, str(error))
        except InputError as error:
            self._troubles.raised("configuration", "invalid", str(error))
        except OSError as error:
            self._troubles.raised("files", "unreadable", str(error))
        except UndefinedError as error:
            self._troubles.raised("published", "undefined", str(error))
        except ApiError as error:
            self._troubles.raised("api", str(error.status or "silent"), str(error))
        else:
            for source in _OF_A_LOOK:
                self._troubles.cleared(source)
            if not self._pods.problems:
                self._troubles.cleared("pods")
            self._object.cleared()
            self.counts.last_success = time.time()
            return True
        finally:
            self.counts.scans += 1
            self.counts.last_seconds = time.monotonic() - began
        return False

    async def _read_once(self) -> None:
        """What holds until the kubelet restarts."""
        raw = await self._client.get(NODES, self.name, within=CALL_SECONDS)
        try:
            live = decode_node(raw)
            version = live.kubelet_version
            rules_for(version)
        except ValueError as error:
            raise InputError(f"node {self.name}", f"the kubelet's version cannot be read: {error}") from None
        self.owner = OwnerReference("Node", self.name, live.uid, "v1")
        if self._restarted or self.config is None:
            self._restarted = False
            try:
                self.config = await self._read_config(version)
                self._machine = sysfs.read(open_tree(self._options.root))
            except BaseException:
                self._restarted = True
                raise
        self._checked = time.monotonic()

    async def _read_config(self, version: str) -> KubeletConfig:
        if self._files.config is not None:
            return self._files.read_config(version)
        data = await self._client.get(NODES, self.name, subresource="proxy/configz", within=CALL_SECONDS)
        source = f"configz of {self.name}"
        return kubelet_config.read(data, source, version).accepted(source)

    async def _look(self, service: PodResources) -> Facts:
        if self._machine is None or self.config is None:
            raise ObservationError("configuration", "the kubelet's configuration was not read yet")
        held, allocatable = await asyncio.gather(service.pods(), service.allocatable())
        live = {pod.uid: pod for pod in self._pods.items.values()}
        return Facts(self._machine, self.config, self._files.state(), held, allocatable, live)

    async def _publish(self, node: Node) -> None:
        written = await self._object.make_true(
            lambda generation: publish.encode(
                self.name, node, generation, owner=self.owner, method=self._options.method
            )
        )
        if written:
            self.counts.writes += 1
            log.info("published", node=self.name, generation=written, pods=len(node.state.pods))
        if self._options.volcano:
            await self._publish_volcano(node)
        if self._options.placements or self._options.kai:
            await self._tell_pods(node)

    async def _publish_volcano(self, node: Node) -> None:
        body = volcano.encode(self.name, node, owner=self.owner)
        if body == self._volcano:
            return
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        stamped = volcano.encode(self.name, node, owner=self.owner, timestamp=stamp)
        await self._client.apply(NUMATOPOLOGIES, self.name, stamped, manager=MANAGER, within=CALL_SECONDS)
        self.counts.writes += 1
        self._volcano = body

    async def _tell_pods(self, node: Node) -> None:
        """Write on each pod where it lies, if that is not what it says."""
        for live in list(self._pods.items.values()):
            pod = node.state.pods.get(live.uid)
            if pod is None or live.finished:
                continue
            placement = placement_of(node, pod)
            if not placement.zones:
                continue
            wanted: dict[str, str] = {}
            text = encode_placement(placement)
            if self._options.placements and live.observed != text:
                wanted[OBSERVED] = text
            # KAI's form is the same without the numbers of CPUs.
            uncounted = Placement(tuple(msgspec.structs.replace(zone, cpus="") for zone in placement.zones))
            if self._options.kai and live.kai_observed != (kai := encode_placement(uncounted)):
                wanted[KAI_OBSERVED] = kai
            if wanted:
                await self._annotate(live, wanted)

    async def _annotate(self, pod: LivePod, wanted: Mapping[str, str]) -> None:
        body = {"metadata": {"uid": pod.uid, "annotations": wanted}}
        try:
            await self._client.patch(PODS, pod.name, body, pod.namespace, within=CALL_SECONDS)
            self.counts.writes += 1
        except ApiError as error:
            # Gone, or another pod of that name by now: the watch will tell.
            if not (error.not_found or error.conflict):
                raise
