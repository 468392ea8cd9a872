"""A fake kubelet: no containers, no cgroups, but every decision about a pod is the one a real kubelet would make.

The twin judges topology; after it come the kubelet's own sums over all that is on the node, in this order. What each pod
was given is kept as the truth that tests compare with. `fake_nodes.py` connects many of these to an API server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from numaware.machine.cpuset import CpuSet, iter_bits, list_form
from numaware.schedule.ledger import Placement, placement_of
from numaware.schedule.node_facts import NodeFacts, pod_requests
from numaware.schedule.room import SHARE_RESOURCE
from numaware.simulate.clusters import NodeSpec, twin_of
from numaware.workload.pod import Pod

# Container -> its own CPUs as a list; container -> resource -> names of devices.
Cpus = Mapping[str, str]
Devices = Mapping[str, Mapping[str, tuple[str, ...]]]


class Admission(NamedTuple):
    """What one node did with one pod, and when: what it was given, or why it was refused."""

    node: str
    pod: Pod
    admitted: bool
    reason: str = ""
    message: str = ""
    cpus: Cpus = MappingProxyType({})
    devices: Devices = MappingProxyType({})
    placement: Placement | None = None
    at: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.pod.namespace}/{self.pod.name}"


class FakeKubelet:
    """One node: its twin, and what the API server knows of it."""

    def __init__(self, spec: NodeSpec) -> None:
        self.spec = spec
        found, self.twin = twin_of(spec)
        self.facts: NodeFacts = found
        # Parts of GPUs are offered by another program than the kubelet.
        self.allocatable = {name: amount for name, amount in found.allocatable if name != SHARE_RESOURCE}

    @property
    def name(self) -> str:
        return self.spec.name

    def admit(self, pod: Pod) -> Admission:
        """The verdict; with it, if it is good, the pod is on the node."""
        verdict = self.twin.admit(pod)
        if not verdict.admitted:
            self.twin = verdict.node
            return Admission(self.name, pod, False, verdict.reason, verdict.message)
        short = self._short_of(pod)
        if short is not None:
            return Admission(self.name, pod, False, *short)
        self.twin = verdict.node
        state = self.twin.state
        inventories = self.twin.kubelet.devices.inventories
        return Admission(
            self.name,
            pod,
            True,
            cpus={name: list_form(cpus) for name, cpus in state.cpu.owned.get(pod.uid, {}).items() if cpus},
            devices={
                name: {
                    resource: tuple(inventories[resource].ids[index] for index in iter_bits(mask))
                    for resource, mask in held.items()
                }
                for name, held in state.device.owned.get(pod.uid, {}).items()
            },
            placement=placement_of(self.twin, pod),
        )

    def release(self, uid: str) -> bool:
        """The pod's containers are gone; whether it was on the node."""
        if uid not in self.twin.state.pods:
            return False
        self.twin = self.twin.release(uid)
        return True

    def _short_of(self, pod: Pod) -> tuple[str, str] | None:
        used = self.used()
        for name, wanted in pod_requests(pod):
            # KUBELET: resources of devices that the node has never heard of are passed over.
            if name in self.allocatable and used[name] + wanted > self.allocatable[name]:
                amounts = f"requested: {wanted}, used: {used[name]}, capacity: {self.allocatable[name]}"
                return f"OutOf{name}", f"Node didn't have enough resource: {name}, {amounts}"
        return None

    def used(self) -> Counter[str]:
        """What the pods on the node have asked for in all."""
        total: Counter[str] = Counter()
        for pod in self.twin.state.pods.values():
            total.update(dict(pod_requests(pod)))
        return total


def booked_twice(admissions: Iterable[Admission]) -> list[str]:
    """CPUs and devices that two pods have at once, each as a sentence; of pods that are there at the same time."""
    owner: dict[tuple[str, str], str] = {}
    found = []
    for admission in admissions:
        things = {f"CPU {cpu}" for cpus in admission.cpus.values() for cpu in CpuSet.parse(cpus)} | {
            f"{resource} {device}"
            for held in admission.devices.values()
            for resource, devices in held.items()
            for device in devices
        }
        for thing in sorted(things):
            other = owner.setdefault((admission.node, thing), admission.name)
            if other != admission.name:
                found.append(f"{thing} of {admission.node} belongs to {other} and to {admission.name}")
    return found
