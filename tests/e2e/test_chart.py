"""The chart, rendered by the real Helm and judged by the real API server: installed, changed, and gone without a trace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import api_schemas
from e2e.control_plane import ControlPlane

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
HELM = ROOT / "deploy/helm"
CHART = HELM / "numaware"
# Node names may have dots; the labels and names that are made of them, too.
WITH_EXTENDER = "extender.enabled=true,extender.tlsSecret=tls,extender.nodes={cp-1.example.org,cp-2}"
# How people use it: a file of deploy/helm/values, or settings; and in which namespace.
SETS: dict[str, tuple[str, ...]] = {
    **{path.stem: ("--values", str(path)) for path in sorted((HELM / "values").glob("*.yaml"))},
    # Which nodes those are only who installs it knows.
    "inside-kube-scheduler": (
        "--values",
        str(HELM / "values/inside-kube-scheduler.yaml"),
        "--set",
        "extender.nodes={cp-1}",
    ),
    "as it is": (),
    "everything": (
        "--set",
        f"{WITH_EXTENDER},devicePlugin.enabled=true,networkPolicies.enabled=true",
        "--set",
        "scheduler.cleanUpRefused=true,agent.volcano=true,agent.kai=true,console.switches.distance=true,console.tlsSecret=page",
    ),
    "k3s": ("--set", "agent.kubeletCertificates="),
    "watched by the Prometheus operator": (
        "--set",
        "monitoring.serviceMonitor=true,monitoring.rules=true,monitoring.dashboard=true",
    ),
    "a registry of one's own": ("--set", "image.repository=registry.example.org/numaware,image.tag=v1"),
    "profiles": ("--set", "scheduler.names={numaware,batch=pack},scheduler.profile=most-pods"),
}
# Whose kinds the chart uses: their definitions come from the sources of the Prometheus operator.
_OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_ITS_KINDS = ("servicemonitors", "prometheusrules")
# The chart that those have who came before (tests/vectors/chart).
_FIRST = ROOT / "tests/vectors/chart/first.tgz"
_KINDS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,roles,rolebindings,"
    "serviceaccounts,services,deployments,daemonsets,configmaps,secrets,networkpolicies,poddisruptionbudgets,leases"
)


def _built(name: str) -> Path:
    program = ROOT / "scripts/go-tools/build"
    return Path(subprocess.run([program, name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


@pytest.fixture(scope="module")
def helm() -> Path:
    return _built("helm")


@pytest.fixture(scope="module")
def kubeconform(bare_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    """The program, and to hold manifests against what this API server says of its kinds: strictly, and without a network."""
    schemas = tmp_path_factory.mktemp("schemas")
    assert api_schemas.write(bare_plane, schemas) > 100
    where = ("-schema-location", schemas / api_schemas.LOCATION)
    return (_built("kubeconform"), "-strict", "-summary", "-output", "json", *where)


@pytest.fixture(scope="module")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Without what a cluster of the other tests has of numaware, as Helm takes over from nobody."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        for path in sorted((ROOT / "deploy/rbac").rglob("*.yaml")):
            for one in yaml.safe_load_all(path.read_text()):
                if one["kind"].startswith(("ClusterRole", "ValidatingAdmission")):
                    plane.kubectl("delete", one["kind"], one["metadata"]["name"], "--ignore-not-found")
        for name in ("numa", "volcano-system"):
            plane.kubectl("create", "namespace", name)
        fetched = subprocess.run(
            [ROOT / "scripts/go-tools/fetch-module", _OPERATOR], check=True, capture_output=True, text=True
        )
        kinds = Path(fetched.stdout.strip()) / "example/prometheus-operator-crd"
        for name in _ITS_KINDS:
            # Too large for what a client-side apply writes down.
            path = kinds / f"monitoring.coreos.com_{name}.yaml"
            plane.kubectl("apply", "--server-side", "-f", path)
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        yield plane


def _template(helm: Path, *flags: str, namespace: str) -> subprocess.CompletedProcess[str]:
    at = ("--namespace", namespace, "--kube-version", "1.35.0")
    command: tuple[str | Path, ...] = (helm, "template", "numaware", CHART, *at, *flags)
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _rendered(helm: Path, *flags: str, namespace: str) -> list[dict[str, Any]]:
    done = _template(helm, *flags, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def _namespace(name: str) -> str:
    return "volcano-system" if name == "inside-volcano" else "numa"


def test_helm_has_nothing_to_object_to(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_ten_ways_to_use_it() -> None:
    assert len(SETS) >= 10


@pytest.mark.parametrize("name", SETS)
def test_the_api_server_takes_what_is_rendered(
    helm: Path, kubeconform: tuple[str | Path, ...], bare_plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    namespace = _namespace(name)
    objects = _rendered(helm, *SETS[name], namespace=namespace)
    assert {one["metadata"].get("namespace", namespace) for one in objects} <= {
        namespace,
        "tcs",
        "volcano-system",
    }
    manifest = tmp_path / "rendered.yaml"
    manifest.write_text(yaml.safe_dump_all(objects))
    done = subprocess.run([*kubeconform, manifest], check=False, capture_output=True, text=True)
    assert json.loads(done.stdout)["summary"] == {
        "valid": len(objects),
        "invalid": 0,
        "errors": 0,
        "skipped": 0,
    }, done.stdout
    told = bare_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", manifest
    )
    assert len(told.splitlines()) == len(objects)


def test_kubeconform_sees_what_is_wrong(kubeconform: tuple[str | Path, ...], tmp_path: Path) -> None:
    """Else its yes would mean nothing: a field that nobody knows, deep inside, and a kind that is not there."""
    manifest = tmp_path / "wrong.yaml"
    port = {"port": 80, "targetPrt": 80}
    metadata = {"name": "a", "namespace": "numa"}
    wrong = [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}},
        {"apiVersion": "v1", "kind": "Sevrice", "metadata": metadata, "spec": {}},
    ]
    manifest.write_text(yaml.safe_dump_all(wrong))
    done = subprocess.run([*kubeconform, manifest], check=False, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert (done.returncode, found["summary"]["invalid"], found["summary"]["errors"]) == (1, 1, 1)
    assert "targetPrt" in done.stdout


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("extender.enabled=true", "extender.tlsSecret: name a Secret"),
        (
            "extender.enabled=true,extender.tlsSecret=tls",
            "extender.nodes: name the nodes that kube-scheduler runs on",
        ),
        ("extender.askedBy=somebody", "extender/askedBy"),
        ("monitoring.openFuyaoNames=true", "install with --namespace volcano-system"),
        ("scheduler.profile=fast", "scheduler/profile"),
        ("schedulers.enabled=true", "schedulers"),
    ],
)
def test_a_mistake_in_the_values_is_said(helm: Path, flags: str, words: str) -> None:
    done = _template(helm, "--set", flags, namespace="numa")
    assert done.returncode != 0
    assert words in done.stderr


def test_nobody_has_to_schedule_an_extender_that_kube_scheduler_asks(helm: Path) -> None:
    """While it is away kube-scheduler places no pod: not its own either, if that were one to be placed."""
    objects = _rendered(helm, "--set", WITH_EXTENDER, namespace="numa")
    extenders = [
        one
        for one in objects
        if one["kind"] == "Deployment" and one["metadata"]["name"].startswith("numaware-extender")
    ]
    pods = [one["spec"]["template"]["spec"] for one in extenders]
    assert [pod["nodeName"] for pod in pods] == ["cp-1.example.org", "cp-2"]
    for deployment, pod in zip(extenders, pods, strict=True):
        (container,) = pod["containers"]
        assert pod["hostNetwork"]
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert "--listen=127.0.0.1:9443" in container["args"]
        assert container["readinessProbe"]["tcpSocket"]["host"] == "127.0.0.1"
        chosen = deployment["spec"]["selector"]["matchLabels"]
        assert chosen.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert extenders[0]["spec"]["selector"] != extenders[1]["spec"]["selector"]
    assert not [one for one in objects if one["kind"] == "Service" and "extender" in one["metadata"]["name"]]


def test_volcano_asks_one_extender_behind_a_service(helm: Path) -> None:
    objects = _rendered(helm, *SETS["inside-volcano"], namespace="volcano-system")
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert named["Service", "numaware-extender"]["spec"]["selector"] == {
        "app.kubernetes.io/name": "numaware-extender"
    }
    pod = named["Deployment", "numaware-extender"]["spec"]["template"]["spec"]
    assert "nodeName" not in pod
    assert "hostNetwork" not in pod
    assert "--listen=:9443" in pod["containers"][0]["args"]


@pytest.mark.parametrize("name", ["console.prometheus", "volcano-config-website.backend.query"])
def test_a_console_may_reach_the_prometheus_that_it_is_told_by_either_name(helm: Path, name: str) -> None:
    flags = ("--set", f"networkPolicies.enabled=true,{name}=http://prometheus:9090")
    objects = {
        one["kind"]: one
        for one in _rendered(helm, *flags, namespace="numa")
        if one["metadata"]["name"] == "numaware-console"
    }
    (console,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--prometheus=http://prometheus:9090" in console["args"]
    ports = {port["port"] for rule in objects["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53, 443, 6443, 9090}


def test_the_plain_manifests_say_what_the_chart_says(helm: Path) -> None:
    """Who uses no Helm applies deploy/rbac, deploy/agent and deploy/device-plugin."""
    rendered = {
        (one["kind"], one["metadata"]["name"]): one
        for one in _rendered(helm, "--set", "devicePlugin.enabled=true", namespace="numaware")
    }
    for path in ("agent/daemonset.yaml", "device-plugin/daemonset.yaml"):
        for plain in yaml.safe_load_all((ROOT / "deploy" / path).read_text()):
            assert _without_labels(rendered[plain["kind"], plain["metadata"]["name"]]) == _without_labels(
                plain
            )


def _without_labels(manifest: dict[str, Any]) -> dict[str, Any]:
    """What only Helm needs aside: its labels, when to make pods anew, and where to pull; configuration as values."""
    plain: dict[str, Any] = json.loads(json.dumps(manifest))
    plain["metadata"].pop("labels", None)
    if "data" in plain:
        plain["data"] = {name: yaml.safe_load(text) for name, text in plain["data"].items()}
        return plain
    template = plain["spec"]["template"]
    template["metadata"] = None
    for container in template["spec"]["containers"]:
        container.pop("imagePullPolicy", None)
    return plain


class Release:
    """The one release of the cluster, as its owner types commands about it."""

    def __init__(self, helm: Path, plane: ControlPlane) -> None:
        self._helm, self._config = helm, plane.kubeconfig("admin")

    def run(self, verb: str, *words: str | Path) -> str:
        at = ("--namespace", "numa", "--kubeconfig", self._config)
        command = (self._helm, verb, "numaware", *words, *at)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_it_is_installed_changed_and_gone_without_a_trace(helm: Path, bare_plane: ControlPlane) -> None:
    plane, release = bare_plane, Release(helm, bare_plane)
    before = _present(plane)
    notes = release.run("install", CHART, "--skip-crds")
    assert "schedulerName: numaware" in notes
    assert {"deployment.apps/numaware-scheduler", "daemonset.apps/numaware-agent"} <= _present(plane) - before
    flags = f"scheduler.enabled=false,{WITH_EXTENDER},devicePlugin.enabled=true"
    release.run("upgrade", CHART, "--skip-crds", "--set", flags)
    changed = _present(plane) - before
    assert {
        "deployment.apps/numaware-extender-cp-1.example.org",
        "deployment.apps/numaware-extender-cp-2",
    } <= changed
    assert "clusterrole.rbac.authorization.k8s.io/numaware-scheduler" not in changed
    release.run("rollback", "1")
    assert "deployment.apps/numaware-scheduler" in _present(plane)
    release.run("uninstall")
    assert _present(plane) == before


def test_who_has_the_first_chart_comes_to_this_one_and_loses_nothing(
    helm: Path, bare_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, release = bare_plane, Release(helm, bare_plane)
    before, kinds = _present(plane), plane.kubectl("get", "crd", "--output", "name")
    topology = tmp_path / "topology.yaml"
    topology.write_text(yaml.safe_dump({**_TOPOLOGY, "metadata": {"name": "node-1"}}))
    plane.kubectl("apply", "--server-side", "-f", topology)
    flags = ("--skip-crds", "--set", "devicePlugin.enabled=true,networkPolicies.enabled=true")
    release.run("install", _FIRST, *flags)
    first = _uids(plane)
    release.run("upgrade", CHART, *flags)
    upgraded = _uids(plane)
    fresh = {
        f"{one['kind'].lower()}/{one['metadata']['name']}"
        for one in _rendered(helm, *flags, namespace="numa")
        if one["metadata"].get("namespace", "numa") == "numa"
    }
    # Nothing of the first that the chart of today would not have, and nothing made anew that was there.
    assert {name for name in upgraded if "numaware" in name and not name.startswith("secret/")} == fresh
    assert {name for name in first.keys() & fresh if first[name] != upgraded[name]} == set()
    release.run("uninstall")
    assert _present(plane) == before
    # What agents have published, and the kinds of it, are nobody's to take away.
    assert plane.kubectl("get", "crd", "--output", "name") == kinds
    plane.kubectl("get", "noderesourcetopologies", "node-1")


_TOPOLOGY = {
    "apiVersion": "topology.node.k8s.io/v1alpha2",
    "kind": "NodeResourceTopology",
    "zones": [{"name": "node-0", "type": "Node"}],
}


def _present(plane: ControlPlane) -> set[str]:
    return {*plane.kubectl("get", _KINDS, "--namespace", "numa", "--output", "name").split()}


def _uids(plane: ControlPlane) -> dict[str, str]:
    """Of every object that is there, by kind and name."""
    told = json.loads(plane.kubectl("get", _KINDS, "--namespace", "numa", "--output", "json"))
    return {
        f"{one['kind'].lower()}/{one['metadata']['name']}": one["metadata"]["uid"] for one in told["items"]
    }
