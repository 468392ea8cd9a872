"""The lab as a world: a small cluster of twins on which pods come and go, with a scheduler that can be switched.

With cluster NUMA affinity open, numaware's engine decides. Closed, nodes are chosen by their totals as kube-scheduler does
it, kubelets refuse what does not align, and owners make refused pods anew: a storm, as in a real cluster. The lab begins
closed and is opened after a while, so that whoever comes an hour later has a past to look at.
"""

from __future__ import annotations

import heapq
from collections import deque
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

from numaware.diagnose.reason import nodes_available
from numaware.diagnose.texts import say
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.schedule.ledger import Placement, placement_of
from numaware.serve.console.lab.pod_churn import SECOND, Coming, coming
from numaware.serve.console.openfuyao.volcano_conf import PLACE, switched
from numaware.serve.console.world import (
    AFFINITY,
    DISTANCE,
    RUNTIME,
    Change,
    Event,
    Happening,
    Source,
    Status,
    Story,
    Switch,
    SwitchError,
    Waiting,
)
from numaware.simulate import labfile
from numaware.simulate.clusters import ClusterSpec, build
from numaware.simulate.policies import POLICIES, Ours, Policy, Setting
from numaware.workload.pod import Pod

HOUR = 3600 * SECOND
SPEC = Path(__file__).with_name("lab.yaml")

_CLOSED_FOR = HOUR * 2 // 3
_MOST_EVENTS = 20_000
_RECREATIONS = 12
_PATIENCE = 15 * 60 * SECOND
_REPORT_EVERY = 10 * SECOND
_BEFORE = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


class _Leaving(NamedTuple):
    uid: str


class _Again(NamedTuple):
    """A refused pod that its owner makes anew, how often it was refused, and how long it is to stay."""

    pod: Pod
    owner: str
    lifetime: int
    refused: int


class _Opening(NamedTuple):
    """The moment at which the lab's operator opens cluster NUMA affinity."""


_What = Coming | _Again | _Leaving | _Opening


def lab_cluster() -> ClusterSpec:
    """The machines of `lab.yaml`."""
    spec = labfile.read(SPEC, _no_files).cluster
    if spec is None:
        raise ValueError("the lab has no nodes")
    return spec


def _no_files(path: Path) -> Machine:
    return synthetic.read(path.name)


class LabWorld:
    """The lab from `start` on; equal seeds, moments and switches give equal worlds."""

    kind: Literal["lab"] = "lab"

    def __init__(self, start: int, *, seed: int = 1, spec: ClusterSpec | None = None) -> None:
        self.spec = spec or lab_cluster()
        self.name = self.spec.name
        self.cluster = build(self.spec)
        self.events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self.stories: dict[str, Story] = {}
        self.waiting: dict[str, Waiting] = {}
        self.changes: list[Change] = []
        self.now = start
        self._seed = seed
        self._ids = count(1)
        self._status: Status = "close"
        self._lifetimes: dict[str, tuple[int, int]] = {}
        self._phases = {
            member.name: sum(member.name.encode()) * 997 % _REPORT_EVERY for member in self.cluster
        }
        self._policy = self._scheduler()
        self._order = count()
        self._coming = coming(seed, self.now, len(self.cluster))
        self._agenda: list[tuple[int, int, _What]] = []
        self._at(start + _CLOSED_FOR, _Opening())
        self._push(next(self._coming))

    # Time

    def advance(self, now: int) -> None:
        """Let everything happen that is due."""
        while self._agenda and self._agenda[0][0] <= now:
            self.now, _, what = heapq.heappop(self._agenda)
            match what:
                case Coming():
                    self._try(what.pod, what.owner, what.lifetime, 0)
                    self._push(next(self._coming))
                case _Again():
                    self._try(what.pod, what.owner, what.lifetime, what.refused)
                case _Leaving():
                    self._leave(what.uid)
                case _Opening():
                    self._switch("open", "lab")
        self.now = max(self.now, now)

    def _push(self, what: Coming) -> None:
        self._at(what.time, what)

    def _at(self, time: int, what: _What) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), what))

    # Pods

    def _try(self, pod: Pod, owner: str, lifetime: int, refused: int) -> bool:
        choice = self._policy.decide(pod, self.now)
        if choice.node is None:
            if pod.uid not in self.waiting:
                message = say(nodes_available(0, len(self.cluster), choice.reasons))
                self.waiting[pod.uid] = Waiting(pod, owner, self.now, message)
                self._lifetimes[pod.uid] = lifetime, refused
                self._tell("waiting", pod, owner=owner, reason="FailedScheduling", message=message)
            return False
        verdict = self._policy.bind(pod, choice)
        self.waiting.pop(pod.uid, None)
        if not verdict.admitted:
            self._tell("refused", pod, choice.node, owner, verdict.reason, verdict.message)
            if refused < _RECREATIONS:
                self._at(self.now + SECOND, _Again(pod, owner, lifetime, refused + 1))
            return False
        observed = placement_of(verdict.node, pod)
        predicted: Placement | None = observed if self._status == "open" else None
        self.stories[pod.uid] = Story(self.now, owner, predicted, observed, _scheduler_name(self._status))
        self._tell("admitted", pod, choice.node, owner)
        self._at(self.now + lifetime, _Leaving(pod.uid))
        return True

    def _leave(self, uid: str) -> None:
        member = self.cluster.where.get(uid)
        if member is None:
            return
        pod = member.pods[uid]
        self._policy.release(uid)
        story = self.stories.pop(uid)
        self._tell("left", pod, member.name, story.owner)
        self._retry()

    def _retry(self) -> None:
        """Something was freed: those who wait, oldest first, each kind once; who waited too long gives up."""
        failed: set[object] = set()
        for uid, waiting in list(self.waiting.items()):
            if self.now - waiting.since > _PATIENCE:
                del self.waiting[uid]
                self._tell("gave-up", waiting.pod, owner=waiting.owner)
            elif waiting.pod.containers not in failed:
                lifetime, refused = self._lifetimes.pop(uid)
                if not self._try(waiting.pod, waiting.owner, lifetime, refused):
                    failed.add(waiting.pod.containers)
                    if uid in self.waiting:
                        self._lifetimes[uid] = lifetime, refused

    def _tell(
        self,
        kind: Happening,
        pod: Pod | None = None,
        node: str = "",
        owner: str = "",
        reason: str = "",
        message: str = "",
    ) -> None:
        name = f"{pod.namespace}/{pod.name}" if pod else ""
        self.events.append(Event(next(self._ids), self.now, kind, name, node, owner, reason, message))

    def reported(self, node: str) -> tuple[Source, int]:
        """Twins tell at once; what a real agent would have sent last is at most ten seconds old."""
        return "reported", self.now - (self.now - self._phases[node]) % _REPORT_EVERY

    # Switches

    @property
    def switches(self) -> tuple[Switch, ...]:
        return (
            Switch(AFFINITY, self._status, place=PLACE, conf=_conf(self._status)),
            Switch(
                DISTANCE,
                "close",
                missing="the lab's kubelets are configured in its file; no agent edits them",
            ),
            Switch(RUNTIME, "close", missing="no agent with its runtime plug-in runs in the lab"),
        )

    def switched_conf(self, switch: str, status: Status) -> str:
        found = next(one for one in self.switches if one.id == switch)
        return _conf(status) if not found.missing else found.conf

    async def read_switches(self) -> None:
        """The lab knows how they stand."""

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:
        found = next(one for one in self.switches if one.id == switch)
        if found.missing:
            raise SwitchError(found.missing)
        self._switch(status, by)
        return next(one for one in self.switches if one.id == switch)

    def _switch(self, status: Status, by: str) -> None:
        """Change schedulers, if that is one."""
        if self._status == status:
            return
        self.changes.append(Change(self.now, AFFINITY, self._status, status, by))
        self._tell("switched", message=f"{AFFINITY}: {self._status} → {status}", owner=by)
        self._status = status
        self._policy = self._scheduler()

    def _scheduler(self) -> Policy:
        if self._status == "open":
            return Ours(self.cluster)
        return POLICIES["kube-scheduler"](Setting(self.cluster, (), self._seed))


def _scheduler_name(status: Status) -> str:
    return "numaware" if status == "open" else "kube-scheduler"


@lru_cache
def _conf(status: Status) -> str:
    """As a live cluster's would be edited."""
    return switched(_BEFORE, status)
