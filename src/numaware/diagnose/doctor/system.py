"""What a kubelet stands on: the container runtime and its NRI, control groups, services, CPUs kept by the kernel."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from numaware.diagnose.doctor.check import Check, checked, trouble, unknown
from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.diagnose.finding import Message, Severity
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
_SERVICES = ("kubelet", "containerd", "crio", "irqbalance", "tuned", "numad")
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
    disabled = trouble("nri-disabled", f"/{path}", facts, variant=facts["runtime"])
    return checked("nri", Message("doctor-nri-off", facts), [disabled])


def _containerd_nri(data: bytes) -> bool | None:
    """What the file says, or since containerd 2 (files of version 3) that it is on; None where nothing says it."""
    disabled = _setting(data, "plugins", _NRI_PLUGIN, "disable")
    if isinstance(disabled, bool):
        return not disabled
    version = _setting(data, "version")
    return True if isinstance(version, int) and version >= 3 else None


def _crio_nri(root: NodeRoot, data: bytes) -> bool | None:
    """What the last part says that says anything."""
    enabled: bool | None = None
    parts = [root.read(f"{_CRIO_PARTS}/{name}") or b"" for name in root.names(_CRIO_PARTS)[:100]]
    for part in (data, *parts):
        value = _setting(part, "crio", "nri", "enable_nri")
        enabled = value if isinstance(value, bool) else enabled
    return enabled


def _setting(data: bytes, *keys: str) -> Any:
    """What a TOML file says under these keys, None where it does not."""
    try:
        value: Any = tomllib.loads(data.decode(errors="replace"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def cgroup_check(root: NodeRoot, fail_on_v1: str, version: str) -> Check:
    """Version 2 with the cpuset controller is what pinning rests on."""
    controllers = root.read(f"{_CGROUP}/cgroup.controllers")
    if controllers is not None:
        missing = b"cpuset" not in controllers.split()
        problems = [trouble("cgroup-without-cpuset", f"/{_CGROUP}/cgroup.controllers")] if missing else []
        return checked("cgroup", Message("doctor-cgroup-v2"), problems)
    if not root.names(_CGROUP):
        return unknown("cgroup", Message("doctor-no-cgroup"))
    stops = rules_for(version).minor >= _NO_CGROUP_V1 and fail_on_v1 != "false"
    severity: Severity = "error" if stops else "warning"
    variant, facts = "stops" if stops else "", {"version": version}
    problem = trouble("cgroup-v1", f"/{_CGROUP}", facts, severity=severity, variant=variant)
    return checked("cgroup", Message("doctor-cgroup-v1"), [problem])


def driver_check(root: NodeRoot, kubelet_driver: str) -> Check:
    """The kubelet and the runtime have to agree on who keeps the control groups."""
    data = root.read(_CONTAINERD)
    match = _SYSTEMD_CGROUP.search(data) if data else None
    if match is None or not kubelet_driver:
        return unknown("cgroup-driver", Message("doctor-driver-unknown"))
    runtime = "systemd" if match[1] == b"true" else "cgroupfs"
    facts = {"kubelet": kubelet_driver, "runtime": runtime, "file": f"/{_CONTAINERD}"}
    seen = Message("doctor-driver", facts)
    differ = runtime != kubelet_driver
    mismatch = [trouble("cgroup-driver-mismatch", f"/{_CONTAINERD}", facts)] if differ else []
    return checked("cgroup-driver", seen, mismatch)


def services_check(processes: Mapping[str, bytes] | None) -> Check:
    """Services that move processes between CPUs behind the kubelet's back."""
    if processes is None:
        return unknown("services", Message("doctor-no-processes"))
    names = [name for name in _SERVICES if name in processes]
    seen = Message("doctor-services", {"names": names or ["-"]})
    return checked("services", seen, [trouble("numad-running", "/proc")] if "numad" in processes else [])


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
    overlap = trouble("isolated-cpus-reserved", "/sys/devices/system/cpu/isolated", facts)
    return checked("isolated-cpus", seen, [overlap])
