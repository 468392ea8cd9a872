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
from numaware.twin.cpu.pod_sets import allocate_pod as allocate_cpus
from numaware.twin.cpu.static import CpuState
from numaware.twin.device.manager import DeviceState
from numaware.twin.errors import AdmissionError, topology_affinity
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.memory.pod_blocks import allocate_pod as allocate_memory
from numaware.twin.memory.state import MemoryState
from numaware.twin.topology.hints import NO_HINT, Answer, Hint
from numaware.twin.topology.mask_overflow import check_masks
from numaware.twin.topology.policies import Policy
from numaware.workload.demand import ContainerDemand, Demand
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

    def admit(self, pod: Pod, watch: Callable[[Merge], None] | None = None) -> Verdict:
        """The kubelet's verdict; `watch` is told of every merge, and only then is all of its evidence worked out."""
        return self._serve(pod, None, watch)

    def readmitted_devices(self, pod: Pod) -> str:
        """What the Topology Manager says when only the Device Manager gives hints, as at a resize since v1.37; empty for yes."""
        kubelet = self.kubelet
        if kubelet.policy is None:
            return ""
        wanted = kubelet.demand(pod)
        for part in (wanted,) if kubelet.by_pod else wanted.containers:
            hints = kubelet.devices.hints(self.state.device, pod.uid, part)
            if kubelet.policy.admitted(list(hints.values())) is None:
                return topology_affinity(own=wanted.own, by_pod=kubelet.by_pod).message
        return ""

    def take(self, pod: Pod, hints: Sequence[Hint]) -> Node:
        """The node after it has admitted the pod, where that has been asked before: only the allocation is done.

        `hints` are the merged hints, in order, of the verdict on such a pod by a node of the same class
        (`equivalence.node_class`).
        """
        return self._serve(pod, hints, None).node

    def _serve(
        self, pod: Pod, known: Sequence[Hint] | None, watch: Callable[[Merge], None] | None
    ) -> Verdict:
        """One walk through the managers: merged hints for the pod or for each container, unless `known`, then allocation."""
        kubelet, state, uid = self.kubelet, self.state, pod.uid
        cpus, memories, devices = kubelet.cpus, kubelet.memory, kubelet.devices
        cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
        wanted = kubelet.demand(pod)
        if kubelet.overflows:
            check_masks(kubelet, wanted)
        pending = cpus is not None and kubelet.rules.keeps_pending
        policy, by_pod = kubelet.policy, kubelet.by_pod
        whole = wanted.own and by_pod and policy is not None
        unasked = wanted.own and wanted.qos == "Guaranteed" and not kubelet.rules.memory_asked_for
        hints: list[Hint] = []
        hint, container = NO_HINT, ""
        try:
            for index, each in enumerate(wanted.containers):
                if policy is not None and not (by_pod and index):
                    if known is not None:
                        hint = known[index]
                    else:
                        container = "" if by_pod else each.name
                        if pending and cpus:
                            cpu = cpus.asked(cpu, uid, pods)
                        asking = wanted if by_pod else each
                        agreed = _merged(kubelet, policy, (device, cpu, memory), uid, asking, watch)
                        if agreed is None:
                            raise topology_affinity(own=wanted.own, by_pod=by_pod)
                        hint = agreed
                    hints.append(hint)
                if whole:
                    # All at once. KUBELET: devices come only when the containers start (GetDeviceRunContainerOptions).
                    init = len(pod.init_containers)
                    cpu = allocate_cpus(cpus, cpu, uid, wanted, init, hint) if cpus else cpu
                    memory = allocate_memory(memories, memory, uid, wanted, hint) if memories else memory
                    break
                container = each.name
                # What an earlier manager gave stays given when a later one refuses.
                device = devices.allocate(device, uid, each, hint)
                if cpus:
                    if pending:
                        cpu = cpus.asked(cpu, uid, pods)
                    cpu = cpus.allocate(cpu, uid, each, hint)
                if memories and (each.memory or unasked):
                    earlier = wanted.containers[: min(index, len(pod.init_containers))]
                    memory = memories.allocate(memory, uid, each, earlier, hint)
        except AdmissionError as error:
            if known is not None:
                raise
            # KUBELET: nothing is rolled back at the refusal; the next admission drops what inactive pods hold. A pod
            # that was already on the node (a restart) stays active until the kubelet has asked them all.
            held = NodeState(cpu, memory, device, pods)
            node = Node(kubelet, held)
            if uid not in pods:
                node = node.release(uid)
            return Verdict(False, error.reason, error.message, node, held, container, error.resource)
        held = NodeState(cpu, memory, device, {**pods, uid: pod})
        return Verdict(True, "", "", Node(kubelet, held), held, hints=tuple(hints))

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
        if pod is None or memory is None or not self.kubelet.rules.memory_reuse:
            return self
        ended = tuple(
            wanted.name
            for wanted in self.kubelet.demand(pod).containers[: len(pod.init_containers)]
            if wanted.ends
        )
        finished = ended if pod.containers else ended[:-1]
        return Node(
            self.kubelet, replace(self.state, memory=memory.release(self.state.memory, uid, finished))
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


def _merged(
    kubelet: Kubelet,
    policy: Policy,
    state: tuple[DeviceState, CpuState, MemoryState],
    uid: str,
    wanted: ContainerDemand | Demand,
    watch: Callable[[Merge], None] | None,
) -> Hint | None:
    """The hint on which the managers agree for a container, or for a pod as a whole; None if the policy refuses it."""
    device, cpu, memory = state
    # In the order in which the kubelet asks them.
    answers = (
        kubelet.devices.hints(device, uid, wanted),
        kubelet.cpus.hints(cpu, uid, wanted) if kubelet.cpus else {},
        kubelet.memory.hints(memory, uid, wanted) if kubelet.memory else {},
    )
    lists = [hints for answer in answers for hints in answer.values()]
    if watch is None:
        passed = policy.admitted(lists)
    else:
        best = policy.merged(lists)
        passed = best if policy.admits(best) else None
        watch(Merge(None if isinstance(wanted, Demand) else wanted.name, *answers, best, passed is not None))
    return passed
