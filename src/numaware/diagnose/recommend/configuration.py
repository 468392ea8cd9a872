"""A kubelet configuration for a machine and what it is there for, each line with its reason, proven on the twin.

What is recommended has been written out, read back as a kubelet reads it, started, and asked to admit the kind of pod
it is meant for. What a release does not know, or keeps behind a gate that is closed, is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from numaware.diagnose.finding import Message
from numaware.diagnose.recommend.reservation import KeptMemory, kept_cpus, kept_memory
from numaware.diagnose.recommend.typical_pod import typical_pod
from numaware.errors import InputError
from numaware.machine.cpuset import list_form
from numaware.machine.quantity import Quantity
from numaware.machine.topology import Machine
from numaware.twin import kubelet_config, options
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.gates import GATES, enabled
from numaware.twin.hardware import Hardware, Layout, layout
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node, Verdict
from numaware.twin.rules import rules_for
from numaware.workload.pod import Pod

Purpose = Literal["ai-training", "inference", "latency", "database", "mixed"]

# A kubelet tries every combination of sets of NUMA nodes. Up to so many nodes that is no matter with CPUs, memory and
# devices; with CPUs and devices alone; and where only single nodes are accepted, which it sorts out first.
_FEW_NODES, _MORE_NODES, _MOST_NODES = 4, 8, 16
# The kubelet keeps sets of NUMA nodes in 64 bits.
_LARGEST_ID = 63


class _Plan(NamedTuple):
    """What a purpose asks of a kubelet."""

    policy: str
    scope: str
    memory: bool
    isolated: bool = False
    spread: bool = False


_PLANS: dict[Purpose, _Plan] = {
    "ai-training": _Plan("restricted", "pod", memory=True),
    "inference": _Plan("single-numa-node", "pod", memory=True),
    "latency": _Plan("single-numa-node", "pod", memory=True, isolated=True),
    "database": _Plan("restricted", "pod", memory=True, spread=True),
    "mixed": _Plan("best-effort", "container", memory=False),
}


class Setting(NamedTuple):
    """One field of the configuration, and why it has this value: one reason for each of its parts."""

    key: str
    value: Any
    why: tuple[Message, ...]


class Recommendation(NamedTuple):
    """The settings in the order of the file, what there is to say besides, and the proof."""

    purpose: Purpose
    version: str
    settings: tuple[Setting, ...]
    notes: tuple[Message, ...]
    hardware: Hardware
    pod: Pod
    verdict: Verdict

    @property
    def document(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            **{setting.key: setting.value for setting in self.settings},
        }


def recommend(machine: Machine, purpose: Purpose, version: str = DEFAULT_VERSION) -> Recommendation:
    """The configuration for this machine; `InputError` where the machine cannot be judged."""
    try:
        hardware = hardware_of(machine)
        chosen = _Choice(machine, hardware, _PLANS[purpose], purpose, rules_for(version).minor)
        settings = tuple(chosen.settings())
    except ValueError as error:
        raise InputError("machine", str(error)) from None
    document = {setting.key: setting.value for setting in settings}
    file = kubelet_config.read(msgspec.json.encode(document), "recommendation", version)
    try:
        node = Node.fresh(hardware, file.config)
        pod = typical_pod(purpose, node)
        verdict = node.admit(pod)
    except (StartError, KubeletPanic, ValueError) as error:
        raise InputError("machine", f"no configuration of this kind starts here: {error}") from None
    return Recommendation(purpose, version, settings, tuple(chosen.notes), hardware, pod, verdict)


class _Choice:
    """The settings for one machine, release and purpose, in order; `notes` is what could not be had."""

    def __init__(
        self, machine: Machine, hardware: Hardware, plan: _Plan, purpose: Purpose, minor: int
    ) -> None:
        self.machine = machine
        self.hardware = hardware
        self.layout: Layout = layout(tuple(sorted(hardware.numa, key=lambda node: node.id)))
        self.plan = plan
        self.purpose = purpose
        self.minor = minor
        self.notes: list[Message] = []
        self.kept = kept_memory(hardware)
        # With one core there is nothing to give away for good.
        self.pins = len(self.layout.cores) > 1
        self.policy = self._policy()
        self.memory = self._static_memory()

    def settings(self) -> Iterator[Setting]:
        yield from self._cpu_settings()
        yield from self._topology_settings()
        yield from self._memory_settings()

    # CPUs

    def _cpu_settings(self) -> Iterator[Setting]:
        if not self.pins:
            self.notes.append(Message("recommend-one-core"))
            yield _setting("cpuManagerPolicy", "none", _reason("cpu-none"))
            return
        yield _setting("cpuManagerPolicy", "static", _reason("cpu-static"))
        chosen = [name for name in self._cpu_options() if self._has(name, options.CPU_STAGES)]
        if chosen:
            yield _setting("cpuManagerPolicyOptions", dict.fromkeys(chosen, "true"), *map(_reason, chosen))
        cpus = kept_cpus(self.machine, self.layout, generous=self.plan.isolated)
        nodes = [node for node, mask in self.layout.numas if mask & cpus]
        facts = {
            "count": cpus.bit_count(),
            "of": self.layout.cpu_count,
            "cores": sum(bool(core & cpus) for core in self.layout.cores),
            "nodes": nodes,
        }
        yield _setting("reservedSystemCPUs", list_form(cpus), Message("recommend-reserved-cpus", facts))

    def _cpu_options(self) -> Iterator[str]:
        plan, sizes = self.plan, {core.bit_count() for core in self.layout.cores}
        # The kubelet takes the average for the size of every core.
        if plan.isolated and len(sizes) == 1 and sizes != {1}:
            yield options.FULL_PCPUS_ONLY
        if plan.isolated:
            yield options.STRICT_RESERVATION
        if plan.isolated and len(self.layout.uncores) > len(self.layout.numas):
            yield options.PREFER_ALIGN_UNCORE
        if plan.spread and len(self.layout.numas) > 1 and self.policy != "none":
            yield options.DISTRIBUTE_ACROSS_NUMA

    def _has(self, name: str, stages: options.Stages) -> bool:
        """Whether this release has the option, and its gate is open without a word."""
        manager = "CPUManager" if stages is options.CPU_STAGES else "TopologyManager"
        stage = options.stage(stages, name, self.minor)
        gates = [f"{manager}PolicyOptions", f"{manager}Policy{(stage or '').title()}Options"]
        known = [gate for gate in gates if gate in GATES and GATES[gate].at(self.minor)]
        if stage and all(enabled(gate, self.minor, ()) for gate in known):
            return True
        self.notes.append(Message("recommend-later", {"option": name, "version": f"v1.{self.minor}"}))
        return False

    # Topology

    def _policy(self) -> str:
        count = len(self.hardware.numa)
        most = _MOST_NODES if self.plan.policy == "single-numa-node" else _MORE_NODES
        old = (
            count > options.DEFAULT_MAX_ALLOWABLE
            and options.stage(options.TOPOLOGY_STAGES, options.MAX_ALLOWABLE, self.minor) is None
        )
        if count > most or self.layout.ids[-1] > _LARGEST_ID or old:
            self.notes.append(Message("recommend-too-many-nodes", {"count": count}))
            return "none"
        return self.plan.policy

    def _topology_settings(self) -> Iterator[Setting]:
        why = "topology-none" if self.policy == "none" else self.purpose
        yield _setting("topologyManagerPolicy", self.policy, _reason(why))
        if self.policy == "none":
            return
        if self.minor >= 20:
            yield _setting("topologyManagerScope", self.plan.scope, _reason(f"scope-{self.plan.scope}"))
        chosen = dict(self._topology_options())
        if chosen:
            yield _setting("topologyManagerPolicyOptions", chosen, *map(_reason, chosen))

    def _topology_options(self) -> Iterator[tuple[str, str]]:
        numa = self.hardware.numa
        if len(numa) > options.DEFAULT_MAX_ALLOWABLE:
            yield options.MAX_ALLOWABLE, str(len(numa))
        # Distances are looked up by number: with gaps in the numbers the kubelet would crash.
        regular = self.layout.ids == tuple(range(len(numa)))
        complete = all(len(node.distances) == len(numa) for node in numa)
        wide = self.policy != "single-numa-node" and len(numa) > 2
        if wide and regular and complete and self._has(options.PREFER_CLOSEST, options.TOPOLOGY_STAGES):
            yield options.PREFER_CLOSEST, "true"

    # Memory

    def _static_memory(self) -> KeptMemory | None:
        if not self.plan.memory or self.policy == "none":
            return None
        if self.minor < 22:
            self.notes.append(Message("recommend-memory-later", {"minor": self.minor}))
            return None
        if self.policy != "single-numa-node" and len(self.hardware.numa) > _FEW_NODES:
            self.notes.append(Message("recommend-memory-slow", {"count": len(self.hardware.numa)}))
            return None
        # Where memory lies beside no CPU, the two never agree on a NUMA node.
        apart = any(numa.cpus and not numa.memory_bytes for numa in self.hardware.numa)
        if self.kept is None or apart:
            self.notes.append(Message("recommend-memory-unknown"))
            return None
        return self.kept

    def _memory_settings(self) -> Iterator[Setting]:
        kept = self.kept
        if self.minor >= 21:
            policy = "Static" if self.memory else "None"
            yield _setting("memoryManagerPolicy", policy, _reason(f"memory-{policy.lower()}"))
        if kept is None:
            return
        yield _setting("kubeReserved", {"memory": _size(kept.kube)}, _reason("kube-reserved"))
        yield _setting("systemReserved", {"memory": _size(kept.system)}, _reason("system-reserved"))
        yield _setting(
            "evictionHard",
            {
                "memory.available": _size(kept.eviction),
                "nodefs.available": "10%",
                "nodefs.inodesFree": "5%",
                "imagefs.available": "15%",
            },
            _reason("eviction"),
        )
        if self.memory:
            facts = {
                "kube": _size(kept.kube),
                "system": _size(kept.system),
                "eviction": _size(kept.eviction),
                "total": _size(kept.total),
            }
            split = [{"numaNode": node, "limits": {"memory": _size(size)}} for node, size in kept.split]
            yield _setting("reservedMemory", split, Message("recommend-reserved-memory", facts))


def _setting(key: str, value: Any, *why: Message) -> Setting:
    return Setting(key, value, why)


def _reason(key: str) -> Message:
    return Message(f"recommend-{key}")


def _size(amount: int) -> str:
    """Whole mebibytes or gibibytes, as the kubelet would print them."""
    return str(Quantity.of(amount, "binary"))
