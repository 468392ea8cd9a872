"""The whole system, from the loop to its end: a cluster that knows nothing of NUMA, numaware installed on it by its chart, a
StatefulSet told why it cannot run and what would help, and a policy switched from the console.

One story in chapters: each goes on where the one before it ended. Nothing in it is fake but systemd, the containers of the
StatefulSets, which do nothing, and what is under our own: their processes are run as the chart's pods say, but not by a real
container runtime (`NodeRuntime`).
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from e2e.api import Object
from e2e.control_plane import ROOT
from e2e.node_runtime import IMAGE
from e2e.ours import numaware
from e2e.program import eventually
from e2e.real_node import RealNode
from e2e.trouble import PODS, notes, said_of
from e2e.whole_system import NAMESPACE, WholeSystem, whole_system
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from support import made_sysfs

pytestmark = pytest.mark.long

MACHINE = "2s x 1n x 16c +gpu@0,0,1,1 mem=188Gi"
CONFIG = {
    "cpuManagerPolicy": "static",
    "memoryManagerPolicy": "Static",
    "topologyManagerPolicy": "single-numa-node",
    "reservedSystemCPUs": "0",
    "evictionHard": {"memory.available": "1Gi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
}
GPU = "nvidia.com/gpu"
# Of pods that are only there to hold what they ask for.
IDLE = "registry.example/idle:1"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
REFUSED = "TopologyAffinityError"
_PATIENCE = 180.0


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeSystem]:
    with whole_system(tmp_path_factory.mktemp("system"), MACHINE, CONFIG) as started:
        yield started


@pytest.fixture(scope="module", autouse=True)
def plane(system: WholeSystem) -> Any:
    """What is shown of it when a chapter fails."""
    return system.plane


@pytest.fixture(scope="module")
def browser(system: WholeSystem, browser: Browser) -> Browser:
    """In the network of the cluster."""
    return browser


def stateful_set(name: str, count: int, limits: Object, scheduler: str = "default-scheduler") -> Object:
    container = {"name": name, "image": IDLE, "resources": {"limits": limits}}
    return {
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "replicas": count,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "schedulerName": scheduler,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }


def test_a_statefulset_too_big_for_one_numa_node_loops_under_kube_scheduler(system: WholeSystem) -> None:
    system.api.create(SETS, stateful_set("vmstorage", 2, {"cpu": "20", "memory": "120Gi"}))
    eventually(
        lambda: len(system.refusals(REFUSED)) >= 3, "kubelets refuse one pod after the other", _PATIENCE
    )
    assert not system.running("vmstorage")


def test_the_chart_brings_every_component_up(system: WholeSystem) -> None:
    """By the real Helm, Deployments and DaemonSets; ready is what the chart's own probes find ready."""
    notes_of_helm = system.helm(
        *("install", "numaware", str(ROOT / "deploy/helm/numaware"), "--create-namespace"),
        *("--values", str(ROOT / "deploy/helm/values/beside-kube-scheduler.yaml")),
        *("--set", f"image.repository={IMAGE},devicePlugin.enabled=true"),
        *("--set", f"console.prometheus={system.prometheus.url},console.switches.distance=true"),
        *("--wait", "--timeout", "4m"),
    )
    assert "schedulerName: numaware" in notes_of_helm
    eventually(lambda: {*system.topologies()} == {*system.nodes}, "every node is published", _PATIENCE)
    for name in system.nodes:
        eventually(lambda name=name: gpus(system, name) == 4, f"the GPUs of {name} are offered", _PATIENCE)  # type: ignore[misc]
    told = json.loads(numaware(system.plane, "nodes", "--json", user="admin"))
    assert {one["name"] for one in told["nodes"]} == {*system.nodes}


def gpus(system: WholeSystem, name: str) -> int:
    return int(system.api.get(f"/api/v1/nodes/{name}")["status"]["allocatable"].get(GPU, 0))


def test_the_loop_is_told_with_what_would_end_it(system: WholeSystem, browser: Browser) -> None:
    """To its owner as an Event, in the console, and from the kubelet's own log."""

    def ways_out() -> list[str]:
        found = notes(system.plane, "StatefulSet", "vmstorage", "NumaAdmissionStorm")
        # Of a node whose agent has not told of it yet nothing is proposed.
        return [note for note in found if "would help" in note]

    (note, *_) = eventually(ways_out, "its owner is told", _PATIENCE)
    assert REFUSED in note
    assert "ask for 16 CPUs instead of 20" in note
    with system.console(browser, looker(system)) as page:
        expect(page.get_by_text(re.compile("by StatefulSet default/vmstorage on n")).first).to_be_visible(
            timeout=60_000
        )
        system.picture(page, "1-storm")
    node = min(name for name in system.nodes if (system.nodes[name].folder / "systemd.sock.log").exists())
    told = diagnosed(system.nodes[node])
    assert "more cpu is asked for than one NUMA node has, even empty" in told


def diagnosed(node: RealNode) -> str:
    """What `numaware diagnose` makes of the kubelet's log, its configuration and its state files."""
    evidence = [node.folder / "systemd.sock.log", node.config_file]
    evidence += [node.root / f"{name}_manager_state" for name in ("cpu", "memory")]
    done = subprocess.run(
        [sys.executable, "-m", "numaware", "diagnose", *evidence], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return " ".join(done.stdout.split())


def looker(system: WholeSystem) -> str:
    """A token as Helm's notes say how to make one."""
    made = system.plane.kubectl(
        "create", "token", "numaware-viewer", "--namespace", NAMESPACE, "--audience", "numaware-console"
    )
    return made.strip()


def test_numaware_ends_the_loop_and_says_why_the_pod_waits(system: WholeSystem, browser: Browser) -> None:
    change = {"spec": {"template": {"spec": {"schedulerName": "numaware"}}}}
    system.api.patch(f"{SETS}/vmstorage", change)
    waiting = eventually(lambda: held(system, "vmstorage-0"), "the pod waits and says why", _PATIENCE)
    assert "0/2 nodes are available" in said_of(waiting)
    before = system.refusals(REFUSED)
    told = numaware(system.plane, "why-pending", "default/vmstorage-0", user="admin", status=1)
    assert "20 CPUs need 2 NUMA nodes even on an empty machine" in " ".join(told.split())
    with system.console(browser, looker(system)) as page:
        page.goto(page.url.replace("/overview", "/pods/default/vmstorage-0"))
        expect(page.get_by_text("ask for 16 CPUs instead of 20").first).to_be_visible(timeout=60_000)
        system.picture(page, "2-waiting")
    found = system.pod("vmstorage-0")
    assert found
    assert found["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert system.refusals(REFUSED) == before


def held(system: WholeSystem, name: str) -> Object | None:
    """A pod that waits for numaware, once it says why."""
    found = system.pod(name)
    return found if found and found["spec"]["schedulerName"] == "numaware" and said_of(found) else None


def test_after_the_fix_every_pod_runs_aligned(system: WholeSystem, browser: Browser) -> None:
    """What was proposed first, done; then pods with devices, which come from our plugin."""
    limits = {"cpu": "16", "memory": "120Gi"}
    container = {"name": "vmstorage", "image": IDLE, "resources": {"limits": limits}}
    system.api.patch(f"{SETS}/vmstorage", {"spec": {"template": {"spec": {"containers": [container]}}}})
    # A StatefulSet makes no pod of its new template as long as one of the old waits.
    system.api.delete(f"{PODS}/vmstorage-0")
    with_devices = stateful_set("inference", 1, {"cpu": "4", "memory": "32Gi", GPU: "2"}, "numaware")
    system.api.create(SETS, with_devices)
    for app, count in (("vmstorage", 2), ("inference", 1)):
        eventually(lambda a=app, n=count: len(system.running(a)) == n, f"all pods of {app} run", _PATIENCE)  # type: ignore[misc]
    assert placed(system, "vmstorage") == placed(system, "inference") == {1}
    with system.console(browser, looker(system)) as page:
        expect(page.get_by_text("3 of 3 pinned pods on the fewest NUMA nodes")).to_be_visible(timeout=60_000)
        system.picture(page, "3-aligned")
        page.goto(page.url.replace("/overview", "/nodes/n1"))
        expect(page.get_by_text("default/vmstorage-").first).to_be_visible(timeout=60_000)
        system.picture(page, "4-node")


def placed(system: WholeSystem, app: str) -> set[int]:
    """On how many NUMA nodes the pods have all that they own, as their kubelets say by PodResources and in their files."""
    found = set()
    for name, pod in system.running(app).items():
        node = pod["spec"]["nodeName"]
        machine = synthetic.read(MACHINE)
        held = system.holdings(node)[name]
        (container,) = held.containers
        cpus = {numa.id for numa in machine.numa if numa.cpus & container.cpus}
        devices = {one for device in container.devices for one in device.nodes}
        memory = {one for share in container.memory for one in share.nodes}
        uid = pod["metadata"]["uid"]
        state = system.nodes[node].state("cpu_manager_state")
        assert CpuSet.parse(state["entries"][uid][app]) == container.cpus
        blocks = system.nodes[node].state("memory_manager_state")["entries"][uid][app]
        assert {one for block in blocks for one in block["numaAffinity"]} == memory
        found.add(len(cpus | devices | memory))
    return found


def test_agents_that_are_allowed_to_change_kubelets_are_rolled_out(system: WholeSystem) -> None:
    """As docs/kubelet-policy.md says: the kind, the rights, the patch."""
    plane = system.plane
    plane.kubectl("apply", "--server-side", "-f", ROOT / "deploy/rbac/optional/kubelet-policies.yaml")
    plane.kubectl("label", "nodes", "--all", "pool=storage")
    patch = ROOT / "deploy/agent/kubelet-changes.yaml"
    plane.kubectl("patch", "-n", NAMESPACE, "daemonset/numaware-agent", "--patch-file", patch)
    plane.kubectl("rollout", "status", "-n", NAMESPACE, "daemonset/numaware-agent", "--timeout=180s")


def test_a_policy_is_switched_from_the_console(system: WholeSystem, browser: Browser) -> None:
    """Three GPUs are never on one NUMA node: what numaware proposes for such a pod is another policy."""
    system.api.create(SETS, stateful_set("trainer", 1, {"cpu": "4", "memory": "8Gi", GPU: "3"}, "numaware"))
    eventually(lambda: held(system, "trainer-0"), "it waits and says why", _PATIENCE)
    before = {name: holdings(system, name) for name in system.nodes}
    with system.console(browser, operator(system)) as page:
        page.goto(page.url.replace("/overview", "/policies"))
        page.get_by_role("button", name="Try another storage").click()
        page.get_by_label("policy").select_option("best-effort")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator(".diff .a")).to_have_text("+ topologyManagerPolicy: best-effort")
        page.get_by_label("Type storage to confirm").fill("storage")
        system.picture(page, "5-order")
        page.get_by_role("button", name="Order", exact=True).click()
        expect(page.get_by_role("status").filter(has_text="Ordered for storage")).to_be_visible()
        expect(page.get_by_text("2 of 2 done")).to_be_visible(timeout=180_000)
        system.picture(page, "6-ordered")
    for node in system.nodes.values():
        assert node.config()["topologyManagerPolicy"] == "best-effort"
    eventually(lambda: system.running("trainer"), "the pod that waited runs", _PATIENCE)
    assert placed(system, "trainer") == {2}
    assert {name: holdings(system, name) for name in system.nodes} == before


def operator(system: WholeSystem) -> str:
    """A token of somebody who may switch, as docs/console.md says how to let them."""
    plane = system.plane
    plane.kubectl("create", "serviceaccount", "ada")
    role = ("--clusterrole=numaware-console-operator", "--serviceaccount=default:ada")
    plane.kubectl("create", "clusterrolebinding", "ada", *role)
    return plane.kubectl("create", "token", "ada", "--audience=numaware-console").strip()


def holdings(system: WholeSystem, node: str) -> dict[str, Any]:
    """What the pods from before the switch hold."""
    found = system.holdings(node)
    return {name: pod for name, pod in found.items() if name.startswith(("vmstorage", "inference"))}


def test_monitoring_shows_what_prometheus_has_scraped_from_the_agents(
    system: WholeSystem, browser: Browser
) -> None:
    eventually(
        lambda: system.prometheus.value('sum(up{job="numaware-agent"})') == len(system.nodes),
        "all are scraped",
    )
    with system.console(browser, looker(system)) as page:
        page.goto(page.url.replace("/overview", "/monitoring?node=n1&range=15m"))
        chart = page.get_by_role("img", name=re.compile(r"^Memory that the kernel has left"))
        expect(chart).to_be_visible(timeout=60_000)
        system.picture(page, "7-monitoring")
        told = chart.get_attribute("aria-label") or ""
    free = {
        f"NUMA {node.id}": round(made_sysfs.meminfo(node)["MemFree"] / (1 << 20), 1)
        for node in synthetic.read(MACHINE).numa
    }
    assert {line: float(last) for line, last in re.findall(r"(NUMA \d+): last ([\d.]+)", told)} == free


def test_uninstalled_it_leaves_the_pods_as_they_run(system: WholeSystem) -> None:
    before = {name: system.holdings(name) for name in system.nodes}
    assert all(before.values())
    system.helm("uninstall", "numaware", "--wait", "--timeout", "3m")
    eventually(
        lambda: not system.api.list_all(f"/api/v1/namespaces/{NAMESPACE}/pods"),
        "no pod of ours is left",
        _PATIENCE,
    )
    assert {name: system.holdings(name) for name in system.nodes} == before
    assert system.plane.kubectl("get", "all", "-n", NAMESPACE, "-o", "name") == ""
