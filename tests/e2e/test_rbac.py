"""Least privilege: our programs do all their work with the shipped rules, and each verb less is missed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import yaml

from e2e.api import Object
from e2e.control_plane import RBAC, ControlPlane
from e2e.ours import Daemon
from e2e.program import eventually
from e2e.trouble import PODS, Scene, notes, pod, said_of, scene_on
from numaware.simulate.clusters import NodeSpec
from twin_nodes import config, machine

pytestmark = pytest.mark.e2e

_FORBIDDEN = re.compile(r'cannot (\w+) resource \\?"([\w/]+)\\?"')
_SECONDS = 60.0


class Right(NamedTuple):
    """One verb on one resource in one of the shipped roles."""

    role: str
    path: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


def documents(program: str) -> Iterator[tuple[str, Object]]:
    """The shipped roles of a program, and where the API server keeps them."""
    for document in yaml.safe_load_all((RBAC / f"{program}.yaml").read_text(encoding="utf-8")):
        base = "/apis/rbac.authorization.k8s.io/v1"
        if document["kind"] == "ClusterRole":
            yield f"{base}/clusterroles/{document['metadata']['name']}", document
        elif document["kind"] == "Role":
            metadata = document["metadata"]
            yield f"{base}/namespaces/{metadata['namespace']}/roles/{metadata['name']}", document


def rights(program: str) -> list[Right]:
    return [
        Right(document["metadata"]["name"], path, group, resource, verb)
        for path, document in documents(program)
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def without(rules: list[Object], right: Right) -> list[Object]:
    """The same rules but for one verb on one resource."""
    found = []
    for rule in rules:
        for resource in rule["resources"]:
            mine = resource == right.resource and right.group in rule["apiGroups"]
            verbs = [verb for verb in rule["verbs"] if not (mine and verb == right.verb)]
            if verbs:
                found.append({**rule, "resources": [resource], "verbs": verbs})
    return found


def allowed(plane: ControlPlane, right: Right) -> bool:
    """What the server's own authoriser says, which hears of a change a moment later."""
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": "numaware" if resource == "leases" else "",
        "name": "numaware-scheduler" if resource == "leases" and right.verb != "create" else "",
    }
    user = plane.users[right.role]
    body = {"spec": {"user": user.name, "groups": user.groups, "resourceAttributes": asked}}
    answer = plane.api().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


@pytest.fixture
def scene(plane: ControlPlane) -> Iterator[Scene]:
    # One NUMA node cannot hold ten CPUs, and kubelets here insist on one.
    specs = [NodeSpec(f"n{number}", machine(2, 8), config("single-numa-node")) for number in range(2)]
    with scene_on(plane, specs) as started:
        yield started


def missed(daemon: Daemon) -> set[str]:
    """The rights that the program says it lacks, in the server's words in its log."""
    return {f"{verb} {resource}" for verb, resource in _FORBIDDEN.findall(daemon.log.read_text())}


# What each program is put through: everything it may do once


def use_scheduler(scene: Scene) -> Daemon:
    """A pod that runs, one whose bind is answered by nobody, one that finds no node, and one told of it twice."""
    scene.proxy.lose_answers(1)
    scene.api.create_all(PODS, [pod("lost", "2"), pod("huge", "10")])
    return scene.start("scheduler", "--log", "text", name=f"rbac-{time.monotonic_ns()}")


def tell_again(scene: Scene) -> None:
    """Somebody changes what the pod says and what it is: it is tried again, and the same event comes again."""
    eventually(lambda: notes(scene.plane, "Pod", "huge", "FailedScheduling"), "there is an event", _SECONDS)
    # A repeat is written only when the event is ten seconds old.
    time.sleep(10.5)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "other"}
    scene.api.patch(
        f"{PODS}/huge/status",
        {"status": {"conditions": [condition]}},
        "application/strategic-merge-patch+json",
    )
    toleration = {"key": "new", "operator": "Exists", "effect": "NoSchedule"}
    scene.api.patch(
        f"{PODS}/huge", {"spec": {"tolerations": [toleration]}}, "application/strategic-merge-patch+json"
    )


def use_extender(scene: Scene) -> Daemon:
    """A bind whose answer is lost, asked for until it is done, and a loop of refusals that somebody else makes."""
    daemon = scene.start("extender", name=f"rbac-{time.monotonic_ns()}")
    made = scene.api.create(PODS, pod("lost", "2", "somebody"))["metadata"]
    body = {"PodName": "lost", "PodNamespace": "default", "PodUID": made["uid"], "Node": "n0"}
    scene.proxy.lose_answers(1)
    eventually(
        lambda: missed(daemon) or not daemon.post("/extender/bind", body)["Error"],
        "the extender has bound the pod, or may not",
        _SECONDS,
        daemon,
    )
    if not missed(daemon):
        refuse_three(scene)
    return daemon


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


def test_the_scheduler_does_all_its_work_with_what_is_shipped(scene: Scene) -> None:
    daemon = use_scheduler(scene)
    eventually(lambda: said_of(scene.api.get(f"{PODS}/huge")), "the pod says why it waits", _SECONDS, daemon)
    eventually(scene.fakes.running, "the other runs", _SECONDS, daemon)
    tell_again(scene)
    eventually(lambda: "other" not in said_of(scene.api.get(f"{PODS}/huge")), "it is said again", _SECONDS)
    time.sleep(1)
    assert daemon.stop() == 0
    assert missed(daemon) == set()
    assert scene.proxy.seen()["lost"] == 1


def test_the_extender_does_all_its_work_with_what_is_shipped(scene: Scene) -> None:
    daemon = use_extender(scene)
    eventually(
        lambda: notes(scene.plane, "StatefulSet", "loop", "NumaAdmissionStorm"),
        "the owner is told",
        _SECONDS,
        daemon,
    )
    assert daemon.stop() == 0
    assert missed(daemon) == set()
    assert scene.proxy.seen()["lost"] == 1


@pytest.mark.parametrize(
    ("program", "right"),
    [(program, right) for program in ("scheduler", "extender") for right in rights(program)],
    ids=str,
)
def test_one_verb_less_is_missed(scene: Scene, program: str, right: Right) -> None:
    plane = scene.plane
    shipped = next(document for path, document in documents(program) if path == right.path)
    less = without(shipped["rules"], right)
    plane.api().patch(right.path, {"rules": less})
    try:
        eventually(lambda: not allowed(plane, right), "the verb is gone")
        daemon = use_scheduler(scene) if program == "scheduler" else use_extender(scene)
        if str(right) == "patch events":
            tell_again(scene)
        eventually(
            lambda: str(right) in missed(daemon), f"{program} says that it may not {right}", _SECONDS, daemon
        )
    finally:
        plane.api().patch(right.path, {"rules": shipped["rules"]})
        eventually(lambda: allowed(plane, right), "the verb is back")
