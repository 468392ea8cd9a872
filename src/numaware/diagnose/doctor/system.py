"""What a kubelet stands on: the container runtime and its NRI, control groups, services, CPUs kept by the kernel."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from numaware.diagnose.doctor.check import Check, checked, unknown
from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.diagnose.finding import Evidence, Message, Subject, finding
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.twin.config import KubeletConfig
from numaware.twin.rules import rules_for

_CONTAINERD = "etc/containerd/config.toml"
_CRIO = "etc/crio/crio.conf"
_CRIO_PARTS = "etc/crio/crio.conf.d"
_NRI_PLUGIN = "io.containerd.nri.v1.nri"
_NRI_SOCKETS = ("run/nri/nri.sock", "var/run/nri/nri.sock")
_CGROUP = "sys/fs/cgroup"
# From this release on a kubelet does not start on control groups of version 1 unless told to.
_NO_CGROUP_V1 = 35
_SYSTEMD_CGROUP = re.compile(rb"^\s*SystemdCgroup\s*=\s*(true|false)", re.MULTILINE)


def runtime_check(root: NodeRoot, processes: Mapping[str, bytes] | None) -> Check:
    """Whether NRI plugins can adjust containers."""
    name = next((one for one in ("containerd", "crio") if one in (processes or {})), "")
    if any(root.exists(path) for path in _NRI_SOCKETS):
        return checked("nri", Message("doctor-nri", {"runtime": name or "?"}))
    place = root.first((_CONTAINERD, _CRIO))
    if place is None:
        if not name:
            return unknown("nri", Message("doctor-no-runtime"))
        return unknown("nri", Message("doctor-no-runtime-config", {"runtime": name}))
    path, data = place
    enabled = _containerd_nri(data) if path == _CONTAINERD else _crio_nri(root, data)
    facts = {"runtime": "containerd" if path == _CONTAINERD else "crio", "file": f"/{path}"}
    if enabled is None and not name:
        return unknown("nri", Message("doctor-nri-unknown", facts))
    if enabled:
        return checked("nri", Message("doctor-nri", facts))
    found = finding(
        "nri-disabled", Subject("Node"), facts, [Evidence(f"/{path}")], variant=str(facts["runtime"])
    )
    return checked("nri", Message("doctor-nri-off", facts), [found])


def _containerd_nri(data: bytes) -> bool | None:
    """What the file says, or since containerd 2 (files of version 3) that it is on; None where nothing says it."""
    document = _toml(data)
    if document is None:
        return None
    plugins = document.get("plugins")
    section = plugins.get(_NRI_PLUGIN) if isinstance(plugins, dict) else None
    disabled = section.get("disable") if isinstance(section, dict) else None
    if isinstance(disabled, bool):
        return not disabled
    version = document.get("version")
    return True if isinstance(version, int) and version >= 3 else None


def _crio_nri(root: NodeRoot, data: bytes) -> bool | None:
    """What the last part says that says anything."""
    enabled: bool | None = None
    parts = [root.read(f"{_CRIO_PARTS}/{name}") or b"" for name in root.names(_CRIO_PARTS)[:100]]
    for part in (data, *parts):
        document = _toml(part) or {}
        crio = document.get("crio")
        section = crio.get("nri") if isinstance(crio, dict) else None
        value = section.get("enable_nri") if isinstance(section, dict) else None
        enabled = value if isinstance(value, bool) else enabled
    return enabled


def _toml(data: bytes) -> dict[str, Any] | None:
    try:
        return tomllib.loads(data.decode(errors="replace"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def cgroup_check(root: NodeRoot, fail_on_v1: str, version: str) -> Check:
    """Version 2 with the cpuset controller is what pinning rests on."""
    controllers = root.read(f"{_CGROUP}/cgroup.controllers")
    if controllers is not None:
        words = controllers.decode(errors="replace").split()
        if "cpuset" in words:
            return checked("cgroup", Message("doctor-cgroup-v2"))
        found = finding(
            "cgroup-without-cpuset", Subject("Node"), {}, [Evidence(f"/{_CGROUP}/cgroup.controllers")]
        )
        return checked("cgroup", Message("doctor-cgroup-v2"), [found])
    if not root.names(_CGROUP):
        return unknown("cgroup", Message("doctor-no-cgroup"))
    stops = rules_for(version).minor >= _NO_CGROUP_V1 and fail_on_v1 != "false"
    found = finding(
        "cgroup-v1",
        Subject("Node"),
        {"version": version},
        [Evidence(f"/{_CGROUP}")],
        severity="error" if stops else "warning",
        variant="stops" if stops else "",
    )
    return checked("cgroup", Message("doctor-cgroup-v1"), [found])


def driver_check(root: NodeRoot, kubelet_driver: str) -> Check:
    """The kubelet and the runtime have to agree on who keeps the control groups."""
    data = root.read(_CONTAINERD)
    match = _SYSTEMD_CGROUP.search(data) if data else None
    if match is None or not kubelet_driver:
        return unknown("cgroup-driver", Message("doctor-driver-unknown"))
    runtime = "systemd" if match[1] == b"true" else "cgroupfs"
    facts = {"kubelet": kubelet_driver, "runtime": runtime, "file": f"/{_CONTAINERD}"}
    seen = Message("doctor-driver", facts)
    if runtime == kubelet_driver:
        return checked("cgroup-driver", seen)
    found = finding("cgroup-driver-mismatch", Subject("Node"), facts, [Evidence(f"/{_CONTAINERD}")])
    return checked("cgroup-driver", seen, [found])


def services_check(processes: Mapping[str, bytes] | None) -> Check:
    """Services that move processes between CPUs behind the kubelet's back."""
    if processes is None:
        return unknown("services", Message("doctor-no-processes"))
    names = [
        name
        for name in ("kubelet", "containerd", "crio", "irqbalance", "tuned", "numad")
        if name in processes
    ]
    seen = Message("doctor-services", {"names": names or ["-"]})
    if "numad" not in processes:
        return checked("services", seen)
    return checked("services", seen, [finding("numad-running", Subject("Node"), {}, [Evidence("/proc")])])


def isolation_check(machine: Machine | None, config: KubeletConfig | None) -> Check:
    """CPUs that the kernel isolates are no place for the system's own work, which the kubelet reserves CPUs for."""
    if machine is None:
        return unknown("isolated-cpus", Message("doctor-no-machine"))
    if not machine.isolated:
        return checked("isolated-cpus", Message("doctor-not-isolated"))
    facts: dict[str, Any] = {"isolated": str(machine.isolated)}
    seen = Message("doctor-isolated", facts)
    try:
        reserved = CpuSet.parse((config.reserved_cpus if config else None) or "")
    except ValueError:
        reserved = CpuSet()
    common = reserved & machine.isolated
    if not common:
        return checked("isolated-cpus", seen)
    facts = {**facts, "reserved": str(reserved), "common": str(common)}
    found = finding(
        "isolated-cpus-reserved", Subject("Node"), facts, [Evidence("/sys/devices/system/cpu/isolated")]
    )
    return checked("isolated-cpus", seen, [found])
