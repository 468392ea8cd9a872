"""A cluster with nodes, and numaware as its chart installs it: what the whole-system story is played on."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from e2e.api import ApiError, Object
from e2e.control_plane import ROOT, ControlPlane
from e2e.own_network import GATEWAY, own_network
from e2e.program import eventually
from e2e.real_node import RealNode, users
from e2e.real_prometheus import Prometheus
from numaware.machine import synthetic
from numaware.node.podresources import PodHoldings, PodResources

NAMESPACE = "numaware"
PODS = "/api/v1/namespaces/default/pods"
METRICS_PORT, CONSOLE_PORT = 9201, 8080
_PATIENCE = 180.0


class WholeSystem:
    """The control plane, its nodes and a Prometheus; numaware is not there before `helm("install", ...)`."""

    def __init__(self, folder: Path, plane: ControlPlane, nodes: Mapping[str, RealNode]) -> None:
        self.plane = plane
        self.api = plane.api()
        self.nodes = nodes
        targets = [f"{node.address}:{METRICS_PORT}" for node in nodes.values()]
        self.prometheus = Prometheus(folder, *targets, address=GATEWAY)
        self.pictures = folder / "pictures"
        self.pictures.mkdir()
        done = subprocess.run(
            [ROOT / "scripts/go-tools/build", "helm"], check=True, capture_output=True, text=True
        )
        self._helm = done.stdout.strip()

    def helm(self, *words: str) -> str:
        """The real Helm, on the release `numaware`; what it printed."""
        at = ("--namespace", NAMESPACE, "--kubeconfig", str(self.plane.kubeconfig("admin")))
        done = subprocess.run([self._helm, *words, *at], check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.pods_of_ours()}"
        return done.stdout

    def pods_of_ours(self) -> str:
        """How numaware's own pods are, and the last that they said."""
        told = [self.plane.kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide")]
        for node in self.nodes.values():
            logs = sorted((node.folder / "log/pods").rglob("*.log"))
            told += [f"--- {node.name}: {log.parent.parent.name}\n{log.read_text()[-1500:]}" for log in logs]
        return "\n".join(told)

    # Pods

    def pod(self, name: str) -> Object | None:
        """A pod of the namespace default, None where there is none."""
        try:
            return self.api.get(f"{PODS}/{name}")
        except ApiError:
            return None

    def running(self, app: str) -> dict[str, Object]:
        """The pods of this name that run, and are to go on."""
        return {
            pod["metadata"]["name"]: pod
            for pod in self.api.list_all(PODS, labelSelector=f"app={app}")
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        }

    def refusals(self, reason: str) -> set[str]:
        """The pods, each by its own uid, that kubelets have refused for this reason."""
        found = self.api.list_all("/api/v1/namespaces/default/events", fieldSelector=f"reason={reason}")
        return {event["involvedObject"]["uid"] for event in found}

    def holdings(self, node: str) -> dict[str, PodHoldings]:
        """Pod name -> what the real kubelet of the node says it has for itself."""

        async def ask() -> tuple[PodHoldings, ...]:
            async with PodResources(self.nodes[node].podresources) as kubelet:
                return await kubelet.pods()

        # The browser's own loop runs in this thread.
        with ThreadPoolExecutor(1) as other:
            pods = other.submit(asyncio.run, ask()).result()
        return {pod.name: pod for pod in pods if pod.namespace == "default"}

    # Components

    def address(self, component: str) -> str:
        """Where the one ready pod of a component is."""

        def found() -> str | None:
            for pod in self.api.list_all(
                f"/api/v1/namespaces/{NAMESPACE}/pods",
                labelSelector=f"app.kubernetes.io/name=numaware-{component}",
            ):
                ready = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
                if ready.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
                    return str(pod["status"]["podIP"])
            return None

        return eventually(found, f"a pod of {component} is ready", _PATIENCE)

    def topologies(self) -> dict[str, Object]:
        found = self.api.list_all("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies")
        return {one["metadata"]["name"]: one for one in found}

    # The console

    @contextmanager
    def console(self, browser: Browser, token: str) -> Iterator[Page]:
        """The console's page in a real browser, opened with this token."""
        context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(f"http://{self.address('console')}:{CONSOLE_PORT}/overview")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_label("Token")).to_have_count(0)
        yield page
        context.close()

    def picture(self, page: Page, name: str) -> None:
        """For people: what the browser shows."""
        page.screenshot(path=self.pictures / f"{name}.png", full_page=True)


@contextmanager
def whole_system(
    folder: Path, machine: str, config: Mapping[str, Any], count: int = 2
) -> Iterator[WholeSystem]:
    """Up, with every node ready, in a network of its own."""
    with ExitStack() as stack:
        stack.enter_context(own_network())
        plane = stack.enter_context(
            ControlPlane(folder / "plane", controllers=True, scheduler={}, users=users(count), whole=True)
        )
        made = synthetic.read(machine)
        nodes = [
            RealNode(folder / f"n{number}", plane, number, made, config) for number in range(1, count + 1)
        ]
        for node in nodes:
            stack.enter_context(node)
            plane.programs[node.name] = node.program
        system = WholeSystem(folder, plane, {node.name: node for node in nodes})
        stack.enter_context(system.prometheus.program)
        for node in nodes:
            eventually(partial(is_ready, plane, node.name), f"{node.name} is ready", _PATIENCE, node.program)
        yield system


def is_ready(plane: ControlPlane, name: str) -> bool:
    """Whether the kubelet says so, and pods may come."""
    node = plane.api().get(f"/api/v1/nodes/{name}")
    said = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    return said.get("Ready") == "True" and not node["spec"].get("taints")
