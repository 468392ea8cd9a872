"""What a pod takes of a node, as far as the kubelet's settings alone decide that."""

from __future__ import annotations

import msgspec

from numaware.schedule.node_facts import pod_requests
from numaware.schedule.room import WHOLE, NumaRoom, gpu_resource
from numaware.schedule.shares import wanted_share
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.twin.topology.merge import narrower
from numaware.workload.demand import ContainerDemand
from numaware.workload.pod import Pod


class PodFootprint(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """CPUs, bytes, whole GPUs, and thousandths of one GPU that pods of a kind take of zones on nodes of a kind.

    `together` says that all but the last come from one zone, whatever else is on the node; `lowest` that they come from the
    first zone that has enough, if there is one; `certain` that the kubelet takes the pod then, or always if it `owns` nothing.
    A pod wants whole GPUs or a part of one, never both. What is requested counts for the node as a whole.

    Of several containers that are aligned one by one, `others` are the CPUs and bytes of all but the first: `together` and
    `lowest` then hold for each of them in its turn.
    """

    cpus: int
    memory: int
    gpus: int
    share: int
    together: bool
    lowest: bool
    certain: bool
    requested_milli: int
    requested_memory: int
    others: tuple[tuple[int, int], ...] = ()

    @property
    def owns(self) -> bool:
        return bool(self.cpus or self.memory or self.gpus)

    def exceeds(self, milli: int, memory: int) -> bool:
        """Whether so much of the node as a whole is too little. Who requests nothing finds room where there is less than none."""
        return 0 < self.requested_milli > milli or 0 < self.requested_memory > memory

    def fits(self, zone: NumaRoom) -> bool:
        """Whether a zone has enough of what comes from one."""
        return zone.memory >= self.memory and self.finds_hints(zone)

    def finds_hints(self, zone: NumaRoom) -> bool:
        """Whether a zone has enough of what kubelets never forget to ask for: they may give no hints for memory."""
        gpus = self.gpus
        return zone.cpus >= self.cpus and (not gpus or (len(zone.gpus) >= gpus and zone.gpus[-gpus] == WHOLE))


def footprint(node: Node, pod: Pod) -> PodFootprint | None:
    """What the pod takes; None if even its GPUs are uncertain."""
    kubelet = node.kubelet
    wanted = kubelet.demand(pod)
    parts = wanted.containers
    if kubelet.by_pod and (wanted.own or (len(parts) > 1 and not pod.init_containers)):
        # All containers go where the pod as a whole has enough.
        parts = (ContainerDemand("", False, wanted.cpus, wanted.memory, wanted.devices),)
    owners = [part for part in parts if _owns(kubelet, part)]
    one = owners[0] if len(owners) == 1 else None
    gpu, share = gpu_resource(node), wanted_share(pod)
    whole = any(dict(part.devices).get(gpu or "") for part in owners)
    if whole or share:
        inventory = kubelet.devices.inventories.get(gpu or "")
        # A GPU on two NUMA nodes counts for both, one on none counts for the first; init containers hand theirs on.
        strange = inventory is None or not inventory.single or inventory.healthy & ~inventory.placed
        if strange or (whole and (share or one is None)):
            return None
    requests = dict(pod_requests(pod))
    together = all(_stays_together(kubelet, part) for part in owners)
    lowest = (
        bool(owners)
        and (together or _prefers_one(kubelet))
        and all(_goes_lowest(kubelet, part, gpu) for part in owners)
    )
    if len(owners) > 1 and (share or pod.init_containers or not lowest):
        together = lowest = False
    first = owners[0] if lowest else one
    cpus, memory = _cpus_and_bytes(kubelet, first) if first else (0, 0)
    return PodFootprint(
        cpus=cpus,
        memory=memory,
        gpus=dict(first.devices).get(gpu or "", 0) if first else 0,
        share=share,
        together=together,
        lowest=lowest,
        certain=(lowest or not owners)
        and len(wanted.containers) == 1
        and not wanted.own
        and _only_counts(kubelet),
        requested_milli=requests.get("cpu", 0),
        requested_memory=requests.get("memory", 0),
        others=tuple(_cpus_and_bytes(kubelet, part) for part in owners[1:]) if lowest else (),
    )


def _cpus_and_bytes(kubelet: Kubelet, part: ContainerDemand) -> tuple[int, int]:
    return (
        part.cpus if kubelet.cpus else 0,
        dict(part.memory).get("memory", 0) if kubelet.memory else 0,
    )


def _owns(kubelet: Kubelet, part: ContainerDemand) -> bool:
    return bool(
        (kubelet.cpus and part.cpus)
        or (kubelet.memory and part.memory)
        or any(count and name in kubelet.devices.inventories for name, count in part.devices)
    )


def _stays_together(kubelet: Kubelet, part: ContainerDemand) -> bool:
    """Whether a container that is admitted has everything from one NUMA node.

    Under `restricted` that follows from a manager that always gives hints and prefers one node; hints of memory may be
    missing.
    """
    if len(kubelet.layout.ids) == 1:
        return True
    if kubelet.policy is None or not _heeds_nodes(kubelet):
        return False
    if kubelet.policy.name == "single-numa-node":
        return True
    if kubelet.policy.name != "restricted" or not kubelet.rules.equal_masks:
        return False
    if kubelet.cpus and part.cpus:
        return max(cpus.bit_count() for cpus in kubelet.layout.node_cpus) >= part.cpus
    nodes = len(kubelet.layout.ids)
    inventories = kubelet.devices.inventories
    return any(
        inventories[name].has_topology and inventories[name].smallest(count, nodes) == 1
        for name, count in part.devices
        if count and name in inventories
    )


def _prefers_one(kubelet: Kubelet) -> bool:
    """Whether a container has everything from one NUMA node as long as any one has enough, and is not refused otherwise."""
    return (
        kubelet.policy is not None
        and kubelet.policy.name == "best-effort"
        and kubelet.rules.equal_masks
        and _heeds_nodes(kubelet)
    )


def _heeds_nodes(kubelet: Kubelet) -> bool:
    """Whether CPUs come from the NUMA nodes that were chosen, as many as were asked for.

    With `align-by-socket` they come from the whole socket, and `distribute-cpus-across-numa` may give fewer where NUMA nodes
    are without CPUs.
    """
    cpus = kubelet.cpus
    return cpus is None or not (cpus.options.align_by_socket or cpus.options.distribute_across_numa)


def _only_counts(kubelet: Kubelet) -> bool:
    """Whether enough CPUs are always enough: none are asked for by whole cores, spread evenly, or kept for a pod that is gone."""
    cpus = kubelet.cpus
    return not kubelet.rules.keeps_pending and (
        cpus is None or not (cpus.by_number or cpus.options.full_pcpus_only)
    )


def _goes_lowest(kubelet: Kubelet, part: ContainerDemand, gpu: str | None) -> bool:
    """Whether the lowest NUMA node with enough is chosen, and zones tell what is enough: no huge pages, no other devices."""
    kinds = {kind for kind, size in part.memory if size} if kubelet.memory else set()
    devices = {name for name, count in part.devices if count and name in kubelet.devices.inventories}
    return (
        kubelet.policy is not None
        and kubelet.policy.better is narrower
        and kinds <= {"memory"}
        and devices <= {gpu}
    )
