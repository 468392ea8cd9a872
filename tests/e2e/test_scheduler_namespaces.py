"""Pods that choose by the labels of namespaces whom they want near or far: as kube-scheduler does, on one API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api import MERGE, Object
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.trouble import Scene, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

_NAMESPACES = "/api/v1/namespaces"
_SECONDS = 60.0
_KUBE = "default-scheduler"
_TEAMS = {"shop": "red", "store": "blue", "yard": None}
_RED = {"matchLabels": {"team": "red"}}
_NOT_RED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane"), scheduler={}) as started:
        for name, team in _TEAMS.items():
            labels = {"team": team} if team else {}
            started.api().create(_NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        yield started


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    specs = [
        NodeSpec(name, machine(2, 8), config("restricted"), labels=(("host", name),)) for name in ("n0", "n1")
    ]
    with scene_on(plane, specs) as started:
        try:
            yield started
        finally:
            for name, team in _TEAMS.items():
                started.api.delete(_pods(name), {"gracePeriodSeconds": 0})
                started.api.patch(f"{_NAMESPACES}/{name}", {"metadata": {"labels": {"team": team}}}, MERGE)


def _pods(namespace: str) -> str:
    return f"{_NAMESPACES}/{namespace}/pods"


def ruled(made: Object, rule: str, app: str, namespaces: Object) -> Object:
    """The pod with one required rule about pods called `app` in chosen namespaces."""
    term = {
        "topologyKey": "host",
        "labelSelector": {"matchLabels": {"app": app}},
        "namespaceSelector": namespaces,
    }
    made["spec"]["affinity"] = {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def put(scene: Scene, namespace: str, made: Object, node: str) -> None:
    """A pod that somebody else has bound."""
    made["spec"]["schedulerName"] = "somebody"
    scene.api.create(_pods(namespace), made)
    name = made["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    scene.api.create(f"{_pods(namespace)}/{name}/binding", {"metadata": {"name": name}, "target": target})


def fate(scene: Scene, namespace: str, name: str) -> str:
    """The node of a pod, or "none" once its scheduler has said why there is none."""
    found = scene.api.get(f"{_pods(namespace)}/{name}")
    return str(found["spec"].get("nodeName") or ("none" if said_of(found) else ""))


def both(scene: Scene, namespace: str, made: Object) -> str:
    """Where numaware and kube-scheduler each send such a pod, which must be one answer."""
    answers = {scheduler: alone(scene, namespace, made, scheduler) for scheduler in ("numaware", _KUBE)}
    assert answers["numaware"] == answers[_KUBE], answers
    return answers["numaware"]


def alone(scene: Scene, namespace: str, made: Object, scheduler: str = "numaware") -> str:
    """Where one scheduler sends such a pod, which is gone afterwards."""
    name = f"{made['metadata']['name']}-{scheduler}"
    metadata, spec = {**made["metadata"], "name": name}, {**made["spec"], "schedulerName": scheduler}
    scene.api.create(_pods(namespace), {"metadata": metadata, "spec": spec})
    found = eventually(lambda: fate(scene, namespace, name), f"{name} is decided on", _SECONDS)
    scene.api.delete(f"{_pods(namespace)}/{name}", {"gracePeriodSeconds": 0})
    return found


def test_namespaces_are_chosen_by_their_labels_as_kube_scheduler_does(scene: Scene) -> None:
    daemon = scene.start()
    daemon.wait_ready()
    put(scene, "shop", pod("red-web", "1", labels={"app": "web"}), "n0")
    put(scene, "store", pod("blue-web", "1", labels={"app": "web"}), "n1")
    apart, near = "podAntiAffinity", "podAffinity"
    assert both(scene, "default", ruled(pod("a", "1"), apart, "web", _RED)) == "n1"
    assert both(scene, "default", ruled(pod("b", "1"), near, "web", _RED)) == "n0"
    # Here kube-scheduler 1.35 is not asked: it merges the namespaces into a copy of the pod's rule, so a selector that labels
    # can be absent for (NotIn, DoesNotExist) means every namespace to it.
    assert alone(scene, "default", ruled(pod("c", "1"), apart, "web", _NOT_RED)) == "n0"
    assert both(scene, "default", ruled(pod("d", "1"), apart, "web", {})) == "none"
    # Rules of pods that are there already speak of namespaces too, and a namespace without the label is not red either.
    put(scene, "store", ruled(pod("guard", "1"), apart, "db", _NOT_RED), "n1")
    assert both(scene, "yard", pod("e", "1", labels={"app": "db"})) == "n0"
    put(scene, "store", ruled(pod("second-guard", "1"), apart, "db", _NOT_RED), "n0")
    assert both(scene, "yard", pod("f", "1", labels={"app": "db"})) == "none"
    # In a red namespace nothing speaks against either node, and each scheduler takes the one it likes.
    for scheduler in ("numaware", _KUBE):
        assert alone(scene, "shop", pod("g", "1", labels={"app": "db"}), scheduler) in ("n0", "n1")


def test_a_namespace_that_gets_another_label_lets_a_waiting_pod_in(scene: Scene) -> None:
    daemon = scene.start()
    daemon.wait_ready()
    for node in ("n0", "n1"):
        put(scene, "shop", pod(f"web-{node}", "1", labels={"app": "web"}), node)
    scene.api.create(_pods("default"), ruled(pod("waits", "1"), "podAntiAffinity", "web", _RED))
    assert eventually(lambda: fate(scene, "default", "waits"), "it is decided on", _SECONDS, daemon) == "none"
    scene.api.patch(f"{_NAMESPACES}/shop", {"metadata": {"labels": {"team": "blue"}}}, MERGE)
    eventually(lambda: fate(scene, "default", "waits") in ("n0", "n1"), "it has a node", _SECONDS, daemon)
