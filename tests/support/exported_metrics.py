"""The metrics that the agent promises: names, and the labels of each besides `node`."""

from __future__ import annotations

import re
from pathlib import Path

# Everything that a scrape of a healthy node with a pod has in it.
CATALOGUE: dict[str, frozenset[str]] = {
    "numa_nodes": frozenset(),
    "numa_node_cpus_count": frozenset({"numa"}),
    "numa_node_info": frozenset({"numa", "cpulist", "socket", "kind"}),
    "numa_node_distance": frozenset({"numa", "to"}),
    "numa_node_device_info": frozenset({"numa", "device", "class"}),
    "numa_node_cpu_seconds_total": frozenset({"numa", "mode"}),
    "numa_node_cpu_usage_ratio": frozenset({"numa"}),
    **{
        f"numa_node_cpus_{use}": frozenset({"numa"})
        for use in ("reserved", "exclusive", "shared", "allocatable")
    },
    **{
        f"numa_node_memory_{kind}_bytes": frozenset({"numa"})
        for kind in ("total", "free", "used", "available", "filecache", "anon", "slab")
    },
    "numa_node_hugepages": frozenset({"numa", "size"}),
    "numa_node_hugepages_free": frozenset({"numa", "size"}),
    **{
        f"numa_node_{kind}_pages_total": frozenset({"numa"})
        for kind in ("hit", "miss", "foreign", "interleave_hit", "local", "other")
    },
    "numa_pod_cpus": frozenset({"numa", "namespace", "pod", "container"}),
    "numa_pod_memory_bytes": frozenset({"numa", "namespace", "pod", "type"}),
    "numa_pod_spread": frozenset({"namespace", "pod"}),
    "numa_pod_remote_memory_ratio": frozenset({"namespace", "pod"}),
    "numa_topology_policy_info": frozenset({"policy", "scope", "cpu_manager", "memory_manager"}),
    "numa_exporter_build_info": frozenset({"version"}),
    "numa_exporter_scrape_errors_total": frozenset({"source"}),
    "numa_exporter_pods_left_out": frozenset(),
}
# What there is only while something is wrong, or only of a publisher.
SOMETIMES: dict[str, frozenset[str]] = {
    "numa_exporter_trouble": frozenset({"source", "cause"}),
    "numa_dra_devices": frozenset({"driver", "numa"}),
    "numa_node_pods_lost_at_restart": frozenset({"reason"}),
    "numa_node_restart_stops_kubelet": frozenset(),
    "numaware_agent_writes_total": frozenset(),
    "numaware_agent_scans_total": frozenset(),
    "numaware_agent_last_success_timestamp_seconds": frozenset(),
    "numaware_agent_scan_duration_seconds": frozenset(),
}
# Named by openFuyao's guide, whose dashboards and queries ask for it; Prometheus keeps `_count` for histograms.
DICTATED = {"numa_node_cpus_count"}
_NAME = re.compile(r"\b(?:numa|numaware)_[a-z_]+\b")


def named_in(path: Path) -> set[str]:
    """All of our metrics that a file speaks of."""
    return set(_NAME.findall(path.read_text(encoding="utf-8")))
