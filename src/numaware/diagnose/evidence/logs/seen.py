"""What one line of a log says happened, in one shape for kubelets of all releases.

`bracketed` and `structured` make these of records, and `journal` puts them together to admissions.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

import msgspec

from numaware.diagnose.evidence.logs.hints import HintLists, hint, hint_list, hints_by_resource
from numaware.diagnose.evidence.logs.keyvalues import parsed_json
from numaware.diagnose.evidence.logs.record import Record
from numaware.machine.cpuset import CpuSet
from numaware.twin.topology.hints import Hint

What = Literal[
    "begin",  # the Topology Manager starts on a pod
    "hints",  # a provider's hints by resource
    "no-preference",  # a provider, or one resource of it, can live with any node
    "no-topology",  # a device plugin says nothing about NUMA nodes
    "impossible",  # a resource that fits nowhere
    "merged",  # the outcome of the merge
    "admitted",  # the Topology Manager let a container pass
    "allocate",  # the CPU manager starts on a container
    "cpus-wanted",
    "cpus-given",
    "refused",
    "arrived",  # the kubelet got a new pod
    "recreated",  # a pod of the same name took another's place
    "policy",  # facts about the kubelet: policy, scope, version, reserved CPUs, topology of CPUs
    "started",  # a manager started
    "plugin-lost",
    "plugin-here",
    "failed",  # last words of a kubelet that does not start
]


class PodName(NamedTuple):
    """A pod as far as a line names it."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Seen(msgspec.Struct, frozen=True):
    """One thing that happened, with what the line says about it."""

    what: What
    record: Record
    pod: PodName = PodName()
    container: str = ""
    hints: HintLists = {}
    hint: Hint | None = None
    cpus: str = ""
    number: int | None = None
    reason: str = ""
    message: str = ""
    resource: str = ""
    facts: dict[str, Any] = {}


_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def pod_name(text: object) -> PodName:
    """`namespace/name`, or the older `name_namespace(uid)`."""
    if not isinstance(text, str):
        return PodName()
    if _UID.fullmatch(text):
        # 1.18 and 1.19 named a pod now by its name, now by its uid.
        return PodName(uid=text)
    old = re.fullmatch(r"([a-zA-Z0-9.-]{1,253})_([a-zA-Z0-9.-]{1,253})\(([\w-]{0,80})\)", text)
    if old:
        return PodName(old[2], old[1], old[3])
    namespace, slash, name = text.partition("/")
    return PodName(namespace, name) if slash else PodName(name=text[:253])


def numa_of_cpus(value: object) -> dict[int, int]:
    """CPU -> NUMA node, from the dump of the CPU topology in any of its three spellings."""
    if isinstance(value, str) and value.lstrip().startswith('{"'):
        value = parsed_json(value)
    if isinstance(value, dict):
        details = value.get("CPUDetails")
        cpus = details if isinstance(details, dict) else {}
        return {
            int(cpu): info["NUMANodeID"]
            for cpu, info in cpus.items()
            if str(cpu).isdecimal() and isinstance(info, dict) and isinstance(info.get("NUMANodeID"), int)
        }
    pairs = re.findall(r"(\d{1,5}):\{(?:NUMANodeID:)?(\d{1,3}) (?:SocketID:)?\d{1,5} ", str(value)[: 1 << 16])
    return {int(cpu): int(numa) for cpu, numa in pairs}


def cpu_list(value: object) -> str:
    """A CPU list, also where it is printed as a struct (`{"elems":{...}}`); empty where it is none."""
    if isinstance(value, str) and value.startswith("{"):
        value = parsed_json(value)
    if isinstance(value, dict):
        members = value.get("elems", value)
        value = ",".join(str(cpu) for cpu in members) if isinstance(members, dict) else ""
    try:
        # Since 1.33 what was achieved stands behind the list: `2-7 aligned=<uncore:true>`.
        return str(CpuSet.parse(str(value or "").strip().partition(" ")[0]))
    except ValueError:
        return ""


def number(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 10 else None


def read_field(name: str, value: object) -> tuple[str, Any]:
    """A field of `Seen` and its value as both forms of logs print it; None where a line without it says nothing."""
    match name:
        case "hint":
            return name, hint(value)
        case "hints":
            return name, hints_by_resource(value)
        case "cpu_hints":
            listed = hint_list(value)
            return "hints", None if listed is None else {"cpu": listed}
        case "cpus":
            return name, cpu_list(value) or None
        case "number":
            return name, number(value)
    return name, "" if value is None else str(value)
