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
    group = _group(root, layout, uid, "memory")
    group.mkdir(parents=True)
    if layout.startswith("v2"):
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


def add_container(root: Path, layout: Layout, uid: str, container: str, cpus: str, mems: str) -> Path:
    """A container of that pod with one process and these CPUs and memory nodes; the folder where they stand."""
    name = f"cri-containerd-{container}.scope" if layout.endswith("systemd") else container
    groups = [_group(root, layout, uid, controller) / name for controller in ("memory", "cpuset")]
    for group in groups:
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text("42\n")
    folder = groups[-1]
    for file, value in (("cpuset.cpus", cpus), ("cpuset.mems", mems)):
        (folder / file).write_text(f"{value}\n")
    return folder


def _group(root: Path, layout: Layout, uid: str, controller: str) -> Path:
    version, driver = layout.split("-")
    base = root / "sys/fs/cgroup" / (controller if version == "v1" else "")
    if driver == "systemd":
        slices = base / "kubepods.slice/kubepods-burstable.slice"
        return slices / f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    return base / "kubepods/burstable" / f"pod{uid}"


def _version1(prefix: str, memory: Mapping[str, Mapping[int, int]]) -> list[str]:
    return [
        f"{prefix}{kind}={sum(nodes.values())} "
        + " ".join(f"N{node}={pages}" for node, pages in nodes.items())
        for kind, nodes in memory.items()
    ]
