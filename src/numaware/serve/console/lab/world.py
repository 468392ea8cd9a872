"""The lab as a world: a small cluster of twins on which pods come and go, with a scheduler that can be switched.

With cluster NUMA affinity open, numaware's engine decides. Closed, nodes are chosen by their totals as kube-scheduler does
it, kubelets refuse what does not align, and owners make refused pods anew: a storm, as in a real cluster. The lab begins
closed and is opened after a while, so that whoever comes an hour later has a past to look at.

What happens is decided by the loop that `numaware simulate` plays (`simulate/loop.py`); here it is moved along with the
console's clock, and put down as the console tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Literal

from numaware.affinity.report import NodeReport
from numaware.diagnose.reason import nodes_available
from numaware.diagnose.texts import say
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.schedule.ledger import placement_of
from numaware.schedule.node_facts import NodeFacts
from numaware.sentence import Sentence
from numaware.serve.console.lab.distance import LabDistance
from numaware.serve.console.lab.kubelets import LabKubelets
from numaware.serve.console.lab.mover import LabMover
from numaware.serve.console.openfuyao.runtime_affinity import PLACE as RUNTIME_PLACE
from numaware.serve.console.openfuyao.runtime_affinity import conf_of as runtime_conf
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
from numaware.simulate.loop import Admission, GaveUp, LabLoop, Left, Pending, Waits
from numaware.simulate.pod_churn import coming
from numaware.simulate.policies import POLICIES, Policy, Setting
from numaware.simulate.traces import SECOND

HOUR = 3600 * SECOND
SPEC = Path(__file__).with_name("lab.yaml")

_CLOSED_FOR = HOUR * 2 // 3
_MOST_EVENTS = 20_000
_RECREATIONS = 12
_PATIENCE = 15 * 60 * SECOND
_REPORT_EVERY = 10 * SECOND
_SCHEDULERS: dict[Status, str] = {"open": "numaware", "close": "kube-scheduler"}
_NO_PROBLEM = Sentence()
# Who waits for kubelets while the lab's clock stands still is answered after so long.
_STILL_SECONDS = 5.0
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
    untold = Sentence()

    def __init__(self, start: int, *, seed: int = 1, spec: ClusterSpec | None = None) -> None:
        self.spec = spec or lab_cluster()
        self.name = self.spec.name
        self.cluster = build(self.spec)
        self.events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self.stories: dict[str, Story] = {}
        self.waiting: dict[str, Waiting] = {}
        self.changes: list[Change] = []
        self._seed = seed
        self._ids = count(1)
        self._status: Status = "close"
        self._mover = LabMover()
        self._opens: int | None = start + _CLOSED_FOR
        self._phases = {
            member.name: sum(member.name.encode()) * 997 % _REPORT_EVERY for member in self.cluster
        }
        self._loop = LabLoop(
            self.cluster,
            self._scheduler(),
            coming(seed, start, len(self.cluster)),
            recreations=_RECREATIONS,
            patience=_PATIENCE,
            now=start,
        )
        self.orders = LabKubelets(self.cluster, self._described, self._loop.drain, lambda: self.now)
        self._distance = LabDistance(self.orders, [member.name for member in self.cluster])

    # Time

    @property
    def now(self) -> int:
        return self._loop.now

    def advance(self, now: int) -> None:
        """Let everything happen that is due; at one moment of it the lab's operator opens cluster NUMA affinity."""
        if self._opens is not None and self._opens <= now:
            self._play(self._opens)
            self._opens = None
            self._switch("open", "lab")
        self._play(now)
        self._mover.act(self.cluster, self.now)

    def traffic(self) -> tuple[NodeReport, ...]:
        return self._mover.reports(self.cluster, self.now)

    def _play(self, until: int) -> None:
        while (due := self.orders.due) is not None and due <= until:
            self._happen(due)
            self.orders.advance()
            self._follow()
        self._happen(until)

    def _happen(self, until: int) -> None:
        for happening in self._loop.advance(until):
            match happening:
                case Waits(pending, decision, again=False):
                    message = say(nodes_available(0, len(self.cluster), decision.reasons))
                    self.waiting[pending.pod.uid] = Waiting(
                        pending.pod, pending.owner, pending.since, message
                    )
                    self._tell("waiting", pending, reason="FailedScheduling", message=message)
                case Admission():
                    self.waiting.pop(happening.pending.pod.uid, None)
                    self._judged(happening)
                case Left(stay):
                    del self.stories[stay.pending.pod.uid]
                    self._tell("left", stay.pending, stay.node)
                case GaveUp(pending):
                    del self.waiting[pending.pod.uid]
                    self._tell("gave-up", pending)

    def _judged(self, admission: Admission) -> None:
        """A kubelet has spoken: what the scheduler foresaw stands beside what came."""
        pending, node, verdict, *_ = admission
        if not verdict.admitted:
            self._tell("refused", pending, node, verdict.reason, verdict.message)
            return
        pod = pending.pod
        self.stories[pod.uid] = Story(
            self.now,
            pending.owner,
            placement_of(admission.foreseen(), pod) if self._loop.policy.foresees else None,
            placement_of(verdict.node, pod),
            _SCHEDULERS[self._status],
        )
        self._tell("admitted", pending, node)

    def _tell(
        self, kind: Happening, pending: Pending, node: str = "", reason: str = "", message: str = ""
    ) -> None:
        name = f"{pending.pod.namespace}/{pending.pod.name}"
        self.events.append(Event(next(self._ids), self.now, kind, name, node, pending.owner, reason, message))

    def reported(self, node: str) -> tuple[Source, int]:
        """Twins tell at once; what a real agent would have sent last is at most ten seconds old."""
        return "reported", self.now - (self.now - self._phases[node]) % _REPORT_EVERY

    # Switches

    @property
    def _runtime(self) -> Status:
        return "open" if self._mover.open else "close"

    @property
    def switches(self) -> tuple[Switch, ...]:
        return (
            Switch(AFFINITY, self._status, place=PLACE, conf=_conf(self._status)),
            self._distance.switch,
            Switch(RUNTIME, self._runtime, place=RUNTIME_PLACE, conf=runtime_conf(self._runtime)),
        )

    def switched_conf(self, switch: str, status: Status) -> str:
        if switch == DISTANCE:
            return self._distance.switched(status)
        known = self._switch_called(switch)
        if known.missing:
            return known.conf
        return runtime_conf(status) if known.id == RUNTIME else _conf(status)

    async def read_switches(self) -> None:
        """The lab knows how they stand."""

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:
        known = self._switch_called(switch)
        if known.missing:
            raise SwitchError(known.missing)
        if switch != DISTANCE:
            self._switch(status, by, switch)
        elif self._distance.moving:
            raise SwitchError(Sentence("it is being moved already"), busy=True)
        elif known.status != status:
            self._distance.begin(status, by)
            self._follow()
            await self._moved()
        return self._switch_called(switch)

    async def _moved(self) -> None:
        """Until all kubelets have it; where nobody moves the clock there is nothing to wait for: it goes on when time does."""
        while True:
            before = self.now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_STILL_SECONDS):
                    return await self._distance.ended()
            if self.now == before:
                return None

    def _described(self, facts: NodeFacts) -> None:
        self.cluster.put(facts)
        self._loop.describe(facts)

    def _follow(self) -> None:
        """Kubelets were switched: if with that NUMA distance is, or could not be, it is written down."""
        outcome = self._distance.follow()
        if outcome is None or (isinstance(outcome, SwitchError) and not outcome.undone):
            return
        problem = outcome.sentence if isinstance(outcome, SwitchError) else Sentence()
        self._changed(DISTANCE, self._distance.wanted, self._distance.by, problem)

    def _switch_called(self, name: str) -> Switch:
        return next(switch for switch in self.switches if switch.id == name)

    def _switch(self, status: Status, by: str, switch: str = AFFINITY) -> None:
        """Change schedulers, or have pods moved, if they are not yet."""
        if self._switch_called(switch).status == status:
            return
        self._changed(switch, status, by)
        if switch == RUNTIME:
            self._mover.switch(on=status == "open")
            return
        self._status = status
        self._loop.policy = self._scheduler()

    def _changed(self, switch: str, after: Status, by: str, problem: Sentence = _NO_PROBLEM) -> None:
        before: Status = "close" if after == "open" else "open"
        change = Change(self.now, switch, before, after, by, problem)
        self.changes.append(change)
        self.events.append(Event(next(self._ids), self.now, "switched", owner=by, change=change))

    def _scheduler(self) -> Policy:
        return POLICIES[_SCHEDULERS[self._status]](Setting(self.cluster, (), self._seed))


@lru_cache
def _conf(status: Status) -> str:
    """As a live cluster's would be edited."""
    return switched(_BEFORE, status)
