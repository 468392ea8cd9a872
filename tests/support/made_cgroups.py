"""Control groups of pods, written as kernels and kubelets of every kind arrange them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

Layout = Literal["v2-systemd", "v2-cgroupfs", "v1-systemd", "v1-cgroupfs"]
LAYOUTS: tuple[Layout, ...] = ("v2-systemd", "v2-cgroupfs", "v1-systemd", "v1-cgroupfs")
PAGE = 4096


def add_pod(
    root: Path, layout: Layout, uid: str, namespace: str, name: str, memory: Mapping[str, Mapping[int, int]]
) -> None:
    """A Burstable pod whose memory lies so: type -> NUMA node -> pages."""
    version, driver = layout.split("-")
    base = root / "sys/fs/cgroup" / ("memory" if version == "v1" else "")
    if driver == "systemd":
        group = (
            base
            / "kubepods.slice/kubepods-burstable.slice"
            / f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        )
    else:
        group = base / "kubepods/burstable" / f"pod{uid}"
    group.mkdir(parents=True)
    if version == "v2":
        lines = [
            f"{kind} " + " ".join(f"N{node}={pages * PAGE}" for node, pages in nodes.items())
            for kind, nodes in memory.items()
        ]
    else:
        # The pod itself uses nothing, its containers do.
        nothing = {kind: dict.fromkeys(nodes, 0) for kind, nodes in memory.items()}
        lines = ["total=0 N0=0 N1=0", *_version1("", nothing), "hierarchical_total=9 N0=9 N1=0"]
        lines += _version1("hierarchical_", memory)
    (group / "memory.numa_stat").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / f"var/log/pods/{namespace}_{name}_{uid}").mkdir(parents=True)


def _version1(prefix: str, memory: Mapping[str, Mapping[int, int]]) -> list[str]:
    return [
        f"{prefix}{kind}={sum(nodes.values())} "
        + " ".join(f"N{node}={pages}" for node, pages in nodes.items())
        for kind, nodes in memory.items()
    ]
