"""Least privilege: our programs do all their work with the shipped rules, and without one verb some of it is not done.

That something is not done is looked at where it would be seen: a pod without a node, without a condition or without an event,
a lease that nobody takes. Only a watch is not missed for long: then the server is asked for everything again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from e2e.api import Object
from e2e.claims import CLAIMS, CLASSES, VOLUMES, claim, make, mounts, storage_class, volume
from e2e.control_plane import ControlPlane
from e2e.ours import Daemon, numaware
from e2e.program import eventually
from e2e.proxy import is_bind
from e2e.rights import Right, rights, without
from e2e.trouble import EVENTS, LEASE, PODS, Scene, notes, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from support.twin_nodes import config, machine

pytestmark = pytest.mark.e2e

_SECONDS = 60.0
# Kinds that are read by one and the same lines, of which the first is tried without each of its verbs: what keeps replicas
# apart, and where volumes can be had.
_REPLICAS = ("services", "replicationcontrollers", "replicasets", "statefulsets")
_STORAGE = (
    "persistentvolumeclaims",
    "persistentvolumes",
    "storageclasses",
    "csinodes",
    "csidrivers",
    "csistoragecapacities",
    "volumeattachments",
)
# Devices that come by DRA, for people.
_DRA = ("resourceslices", "resourceclaims", "deviceclasses")
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
# Every class is a resource of this name, whatever gates are open.
_SERVED = "deviceclass.resource.kubernetes.io/served"
_ALIKE = {
    (resource, verb) for resource in (*_REPLICAS[1:], *_STORAGE[1:], *_DRA[:2]) for verb in ("list", "watch")
}

# Whether some of the work is done.
Work = Callable[[Scene, Daemon], bool]


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    # One NUMA node cannot hold ten CPUs, and kubelets here insist on one.
    specs = [NodeSpec(f"n{number}", machine(2, 8), config("single-numa-node")) for number in range(2)]
    with scene_on(plane, specs) as started:
        yield started


# Work that can be seen


def has_node(name: str) -> Work:
    return lambda scene, _: bool(scene.api.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def has_event(kind: str, name: str, reason: str) -> Work:
    return lambda scene, _: bool(notes(scene.plane, kind, name, reason))


def waits_for_dra(scene: Scene, _: Daemon) -> bool:
    """A resource that a class serves is not missing, but kube-scheduler's to allocate."""
    return "DRA serves here" in said_of(scene.api.get(f"{PODS}/served"))


def hears_of_dra(_: Scene, daemon: Daemon) -> bool:
    """A node that has none of the resource takes all the rest of the pod."""
    limits = {"cpu": "1", "memory": "1Gi", _SERVED: "1"}
    asked = pod("asked", "1", "somebody")
    asked["metadata"] |= {"uid": "4-5-6", "namespace": "default"}
    asked["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    told = daemon.post("/extender/filter", {"Pod": asked, "NodeNames": ["n0"]})
    return bool(told["NodeNames"] == ["n0"])


def says_why(scene: Scene, _: Daemon) -> bool:
    return bool(said_of(scene.api.get(f"{PODS}/huge")))


def counts_repeats(scene: Scene, _: Daemon) -> bool:
    """The same event again is one event with a count."""
    found = [event for event in scene.api.list_all(EVENTS) if event["reason"] == "FailedScheduling"]
    return any(event.get("series") for event in found)


def renews_lease(scene: Scene, _: Daemon) -> bool:
    spec = scene.api.get(LEASE)["spec"]
    return bool(spec["renewTime"] != spec["acquireTime"])


def is_ready(_: Scene, daemon: Daemon) -> bool:
    return bool(daemon.ask("/readyz"))


def keeps_apart(kind: str) -> Work:
    """The two replicas are on two nodes."""

    def done(scene: Scene, _: Daemon) -> bool:
        pods = [scene.api.get(f"{PODS}/{kind}-{number}") for number in range(2)]
        return len({pod["spec"].get("nodeName", "") for pod in pods} - {""}) == 2

    return done


def promises_volume(scene: Scene, _: Daemon) -> bool:
    return "claimRef" in scene.api.get(f"{VOLUMES}/there")["spec"]


def selects_node(scene: Scene, _: Daemon) -> bool:
    return "volume.kubernetes.io/selected-node" in scene.api.get(f"{CLAIMS}/made")["metadata"].get(
        "annotations", {}
    )


def tells_the_truth(_: Scene, daemon: Daemon) -> bool:
    """Who lost the answer to a bind hears all the same that it is done."""
    return "made" in daemon.log.with_suffix(".answers").read_text(encoding="utf-8")


# What a program is put through, and what of it each right is for; watches are for all of it


def use_scheduler(scene: Scene) -> Daemon:
    """A pod whose bind is answered by nobody, one that finds no node, one that chooses among namespaces, some with volumes, and
    replicas.
    """
    store(scene)
    replicate(scene)
    scene.proxy.lose_answers(1, lambda method, path: is_bind(method, path) and "/lost/" in path)
    chooser = pod("chooser", "1")
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "red"}},
    }
    chooser["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    }
    serve(scene)
    served = pod("served", "1")
    resources = served["spec"]["containers"][0]["resources"]
    resources["limits"][_SERVED] = "1"
    stored = [served, *[mounts(pod(name, "1"), name) for name in ("bound", "found", "made")]]
    scene.api.create_all(PODS, [pod("lost", "2"), pod("huge", "10"), chooser, *stored])
    return scene.start("scheduler", "--log", "text", name=f"rbac-{time.monotonic_ns()}")


def serve(scene: Scene) -> None:
    """A class by which DRA serves a resource."""
    make(scene.api, _CLASSES, {"metadata": {"name": "served"}, "spec": {}})


def store(scene: Scene) -> None:
    """A claim that is bound, one for which a volume is there, and one that has to be provisioned."""
    api = scene.api
    make(api, CLASSES, storage_class("late", "kubernetes.io/no-provisioner"))
    make(api, CLASSES, storage_class("made", "example.com/provisioner"))
    make(api, VOLUMES, volume("bound", claimRef={"namespace": "default", "name": "bound"}))
    make(api, VOLUMES, volume("there", "late"))
    for body in (claim("bound", volume="bound"), claim("found", "late"), claim("made", "made")):
        make(api, CLAIMS, body)


def replicate(scene: Scene) -> None:
    """Two replicas of each kind of thing that has replicas; they share CPUs."""
    for plural in _REPLICAS:
        group = "/apis/apps/v1" if plural.endswith("sets") else "/api/v1"
        labels = {"app": plural}
        template = {"metadata": {"labels": labels}, "spec": pod("x", "1")["spec"]}
        spec: Object = {"selector": {"matchLabels": labels}, "replicas": 0, "template": template}
        if plural == "services":
            spec = {"selector": labels, "ports": [{"port": 80}]}
        if plural == "replicationcontrollers":
            spec["selector"] = labels
        make(scene.api, f"{group}/namespaces/default/{plural}", {"metadata": {"name": plural}, "spec": spec})
        kind = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}.get(
            plural, "ReplicationController"
        )
        version = group.removeprefix("/apis/").removeprefix("/api/")
        owner = {"apiVersion": version, "kind": kind, "name": plural, "uid": "1-2-3", "controller": True}
        for number in range(2):
            metadata: Object = {"labels": labels}
            if plural != "services":
                metadata["ownerReferences"] = [owner]
            made = pod(f"{plural}-{number}", "1", **metadata)
            made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
            scene.api.create(PODS, made)


SCHEDULER: dict[str, Work] = {
    **{f"list {kind}": keeps_apart(kind) for kind in _REPLICAS},
    **{f"list {kind}": has_node("bound") for kind in _STORAGE},
    "patch persistentvolumes": promises_volume,
    "patch persistentvolumeclaims": selects_node,
    "list deviceclasses": waits_for_dra,
    "list nodes": has_node("lost"),
    "list pods": has_node("lost"),
    "list priorityclasses": has_node("lost"),
    "list noderesourcetopologies": has_node("lost"),
    "list numatopologies": has_node("lost"),
    "list namespaces": has_node("chooser"),
    "get pods": has_event("Pod", "lost", "Scheduled"),
    "create pods/binding": has_node("lost"),
    "patch pods/status": says_why,
    "create events": has_event("Pod", "huge", "FailedScheduling"),
    "patch events": counts_repeats,
    "create leases": has_node("lost"),
    "get leases": has_node("lost"),
    "update leases": renews_lease,
}


def tell_again(scene: Scene) -> None:
    """Somebody changes what the pod says and what it is: it is tried again, and the same event comes again."""
    eventually(lambda: notes(scene.plane, "Pod", "huge", "FailedScheduling"), "there is an event", _SECONDS)
    # A repeat is written only when the event is ten seconds old.
    time.sleep(10.5)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "other"}
    strategic = "application/strategic-merge-patch+json"
    scene.api.patch(f"{PODS}/huge/status", {"status": {"conditions": [condition]}}, strategic)
    toleration = {"key": "new", "operator": "Exists", "effect": "NoSchedule"}
    scene.api.patch(f"{PODS}/huge", {"spec": {"tolerations": [toleration]}}, strategic)


def use_extender(scene: Scene) -> Daemon:
    """A bind whose answer is lost, and a loop of refusals that somebody else makes."""
    serve(scene)
    daemon = scene.start("extender", name=f"rbac-{time.monotonic_ns()}")
    made = scene.api.create(PODS, pod("lost", "2", "somebody"))["metadata"]
    body = {"PodName": "lost", "PodNamespace": "default", "PodUID": made["uid"], "Node": "n0"}
    scene.proxy.lose_answers(1)
    eventually(
        lambda: scene.proxy.answers(403) or is_ready(scene, daemon),
        "it is ready or may not",
        _SECONDS,
        daemon,
    )
    told = daemon.post("/extender/bind", body)
    daemon.log.with_suffix(".answers").write_text(told["Error"] or "made", encoding="utf-8")
    refuse_three(scene)
    return daemon


EXTENDER: dict[str, Work] = {
    "list deviceclasses": hears_of_dra,
    "list nodes": is_ready,
    "list pods": is_ready,
    "list noderesourcetopologies": is_ready,
    "list numatopologies": is_ready,
    "get pods": tells_the_truth,
    "create pods/binding": has_node("lost"),
    "create events": has_event("StatefulSet", "loop", "NumaAdmissionStorm"),
}
PROGRAMS = {"scheduler": (use_scheduler, SCHEDULER), "extender": (use_extender, EXTENDER)}


def refuse_three(scene: Scene) -> None:
    """Pods of one owner, each sent where it cannot be."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "loop",
        "uid": "1-2-3",
        "controller": True,
    }
    for number in range(3):
        name = f"refused-{number}"
        scene.api.create(PODS, pod(name, "10", "somebody", ownerReferences=[owner]))
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        scene.api.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_does_all_its_work_with_what_is_shipped(scene: Scene, program: str) -> None:
    use, work = PROGRAMS[program]
    shipped = rights(program)
    assert {str(right) for right in shipped if right.verb != "watch"} == set(work)
    daemon = use(scene)
    if program == "scheduler":
        tell_again(scene)
    for name, done in work.items():
        eventually(partial(done, scene, daemon), f"done with {name}", _SECONDS, daemon)
    assert scene.proxy.seen()["lost"] == 1
    for right in shipped:
        assert right.answers(scene.proxy, 403) == 0
        if right.verb == "watch":
            assert right._replace(verb="list").answers(scene.proxy, 200) == 1
    assert daemon.stop() == 0


@pytest.mark.parametrize(
    ("program", "right"),
    [
        (program, right)
        for program in PROGRAMS
        for right in rights(program)
        if (right.resource, right.verb) not in _ALIKE
    ],
    ids=str,
)
def test_without_one_verb_some_work_is_not_done(scene: Scene, program: str, right: Right) -> None:
    use, work = PROGRAMS[program]
    with without(scene.plane, program, right):
        daemon = use(scene)
        if str(right) == "patch events":
            tell_again(scene)
        eventually(lambda: right.answers(scene.proxy, 403), f"{program} tries to {right}", _SECONDS, daemon)
        if right.verb == "watch":
            listing = right._replace(verb="list")
            eventually(lambda: listing.answers(scene.proxy, 200) >= 3, "it asks again and again", _SECONDS)
            return
        # What is not done by now is not about to be done.
        time.sleep(1.5)
        assert not _done(work[str(right)], scene, daemon)


def _done(work: Work, scene: Scene, daemon: Daemon) -> bool:
    try:
        return work(scene, daemon)
    except OSError:
        # It does not answer, or says that it is not ready.
        return False


# People


@pytest.mark.parametrize(
    "right", [right for right in rights("viewer") if (right.resource, right.verb) not in _ALIKE], ids=str
)
def test_without_one_verb_people_see_less(scene: Scene, right: Right) -> None:
    waiting = pod("waits", "1", "nobody")
    store(scene)
    mounts(waiting, "bound")
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}
    waiting["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    }
    scene.api.create(PODS, waiting)
    whole = people_see(scene, 0, 0)
    with without(scene.plane, "viewer", right):
        if right.resource == "namespaces":
            assert "namespaces" in people_see(scene, 0, 1)
            assert "namespaces" not in whole
        elif right.resource in _DRA:
            scene.api.create(PODS, claiming("claiming"))
            told = numaware(scene.plane, "explain", "pod", "claiming", user="numaware-viewer")
            assert "this account may not list resourceslices" in " ".join(told.split())
        elif right.resource in _STORAGE:
            assert "claims and volumes could not be read" in people_see(scene, 0, 1)
            assert "claims and volumes" not in whole
        else:
            people_see(scene, 2, 2)


def claiming(name: str) -> Object:
    """A pod with a claim that nobody has made."""
    body = pod(name, "1", "nobody")
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "none"}]
    return body


def people_see(scene: Scene, nodes: int, why: int) -> str:
    """What the commands say of the waiting pod, once they have ended with these statuses."""
    numaware(scene.plane, "nodes", user="numaware-viewer", status=nodes)
    return numaware(scene.plane, "why-pending", "waits", user="numaware-viewer", status=why)
