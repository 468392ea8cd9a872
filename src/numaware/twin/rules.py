"""Which rules a kubelet of a given release follows.

The twin is written for v1.35; each field names one rule that an older release lacked, with the version that brought
it, as found in the sources of the tags. Managers ask for the rule, never for the version.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:\.([0-9]{1,3}))?(?:[.+\-].*)?\Z", re.ASCII | re.DOTALL)
OLDEST_MINOR = 18
# A version without a patch number means the last patch of its minor version.
_LAST_PATCH = 999
# Minor versions that got the health checks of v1.28 in a patch.
_HEALTH_PATCH = {25: 10, 26: 5, 27: 2}


class Rules(msgspec.Struct, frozen=True):
    """The rules of one release. All true but `keeps_pending` is v1.34 and later."""

    minor: int
    keeps_pending: bool  # 1.22.1 to 1.31: CPUs of the pod last asked about stay taken until the next one is
    memory_manager: bool  # 1.21: the Memory Manager exists
    no_topology_apart: bool  # 1.23: devices without topology are kept under node -1, before that under node 0
    policy_options: bool  # 1.22: CPU manager policy options and SMTAlignmentError
    numa_allocator: bool  # 1.23: CPUs are taken by NUMA level and sorted consistently
    equal_masks: (
        bool  # 1.24: a merged hint is preferred only if all masks are equal; best-non-preferred count rule
    )
    topology_options: (
        bool  # 1.26: topology manager options; a device has topology only with a non-empty node list
    )
    smt_free: bool  # 1.27: full-pcpus-only also counts the free cores, before that only the threads asked for
    device_health: bool  # 1.28, 1.27.2, 1.26.5, 1.25.10: unhealthy devices are refused by name; reworded "unregistered" error
    sidecars: bool  # 1.29: restartable init containers; numbers in the CPU shortage message
    memory_groups: bool  # 1.32: allocation may not cross memory groups; restart compares sums per group
    smt_cause: bool  # 1.32: the SMT message is chosen by cause, not by the number of CPUs left
    odd_uncore: bool  # 1.34: an odd number of CPUs, too, is taken from one cache if it fits


@lru_cache(maxsize=64)
def rules_for(version: str) -> Rules:
    """The rules of a kubelet version such as `v1.27.16`; ValueError for what is not one."""
    match = _VERSION.match(version)
    if match is None or int(match[1]) < OLDEST_MINOR:
        raise ValueError(
            f"{version[:40]!r} is not a kubelet version from v1.{OLDEST_MINOR} on (expected a form such as v1.35.0)"
        )
    minor = int(match[1])
    patch = _LAST_PATCH if match[2] is None else int(match[2])
    return Rules(
        minor=minor,
        keeps_pending=(minor, patch) >= (22, 1) and minor <= 31,
        memory_manager=minor >= 21,
        no_topology_apart=minor >= 23,
        policy_options=minor >= 22,
        numa_allocator=minor >= 23,
        equal_masks=minor >= 24,
        topology_options=minor >= 26,
        smt_free=minor >= 27,
        device_health=minor >= 28 or patch >= _HEALTH_PATCH.get(minor, _LAST_PATCH + 1),
        sidecars=minor >= 29,
        memory_groups=minor >= 32,
        smt_cause=minor >= 32,
        odd_uncore=minor >= 34,
    )
