"""What becomes of pods that talk to each other, in English."""

from __future__ import annotations

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "affinity-move": "move to NUMA {target}, saves {saving} between NUMA nodes",
    "affinity-pinned": "stays: the kubelet has given it CPUs or memory of its own",
    "affinity-not-chosen": "stays: its namespace, a Whitelist or the pod itself says so",
    "affinity-silent": "stays: it talks to nobody on this node",
    "affinity-cooling-down": "stays: it was moved a short while ago",
    "affinity-together": "stays: it sits with those it talks to already",
    "affinity-no-room": "stays: no NUMA node has room for it",
    "affinity-no-gain": "stays: no gain expected",
    "affinity-one-numa-node": "stays: there is one NUMA node, no gain is possible",
    "affinity-across": "{total} between pods, {before} of it between NUMA nodes; {after} after the plan",
    "affinity-nothing": "no pods talk to each other enough to count",
    "affinity-verified": "{processes} processes of {pods} pods, all where they should be",
    "affinity-astray": "{pod}: process {pid} may use CPUs {allowed}, should be {wanted}",
    "affinity-intruding": "{pod}: process {pid} may use CPUs {allowed}, which others have for themselves",
    "affinity-memory": "{pod}: process {pid} may have memory from NUMA {allowed}, should be {wanted}",
    "affinity-mode-observe": "observes only: nothing is moved",
    "affinity-mode-modelled": "modelled: the lab's pods have no processes",
    "affinity-mode-nri": "acts through NRI[[ of {runtime}]]",
    "affinity-mode-cgroup": "acts in the kernel's control groups",
    "affinity-stale": "written {seconds} s ago: the agent may have stopped",
    "affinity-measured": "{pod}: moved to NUMA {target}, {predicted} predicted[[, {measured} stays there now]]",
    "affinity-migrated": "{pod}: {moved} of its memory brought to NUMA {target} in {seconds} s, {left} could not be; no step took longer than {stall} µs",
    "affinity-nri-switch-on": "{runtime} does not listen for plug-ins: write {line} into the section [{section}] of {file} and restart it",
    "affinity-nri-elsewhere": "{runtime} listens elsewhere ({file}): start the agent with {line}",
    "affinity-nri-restart": "NRI is on in the configuration of {runtime}[[ ({file})]]: restart it, and see that the agent sees its socket",
    "affinity-nri-unreadable": "{file} of {runtime} cannot be understood: {problem}",
    "affinity-nri-without": "no container runtime with NRI is configured here: --affinity cgroup does without",
    "affinity-gain": "{pod} on NUMA {target}: {before} to and from other NUMA nodes before the move, {planned} predicted[[, {after} measured]]",
}
