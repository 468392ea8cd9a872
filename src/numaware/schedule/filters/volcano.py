"""Volcano's rule: a pod that names a topology policy goes only to nodes whose kubelet has that very policy.

Mirrors `filterNodeByPolicy` of Volcano's numa-aware plugin (v1.16), with its words. The annotation is what Volcano's
own Job controller makes of a task's `topologyPolicy`, and what the manifest reader makes of it here.
"""

from __future__ import annotations

from numaware.diagnose.reason import Reason
from numaware.machine.words import printable
from numaware.schedule.node_facts import NodeFacts
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class
from numaware.workload.scheduling import VOLCANO_POLICY

NO_NUMA_INFO = Reason("volcano-no-numa-info")
NOT_STATIC = Reason("volcano-cpu-policy")


def volcano_reason(pod: Pod, facts: NodeFacts) -> Reason | None:
    """Why Volcano would not look at the node for this pod; only Guaranteed pods that name a policy can be refused."""
    policy = pod.scheduling.annotation(VOLCANO_POLICY)
    if policy in ("", "none") or qos_class(pod) != "Guaranteed":
        return None
    if facts.topology_policy is None or facts.cpu_policy is None:
        return NO_NUMA_INFO
    if facts.cpu_policy != "static":
        return NOT_STATIC
    if policy != facts.topology_policy:
        return Reason("volcano-policy", (printable(policy, 80), facts.topology_policy))
    return None
