"""Which plugin of kube-scheduler keeps a pod off a node for a reason of ours, for dashboards that count pods by plugin.

What none of its plugins asks about (the kubelet's NUMA nodes and devices, what is not known of a node, room that is kept) is ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.reason import Code

OURS = "numaware"
_PLUGINS: Mapping[Code, str] = {
    "scheduling-gates": "SchedulingGates",
    "unschedulable": "NodeUnschedulable",
    "node-name": "NodeName",
    "untolerated-taint": "TaintToleration",
    "node-affinity": "NodeAffinity",
    "host-ports": "NodePorts",
    "insufficient": "NodeResourcesFit",
    "too-many-pods": "NodeResourcesFit",
    "room-nominated": "NodeResourcesFit",
    "disk-conflict": "VolumeRestrictions",
    "claim-in-use": "VolumeRestrictions",
    "claim-missing": "VolumeRestrictions",
    "volume-limit": "NodeVolumeLimits",
    "volume-driver": "NodeVolumeLimits",
    **dict.fromkeys(
        (
            "volume-binding",
            "volume-affinity",
            "volume-space",
            "volume-missing",
            "claims",
            "claims-unbound",
            "claim-awaited",
            "claim-deleted",
            "claim-foreign",
            "claim-lost",
        ),
        "VolumeBinding",
    ),
    "volume-zone": "VolumeZone",
    "topology-spread": "PodTopologySpread",
    "topology-spread-label": "PodTopologySpread",
    "pod-affinity": "InterPodAffinity",
    "pod-anti-affinity": "InterPodAffinity",
    "existing-anti-affinity": "InterPodAffinity",
    "node-features": "NodeDeclaredFeatures",
    "allocations": "DynamicResources",
    "dra-resources": "DynamicResources",
    "pod-group": "GangScheduling",
}


def plugin_of(code: Code) -> str:
    """The plugin's name."""
    return _PLUGINS.get(code, OURS)
