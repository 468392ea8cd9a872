"""Files joined: events, pods, configurations, state files and machines beside a log, or instead of one."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any, Literal

import pytest

from numaware.diagnose.finding import Finding
from numaware.diagnose.texts import finding_text, say
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state.alloc_response import one_variable
from numaware.twin.topology.hints import Hint
from support.diagnosed import bundled, diagnosed
from support.kubelet_logs import ERAS, Story, journald, written

AFFINITY = "TopologyAffinityError"
LOCALITY = "Resources cannot be allocated with Topology locality"
NUMACTL = """available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3 4 5 6 7
node 0 size: 16000 MB
node 0 free: 9000 MB
node 1 cpus: 8 9 10 11 12 13 14 15
node 1 size: 16000 MB
node 1 free: 9000 MB
node distances:
node   0   1
  0:  10  20
  1:  20  10
"""
CONFIG = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: single-numa-node
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec:
  containers:
  - name: app
    image: app
    resources:
      requests: {cpu: "10", memory: 1Gi}
      limits: {cpu: "10", memory: 1Gi}
"""


def codes(found: list[Finding]) -> list[str]:
    return [one.code for one in found if one.severity != "info"]


def event(name: str, uid: str, at: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "reason": AFFINITY,
        "message": LOCALITY,
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": name, "uid": uid},
        "source": {"component": "kubelet", "host": "node7"},
        "firstTimestamp": at,
        "count": 1,
        **more,
    }


def listed(*items: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}, indent=2)


def test_an_event_is_told_with_its_node_and_its_line() -> None:
    (one,) = diagnosed(events__json=listed(event("web-0", "u1", "2024-08-15T10:00:00Z")))
    assert (one.code, one.subject.node, one.subject.name) == ("topology-affinity-error", "node7", "web-0")
    assert one.evidence[0].line > 1
    assert "cannot tell which resource" in finding_text(one).cause


def test_events_of_pods_with_one_name_and_other_uids_are_a_loop() -> None:
    events = [event("web-0", f"u{number}", f"2024-08-15T10:00:{number:02}Z") for number in range(5)]
    (loop,) = [one for one in diagnosed(events__json=listed(*events)) if one.code == "admission-loop"]
    assert (loop.facts["count"], loop.facts["seconds"], loop.facts["period"]) == (5, 4, 1)
    assert (loop.facts["controllerKind"], loop.facts["controller"]) == ("statefulset", "web")


def test_pods_of_a_replica_set_are_a_loop_by_their_common_name() -> None:
    events = [
        event(f"api-7d4b9c6f5d-{end}", end, f"2024-08-15T10:00:{number:02}Z")
        for number, end in enumerate(("bcdfg", "hjklm", "npqrs", "tvwxz"))
    ]
    (loop,) = [one for one in diagnosed(events__json=listed(*events)) if one.code == "admission-loop"]
    assert (loop.subject.name, loop.facts["count"], loop.facts["controller"]) == ("api-7d4b9c6f5d", 4, "api")


def test_two_replicas_refused_once_each_are_no_loop() -> None:
    events = [event(f"api-7d4b9c6f5d-{end}", end, "2024-08-15T10:00:00Z") for end in ("bcdfg", "hjklm")]
    assert "admission-loop" not in codes(diagnosed(events__json=listed(*events)))


def test_one_pod_whose_event_is_repeated_is_no_loop() -> None:
    assert "admission-loop" not in codes(
        diagnosed(e=listed(event("web-0", "u1", "2024-08-15T10:00:00Z", count=9)))
    )


def test_a_kubelet_that_restarts_and_refuses_the_same_pod_again_is_no_loop() -> None:
    story = Story(hints={"cpu": [Hint(3, preferred=False)]}, merged=Hint(3, preferred=False), reason=AFFINITY)
    story.message = LOCALITY
    text = "\n".join([*written(ERAS[2], story), *written(ERAS[2], story)])
    assert "admission-loop" not in codes(diagnosed(log=text))


def test_a_failed_pod_tells_its_owner() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "uid": "u1",
            "ownerReferences": [{"kind": "StatefulSet", "name": "web"}],
        },
        "spec": {"nodeName": "node7", "containers": [{"name": "app", "image": "x"}]},
        "status": {"phase": "Failed", "reason": AFFINITY, "message": f"Pod was rejected: {LOCALITY}"},
    }
    (one,) = diagnosed(pod__json=json.dumps(pod, indent=1))
    assert (one.code, one.facts["controller"]) == ("topology-affinity-error", "StatefulSet/web")


def test_pods_that_run_get_no_advice_in_a_listing_but_a_manifest_does() -> None:
    manifest = POD.replace('"10"', '"1500m"')
    assert codes(diagnosed(pod__yaml=manifest)) == ["fractional-cpu-not-pinned"]
    assert codes(diagnosed(pods__yaml=f"{manifest}status: {{phase: Running}}\n")) == []


def test_an_event_and_a_log_of_one_refusal_are_one_finding() -> None:
    story = Story(
        hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
        merged=Hint(None, preferred=False),
        reason=AFFINITY,
        message=LOCALITY,
    )
    found = diagnosed(
        kubelet__log="\n".join(written(ERAS[2], story)),
        events__json=listed(event("web-0", story.uid, "2024-08-15T10:00:00Z")),
    )
    assert codes(found) == ["topology-affinity-error-disjoint-hints"]
    assert {line.file for line in found[0].evidence} == {"kubelet.log", "events.json"}


def test_the_twin_of_the_node_confirms_a_refusal_and_knows_what_helps() -> None:
    (one,) = [
        one
        for one in diagnosed(
            events__json=listed(event("web-0", "u1", "2024-08-15T10:00:00Z")),
            numactl__txt=NUMACTL,
            kubelet__yaml=CONFIG,
            pod__yaml=POD,
        )
        if one.severity == "error"
    ]
    assert one.facts["twin"] == "confirmed"
    assert one.facts["requests"] == {"app": {"cpu": "10", "memory": "1Gi"}}
    assert any("10 CPUs" in say(text) for text in one.facts["why"])
    assert "tried on the twin" in finding_text(one).fix[0]


def test_the_twin_says_where_it_would_have_admitted_the_pod() -> None:
    (one,) = [
        one
        for one in diagnosed(
            events__json=listed(event("web-0", "u1", "2024-08-15T10:00:00Z")),
            numactl__txt=NUMACTL,
            kubelet__yaml=CONFIG,
            pod__yaml=POD.replace('"10"', '"2"'),
        )
        if one.severity == "error"
    ]
    assert (one.facts["twin"], one.facts["twinSays"]) == ("disagrees", "admitted")


def test_state_files_confirm_what_a_log_leaves_open() -> None:
    story = Story(hints={}, merged=Hint(3, preferred=False))
    entry = device_file.DeviceEntry(
        story.uid, "app", "nvidia.com/gpu", {0: ["a"], 1: ["b"]}, one_variable({"a", "b"})
    )
    state = device_file.encode([entry], {"nvidia.com/gpu": ["a", "b", "c"]})
    (alone,) = diagnosed(log="\n".join(written(ERAS[0], story)))
    (both,) = [
        one
        for one in diagnosed(log="\n".join(written(ERAS[0], story)), checkpoint=state)
        if one.severity == "warning"
    ]
    assert (alone.confidence, both.confidence) == ("possible", "certain")
    assert both.facts["devices"] == {"nvidia.com/gpu": {"0": 1, "1": 1}}
    assert "1 nvidia.com/gpu on NUMA node 0" in finding_text(both).cause


def test_a_state_file_of_another_policy_than_the_configuration_is_found_before_the_restart() -> None:
    found = diagnosed(config=CONFIG, cpu_manager_state=cpu_file.encode("none", "", {}))
    assert codes(found) == ["cpu-manager-state-policy-mismatch"]


@pytest.mark.parametrize(("reserved", "wrong"), [("0", False), ("0-1", True)])
def test_reserved_cpus_that_a_pod_holds_are_found_before_the_restart(reserved: str, wrong: bool) -> None:
    state = cpu_file.encode("static", "0,2-15", {"u1": {"app": "1"}})
    found = diagnosed(config=CONFIG.replace('"0"', f'"{reserved}"'), cpu_manager_state=state)
    assert codes(found) == (["cpu-manager-state-reserved-mismatch"] if wrong else [])


def test_a_failed_start_and_its_configuration_are_one_finding_with_the_right_sum() -> None:
    config = (
        CONFIG
        + "memoryManagerPolicy: Static\nkubeReserved: {memory: 1Gi}\nevictionHard: {memory.available: 100Mi}\n"
    )
    log = (
        'E0325 10:34:52.606769 3928153 server.go:294] "Failed to run kubelet" err="failed to run Kubelet: the total amount '
        '\\"0\\" of type \\"memory\\" is not equal to the value \\"1124Mi\\" determined by Node Allocatable feature"\n'
    )
    (one,) = diagnosed(kubelet__log=log, kubelet__yaml=config)
    assert one.code == "memory-manager-reserved-memory-mismatch"
    assert {line.file for line in one.evidence} == {"kubelet.log", "kubelet.yaml"}
    assert "1124Mi" in finding_text(one).title


def test_flags_win_over_the_configuration_file() -> None:
    story = Story(hints={"cpu": [Hint(3, preferred=False)]}, merged=Hint(3, preferred=False))
    flags = (
        'KUBELET_ARGS="--topology-manager-policy=best-effort --cpu-manager-policy=static --reserved-cpus=0"\n'
    )
    found = diagnosed(config=CONFIG, kubelet__env=flags, log="\n".join(written(ERAS[2], story)))
    assert codes(found) == ["unaligned-under-best-effort"]
    assert found[0].facts["policy"] == "best-effort"


def test_each_file_is_what_its_content_says() -> None:
    bundle = bundled(
        a=CONFIG,
        b=POD,
        c=NUMACTL,
        d=cpu_file.encode("static", "0-3", {}),
        e=listed(event("web-0", "u1", "2024-08-15T10:00:00Z")),
        f="--cpu-manager-policy=static --kube-reserved=cpu=1\n",
        g="Architecture:  x86_64\nCPU(s):  4\nNUMA node0 CPU(s):  0-3\n",
        h="a shopping list\n",
        i=b"\x7fELF\0\0\0",
        j="",
        k="  Warning  TopologyAffinityError  10m  kubelet, n1  " + LOCALITY,
        l="apiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\nmetadata: {name: n1}\nzones: []\n",
    )
    assert [kind for _, kind in bundle.files] == [
        "kubelet configuration",
        "manifest",
        "numactl",
        "cpu_manager_state",
        "events",
        "kubelet flags",
        "lscpu",
        "unknown",
        "unknown",
        "unknown",
        "kubectl text",
        "NodeResourceTopology",
    ]


def test_a_description_of_a_pod_is_joined_with_its_events() -> None:
    text = f"""Name:             web-0
Namespace:        shop
Node:             node7/10.0.0.7
Status:           Failed
Reason:           {AFFINITY}
Message:          Pod was rejected: {LOCALITY}
Controlled By:    StatefulSet/web
Events:
  Type     Reason                 Age                From     Message
  ----     ------                 ----               ----     -------
  Warning  {AFFINITY}  3m (x2 over 5m)    kubelet  {LOCALITY}
"""
    (one,) = diagnosed(text=text)
    assert (one.subject.name, one.subject.node, one.facts["controller"]) == (
        "web-0",
        "node7",
        "StatefulSet/web",
    )


def test_tables_of_kubectl_are_read() -> None:
    table = f"""NAMESPACE   LAST SEEN   TYPE      REASON                  OBJECT      MESSAGE
shop        12s         Warning   {AFFINITY}   pod/web-1   {LOCALITY}
shop        12s         Normal    Scheduled               pod/web-1   Successfully assigned shop/web-1 to n1
"""
    pods = f"""NAME    READY   STATUS                  RESTARTS   AGE   IP       NODE
web-2   0/1     {AFFINITY}   0          10s   <none>   node7
web-3   1/1     Running                 0          10s   10.0.0.3   node7
"""
    assert [one.subject.name for one in diagnosed(events=table)] == ["web-1"]
    (one,) = diagnosed(pods=pods)
    assert (one.subject.name, one.subject.node) == ("web-2", "node7")


def test_a_lost_plugin_is_told_unless_it_registers_again() -> None:
    lost = (
        'E0815 10:00:00.410301  102192 client.go:88] "ListAndWatch ended unexpectedly for device plugin" err="rpc error: '
        'code = Unavailable desc = error reading from server: EOF" resource="nvidia.com/gpu"\n'
    )
    back = (
        'I0815 10:00:09.410301  102192 server.go:144] "Got registration request from device plugin with resource" '
        'resourceName="nvidia.com/gpu"\n'
    )
    assert codes(diagnosed(log=lost)) == ["device-plugin-error"]
    assert codes(diagnosed(log=lost + back)) == []


def test_a_sentence_in_prose_is_no_evidence() -> None:
    prose = (
        f'# {LOCALITY}\n\nWe saw "unknown policy" once, and the words configured policy "a" in the manual.\n'
    )
    assert diagnosed(notes=prose) == []


def test_what_is_fine_is_told_in_moderation() -> None:
    lines: list[str] = []
    for number in range(200):
        hints = {"cpu": [Hint(1, preferred=True)]}
        story = Story(
            name=f"job{number}-0",
            uid=f"u{number}",
            hints=hints,
            merged=Hint(1, preferred=True),
            admitted=True,
        )
        lines += written(ERAS[2], story)
    found = diagnosed(log="\n".join(lines))
    assert 0 < len(found) <= 50
    assert codes(found) == []


NRT = """apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: node7}
topologyPolicies: ["SingleNUMANodeContainerLevel"]
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: "8", allocatable: "7", available: "4"}]}
- {name: node-1, type: Node, resources: [{name: cpu, capacity: "8", allocatable: "8", available: "6"}]}
"""


def test_a_node_s_report_says_which_resource_no_numa_node_has_enough_of() -> None:
    events = listed(event("web-0", "u1", "2024-08-15T10:00:00Z"))
    (one,) = diagnosed(events__json=events, nrt__yaml=NRT, pod__yaml=POD)
    assert (one.variant, one.confidence) == ("reported", "likely")
    assert (one.facts["asked"], one.facts["free"]) == ("10", {"0": "4", "1": "6"})
    assert "4 on NUMA node 0 and 6 on NUMA node 1" in finding_text(one).cause


def test_a_report_of_another_node_says_nothing() -> None:
    events = listed(event("web-0", "u1", "2024-08-15T10:00:00Z"))
    (one,) = diagnosed(events__json=events, nrt__yaml=NRT.replace("node7", "node8"), pod__yaml=POD)
    assert one.variant == "event-only"


@pytest.mark.parametrize(
    "report",
    [
        NRT,
        NRT.replace('topologyPolicies: ["SingleNUMANodeContainerLevel"]', "attributes:\n").replace(
            "zones:", "- {name: topologyManagerPolicy, value: single-numa-node}\nzones:"
        ),
        (
            "apiVersion: nodeinfo.volcano.sh/v1alpha1\nkind: Numatopology\nmetadata: {name: node7}\nspec:\n"
            "  policies: {CPUManagerPolicy: static, TopologyManagerPolicy: single-numa-node}\n"
            '  cpuDetail: {"0": {numa: 0, socket: 0, core: 0}, "1": {numa: 1, socket: 1, core: 1}}\n'
        ),
    ],
    ids=["policies", "attributes", "volcano"],
)
def test_a_topology_object_tells_the_policy_a_log_leaves_out(report: str) -> None:
    story = Story(hints={"cpu": [Hint(3, preferred=True)]}, merged=Hint(None, preferred=False))
    text = "\n".join(journald(line) for line in written(ERAS[2], story))
    (one,) = diagnosed(log=text, report__yaml=report)
    assert (one.code, one.facts["policy"]) == ("topology-affinity-error", "single-numa-node")


def test_a_gpu_plugin_without_topology_is_told_and_other_devices_are_not() -> None:
    line = (
        'I0815 10:00:00.410301  102192 topology_hints.go:49] "Resource does not have a topology preference" '
        'resourceName="{}" pod="shop/web-0" containerName="app" request=1\n'
    )
    assert codes(diagnosed(log=line.format("nvidia.com/gpu"))) == ["devices-without-topology"]
    assert codes(diagnosed(log=line.format("smarter-devices/fuse"))) == []


def test_an_admission_tells_how_long_it_took() -> None:
    story = Story(hints={"cpu": [Hint(1, preferred=True)]}, merged=Hint(1, preferred=True), admitted=True)
    first, *others = written(ERAS[2], story)
    later = [line.replace(".410301", ".912801") for line in others]
    (one,) = diagnosed(log="\n".join([first, *later]))
    assert one.facts["milliseconds"] == 502.5


def packed(mode: Literal["w", "w:gz", "w:xz"], **files: str) -> bytes:
    """An archive of these files, below a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"must-gather/node7/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return stream.getvalue()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_an_archive_is_opened_and_its_files_are_joined(mode: Literal["w", "w:gz", "w:xz"]) -> None:
    data = packed(mode, config=CONFIG, cpu_manager_state=cpu_file.encode("none", "", {}))
    bundle = bundled(sent=data)
    assert [kind for _, kind in bundle.files] == ["kubelet configuration", "cpu_manager_state", "archive"]
    assert codes(diagnosed(sent=data)) == ["cpu-manager-state-policy-mismatch"]


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_an_archive_that_was_cut_off_tells_its_beginning(kept: float) -> None:
    data = packed("w", config=CONFIG, filler="x" * 60_000)
    bundle = bundled(sent=data[: int(len(data) * kept)])
    assert ("sent/must-gather/node7/config", "kubelet configuration") in bundle.files
