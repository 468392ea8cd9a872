"""The scheduling part of a pod, or pod template, from its node: API defaults applied, refusals collected on the way.

Mirrors the defaults and validation of `pkg/apis/core` (v1.35) as far as they concern where a pod may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import msgspec

from numaware.workload.affinityspec import AffinityReader
from numaware.workload.fields import Fields
from numaware.workload.problem import Problem
from numaware.workload.scheduling import (
    DEFAULT_SCHEDULER,
    EVERY_ADDRESS,
    NO_SCHEDULING,
    OWN_ANNOTATIONS,
    VOLCANO_POLICY,
    Effect,
    HostPort,
    Labels,
    NodeRules,
    Owner,
    Scheduling,
    Toleration,
)
from numaware.workload.yamlfile import Node

_SPEC_FIELDS = frozenset(
    [
        "nodeName",
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "schedulingGates",
        "priority",
        "priorityClassName",
        "preemptionPolicy",
        "schedulerName",
        "volumes",
        "resourceClaims",
    ]
)
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
# Classes that every cluster has; the numbers of others are in the cluster.
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# What the DaemonSet controller adds to its pods, so that they also run where others are kept away.
_DAEMON_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{condition}", exists=True, effect=effect)
    for condition, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_NETWORK_TOLERATION = Toleration("node.kubernetes.io/network-unavailable", exists=True, effect="NoSchedule")


class PodSource(msgspec.Struct, frozen=True):
    """Where a pod was written, and whose it is: `node` is the pod or template, `holder` what stands around a template."""

    node: Node
    path: str
    holder: Node
    kind: str
    owner: str
    pod: str
    namespace: str

    def below(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path else field


def read_scheduling(source: PodSource, problems: list[Problem]) -> Scheduling:
    """What a scheduler must honour; worth using only if no problem is an error."""
    fields = Fields(problems)
    metadata, spec = source.node.get("metadata"), source.node.get("spec")
    spec_path = source.below("spec")
    labels = fields.labels(metadata.get("labels"), source.below("metadata.labels"))
    scheduling = Scheduling(
        labels=labels,
        annotations=_annotations(fields, source),
        host_ports=tuple(sorted(set(_host_ports(fields, spec, spec_path)))),
        claims=tuple(_claims(fields, source)),
        owners=tuple(_owners(fields, source)),
    )
    if spec.mapping.keys() & _SPEC_FIELDS:
        scheduling = _with_spec(scheduling, fields, source, spec_path)
    if source.kind == "DaemonSet" and source.path:
        tolerations = scheduling.node.tolerations + _DAEMON_TOLERATIONS
        if spec.get("hostNetwork").value is True:
            tolerations += (_NETWORK_TOLERATION,)
        node = msgspec.structs.replace(scheduling.node, tolerations=tolerations)
        scheduling = msgspec.structs.replace(scheduling, node=node)
    return NO_SCHEDULING if scheduling == NO_SCHEDULING else scheduling


def _with_spec(outside: Scheduling, fields: Fields, source: PodSource, path: str) -> Scheduling:
    spec = source.node.get("spec")
    affinity = AffinityReader(fields, source.namespace, dict(outside.labels))
    node_name = fields.text(spec.get("nodeName"), f"{path}.nodeName")
    required, preferred = affinity.nodes(
        spec.get("affinity", "nodeAffinity"), f"{path}.affinity.nodeAffinity"
    )
    fields.expect_mapping(spec.get("affinity"), f"{path}.affinity")
    priority_class = fields.text(spec.get("priorityClassName"), f"{path}.priorityClassName")
    priority = fields.number(spec.get("priority"), f"{path}.priority")
    return msgspec.structs.replace(
        outside,
        node=NodeRules(
            node_name=node_name,
            selector=fields.labels(spec.get("nodeSelector"), f"{path}.nodeSelector"),
            required=required,
            preferred=preferred,
            tolerations=tuple(_tolerations(fields, spec.get("tolerations"), f"{path}.tolerations")),
        ),
        pods=affinity.pods(spec.get("affinity"), f"{path}.affinity"),
        spread=affinity.spread(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints"),
        gates=_names(fields, spec.get("schedulingGates"), f"{path}.schedulingGates"),
        priority=_PRIORITIES.get(priority_class) if priority is None else priority,
        priority_class=priority_class,
        preempts=fields.choice(
            spec.get("preemptionPolicy"),
            f"{path}.preemptionPolicy",
            ("PreemptLowerPriority", "Never"),
            "PreemptLowerPriority",
        )
        != "Never",
        scheduler=fields.text(spec.get("schedulerName"), f"{path}.schedulerName") or DEFAULT_SCHEDULER,
        resource_claims=_names(fields, spec.get("resourceClaims"), f"{path}.resourceClaims"),
    )


def _annotations(fields: Fields, source: PodSource) -> Labels:
    path = source.below("metadata.annotations")
    heeded = {
        key: fields.text(value, where)
        for key, value, where in fields.members(source.node.get("metadata", "annotations"), path)
        if key == VOLCANO_POLICY or key.startswith(OWN_ANNOTATIONS)
    }
    task_policy = source.holder.get("topologyPolicy").text
    if task_policy:
        # Volcano's Job controller writes a task's policy into the pods it makes, over whatever stands there.
        heeded[VOLCANO_POLICY] = task_policy
    return tuple(sorted(heeded.items()))


def _host_ports(fields: Fields, spec: Node, path: str) -> Iterator[HostPort]:
    """Ports of containers that run as long as the pod; on the host's network every port is the host's."""
    on_host = fields.flag(spec.get("hostNetwork"), f"{path}.hostNetwork")
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group).items):
            if "ports" not in container.mapping or (
                group == "initContainers" and container.get("restartPolicy").value != "Always"
            ):
                continue
            for port, where in fields.entries(container.get("ports"), f"{path}.{group}[{index}].ports"):
                own = fields.number(port.get("containerPort"), f"{where}.containerPort", 1, 65535)
                number = fields.number(port.get("hostPort"), f"{where}.hostPort", 0, 65535)
                protocol = fields.choice(port.get("protocol"), f"{where}.protocol", _PROTOCOLS, "TCP")
                address = fields.text(port.get("hostIP"), f"{where}.hostIP") or EVERY_ADDRESS
                taken = number or (own if on_host else None)
                if taken:
                    yield HostPort(protocol, address, taken)


def _claims(fields: Fields, source: PodSource) -> Iterator[str]:
    """Names of volume claims, also of those that are made for the pod alone."""
    path = source.below("spec.volumes")
    for volume, where in fields.entries(source.node.get("spec", "volumes"), path):
        name = fields.text(volume.get("name"), f"{where}.name")
        claim = volume.get("persistentVolumeClaim")
        if claim.value is not None:
            yield fields.required(claim.get("claimName"), f"{where}.persistentVolumeClaim.claimName")
        elif volume.get("ephemeral").value is not None:
            yield f"{source.pod}-{name}"
    if source.path:
        for claim, _ in fields.entries(
            source.holder.get("volumeClaimTemplates"), "spec.volumeClaimTemplates"
        ):
            yield f"{claim.get('metadata', 'name').text or 'unnamed'}-{source.pod}"


def _owners(fields: Fields, source: PodSource) -> Iterator[Owner]:
    if source.path:
        yield Owner(source.kind, source.owner, controller=True)
        return
    for owner, where in fields.entries(
        source.node.get("metadata", "ownerReferences"), "metadata.ownerReferences"
    ):
        yield Owner(
            fields.text(owner.get("kind"), f"{where}.kind"),
            fields.text(owner.get("name"), f"{where}.name"),
            fields.flag(owner.get("controller"), f"{where}.controller"),
        )


def _tolerations(fields: Fields, node: Node, path: str) -> Iterator[Toleration]:
    for item, where in fields.entries(node, path):
        key = fields.text(item.get("key"), f"{where}.key")
        operator = fields.choice(item.get("operator"), f"{where}.operator", ("", "Equal", "Exists"), "")
        value = fields.text(item.get("value"), f"{where}.value")
        effect = fields.choice(item.get("effect"), f"{where}.effect", ("", *_EFFECTS), "")
        if key:
            fields.label_key(item, f"{where}.key", key)
        elif operator != "Exists":
            fields.error(
                item,
                f"{where}.operator",
                "Invalid value: must be Exists when there is no key (it then means any taint)",
            )
        if operator == "Exists" and value:
            fields.error(
                item, f"{where}.operator", "Invalid value: there must be no value when the operator is Exists"
            )
        if item.get("tolerationSeconds").value is not None and effect != "NoExecute":
            fields.error(
                item, f"{where}.effect", "Invalid value: must be NoExecute when tolerationSeconds is set"
            )
        yield Toleration(key, operator == "Exists", value, effect)


def _names(fields: Fields, node: Node, path: str) -> tuple[str, ...]:
    """The names of a list of named things, none twice."""
    names: dict[str, None] = {}
    for item, where in fields.entries(node, path):
        name = fields.required(item.get("name"), f"{where}.name")
        if name in names:
            fields.error(item, where, f'Duplicate value: "{name}"')
        names[name] = None
    return tuple(names)
