"""The chart, rendered by the real Helm and judged by the real API server: installed, changed, and gone without a trace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

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
# Kinds of programs that are not here.
_FOREIGN = {"ServiceMonitor", "PrometheusRule"}
_KINDS = (
    "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,roles,rolebindings,"
    "serviceaccounts,services,deployments,daemonsets,configmaps,secrets,networkpolicies,poddisruptionbudgets"
)


@pytest.fixture(scope="module")
def helm() -> Path:
    built = subprocess.run(
        [ROOT / "scripts/go-tools/build", "helm"], check=True, capture_output=True, text=True
    )
    return Path(built.stdout.strip())


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


@pytest.mark.parametrize("name", SETS)
def test_the_api_server_takes_what_is_rendered(
    helm: Path, bare_plane: ControlPlane, tmp_path: Path, name: str
) -> None:
    namespace = _namespace(name)
    objects = _rendered(helm, *SETS[name], namespace=namespace)
    assert {one["metadata"].get("namespace", namespace) for one in objects} <= {
        namespace,
        "tcs",
        "volcano-system",
    }
    manifest = tmp_path / "rendered.yaml"
    manifest.write_text(yaml.safe_dump_all(one for one in objects if one["kind"] not in _FOREIGN))
    told = bare_plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", manifest
    )
    assert len(told.splitlines()) == sum(one["kind"] not in _FOREIGN for one in objects)


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


def test_it_is_installed_changed_and_gone_without_a_trace(helm: Path, bare_plane: ControlPlane) -> None:
    plane = bare_plane
    kubeconfig = ("--kubeconfig", str(plane.kubeconfig("admin")))
    before = _present(plane)

    def run(*words: str) -> str:
        done = subprocess.run([helm, *words, *kubeconfig], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    at = ("numaware", str(CHART), "--namespace", "numa", "--skip-crds")
    notes = run("install", *at)
    assert "schedulerName: numaware" in notes
    assert {"deployment.apps/numaware-scheduler", "daemonset.apps/numaware-agent"} <= _present(plane) - before
    run("upgrade", *at, "--set", f"scheduler.enabled=false,{WITH_EXTENDER},devicePlugin.enabled=true")
    changed = _present(plane) - before
    assert {
        "deployment.apps/numaware-extender-cp-1.example.org",
        "deployment.apps/numaware-extender-cp-2",
    } <= changed
    assert "clusterrole.rbac.authorization.k8s.io/numaware-scheduler" not in changed
    run("rollback", "numaware", "1", "--namespace", "numa")
    assert "deployment.apps/numaware-scheduler" in _present(plane)
    run("uninstall", "numaware", "--namespace", "numa")
    assert _present(plane) == before


def _present(plane: ControlPlane) -> set[str]:
    return {*plane.kubectl("get", _KINDS, "--namespace", "numa", "--output", "name").split()}
