"""After a storm: does what the API server says add up, and does it agree with what the nodes know?

Everything is read anew, and the sums are done here: neither the scheduler under test nor its caches are asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from e2e.api import Object
from e2e.control_plane import ControlPlane
from e2e.fake_kubelet import booked_twice
from e2e.fake_nodes import FakeNodes
from numaware.machine.quantity import Quantity

_FINISHED = ("Succeeded", "Failed")


def audit(plane: ControlPlane, fakes: FakeNodes) -> list[str]:
    """What must not be, as sentences: pods on two nodes or on none of them, and anything that belongs to two pods."""
    fakes.wait_idle()
    running = fakes.running()
    pods = plane.api().list_all("/api/v1/pods")
    bound = {pod["metadata"]["uid"]: pod for pod in pods if holds(pod)}
    found = fakes.problems() + booked_twice(running.values())
    for uid, pod in bound.items():
        where, admission = pod["spec"]["nodeName"], running.get(uid)
        if admission is None:
            found.append(f"{name_of(pod)} is bound to {where}, where nobody runs it")
        elif admission.node != where:
            found.append(f"{name_of(pod)} is bound to {where} and runs on {admission.node}")
    found += [
        f"{admission.name} runs on {admission.node} and is not bound to it"
        for uid, admission in running.items()
        if uid not in bound
    ]
    nodes = plane.api().list_all("/api/v1/nodes")
    return found + _overcommitted(nodes, bound.values())


def phases(plane: ControlPlane, **query: str) -> Counter[str]:
    """How many pods are in which phase; of those that are bound no more is asked."""
    return Counter(pod["status"]["phase"] for pod in plane.api().list_all("/api/v1/pods", **query))


def holds(pod: Object) -> bool:
    """Whether a pod has something of a node."""
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in _FINISHED


def name_of(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _overcommitted(nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """Nodes of which more is asked than they have; these tests' pods have no init containers, so sums will do."""
    asked: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        where = asked[pod["spec"]["nodeName"]]
        where["pods"] += 10**9
        for container in pod["spec"]["containers"]:
            for resource, text in container["resources"].get("requests", {}).items():
                where[resource] += Quantity.parse(text).nano
    return [
        f"{resource} of {node['metadata']['name']} is overcommitted: {asked[node['metadata']['name']][resource]} nano-units"
        f" asked of {text}"
        for node in nodes
        for resource, text in node["status"]["allocatable"].items()
        if asked[node["metadata"]["name"]][resource] > Quantity.parse(text).nano
    ]
