"""The CPUs of a pod that has them as a whole, and how its containers share them.

Mirrors `AllocatePod` of `cpumanager/policy_static.go` (v1.36 and later, gate PodLevelResourceManagers, scope pod).
"""

from __future__ import annotations

from numaware.twin.cpu.static import CpuState, StaticCpus
from numaware.twin.empty_pools import lacking_cpus
from numaware.twin.errors import empty_shared_pool
from numaware.twin.topology.hints import Hint
from numaware.workload.demand import Demand


def allocate_pod(
    cpus: StaticCpus, state: CpuState, uid: str, wanted: Demand, init: int, hint: Hint
) -> CpuState:
    """The state after the pod got its own CPUs; its first `init` containers are init containers.

    KUBELET: nobody looks whether the pod has CPUs already. After a restart it is given others, and those it had belong to
    nobody: no removal brings them back, and the next restart finds that the state file does not add up.
    """
    if not wanted.cpus:
        return state
    if problem := lacking_cpus(wanted):
        raise empty_shared_pool(problem, "cpu")
    if cpus.options.full_pcpus_only:
        cpus.check_whole_cores(state, wanted.cpus)
    whole = cpus.pick(cpus.available(state), wanted.cpus, hint)
    owned = {**state.owned, uid: _parts(cpus, whole, wanted, init)}
    return CpuState(state.shared & ~whole, owned, state.reuse, state.pending, {**state.pods, uid: whole})


def _parts(cpus: StaticCpus, whole: int, wanted: Demand, init: int) -> dict[str, int]:
    """Container -> its CPUs out of the pod's own, for itself or shared with others.

    A sidecar keeps its CPUs, an ordinary init container leaves them to whoever comes; who shares gets what is left in the end,
    ordinary init containers all that no sidecar has yet.
    """
    parts: dict[str, int] = {}
    left = whole
    for index, container in enumerate(wanted.containers):
        if container.cpus:
            parts[container.name] = mine = cpus.take(left, container.cpus)
            if not container.ends:
                left &= ~mine
        elif container.ends and index < init:
            parts[container.name] = left
    return {container.name: parts.get(container.name, left) for container in wanted.containers}
