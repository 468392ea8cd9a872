"""Pods of the API server: the few fields that scheduling needs, and the pod as the rest of the program knows it.

A watch brings every pod many times, and pods come from templates. So what decides about a pod's place is cut out of the
object and read once for all pods that have it in common: commands, volumes that any node can mount and the random names
that admission adds are no part of it.

A pod that cannot be read in full is still a pod: it holds what it asks for, and says in `unread` what is not known of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from numaware.kube.decoding import Condition, Metadata, OwnerReference, Reader, Wire
from numaware.machine.words import printable
from numaware.workload.fields import Field, PodReading
from numaware.workload.pod import Container, Pod, Resources
from numaware.workload.podspec import read_amounts, read_pod
from numaware.workload.requirements import resources
from numaware.workload.resize import NO_STANDING, Standing, in_resize
from numaware.workload.scheduling import (
    OWN_ANNOTATIONS,
    PLACEMENT_OBSERVED,
    PLACEMENT_PREDICTED,
    VOLCANO_POLICY,
)
from numaware.workload.schedulingspec import PodSource
from numaware.workload.yamlfile import Node

KAI_PREDICTED = "kai.scheduler/numa-placement-predicted"
KAI_OBSERVED = "kai.scheduler/numa-placement-observed"
_RECORDS = frozenset((PLACEMENT_PREDICTED, PLACEMENT_OBSERVED))
_FINISHED = ("Succeeded", "Failed")
# How a kubelet that does not take a pod says why; `OutOfcpu` and its like besides.
REFUSALS = ("TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError")
# Distinct pods as templates make them; beyond that the least used are read again.
_MOST_TEMPLATES = 16_384


class LivePod(msgspec.Struct, frozen=True):
    """One pod as the API server has it. `node` is empty until it is bound; times are None where there are none.

    `pod` is what the twin and the engine look at. It leaves out the node, so that pods of one template are alike before
    and after they are bound. Placements are the annotations' text as it stands; see `schedule/ledger.py`.
    """

    uid: str
    namespace: str
    name: str
    version: str
    node: str
    scheduler: str
    phase: str
    reason: str
    message: str
    created: datetime | None
    deletion: datetime | None
    scheduled: Condition | None
    owners: tuple[OwnerReference, ...]
    predicted: str
    observed: str
    kai_predicted: str
    kai_observed: str
    pod: Pod
    # The node that its scheduler has in mind for it, perhaps with pods that have to end first.
    nominated: str = ""
    # Whether its kubelet has looked at it: one that it does not take is finished from then on.
    looked_at: bool = False

    @property
    def finished(self) -> bool:
        """Whether all containers have ended for good: it then holds nothing of its node."""
        return self.phase in _FINISHED

    @property
    def refused(self) -> bool:
        """Whether its kubelet did not take it: then it never held anything."""
        return self.phase == "Failed" and (self.reason in REFUSALS or self.reason.startswith("OutOf"))

    @property
    def holds(self) -> bool:
        """Whether something of its node belongs to it: also while it is being deleted, until it is gone."""
        return bool(self.node) and not self.finished

    @property
    def unread(self) -> str:
        """What of it could not be read, empty if it is known in full."""
        return self.pod.scheduling.unread

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"


def decode(raw: bytes | Raw) -> LivePod:
    """One pod, with all of it that can be read; `DecodeError` only for what is no pod at all, or has no name."""
    wire, problem = _POD.read_in_parts(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    annotations = metadata.annotations or {}
    owners = metadata.owner_references or ()
    node = spec.node_name or ""
    spec.node_name = None
    spec.volumes = tuple(volume for volume in spec.volumes or () if volume.matters)
    essence = _Pod(
        metadata=_Essence(
            labels=metadata.labels,
            annotations={name: text for name, text in annotations.items() if _is_heeded(name)},
            owner_references=[_Owner(owner.kind, owner.name, owner.controller) for owner in owners],
        ),
        spec=spec,
        status=_Status(
            qos_class=status.qos_class,
            resource_claim_statuses=status.resource_claim_statuses,
            extended_resource_claim_status=status.extended_resource_claim_status,
            **_resize(spec, status),
        ),
    )
    # Claims of ephemeral volumes are named after the pod; other pods of a template need not be told apart.
    own_name = metadata.name if any(volume.ephemeral is not UNSET for volume in spec.volumes) else ""
    try:
        pod = _template(_ENCODER.encode(essence), metadata.namespace, own_name)
    except (ValueError, RecursionError) as error:
        raise _POD.refused(raw, str(error)) from None
    if problem:
        pod = replace(pod, scheduling=replace(pod.scheduling, unread=problem))
    return LivePod(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version,
        node=node,
        scheduler=pod.scheduling.scheduler,
        phase=status.phase,
        reason=status.reason,
        message=status.message,
        created=metadata.creation_timestamp,
        deletion=metadata.deletion_timestamp,
        scheduled=next((one for one in status.conditions or () if one.type == "PodScheduled"), None),
        owners=owners,
        predicted=annotations.get(PLACEMENT_PREDICTED, ""),
        observed=annotations.get(PLACEMENT_OBSERVED, ""),
        kai_predicted=annotations.get(KAI_PREDICTED, ""),
        kai_observed=annotations.get(KAI_OBSERVED, ""),
        pod=replace(pod, name=metadata.name, uid=metadata.uid),
        nominated=status.nominated_node_name,
        looked_at=bool(status.start_time),
    )


def _is_heeded(annotation: str) -> bool:
    return annotation == VOLCANO_POLICY or (
        annotation.startswith(OWN_ANNOTATIONS) and annotation not in _RECORDS
    )


@lru_cache(maxsize=_MOST_TEMPLATES)
def _template(essence: bytes, namespace: str, name: str) -> Pod:
    """The pod that many are made like, with neither name nor uid; where Kubernetes would refuse it, what can be read of it."""
    reading = PodReading()
    root = Field(_tree(msgspec.json.decode(essence)), "", reading)
    source = PodSource(root, Node(None, 0), kind="Pod", owner=name, pod=name, namespace=namespace)
    pod = _resized(read_pod(source, "", root.get("status")), root.get("status"))
    problem = next((str(problem) for problem in reading.problems if problem.severity == "error"), "")
    if not problem:
        return pod
    return replace(_sane(pod), scheduling=replace(pod.scheduling, unread=printable(problem, 400)))


def _sane(pod: Pod) -> Pod:
    """A pod that no API server would have taken, without amounts below zero: they would free what others hold."""

    def above(amounts: Resources) -> Resources:
        return tuple((name, nano) for name, nano in amounts if nano > 0)

    def sane(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            replace(one, requests=above(one.requests), limits=above(one.limits)) for one in containers
        )

    return replace(
        pod,
        containers=sane(pod.containers),
        init_containers=sane(pod.init_containers),
        overhead=above(pod.overhead),
        pod_requests=above(pod.pod_requests),
        pod_limits=above(pod.pod_limits),
    )


# A resize in progress


def _resize(spec: _Spec, status: _Status) -> dict[str, Any]:
    """What the status says of resources that the spec does not: nothing, unless the pod is being resized."""
    told = {
        "container_statuses": _differing(spec.containers, status.container_statuses),
        # KUBE-SCHEDULER: of init containers only those that stay can be resized.
        "init_container_statuses": _differing(
            [one for one in spec.init_containers or () if one.restart_policy == "Always"],
            status.init_container_statuses,
        ),
        "resources": status.resources,
        "allocated_resources": status.allocated_resources,
    }
    if all(one in (None, UNSET) for one in told.values()):
        return {}
    pending = [one for one in status.conditions or () if one.type == "PodResizePending"]
    return {**told, "conditions": tuple(Condition(one.type, reason=one.reason) for one in pending) or None}


def _differing(
    containers: Iterable[_Container] | None, statuses: tuple[_ContainerStatus, ...] | None
) -> tuple[_ContainerStatus, ...] | None:
    """The statuses of containers whose resources are other ones than their spec's, byte for byte."""
    told = [
        one for one in statuses or () if one.resources is not UNSET or one.allocated_resources is not UNSET
    ]
    if not told:
        return None
    asked = {one.name: b"" if one.resources is UNSET else bytes(one.resources) for one in containers or ()}
    return tuple(one for one in told if one.name in asked and not _repeats(one, asked[one.name])) or None


def _repeats(status: _ContainerStatus, asked: bytes) -> bool:
    promised, actual = status.allocated_resources, status.resources
    return (promised is UNSET or b'"requests":' + bytes(promised) in asked) and (
        actual is UNSET or bytes(actual) == asked
    )


def _resized(pod: Pod, status: Field) -> Pod:
    """The pod as its kubelet holds it, where its status says something else than its spec."""
    standings = {
        entry.get("name").text(): _standing(entry)
        for group in ("containerStatuses", "initContainerStatuses")
        for entry in status.get(group).items()
    }
    whole = _standing(status)
    if not standings and whole == NO_STANDING:
        return pod
    infeasible = any(entry.get("reason").value == "Infeasible" for entry in status.get("conditions").items())
    return in_resize(pod, standings, whole, infeasible=infeasible)


def _standing(told: Field) -> Standing:
    promised, actual = told.get("allocatedResources"), told.get("resources").get("requests")
    return Standing(
        resources(read_amounts(promised)) if promised.value is not None else None,
        resources(read_amounts(actual)) if actual.value is not None else None,
    )


def _tree(value: Any) -> Node:
    """A JSON value as the readers of manifests take it; it has no lines."""
    if isinstance(value, dict):
        return Node({key: _tree(item) for key, item in value.items()}, 0)
    return Node([_tree(item) for item in value] if isinstance(value, list) else value, 0)


# The wire. Parts that the readers of manifests look into are handed on as they are.


class _Mount(Wire, omit_defaults=True):
    bind_mount_options: Raw | UnsetType = UNSET


class _Container(Wire, omit_defaults=True):
    name: str = ""
    image: str | None = None
    resources: Raw | UnsetType = UNSET
    ports: Raw | UnsetType = UNSET
    restart_policy: str | None = None
    restart_policy_rules: Raw | UnsetType = UNSET
    volume_mounts: tuple[_Mount, ...] | None = None


class _Volume(Wire, omit_defaults=True):
    name: str = ""
    persistent_volume_claim: Raw | UnsetType = UNSET
    ephemeral: Raw | UnsetType = UNSET
    gce_persistent_disk: Raw | UnsetType = UNSET
    aws_elastic_block_store: Raw | UnsetType = UNSET
    azure_disk: Raw | UnsetType = UNSET
    cinder: Raw | UnsetType = UNSET
    iscsi: Raw | UnsetType = UNSET
    rbd: Raw | UnsetType = UNSET

    @property
    def matters(self) -> bool:
        """Whether not every node can mount it."""
        return any(getattr(self, source) is not UNSET for source in self.__struct_fields__[1:])


class _Spec(Wire, omit_defaults=True):
    node_name: str | None = None
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    volumes: tuple[_Volume, ...] | None = None
    node_selector: Raw | UnsetType = UNSET
    affinity: Raw | UnsetType = UNSET
    tolerations: Raw | UnsetType = UNSET
    topology_spread_constraints: Raw | UnsetType = UNSET
    scheduling_gates: Raw | UnsetType = UNSET
    resource_claims: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    overhead: Raw | UnsetType = UNSET
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    scheduling_group: Raw | UnsetType = UNSET
    workload_ref: Raw | UnsetType = UNSET


class _ContainerStatus(Wire, omit_defaults=True):
    name: str = ""
    resources: Raw | UnsetType = UNSET
    allocated_resources: Raw | UnsetType = UNSET


class _Status(Wire, omit_defaults=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    qos_class: str = ""
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    resource_claim_statuses: Raw | UnsetType = UNSET
    extended_resource_claim_status: Raw | UnsetType = UNSET
    # Of the pod as a whole.
    resources: Raw | UnsetType = UNSET
    allocated_resources: Raw | UnsetType = UNSET


class _LivePod(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_POD = Reader("pod", _LivePod)


# What pods of one template have in common, in the shape of a pod.


class _Owner(Wire, omit_defaults=True):
    kind: str
    name: str
    controller: bool = False


class _Essence(Wire, omit_defaults=True):
    labels: dict[str, str] | None
    annotations: dict[str, str]
    owner_references: list[_Owner]


class _Pod(Wire):
    metadata: _Essence
    spec: _Spec
    status: _Status


_ENCODER = msgspec.json.Encoder()
