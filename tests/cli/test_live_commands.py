"""The commands that look at a live cluster, as a user types them, against a small API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from kube.fake_api_server import FakeApiServer, Refusal
from numaware.cli import main
from numaware.diagnose.doctor.volcano import VOLCANO
from numaware.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from numaware.schedule import ledger, miss
from numaware.schedule.ledger import OBSERVED, PREDICTED, Observation
from numaware.workload.scheduling import VOLCANO_POLICY
from support.live_cluster import ServerThread, add_node, add_pod, kubeconfig
from support.small_clusters import gpu_node
from support.twin_nodes import GPU, pod

ESCAPE = "\x1b[31m"
# Every command that asks a cluster.
LIVE = (
    *(["nodes"], ["pods"], ["why-pending", "a"], ["explain", "pod", "a"]),
    *(["whatif", "live:", "cpu=1"], ["simulate", "live:", "lab:1"]),
    *(["install", "--dry-run"], ["uninstall"]),
)


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Scene:
    """A cluster, and whoever types commands."""

    def __init__(self, server: FakeApiServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.kubeconfig = kubeconfig(server, folder)
        self._capsys = capsys

    def type(self, *words: str) -> Answer:
        return type_(self._capsys, *words, "--kubeconfig", self.kubeconfig)

    def annotate(self, name: str, **annotations: str) -> None:
        path = PODS.path("default", name)
        found = self.server.objects[path]
        found["metadata"]["annotations"] = annotations
        self.server._write(path, found)


def type_(capsys: pytest.CaptureFixture[str], *words: str) -> Answer:
    return Answer(main(words), *capsys.readouterr())


@pytest.fixture(scope="module")
def thread() -> Iterator[ServerThread]:
    with ServerThread() as started:
        yield started


@pytest.fixture
def scene(
    thread: ServerThread,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """Two nodes of two NUMA nodes with 8 CPUs each (CPU 0 is the system's): a is strict, b is not."""
    monkeypatch.setenv("COLUMNS", "100")
    thread.server.objects.clear()
    thread.server.refusals.clear()
    add_node(thread.server, "a", gpu_node("single-numa-node"))
    add_node(thread.server, "b", gpu_node("best-effort"))
    return Scene(thread.server, tmp_path, capsys)


def one_line(answer: Answer) -> str:
    """The only thing that bad input leads to."""
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("numaware: ")
    assert answer.err.count("\n") == 1
    return answer.err


# Nodes


def test_nodes_are_a_table_with_what_is_free_on_each_numa_node(scene: Scene) -> None:
    answer = scene.type("nodes")
    assert answer.code == 0
    heading, first, second = answer.out.splitlines()
    assert heading.split("   ")[0] == "NODE"
    names = "CPUS FREE TO PIN", "DEVICES FREE TO PIN", "CPUS NOT REQUESTED"
    assert all(name in heading for name in names)
    assert " ".join(first.split()) == (
        "a single-numa-node/container complete (numaware) 0 7/8 | 8/8 2/2 gpu | 2/2 gpu 15"
    )
    assert second.startswith("b ")


def test_pods_on_their_way_are_counted_apart_from_those_a_report_shows(scene: Scene) -> None:
    add_pod(scene.server, "p", 3, nodeName="a")
    (row,) = scene.type("nodes", "a", "--json").json["nodes"]
    assert (row["pods"], row["waiting"], row["current"], row["known"]) == (1, 1, True, "complete")
    assert [zone["freeToPin"]["cpu"] for zone in row["zones"]] == [4, 8]
    assert "1 (+1 on their way)" in scene.type("nodes", "a").out


def test_lists_are_written_in_chinese_where_that_is_asked_for(scene: Scene) -> None:
    nodes = scene.type("nodes", "--lang", "zh").out
    assert "可独占的 CPU" in nodes
    assert "完整" in nodes
    assert "命名空间" in scene.type("pods", "--lang", "zh").out


def test_nodes_as_json_have_policies_and_numa_nodes(scene: Scene) -> None:
    document = scene.type("nodes", "--json").json
    assert document["problems"] == []
    row = document["nodes"][1]
    assert (row["name"], row["topologyPolicy"], row["topologyScope"]) == ("b", "best-effort", "container")
    assert (row["cpuPolicy"], row["source"], row["generation"]) == ("static", "numaware", 1)
    assert [zone["numa"] for zone in row["zones"]] == [0, 1]
    assert row["zones"][0]["capacity"][GPU] == 2


def test_a_node_that_nobody_publishes_shows_that_nothing_is_known(scene: Scene) -> None:
    add_node(scene.server, "c", gpu_node(), published=False)
    answer = scene.type("nodes", "c")
    assert answer.code == 0
    assert answer.out.splitlines()[1].split() == ["c", "?", "none", "0", "?", "?", "15"]
    (row,) = scene.type("nodes", "c", "--json").json["nodes"]
    assert (row["known"], row["zones"], row["topologyPolicy"]) == ("none", [], None)


def test_a_topology_that_cannot_be_used_is_told_and_the_exit_code_is_1(scene: Scene) -> None:
    zones = [
        {
            "name": "node-0",
            "type": "Node",
            "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "-1"}],
        }
    ]
    add_node(scene.server, "odd", gpu_node(), published=False)
    scene.server.put(NODE_RESOURCE_TOPOLOGIES, "odd", zones=zones, attributes=[])
    answer = scene.type("nodes")
    assert answer.code == 1
    (told,) = [line for line in answer.out.splitlines() if line.startswith("odd: ")]
    assert "below zero" in told
    assert scene.type("nodes", "a").code == 0


def test_an_object_that_cannot_be_read_is_told_and_the_others_are_shown(scene: Scene) -> None:
    scene.server.put(PODS, f"broken{ESCAPE}", "default", spec={"containers": 7})
    answer = scene.type("nodes")
    assert answer.code == 1
    assert "\na " in answer.out
    assert "pod default/broken" in answer.out
    assert ESCAPE not in answer.out
    (problem,) = scene.type("nodes", "--json").json["problems"]
    assert ESCAPE not in problem


def test_nodes_can_be_named(scene: Scene) -> None:
    assert [row["name"] for row in scene.type("nodes", "b", "--json").json["nodes"]] == ["b"]
    assert "the cluster has no such node" in one_line(scene.type("nodes", "b", "strange"))
    assert ESCAPE not in one_line(scene.type("nodes", f"x{ESCAPE}"))


def test_an_empty_cluster_is_a_heading(scene: Scene) -> None:
    scene.server.objects.clear()
    answer = scene.type("nodes")
    assert (answer.code, len(answer.out.splitlines())) == (0, 1)


def test_a_cluster_without_topology_kinds_has_nodes_all_the_same(scene: Scene) -> None:
    scene.server.missing = {NODE_RESOURCE_TOPOLOGIES.path()}
    try:
        answer = scene.type("nodes")
    finally:
        scene.server.missing = set()
    assert answer.code == 1
    _, *nodes, told = answer.out.splitlines()
    assert [line.split()[2] for line in nodes] == ["none", "none"]
    assert "deploy/crd/noderesourcetopology.yaml" in told


# Pods


def test_pods_are_a_table_with_where_they_are_and_what_they_hold(scene: Scene) -> None:
    add_pod(scene.server, "runs", 3, nodeName="a")
    add_pod(scene.server, "waits", 3)
    answer = scene.type("pods")
    assert answer.code == 0
    heading, runs, waits = answer.out.splitlines()
    assert heading.split()[:3] == ["NAMESPACE", "NAME", "NODE"]
    assert runs.split() == ["default", "runs", "a", "0", "1-3", "yes", "-", "-"]
    assert waits.split()[:2] == ["default", "waits"]


def test_pods_can_be_narrowed_down(scene: Scene) -> None:
    add_pod(scene.server, "one", 3, nodeName="a")
    add_pod(scene.server, "two", 3, nodeName="b")
    add_pod(scene.server, "three", 3, namespace="ml")
    add_pod(scene.server, "wide", 10, nodeName="b")

    def names(*words: str) -> list[str]:
        return [row["name"] for row in scene.type("pods", *words, "--json").json["pods"]]

    assert names() == ["one", "two", "wide", "three"]
    assert names("--node", "b") == ["two", "wide"]
    assert names("-n", "ml") == ["three"]
    assert names("--node", "a", "-n", "ml") == []


def test_only_pods_on_more_numa_nodes_than_they_need_cross(scene: Scene) -> None:
    """With x and y there, no NUMA node of b has four CPUs left; its kubelet takes those of z from both."""
    for name in ("x", "y"):
        add_pod(scene.server, name, 5, nodeName="b")
    add_pod(scene.server, "z", 4, nodeName="b")
    (row,) = scene.type("pods", "--crossing", "--json").json["pods"]
    assert (row["name"], row["aligned"], row["numa"]) == ("z", False, [0, 1])


def test_foreseen_and_seen_are_held_against_each_other(scene: Scene) -> None:
    add_pod(scene.server, "p", 3, nodeName="a")
    told = '[{"zone":"node-%d","amount":{"cpu":"3"},"cpus":"%s"}]'
    scene.annotate("p", **{PREDICTED: told % (0, "1-3")})
    (row,) = scene.type("pods", "--json").json["pods"]
    assert (row["predicted"], row["observed"], row["outcome"]) == ([0], None, "")
    scene.annotate("p", **{PREDICTED: told % (0, "1-3"), OBSERVED: told % (1, "8-10")})
    (row,) = scene.type("pods", "--json").json["pods"]
    assert (row["predicted"], row["observed"], row["outcome"]) == ([0], [1], "wrong_zone")
    assert scene.type("pods").out.splitlines()[1].split()[-2:] == ["0", "wrong_zone"]


def test_annotations_that_are_junk_are_passed_over(scene: Scene) -> None:
    add_pod(scene.server, "p", 3, nodeName="a")
    scene.annotate("p", **{PREDICTED: ESCAPE, OBSERVED: '[{"zone":"node-0"'})
    (row,) = scene.type("pods", "--json").json["pods"]
    assert (row["predicted"], row["observed"], row["outcome"]) == (None, None, "")


def test_names_of_pods_cannot_speak_to_the_terminal(scene: Scene) -> None:
    add_pod(scene.server, f"evil{ESCAPE}", 3)
    found = scene.server.objects[PODS.path("default", f"evil{ESCAPE}")]
    found["status"] = {"phase": "Pending", "reason": ESCAPE}
    assert ESCAPE not in scene.type("pods").out


# Why is it pending?


def test_a_pod_that_no_node_takes_is_told_what_every_node_says(scene: Scene) -> None:
    add_pod(scene.server, "big", 40)
    answer = scene.type("why-pending", "big")
    assert answer.code == 1
    assert answer.out.startswith("0/2 nodes are available: ")
    assert "2 nodes: Insufficient cpu" in answer.out
    document = scene.type("why-pending", "default/big", "--json")
    assert document.code == 1
    assert document.json["pod"] == "default/big"
    assert document.json["node"] is document.json["wouldGoTo"] is None
    assert document.json["nodes"] == [{"reasons": ["Insufficient cpu"], "nodes": ["a", "b"]}]


def test_a_pod_that_some_node_would_take_waits_for_its_scheduler(scene: Scene) -> None:
    add_pod(scene.server, "p", 10, schedulerName="somebody")
    answer = scene.type("why-pending", "p")
    assert answer.code == 0
    assert "would be taken by 1 node; b is the best" in answer.out
    assert "somebody" in answer.out
    document = scene.type("why-pending", "p", "--json").json
    assert document["wouldGoTo"] == "b"
    assert [entry["nodes"] for entry in document["nodes"]] == [["b"], ["a"]]


def test_a_pod_that_waits_is_told_of_in_chinese_too(scene: Scene) -> None:
    add_pod(scene.server, "big", 40)
    said = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No victims.",
    }
    scene.server.objects[PODS.path("default", "big")]["status"] = {"phase": "Pending", "conditions": [said]}
    answer = scene.type("why-pending", "big", "--lang", "zh")
    assert answer.code == 1
    assert answer.out.startswith("2 个节点都不可用：2 个 CPU 不足。\n")
    assert "它的调度器说：2 个节点都不可用：2 个 CPU 不足。" in answer.out
    assert "2 个节点：CPU 不足\n" in answer.out
    document = scene.type("why-pending", "big", "--json", "--lang", "zh").json
    assert document["nodes"] == [{"reasons": ["CPU 不足"], "nodes": ["a", "b"]}]
    assert "会拒绝 default/big" in scene.type("explain", "pod", "big", "--lang", "zh").out
    add_pod(scene.server, "p", 10, schedulerName="somebody")
    assert scene.type("why-pending", "p", "--lang", "zh").out.startswith(
        "1 个节点可以接收 default/p，最好的是 b。它在等待自己的调度器 somebody。"
    )


def test_a_pod_of_volcanos_is_told_what_is_wrong_with_volcano(scene: Scene) -> None:
    add_pod(scene.server, "p", 10, schedulerName="volcano")
    assert (
        "[component-missing] parts of Volcano are missing: volcano-scheduler"
        in scene.type("why-pending", "p").out
    )
    for name in VOLCANO:
        scene.server.put(
            PODS,
            f"{name}-x",
            "volcano-system",
            metadata={"name": f"{name}-x", "namespace": "volcano-system"},
            spec={"nodeName": "a", "containers": [{"name": "c", "image": "x"}]},
            status={"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        )
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n"
    keys = {"volcano-scheduler.conf": conf}
    scene.server.put(CONFIG_MAPS, "volcano-scheduler-configmap", "volcano-system", data=keys)
    answer = scene.type("why-pending", "p")
    assert "[numa-aware-off] Volcano's numa-aware plugin is off\n" in answer.out
    assert "kubectl -n volcano-system edit configmap volcano-scheduler-configmap" in answer.out
    document = scene.type("why-pending", "p", "--json", "--lang", "zh").json
    assert [one["code"] for one in document["findings"]] == ["numa-aware-off"]
    keys["volcano-scheduler.conf"] = conf + "  - name: numa-aware\n"
    scene.server.put(CONFIG_MAPS, "volcano-scheduler-configmap", "volcano-system", data=keys)
    assert scene.type("why-pending", "p", "--json").json["findings"] == []


def test_an_annotation_of_volcanos_on_a_pod_of_kube_scheduler_is_told(scene: Scene) -> None:
    add_pod(scene.server, "p", 40, schedulerName="default-scheduler")
    scene.annotate("p", **{VOLCANO_POLICY: "single-numa-node"})
    answer = scene.type("why-pending", "p")
    assert "[numa-policy-unheeded] kube-scheduler does not heed volcano.sh/numa-topology-policy" in answer.out


def test_a_pod_that_has_a_node_does_not_wait(scene: Scene) -> None:
    add_pod(scene.server, "p", 3, nodeName="a")
    assert scene.type("why-pending", "p") == (0, "default/p is on a\n", "")
    assert scene.type("why-pending", "p", "--json").json["node"] == "a"


def test_what_the_scheduler_said_is_told_too(scene: Scene) -> None:
    add_pod(scene.server, "big", 40)
    found = scene.server.objects[PODS.path("default", "big")]
    said = {"type": "PodScheduled", "status": "False", "message": f"no luck{ESCAPE}"}
    found["status"] = {"phase": "Pending", "conditions": [said]}
    out = scene.type("why-pending", "big").out
    assert "its scheduler said: no luck" in out
    assert ESCAPE not in out


@pytest.mark.parametrize("command", [["why-pending"], ["explain", "pod"]], ids=" ".join)
@pytest.mark.parametrize("name", ["strange", "ml/strange", f"x{ESCAPE}"])
def test_a_pod_that_is_not_there_is_one_line(scene: Scene, command: list[str], name: str) -> None:
    told = one_line(scene.type(*command, name))
    assert "the cluster has no such pod" in told
    assert ESCAPE not in told


@pytest.mark.parametrize("command", [["why-pending"], ["explain", "pod"]], ids=" ".join)
@pytest.mark.parametrize("name", ["", "/", "ml/", "/p", "pod/ml/p"])
def test_what_is_no_name_of_a_pod_is_one_line(scene: Scene, command: list[str], name: str) -> None:
    assert "is not NAMESPACE/NAME" in one_line(scene.type(*command, name))


# What would its kubelet do?


def test_a_live_pod_is_explained_on_its_own_node_without_itself(scene: Scene) -> None:
    add_pod(scene.server, "p", 7, nodeName="a")
    add_pod(scene.server, "q", 8, nodeName="a")
    answer = scene.type("explain", "pod", "q", "--json")
    assert answer.code == 0
    (found,) = answer.json["pods"]
    assert (found["node"], found["admitted"]) == ("a", True)
    assert found["containers"][0]["cpuset"] == "8-15"


def test_a_waiting_pod_is_explained_on_every_node_or_those_named(scene: Scene) -> None:
    add_pod(scene.server, "p", 12)
    answer = scene.type("explain", "pod", "default/p", "--json")
    assert answer.code == 0
    assert {found["node"]: found["admitted"] for found in answer.json["pods"]} == {"a": False, "b": True}
    strict = scene.type("explain", "pod", "p", "--on", "a")
    assert strict.code == 1
    assert "TopologyAffinityError" in strict.out
    assert "the cluster has no such node" in one_line(scene.type("explain", "pod", "p", "--on", "strange"))


# What all of them say when something is wrong


@pytest.mark.parametrize("command", LIVE, ids=" ".join)
def test_no_kubeconfig_is_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "kubeconfig" in one_line(type_(capsys, *command))
    missing = str(tmp_path / "missing")
    assert missing in one_line(type_(capsys, *command, "--kubeconfig", missing))


@pytest.mark.parametrize("command", LIVE, ids=" ".join)
def test_a_context_that_is_not_there_is_one_line(scene: Scene, command: list[str]) -> None:
    assert "strange" in one_line(scene.type(*command, "--context", "strange"))


def test_a_server_that_is_not_there_is_one_line(scene: Scene, tmp_path: Path) -> None:
    base = scene.server.base
    scene.server.base = "http://127.0.0.1:1"
    scene.kubeconfig = kubeconfig(scene.server, tmp_path)
    scene.server.base = base
    assert "127.0.0.1:1" in one_line(scene.type("nodes"))


def test_a_reader_who_may_not_read_is_told_so_in_one_line(scene: Scene) -> None:
    scene.server.refusals.extend([Refusal(200, body=b'{"gitVersion":"v1"}'), Refusal(403, "Forbidden")])
    assert "403 Forbidden" in one_line(scene.type("nodes"))


def test_what_answers_but_is_no_api_server_is_one_line(scene: Scene) -> None:
    scene.server.refusals.append(Refusal(200, body=b"<html>hello</html>"))
    assert "not a Kubernetes API server" in one_line(scene.type("pods"))


# Commands beside them that need no cluster


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    return lambda *words: type_(capsys, *words)


@pytest.mark.parametrize(
    "command",
    [["nodes"], ["pods"], ["why-pending"], ["explain", "pod"], ["scheduler"], ["extender"], ["ledger"]],
    ids=" ".join,
)
def test_help_tells_what_a_command_is_for(typed: Callable[..., Answer], command: list[str]) -> None:
    answer = typed(*command, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Usage: numaware")


def test_a_scheduler_is_told_in_one_line_what_is_wrong_with_its_options(
    typed: Callable[..., Answer], tmp_path: Path
) -> None:
    assert "is not NAMESPACE/NAME" in one_line(typed("scheduler", "--lease", "nonsense"))
    assert "neither NAME nor NAME=PROFILE" in one_line(typed("scheduler", "--name", "x="))
    missing = str(tmp_path / "missing.yaml")
    assert missing in one_line(typed("scheduler", "--name", f"x={missing}"))
    assert "needs --tls-key" in one_line(typed("scheduler", "--tls-cert", "x.pem"))


@pytest.mark.parametrize("scheduler", ["kube-scheduler", "volcano"])
def test_the_configuration_for_another_scheduler_can_be_pasted(
    typed: Callable[..., Answer], scheduler: str
) -> None:
    answer = typed(
        "extender", "config", "--for", scheduler, "--url", "http://10.0.0.1:9443/", "--fail", "closed"
    )
    assert answer.code == 0
    assert "http://10.0.0.1:9443/" in answer.out
    assert "9443//" not in answer.out


def test_kube_scheduler_cannot_override_a_refusal_whichever_way_it_fails(
    typed: Callable[..., Answer],
) -> None:
    """It binds by itself what an extender refuses that it may ignore."""
    said = {
        fail: yaml.safe_load(typed("extender", "config", *flags).out)["extenders"][0]
        for fail, flags in (("usual", []), ("closed", ["--fail", "closed"]), ("open", ["--fail", "open"]))
    }
    assert said["usual"] == said["closed"]
    assert (said["closed"]["ignorable"], said["closed"]["bindVerb"]) == (False, "bind")
    assert (said["open"]["ignorable"], "bindVerb" in said["open"]) == (True, False)


def test_the_configuration_names_the_kubeconfig_of_kube_scheduler(typed: Callable[..., Answer]) -> None:
    for flags, wanted in (([], "/etc/kubernetes/scheduler.conf"), (["--kubeconfig", "/a: b"], "/a: b")):
        told = yaml.safe_load(typed("extender", "config", *flags).out)
        assert told["clientConnection"] == {"kubeconfig": wanted}


@pytest.mark.parametrize(
    "options",
    [["--url", "ftp://x"], ["--weight", "0"], ["--weight", "101"], ["--fail", "ajar"], ["--for", "x"]],
)
def test_a_configuration_that_would_not_work_is_not_printed(
    typed: Callable[..., Answer], options: list[str]
) -> None:
    one_line(typed("extender", "config", *options))


def test_a_miss_is_replayed_and_told_apart_from_one_that_is_explained(
    typed: Callable[..., Answer], tmp_path: Path
) -> None:
    node, asked = gpu_node(), pod("p", 4)
    right = ledger.predict("n0", asked, node.admit(asked))
    assert right.placement is not None
    elsewhere = ledger.decode('[{"zone":"node-1","amount":{"cpu":"4"},"cpus":"8-11"}]', "x")
    file = tmp_path / "miss.json"

    file.write_bytes(msgspec.json.encode(miss.bundle(node, asked, right, Observation(elsewhere))))
    answer = typed("ledger", "replay", str(file))
    assert answer.code == 1
    assert "observed   placed on NUMA 1 (CPUs 8-11)" in answer.out
    assert "not explained: please report it" in answer.out
    (told,) = typed("ledger", "replay", "--json", str(file)).json["misses"]
    assert (told["file"], told["outcome"], told["explained"]) == (str(file), "wrong_zone", False)

    wrong = replace(right, placement=elsewhere)
    file.write_bytes(msgspec.json.encode(miss.bundle(node, asked, wrong, Observation(right.placement))))
    answer = typed("ledger", "replay", str(file))
    assert answer.code == 0
    assert answer.out.endswith("  explained\n")


def test_files_that_are_no_misses_are_one_line(typed: Callable[..., Answer], tmp_path: Path) -> None:
    junk = tmp_path / "junk.json"
    junk.write_bytes(b"{")
    assert str(junk) in one_line(typed("ledger", "replay", str(junk)))
    assert str(tmp_path / "no") in one_line(typed("ledger", "replay", str(tmp_path / "no")))
    assert "no file was given" in one_line(typed("ledger", "replay"))


# What if


def test_a_pod_that_does_not_exist_can_be_tried_on_a_cluster_that_runs(scene: Scene) -> None:
    """Pods that are there count; a is strict and has its GPUs apart from most of its CPUs."""
    add_pod(scene.server, "p", 5, nodeName="a")
    wanted = ["whatif", "live:", "cpu=10,memory=1Gi", "--json"]
    answer = scene.type(*wanted)
    (workload,) = answer.json["workloads"]
    fits = {node["node"]: node["fits"] for node in workload["nodes"]}
    assert (answer.code, fits, workload["pods"][0]["node"]) == (0, {"a": False, "b": True}, "b")
    page = scene.type("whatif", "live:", "cpu=10,memory=1Gi", "--explain", "a").out
    assert "would be refused by a" in page
    assert "default/p (c) holds 5 CPUs" in page


def test_policies_can_be_tried_on_a_cluster_that_runs(scene: Scene) -> None:
    answer = scene.type("whatif", "live:", "cpu=10,memory=1Gi", "--kubelet-policy", "none", "--json")
    (workload,) = answer.json["workloads"]
    assert {node["node"]: node["fits"] for node in workload["nodes"]} == {"a": True, "b": True}
    strict = scene.type(
        "whatif", "live:", "cpu=10,memory=1Gi", "--kubelet-policy", "single-numa-node", "--json"
    )
    assert (strict.code, strict.json["workloads"][0]["pods"][0]["node"]) == (1, None)


def test_schedulers_can_be_compared_on_the_machines_of_a_cluster_that_runs(scene: Scene) -> None:
    add_pod(scene.server, "p", 5, nodeName="a")
    played = ["simulate", "live:", "lab:5", "--policy", "numaware", "--workers", "1", "--json"]
    (run,) = scene.type(*played).json["runs"]
    assert (run["nodes"], run["podsTotal"]) == (2, 5)


def test_a_cluster_without_nodes_has_no_answer(thread: ServerThread, scene: Scene) -> None:
    thread.server.objects.clear()
    assert "live:: the cluster has no nodes" in one_line(scene.type("whatif", "live:", "cpu=1"))


# Devices that come by DRA


def add_dra(scene: Scene) -> None:
    """A node's two devices, one of which a claim has; and a class by which a resource is such a device."""
    where = "resource.kubernetes.io/numaNode"
    devices = [{"name": f"d{numa}", "attributes": {where: {"int": numa}}} for numa in range(2)]
    spec = {"driver": "d.io", "nodeName": "n0", "pool": {"name": "n0", "generation": 1}, "devices": devices}
    scene.server.put(RESOURCE_SLICES, "s", spec=spec)
    expression = {"cel": {"expression": 'device.driver == "d.io"'}}
    served = {"extendedResourceName": "d.io/gpu", "selectors": [expression]}
    scene.server.put(DEVICE_CLASSES, "gpu", spec=served)
    given = {"request": "r", "driver": "d.io", "pool": "n0", "device": "d1"}
    status = {"allocation": {"devices": {"results": [given]}}}
    scene.server.put(RESOURCE_CLAIMS, "mine", "default", spec={}, status=status)


def test_devices_of_dra_are_listed_where_their_drivers_say_that_they_are(scene: Scene) -> None:
    add_node(scene.server, "n0", gpu_node())
    add_dra(scene)
    answer = scene.type("nodes")
    assert (
        answer.code,
        "n0, by DRA: 1 of 1 d.io free on NUMA 0, 0 of 1 d.io free on NUMA 1" in answer.out,
    ) == (
        0,
        True,
    )
    assert "n0，DRA 设备：NUMA 0 上 d.io 空闲 1 / 1" in scene.type("nodes", "--lang", "zh").out
    rows = {row["name"]: row["dra"] for row in scene.type("nodes", "--json").json["nodes"]}
    assert rows["a"] == []
    assert rows["n0"][1] == {
        "driver": "d.io",
        "device": "d1",
        "numaNode": 1,
        "pcieRoots": [],
        "claims": ["default/mine"],
    }


def test_a_pod_with_a_claim_hears_where_its_devices_are_and_who_would_take_the_rest(scene: Scene) -> None:
    add_node(scene.server, "n0", gpu_node())
    add_dra(scene)
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    add_pod(scene.server, "a", 2, resourceClaims=claims)
    told = scene.type("explain", "pod", "a", "--on", "n0", "--json").json["pods"][0]
    (part,) = told["dra"]
    assert (told["admitted"], part["state"], part["aligned"]) == (True, "allocated", False)
    assert part["text"].startswith(
        "not aligned by the kubelet: served by DRA. gpu has 1 device of d.io on NUMA 1"
    )
    why = scene.type("why-pending", "a")
    assert why.code == 0
    words = " ".join(why.out.split())
    assert "numaware leaves the allocation of claims to kube-scheduler" in words
    assert (
        "gpu: served by DRA, which kube-scheduler allocates and no kubelet aligns; 3 nodes would take"
        in words
    )
    # Nobody would take the rest of this one.
    add_pod(scene.server, "b", 200, resourceClaims=claims)
    assert scene.type("why-pending", "b").code == 1
