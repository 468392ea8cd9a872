"""A cluster's life in a hurry: pods come and go, every program is killed at random, and somebody looks all the while.

What a soak asks of a cluster: no pod lost, nothing given to two pods, nothing refused by a kubelet, and memory that does not grow.
Nodes are hollow (real API server, the twin as their kubelet) but for one, on which a real kubelet, an agent and a device plugin
run. In its last third nobody kills our programs any more, so that what they take can be followed for long enough.
"""

from __future__ import annotations

import http.client
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from e2e import load
from e2e.api import ApiError, Object
from e2e.control_plane import ControlPlane
from e2e.fake_kubelet import booked_twice
from e2e.fake_nodes import FakeNodes
from e2e.program import Program, eventually
from support.charts import Chart, Line, svg

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POOL = "pool"
# Whose pods go to which nodes: two that decide do not share any, as nobody recommends that.
OURS, ASKED, REAL = "ours", "asked", "real"
_SCHEDULERS = {OURS: "numaware", ASKED: "default-scheduler", REAL: "numaware"}
_REPLICAS = 12
# Without them nobody's call comes back.
_ANSWER = {"etcd", "kube-apiserver"}

_TICK, _SAMPLE, _LOOK, _ROLL = 0.25, 5.0, 20.0, 45.0
_KILL_EVERY = (6.0, 16.0)
_AWAY = (0.2, 4.0)
# Pods that are to be there at once in a pool: of six in ten that the load puts on so many nodes, more or less in waves.
_WAVE = 240.0


class Victim(NamedTuple):
    """A program that may be killed, and how whatever runs it in a cluster starts it again."""

    name: str
    program: Program
    ours: bool
    again: Callable[[], None]


class Sample(NamedTuple):
    """One look: seconds since the start, pods that run, and MiB of each program that runs."""

    at: float
    running: int
    memory: Mapping[str, int]


class Kill(NamedTuple):
    at: float
    name: str


@dataclass
class Account:
    """What became of everything."""

    asked: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ran_on_real: set[str] = field(default_factory=set)
    rolls: int = 0
    unanswered: int = 0


class Soak:
    """Driven from the main thread, which the lives of its programs are bound to."""

    def __init__(
        self, plane: ControlPlane, fakes: FakeNodes, victims: Sequence[Victim], per_pool: int, seed: int = 1
    ) -> None:
        self.account = Account()
        self._plane, self._fakes, self._victims = plane, fakes, {one.name: one for one in victims}
        self._api = plane.api()
        self._per_pool = per_pool
        self._chance = random.Random(seed)  # noqa: S311 - the same blows every time
        self._shapes = [shape for shape in load.SHAPES for _ in range(shape.of_hundred)]
        self._numbers: Counter[str] = Counter()
        self._present: dict[str, str] = {}
        self._on_real: dict[str, float] = {}
        self._leaving: list[str] = []
        self._dead: dict[str, float] = {}
        self._due = dict.fromkeys(("kill", "sample", "look", "roll"), 0.0)
        self._began = 0.0

    # The whole

    def run(self, seconds: float) -> None:
        self._api.create(DEPLOYMENTS, _deployment())
        self._began = time.monotonic()
        while (now := self._now()) < seconds:
            self._supervise(now)
            if self._is_due("kill", now, self._chance.uniform(*_KILL_EVERY)):
                self._kill(now, spare_ours=now > seconds * 2 / 3)
            # Who waits for an answer that cannot come would not start again what it takes to answer.
            if not self._dead.keys() & _ANSWER:
                self._try(lambda: self._churn(now))
                if self._is_due("roll", now, _ROLL):
                    self._try(self._roll)
            if self._is_due("sample", now, _SAMPLE):
                self._sample(now)
            if self._is_due("look", now, _LOOK):
                self._look()
            time.sleep(_TICK)
        self._settle()

    def waits(self) -> list[float]:
        """Seconds from the creation of a pod until a hollow node had it, shortest first."""
        asked = self.account.asked
        return sorted(
            one.at - asked[one.pod.name] for one in self._fakes.admissions() if one.pod.name in asked
        )

    # Pods

    def _churn(self, now: float) -> None:
        for name in self._leaving[:4]:
            self._api.status_of("DELETE", f"{PODS}/{name}")
            self._leaving.remove(name)
        running = {admission.pod.name: (uid, admission) for uid, admission in self._fakes.running().items()}
        # Seven tenths of the most, give or take three, up and down.
        phase = abs(now % _WAVE / _WAVE * 2 - 1)
        wanted = int(self._per_pool * (0.4 + 0.6 * phase))
        for pool in (OURS, ASKED):
            present = [name for name, where in self._present.items() if where == pool]
            old = [name for name in present if name in running and time.monotonic() - running[name][1].at > 3]
            if len(present) >= wanted and old:
                name = self._chance.choice(old)
                del self._present[name]
                if self._chance.random() < 0.5:
                    self._fakes.finish(running[name][0])
                self._leaving.append(name)
            if len(present) <= wanted:
                self._create(pool, _pod(pool, self._chance.choice(self._shapes)))
        self._churn_real(now)

    def _churn_real(self, now: float) -> None:
        for name in [name for name, since in self._on_real.items() if since and now - since > 20]:
            self._api.status_of("DELETE", f"{PODS}/{name}")
            del self._on_real[name]
        if len(self._on_real) < 3:
            name = self._create(REAL, _on_real(gpus=self._chance.randrange(2)))
            self._on_real[name] = 0.0

    def _create(self, pool: str, pod: Object) -> str:
        """A pod with the pool's next number; one whose answer is lost may be there, and is asked for again under its own name."""
        name = f"{pool}-{self._numbers[pool]:05}"
        pod["metadata"]["name"] = name
        asked = time.monotonic()
        try:
            self._api.create(PODS, pod)
        except ApiError as error:
            if error.status != 409:
                raise
        self.account.asked[name] = asked
        self._numbers[pool] += 1
        self._present[name] = pool
        return name

    def _roll(self) -> None:
        """Everything of the Deployment anew, as an update does."""
        self.account.rolls += 1
        stamp = {"annotations": {"soak": str(self.account.rolls)}}
        self._api.patch(f"{DEPLOYMENTS}/rolled", {"spec": {"template": {"metadata": stamp}}})

    def _try(self, step: Callable[[], None]) -> None:
        """A user whose API server is away tries again."""
        try:
            step()
        except (OSError, http.client.HTTPException, ApiError) as error:
            if isinstance(error, ApiError) and error.status not in (403, 408, 429, 500, 503, 504):
                raise
            self.account.unanswered += 1

    # Programs

    def _kill(self, now: float, *, spare_ours: bool) -> None:
        alive = [
            name
            for name, one in self._victims.items()
            if one.program.running and not (one.ours and spare_ours)
        ]
        # Not the next one before the last one is back: how two at once are survived is what the fault tests ask.
        if self._dead or not alive:
            return
        name = self._chance.choice(alive)
        self._victims[name].program.kill()
        self.account.kills.append(Kill(round(now, 1), name))
        self._dead[name] = now + self._chance.uniform(*_AWAY)

    def _supervise(self, now: float) -> None:
        """Start again what was killed, and what has ended by itself, as a leader does that lost its Lease."""
        for name, one in self._victims.items():
            if not one.program.running and now >= self._dead.get(name, 0.0):
                one.again()
                self._dead.pop(name, None)

    # Looking

    def _sample(self, now: float) -> None:
        memory = {name: mib for name, one in self._victims.items() if (mib := one.program.memory_mib())}
        self.account.samples.append(Sample(round(now, 1), len(self._fakes.running()), memory))

    def _look(self) -> None:
        """At the truth on the nodes, whether or not the API server answers; then at the real one's pods."""
        self._note(f"{one.name} was refused: {one.reason} {one.message}" for one in self._fakes.refusals())
        self._note(self._fakes.problems())
        self._note(booked_twice(self._fakes.running().values()))
        if not self._dead.keys() & _ANSWER:
            self._try(self._look_at_real)

    def _look_at_real(self) -> None:
        now = self._now()
        for pod in self._api.list_all(PODS, labelSelector=f"{POOL}={REAL}"):
            name, status = pod["metadata"]["name"], pod["status"]
            if status["phase"] == "Failed":
                self._note([f"{name} was refused: {status.get('reason')} {status.get('message')}"])
            if status["phase"] == "Running":
                self.account.ran_on_real.add(name)
                if self._on_real.get(name) == 0.0:
                    self._on_real[name] = now

    def _note(self, found: Any) -> None:
        self.account.wrong += [one for one in found if one not in self.account.wrong]

    def _settle(self) -> None:
        """All is started again, nothing more happens: every pod that was asked for has had its node."""

        def all_have_run() -> bool:
            self._supervise(float("inf"))
            self._look_at_real()
            return not self.lost()

        try:
            eventually(all_have_run, "every pod has had its node", 240)
        except AssertionError:
            self._note(f"{name} never ran" for name in self.lost())
        deployment = f"{DEPLOYMENTS}/rolled"
        eventually(
            lambda: self._api.get(deployment)["status"].get("availableReplicas") == _REPLICAS,
            "all replicas of the Deployment are there",
            120,
        )
        self._look()

    def lost(self) -> list[str]:
        """Pods that were asked for and have never come to a node."""
        ran = {one.pod.name for one in self._fakes.admissions()} | self.account.ran_on_real
        return [name for name in self.account.asked if name not in ran]

    def _is_due(self, what: str, now: float, every: float) -> bool:
        if now < self._due[what]:
            return False
        self._due[what] = now + every
        return True

    def _now(self) -> float:
        return time.monotonic() - self._began


def growth(account: Account, name: str) -> float:
    """How much a program that nobody kills has grown: the median of the last sixth of all samples, over that of the one before."""
    sixth = len(account.samples) // 6
    before, last = (
        median(sample.memory[name] for sample in part if name in sample.memory)
        for part in (account.samples[-2 * sixth : -sixth], account.samples[-sixth:])
    )
    return last / before


def told(account: Account, waits: Sequence[float]) -> dict[str, Any]:
    """The account in numbers, for a file and for the curves of docs/scale.md."""
    names = {name for sample in account.samples for name in sample.memory}
    return {
        "minutes": round(account.samples[-1].at / 60, 1),
        "pods": len(account.asked),
        "rolls": account.rolls,
        "unanswered": account.unanswered,
        "kills": dict(sorted(Counter(kill.name for kill in account.kills).items())),
        "killedAt": [kill._asdict() for kill in account.kills],
        "wrong": account.wrong,
        "waitSeconds": {
            f"p{percent}": round(waits[(len(waits) - 1) * percent // 100], 2) for percent in (50, 90, 99, 100)
        },
        "growth": {name: round(growth(account, name), 3) for name in sorted(names)},
        "samples": [sample._asdict() for sample in account.samples],
    }


def picture(found: Mapping[str, Any]) -> str:
    """The account as curves: our programs, Kubernetes' own, and the pods."""
    samples, ours = found["samples"], [name for name in found["growth"] if name.startswith("numaware")]

    def lines(names: Iterable[str]) -> list[Line]:
        return [
            Line(name, [(one["at"] / 60, one["memory"][name]) for one in samples if name in one["memory"]])
            for name in names
        ]

    kills = [(one["at"] / 60, one["name"]) for one in found["killedAt"]]
    pods = Line("pods", [(one["at"] / 60, one["running"]) for one in samples])
    return svg(
        (
            Chart(
                "numaware's programs, MiB in memory (a mark for each that was killed)",
                "minutes",
                lines(ours),
                [at for at, name in kills if name in ours],
            ),
            Chart(
                "Kubernetes' programs, MiB in memory",
                "minutes",
                lines(name for name in found["growth"] if name not in ours),
                [at for at, name in kills if name not in ours],
            ),
            Chart("pods that run on the hollow nodes", "minutes", [pods]),
        ),
        f"Memory of every program and running pods over {found['minutes']} minutes with {len(kills)} kills.",
    )


def _pod(pool: str, shape: load.Shape) -> Object:
    """Of these pods each pool has its own; the name comes later."""
    pod = load.pod(shape, "", _SCHEDULERS[pool])
    pod["metadata"]["labels"][POOL] = pod["spec"].setdefault("nodeSelector", {})[POOL] = pool
    return pod


def _on_real(gpus: int) -> Object:
    limits = {"cpu": "4", "memory": "1Gi", **({load.GPU: str(gpus)} if gpus else {})}
    pod = _pod(REAL, load.Shape("real", (limits,), 0))
    # The runtime has every image that nobody insists to pull.
    pod["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    return pod


def _deployment() -> Object:
    template = _pod(OURS, load.Shape("rolled", ({"cpu": "2", "memory": "2Gi"},), 0))
    labels = template["metadata"]["labels"] = {"shape": "rolled"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "rolled"},
        "spec": {
            "replicas": _REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }
