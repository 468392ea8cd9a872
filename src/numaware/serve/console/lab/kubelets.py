"""The lab's kubelets, switched as those of a cluster are: by orders, one node at a time, put back where one does not take it.

Whose turn it is, what an order comes to on a node, and what the kubelet would refuse say the same rooms that say it for agents
(`node/kubelet_switch/turn.py`, the twin). Only the hands are others: a kubelet of the lab is a twin, so its restart is a twin
that is started with the changed configuration and takes back what the one before had handed out. That takes as long as
`_AWAY`, during which the node takes no new pods. Where an order may drain, pods move only from nodes whose restart would end some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from numaware.kube.decoding import Metadata
from numaware.kube.kubelet_policies import KubeletPolicy, NodeStatus, Phase, PolicySpec
from numaware.kube.kubelet_policies import Order as Command
from numaware.node.kubelet_switch.turn import next_move, wanted_with
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.node_facts import NodeFacts
from numaware.sentence import Sentence
from numaware.simulate.traces import SECOND
from numaware.twin import kubelet_fields
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.kubelet import start
from numaware.twin.node import Node, Restart
from numaware.twin.readmission import refused_files
from numaware.twin.settings import Settings

_AWAY = SECOND
_KNOWN = (
    "topology_policy",
    "topology_scope",
    "topology_options",
    "cpu_policy",
    "cpu_options",
    "memory_policy",
)


class _RefusedError(Exception):
    """Why a kubelet is left as it is, in the kubelet's words where those are known."""


class _WouldEndError(_RefusedError):
    """It would come up, and end pods."""


class _Away(NamedTuple):
    """A kubelet that is being restarted: until when, for which order as it was then, with what, and whether that is the way back."""

    until: int
    order: str
    wanted: str
    config: KubeletConfig
    back: bool


class LabKubelets:
    """All kubelets of the lab, and what was ordered of them.

    `describe` tells the scheduler of a node that is other, `drain` has the pods of one made anew elsewhere, `clock` tells the time
    in milliseconds since 1970.
    """

    locked = Sentence()

    def __init__(
        self,
        cluster: Cluster,
        describe: Callable[[NodeFacts], None],
        drain: Callable[[str], None],
        clock: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._drain = drain
        self._clock = clock
        self._describe = describe
        self._policies: dict[str, KubeletPolicy] = {}
        self._away: dict[str, _Away] = {}
        # As each kubelet was before an order changed it.
        self._before: dict[tuple[str, str], KubeletConfig] = {}

    @property
    def policies(self) -> Sequence[KubeletPolicy]:
        return [self._policies[name] for name in sorted(self._policies)]

    def policy(self, name: str) -> KubeletPolicy | None:
        return self._policies.get(name)

    async def read(self) -> None:
        """They are at hand."""

    async def give(self, name: str, spec: Mapping[str, Any]) -> None:
        self.order(name, spec)

    async def change(self, name: str, command: Command) -> None:
        self.command(name, command)

    def command(self, name: str, command: Command) -> None:
        """Hold it, go on with it, or call it back."""
        policy = self._policies[name]
        self._policies[name] = replace(policy, spec=replace(policy.spec, order=command))
        if command == "Abort":
            self._call_back(name)
        self._begin()

    def order(self, name: str, spec: Mapping[str, Any]) -> KubeletPolicy:
        """As who writes the object anew: what has failed is tried again."""
        known = self._policies.get(name)
        attempt = known.spec.attempt + 1 if known is not None else 0
        fresh = KubeletPolicy(metadata=Metadata(name=name)) if known is None else known
        self._policies[name] = replace(fresh, spec=msgspec.convert({**spec, "attempt": attempt}, PolicySpec))
        self._begin()
        return self._policies[name]

    # Time

    @property
    def due(self) -> int | None:
        """When the next kubelet is up again."""
        return min((one.until for one in self._away.values()), default=None)

    def advance(self) -> None:
        """Whoever is due by now is up again, and others begin."""
        now = self._clock()
        for name in [name for name, one in sorted(self._away.items()) if one.until <= now]:
            self._end(self._cluster.by_name[name], self._away.pop(name))
        self._begin()

    # Nodes

    def _begin(self) -> None:
        """Whoever's turn it is begins."""
        for name in sorted(self._policies):
            for member in self._cluster:
                policy = self._policies[name]
                if member.name in self._away or not policy.covers(member.facts.labels):
                    continue
                move = next_move(policy, member.name)
                mine = policy.nodes.get(member.name, NodeStatus())
                if move == "wait" and mine.phase not in ("Done", "RolledBack"):
                    self._write(name, member, "Pending")
                elif move in ("begin", "back"):
                    self._try(policy, member, back=move == "back")

    def _try(self, policy: KubeletPolicy, member: Member, *, back: bool) -> None:
        """One kubelet is stopped, if it would come up again with all of its pods."""
        config = member.node.kubelet.config
        if back:
            wanted = self._before.get((policy.name, member.name), config)
        else:
            wanted = _with(config, wanted_with(policy.spec, _settings(config), lambda: None))
        if wanted == config:
            self._write(policy.name, member, "RolledBack" if back else "Done")
            return
        try:
            _restarted(member.node, wanted)
        except _RefusedError as error:
            if not (policy.spec.drain and isinstance(error, _WouldEndError)):
                self._write(policy.name, member, "Refused", str(error))
                return
            self._drain(member.name)
        self._write(policy.name, member, "Switching")
        self._away[member.name] = _Away(self._clock() + _AWAY, policy.name, policy.wanted, wanted, back)
        self._describe(replace(member.facts, unschedulable=True))

    def _end(self, member: Member, away: _Away) -> None:
        """A kubelet is up again, with what was wanted or, if it cannot be, as it was."""
        before = member.node.kubelet.config
        facts = replace(member.facts, unschedulable=False)
        try:
            node = _restarted(member.node, away.config)
        except _RefusedError as error:
            self._describe(facts)
            self._write(away.order, member, "Failed", str(error), away.wanted)
            return
        if away.back:
            del self._before[away.order, member.name]
        else:
            self._before.setdefault((away.order, member.name), before)
        facts = replace(facts, topology_policy=away.config.topology_policy, cpu_policy=away.config.cpu_policy)
        self._cluster.put(facts, node)
        self._describe(facts)
        self._write(away.order, member, "RolledBack" if away.back else "Done", wanted=away.wanted)

    def _call_back(self, order: str) -> None:
        """Who is away for it comes up again as it was."""
        for name in [name for name, one in self._away.items() if one.order == order]:
            del self._away[name]
            member = self._cluster.by_name[name]
            self._describe(replace(member.facts, unschedulable=False))
            self._write(order, member, "Failed", "it was called back")

    def _write(self, order: str, member: Member, phase: Phase, message: str = "", wanted: str = "") -> None:
        """An entry for what was `wanted` when it began; an order may have been given anew since."""
        policy = self._policies[order]
        steps = int(phase == "Switching")
        time = datetime.fromtimestamp(self._clock() / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        entry = NodeStatus(phase, wanted or policy.wanted, steps, steps, message, time)
        self._policies[order] = policy.with_entry(member.name, entry)


def _settings(config: KubeletConfig) -> Settings:
    """What is in force, as if all of it was written."""
    return Settings(reserved_cpus=config.reserved_cpus, **{name: getattr(config, name) for name in _KNOWN})


def _with(config: KubeletConfig, wanted: Mapping[str, Any]) -> KubeletConfig:
    """The configuration with these fields changed; options one by one."""
    changes: dict[str, Any] = {}
    for field, value in wanted.items():
        setting = kubelet_fields.SETTING_OF[field]
        joined = isinstance(value, dict)
        changes[setting] = (
            tuple(sorted({**dict(getattr(config, setting)), **value}.items())) if joined else value
        )
    return replace(config, **changes)


def _restarted(node: Node, config: KubeletConfig) -> Node:
    """The node after its kubelet was started anew with this; a kubelet that would not start or end a pod is not."""
    try:
        kubelet = start(node.kubelet.hardware, config)
        files = {name: text.encode() for name, text in state_files(node.kubelet, node.state).items()}
        stale = refused_files(kubelet, files)
        state = load_state(kubelet, {name: data for name, data in files.items() if name not in stale})
        again: Restart = Node(kubelet, replace(state, pods=dict(node.state.pods))).restart()
    except StartError as error:
        raise _RefusedError(f"the kubelet would not start: {error.message}") from None
    except (KubeletPanic, ValueError) as error:
        raise _RefusedError(f"the kubelet would not start: {error}") from None
    ended = [
        f"{pod.namespace}/{pod.name} would end: {verdict.reason}"
        for uid, verdict in again.verdicts
        if not verdict.admitted
        for pod in [node.state.pods[uid]]
    ]
    if ended:
        raise _WouldEndError("; ".join(ended))
    return again.node
