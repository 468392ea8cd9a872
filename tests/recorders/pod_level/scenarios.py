"""Sessions for the recorder beside this file: pods with resources of their own on kubelets with and without the gate for them.

Chance alone makes them; neither the twin nor anything else of numaware is asked what would come out.
"""

from __future__ import annotations

import json
import random
import sys
import uuid
from typing import Any

MI = 1 << 20
PAGES = "hugepages-2Mi"
# Sockets, NUMA nodes of each, cores of each, threads of each, MiB of each NUMA node.
MACHINES = (
    (1, 1, 8, 1, 8192),
    (2, 1, 4, 1, 4096),
    (2, 1, 4, 2, 8192),
    (1, 2, 6, 2, 4096),
    (2, 2, 4, 2, 4096),
    (4, 1, 3, 1, 2048),
)
OPTIONS = ("full-pcpus-only", "distribute-cpus-across-numa", "strict-cpu-reservation", "align-by-socket")
GATES = {
    f"{manager}Policy{stage}Options": True
    for manager in ("CPUManager", "TopologyManager")
    for stage in ("", "Alpha", "Beta")
}


def main(release: str, number: int) -> None:
    for index in range(number):
        print(json.dumps(scenario(release, index), separators=(",", ":")))  # noqa: T201 - the recorder reads it


def scenario(release: str, index: int) -> dict[str, Any]:
    name = f"pod-level-{release.rpartition('.')[0]}-{index:04}"
    chance = random.Random(name)  # noqa: S311 - the same sessions in every run
    machine, room = _machine(chance)
    config = _config(chance, machine)
    events: list[dict[str, Any]] = []
    running: list[str] = []
    for step in range(chance.randint(4, 9)):
        what = chance.random()
        if running and what < 0.12:
            events.append({"op": "start", "uid": chance.choice(running)})
        elif running and what < 0.24:
            events.append({"op": "remove", "uid": running.pop(chance.randrange(len(running)))})
        elif events and what < 0.34:
            events.append({"op": "restart"})
        else:
            pod = _pod(chance, f"pod{step}", room)
            running.append(pod["uid"])
            events.append({"op": "add", "pod": pod})
    return {"id": name, "kubernetesVersion": release, "machine": machine, "config": config, "events": events}


def _machine(chance: random.Random) -> tuple[dict[str, Any], dict[str, int]]:
    sockets, nodes, cores, threads, memory = chance.choice(MACHINES)
    pages = chance.choice([0, 0, 256, 512])
    count, every = sockets * nodes, sockets * nodes * cores
    numa = []
    for node in range(count):
        cpus = [
            {
                "id": thread * every + node * cores + core,
                "core": node % nodes * cores + core,
                "socket": node // nodes,
            }
            for thread in range(threads)
            for core in range(cores)
        ]
        numa.append(
            {
                "id": node,
                "memoryBytes": memory * MI,
                **({"hugepages": {PAGES: pages * MI}} if pages else {}),
                "distances": [10 if other == node else 21 for other in range(count)],
                "cpus": cpus,
            }
        )
    room = {"cpu": every * threads, "memory": count * (memory - pages), PAGES: count * pages}
    return {"numa": numa}, room


def _config(chance: random.Random, machine: dict[str, Any]) -> dict[str, Any]:
    policy = chance.choice(["none", "best-effort", "restricted", "restricted", "single-numa-node"])
    options = {name: "true" for name in OPTIONS if chance.random() < 0.2}
    if policy == "single-numa-node":
        options.pop("align-by-socket", None)
    config: dict[str, Any] = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": chance.choice(["container", "pod", "pod", "pod"]),
        "cpuManagerPolicy": "static" if chance.random() < 0.95 else "none",
        "memoryManagerPolicy": "Static" if chance.random() < 0.7 else "None",
        "systemReserved": {"cpu": chance.choice(["1", "1500m"]), "memory": "512Mi"},
        "featureGates": {**GATES, "PodLevelResourceManagers": chance.random() < 0.9},
    }
    if config["cpuManagerPolicy"] == "static" and options:
        config["cpuManagerPolicyOptions"] = options
    if config["memoryManagerPolicy"] == "Static":
        config["reservedMemory"] = [{"numaNode": machine["numa"][0]["id"], "limits": {"memory": "512Mi"}}]
    return config


def _pod(chance: random.Random, name: str, room: dict[str, int]) -> dict[str, Any]:
    """A pod; mostly one with resources of its own, which leave its containers room as the API server wants it."""
    uid = str(uuid.UUID(int=chance.getrandbits(128)))
    init = [
        _container(chance, f"i{number}", room, sidecar=chance.random() < 0.5)
        for number in range(chance.choice([0, 0, 0, 1, 1, 2, 3]))
    ]
    app = [_container(chance, f"c{number}", room) for number in range(chance.choice([1, 1, 2, 2, 3]))]
    pod: dict[str, Any] = {"uid": uid, "name": name, "namespace": "default", "containers": app}
    if init:
        pod["initContainers"] = init
    if chance.random() < 0.85:
        pod["resources"] = _resources(chance, init, app)
    return pod


def _container(
    chance: random.Random, name: str, room: dict[str, int], *, sidecar: bool = False
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    kind = chance.choice(
        ["exclusive", "exclusive", "exclusive", "fraction", "shared", "burstable", "cpu", "memory"]
    )
    cpus = chance.choice([1, 1, 2, 2, 3, 4])
    amounts = {"cpu": str(cpus), "memory": f"{chance.randint(1, 12) * 64}Mi"}
    if kind == "fraction":
        amounts["cpu"] = f"{cpus * 1000 - 500}m"
    if room[PAGES] and chance.random() < 0.3:
        amounts[PAGES] = f"{chance.randint(1, 4) * 32}Mi"
    if kind == "cpu":
        del amounts["memory"]
    if kind == "memory":
        del amounts["cpu"]
    limits = {**amounts, "cpu": str(cpus + 1)} if kind == "burstable" else dict(amounts)
    if kind != "shared":
        made["requests"], made["limits"] = amounts, limits
    if sidecar:
        made["restartPolicy"] = "Always"
    return made


def _resources(
    chance: random.Random, init: list[dict[str, Any]], app: list[dict[str, Any]]
) -> dict[str, dict[str, str]]:
    """At least what the containers ask for at their peak; often exactly that, so that shared containers are left with nothing."""
    peak = {name: _peak(name, init, app) for name in ("cpu", "memory", PAGES)}
    more = chance.choice([0, 0, 1, 2, 4])
    cpu = -(-peak["cpu"] // 1000) * 1000 + more * 1000 or 1000
    if chance.random() < 0.1:
        cpu += 500
    memory = peak["memory"] + chance.choice([0, 1, 4]) * 64 or 64
    requests = {"cpu": f"{cpu}m" if cpu % 1000 else str(cpu // 1000), "memory": f"{memory}Mi"}
    if peak[PAGES]:
        requests[PAGES] = f"{peak[PAGES] + chance.choice([0, 0, 32])}Mi"
    limits = dict(requests)
    if chance.random() < 0.08:
        limits["cpu"] = str(cpu // 1000 + 2)
    return {"requests": requests, "limits": limits}


def _peak(name: str, init: list[dict[str, Any]], app: list[dict[str, Any]]) -> int:
    """Thousandths of CPUs or MiB at the fullest moment of the pod's life."""

    def asked(container: dict[str, Any]) -> int:
        text = container.get("requests", {}).get(name, "0")
        if name == "cpu":
            return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000
        return int(text.removesuffix("Mi"))

    staying = most = 0
    for container in init:
        if container.get("restartPolicy"):
            staying += asked(container)
            most = max(most, staying)
        else:
            most = max(most, staying + asked(container))
    return max(most, staying + sum(map(asked, app)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
