"""Every kind of object that installing may bring, in the order in which they are removed: what runs first, kinds last."""

from __future__ import annotations

from numaware.errors import InputError
from numaware.kube.install.manifests import Object
from numaware.kube.resources import (
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    SERVICES,
    Resource,
)

_RBAC = ("rbac.authorization.k8s.io", "v1")
_ADMISSION = ("admissionregistration.k8s.io", "v1")

REMOVAL = (
    DEPLOYMENTS,
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    SERVICES,
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    CONFIG_MAPS,
    Resource(*_RBAC, "rolebindings", "RoleBinding"),
    Resource(*_RBAC, "roles", "Role"),
    Resource(*_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    Resource(*_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    # While an agent has rights they are held to its own node.
    Resource(
        *_ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        namespaced=False,
    ),
    Resource(*_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    # After the rights to it, or else a scheduler that still runs would make it anew.
    LEASES,
    NAMESPACES,
    DEFINITIONS,
)
# What may hold more than we have put there: published objects, somebody's Secrets.
HOLDING = (NAMESPACES, DEFINITIONS)
_OF_HEAD = {(one.head["apiVersion"], one.kind): one for one in REMOVAL}


def resource_of(document: Object) -> Resource:
    """Where an API server keeps it."""
    head = (document["apiVersion"], document["kind"])
    if head not in _OF_HEAD:
        raise InputError("numaware install", f"knows no {head[1]} ({head[0]})")
    return _OF_HEAD[head]
