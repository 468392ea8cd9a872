"""What a doctor sees and finds on a node, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "machine-unreadable": Text(
        "the machine cannot be read from /sys",
        "{message:sentence}",
        ("run it on the node, or give --root a folder or an archive with sys/ and proc/ in it",),
    ),
    "kubelet-not-running": Text(
        "no kubelet runs on this node",
        "Other processes are there, and none is called kubelet.",
        ("systemctl status kubelet\njournalctl -u kubelet -n 200 | numaware diagnose -",),
    ),
    "podresources-missing": Text(
        "the PodResources socket is not there",
        "Agents ask the kubelet on {file} who holds which CPUs, memory and devices. Without it they see nothing of the node.",
        (
            "start the kubelet; it makes the socket when it runs",
            "if the kubelet has another --root-dir, tell the agents",
        ),
    ),
    "state-stale-entries": Text(
        "{file} holds resources of {count} pods that are gone",
        "These pods have no folder under /var/lib/kubelet/pods any more, and still hold CPUs, memory or devices in the "
        "file: {uids:and}. The kubelet clears them away when it next looks at a pod, unless it is stuck.",
        (
            "systemctl restart kubelet   # if they are still there after the next pod was admitted",
            "numaware checkpoint show {file}",
        ),
    ),
    "nri-disabled": Text(
        "NRI is off in {runtime}",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
        (),
    ),
    "nri-disabled/containerd": Text(
        "NRI is off in containerd",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
        (
            (
                'in {file}:\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n'
                "then: systemctl restart containerd"
            ),
        ),
    ),
    "nri-disabled/crio": Text(
        "NRI is off in CRI-O",
        "Only programs that adjust containers while they run need it, such as moving talking pods together.",
        ("in {file}:\n[crio.nri]\nenable_nri = true\nthen: systemctl restart crio",),
    ),
    "cgroup-v1": Text(
        "control groups are of version 1",
        "Kubernetes has stopped to develop for them; memory of NUMA nodes and CPU sets work, newer features do not.",
        ("boot with systemd.unified_cgroup_hierarchy=1",),
    ),
    "cgroup-v1/stops": Text(
        "control groups are of version 1: a kubelet of {version} does not start",
        "From v1.35 on the kubelet refuses control groups of version 1 unless failCgroupV1 is false.",
        ("boot with systemd.unified_cgroup_hierarchy=1", "or for a while: failCgroupV1: false"),
    ),
    "cgroup-without-cpuset": Text(
        "the cpuset controller is missing",
        "The kernel does not offer cpuset in its control groups, so nothing can be bound to CPUs or NUMA nodes.",
        (
            "remove cgroup_disable=cpuset from the kernel's command line, or use a kernel built with CONFIG_CPUSETS",
        ),
    ),
    "cgroup-driver-mismatch": Text(
        "kubelet and containerd disagree on the cgroup driver: {kubelet} and {runtime}",
        "Two programs then manage the same control groups. Kubelets that ask the runtime (v1.31 and later) put it right by "
        "themselves.",
        (
            (
                'in {file}:\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
                "  SystemdCgroup = true"
            ),
            "cgroupDriver: systemd   # in the kubelet's configuration",
        ),
    ),
    "numad-running": Text(
        "numad runs beside the kubelet",
        "numad moves processes and their memory between NUMA nodes by its own rules, against what the kubelet decided.",
        ("systemctl disable --now numad",),
    ),
    "isolated-cpus-reserved": Text(
        "CPUs {common} are reserved for the system and isolated from it",
        "The kernel keeps its scheduler off the CPUs {isolated} (isolcpus), and the kubelet reserves {reserved} for the "
        "system's processes, which then crowd on what is left of them.",
        ("reserve CPUs that are not isolated, or take {common} out of isolcpus",),
    ),
}

LABELS: Mapping[str, str] = {
    "ok": "ok",
    "unknown": "unknown",
    "doctor-title": "{node}: {errors} errors, {warnings} warnings, {unknown} unknown, {ok} in order",
    "doctor-this-node": "this node",
    "doctor-machine": "{nodes} NUMA nodes, {cores} cores, {cpus} CPUs, {memory:size}",
    "doctor-no-machine": "/sys shows no machine",
    "doctor-no-processes": "no processes are to be seen",
    "doctor-kubelet-runs": "runs",
    "doctor-kubelet-stopped": "does not run",
    "doctor-config": "{file}",
    "doctor-policies": "{file}: CPU {cpu}, memory {memory}, topology {topology} by {scope}",
    "doctor-no-config": "no configuration found where kubelets keep it",
    "doctor-flags": "from {source}",
    "doctor-no-state": "{file} is not there",
    "doctor-state": "{file}",
    "doctor-restart": "the twin takes the state files back on this machine",
    "doctor-restart-never": "not tried: the configuration does not start",
    "doctor-restart-unknown": "not tried: {why}",
    "doctor-podresources": "{file}",
    "doctor-no-kubelet-folder": "{file} is not there or may not be read",
    "doctor-no-plugins": "no device plugin has registered",
    "doctor-plugins": "{resources:and}, {plugins} plugin sockets",
    "doctor-nri": "on in {runtime}",
    "doctor-nri-off": "off in {runtime}; only run-time adjustment of containers needs it",
    "doctor-nri-unknown": "{file} does not say",
    "doctor-no-runtime": "no containerd or CRI-O found",
    "doctor-no-runtime-config": "{runtime} runs without a configuration file",
    "doctor-cgroup-v2": "version 2",
    "doctor-cgroup-v1": "version 1",
    "doctor-no-cgroup": "/sys/fs/cgroup is not there",
    "doctor-driver": "kubelet {kubelet}, containerd {runtime}",
    "doctor-driver-unknown": "the kubelet or the runtime does not say",
    "doctor-services": "{names:and}",
    "doctor-not-isolated": "none",
    "doctor-isolated": "CPUs {isolated}",
    "doctor-forbidden": "{count} paths may not be read, {paths:and} among them; run as root",
    "check-machine": "machine",
    "check-kubelet": "kubelet",
    "check-kubelet-config": "kubelet configuration",
    "check-kubelet-flags": "kubelet flags",
    "check-cpu-state": "CPU state file",
    "check-memory-state": "memory state file",
    "check-device-state": "device state file",
    "check-restart": "kubelet restart",
    "check-podresources": "PodResources",
    "check-device-plugins": "device plugins",
    "check-nri": "NRI",
    "check-cgroup": "control groups",
    "check-cgroup-driver": "cgroup driver",
    "check-services": "services",
    "check-isolated-cpus": "isolated CPUs",
    "check-permissions": "permissions",
}
