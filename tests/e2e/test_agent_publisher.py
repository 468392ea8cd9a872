"""The agent beside a real kubelet and a real API server: what it publishes is what the kubelet has handed out."""

from __future__ import annotations

import json
import shlex
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Object
from e2e.control_plane import CRD, ROOT, ControlPlane, free_port, kubelet
from e2e.kubelet_beside_twin import container, pod
from e2e.program import Program, eventually
from e2e.real_kubelet import RealKubelet
from numaware.kube.topology import nrt
from numaware.kube.topology.fingerprint import fingerprint
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet, list_form
from numaware.twin.node import Node

pytestmark = pytest.mark.e2e

NODE = "numa-1"
GPU = "nvidia.com/gpu"
CERTIFICATE = "pki/kubelet-client-current.pem"
NRT = f"/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{NODE}"
PODS = "/api/v1/namespaces/default/pods"
CONFIG = {
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "memoryManagerPolicy": "Static",
    "reservedSystemCPUs": "0,14",
    "systemReserved": {"memory": "1Gi"},
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
}
GPUS = {GPU: {"gpu-0": (0,), "gpu-1": (0,), "gpu-2": (1,), "gpu-3": (1,)}}


class Stage:
    """A control plane, a kubelet that has joined it, and the agent with a token that is bound to that Node."""

    def __init__(self, folder: Path, plane: ControlPlane, kubelet: RealKubelet) -> None:
        self.folder = folder
        self.plane = plane
        self.kubelet = kubelet
        self.port = free_port()
        self.agent = Program(
            "agent",
            [
                *as_in_its_pod(folder, kubelet),
                Path(sys.executable).with_name("numaware"),
                "agent",
                f"--node={NODE}",
                f"--root={folder / 'host'}",
                f"--kubelet-config={self.kubelet.config_file}",
                f"--device-plugins={self.kubelet.plugins_folder}",
                f"--kubeconfig={plane.kubeconfig(plane.agent_on(NODE))}",
                f"--listen=127.0.0.1:{self.port}",
                "--volcano",
                "--kai",
                "--log=json",
            ],
            folder / "agent.log",
        )

    # What is published

    def published(self) -> Object:
        return self.plane.api().get(NRT)

    def told(self) -> Node:
        """The twin in the published object, as a scheduler reads it."""
        report = nrt.decode(json.dumps(self.published()).encode())
        assert report.complete is not None, report.problem
        return report.complete.node

    # What the kubelet says itself, read without the agent's code

    def handed_out(self) -> dict[str, str]:
        """Pod uid -> CPUs, of pods that the kubelet still has."""
        alive = {one["metadata"]["uid"] for one in self.kubelet.pods().values() if not _over(one)}
        entries = self.kubelet.state("cpu_manager_state").get("entries", {})
        found = {}
        for uid, containers in entries.items():
            if uid in alive:
                found[uid] = list_form(sum(CpuSet.parse(cpus).mask for cpus in containers.values()))
        return found

    def agrees(self) -> bool:
        """Whether the published twin has each CPU with the pod that the kubelet gave it to, and all others free."""
        node = self.told()
        ours = {uid: list_form(sum(containers.values())) for uid, containers in node.state.cpu.owned.items()}
        assert ours == self.handed_out()
        reserved = CpuSet.parse("0,14").mask
        taken = sum(sum(containers.values()) for containers in node.state.cpu.owned.values())
        zones = {zone["name"]: zone for zone in self.published()["zones"]}
        for numa in self.kubelet.machine().numa:
            cpus = numa.cpus.mask & ~reserved
            amounts = {entry["name"]: entry for entry in zones[f"node-{numa.id}"]["resources"]}
            assert int(amounts["cpu"]["allocatable"]) == cpus.bit_count()
            assert int(amounts["cpu"]["available"]) == (cpus & ~taken).bit_count()
            table = self.kubelet.state("memory_manager_state")["machineState"][str(numa.id)]["memoryMap"][
                "memory"
            ]
            assert int(amounts["memory"]["capacity"]) == table["total"]
            assert int(amounts["memory"]["allocatable"]) == table["allocatable"]
        return True

    # Pods

    def run(self, body: dict[str, Any]) -> Object:
        """A pod bound to the node, once the kubelet has begun to tell of it."""
        body["spec"]["nodeName"] = NODE
        name = self.plane.api().create(PODS, body)["metadata"]["name"]

        def judged() -> Object | None:
            found = self.plane.api().get(f"{PODS}/{name}")
            return found if found["status"].get("startTime") else None

        # A kubelet that lost its API server waits up to a minute before it looks for it again.
        return eventually(judged, f"the kubelet has judged {name}", 120, self.kubelet.program)

    def refused(self, name: str) -> bool:
        """A kubelet that has just started tells first that the pod is known, and up to ten seconds later that it failed."""
        status = self.plane.api().get(f"{PODS}/{name}")["status"]
        return (status["phase"], status.get("reason")) == ("Failed", "TopologyAffinityError")

    def delete(self, name: str) -> None:
        self.plane.api().delete(f"{PODS}/{name}")

        def gone() -> bool:
            return all(one["metadata"]["name"] != name for one in self.plane.api().list_all(PODS))

        eventually(gone, f"{name} is gone", alive=self.kubelet.program)

    def settled(self, what: str, seconds: float = 10.0) -> float:
        """Wait until the published object agrees with the kubelet; how long it took from now."""
        began = time.monotonic()
        eventually(self.agrees, f"the published object agrees after {what}", seconds, self.agent)
        return time.monotonic() - began

    def ready(self) -> tuple[int, str]:
        """What /readyz says: the status, and why not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["reason"]

    def writes(self) -> str:
        return str(self.published()["metadata"]["resourceVersion"])


def as_in_its_pod(folder: Path, kubelet: RealKubelet) -> list[str | Path]:
    """What starts a program with the mounts of the DaemonSet in `folder`/host, the test's node in the place of the host."""
    spec = yaml.safe_load((ROOT / "deploy/agent/daemonset.yaml").read_text(encoding="utf-8"))
    pod_spec = spec["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod_spec["volumes"]}
    places = {
        "/sys": kubelet.made / "sys",
        "/proc": kubelet.made / "proc",
        "/var/lib/kubelet": kubelet.root,
        "/var/log/pods": folder / "logs",
    }
    # As on a node that is no test: the kubelet's certificate lies in its folder, too.
    for place in (folder / "logs", kubelet.root / "pki", *(folder / f"host{path}" for path in places)):
        place.mkdir(parents=True)
    (kubelet.root / CERTIFICATE).write_text("secret", encoding="utf-8")
    lines = ["set -euo pipefail", "mount --make-rprivate /"]
    for mount in pod_spec["containers"][0]["volumeMounts"]:
        target = shlex.quote(f"{folder}{mount['mountPath']}")
        path = volumes[mount["name"]]
        source = f"--bind {shlex.quote(str(places[path]))}" if path else "-t tmpfs none"
        lines += [f"mount {source} {target}", *([f"mount -o remount,bind,ro {target}"] if path else [])]
    script = folder / "agent.sh"
    script.write_text("\n".join([*lines, 'exec "$@"']) + "\n", encoding="utf-8")
    return ["unshare", "--mount", "bash", script]


def _over(one: Object) -> bool:
    return one.get("status", {}).get("phase") in ("Failed", "Succeeded")


@pytest.fixture(scope="module")
def whole_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    with ControlPlane(folder / "plane", users={"kubelet": kubelet(NODE)}) as plane:
        machine = synthetic.read("2s x 1n x 7c x 2t mem=32Gi")
        config = plane.kubeconfig("kubelet")
        with RealKubelet(folder / "node", machine, CONFIG, GPUS, name=NODE, kubeconfig=config) as joined:
            eventually(lambda: plane.api().get(f"/api/v1/nodes/{NODE}"), "the node is there", 60)
            made = Stage(folder, plane, joined)
            with made.agent:
                eventually(made.published, "something is published", alive=made.agent)
                made.settled("the start", 60)
                yield made


@pytest.fixture
def stage(whole_stage: Stage) -> Iterator[Stage]:
    """A stage without pods; what a test that failed has left there fails no other one."""
    yield whole_stage
    for one in whole_stage.plane.api().list_all(PODS):
        whole_stage.delete(one["metadata"]["name"])


def guaranteed(name: str, cpus: int, gpus: int = 0, memory: str = "1Gi") -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": memory, **({GPU: str(gpus)} if gpus else {})}
    return pod(name, container("app", amounts))


def test_the_published_object_follows_the_kubelet_step_by_step(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    first = stage.run(guaranteed("first", 4))
    late = [stage.settled("the first pod")]
    second = stage.run(guaranteed("second", 10, 2))
    late.append(stage.settled("the second pod"))
    node = stage.told()
    assert set(node.state.pods) == {first["metadata"]["uid"], second["metadata"]["uid"]}
    placed = node.state.device.owned[second["metadata"]["uid"]]["app"][GPU]
    assert node.kubelet.devices.inventories[GPU].on_node[1] == placed, "both GPUs of node 1"
    stage.run(guaranteed("refused", 14))
    eventually(lambda: stage.refused("refused"), "the pod is refused", 30, stage.kubelet.program)
    late.append(stage.settled("the refused pod"))
    stage.delete("first")
    late.append(stage.settled("the first pod is gone"))
    record_property("measured", f"the agent was at most {max(late):.2f} s behind the kubelet")
    assert max(late) <= 1
    assert set(stage.told().state.cpu.owned) == {second["metadata"]["uid"]}
    stage.delete("second")
    stage.delete("refused")
    stage.settled("all pods are gone")
    assert stage.told().state.cpu.owned == {}


def test_other_schedulers_can_read_it(stage: Stage) -> None:
    running = stage.run(guaranteed("trainer", 4, 1))
    stage.settled("a pod")
    found = stage.published()
    attributes = {entry["name"]: entry["value"] for entry in found["attributes"]}
    assert attributes["topologyManagerPolicy"] == "single-numa-node"
    assert attributes["topologyManagerScope"] == "pod"
    assert attributes["nodeTopologyPodsFingerprint"] == fingerprint([("default", "trainer")])
    assert found["topologyPolicies"] == ["SingleNUMANodePodLevel"]
    (owner,) = found["metadata"]["ownerReferences"]
    node = stage.plane.api().get(f"/api/v1/nodes/{NODE}")
    assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
    assert found["zones"][0]["costs"] == [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}]
    gpus = {entry["name"]: entry for entry in found["zones"][0]["resources"]}[GPU]
    assert (gpus["capacity"], gpus["allocatable"], gpus["available"]) == ("2", "2", "1")
    spec = stage.plane.api().get(f"/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/{NODE}")["spec"]
    uid = running["metadata"]["uid"]
    assert spec["podAllocations"][0]["uid"] == uid
    cpus = stage.handed_out()[uid]

    def annotated() -> Object | None:
        told = stage.plane.api().get(f"{PODS}/trainer")["metadata"].get("annotations", {})
        return told if "kai.scheduler/numa-placement-observed" in told else None

    told = eventually(annotated, "the pod says where it lies", 10, stage.agent)
    amount = {"cpu": "4", "memory": str(1 << 30), GPU: "1"}
    assert json.loads(told["numaware.io/placement-observed"]) == [
        {"zone": "node-0", "amount": amount, "cpus": cpus}
    ]
    assert json.loads(told["kai.scheduler/numa-placement-observed"]) == [{"zone": "node-0", "amount": amount}]
    stage.delete("trainer")
    stage.settled("it is gone")


def test_the_api_server_takes_the_manifests_that_are_shipped(stage: Stage) -> None:
    for name in ("daemonset.yaml", "configz.yaml", "networkpolicy.yaml"):
        stage.plane.kubectl("apply", "--dry-run=server", "-f", ROOT / "deploy/agent" / name)


def test_the_agent_sees_of_the_kubelets_folder_only_what_it_needs(stage: Stage) -> None:
    stage.run(guaranteed("trainer", 4))
    assert (stage.kubelet.root / CERTIFICATE).exists()
    assert list((stage.kubelet.root / "pods").iterdir())
    assert stage.agent.process is not None
    seen = Path(f"/proc/{stage.agent.process.pid}/root{stage.folder}/host/var/lib/kubelet")
    filled = {place.name for place in seen.iterdir() if place.is_dir() and list(place.iterdir())}
    # Which images were pulled, told by newer kubelets, is nobody's secret.
    assert filled - {"image_manager"} == {"pod-resources"}
    assert {"cpu_manager_state", "memory_manager_state"} <= {place.name for place in seen.iterdir()}


def test_nothing_is_written_while_nothing_changes(stage: Stage) -> None:
    before, generation = stage.writes(), _generation(stage)
    time.sleep(5)
    assert (stage.writes(), _generation(stage)) == (before, generation)
    stage.agent.stop()
    stage.agent.start()
    eventually(lambda: "publishing" in stage.agent.tail(1), "the agent is back", 60, stage.agent)
    time.sleep(3)
    assert (stage.writes(), _generation(stage)) == (before, generation), "a restart is no change"


def _generation(stage: Stage) -> str:
    attributes = {entry["name"]: str(entry["value"]) for entry in stage.published()["attributes"]}
    return attributes["numaware.io/generation"]


def test_it_recovers_from_its_own_restart(stage: Stage) -> None:
    stage.run(guaranteed("before", 2))
    stage.settled("a pod")
    stage.agent.kill()
    stage.run(guaranteed("meanwhile", 4))
    stage.delete("before")
    stage.agent.start()
    stage.settled("the agent is back", 60)
    stage.delete("meanwhile")
    stage.settled("it is gone")


def test_it_recovers_from_a_restart_of_the_kubelet_and_never_publishes_that_all_is_free(stage: Stage) -> None:
    """While the kubelet is away its socket is gone; when it is back it lists no pods at first."""
    kept = stage.run(guaranteed("kept", 6, 1))
    stage.settled("a pod")
    uid = kept["metadata"]["uid"]
    generation = _generation(stage)
    stage.kubelet.stop()
    time.sleep(1)
    assert uid in stage.told().state.cpu.owned
    assert _generation(stage) == generation
    stage.kubelet.start()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        state = stage.told().state
        assert uid in state.cpu.owned
        assert uid in state.device.owned, "nor is its GPU free before the plugin is back"
        time.sleep(0.05)
    eventually(stage.agrees, "the published object is right again", 60, stage.agent)
    stage.run(guaranteed("after", 2))
    stage.settled("a pod after the restart")
    stage.delete("kept")
    stage.delete("after")
    stage.settled("they are gone")


def test_it_says_that_the_socket_is_gone_and_recovers_when_it_is_back(stage: Stage) -> None:
    def troubles() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{stage.port}/metrics", timeout=10) as answer:
            return "\n".join(
                line
                for line in answer.read().decode().splitlines()
                if line.startswith("numa_exporter_trouble{")
            )

    running = stage.run(guaranteed("running", 4))
    stage.settled("a pod")
    generation = _generation(stage)
    stage.kubelet.podresources.unlink()
    # The connection that there is goes on without its name in the file system; a new agent has none.
    stage.agent.stop()
    stage.agent.start()
    eventually(lambda: 'source="podresources"' in troubles(), "the trouble is told", 60, stage.agent)
    assert running["metadata"]["uid"] in stage.told().state.cpu.owned
    assert _generation(stage) == generation
    stage.kubelet.stop()
    stage.kubelet.start()
    eventually(lambda: not troubles(), "the trouble is over", 60, stage.agent)
    stage.settled("the socket is back", 60)
    stage.delete("running")
    stage.settled("it is gone")


def test_it_takes_over_another_policy_when_the_kubelet_does(stage: Stage) -> None:
    def policy() -> str:
        return stage.told().kubelet.config.topology_policy

    stage.kubelet.stop()
    stage.kubelet.reconfigure({**CONFIG, "topologyManagerPolicy": "restricted"})
    stage.kubelet.start()
    eventually(lambda: policy() == "restricted", "the new policy is published", 60, stage.agent)
    stage.kubelet.stop()
    stage.kubelet.reconfigure(CONFIG)
    stage.kubelet.start()
    eventually(lambda: policy() == "single-numa-node", "the old policy is back", 60, stage.agent)


def test_what_others_do_to_its_object_is_put_right_within_a_second(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    """It is deleted, emptied, written over by another manager, and put back as it was an hour ago."""
    api = stage.plane.api()
    earlier = stage.published()
    stage.run(guaranteed("running", 4))
    stage.settled("a pod")
    assert stage.ready() == (200, "")
    head = {"apiVersion": earlier["apiVersion"], "kind": earlier["kind"], "metadata": {"name": NODE}}
    wrongs: dict[str, Callable[[], object]] = {
        "deleted": lambda: api.delete(NRT),
        "emptied": lambda: api.patch(NRT, {"zones": [], "attributes": []}),
        "applied": lambda: api.apply(NRT, {**head, "zones": earlier["zones"][:1]}),
        "put back": lambda: api.patch(NRT, {"zones": earlier["zones"], "attributes": earlier["attributes"]}),
    }
    late = {}
    for what, wrong in wrongs.items():
        before = stage.writes()
        wrong()
        began = time.monotonic()
        eventually(
            lambda: stage.writes() != before and stage.agrees(),  # noqa: B023 - asked before the next round
            f"the object is right after it was {what}",
            10,
            stage.agent,
        )
        late[what] = time.monotonic() - began
        eventually(lambda: stage.ready() == (200, ""), "the agent is ready again", 10, stage.agent)
    told = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in late.items())
    record_property("measured", f"the agent's object is right again after it was {told}")
    assert max(late.values()) <= 1


def test_a_kind_that_is_gone_is_told_of_and_noticed_as_soon_as_it_is_back(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    stage.plane.kubectl("delete", "-f", CRD)
    command = "kubectl apply -f deploy/crd/noderesourcetopology.yaml"
    eventually(lambda: stage.ready()[0] == 503 and command in stage.ready()[1], "it says so", 30, stage.agent)
    stage.plane.kubectl("apply", "--server-side", "-f", CRD)
    began = time.monotonic()
    eventually(stage.agrees, "it is published again", 30, stage.agent)
    took = time.monotonic() - began
    record_property("measured", f"published {took:.2f} s after the kind was defined")
    eventually(lambda: stage.ready() == (200, ""), "the agent is ready again", 10, stage.agent)
    assert took < 5


def test_devices_that_come_late_are_published(stage: Stage) -> None:
    def capacity() -> str:
        resources = {entry["name"]: entry for entry in stage.published()["zones"][1]["resources"]}
        return str(resources[GPU]["capacity"])

    (plugin,) = stage.kubelet.plugins
    before = dict(plugin.devices)
    plugin.announce({**before, "gpu-4": (1,)})
    eventually(lambda: capacity() == "3", "the new GPU is published", 10, stage.agent)
    plugin.announce(before)
    eventually(lambda: capacity() == "2", "the old GPUs are published", 10, stage.agent)


def test_it_recovers_when_the_api_server_was_gone_for_a_minute(stage: Stage) -> None:
    stage.run(guaranteed("early", 4))
    stage.settled("a pod")
    stage.plane.stop("apiserver")
    time.sleep(60)
    stage.plane.start("apiserver")
    stage.run(guaranteed("late", 2))
    stage.settled("the API server is back", 60)
    stage.delete("early")
    stage.delete("late")
    stage.settled("they are gone")
    lines = [json.loads(line) for line in stage.agent.log.read_text().splitlines()]
    troubles = [line for line in lines if line.get("source") == "api" and line["event"] == "trouble"]
    assert len(troubles) <= 4, "one line for a trouble, not one for each try"
