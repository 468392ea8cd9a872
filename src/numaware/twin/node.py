"""One node: a started kubelet and what it has handed out. The twin's front door.

`admit` gives the kubelet's verdict on a pod and the node as it is afterwards; `release` the node after a pod is gone.
Nodes are values: nothing here changes, logs, waits or rolls dice, and asking twice gives the same answer twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from numaware.twin.config import KubeletConfig
from numaware.twin.cpu.static import CpuState
from numaware.twin.device.manager import DeviceState
from numaware.twin.errors import AdmissionError, topology_affinity
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.memory.static import MemoryState
from numaware.twin.topology.hints import NO_HINT, Answer, Hint, Hints
from numaware.workload.demand import ContainerDemand, Demand, demand
from numaware.workload.pod import Pod

_NO_CPUS = CpuState(0, {})
_NO_MEMORY = MemoryState((), {})


class NodeState(msgspec.Struct, frozen=True, gc=False):
    """What the three managers remember, and the pods that are on the node, in the order they came."""

    cpu: CpuState
    memory: MemoryState
    device: DeviceState
    pods: dict[str, Pod]


class Merge(NamedTuple):
    """One merge as it happened: who said what, what came out. `container` is None for a whole pod."""

    container: str | None
    device: Answer
    cpu: Answer
    memory: Answer
    best: Hint
    admitted: bool


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The kubelet's answer, and the node afterwards; `hints` are the merged hints that passed, in order.

    `held` is the state at the moment of refusal, before the kubelet cleans up; `container` is whose turn it was (empty
    when the pod was judged as a whole), `resource` what could not be given (empty when hints did not agree).
    """

    admitted: bool
    reason: str
    message: str
    node: Node
    held: NodeState
    container: str = ""
    resource: str = ""
    hints: tuple[Hint, ...] = ()


class Restart(NamedTuple):
    """A restarted node, what each pod was told, and the state before those refused or gone were dropped."""

    node: Node
    verdicts: tuple[tuple[str, Verdict], ...]
    held: NodeState


class Node:
    """A machine, its kubelet's configuration and its state, as one immutable value."""

    __slots__ = ("kubelet", "state")

    def __init__(self, kubelet: Kubelet, state: NodeState) -> None:
        self.kubelet = kubelet
        self.state = state

    @classmethod
    def fresh(cls, hardware: Hardware, config: KubeletConfig) -> Node:
        """A node on which nothing runs yet; `StartError` where the kubelet would not start."""
        kubelet = start(hardware, config)
        return cls(
            kubelet,
            NodeState(
                kubelet.cpus.initial() if kubelet.cpus else _NO_CPUS,
                kubelet.memory.initial() if kubelet.memory else _NO_MEMORY,
                kubelet.devices.initial(),
                {},
            ),
        )

    def effective_shared(self, uid: str = "") -> int:
        """The shared CPUs a new pod finds: with those of a pod that is gone but still pending (`Rules.keeps_pending`).

        A pod that is being admitted, `uid`, is not gone.
        """
        cpu = self.state.cpu
        shared = cpu.shared
        if self.kubelet.rules.keeps_pending:
            for gone in cpu.owned.keys() - self.state.pods.keys():
                if gone != uid:
                    for cpus in cpu.owned[gone].values():
                        shared |= cpus
        return shared

    def key(self) -> tuple[object, ...]:
        """Equal keys answer alike to any new pod: what is free counts, not who holds the rest."""
        state = self.state
        return (
            self.kubelet,
            self.effective_shared(),
            state.memory.nodes,
            tuple(sorted(state.device.taken.items())),
        )

    def admit(self, pod: Pod, watch: Callable[[Merge], None] | None = None) -> Verdict:
        """The kubelet's verdict; `watch` is told of every merge, and only then is all of its evidence worked out."""
        admission = _Admission(self.kubelet, self.state, pod, watch)
        try:
            admission.run()
        except AdmissionError as error:
            # KUBELET: nothing is rolled back at the refusal; the next admission drops what inactive pods hold. A pod
            # that was already on the node (a restart) stays active until the kubelet has asked them all.
            node = Node(self.kubelet, admission.state)
            if pod.uid not in self.state.pods:
                node = node.release(pod.uid)
            return Verdict(
                False, error.reason, error.message, node, admission.state, admission.container, error.resource
            )
        held = admission.state
        state = NodeState(held.cpu, held.memory, held.device, {**held.pods, pod.uid: pod})
        return Verdict(True, "", "", Node(self.kubelet, state), state, hints=tuple(admission.hints))

    def take(self, pod: Pod, hints: Sequence[Hint]) -> Node:
        """The node after it has admitted the pod, where that has been asked before: only the allocation is done.

        `hints` are the merged hints, in order, of the verdict on such a pod by a node of the same class
        (`equivalence.node_class`).
        """
        kubelet, state = self.kubelet, self.state
        cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
        cpus, memories, devices, uid = kubelet.cpus, kubelet.memory, kubelet.devices, pod.uid
        containers = demand(pod, sidecars=kubelet.rules.sidecars).containers
        one_by_one = kubelet.policy is not None and not kubelet.by_pod
        hint = hints[0] if hints else NO_HINT
        for index, wanted in enumerate(containers):
            if one_by_one:
                hint = hints[index]
            device = devices.allocate(device, uid, wanted, hint)
            if cpus:
                if kubelet.rules.keeps_pending:
                    cpu = cpus.asked(cpu, uid, pods)
                cpu = cpus.allocate(cpu, uid, wanted, hint)
            if memories and wanted.memory:
                earlier = containers[: min(index, len(pod.init_containers))]
                memory = memories.allocate(memory, uid, wanted, earlier, hint)
        return Node(kubelet, NodeState(cpu, memory, device, {**pods, uid: pod}))

    def release(self, *uids: str) -> Node:
        """The node after these pods are gone and the kubelet has cleaned up."""
        kubelet, state = self.kubelet, self.state
        cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
        for uid in uids:
            cpu = kubelet.cpus.release(cpu, uid) if kubelet.cpus else cpu
            memory = kubelet.memory.release(memory, uid) if kubelet.memory else memory
            device = kubelet.devices.release(device, uid)
            if uid in pods:
                pods = dict(pods)
                del pods[uid]
        return Node(kubelet, NodeState(cpu, memory, device, pods))

    def with_pod(self, pod: Pod) -> Node:
        """The node with the pod on it as it is described here; that alone gives the pod nothing."""
        return Node(self.kubelet, replace(self.state, pods={**self.state.pods, pod.uid: pod}))

    def start_containers(self, uid: str) -> Node:
        """The node after all containers of a pod started: memory of init containers that ended is free again."""
        pod = self.state.pods.get(uid)
        memory = self.kubelet.memory
        if pod is None or memory is None:
            return self
        ended = tuple(
            wanted.name
            for wanted in demand(pod, sidecars=self.kubelet.rules.sidecars).containers[
                : len(pod.init_containers)
            ]
            if wanted.ends
        )
        finished = ended if pod.containers else ended[:-1]
        return Node(
            self.kubelet, replace(self.state, memory=memory.start_container(self.state.memory, uid, finished))
        )

    def restart(self, watch: Callable[[str, Merge], None] | None = None) -> Restart:
        """A kubelet restart: state files are taken back or refused (`StartError`), then every pod is admitted again.

        A pod refused now is dropped after the last one was asked. `watch` hears of every pod's merges.
        """
        kubelet, state = self.kubelet, self.state
        cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
        state = NodeState(
            kubelet.cpus.restore(cpu) if kubelet.cpus else cpu,
            kubelet.memory.restore(memory) if kubelet.memory else memory,
            kubelet.devices.restore(device),
            pods,
        )
        node = Node(kubelet, state)
        gone = (state.device.owned.keys() | state.cpu.owned.keys()) - pods.keys()
        # The first pod asked about makes the managers drop those that are gone; without one they linger a while.
        if pods:
            node = node.release(*gone)
        verdicts = []
        for uid, pod in pods.items():
            verdict = node.admit(pod, partial(watch, uid) if watch else None)
            verdicts.append((uid, verdict))
            node = verdict.node
        refused = {uid for uid, verdict in verdicts if not verdict.admitted}
        return Restart(node.release(*gone, *refused), tuple(verdicts), node.state)


class _Admission:
    """One walk through the managers; `state` is what they have handed out so far."""

    __slots__ = ("container", "demand", "hints", "init_count", "kubelet", "state", "uid", "watch")

    def __init__(
        self, kubelet: Kubelet, state: NodeState, pod: Pod, watch: Callable[[Merge], None] | None
    ) -> None:
        self.kubelet = kubelet
        self.state = state
        self.uid = pod.uid
        self.watch = watch
        self.hints: list[Hint] = []
        self.demand = demand(pod, sidecars=kubelet.rules.sidecars)
        self.init_count = len(pod.init_containers)
        self.container = ""

    def run(self) -> None:
        kubelet = self.kubelet
        hint = NO_HINT
        one_by_one = kubelet.policy is not None and not kubelet.by_pod
        if kubelet.policy is not None and kubelet.by_pod:
            hint = self._merge(None, self.demand)
        for index, wanted in enumerate(self.demand.containers):
            self.container = wanted.name
            if one_by_one:
                hint = self._merge(wanted.name, wanted)
            self._allocate(index, wanted, hint)

    def _merge(self, container: str | None, wanted: ContainerDemand | Demand) -> Hint:
        policy = self.kubelet.policy
        if policy is None:
            return NO_HINT
        if self.kubelet.rules.keeps_pending:
            self.state = replace(self.state, cpu=self._asked_about(self.state.cpu))
        answers = self._answers(wanted)
        lists: list[Hints | None] = [hints for answer in answers for hints in answer.values()]
        if self.watch is None:
            passed = policy.admitted(lists)
        else:
            best = policy.merged(lists)
            passed = best if policy.admits(best) else None
            self.watch(Merge(container, *answers, best, passed is not None))
        if passed is None:
            raise topology_affinity()
        self.hints.append(passed)
        return passed

    def _asked_about(self, cpu: CpuState) -> CpuState:
        """The CPU Manager hears of the pod: in some releases only now does it let go of the one before."""
        cpus = self.kubelet.cpus
        return cpus.asked(cpu, self.uid, self.state.pods) if cpus else cpu

    def _answers(self, wanted: ContainerDemand | Demand) -> tuple[Answer, Answer, Answer]:
        """Device, CPU and memory, in the order in which the kubelet asks them."""
        kubelet, state, uid = self.kubelet, self.state, self.uid
        cpu, memory, device = state.cpu, state.memory, state.device
        if isinstance(wanted, Demand):
            return (
                kubelet.devices.pod_hints(device, uid, wanted),
                kubelet.cpus.pod_hints(cpu, uid, wanted) if kubelet.cpus else {},
                kubelet.memory.pod_hints(memory, uid, wanted) if kubelet.memory else {},
            )
        return (
            kubelet.devices.container_hints(device, uid, wanted),
            kubelet.cpus.container_hints(cpu, uid, wanted) if kubelet.cpus else {},
            kubelet.memory.container_hints(memory, uid, wanted) if kubelet.memory else {},
        )

    def _allocate(self, index: int, wanted: ContainerDemand, hint: Hint) -> None:
        """Devices, CPUs, memory; what an earlier one gave stays given when a later one refuses."""
        kubelet, uid = self.kubelet, self.uid
        state = self.state
        cpu, memory, device = state.cpu, state.memory, state.device
        try:
            device = kubelet.devices.allocate(device, uid, wanted, hint)
            if kubelet.cpus:
                if kubelet.rules.keeps_pending:
                    cpu = self._asked_about(cpu)
                cpu = kubelet.cpus.allocate(cpu, uid, wanted, hint)
            if kubelet.memory and wanted.memory:
                earlier = self.demand.containers[: min(index, self.init_count)]
                memory = kubelet.memory.allocate(memory, uid, wanted, earlier, hint)
        finally:
            self.state = NodeState(cpu, memory, device, state.pods)
