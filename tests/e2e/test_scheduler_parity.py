"""Every default plugin of kube-scheduler beside numaware, on one API server: the same nodes allowed, the same ones preferred.

The table in docs/scheduler.md names the cases here. A pod is tried on every node by itself, so that the whole set of nodes
is compared and not the one that was chosen.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from e2e.api import MERGE, Api, Object
from e2e.claims import CLAIMS, CLASSES, VOLUMES, claim, make, mounts, remove, storage_class, volume
from e2e.control_plane import ControlPlane
from e2e.program import eventually
from e2e.trouble import NODES, PODS, Scene, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

_SECONDS = 60.0
_HOST, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_NAMES = ("n0", "n1", "n2", "n3")
_SCHEDULERS = ("numaware", "default-scheduler")
_GATES = (
    "TaintTolerationComparisonOperators",
    "NodeDeclaredFeatures",
    "RestartAllContainersOnContainerExits",
    "GenericWorkload",
)
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_MIB = 1 << 20


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(folder, scheduler={}, controllers=True, gates=_GATES) as started:
        yield started


@pytest.fixture(scope="module")
def both(plane: ControlPlane) -> Iterator[Scene]:
    """Four nodes in two zones, and both schedulers."""
    specs = [
        NodeSpec(
            name,
            machine(2, 8),
            config("restricted"),
            labels=((_HOST, name), ("size", str(number)), (_ZONE, f"z{number // 2}")),
        )
        for number, name in enumerate(_NAMES)
    ]
    with scene_on(plane, specs) as scene:
        scene.start().wait_ready()
        yield scene


@pytest.fixture(autouse=True)
def _tidy(both: Scene) -> Iterator[None]:
    yield
    both.api.delete(PODS, {"gracePeriodSeconds": 0})
    eventually(lambda: not both.api.list_all(PODS), "all pods are gone", _SECONDS)


# Pods and their fates


def shared(name: str, cpu: str = "100m", **spec: object) -> Object:
    """A pod that owns nothing of a node."""
    made = pod(name, "1", labels={"app": "web"})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "100Mi"}}
    made["spec"].update(spec)
    return made


def at(made: Object, node: str) -> Object:
    """The same pod, for one node only."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required: Object = made["spec"].get("affinity", {}).get("nodeAffinity", {})
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = required.get(rule, {}).get("nodeSelectorTerms", [{}])
    pinned = {rule: {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}}
    affinity = {**made["spec"].get("affinity", {}), "nodeAffinity": {**required, **pinned}}
    return {**made, "spec": {**made["spec"], "affinity": affinity}}


def of(made: Object, scheduler: str, name: str) -> Object:
    return {
        "metadata": {**made["metadata"], "name": name},
        "spec": {**made["spec"], "schedulerName": scheduler},
    }


def decided(api: Api, name: str) -> str:
    """The node of a pod, or what its scheduler says; empty until then."""
    found = api.get(f"{PODS}/{name}")
    return str(found["spec"].get("nodeName") or said_of(found))


def fate(scene: Scene, made: Object, scheduler: str, *, stays: bool = False) -> str:
    """Where one scheduler sends such a pod, or why not; unless it stays, it is gone afterwards."""
    name = f"{made['metadata']['name']}-{scheduler}"
    scene.api.create(PODS, of(made, scheduler, name))
    found = eventually(lambda: decided(scene.api, name), f"{name} is decided on", _SECONDS)
    if not stays:
        gone(scene, name)
    return found


def has_node(api: Api, name: str) -> bool:
    return decided(api, name) in _NAMES


def gone(scene: Scene, name: str) -> None:
    scene.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    eventually(lambda: scene.api.status_of("GET", f"{PODS}/{name}") == 404, f"{name} is gone", _SECONDS)


def put(scene: Scene, made: Object, node: str) -> None:
    """A pod that somebody else has bound, and that both schedulers have seen."""
    name = made["metadata"]["name"]
    scene.api.create(PODS, of(made, "somebody", name))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    scene.api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


def allowed(scene: Scene, made: Object, why: str) -> list[str]:
    """The nodes that both schedulers let the pod on; on all others both say why not in these words."""
    answers: dict[str, list[str]] = {}
    for scheduler in _SCHEDULERS:
        fates = {node: fate(scene, at(made, node), scheduler) for node in _NAMES}
        answers[scheduler] = [node for node, found in fates.items() if found == node]
        assert all(why in found for node, found in fates.items() if found != node), (scheduler, fates)
    assert answers[_SCHEDULERS[0]] == answers[_SCHEDULERS[1]], answers
    return answers[_SCHEDULERS[0]]


def preferred(scene: Scene, made: Object) -> str:
    """The node that both schedulers send the pod to."""
    first, second = (fate(scene, made, scheduler) for scheduler in _SCHEDULERS)
    assert first == second
    return first


@contextmanager
def node_with(scene: Scene, name: str, **spec: object) -> Iterator[None]:
    scene.api.patch(f"{NODES}/{name}", {"spec": spec}, MERGE)
    try:
        yield
    finally:
        scene.api.patch(f"{NODES}/{name}", {"spec": dict.fromkeys(spec)}, MERGE)


@contextmanager
def node_status(scene: Scene, name: str, **status: object) -> Iterator[None]:
    scene.api.patch(f"{NODES}/{name}/status", {"status": status}, MERGE)
    try:
        yield
    finally:
        scene.api.patch(f"{NODES}/{name}/status", {"status": dict.fromkeys(status)}, MERGE)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


# Filters


def test_node_unschedulable(both: Scene) -> None:
    with node_with(both, "n0", unschedulable=True):
        assert allowed(both, shared("plain"), "node(s) were unschedulable") == ["n1", "n2", "n3"]


def test_node_name(both: Scene) -> None:
    """Whoever names a node has it, whatever his scheduler thinks of it, and counts there for both."""
    with node_with(both, "n3", taints=[taint("gpu", "yes")]):
        for scheduler in _SCHEDULERS:
            both.api.create(PODS, of(shared("x", "6", nodeName="n3"), scheduler, f"named-{scheduler}"))
    eventually(lambda: len(both.fakes.running()) == len(_SCHEDULERS), "both run", _SECONDS)
    assert allowed(both, shared("large", "6"), "Insufficient cpu") == ["n0", "n1", "n2"]


def test_taint_toleration(both: Scene) -> None:
    compares = {"key": "price", "operator": "Gt", "value": "40", "effect": "NoSchedule"}
    with (
        node_with(both, "n1", taints=[taint("gpu", "yes")]),
        node_with(both, "n2", taints=[taint("price", "50")]),
    ):
        assert allowed(both, shared("plain"), "untolerated taint") == ["n0", "n3"]
        tolerant = shared("tolerant", tolerations=[compares])
        assert allowed(both, tolerant, "untolerated taint") == ["n0", "n2", "n3"]
        less = {**compares, "operator": "Lt"}
        assert allowed(both, shared("less", tolerations=[less]), "untolerated taint") == ["n0", "n3"]


def test_node_affinity(both: Scene) -> None:
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["1"]}]}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    words = "node(s) didn't match Pod's node affinity/selector"
    assert allowed(both, shared("large", affinity={"nodeAffinity": rule}), words) == ["n2", "n3"]


def test_node_ports(both: Scene) -> None:
    taken = shared("port")
    taken["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    put(both, {**taken, "metadata": {"name": "holder"}}, "n0")
    words = "node(s) didn't have free ports for the requested pod ports"
    assert allowed(both, taken, words) == ["n1", "n2", "n3"]


def test_node_resources_fit(both: Scene) -> None:
    put(both, shared("crowd", "12"), "n3")
    assert allowed(both, shared("large", "6"), "Insufficient cpu") == ["n0", "n1", "n2"]


def test_pod_topology_spread(both: Scene) -> None:
    put(both, shared("there"), "n0")
    rule = {
        "maxSkew": 1,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "nodeAffinityPolicy": "Ignore",
    }
    words = "node(s) didn't match pod topology spread constraints"
    assert allowed(both, shared("even", topologySpreadConstraints=[rule]), words) == ["n2", "n3"]
    more = {**rule, "minDomains": 3, "labelSelector": {}, "matchLabelKeys": ["app"]}
    assert allowed(both, shared("three", topologySpreadConstraints=[more]), words) == ["n2", "n3"]


def test_inter_pod_affinity(both: Scene) -> None:
    put(both, shared("there"), "n0")
    term = {"topologyKey": _ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near = shared("near", affinity={"podAffinity": rule})
    assert allowed(both, near, "node(s) didn't match pod affinity rules") == ["n0", "n1"]
    apart = shared("apart", affinity={"podAntiAffinity": rule})
    assert allowed(both, apart, "node(s) didn't match pod anti-affinity rules") == ["n2", "n3"]
    other = {**term, "mismatchLabelKeys": ["app"]}
    same = {"requiredDuringSchedulingIgnoredDuringExecution": [other]}
    assert allowed(both, shared("other", affinity={"podAntiAffinity": same}), "") == [*_NAMES]


def test_node_declared_features(both: Scene) -> None:
    restarting = shared("restarting", restartPolicy="Never")
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    restarting["spec"]["containers"][0].update(restartPolicy="Never", restartPolicyRules=[rule])
    with node_status(both, "n2", declaredFeatures=["RestartAllContainersOnContainerExits"]):
        # v1.35 has other words for it than v1.37, which are used here.
        assert allowed(both, restarting, "features") == ["n2"]


# Volumes


def test_volume_restrictions(both: Scene) -> None:
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "disk"}}
    put(both, shared("holder", volumes=[disk]), "n1")
    assert allowed(both, shared("again", volumes=[disk]), "node(s) had no available disk") == [
        "n0",
        "n2",
        "n3",
    ]
    only = ["ReadWriteOncePod"]
    reference = {"namespace": "default", "name": "alone"}
    make(both.api, VOLUMES, volume("alone", claimRef=reference, accessModes=only))
    make(both.api, CLAIMS, claim("alone", volumeName="alone", accessModes=only))
    eventually(partial(is_bound, both.api, "alone"), "the claim is bound", _SECONDS)
    put(both, mounts(shared("first"), "alone"), "n1")
    words = "ReadWriteOncePod access mode already in-use by another pod"
    assert allowed(both, mounts(shared("second"), "alone"), words) == []


def is_bound(api: Api, name: str) -> bool:
    return bool(api.get(f"{CLAIMS}/{name}")["status"].get("phase") == "Bound")


def stored(scene: Scene, name: str, **fields: object) -> Object:
    """A pod with a claim that is bound to a volume with these fields."""
    make(scene.api, VOLUMES, volume(name, claimRef={"namespace": "default", "name": name}, **fields))  # type: ignore[arg-type] # its own
    make(scene.api, CLAIMS, claim(name, volumeName=name))
    eventually(partial(is_bound, scene.api, name), "the claim is bound", _SECONDS)
    return mounts(shared(name), name)


def test_node_volume_limits(both: Scene) -> None:
    drivers = [{"name": "csi.example.com", "nodeID": "x", "allocatable": {"count": 0}}]
    make(both.api, _CSI_NODES, {"metadata": {"name": "n0"}, "spec": {"drivers": drivers}})
    full = stored(both, "full", csi={"driver": "csi.example.com", "volumeHandle": "h"})
    assert allowed(both, full, "node(s) exceed max volume count") == ["n1", "n2", "n3"]
    remove(both.api, f"{_CSI_NODES}/n0")


def test_volume_binding_of_bound_claims(both: Scene) -> None:
    words = "node(s) didn't match PersistentVolume's node affinity"
    assert allowed(both, stored(both, "local", host="n1"), words) == ["n1"]


def test_volume_zone(both: Scene) -> None:
    zoned = stored(both, "zoned", labels={_ZONE: "z1"})
    assert allowed(both, zoned, "node(s) had no available volume zone") == ["n2", "n3"]


def test_volume_binding_tells_what_no_node_can_help(both: Scene) -> None:
    make(both.api, CLAIMS, claim("unbound"))
    for name, words in (
        ("nowhere", 'persistentvolumeclaim "nowhere" not found'),
        ("unbound", "pod has unbound immediate PersistentVolumeClaims"),
    ):
        for scheduler in _SCHEDULERS:
            found = fate(both, mounts(shared(name), name), scheduler)
            assert f"0/4 nodes are available: {words}" in found, scheduler


def test_volume_binding_waits_for_the_first_consumer(both: Scene) -> None:
    """A volume that is there: bound by the real controller once the scheduler has promised it."""
    make(both.api, CLASSES, storage_class("late", "kubernetes.io/no-provisioner"))
    for scheduler in _SCHEDULERS:
        name = f"static-{scheduler}"
        make(both.api, VOLUMES, volume(name, "late", host="n2"))
        make(both.api, CLAIMS, claim(name, "late"))
        assert fate(both, mounts(shared("static"), name), scheduler) == "n2"
        assert both.api.get(f"{CLAIMS}/{name}")["status"]["phase"] == "Bound"
        assert both.api.get(f"{VOLUMES}/{name}")["spec"]["claimRef"]["name"] == name


@contextmanager
def provisioner(scene: Scene) -> Iterator[None]:
    """Makes a volume for every claim that a scheduler has chosen a node for."""
    stopping, api = threading.Event(), scene.plane.api(url=scene.plane.url)

    def provision() -> None:
        made: set[str] = set()
        while not stopping.wait(0.1):
            for one in api.list_all(CLAIMS):
                name, annotations = one["metadata"]["name"], one["metadata"].get("annotations", {})
                node = annotations.get("volume.kubernetes.io/selected-node")
                if node and name not in made and one["spec"]["storageClassName"] == "made":
                    made.add(name)
                    reference = {"namespace": "default", "name": name, "uid": one["metadata"]["uid"]}
                    make(api, VOLUMES, volume(f"pv-{name}", "made", host=node, claimRef=reference))

    thread = threading.Thread(target=provision)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def test_volumes_are_provisioned_where_their_class_allows_it(both: Scene) -> None:
    """Claims of users, and those that are made for a pod alone."""
    term = {"matchLabelExpressions": [{"key": _ZONE, "values": ["z1"]}]}
    make(both.api, CLASSES, storage_class("made", "example.com/made", allowedTopologies=[term]))
    template = {"spec": claim("x", "made")["spec"]}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    with provisioner(both):
        for scheduler in _SCHEDULERS:
            make(both.api, CLAIMS, claim(f"made-{scheduler}", "made"))
            claimed = mounts(shared("dynamic"), f"made-{scheduler}")
            assert fate(both, claimed, scheduler) in ("n2", "n3")
            assert both.api.get(f"{CLAIMS}/made-{scheduler}")["status"]["phase"] == "Bound"
            # Its claim is made only when the pod is there: at first it waits for that.
            name = f"scratchy-{scheduler}"
            both.api.create(PODS, of(shared("x", volumes=[scratch]), scheduler, name))
            eventually(partial(has_node, both.api, name), "it has a node", _SECONDS)
            assert decided(both.api, name) in ("n2", "n3")


# What is left to kube-scheduler, or waits for somebody


def test_scheduling_gates(both: Scene) -> None:
    for scheduler in _SCHEDULERS:
        name = f"gated-{scheduler}"
        both.api.create(PODS, of(shared("gated", schedulingGates=[{"name": "wait"}]), scheduler, name))
        assert fate(both, shared("behind"), scheduler) in _NAMES
        assert not both.api.get(f"{PODS}/{name}")["spec"].get("nodeName")
        both.api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": []}}, MERGE)
        eventually(partial(has_node, both.api, name), "it has a node", _SECONDS)


def test_priority_sort(both: Scene) -> None:
    """Two pods wait for one port; when it is free the one of higher priority has it, though it came later."""
    make(both.api, _PRIORITIES, {"metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never"})
    wants = shared("x", nodeSelector={_HOST: "n3"})
    wants["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 9090}]
    urgent = {**wants, "spec": {**wants["spec"], "priorityClassName": "urgent"}}
    for scheduler in _SCHEDULERS:
        put(both, {**wants, "metadata": {"name": "holder"}}, "n3")
        for name, made in (("low", wants), ("high", urgent)):
            both.api.create(PODS, of(made, scheduler, f"{name}-{scheduler}"))
            eventually(partial(decided, both.api, f"{name}-{scheduler}"), f"{name} is decided on", _SECONDS)
        # kube-scheduler lets a pod that was refused rest for a second.
        time.sleep(2.5)
        gone(both, "holder")
        eventually(partial(has_node, both.api, f"high-{scheduler}"), "the urgent one has it", _SECONDS)
        assert not has_node(both.api, f"low-{scheduler}")
        for name in ("low", "high"):
            gone(both, f"{name}-{scheduler}")


def test_dynamic_resources_and_gangs_are_left_to_kube_scheduler(both: Scene) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    found = fate(both, shared("device", resourceClaims=claims), "numaware")
    assert "numaware leaves the allocation of claims to kube-scheduler" in found
    group = {"name": "training", "podGroup": "workers"}
    assert "the pod belongs to the group training" in fate(
        both, shared("gang", workloadRef=group), "numaware"
    )


def test_nobody_is_preempted(both: Scene) -> None:
    for node in _NAMES:
        put(both, shared(f"crowd-{node}", "14"), node)
    urgent = shared("urgent", "6", priorityClassName="system-node-critical")
    assert "Insufficient cpu" in fate(both, urgent, "numaware")
    assert len(both.api.list_all(PODS)) == len(_NAMES)


# Scores


def test_score_of_taint_toleration(both: Scene) -> None:
    soft = taint("busy", "", "PreferNoSchedule")
    with (
        node_with(both, "n0", taints=[soft]),
        node_with(both, "n1", taints=[soft]),
        node_with(both, "n3", taints=[soft]),
    ):
        assert preferred(both, shared("any")) == "n2"


def test_score_of_node_affinity(both: Scene) -> None:
    weighted = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": "size", "operator": "In", "values": [size]}]},
        }
        for weight, size in ((10, "1"), (60, "3"))
    ]
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    assert preferred(both, shared("any", affinity={"nodeAffinity": rule})) == "n3"


def test_score_of_inter_pod_affinity(both: Scene) -> None:
    put(both, shared("there"), "n1")
    term = {"topologyKey": _HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]}
    assert preferred(both, shared("near", affinity={"podAffinity": rule})) == "n1"


def test_score_of_image_locality(both: Scene) -> None:
    images = [{"names": ["example.com/none:latest"], "sizeBytes": 900 * _MIB}]
    with node_status(both, "n2", images=images), node_status(both, "n3", images=[]):
        assert preferred(both, shared("any")) == "n2"


def deployed(scene: Scene, name: str, scheduler: str, replicas: int, made: Object) -> Counter[str]:
    """A real Deployment: how many of its replicas are where; it is gone afterwards."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {**made["spec"], "schedulerName": scheduler}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    scene.api.create(_DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})

    def placed() -> Counter[str] | None:
        pods = scene.api.list_all(PODS, labelSelector=f"app={name}")
        nodes = Counter(one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName"))
        return nodes if nodes.total() == replicas else None

    found = eventually(placed, f"all replicas of {name} have a node", _SECONDS)
    scene.api.delete(f"{_DEPLOYMENTS}/{name}", {"propagationPolicy": "Background"})
    scene.api.delete(PODS, {"gracePeriodSeconds": 0})
    eventually(lambda: not scene.api.list_all(PODS), "they are gone", _SECONDS)
    return found


Prepare = Callable[[Scene], None]


def crowded(scene: Scene) -> None:
    """Half of one node is in use, and all of the memory of another."""
    put(scene, shared("crowd", "8"), "n0")
    hungry = shared("hungry")
    hungry["spec"]["containers"][0]["resources"] = {"requests": {"memory": "12Gi"}}
    put(scene, hungry, "n1")


@pytest.mark.parametrize(
    ("prepare", "spec"),
    [
        (lambda _: None, {}),
        (
            lambda _: None,
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": _ZONE,
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchLabels": {"app": "even"}},
                    }
                ]
            },
        ),
        (crowded, {}),
    ],
    ids=["default constraints", "ScheduleAnyway", "least and balanced allocation"],
)
def test_replicas_are_distributed_as_by_kube_scheduler(both: Scene, prepare: Prepare, spec: Object) -> None:
    """Nine replicas on four nodes: up to which of equal nodes has one more."""
    found = []
    for scheduler in _SCHEDULERS:
        prepare(both)
        nodes = deployed(both, "even", scheduler, 9, shared("x", "250m", **spec))
        zones = Counter[str]()
        for node, number in nodes.items():
            zones[f"z{_NAMES.index(node) // 2}"] += number
        found.append((sorted(nodes.values()), sorted(zones.values())))
        if prepare is crowded:
            assert nodes["n0"] <= nodes["n2"]
    assert found[0] == found[1]
