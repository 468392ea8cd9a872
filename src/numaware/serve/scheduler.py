"""The scheduler: takes pods from the queue, decides, assumes, binds, and reports what cannot be placed.

One loop decides, one pod after the other, because each decision changes what the next one finds; the calls that bind run
beside it, a few at a time. A pod counts as placed from the moment of the decision (assumed) and is taken back if the
call fails. Where nobody knows whether a call went through, the API server is asked before anything else is done: a pod is
never given away twice.

The pods of one node are bound in the order in which they were decided (`bind_queue.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Literal, NamedTuple, NoReturn, Protocol

import structlog

from numaware.diagnose.reason import Code
from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.engine import Decision
from numaware.schedule.partial_node import foreseen
from numaware.serve.bind_queue import CALLS, BindQueue
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.metrics import Metrics
from numaware.serve.node_estimate import NodeEstimate
from numaware.serve.queue import Queue, Waiting
from numaware.serve.stuck_pods import StuckPods
from numaware.twin.node import Node
from numaware.workload.storage import VolumePlan

_log = structlog.get_logger(__name__)

# Pods that are decided on and not bound yet: the more, the more is in vain when something fails.
_AHEAD = 3 * CALLS
# So few of them are left when the next are decided on. What is done several times in a row is done faster, but answers wait
# for its end, and an API server that gets no new calls meanwhile has nothing to do.
_LOW = _AHEAD - 8
# Seconds of deciding before everybody else has a turn. The watches must hear what later decisions may depend on, but each
# turn asks the kernel about every connection, which costs as much as a small decision.
_STRETCH_SECONDS = 0.01

Bound = Literal["bound", "gone", "elsewhere", "failed"]


class Binder(Protocol):
    """Who binds."""

    async def bind(self, pod: LivePod, node: str, annotations: dict[str, str]) -> Bound:
        """Bind the pod; how it came out is certain whatever the network did."""


class Actions(Binder, Protocol):
    """What the scheduler does to the outside world."""

    def scheduled(self, pod: LivePod, node: str) -> None:
        """Tell that the pod has a node."""

    def unschedulable(self, pod: LivePod, message: str) -> None:
        """Tell why it has none."""

    def failed(self, pod: LivePod, message: str) -> None:
        """Tell that a node was found, but that the pod could not be bound to it."""

    def awaits_volumes(self, pod: LivePod, message: str) -> None:
        """Tell that the pod has a place, and which volumes it waits for there."""


class Volumes(Protocol):
    """Who sees to the volumes of a pod before it is bound."""

    async def bind(
        self, plan: VolumePlan, still_wanted: Callable[[], bool], tell: Callable[[str], None]
    ) -> str:
        """Carry a plan out; what went wrong, empty if the pod can be bound now. `tell`: what is waited for."""


class _Sent(NamedTuple):
    """A pod on its way to a node, what is to be written on it, what its node was estimated to be then, and how long that took.

    `waited` is its place in the queue, which the watch may take it from before the call that binds returns.
    """

    live: LivePod
    waited: Waiting
    annotations: dict[str, str] | None
    estimate: NodeEstimate | None
    seconds: float


class Scheduler:
    """Schedules the pods that name one of `names` as their scheduler.

    `may_act` is asked before each bind: whoever does not lead any more must not. `on_sent` gets each pod that is sent to a
    node, that node's name, and the node as it was before.
    """

    def __init__(
        self,
        cache: ClusterCache,
        actions: Actions,
        *,
        names: Collection[str],
        metrics: Metrics,
        clock: Callable[[], float],
        may_act: Callable[[], bool] = lambda: True,
        on_sent: Callable[[str, str, Node], None] = lambda _uid, _name, _before: None,
        volumes: Volumes | None = None,
    ) -> None:
        self.cache = cache
        self.queue = Queue()
        self._stuck = StuckPods(cache.engine, self.queue, clock)
        self._actions = actions
        self._names = frozenset(names)
        self._metrics = metrics
        self._clock = clock
        self._may_act = may_act
        self._on_sent = on_sent
        self._volumes = volumes
        # Pods that have a node and wait for their volumes there. They do not hold up others of the node: that may take minutes.
        self._waiting_for_volumes: set[asyncio.Task[None]] = set()
        self._pods: dict[str, LivePod] = {}
        self._news = asyncio.Event()
        self._binds = BindQueue(self._bind)
        # Pods that have been bound since the last look, and their nodes.
        self._bound: list[tuple[_Sent, str, float]] = []

    # What the watches bring

    def pod_changed(self, uid: str, pod: LivePod | None) -> None:
        """A pod is new, other, or gone; the cluster cache knows already."""
        if pod is not None and self._is_ours(pod):
            if uid not in self._pods:
                # A pod that waits says what is coming, before anything is decided.
                self.cache.engine.learn(pod.pod)
            self._pods[uid] = pod
            self.queue.put(pod.pod, self._clock())
            self._news.set()
        elif uid in self._pods:
            self._drop(uid)
        if pod is not None and pod.node and pod.deletion is not None:
            # It no longer counts where others are to be spread.
            self._stuck.others_changed()
            self._news.set()

    def nodes_changed(self, names: Collection[str]) -> None:
        """Nodes took or lost something: pods that one of them would take now are tried again."""
        if names:
            self._stuck.nodes_changed(names)
            self._news.set()

    def volumes_changed(self, uids: Collection[str]) -> None:
        """What is known of the volumes of these pods has changed: they are tried again if a node would take them now."""
        self._stuck.volumes_changed(uids)
        self._news.set()

    def unschedulable(self) -> Iterator[tuple[str, frozenset[Code]]]:
        """Of each pod that no node takes, the scheduler that it names and what keeps it off."""
        for group in self.queue.stuck_groups():
            codes = self._stuck.codes(group)
            for pod in self.queue.stuck_pods(group):
                yield pod.scheduling.scheduler, codes

    def _is_ours(self, pod: LivePod) -> bool:
        return pod.scheduler in self._names and not pod.node and not pod.finished and pod.deletion is None

    # The loop

    async def run(self) -> None:
        """Schedule until cancelled; calls that are under way then are waited for."""
        try:
            await self._decide()
        finally:
            for task in self._waiting_for_volumes:
                task.cancel()
            await self._binds.until(0)
            self._take_note()

    async def _decide(self) -> NoReturn:
        """One pod after the other, for as long as the calls that follow keep up."""
        ends = self._clock()
        while True:
            if self._binds.left >= _AHEAD:
                await self._binds.until(_LOW)
                ends = self._clock() + _STRETCH_SECONDS
            self._take_note()
            self._stuck.wake()
            now = self._clock()
            pod = self.queue.take(now)
            sent = pod is not None and self._schedule(self._pods[pod.uid])
            spoke = self._speak()
            if pod is None and not spoke:
                await self._wait()
            # To put a refusal into words may take long.
            elif spoke or not sent or now >= ends:
                await asyncio.sleep(0)
                ends = self._clock() + _STRETCH_SECONDS

    async def _wait(self) -> None:
        self._news.clear()
        times = [when for when in (self.queue.next_at(), self._stuck.words_at()) if when is not None]
        timeout = max(0.0, min(times) - self._clock()) if times else None
        try:
            async with asyncio.timeout(timeout):
                await self._news.wait()
        except TimeoutError:
            pass

    def _schedule(self, live: LivePod) -> bool:
        """One decision; whether a call follows from it."""
        began = self._clock()
        decision = self.cache.engine.decide(live.pod)
        seconds = self._clock() - began
        self._metrics.decided(seconds)
        if decision.node is None:
            self._metrics.attempted("unschedulable", live.scheduler, seconds)
            self._refuse(live, decision)
            return False
        node = decision.node
        before = self.cache.engine.cluster.by_name[node].node
        self.cache.assume(live, decision)
        self._stuck.others_changed()
        self.queue.placed(live.uid, self._clock())
        self._on_sent(live.uid, node, before)
        annotations = prediction(self.cache, live, node)
        sent = _Sent(live, self.queue.waiting[live.uid], annotations, self.cache.estimate(node), seconds)
        if decision.volumes is None:
            self._binds.put(node, sent)
        else:
            task = asyncio.create_task(self._bind_volumes(decision.volumes, sent))
            self._waiting_for_volumes.add(task)
            task.add_done_callback(self._waiting_for_volumes.discard)
        return True

    async def _bind_volumes(self, plan: VolumePlan, sent: _Sent) -> None:
        """See to the pod's volumes, then bind it like any other; what it is given by then is predicted anew if need be."""
        live, node = sent.live, plan.node

        def still_wanted() -> bool:
            return live.uid in self._pods and self.cache.place_of(live.uid) == node and self._may_act()

        def tell(awaited: str) -> None:
            self._actions.awaits_volumes(
                live, f"has a place on {node}, and waits there for {awaited} to be bound"
            )

        problem = "nobody binds volumes"
        if self._volumes is not None:
            problem = await self._volumes.bind(plan, still_wanted, tell)
        if not problem:
            self._binds.put(node, sent)
            return
        self.nodes_changed(self.cache.forget(live.uid))
        if live.uid in self._pods:
            self._failed(live, node, problem, sent.seconds)

    async def _bind(self, node: str, sent: _Sent) -> None:
        live, annotations, seconds = sent.live, sent.annotations, sent.seconds
        why = "the call did not succeed"
        if self.cache.estimate(node) is not sent.estimate:
            annotations = prediction(self.cache, live, node)
        bound: Bound = "failed"
        if annotations is None:
            why = "its place there is not what it was when that was decided"
        elif not self._may_act():
            why = "this process does not lead any more"
        else:
            began = self._clock()
            bound = await self._actions.bind(live, node, annotations)
            took = self._clock() - began
            self._metrics.binding.observe(took)
            seconds += took
        if bound == "bound":
            self._bound.append((sent, node, seconds))
            self._news.set()
            return
        self.nodes_changed(self.cache.forget(live.uid))
        if bound == "failed" and live.uid in self._pods:
            self._failed(live, node, why, seconds)
        else:
            # Deleted, or bound by somebody else: the watch has told, or tells the rest.
            self._drop(live.uid)

    def _take_note(self) -> None:
        """Of the pods that were bound: several at a time cost a third of what they do one by one, between other things."""
        bound, self._bound = self._bound, []
        for (live, waited, *_), node, seconds in bound:
            self._metrics.scheduled(self._clock() - waited.since, waited.attempts)
            self._metrics.attempted("scheduled", live.scheduler, seconds)
            self._drop(live.uid)
            self._actions.scheduled(live, node)

    def _failed(self, live: LivePod, node: str, why: str, seconds: float) -> None:
        """An attempt came to nothing though a node was found: counted, logged, said on the pod, and tried again."""
        self._metrics.attempted("error", live.scheduler, seconds)
        _log.warning("a pod was not bound, and is tried again", pod=live.full_name, node=node, why=why)
        self.queue.failed(live.uid, self._clock())
        self._news.set()
        if self._may_act():
            self._actions.failed(live, f"could not be bound to {node}, and is tried again: {why}")

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self.queue.drop(uid, self._clock())

    def _refuse(self, live: LivePod, decision: Decision) -> None:
        if self.queue.refused(live.uid, self._clock()):
            # A gate is the user's own "not yet": the API server has already said so on the pod.
            words = self._stuck.refused(decision, silent=bool(live.pod.scheduling.gates))
            if words:
                self._actions.unschedulable(live, words)

    def _speak(self) -> bool:
        """Word one refusal, if it is time for that; whether it was."""
        worded = self._stuck.next_words(busy=self.queue.has_ready)
        if worded is None:
            return False
        if not worded.words:
            # The others of the group follow if it finds a place, and keep their words until then.
            self.queue.wake_group(worded.group, self._clock())
            return True
        for pod in self.queue.stuck_pods(worded.group):
            self._actions.unschedulable(self._pods[pod.uid], worded.words)
        return True


def prediction(cache: ClusterCache, live: LivePod, node: str) -> dict[str, str] | None:
    """What to write on an assumed pod; None if its place is not what it was when it was decided, and is none any more."""
    member = cache.engine.cluster.where.get(live.uid)
    if member is None or member.name != node or live.uid in member.load.astray:
        return None
    if any(left < 0 for left in member.not_requested.values()):
        # Somebody else was faster, and what they took is not there twice.
        return None
    placement = foreseen(member.node, live.pod)
    return {} if placement is None else {ledger.PREDICTED: ledger.encode(placement)}
