"""State files as kubelets wrote them that nobody runs any more, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping

from numaware.twin.state.checksum import fnv1a


def cpu_state_v1(policy: str, default_cpus: str, by_container_id: Mapping[str, str]) -> str:
    """`cpu_manager_state` of a kubelet of 1.12 to 1.17: CPUs by container id."""
    ordered = dict(sorted(by_container_id.items()))
    entries = " ".join(f"{name}:{cpus}" for name, cpus in ordered.items())
    dump = (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){default_cpus}"
        f" Entries:(map[string]string)map[{entries}] Checksum:(checksum.Checksum)0}}"
    )
    fields = {
        "policyName": policy,
        "defaultCpuSet": default_cpus,
        "entries": ordered,
        "checksum": fnv1a(dump),
    }
    if not ordered:
        del fields["entries"]
    return json.dumps(fields, separators=(",", ":"))
