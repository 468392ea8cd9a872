"""The schedulers of the lab by name. Each is made anew for a run: from the cluster, the pods to come and a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, Protocol

from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Decision, Engine
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.schedule.room import gpu_resource
from numaware.simulate.fgd import GradientDescent, Typical
from numaware.simulate.peers import Kai, Koordinator, SchedulerPlugins, Volcano
from numaware.simulate.random_source import random_source
from numaware.simulate.ranking import Ranking, Rule
from numaware.simulate.totals import BestFit, Chance, NodeTotals
from numaware.twin.node import Verdict
from numaware.workload.pod import Pod


class Policy(Protocol):
    """A scheduler: it decides by its own rule and knowledge, and the kubelet judges.

    One that `lags` may find room later although nothing was freed. One that `foresees` predicts what the kubelet will give
    to the pod: the hints of its decision say so.
    """

    @property
    def lags(self) -> bool: ...

    @property
    def foresees(self) -> bool: ...

    def decide(self, pod: Pod, now: int) -> Decision: ...

    def bind(self, decision: Decision) -> Verdict:
        """Carry the decision out; the verdict is the kubelet's own, and a refusal changes nothing."""

    def release(self, uid: str) -> None: ...

    def describe(self, facts: NodeFacts) -> None:
        """A node is described anew; whatever runs there stays."""


class Ours:
    """numaware's own engine; it learns which pods come from those it has seen."""

    lags, foresees = False, True

    def __init__(self, cluster: Cluster, profile: Profile = DEFAULT_PROFILE) -> None:
        self.engine = Engine(cluster, profile)

    def decide(self, pod: Pod, now: int) -> Decision:  # noqa: ARG002 - its knowledge does not age
        return self.engine.decide(pod)

    def bind(self, decision: Decision) -> Verdict:
        return self.engine.bind(decision)

    def release(self, uid: str) -> None:
        self.engine.cluster.release(uid)

    def describe(self, facts: NodeFacts) -> None:
        self.engine.cluster.put(facts)


class Setting(NamedTuple):
    """What a scheduler is made from; `typical` are the pods of the trace, for rules that know them beforehand.

    `profile` is what numaware itself places for; the rules of others know none.
    """

    cluster: Cluster
    typical: Sequence[Pod]
    seed: int
    profile: Profile = DEFAULT_PROFILE

    def chance(self, purpose: str) -> Random:
        return random_source(self.seed, purpose)


def _ranking(rule: Callable[[Setting], Rule]) -> Callable[[Setting], Policy]:
    """kube-scheduler takes any of the nodes that share the best score; here a shuffle that the seed decides does."""

    def make(setting: Setting) -> Policy:
        made = rule(setting)
        ties = list(range(len(setting.cluster)))
        if not made.by_name:
            setting.chance("ties").shuffle(ties)
        names = (member.name for member in setting.cluster)
        return Ranking(setting.cluster, made, dict(zip(names, ties, strict=True)))

    return make


def _gpu(cluster: Cluster) -> str:
    return next((name for member in cluster if (name := gpu_resource(member.node))), "")


POLICIES: dict[str, Callable[[Setting], Policy]] = {
    "numaware": lambda setting: Ours(setting.cluster, setting.profile),
    "kube-scheduler": _ranking(lambda _: NodeTotals()),
    "scheduler-plugins": _ranking(lambda setting: SchedulerPlugins(setting.cluster)),
    "volcano": _ranking(lambda setting: Volcano(setting.cluster)),
    "kai": _ranking(lambda setting: Kai(setting.cluster)),
    "koordinator": _ranking(lambda _: Koordinator()),
    "fgd": _ranking(lambda setting: GradientDescent(Typical(setting.typical, _gpu(setting.cluster)))),
    "best-fit": _ranking(lambda setting: BestFit(setting.cluster)),
    "random": _ranking(lambda setting: Chance(setting.chance("nodes"))),
}
