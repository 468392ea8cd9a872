"""Every step of a switch, drain included, on a real kubelet that has joined an API server: made to fail, and killed.

Of these trials `make e2e` makes a few (`test_kubelet_switch.py`); all of them take minutes: `make switch-trials`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.control_plane import ControlPlane, kubelet
from e2e.program import eventually
from e2e.switched_kubelet import SwitchedKubelet
from numaware.machine import synthetic

pytestmark = pytest.mark.long

NODE = "/api/v1/nodes/n1"
PODS = "/api/v1/namespaces/default/pods"
CONFIG = {"systemReserved": {"cpu": "1", "memory": "1Gi"}, "evictionHard": {"memory.available": "100Mi"}}
SET = (
    "--set=cpuManagerPolicy=static",
    "--set=topologyManagerPolicy=restricted",
    "--set=memoryManagerPolicy=Static",
    "--set=reservedMemory=0:memory=1124Mi",
    "--drain",
)
# How each step of the plan begins, in its words.
STEPS = (
    "cordon the node",
    "evict 1 pods",
    "stop kubelet",
    "copy config.yaml",
    "write ",
    "kubelet/cpu_manager_state",
    "kubelet/memory_manager_state",
    "start kubelet",
    "wait until kubelet",
    "uncordon the node",
)


class Joined(NamedTuple):
    """The node n1, seen with other eyes than numaware's."""

    kubelet: SwitchedKubelet
    plane: ControlPlane
    numbers: Iterator[int]

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"--kubeconfig={self.plane.kubeconfig('kubelet-n1')}", "--yes")

    def ready(self) -> bool:
        conditions = self.plane.api().get(NODE)["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def schedulable(self) -> bool:
        return not self.plane.api().get(NODE)["spec"].get("unschedulable")

    def running(self) -> bool:
        """Whether a pod runs that a drain would move."""
        pods = [pod for pod in self.plane.api().list_all(PODS) if "deletionTimestamp" not in pod["metadata"]]
        return any(pod["status"].get("phase") == "Running" for pod in pods)

    def run_a_pod(self) -> None:
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web",
            "uid": "web",
            "controller": True,
        }
        container = {"name": "app", "image": "registry.example/app:1"}
        spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]}
        metadata = {"name": f"web-{next(self.numbers)}", "ownerReferences": [owner]}
        self.plane.api().create(PODS, {"metadata": metadata, "spec": spec})
        eventually(self.running, "the pod runs", 60)

    def whole(self) -> bool:
        return self.kubelet.whole() and self.schedulable()


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    folder: Path = tmp_path_factory.mktemp("trials")
    with ControlPlane(folder / "plane", users={"kubelet-n1": kubelet("n1")}) as plane:
        machine, login = synthetic.read("2s x 4c x 2t mem=32Gi"), plane.kubeconfig("kubelet-n1")
        with SwitchedKubelet(folder / "n1", machine, CONFIG, name="n1", kubeconfig=login) as running:
            found = Joined(running, plane, count())
            eventually(found.ready, "n1 is ready", 60)
            yield found


@pytest.fixture
def node(joined: Joined) -> Joined:
    """Whole, with nothing switched, and with a pod that a drain would move."""
    assert joined.whole()
    assert policies(joined) == ("none", "None")
    if not joined.running():
        joined.run_a_pod()
    return joined


def policies(node: Joined) -> tuple[str, str]:
    """What the kubelet itself has written down."""
    names = ("cpu_manager_state", "memory_manager_state")
    cpu, memory = (str(node.kubelet.state(name)["policyName"]) for name in names)
    return cpu, memory


def test_these_are_all_the_steps_of_the_plan(node: Joined) -> None:
    planned = json.loads(node.kubelet.numaware("plan", *SET, *node.flags[:1], "--json"))
    told = [one["what"] for one in planned["steps"]]
    assert len(told) == len(STEPS)
    assert all(words in what for words, what in zip(STEPS, told, strict=True))


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_rolls_back_to_the_byte(node: Joined, step: str) -> None:
    before = node.kubelet.bytes()
    told = node.kubelet.broken_at(STEPS.index(step), *SET, *node.flags)
    assert "No space left on device" in told
    assert "Rolled back, everything is as it was" in told
    assert node.whole()
    assert node.kubelet.bytes() == before


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_it_goes_back_to_the_byte(node: Joined, step: str) -> None:
    before = node.kubelet.bytes()
    node.kubelet.killed_at(step, *SET, *node.flags)
    assert "left half-way" in node.kubelet.numaware("apply", *SET, *node.flags, status=2)
    node.kubelet.numaware("rollback", *node.flags)
    assert node.whole()
    assert node.kubelet.bytes() == before


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_it_is_taken_up_and_brought_to_its_end(node: Joined, step: str) -> None:
    before = node.kubelet.bytes()
    node.kubelet.killed_at(step, *SET, *node.flags)
    node.kubelet.numaware("apply", "--resume", *node.flags)
    assert node.whole()
    assert policies(node) == ("static", "Static")
    node.kubelet.numaware("rollback", *node.flags)
    assert node.whole()
    assert node.kubelet.bytes() == before
