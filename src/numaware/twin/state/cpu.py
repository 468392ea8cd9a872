"""`cpu_manager_state`: which container owns which CPUs, and the shared pool.

Mirrors pkg/kubelet/cm/cpumanager/state/checkpoint.go. Layouts: v1 (1.12 to 1.17) by container id; v2 (1.18 on) by pod
and container name; v3 (1.36 behind the PodLevelResourceManagers gate) adds CPUs held by a whole pod; v4 (1.37) is v2
plus a `data` string, the same content once more with its own checksum, which is the one that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.words import printable
from numaware.twin.gotext import cpu_list_problem, quoted
from numaware.twin.state import document
from numaware.twin.state.checksum import Stamp, first_match, fnv1a
from numaware.twin.state.errors import UnlikeError, checked
from numaware.twin.state.golang import Unsigned, dump_map, json_text, wrap

FILE = "cpu_manager_state"

Entries = Mapping[str, Mapping[str, str]]


class CpuCheckpoint(msgspec.Struct, frozen=True):
    """One file: CPU lists as text, by pod uid and container name.

    `by_container_id` takes the place of `entries` in v1; `pods` holds CPUs that belong to a pod as a whole.
    """

    policy: str
    default_cpus: str
    stamp: Stamp
    entries: dict[str, dict[str, str]] = {}
    by_container_id: dict[str, str] = {}
    pods: dict[str, str] = {}


def encode(
    policy: str,
    default_cpus: str,
    entries: Entries,
    *,
    pods: Mapping[str, str] | None = None,
    wrapped: bool = False,
) -> str:
    """The file a kubelet of 1.18 and later writes.

    `pods` where its gate PodLevelResourceManagers is open; `wrapped` since 1.37.
    """
    held = {uid: _PodCpus(cpus) for uid, cpus in pods.items()} if pods else msgspec.UNSET
    content = _File(policy, default_cpus, entries or msgspec.UNSET, held)
    assignments = _dump_entries(entries)
    if pods is not None and not wrapped:
        assignments += f" {_dump_pods(pods)}"
    content.checksum = fnv1a(_dump(policy, default_cpus, assignments))
    return wrap(content) if wrapped else json_text(content)


def decode(data: str | bytes, source: str = FILE) -> CpuCheckpoint:
    """Read a file as a starting kubelet does: the content, or an error when the checksum is wrong."""
    checkpoint = parse(document.read(data, source).fields, source)
    checked(source, checkpoint.stamp)
    problem = unreadable_list(checkpoint)
    if problem is not None:
        raise InputError(source, problem)
    return checkpoint


def unreadable_list(checkpoint: CpuCheckpoint, default: str = "default cpu set") -> str | None:
    """The first CPU list that is none, in the words of a kubelet that finds it after the checksum was right."""
    lists = [(default, checkpoint.default_cpus, "")]
    lists += [
        ("cpuset", text, f" for container id {quoted(key)}")
        for key, text in checkpoint.by_container_id.items()
    ]
    lists += [
        ("cpuset", text, f" for container {quoted(name)} in pod {quoted(uid)}")
        for uid, containers in checkpoint.entries.items()
        for name, text in containers.items()
    ]
    for what, text, owner in lists:
        problem = cpu_list_problem(text)
        if problem:
            return printable(f"could not parse {what} {quoted(text)}{owner}: {problem}", 500)
    return None


def parse(fields: Mapping[str, Any], source: str = FILE) -> CpuCheckpoint:
    """Read the content without judging its checksum; `stamp` says how that turned out."""
    return document.parse(fields, source, FILE, parse_as, wrapped="v4")


class _PodCpus(msgspec.Struct):
    cpu_set: str = msgspec.field(name="cpuSet", default="")


class _File(msgspec.Struct, rename="camel"):
    policy_name: str
    default_cpu_set: str
    entries: Entries | msgspec.UnsetType
    pod_entries: Mapping[str, _PodCpus] | msgspec.UnsetType
    checksum: int | msgspec.UnsetType = msgspec.UNSET
    data: str | msgspec.UnsetType = msgspec.UNSET
    data_checksum: int | msgspec.UnsetType = msgspec.UNSET


class _Content(msgspec.Struct, rename="lower"):
    """The fields as they stand in the file, keys folded to lower case."""

    policyname: str = ""
    defaultcpuset: str = ""
    entries: dict[str, Any] = {}
    podentries: dict[str, _PodCpus] = {}
    checksum: Unsigned | None = None


def parse_as(fields: Mapping[str, Any], forms: Sequence[str] = ()) -> CpuCheckpoint:
    """The outer fields as one of layouts v1 to v3, which differ in what `entries` holds and, if it is empty, only in the checksum.

    `forms` are the layouts to try, in that order: a reader of v2 looks past what a whole pod holds. Without any, those the
    content can be. `ValueError` where it can be none of them.
    """
    content = msgspec.convert(fields, _Content)
    policy, default = content.policyname, content.defaultcpuset
    pods = {uid: pod.cpu_set for uid, pod in content.podentries.items()}
    by_id: dict[str, str] = {}
    entries: dict[str, dict[str, str]] = {}
    dumps = {}
    if content.entries and all(isinstance(cpus, str) for cpus in content.entries.values()):
        by_id = content.entries
        dumps["v1"] = _dump_ids(by_id)
    else:
        entries = msgspec.convert(content.entries, dict[str, dict[str, str]])
        if forms or not pods:
            dumps["v2"] = _dump_entries(entries)
        if not entries and (forms or not pods):
            dumps["v1"] = _dump_ids({})
        dumps["v3"] = f"{_dump_entries(entries)} {_dump_pods(pods)}"
    texts = {form: _dump(policy, default, dumps[form]) for form in forms or dumps if form in dumps}
    if not texts:
        raise UnlikeError(forms[-1])
    stamp = first_match(content.checksum, texts, optional=("v1", "v2") if forms else tuple(texts))
    return CpuCheckpoint(
        policy, default, stamp, entries, by_id, pods if stamp.form == "v3" or not forms else {}
    )


def _dump(policy: str, default_cpus: str, assignments: str) -> str:
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){default_cpus}"
        f" {assignments} Checksum:(checksum.Checksum)0}}"
    )


def _dump_ids(by_container_id: Mapping[str, str]) -> str:
    return f"Entries:(map[string]string){dump_map(by_container_id)}"


def _dump_pods(pods: Mapping[str, str]) -> str:
    sets = {uid: f"{{CPUSet:(cpuset.CPUSet){_dump_cpus(cpus)}}}" for uid, cpus in pods.items()}
    return f"PodEntries:(state.PodCPUAssignments){dump_map(sets)}"


def _dump_entries(entries: Entries) -> str:
    pods = {uid: dump_map(containers) for uid, containers in entries.items()}
    return f"Entries:(map[string]map[string]string){dump_map(pods)}"


def _dump_cpus(text: str) -> str:
    """A CPU set as the kubelet holds it in memory: a map from CPU to nothing."""
    return f"{{elems:(map[int]struct {{}}){dump_map(dict.fromkeys(CpuSet.parse(text), '{}'))}}}"
