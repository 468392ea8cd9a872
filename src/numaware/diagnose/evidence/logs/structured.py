"""Messages since 1.21: a fixed text and `key=value` pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numaware.diagnose.evidence.logs.hints import hint, hint_list, hints_by_resource
from numaware.diagnose.evidence.logs.record import Record
from numaware.diagnose.evidence.logs.seen import (
    PodName,
    Seen,
    What,
    cpu_list,
    numa_of_cpus,
    number,
    parsed_json,
    pod_name,
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


def _hints(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    found = hints_by_resource(fields.get("hints"))
    return None if found is None else _about(record, "hints", fields, hints=found)


def _cpu_hints(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    found = hint_list(fields.get("cpuHints"))
    return None if found is None else _about(record, "hints", fields, hints={"cpu": found})


def _hinted(what: What, key: str) -> Reader:
    def reader(record: Record, fields: Mapping[str, Any]) -> Seen | None:
        found = hint(fields.get(key))
        return None if found is None else _about(record, what, fields, hint=found)

    return reader


def _affinity(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    found = hint(fields.get("bestHint", fields.get("affinity")))
    return None if found is None else _about(record, "admitted", fields, hint=found)


def _plain(what: What) -> Reader:
    return lambda record, fields: _about(record, what, fields, resource=str(fields.get("resource", "")))


def _allocate_cpus(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    if "numCPUs" in fields:
        return _about(record, "cpus-wanted", fields, number=number(fields["numCPUs"]))
    cpus = cpu_list(fields.get("result"))
    return _about(record, "cpus-given", fields, cpus=cpus) if cpus else None


def _desired(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    cpus = cpu_list(fields.get("cpuSet"))
    return _about(record, "cpus-given", fields, cpus=cpus) if cpus else None


def _cannot_allocate(record: Record, fields: Mapping[str, Any]) -> Seen:
    count = number(fields.get("numCPUs"))
    return _about(record, "refused", fields, number=count, message=str(fields.get("err", "")))


def _event(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    if fields.get("kind", "Pod") != "Pod" or fields.get("type", "Warning") != "Warning":
        return None
    reason, message = str(fields.get("reason", "")), str(fields.get("message", fields.get("note", "")))
    return Seen("refused", record, pod_name(fields.get("object")), reason=reason, message=message)


def _status(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    """The status that the kubelet wrote back: that of a refused pod is Failed, with a reason."""
    status = parsed_json(fields.get("patch")).get("status") or parsed_json(fields.get("status"))
    if not isinstance(status, dict) or status.get("phase") != "Failed" or not status.get("reason"):
        return None
    message = str(status.get("message", "")).removeprefix("Pod was rejected: ")
    return _about(record, "refused", fields, reason=str(status["reason"]), message=message)


def _result(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    message = str(fields.get("Message", fields.get("message", fields.get("err", ""))))
    return _about(record, "refused", fields, message=message) if message else None


def _added(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    pods = fields.get("pods")
    names = parsed_json(pods) if isinstance(pods, str) else pods
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

    def reader(record: Record, fields: Mapping[str, Any]) -> Seen:
        found = {name: str(fields[key]) for name, key in keys.items() if key in fields}
        return Seen("policy", record, facts=found)

    return reader


def _started(manager: str) -> Reader:
    def reader(record: Record, fields: Mapping[str, Any]) -> Seen | None:
        if record.message == "Starting" and not record.source.startswith("cpu_manager"):
            return None
        return Seen("started", record, resource=manager, facts={"policy": str(fields.get("policy", ""))})

    return reader


def _no_policy(record: Record, _: Mapping[str, Any]) -> Seen:
    return Seen("policy", record, facts={"policy": "none"})


def _cpu_topology(record: Record, fields: Mapping[str, Any]) -> Seen | None:
    numa = numa_of_cpus(fields.get("topology"))
    return Seen("policy", record, facts={"numaOfCpus": numa}) if numa else None


def _no_devices(record: Record, fields: Mapping[str, Any]) -> Seen:
    facts = {"requested": number(fields.get("request")), "available": number(fields.get("available"))}
    resource = str(fields.get("resourceName", fields.get("resource", "")))
    return _about(record, "impossible", fields, resource=resource, facts=facts)


def _no_topology(record: Record, fields: Mapping[str, Any]) -> Seen:
    resource = str(fields.get("resourceName", fields.get("resource", "")))
    return Seen("no-topology", record, resource=resource)


def _plugin(what: What) -> Reader:
    def reader(record: Record, fields: Mapping[str, Any]) -> Seen:
        resource = str(fields.get("resource", fields.get("resourceName", "")))
        return Seen(what, record, resource=resource, message=str(fields.get("err", "")))

    return reader


_MESSAGES: dict[str, Reader] = {
    "Topology Admit Handler": _plain("begin"),
    "Topology manager admission check": _plain("begin"),
    "TopologyHints": _hints,
    "TopologyHints generated": _cpu_hints,
    "Hint Provider has no preference for NUMA affinity with any resource": _plain("no-preference"),
    "Hint Provider has no preference for NUMA affinity with resource": _plain("no-preference"),
    "Hint Provider has no possible NUMA affinities for resource": _plain("impossible"),
    "Unable to generate topology hints: requested number of devices unavailable": _no_devices,
    "Resource does not have a topology preference": _no_topology,
    "ContainerTopologyHint": _hinted("merged", "bestHint"),
    "PodTopologyHint": _hinted("merged", "bestHint"),
    "Best TopologyHint": _hinted("merged", "bestHint"),
    "Topology Affinity": _affinity,
    "Static policy: Allocate": _plain("allocate"),
    "AllocateCPUs": _allocate_cpus,
    "Updated desired CPUSet": _desired,
    "Unable to allocate CPUs": _cannot_allocate,
    "Event occurred": _event,
    "Patch status for pod": _status,
    "Status for pod updated successfully": _status,
    "Pod Admit Result": _result,
    "Failed to admit pod": _result,
    "Predicate failed on Pod": _result,
    "SyncLoop ADD": _added,
    "Receiving a new pod": _plain("arrived"),
    "Pod was deleted and then recreated, skipping status update": _recreated,
    "Creating topology manager with policy per scope": _facts(
        policy="topologyPolicyName", scope="topologyScopeName", options="topologyPolicyOptions"
    ),
    "Creating topology manager with none policy": _no_policy,
    "Initializing Topology Manager": _facts(policy="policy", scope="scope"),
    "Detected CPU topology": _cpu_topology,
    "Reserved CPUs not available for exclusive assignment": _facts(reserved="reserved"),
    "Kubelet version": _facts(version="kubeletVersion"),
    "Starting CPU manager": _started("CPU manager"),
    "Starting": _started("CPU manager"),
    "Starting memorymanager": _started("memory manager"),
    "ListAndWatch ended unexpectedly for device plugin": _plugin("plugin-lost"),
    "Got registration request from device plugin with resource": _plugin("plugin-here"),
}
