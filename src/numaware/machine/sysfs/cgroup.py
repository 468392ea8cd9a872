"""Which CPUs and NUMA nodes the cgroup of the reading (or capturing) process may use."""

from __future__ import annotations

from typing import NamedTuple

from numaware.machine.sysfs.source import Source

# Where distributions mount the hierarchies, and how each names its files.
_STANDARD = (
    ("sys/fs/cgroup", "cpuset.{}.effective"),
    ("sys/fs/cgroup/cpuset", "cpuset.{}"),
    ("dev/cpuset", "{}"),
)


class Allowed(NamedTuple):
    """Masks of CPUs and of memory nodes; None where nothing is forbidden."""

    cpus: int | None = None
    nodes: int | None = None


def read_allowed(source: Source) -> Allowed:
    """What the cpuset of the process in `/proc/self` allows."""
    mount = _mount(source)
    group = _group(source)
    if mount is None or group is None:
        return Allowed()
    folder, name = mount
    # A cpuset of cgroup v1 that nobody has filled in is empty and forbids nothing yet.
    return Allowed(
        source.cpu_list(f"{folder}{group}/{name.format('cpus')}") or None,
        source.cpu_list(f"{folder}{group}/{name.format('mems')}") or None,
    )


def _mount(source: Source) -> tuple[str, str] | None:
    """The folder of the cpuset hierarchy and the form of its file names."""
    for folder, name in _STANDARD:
        if source.tree.exists(f"{folder}/{name.format('cpus')}"):
            return folder, name
    for line in (source.text("proc/mounts") or "").splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        folder, kind, options = fields[1].strip("/"), fields[2], fields[3].split(",")
        if kind == "cgroup2" and "cpuset" in (source.text(f"{folder}/cgroup.controllers") or "").split():
            return folder, "cpuset.{}.effective"
        if kind == "cpuset" or (kind == "cgroup" and {"cpuset", "noprefix"} <= set(options)):
            return folder, "{}"
        if kind == "cgroup" and "cpuset" in options:
            return folder, "cpuset.{}"
    return None


def _group(source: Source) -> str | None:
    """The process's group in that hierarchy with a slash before it; the topmost group is the empty text."""
    name = source.text("proc/self/cpuset")
    if name is None:
        for line in (source.text("proc/self/cgroup") or "").splitlines():
            _, _, controllers_and_path = line.partition(":")
            controllers, _, path = controllers_and_path.partition(":")
            if controllers in ("", "cpuset"):
                name = path
                break
    return name.rstrip("/") if name is not None and name.startswith("/") else None
