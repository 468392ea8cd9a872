"""Messages since 1.21: a fixed text and `key=value` pairs.

`messages` hands every structured record here. The table says what each text tells, and under which keys the fields of
`Seen` stand; pod and container have the same keys in nearly all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numaware.diagnose.evidence.logs.keyvalues import parsed_json
from numaware.diagnose.evidence.logs.record import Record
from numaware.diagnose.evidence.logs.seen import (
    PodName,
    Seen,
    What,
    numa_of_cpus,
    number,
    pod_name,
    read_field,
)

Reader = Callable[[Record, Mapping[str, Any]], Seen | None]


def read(record: Record) -> Seen | None:
    """What a structured record says, or None."""
    reader = _MESSAGES.get(record.message)
    return reader(record, record.fields) if reader else None


def _about(record: Record, what: What, fields: Mapping[str, Any], **more: Any) -> Seen:
    pod = pod_name(fields.get("pod"))
    uid = fields.get("podUID")
    if isinstance(fields.get("podName"), str):
        pod = PodName(str(fields.get("podNamespace", "")), fields["podName"])
    if isinstance(uid, str) and uid:
        pod = pod._replace(uid=uid)
    return Seen(what, record, pod, str(fields.get("containerName", "")), **more)


def _tells(what: What, **keys: tuple[str, ...]) -> Reader:
    """A message whose fields stand under these keys, the first of them that is there."""

    def reader(record: Record, fields: Mapping[str, Any]) -> Seen | None:
        values: dict[str, Any] = {}
        for name, places in keys.items():
            field, value = read_field(name, next((fields[key] for key in places if key in fields), None))
            if value is None and field != "number":
                return None
            values[field] = value
        return _about(record, what, fields, **values)

    return reader


def _allocate_cpus(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    """Said before and after: how many are wanted, and which were given."""
    return (_WANTED if "numCPUs" in fields else _GIVEN)(record, fields)


def _event(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    if fields.get("kind", "Pod") != "Pod" or fields.get("type", "Warning") != "Warning":
        return None
    reason, message = str(fields.get("reason", "")), str(fields.get("message", fields.get("note", "")))
    return Seen("refused", record, pod_name(fields.get("object")), reason=reason, message=message)


def _status(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    """The status that the kubelet wrote back: that of a refused pod is Failed, with a reason."""
    patch = parsed_json(fields.get("patch"))
    status = (isinstance(patch, dict) and patch.get("status")) or parsed_json(fields.get("status"))
    if not isinstance(status, dict) or status.get("phase") != "Failed" or not status.get("reason"):
        return None
    message = str(status.get("message", "")).removeprefix("Pod was rejected: ")
    return _about(record, "refused", fields, reason=str(status["reason"]), message=message)


def _result(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    seen = _REFUSED(record, fields)
    return seen if seen and seen.message else None


def _added(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    names = parsed_json(fields.get("pods"))
    if not isinstance(names, list) or len(names) != 1:
        # At start the kubelet is told all of its pods at once; those are not made anew.
        return None
    only = names[0]
    if isinstance(only, dict):
        return Seen("arrived", record, PodName(str(only.get("namespace", "")), str(only.get("name", ""))))
    return Seen("arrived", record, pod_name(only))


def _recreated(record: Record, fields: Mapping[str, Any]) -> Seen:
    return _about(record, "recreated", fields, facts={"old": str(fields.get("oldPodUID", ""))})


def _facts(**keys: str) -> Reader:
    """Facts about the kubelet under our names, from the fields that hold them."""
    return lambda record, fields: Seen(
        "policy", record, facts={name: str(fields[key]) for name, key in keys.items() if key in fields}
    )


def _started(manager: str) -> Reader:
    def reader(record: Record, fields: Mapping[str, Any]) -> Seen | None:
        if record.message == "Starting" and not record.source.startswith("cpu_manager"):
            return None
        return Seen("started", record, resource=manager, facts={"policy": str(fields.get("policy", ""))})

    return reader


def _cpu_topology(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    numa = numa_of_cpus(fields.get("topology"))
    return Seen("policy", record, facts={"numaOfCpus": numa}) if numa else None


def _no_devices(record: Record, fields: Mapping[str, Any]) -> Seen:
    facts = {"requested": number(fields.get("request")), "available": number(fields.get("available"))}
    resource = str(fields.get("resourceName", fields.get("resource", "")))
    return _about(record, "impossible", fields, resource=resource, facts=facts)


_RESOURCE = ("resource",)
_WANTED = _tells("cpus-wanted", number=("numCPUs",))
_GIVEN = _tells("cpus-given", cpus=("result",))
_REFUSED = _tells("refused", message=("Message", "message", "err"))
_BEGIN = _tells("begin", resource=_RESOURCE)
_NO_PREFERENCE = _tells("no-preference", resource=_RESOURCE)
_MERGED = _tells("merged", hint=("bestHint",))

_MESSAGES: dict[str, Reader] = {
    "Topology Admit Handler": _BEGIN,
    "Topology manager admission check": _BEGIN,
    "TopologyHints": _tells("hints", hints=("hints",)),
    "TopologyHints generated": _tells("hints", cpu_hints=("cpuHints",)),
    "Hint Provider has no preference for NUMA affinity with any resource": _NO_PREFERENCE,
    "Hint Provider has no preference for NUMA affinity with resource": _NO_PREFERENCE,
    "Hint Provider has no possible NUMA affinities for resource": _tells("impossible", resource=_RESOURCE),
    "Unable to generate topology hints: requested number of devices unavailable": _no_devices,
    "Resource does not have a topology preference": _tells(
        "no-topology", resource=("resourceName", "resource")
    ),
    "ContainerTopologyHint": _MERGED,
    "PodTopologyHint": _MERGED,
    "Best TopologyHint": _MERGED,
    "Topology Affinity": _tells("admitted", hint=("bestHint", "affinity")),
    "Static policy: Allocate": _tells("allocate", resource=_RESOURCE),
    "AllocateCPUs": _allocate_cpus,
    "Updated desired CPUSet": _tells("cpus-given", cpus=("cpuSet",)),
    "Unable to allocate CPUs": _tells("refused", number=("numCPUs",), message=("err",)),
    "Event occurred": _event,
    "Patch status for pod": _status,
    "Status for pod updated successfully": _status,
    "Pod Admit Result": _result,
    "Failed to admit pod": _result,
    "Predicate failed on Pod": _result,
    "SyncLoop ADD": _added,
    "Receiving a new pod": _tells("arrived", resource=_RESOURCE),
    "Pod was deleted and then recreated, skipping status update": _recreated,
    "Creating topology manager with policy per scope": _facts(
        policy="topologyPolicyName", scope="topologyScopeName", options="topologyPolicyOptions"
    ),
    "Creating topology manager with none policy": lambda record, _: Seen(
        "policy", record, facts={"policy": "none"}
    ),
    "Initializing Topology Manager": _facts(policy="policy", scope="scope"),
    "Detected CPU topology": _cpu_topology,
    "Reserved CPUs not available for exclusive assignment": _facts(reserved="reserved"),
    "Kubelet version": _facts(version="kubeletVersion"),
    "Starting CPU manager": _started("CPU manager"),
    "Starting": _started("CPU manager"),
    "Starting memorymanager": _started("memory manager"),
    "ListAndWatch ended unexpectedly for device plugin": _tells(
        "plugin-lost", resource=("resource", "resourceName"), message=("err",)
    ),
    "Got registration request from device plugin with resource": _tells(
        "plugin-here", resource=("resource", "resourceName"), message=("err",)
    ),
}
