"""Many fake kubelets, and the agents beside them, on a real API server: one thread, one session.

They register their nodes, run every pod that is bound to them through the twin, report its status as a kubelet does,
let go of pods that are deleted, and publish what is left. Everything they decided is kept for the tests to look at.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Self

from e2e.control_plane import ControlPlane
from e2e.fake_kubelet import Admission, FakeKubelet
from e2e.fake_objects import finished_patch, node_object, pod_patch
from e2e.loop_thread import PATIENCE, LoopThread
from numaware.kube import nodes, pods
from numaware.kube.client import Client
from numaware.kube.config import Connection
from numaware.kube.decoding import OwnerReference
from numaware.kube.errors import ApiError
from numaware.kube.pods import LivePod
from numaware.kube.reflector import Change, Reflector
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numaware.kube.topology import publish
from numaware.simulate.clusters import NodeSpec
from numaware.workload.pod import Pod

# What is to be written next about a pod or a node: of one object only the newest word counts, and goes out alone.
_Key = tuple[str, str]
_Job = Callable[[], Awaitable[None]]

_AT_ONCE = 16
# An agent is at most this far behind its kubelet, and writes no more often than that.
_REPORT_SECONDS = 0.5


class FakeNodes(LoopThread):
    """Started by `with`. Methods are for the test's thread, and what they return is a copy."""

    def __init__(self, plane: ControlPlane, specs: Iterable[NodeSpec], *, agents: bool = True) -> None:
        """Without `agents` nobody tells of NUMA nodes, as on most clusters."""
        super().__init__("fake nodes")
        self._kubelets = {spec.name: FakeKubelet(spec) for spec in specs}
        self._speaking = set(self._kubelets) if agents else set[str]()
        self._owners: dict[str, OwnerReference] = {}
        self._generation = 0
        self._admissions: dict[str, Admission] = {}
        self._problems: list[str] = []
        self._trouble = "no write has failed"
        self._due: dict[_Key, _Job] = {}
        self._flying: set[_Key] = set()
        self._work: asyncio.Queue[_Key] = asyncio.Queue()
        self._plane = plane

    def __enter__(self) -> Self:
        super().__enter__()
        self.wait_idle()
        return self

    # The truth

    def admissions(self) -> list[Admission]:
        """Every decision about a pod, in the order in which they were made."""
        return self._ask(lambda: list(self._admissions.values()))

    def refusals(self) -> list[Admission]:
        return [admission for admission in self.admissions() if not admission.admitted]

    def running(self) -> dict[str, Admission]:
        """By uid, the pods that hold something of a node right now."""
        return self._ask(
            lambda: {
                uid: self._admissions[uid]
                for kubelet in self._kubelets.values()
                for uid in kubelet.twin.state.pods
            }
        )

    def problems(self) -> list[str]:
        """What must never happen, as sentences: a pod that changed its node, a write that the server refused."""
        return self._ask(lambda: list(self._problems))

    def kubelet(self, name: str) -> FakeKubelet:
        """One node, for a look at its twin."""
        return self._ask(lambda: self._kubelets[name])

    def wait_idle(self, seconds: float = PATIENCE) -> None:
        """Until everything decided so far has been told to the API server."""
        deadline = time.monotonic() + seconds
        while self._ask(lambda: len(self._due) + len(self._flying)):
            assert time.monotonic() < deadline, f"not done in {seconds:g} s; {self._trouble}"
            time.sleep(0.05)

    # Faults, and other things that happen

    def finish(self, uid: str) -> None:
        """The pod's containers end with success."""
        self._ask(lambda: self._finish(uid))

    def silence(self, *names: str) -> None:
        """Their agents stop: what is published of them stays as it is and grows old."""
        self._ask(lambda: self._speaking.difference_update(names))
        self.wait_idle()

    def speak(self, *names: str) -> None:
        """Their agents are back."""

        def again() -> None:
            self._speaking.update(names)
            for name in names:
                self._report(name)

        self._ask(again)

    def unpublish(self, *names: str) -> None:
        """Their agents stop, and somebody deletes what they have published."""
        self.silence(*names)
        for name in names:
            self._do(self._client.delete(NODE_RESOURCE_TOPOLOGIES, name))

    def vanish(self, name: str) -> None:
        """The machine is gone, and so are its objects but for the pods that were on it."""
        spoke = self._ask(lambda: name in self._speaking)
        self.silence(name)
        self._ask(lambda: self._kubelets.pop(name))
        # The node comes last: what belongs to it is collected with it, where somebody collects.
        if spoke:
            self._do(self._client.delete(NODE_RESOURCE_TOPOLOGIES, name))
        self._do(self._client.delete(NODES, name))

    # Pods

    def _follow(self, change: Change[LivePod]) -> None:
        """What a kubelet does when it hears of a pod."""
        pod = change.new or change.old
        assert pod is not None
        kubelet = self._kubelets.get(pod.node)
        if kubelet is None:
            return
        known = self._admissions.get(pod.uid)
        if known is not None and known.node != pod.node:
            self._problems.append(f"{pod.full_name} was on {known.node} and is now on {pod.node}")
        elif change.new is None or pod.finished:
            self._release(kubelet, pod.uid)
        elif pod.deletion is not None:
            self._release(kubelet, pod.uid)
            self._later(("pod", pod.uid), partial(self._delete, pod))
        elif known is None:
            admission = kubelet.admit(pod.pod)._replace(at=time.monotonic())
            self._admissions[pod.uid] = admission
            if admission.admitted:
                self._report(kubelet.name)
            # One that ran before these kubelets were started goes on running, and everybody knows.
            if pod.phase != "Running" or not admission.admitted:
                self._later(("pod", pod.uid), partial(self._tell, pod.pod, pod_patch(admission)))

    def _release(self, kubelet: FakeKubelet, uid: str) -> None:
        if kubelet.release(uid):
            self._report(kubelet.name)

    def _finish(self, uid: str) -> None:
        admission = self._admissions[uid]
        self._release(self._kubelets[admission.node], uid)
        self._later(("pod", uid), partial(self._tell, admission.pod, finished_patch(uid)))

    def _report(self, name: str) -> None:
        if name in self._speaking:
            self._later(("topology", name), partial(self._publish, name))

    # Writing

    async def _register(self, kubelet: FakeKubelet) -> None:
        created = nodes.decode(await self._client.create(NODES, node_object(kubelet)))
        self._owners[kubelet.name] = OwnerReference("Node", created.name, created.uid, "v1")
        self._report(kubelet.name)

    async def _tell(self, pod: Pod, patch: dict[str, Any]) -> None:
        await self._client.patch(PODS, pod.name, patch, pod.namespace, kind="strategic", subresource="status")

    async def _delete(self, pod: LivePod) -> None:
        await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid, grace_seconds=0)

    async def _publish(self, name: str) -> None:
        if name not in self._speaking:
            return
        self._generation += 1
        twin, owner = self._kubelets[name].twin, self._owners[name]
        body = publish.encode(name, twin, self._generation, owner=owner)
        await self._client.apply(NODE_RESOURCE_TOPOLOGIES, name, body, manager="fake-agent")

    def _later(self, key: _Key, job: _Job) -> None:
        waiting = key in self._due or key in self._flying
        self._due[key] = job
        if not waiting:
            self._work.put_nowait(key)

    def _landed(self, key: _Key) -> None:
        self._flying.discard(key)
        if key in self._due:
            self._work.put_nowait(key)

    async def _worker(self) -> None:
        while True:
            key = await self._work.get()
            job = self._due.pop(key)
            self._flying.add(key)
            rest = _REPORT_SECONDS if key[0] == "topology" else 0.0
            try:
                await job()
            except ApiError as error:
                if error.uncertain or error.status in {403, 429}:
                    # A server that was away for longer than the client has patience, or is back and has not read its
                    # own rules yet: for a moment after its start it forbids everything.
                    self._due.setdefault(key, job)
                    self._trouble = str(error)
                    rest = 0.5
                elif not (error.not_found or error.conflict):
                    self._problems.append(f"{key[0]} {key[1]} could not be written: {error}")
            self._loop.call_later(rest, self._landed, key)

    # The thread

    async def _live(self) -> None:
        token = self._plane.token("fake-kubelets")

        async def credentials(_renew: bool) -> str:
            return f"Bearer {token}"

        tls = ssl.create_default_context(cafile=str(self._plane.ca))
        async with Client(Connection(self._plane.url, tls=tls, credentials=credentials)) as self._client:
            reflector = Reflector(
                self._client, PODS, pods.decode, field_selector="spec.nodeName!=", on_change=self._follow
            )
            tasks = [asyncio.create_task(self._worker()) for _ in range(_AT_ONCE)]
            for kubelet in self._kubelets.values():
                self._later(("node", kubelet.name), partial(self._register, kubelet))
            tasks.append(asyncio.create_task(reflector.run()))
            await reflector.synced.wait()
            await self._until_stopped()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
