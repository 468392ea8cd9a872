"""Each agent writes of its own node only: the admission policy of deploy/rbac on a real API server, with real tokens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.api import Api, ApiError, Object
from e2e.control_plane import ROOT, ControlPlane
from e2e.program import eventually

pytestmark = pytest.mark.e2e

NRT = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NUMATOPOLOGY = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
TRAFFIC = "/apis/numaware.io/v1alpha1/nodetraffics"
OENUMAS = "/apis/resource.sop.huawei.com/v1alpha1/namespaces/tcs/oenumas"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
OBSERVED = "numaware.io/placement-observed"
KAI = "kai.scheduler/numa-placement-observed"
OURS = {"metadata": {"annotations": {OBSERVED: "x", KAI: "x"}}}


class Cluster:
    """Two nodes with a pod each, a pod without a node, and who may write."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        admin = plane.api()
        for node in ("n1", "n2"):
            admin.create("/api/v1/nodes", {"metadata": {"name": node}})
            admin.create(PODS, body(f"on-{node}", node))
        admin.create(PODS, body("waiting", ""))
        admin.create("/api/v1/namespaces/numaware/pods", body("agent-n2", "n2", "numaware-agent"))
        # The token of a systemd unit, the one that a DaemonSet's pod has, and one that names no node.
        self.by_node = plane.api(plane.agent_on("n1"))
        self.by_pod = plane.api(plane.agent_on("n2", "agent-n2"))
        self.unbound = plane.api("numaware-agent")
        # Policies count a moment after they were made.
        eventually(lambda: status(self.unbound, "/on-n1", OURS) == 403, "the policy counts")


def body(name: str, node: str, account: str = "") -> Object:
    spec = {"containers": [{"name": "app", "image": "none"}]}
    labels = {"app": "x"}
    annotations = {"theirs": "kept"}
    extra = {"nodeName": node} if node else {}
    who = {"serviceAccountName": account} if account else {}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {**spec, **extra, **who},
    }


def status(api: Api, pod: str, patch: Object) -> int:
    try:
        api.patch(f"{PODS}{pod}", patch)
    except ApiError as error:
        return error.status
    return 200


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Cluster:
    plane.kubectl("apply", "-f", ROOT / "deploy/agent/configz.yaml")
    return Cluster(plane)


def topology(kind: str, version: str, name: str) -> Object:
    more: Object = {"zones": []} if kind == "NodeResourceTopology" else {"spec": {}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def apply(api: Api, path: str, node: str) -> None:
    if path == NRT:
        api.apply(f"{NRT}/{node}", topology("NodeResourceTopology", "topology.node.k8s.io/v1alpha2", node))
    else:
        api.apply(f"{path}/{node}", topology("Numatopology", "nodeinfo.volcano.sh/v1alpha1", node))


def test_an_agent_writes_on_pods_of_its_node_and_on_no_others(cluster: Cluster) -> None:
    for api, own, other in ((cluster.by_node, "n1", "n2"), (cluster.by_pod, "n2", "n1")):
        assert status(api, f"/on-{own}", OURS) == 200
        with pytest.raises(ApiError, match=f"403.*agent of node {own} may write only on pods of that node"):
            api.patch(f"{PODS}/on-{other}", OURS)
        assert status(api, "/waiting", OURS) == 403


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"annotations": {"mine": "new"}}},
        {"metadata": {"annotations": {"theirs": "other"}}},
        {"metadata": {"annotations": {"theirs": None}}},
        {"metadata": {"labels": {"app": "y"}}},
        {"metadata": {"labels": None}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"containers": [{"name": "app", "image": "evil"}]}},
    ],
    ids=str,
)
def test_of_a_pod_of_its_node_it_changes_only_where_it_lies(cluster: Cluster, patch: Object) -> None:
    with pytest.raises(ApiError, match=r"403.*nothing of a pod but the annotations"):
        cluster.by_node.patch(f"{PODS}/on-n1", patch)
    admin = cluster.plane.api().get(f"{PODS}/on-n1")
    assert admin["metadata"]["annotations"]["theirs"] == "kept"


@pytest.mark.parametrize("path", [NRT, NUMATOPOLOGY])
def test_an_agent_publishes_its_own_node_and_no_other(cluster: Cluster, path: str) -> None:
    for api, own, other in ((cluster.by_node, "n1", "n2"), (cluster.by_pod, "n2", "n1")):
        with pytest.raises(ApiError, match=f"403.*agent of node {own} may not write of {other}"):
            apply(api, path, other)
        # To make it, and to change it.
        apply(api, path, own)
        apply(api, path, own)
    # Now that it is there.
    with pytest.raises(ApiError, match=r"403.*may not write of n2"):
        apply(cluster.by_node, path, "n2")


def traffic(node: str) -> Object:
    amounts = dict.fromkeys(("at", "total", "across", "planned", "talking", "silent"), 0)
    lists: Object = {"numa": [], "between": [], "pods": [], "edges": [], "moves": []}
    told = {"node": node, "mode": "observe", "moving": False, **amounts, **lists}
    return {
        "apiVersion": "numaware.io/v1alpha1",
        "kind": "NodeTraffic",
        "metadata": {"name": node},
        "report": told,
    }


def test_an_agent_tells_of_talk_on_its_own_node_and_on_no_other(cluster: Cluster) -> None:
    cluster.by_node.apply(f"{TRAFFIC}/n1", traffic("n1"))
    cluster.by_pod.apply(f"{TRAFFIC}/n2", traffic("n2"))
    for node in ("n2", "n3"):
        with pytest.raises(ApiError, match=f"403.*agent of node n1 may not write of {node}"):
            cluster.by_node.apply(f"{TRAFFIC}/{node}", traffic(node))


def entry(node: str, cpus: str = "0,1") -> Object:
    return {"name": node, "numa": [{"numaNum": 0, "cpuset": cpus, "memset": "0"}]}


def podafi(*entries: Object) -> Object:
    return {
        "apiVersion": "resource.sop.huawei.com/v1alpha1",
        "kind": "Oenuma",
        "metadata": {"name": "podafi"},
        "spec": {"name": "podafi", "updateenable": "enable", "node": [*entries]},
    }


def test_of_the_object_that_all_nodes_share_an_agent_writes_its_own_entry_only(cluster: Cluster) -> None:
    admin, path = cluster.plane.api(), f"{OENUMAS}/podafi"
    if admin.status_of("GET", "/api/v1/namespaces/tcs") == 404:
        admin.create("/api/v1/namespaces", {"metadata": {"name": "tcs"}})
    refused = r"403.*agent of node n1 may write only the entry of that node"
    with pytest.raises(ApiError, match=refused):
        cluster.by_node.create(OENUMAS, podafi(entry("n1"), entry("n2")))
    cluster.by_node.create(OENUMAS, podafi(entry("n1")))

    def edit(api: Api, op: str, at: str, value: object) -> None:
        api.patch(path, [{"op": op, "path": at, "value": value}], "application/json-patch+json")

    edit(cluster.by_pod, "add", "/spec/node/-", entry("n2"))
    edit(cluster.by_node, "replace", "/spec/node/0", entry("n1", "0"))
    for op, at, value in (
        ("replace", "/spec/node/1", entry("n2", "9")),
        ("replace", "/spec/node/1", entry("n1")),
        ("add", "/spec/node/-", entry("n3")),
        ("replace", "/spec/node", []),
        ("replace", "/spec/updateenable", "disable"),
        ("add", "/spec/replicas", 7),
        ("add", "/metadata/finalizers", ["example.com/never"]),
        ("add", "/metadata/annotations", {"a": "b"}),
    ):
        with pytest.raises(ApiError, match=refused):
            edit(cluster.by_node, op, at, value)
    assert admin.get(path)["spec"]["node"] == [entry("n1", "0"), entry("n2")]
    # Somebody else may.
    edit(admin, "replace", "/spec/updateenable", "disable")
    admin.delete(path)


def test_an_agent_tells_events_in_its_own_name(cluster: Cluster) -> None:
    def event(controller: str, instance: str) -> Object:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "e-"},
            "eventTime": "2026-01-31T23:59:59.000001Z",
            "reportingController": controller,
            "reportingInstance": instance,
            "type": "Normal",
            "reason": "Told",
            "action": "Tell",
            "note": "a word",
            "regarding": {"kind": "Pod", "name": "on-n1", "namespace": "default"},
        }

    cluster.by_node.create(EVENTS, event("numaware.io/agent", "n1"))
    for controller, instance in (("numaware.io/agent", "n2"), ("kubelet", "n1")):
        with pytest.raises(ApiError, match=r"403.*tell of that node only"):
            cluster.by_node.create(EVENTS, event(controller, instance))


def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster) -> None:
    writes: list[Callable[[], object]] = [
        lambda: cluster.unbound.patch(f"{PODS}/on-n1", OURS),
        lambda: apply(cluster.unbound, NRT, "n1"),
        lambda: apply(cluster.unbound, NUMATOPOLOGY, "n1"),
        lambda: cluster.unbound.apply(f"{TRAFFIC}/n1", traffic("n1")),
    ]
    for write in writes:
        with pytest.raises(ApiError, match=r"403.*token names no node"):
            write()


def test_it_asks_its_own_kubelet_for_configz_and_for_nothing_else(cluster: Cluster) -> None:
    def answer(api: Api, path: str) -> str:
        with pytest.raises(ApiError) as refusal:
            api.get(path)
        return str(refusal.value)

    # No kubelet listens here: what is let through fails on the way there.
    assert "403" not in answer(cluster.by_node, "/api/v1/nodes/n1/proxy/configz")
    assert "may not write of n2" in answer(cluster.by_node, "/api/v1/nodes/n2/proxy/configz")
    for path in ("pods", "exec/default/on-n1/app", "configz/../exec", "logs", ""):
        assert "403" in answer(cluster.by_node, f"/api/v1/nodes/n1/proxy/{path}")


def test_others_write_as_before(cluster: Cluster) -> None:
    cluster.plane.api().patch(f"{PODS}/on-n2", {"metadata": {"labels": {"app": "y"}}})
    apply(cluster.plane.api(), NRT, "n2")
