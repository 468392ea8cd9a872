"""What a kubelet does to the pods on its node when it is started again, on the state files it finds or without them.

A kubelet that restarts takes its state files back or refuses to start, and then admits every pod anew, in the order in which
they were created: one that it refuses now is ended, however long it has run. Asked by who restarts a kubelet on purpose
(`node/kubelet_switch`), with the configuration that it will have then, and by who wants to know beforehand
(`diagnose/doctor/restart.py`, `diagnose/upgrade.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from numaware.machine.quantity import ZERO
from numaware.twin.errors import StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.node import Node
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import memory as memory_file
from numaware.workload.pod import Pod, milli, units
from numaware.workload.qos import requested_in_all

_KEPT = (cpu_file.FILE, memory_file.FILE)


class Refused(msgspec.Struct, frozen=True):
    """A pod that a restart would end, and the kubelet's reason and message."""

    uid: str
    namespace: str
    name: str
    reason: str
    message: str


def lost_at_restart(node: Node, version: str = "") -> tuple[Refused, ...]:
    """The pods of a node, in the order in which they are listed there, that its kubelet would refuse if it were started again
    now, or if one of release `version` were started in its place. Raises as `readmitted` does, or what `start` does.
    """
    kubelet = node.kubelet
    files = {name: text.encode() for name, text in state_files(kubelet, node.state).items()}
    if version:
        kubelet = start(kubelet.hardware, replace(kubelet.config, version=version))
    return readmitted(kubelet, files, node.state.pods.values())


def refused_files(kubelet: Kubelet, files: Mapping[str, bytes]) -> dict[str, str]:
    """The state files that keep this kubelet from starting, each with the kubelet's own words."""
    refusals = {}
    for name in _KEPT:
        if name in files:
            try:
                load_state(kubelet, {name: files[name]})
            except StartError as error:
                refusals[name] = error.message
    return refusals


def readmitted(kubelet: Kubelet, files: Mapping[str, bytes], pods: Iterable[Pod]) -> tuple[Refused, ...]:
    """The pods that do not survive a start of this kubelet with these state files; `pods` come in order of creation.

    `StartError` where it would refuse a file, `KubeletPanic` where it would crash on one.
    """
    running = {pod.uid: pod for pod in pods}
    node = Node(kubelet, replace(load_state(kubelet, files), pods=running))
    refused = {uid: verdict for uid, verdict in node.restart().verdicts if not verdict.admitted}
    survivors = [pod for uid, pod in running.items() if uid not in refused]
    return (
        *(
            Refused(uid, running[uid].namespace, running[uid].name, verdict.reason, verdict.message)
            for uid, verdict in refused.items()
        ),
        *beyond_allocatable(kubelet, survivors),
    )


def beyond_allocatable(kubelet: Kubelet, pods: Iterable[Pod]) -> Iterator[Refused]:
    """Pods for which nothing is left when the system keeps more than before.

    Mirrors the predicates of `lifecycle/predicate.go`, which the kubelet asks after its managers.
    """
    room = allocatable(kubelet)
    used = dict.fromkeys(room, 0)
    for pod in pods:
        requested = requested_in_all(pod, sidecars=kubelet.rules.sidecars)
        wanted = {"cpu": milli(requested.get("cpu", 0)), "memory": units(requested.get("memory", 0))}
        short = next((name for name in room if wanted[name] and used[name] + wanted[name] > room[name]), "")
        if short:
            message = (
                f"Node didn't have enough resource: {short}, requested: {wanted[short]}, used: {used[short]}, "
                f"capacity: {room[short]}"
            )
            yield Refused(pod.uid, pod.namespace, pod.name, f"OutOf{short}", message)
            continue
        used = {name: used[name] + wanted[name] for name in room}


def allocatable(kubelet: Kubelet) -> dict[str, int]:
    """What pods may have in all: thousandths of CPUs and bytes."""
    reservation = kubelet.reservation
    numa = kubelet.hardware.numa
    memory = sum(node.memory_bytes - sum(size for _, size in node.hugepages) for node in numa)
    return {
        "cpu": 1000 * kubelet.layout.cpu_count - reservation.get("cpu", ZERO).milli_value,
        "memory": memory - reservation.get("memory", ZERO).value,
    }
