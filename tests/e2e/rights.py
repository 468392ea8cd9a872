"""The rights in deploy/rbac, one by one: what takes one away for a while, and whether it was asked for meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import yaml

from e2e.api import Object
from e2e.control_plane import RBAC, ControlPlane
from e2e.program import eventually
from e2e.proxy import FaultyProxy

_ROLES = "/apis/rbac.authorization.k8s.io/v1"
_METHODS = {
    "list": "GET",
    "get": "GET",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
}


class Right(NamedTuple):
    """One verb on one resource in one of the shipped roles."""

    role: str
    path: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    def answers(self, proxy: FaultyProxy, status: int) -> int:
        """How often the server has said this to who used the right."""
        found = 0
        for text, number in proxy.seen().items():
            told, _, rest = text.partition(" ")
            method, _, path = rest.partition(" ")
            if (told, method) == (str(status), _METHODS[self.verb]) and self._is_at(path):
                found += number
        return found

    def _is_at(self, path: str) -> bool:
        plural, _, subresource = self.resource.partition("/")
        if self.verb in ("list", "watch", "create") and not subresource:
            # What is applied and not there yet is created by a patch.
            return path.endswith(f"/{plural}")
        return f"/{plural}/" in path and path.endswith(subresource)


def rights(program: str) -> list[Right]:
    """All that a program is given, but for what it asks for only where a kind is not defined (`test_definition.py`)."""
    return [
        Right(document["metadata"]["name"], path, group, resource, verb)
        for path, document in _documents(program)
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource != "customresourcedefinitions"
    ]


@contextmanager
def without(plane: ControlPlane, program: str, right: Right) -> Iterator[None]:
    """The shipped rules but for one verb on one resource."""
    shipped = next(document for path, document in _documents(program) if path == right.path)
    plane.api().patch(right.path, {"rules": list(_less(shipped["rules"], right))})
    try:
        eventually(lambda: not _allowed(plane, right), f"{right} is gone")
        yield
    finally:
        plane.api().patch(right.path, {"rules": shipped["rules"]})
        eventually(lambda: _allowed(plane, right), f"{right} is back")


def _documents(program: str) -> Iterator[tuple[str, Object]]:
    """The shipped roles of a program, and where the API server keeps them."""
    for document in yaml.safe_load_all((RBAC / f"{program}.yaml").read_text(encoding="utf-8")):
        metadata = document["metadata"]
        if document["kind"] == "ClusterRole":
            yield f"{_ROLES}/clusterroles/{metadata['name']}", document
        elif document["kind"] == "Role":
            yield f"{_ROLES}/namespaces/{metadata['namespace']}/roles/{metadata['name']}", document


def _less(rules: list[Object], right: Right) -> Iterator[Object]:
    for rule in rules:
        for resource in rule["resources"]:
            mine = resource == right.resource and right.group in rule["apiGroups"]
            verbs = [verb for verb in rule["verbs"] if not (mine and verb == right.verb)]
            if verbs:
                yield {**rule, "resources": [resource], "verbs": verbs}


def _allowed(plane: ControlPlane, right: Right) -> bool:
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
