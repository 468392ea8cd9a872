"""`numaware install` and `uninstall`, as a user types them, against a small API server; the real one is in e2e/test_install.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.fake_api_server import FakeApiServer
from numaware import __version__
from numaware.cli import main
from numaware.kube.install.kinds import REMOVAL, resource_of
from numaware.kube.install.manifests import WAYS, Way, manifests, next_steps, objects
from numaware.kube.resources import DEFINITIONS, DEPLOYMENTS, NAMESPACES, Resource
from support.live_cluster import ServerThread, kubeconfig

CRD = Path(__file__).parents[2] / "deploy/crd"
LABELS = {"app.kubernetes.io/managed-by": "numaware"}
NODES: dict[Way, tuple[str, ...]] = {"inside-kube-scheduler": ("cp-1.example.org", "cp-2")}
SERVICE_ACCOUNTS = next(one for one in REMOVAL if one.kind == "ServiceAccount")


class Scene:
    """An API server, and whoever types commands."""

    def __init__(self, server: FakeApiServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self._given = ("--kubeconfig", kubeconfig(server, folder))
        self._capsys = capsys

    def type(self, *words: str, code: int = 0) -> str:
        assert main([*words, *self._given]) == code
        return self._capsys.readouterr().out

    @property
    def left(self) -> set[tuple[str, str]]:
        return {(one["kind"], one["metadata"]["name"]) for one in self.server.objects.values()}


@pytest.fixture(scope="module")
def thread() -> Iterator[ServerThread]:
    with ServerThread() as started:
        yield started


@pytest.fixture
def scene(thread: ServerThread, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    thread.server.objects.clear()
    thread.server.refusals.clear()
    thread.server.forbidden.clear()
    return Scene(thread.server, tmp_path, capsys)


def put(scene: Scene, resource: Resource, name: str, namespace: str = "", **metadata: Any) -> None:
    scene.server.put(resource, name, namespace, **resource.head)
    scene.server.objects[resource.path(namespace, name)]["metadata"].update(metadata)


# Manifests


@pytest.mark.parametrize("way", WAYS)
def test_every_object_of_a_way_has_a_place_an_account_and_our_image(way: Way) -> None:
    found = objects(manifests(way, "registry.example.org/numaware:v1", NODES.get(way, ())))
    namespace = "volcano-system" if way == "inside-volcano" else "numaware"
    assert sum(one["kind"] == "CustomResourceDefinition" for one in found) == len([*CRD.glob("*.yaml")])
    for one in found:
        resource = resource_of(one)
        assert one["metadata"].get("namespace", "") == (namespace if resource.namespaced else "")
    accounts = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"}
    pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] in {"Deployment", "DaemonSet"}]
    assert {pod["serviceAccountName"] for pod in pods} <= accounts
    assert {c["image"] for pod in pods for c in pod["containers"]} == {"registry.example.org/numaware:v1"}
    names = [(one["kind"], one["metadata"]["name"]) for one in found]
    assert len(names) == len(set(names))
    assert names.index(("Namespace", namespace)) < names.index(("ServiceAccount", "numaware-viewer"))


def test_what_is_there_is_what_its_release_says() -> None:
    assert f"image: numaware:{__version__}\n" in manifests("observe-only")


def test_each_node_of_kube_scheduler_has_its_extender() -> None:
    nodes = NODES["inside-kube-scheduler"]
    found = objects(manifests("inside-kube-scheduler", nodes=nodes))
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in found
        if one["kind"] == "Deployment"
    }
    assert [pods[f"numaware-extender-{node}"]["nodeName"] for node in nodes] == [*nodes]
    assert "kube-scheduler of cp-1.example.org, cp-2 ask" in next_steps("inside-kube-scheduler", nodes)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("inside-kube-scheduler",), "which nodes does kube-scheduler run on"),
        (("inside-kube-scheduler", "--node", "a b"), "is not the name of a node"),
        (("inside-kube-scheduler", "--node", "a", "--node", "a"), "names a node twice"),
        (("--node", "a"), "only inside-kube-scheduler"),
        (("--image", "a\nkind: Secret"), "is not the name of an image"),
        (("everywhere",), "beside-kube-scheduler"),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", *words, "--manifests"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_manifests_ask_no_cluster(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert main(["install", "observe-only", "--manifests"]) == 0
    kinds = {one["kind"] for one in yaml.safe_load_all(capsys.readouterr().out) if one}
    assert {"CustomResourceDefinition", "Namespace", "DaemonSet"} <= kinds


# Into a cluster, and out of it


def test_a_dry_run_changes_nothing_and_says_what_would_be_created(scene: Scene) -> None:
    told = scene.type("install", "--dry-run")
    assert "to create" in told
    assert "numaware/numaware-scheduler" in told
    assert told.endswith("to create; nothing has been changed\n")
    assert scene.left == set()


def test_it_installs_says_what_is_next_and_is_gone_again(scene: Scene) -> None:
    told = scene.type("install")
    assert "schedulerName: numaware" in told
    assert {("Namespace", "numaware"), ("Deployment", "numaware-scheduler")} <= scene.left
    assert all(one["metadata"]["labels"].items() >= LABELS.items() for one in scene.server.objects.values())
    told = scene.type("uninstall")
    assert {kind for kind, _ in scene.left} == {"CustomResourceDefinition"}
    assert "--kinds removes it, too" in told
    scene.type("uninstall", "--kinds")
    assert scene.left == set()
    assert scene.type("uninstall") == "nothing of numaware is there\n"


def test_once_more_changes_nothing_and_another_way_removes_what_it_does_not_want(scene: Scene) -> None:
    scene.type("install")
    before = {path: one["metadata"]["resourceVersion"] for path, one in scene.server.objects.items()}
    told = scene.type("install")
    assert "created" not in told
    assert {path: one["metadata"]["resourceVersion"] for path, one in scene.server.objects.items()} == before
    told = scene.type("install", "observe-only", "--image", "numaware:v2")
    assert 'image: "numaware:' in told
    assert '-> "numaware:v2"' in told
    assert ("Deployment", "numaware-scheduler") not in scene.left
    assert {("Namespace", "numaware"), ("DaemonSet", "numaware-agent")} <= scene.left


def test_what_is_somebody_elses_is_left_or_stops_it(scene: Scene) -> None:
    theirs = "noderesourcetopologies.topology.node.k8s.io"
    put(scene, NAMESPACES, "numaware")
    put(scene, DEFINITIONS, theirs, labels={"app": "nfd"})
    scene.type("install")
    assert scene.server.objects[DEFINITIONS.path(name=theirs)]["metadata"]["labels"] == {"app": "nfd"}
    scene.type("uninstall", "--kinds")
    assert scene.left == {("Namespace", "numaware"), ("CustomResourceDefinition", theirs)}

    put(
        scene,
        DEPLOYMENTS,
        "numaware-scheduler",
        "numaware",
        annotations={"meta.helm.sh/release-name": "numaware"},
    )
    put(scene, SERVICE_ACCOUNTS, "numaware-agent", "numaware")
    before = scene.left
    told = scene.type("install", code=1)
    assert "helm uninstall numaware" in told
    assert "has not made it; remove it first" in told
    assert told.endswith("nothing has been changed\n")
    assert scene.left == before


def test_what_the_api_server_refuses_is_said_and_nothing_begun(scene: Scene) -> None:
    scene.server.forbidden.add(NAMESPACES.path(name="numaware"))
    assert main(["install", *scene._given]) == 2
    scene.server.forbidden = {"/apis/rbac.authorization.k8s.io/v1/clusterroles/numaware-agent"}
    assert main(["install", *scene._given]) == 2
    assert scene.left == set()
