"""Which rules a kubelet of a given release follows: every difference between v1.20 and v1.37, by name.

The twin is one kubelet that follows rules; `RULES` says in which releases each of them holds, as found in the sources
and confirmed by recordings of the releases themselves (tests/vectors/README.md). Managers ask for the rule, never for
the version. `numaware twin rules` prints the table, and docs/kubelet/versions.md is made from it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import msgspec

_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:[.+\-].*)?\Z", re.ASCII | re.DOTALL)
OLDEST_MINOR = 18
# The newest release whose managers were recorded; what comes after is modelled as this one, and that is said.
NEWEST_MINOR = 37
NEWEST = f"v1.{NEWEST_MINOR}"
# A version without a patch number means the last patch of its minor version.
_LAST_PATCH = 999

Release = tuple[int, int]


class Rule(NamedTuple):
    """One rule: the first (minor, patch) that has it, the first that has it no more, and patches it was taken back to.

    `says` is the rule in a sentence, for people who run both sides of it.
    """

    since: Release
    says: str
    until: Release | None = None
    patches: tuple[Release, ...] = ()

    @property
    def first(self) -> str:
        """The first release with it, in words; a rule of old has none."""
        patches = [f"v1.{minor}.{patch}" for minor, patch in self.patches]
        since = f"v1.{self.since[0]}" + (f".{self.since[1]}" if self.since[1] else "")
        return ", ".join([since, *patches]) if self.since > (0, 0) else "always"

    @property
    def last(self) -> str:
        """The last minor release with it, empty where it still holds."""
        return "" if self.until is None else f"to v1.{self.until[0] - 1}"

    def holds(self, minor: int, patch: int) -> bool:
        if self.until is not None and (minor, patch) >= self.until:
            return False
        return (minor, patch) >= self.since or any(
            minor == taken and patch >= first for taken, first in self.patches
        )


RULES: dict[str, Rule] = {
    "memory_manager": Rule((21, 0), "the Memory Manager exists"),
    "policy_options": Rule((22, 0), "CPU manager policy options, full-pcpus-only and SMTAlignmentError exist"),
    "sorted_cpus": Rule(
        (22, 0), "CPUs are sorted by how few are free beside them; before, two sockets had no certain order"
    ),
    "memory_reuse": Rule((22, 0), "memory of init containers that ended is used again by the pod's later ones"),
    "memory_extends_upwards": Rule(
        (0, 0),
        "a memory hint is extended only to groups that reach beyond its highest NUMA node",
        until=(22, 0),
    ),
    "keeps_pending": Rule(
        (22, 1), "CPUs of the pod last asked about stay taken until the next one is", until=(32, 0)
    ),
    "numa_allocator": Rule((23, 0), "CPUs are taken by NUMA level, too; distribute-cpus-across-numa exists"),
    "no_topology_apart": Rule(
        (23, 0), "devices without topology are kept under node -1 in the file, before that under node 0"
    ),
    "narrowest_before_groups": Rule(
        (23, 0),
        "the narrowest memory hint is the one an empty machine would give, whatever groups there are now",
    ),
    "reuse_per_pod": Rule(
        (23, 0),
        "what a pod may use again of its init containers' memory is kept even after another pod had some",
    ),
    "equal_masks": Rule((24, 0), "a merged hint is preferred only if all managers prefer the same NUMA nodes"),
    "topology_options": Rule(
        (26, 0), "topology manager options exist; a device without NUMA nodes counts as one without topology"
    ),
    "smt_free": Rule((27, 0), "full-pcpus-only also counts the free cores, not only the threads asked for"),
    "none_is_checked": Rule(
        (0, 0), "scope and options of the topology manager are checked under policy none, too", until=(28, 0)
    ),
    "device_health": Rule(
        (28, 0),
        "unhealthy devices are refused by name, also those a running pod has",
        patches=((25, 10), (26, 5), (27, 2)),
    ),
    "sidecars": Rule((29, 0), "init containers that restart run beside the others and keep what they have"),
    "memory_groups": Rule(
        (32, 0), "an allocation may not cross memory groups; a restart compares the sums of a group"
    ),
    "smt_cause": Rule((32, 0), "an SMTAlignmentError says which of its two causes it has"),
    "memory_best_effort": Rule(
        (32, 0), "memory policy BestEffort is known, and refused for not being on Windows"
    ),
    "resize_by_resource": Rule(
        (34, 0),
        "a resize is refused for what it changes; before, a static manager forbids all, and one gate stands for both",
    ),
    "resize_whole_machine": Rule(
        (34, 0), "a resize may ask for huge pages' and hard eviction's memory, and waits", until=(36, 0)
    ),
    "odd_uncore": Rule((34, 0), "an odd number of CPUs, too, is taken from one last-level cache if it fits"),
    "device_nodes": Rule(
        (36, 0), "device hints name only NUMA nodes that have such devices, so a pod is pulled there"
    ),
    "files_newest_first": Rule(
        (36, 0), "a state file is read as its newest layout first; one without a memory checksum is taken"
    ),
    "resize_waits": Rule(
        (36, 0), "a resize beyond the whole node waits (Deferred); before, it is Infeasible"
    ),
    "held_first": Rule(
        (37, 0), "full-pcpus-only asks nothing of a container that has its CPUs: a restart refuses it no more"
    ),
    "even_within_reach": Rule(
        (37, 0), "distributed CPUs never ask a NUMA node for more than it has; with align-by-socket one socket wins"
    ),
    "memory_asked_for": Rule(
        (37, 0), "a container that may have no memory of its own is not in the memory file (PodLevelResourceManagers)"
    ),
    "resize_apart": Rule(
        (37, 0), "a resize asks for no CPUs or memory anew: of the managers only that of devices gives hints"
    ),
    "wrapped_files": Rule(
        (37, 0), "CPU and memory state files hold their content twice, and only the second checksum counts"
    ),
}  # fmt: skip


class Rules(msgspec.Struct, frozen=True):
    """The rules of one release; each field but the first is a name in `RULES`."""

    minor: int
    memory_manager: bool
    policy_options: bool
    sorted_cpus: bool
    memory_reuse: bool
    memory_extends_upwards: bool
    keeps_pending: bool
    numa_allocator: bool
    no_topology_apart: bool
    narrowest_before_groups: bool
    reuse_per_pod: bool
    equal_masks: bool
    topology_options: bool
    smt_free: bool
    none_is_checked: bool
    device_health: bool
    sidecars: bool
    memory_groups: bool
    smt_cause: bool
    memory_best_effort: bool
    resize_by_resource: bool
    resize_whole_machine: bool
    odd_uncore: bool
    device_nodes: bool
    files_newest_first: bool
    resize_waits: bool
    held_first: bool
    even_within_reach: bool
    memory_asked_for: bool
    resize_apart: bool
    wrapped_files: bool


def release_of(version: str) -> Release:
    """Minor and patch of a kubelet version such as `v1.27.16`; ValueError for what is not one."""
    match = _VERSION.match(version)
    if match is None or int(match[1]) < OLDEST_MINOR:
        raise ValueError(
            f"{version[:40]!r} is not a kubelet version from v1.{OLDEST_MINOR} on (expected a form such as v1.35.0)"
        )
    return int(match[1]), _LAST_PATCH if match[2] is None else int(match[2])


@lru_cache(maxsize=64)
def rules_for(version: str) -> Rules:
    """The rules of a kubelet version; ValueError for what is not one."""
    minor, patch = release_of(version)
    return Rules(minor, **{name: rule.holds(minor, patch) for name, rule in RULES.items()})


def named_version(version: str) -> str:
    """A kubelet's version for people, with the release it is modelled as where that is another."""
    stand_in = modelled_as(version)
    return f"{version} (modelled as {stand_in})" if stand_in else version


def modelled_as(version: str) -> str:
    """The release that stands in for a version newer than all that were recorded, empty where none has to."""
    try:
        return NEWEST if release_of(version)[0] > NEWEST_MINOR else ""
    except ValueError:
        return ""
