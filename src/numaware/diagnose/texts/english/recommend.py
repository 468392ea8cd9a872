"""The reasons for each line of a recommended kubelet configuration, in English."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "recommend-title": "Kubelet configuration for {purpose} on {machine}, kubelet {version}.",
    "recommend-machine": "{nodes:numa}, {cores:cores}, {cpus:cpus}[[, {memory:size}]][[, {devices:and}]]",
    "recommend-proof": (
        "Tried on the twin of this kubelet: it starts, and admits a pod of {asked:and} on {where:nodes}."
    ),
    "recommend-proof-shared": "Tried on the twin of this kubelet: it starts, and admits a pod of {asked:and}.",
    "recommend-note": "Note: {text}",
    "recommend-apply": (
        "To apply: drain the node, stop the kubelet, remove /var/lib/kubelet/cpu_manager_state and "
        "memory_manager_state, put this in place, start the kubelet, uncordon the node."
    ),
    "recommend-cpu-static": "Guaranteed pods that ask for whole CPUs get CPUs of their own.",
    "recommend-cpu-none": "One core cannot be given away for good, so CPUs are shared.",
    "recommend-full-pcpus-only": (
        "full-pcpus-only: no two pods share a core, so ask for CPUs in multiples of the threads of a core. Beware: after a "
        "restart of the kubelet a running pod is refused if fewer CPUs are free than it has; keep that many free, or "
        "drain first."
    ),
    "recommend-strict-cpu-reservation": (
        "strict-cpu-reservation: no pod at all runs on the reserved CPUs. Beware: a kubelet whose other CPUs are all given "
        "away does not start again; keep one core free of Guaranteed pods."
    ),
    "recommend-prefer-align-cpus-by-uncorecache": (
        "prefer-align-cpus-by-uncorecache: a container gets CPUs that share one last-level cache where it fits."
    ),
    "recommend-distribute-cpus-across-numa": (
        "distribute-cpus-across-numa: a pod larger than one NUMA node gets the same number of CPUs from each, so that "
        "its memory bandwidth grows with it."
    ),
    "recommend-reserved-cpus": (
        "{count} of {of} CPUs, {cores} whole cores on {nodes:nodes}, are for the system and for pods without CPUs of their "
        "own: the core the kernel started on, then from NUMA nodes without GPUs and with the network card, or from each "
        "NUMA node in turn where all are alike."
    ),
    "recommend-ai-training": (
        "restricted: CPUs, memory and GPUs of a pod come from the fewest NUMA nodes they can, or the pod is refused; a "
        "pod with all GPUs may still span the machine."
    ),
    "recommend-inference": (
        "single-numa-node: CPUs and memory come from the NUMA node of the pod's GPU, or the pod is refused."
    ),
    "recommend-latency": "single-numa-node: nothing of a pod is ever on the far side of the machine.",
    "recommend-database": (
        "restricted: a pod stays on one NUMA node if it can fit one, and a larger one gets as few as possible."
    ),
    "recommend-mixed": (
        "best-effort: pods are aligned where possible and never refused for it, since many here do not care."
    ),
    "recommend-topology-none": "The Topology Manager is off: with so many NUMA nodes it would take too long.",
    "recommend-scope-pod": "All containers of a pod share the same NUMA nodes.",
    "recommend-scope-container": "Each container is placed by itself.",
    "recommend-max-allowable-numa-nodes": (
        "max-allowable-numa-nodes: without it a kubelet does not start on more than 8 NUMA nodes."
    ),
    "recommend-prefer-closest-numa-nodes": (
        "prefer-closest-numa-nodes: a pod that needs several NUMA nodes gets such as are near each other."
    ),
    "recommend-memory-static": "Memory of Guaranteed pods comes from the NUMA nodes of their CPUs.",
    "recommend-memory-none": "Memory is left to the kernel, which prefers the NUMA node of the CPU that asks first.",
    "recommend-kube-reserved": (
        "For the kubelet and the container runtime: 25 % of the first 4 GiB, 20 % of the next 4, 10 % of the next 8, 6 % "
        "up to 128 GiB, 2 % of the rest, and never more than a quarter."
    ),
    "recommend-system-reserved": "For system daemons and the kernel: 1 GiB, or a sixteenth of a small machine.",
    "recommend-eviction": (
        "Pods are evicted when less than this is left. In bytes, since a percentage would make the sum below depend on "
        "the machine to the byte. The other signals are the kubelet's defaults, which are lost once any is set."
    ),
    "recommend-reserved-memory": (
        "Must be exactly kubeReserved + systemReserved + evictionHard: {kube} + {system} + {eviction} = {total}, or the "
        "kubelet does not start. Split over the NUMA nodes by their size."
    ),
    "recommend-one-core": "The machine has one core: pods cannot be pinned.",
    "recommend-later": "{option} would help, but a kubelet of {version} does not have it without a feature gate.",
    "recommend-too-many-nodes": (
        "With {count} NUMA nodes this kubelet cannot align pods in reasonable time; fewer NUMA nodes per socket (NPS, SNC) "
        "in the firmware would change that."
    ),
    "recommend-memory-later": "A kubelet of v1.{minor} has no Memory Manager without a feature gate.",
    "recommend-memory-assumed": (
        "The short form says no mem=: {size:size} for each NUMA node are assumed, and what is reserved rests on it."
    ),
    "recommend-memory-unknown": "The memory of this machine is not known, or very little: the Memory Manager stays off.",
    "recommend-memory-slow": (
        "With {count} NUMA nodes the kubelet would take seconds to hours over a pod if memory were aligned too; "
        "single-numa-node workloads can afford it."
    ),
}
