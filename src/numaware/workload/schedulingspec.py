"""The scheduling part of a pod, or pod template, from its node: API defaults applied, refusals collected on the way.

Mirrors the defaults and validation of `pkg/apis/core` (v1.35) as far as they concern where a pod may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import msgspec

from numaware.workload.affinityspec import AffinityReader, node_terms
from numaware.workload.disks import Disk, DiskKind
from numaware.workload.fields import Field
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
    PodClaim,
    Scheduling,
    ServedResources,
    Toleration,
    decimal,
)
from numaware.workload.yamlfile import Node

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TOLERATION_OPERATORS = ("", "Equal", "Exists", "Gt", "Lt")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
# Classes that every cluster has; the numbers of others are in the cluster.
_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# Volumes that name a disk: the field, the plugin, and the field in it that names the disk.
_DISKS: tuple[tuple[str, DiskKind, str], ...] = (
    ("gcePersistentDisk", "gce-pd", "pdName"),
    ("awsElasticBlockStore", "aws-ebs", "volumeID"),
    ("azureDisk", "azure-disk", "diskName"),
    ("cinder", "cinder", "volumeID"),
    ("iscsi", "iscsi", "iqn"),
    ("rbd", "rbd", "image"),
)
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
    """Where a pod was written, and whose it is: `root` is the pod or template, `holder` what stands around a template."""

    root: Field
    holder: Node
    kind: str
    owner: str
    pod: str
    namespace: str

    @property
    def templated(self) -> bool:
        """Whether a template was written, and not the pod itself."""
        return bool(self.root.path)


def read_scheduling(source: PodSource) -> Scheduling:
    """What a scheduler must honour; worth using only if no problem is an error."""
    metadata, spec = source.root.get("metadata"), source.root.get("spec")
    labels = metadata.get("labels").labels()
    annotations = _annotations(source)
    host_ports = tuple(sorted(set(_host_ports(spec))))
    ephemeral = tuple(_ephemeral(source))
    claims = (*_claims(source), *ephemeral)
    owners = tuple(_owners(source))
    rules = AffinityReader(source.namespace, dict(labels))
    node_name = spec.get("nodeName").text()
    affinity = spec.get("affinity")
    required, preferred = node_terms(affinity.get("nodeAffinity"))
    affinity.expect_mapping()
    priority_class = spec.get("priorityClassName").text()
    priority = spec.get("priority").number()
    selector = spec.get("nodeSelector").labels()
    tolerations = tuple(_tolerations(spec.get("tolerations")))
    if source.kind == "DaemonSet" and source.templated:
        tolerations += _DAEMON_TOLERATIONS
        if spec.get("hostNetwork").value is True:
            tolerations += (_NETWORK_TOLERATION,)
    scheduling = Scheduling(
        labels=labels,
        annotations=annotations,
        node=NodeRules(node_name, selector, required, preferred, tolerations, tuple(_features(spec))),
        pods=rules.pods(affinity),
        spread=rules.spread(spec.get("topologySpreadConstraints")),
        host_ports=host_ports,
        gates=_names(spec.get("schedulingGates")),
        priority=_PRIORITIES.get(priority_class) if priority is None else priority,
        priority_class=priority_class,
        preempts=spec.get("preemptionPolicy").choice(_PREEMPTION, _PREEMPTION[0]) == _PREEMPTION[0],
        scheduler=spec.get("schedulerName").text() or DEFAULT_SCHEDULER,
        claims=claims,
        resource_claims=tuple(_resource_claims(source)),
        served=_served(source),
        owners=owners,
        images=tuple(_images(spec)),
        ephemeral=ephemeral,
        disks=tuple(_disks(spec.get("volumes"))),
        group=spec.get("schedulingGroup").get("podGroupName").text()
        or spec.get("workloadRef").get("name").text(),
    )
    return NO_SCHEDULING if scheduling == NO_SCHEDULING else scheduling


def _annotations(source: PodSource) -> Labels:
    heeded = {
        key: value.text()
        for key, value in source.root.get("metadata").get("annotations").members()
        if key == VOLCANO_POLICY or key.startswith(OWN_ANNOTATIONS)
    }
    task_policy = source.holder.get("topologyPolicy").text
    if task_policy:
        # Volcano's Job controller writes a task's policy into the pods it makes, over whatever stands there.
        heeded[VOLCANO_POLICY] = task_policy
    return tuple(sorted(heeded.items()))


def _host_ports(spec: Field) -> Iterator[HostPort]:
    """Ports of containers that run as long as the pod; on the host's network every port is the host's."""
    on_host = spec.get("hostNetwork").flag()
    for group in ("initContainers", "containers"):
        for container in spec.get(group).items():
            if group == "initContainers" and container.get("restartPolicy").value != "Always":
                continue
            for port in container.get("ports").entries():
                own = port.get("containerPort").number(1, 65535)
                number = port.get("hostPort").number(0, 65535)
                protocol = port.get("protocol").choice(_PROTOCOLS, "TCP")
                address = port.get("hostIP").text() or EVERY_ADDRESS
                taken = number or (own if on_host else None)
                if taken:
                    yield HostPort(protocol, address, taken)


def _images(spec: Field) -> Iterator[str]:
    """The images of all containers, and those that are volumes, under the names that container runtimes give them.

    Without a tag it is the latest.
    """
    named = [
        one.get("image") for group in ("initContainers", "containers") for one in spec.get(group).items()
    ]
    # KUBE-SCHEDULER: counted since v1.36.
    named += [volume.get("image").get("reference") for volume in spec.get("volumes").items()]
    for image in named:
        name = image.value
        if isinstance(name, str) and name:
            yield name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _features(spec: Field) -> Iterator[str]:
    """What a node has to declare for the pod, as far as kube-scheduler infers it (NodeDeclaredFeatures, v1.37)."""
    containers = [one for group in ("initContainers", "containers") for one in spec.get(group).items()]
    rules = [rule for one in containers for rule in one.get("restartPolicyRules").items()]
    if any(rule.get("action").value == "RestartAllContainers" for rule in rules):
        yield "RestartAllContainersOnContainerExits"
    if spec.get("hostNetwork").value is True and spec.get("hostUsers").value is False:
        yield "UserNamespacesHostNetworkSupport"
    mounts = [mount for one in containers for mount in one.get("volumeMounts").items()]
    if any(mount.get("bindMountOptions").node.items for mount in mounts):
        yield "VolumeBindMountOptions"


def _disks(volumes: Field) -> Iterator[Disk]:
    """Disks that the pod names without a claim."""
    for volume in volumes.entries():
        for field, kind, name in _DISKS:
            source = volume.get(field)
            if source.value is None:
                continue
            named = source.get(name).text()
            if kind == "rbd":
                named = f"{source.get('pool').text() or 'rbd'}/{named}"
            yield Disk(kind, named, source.get("readOnly").flag(), source.get("monitors").texts())


def _ephemeral(source: PodSource) -> Iterator[str]:
    """Names of the claims that are made for the pod alone."""
    for volume in source.root.get("spec").get("volumes").entries():
        if volume.get("ephemeral").value is not None:
            yield f"{source.pod}-{volume.get('name').text()}"


def _claims(source: PodSource) -> Iterator[str]:
    """Names of volume claims that others have made, or a StatefulSet makes."""
    for volume in source.root.get("spec").get("volumes").entries():
        claim = volume.get("persistentVolumeClaim")
        if claim.value is not None:
            yield claim.get("claimName").required()
    if source.templated:
        made = Field(
            source.holder.get("volumeClaimTemplates"), "spec.volumeClaimTemplates", source.root.reading
        )
        for claim in made.entries():
            yield f"{claim.node.get('metadata', 'name').text or 'unnamed'}-{source.pod}"


def _resource_claims(source: PodSource) -> Iterator[PodClaim]:
    """Claims of devices; which one was made by a template is in the pod's status."""
    listed = source.root.get("spec").get("resourceClaims")
    made = {
        told.get("name").node.text: told.get("resourceClaimName").node.text or ""
        for told in _status(source).get("resourceClaimStatuses").items()
    }
    for name, entry in _named(listed).items():
        template = entry.get("resourceClaimTemplateName").text()
        yield PodClaim(name, entry.get("resourceClaimName").text() or made.get(name, ""), template)


def _served(source: PodSource) -> ServedResources | None:
    """Which extended resources a claim of kube-scheduler's stands for."""
    told = _status(source).get("extendedResourceClaimStatus")
    claim = told.get("resourceClaimName").node.text
    mapped = {one.get("resourceName").node.text for one in told.get("requestMappings").items()}
    names = tuple(sorted(name for name in mapped if name))
    return ServedResources(claim, names) if claim and names else None


def _status(source: PodSource) -> Field:
    """What has become of the pod; nothing, for a template."""
    return Field(Node(None, 0), "", source.root.reading) if source.templated else source.root.get("status")


def _owners(source: PodSource) -> Iterator[Owner]:
    if source.templated:
        yield Owner(source.kind, source.owner, controller=True)
        return
    for owner in source.root.get("metadata").get("ownerReferences").entries():
        yield Owner(owner.get("kind").text(), owner.get("name").text(), owner.get("controller").flag())


def _tolerations(tolerations: Field) -> Iterator[Toleration]:
    for item in tolerations.entries():
        key = item.get("key").text()
        operator = item.get("operator").choice(_TOLERATION_OPERATORS, "")
        value = item.get("value").text()
        effect = item.get("effect").choice(("", *_EFFECTS), "")
        if key:
            item.check_label_key(key, "key")
        elif operator != "Exists":
            item.error(
                "Invalid value: must be Exists when there is no key (it then means any taint)", "operator"
            )
        if operator == "Exists" and value:
            item.error("Invalid value: there must be no value when the operator is Exists", "operator")
        compares: Literal["", "Gt", "Lt"] = "Gt" if operator == "Gt" else "Lt" if operator == "Lt" else ""
        if compares and decimal(value) is None:
            item.error("Invalid value: must be a whole number when the operator is Gt or Lt", "value")
        if item.get("tolerationSeconds").value is not None and effect != "NoExecute":
            item.error("Invalid value: must be NoExecute when tolerationSeconds is set", "effect")
        yield Toleration(key, operator == "Exists", value, effect, compares)


def _names(listed: Field) -> tuple[str, ...]:
    return tuple(_named(listed))


def _named(listed: Field) -> dict[str, Field]:
    """The entries of a list of named things by their names, none twice."""
    named: dict[str, Field] = {}
    for item in listed.entries():
        name = item.get("name").required()
        if name in named:
            item.error(f'Duplicate value: "{name}"')
        named[name] = item
    return named
