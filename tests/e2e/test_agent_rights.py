"""The agent beside a real kubelet that the API server can reach: its rights one by one, and `configz` through the server."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from e2e.api import ApiError, Object
from e2e.control_plane import ROOT, ControlPlane, free_port, kubelet
from e2e.kubelet_beside_twin import container, pod
from e2e.program import Program, eventually
from e2e.proxy import FaultyProxy
from e2e.real_kubelet import RealKubelet
from e2e.rights import Right, rights, without
from numaware.machine import synthetic

pytestmark = pytest.mark.e2e

NODE = "numa-1"
NRT = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE}"
NUMATOPOLOGY = f"/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/{NODE}"
POD = "/api/v1/namespaces/default/pods/trainer"
PLACED = "numaware.io/placement-observed"
TRAFFIC = f"/apis/numaware.io/v1alpha1/nodetraffics/{NODE}"
OENUMAS = "/apis/resource.sop.huawei.com/v1alpha1/namespaces/tcs/oenumas"
PODAFI = f"{OENUMAS}/podafi"
# Of a network that is nobody's, on this machine's own loopback device: no address of loopback to the API server.
ADDRESS = "198.51.100.1"
CONFIG = {
    "topologyManagerPolicy": "restricted",
    "topologyManagerScope": "pod",
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    # A kubelet that is asked names its defaults, so what is compared with it does too.
    "memoryManagerPolicy": "None",
    "reservedSystemCPUs": "0,8",
}
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SLICE = {
    "metadata": {"name": "devices"},
    "spec": {
        "driver": "d.io",
        "nodeName": NODE,
        "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0", "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}}],
    },
}
_OENUMA = {"apiVersion": "resource.sop.huawei.com/v1alpha1", "kind": "Oenuma"}
# Only a pod that was moved has Events; that they are let through is tried in test_agent_own_node.py.
_OF_MOVES = {"create events", "patch events"}
RIGHTS = [right for right in rights("agent") if str(right) not in _OF_MOVES]
_SECONDS = 60.0


class Stage:
    """A kubelet with one pod, and agents beside it that reach the API server through a proxy."""

    def __init__(self, folder: Path, plane: ControlPlane, proxy: FaultyProxy) -> None:
        self.plane = plane
        self.proxy = proxy
        self.api = plane.api()
        self.kubelet = RealKubelet(
            folder / "node",
            synthetic.read("2s x 1n x 4c x 2t mem=8Gi"),
            CONFIG,
            name=NODE,
            kubeconfig=plane.kubeconfig("kubelet"),
            address=ADDRESS,
        )
        self._folder = folder
        self._started = 0
        self._port = 0

    @contextmanager
    def agent(self, config: str = "", *, shared: bool = False) -> Iterator[Program]:
        """An agent on a node that none has written of yet; openFuyao's `shared` object is there, or not."""
        for path in (NRT, NUMATOPOLOGY, TRAFFIC, PODAFI):
            self.api.status_of("DELETE", path)
        if shared:
            spec = {"name": "podafi", "updateenable": "enable"}
            self.api.create(OENUMAS, {"metadata": {"name": "podafi"}, "spec": spec, **_OENUMA})
        self.api.patch(POD, {"metadata": {"annotations": {PLACED: None}}})
        self._started += 1
        self._port = free_port()
        program = Program(
            "agent",
            [
                Path(sys.executable).with_name("numaware"),
                "agent",
                f"--node={NODE}",
                f"--root={self.kubelet.made}",
                f"--kubelet-root={self.kubelet.root}",
                f"--kubelet-config={config or self.kubelet.config_file}",
                f"--device-plugins={self.kubelet.plugins_folder}",
                f"--kubeconfig={self.plane.kubeconfig(self.plane.agent_on(NODE), self.proxy.url)}",
                f"--listen=127.0.0.1:{self._port}",
                "--volcano",
                # It finds no containers below that root, so it moves nobody, but it asks and tells as if it might.
                "--affinity=cgroup",
                "--affinity-period=0.5",
                f"--affinity-folder={self._folder / 'affinity'}",
                "--reconcile-time=1",
            ],
            self._folder / f"agent-{self._started}.log",
        )
        with program:
            yield program

    def published(self) -> dict[str, str]:
        """What is told of the node, without what counts the writes."""
        found = {entry["name"]: entry["value"] for entry in self.api.get(NRT)["attributes"]}
        return {name: value for name, value in found.items() if name != "numaware.io/generation"}

    def there(self, path: str) -> bool:
        return self.api.status_of("GET", path) == 200

    def ready(self) -> bool:
        """Whether the agent says that what is published is true."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5).close()
        except urllib.error.URLError:
            return False
        return True

    def tells_of_dra(self) -> bool:
        """Whether its metrics have the device of a driver."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
                return b'numa_dra_devices{driver="d.io"' in answer.read()
        except urllib.error.URLError:
            return False

    def may_move(self) -> bool:
        """Whether it says that it moves pods: only who knows whether that is wanted, and of whom, does."""
        return self.there(TRAFFIC) and self.api.get(TRAFFIC)["report"]["moving"]

    def is_in_shared(self) -> bool:
        """Whether openFuyao's object has what is true of the node."""
        return self.there(PODAFI) and NODE in {
            entry["name"] for entry in self.api.get(PODAFI)["spec"].get("node", ())
        }

    def placed(self) -> bool:
        found: Object = self.api.get(POD)["metadata"]
        return PLACED in found.get("annotations", {})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    users = {"kubelet": kubelet(NODE)}
    # A node's name is in no DNS here.
    flags = ("--kubelet-preferred-address-types=InternalIP",)
    with (
        own_address(),
        ControlPlane(folder / "plane", users=users, server_flags=flags) as plane,
        FaultyProxy(plane) as proxy,
    ):
        made = Stage(folder, plane, proxy)
        with made.kubelet:
            # A kubelet that has just joined does not know yet that it may be asked for its pods.
            eventually(lambda: plane.api().get(f"/api/v1/nodes/{NODE}"), "the node is there", 60)
            amounts = {"cpu": "4", "memory": "1Gi"}
            body = pod("trainer", container("app", amounts))
            body["spec"]["nodeName"] = NODE
            plane.api().create("/api/v1/namespaces/default/pods", body)
            plane.api().create(SLICES, SLICE)
            eventually(lambda: plane.api().get(POD)["status"].get("startTime"), "the pod is judged", 120)
            plane.api().create("/api/v1/namespaces", {"metadata": {"name": "tcs"}})
            yield made


@contextmanager
def own_address() -> Iterator[None]:
    """The address on this machine, for as long as it is needed."""
    added = subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=False)
    try:
        yield
    finally:
        if added.returncode == 0:
            subprocess.run(["ip", "address", "del", f"{ADDRESS}/32", "dev", "lo"], check=True)


WORK: dict[str, Callable[[Stage], bool]] = {
    "get nodes": lambda stage: stage.there(NRT),
    "list pods": lambda stage: stage.there(NRT),
    "list resourceslices": Stage.tells_of_dra,
    "patch pods": Stage.placed,
    "list noderesourcetopologies": Stage.ready,
    "create noderesourcetopologies": lambda stage: stage.there(NRT),
    "patch noderesourcetopologies": lambda stage: stage.there(NRT),
    "create numatopologies": lambda stage: stage.there(NUMATOPOLOGY),
    "patch numatopologies": lambda stage: stage.there(NUMATOPOLOGY),
    "create nodetraffics": lambda stage: stage.there(TRAFFIC),
    "patch nodetraffics": lambda stage: stage.there(TRAFFIC),
    "get oenumas": Stage.is_in_shared,
    "create oenumas": Stage.is_in_shared,
    "patch oenumas": Stage.is_in_shared,
    "get whitelists": Stage.may_move,
}


@pytest.mark.parametrize("shared", [False, True])
def test_the_agent_does_all_its_work_with_what_is_shipped(stage: Stage, *, shared: bool) -> None:
    assert {str(right) for right in RIGHTS if right.verb != "watch"} == set(WORK)
    before = {right: (right.answers(stage.proxy, 403), _lists(stage)) for right in RIGHTS}
    with stage.agent(shared=shared) as agent:
        for name, done in WORK.items():
            eventually(partial(done, stage), f"done with {name}", _SECONDS, agent)
    for right, (refused, lists) in before.items():
        assert (right.answers(stage.proxy, 403), _lists(stage)) == (refused, lists + 1)


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_without_one_verb_the_agent_leaves_something_undone(stage: Stage, right: Right) -> None:
    # To apply what is not there is a patch that the server refuses for want of the right to create.
    applied = right.verb == "create" and right.resource != "oenumas"
    asked = right._replace(verb="patch") if applied else right
    refused, lists = asked.answers(stage.proxy, 403), _lists(stage, right.resource)
    shared = str(right) == "patch oenumas"
    with without(stage.plane, "agent", right), stage.agent(shared=shared) as agent:
        eventually(lambda: asked.answers(stage.proxy, 403) > refused, f"it tries to {right}", _SECONDS, agent)
        if right.verb == "watch":
            eventually(
                lambda: _lists(stage, right.resource) >= lists + 3, "it asks again and again", _SECONDS, agent
            )
        else:
            assert not WORK[str(right)](stage)


def _lists(stage: Stage, kind: str = "pods") -> int:
    root = {"pods": "/api/v1/pods", "resourceslices": SLICES}.get(kind, f"{NRT.rsplit('/', 2)[0]}/{kind}")
    return stage.proxy.seen()[f"200 GET {root}"]


def test_configz_through_the_api_server_tells_what_the_file_does(stage: Stage) -> None:
    with stage.agent() as agent:
        by_file = eventually(stage.published, "what the file says is published", _SECONDS, agent)
    assert by_file["topologyManagerPolicy"] == "restricted"
    with stage.agent("configz") as agent:
        asked = f"403 GET /api/v1/nodes/{NODE}/proxy/configz"
        eventually(
            lambda: stage.proxy.seen()[asked], "it may not ask without the rules for it", _SECONDS, agent
        )
        with pytest.raises(ApiError, match="404"):
            stage.published()
        stage.plane.kubectl("apply", "-f", ROOT / "deploy/agent/configz.yaml")
        eventually(
            lambda: stage.published() == by_file, "the kubelet's own answer is published", _SECONDS, agent
        )
    assert stage.proxy.seen()[f"200 GET /api/v1/nodes/{NODE}/proxy/configz"] >= 1
