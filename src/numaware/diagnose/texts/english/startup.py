"""Kubelets that do not start, or would not, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

_RESTART_CPU = (
    "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data\n"
    "systemctl stop kubelet\n"
    "rm /var/lib/kubelet/cpu_manager_state\n"
    "systemctl start kubelet\n"
    "kubectl uncordon NODE"
)
_RESTART_MEMORY = _RESTART_CPU.replace("cpu_manager_state", "memory_manager_state")
_REST_NOT_KNOWN = (
    "What comes after that is not known. What is told here comes from the part before; that nothing more was found does not "
    "mean that all is well."
)
_AGAIN = "copy or make the file again, and compare its size with that of the original"

TEXTS: Mapping[str, Text] = {
    "cpu-manager-no-reserved-cpus": text(
        "the kubelet does not start: the static CPU manager needs reserved CPUs",
        "cpuManagerPolicy static gives CPUs away for good, so some have to be reserved for the system, and no CPU is: "
        "kubeReserved.cpu, systemReserved.cpu and reservedSystemCPUs are all missing or zero.",
        'kubeReserved:\n  cpu: "1"',
        "or name the CPUs themselves:\n"
        'reservedSystemCPUs: "0,1"   # whole cores, on the NUMA node of the network card',
    ),
    "cpu-manager-reserved-cpus-wrong": text(
        "the kubelet does not start: the CPU reservation cannot be met",
        "The static CPU manager could not set its reserved CPUs aside: {message}",
        "reserve no more CPUs than the machine has, and name only CPUs that are online",
    ),
    "cpu-manager-state-policy-mismatch": text(
        'the kubelet does not start: cpu_manager_state is of policy "{stored}", configured is "{configured}"',
        "The state file {file} was written under policy {stored}. The kubelet is now set to {configured} and does not "
        "guess which containers run on which CPUs, so it will not start.",
        f"drain the node, stop the kubelet, delete /var/lib/kubelet/cpu_manager_state, start it:\n{_RESTART_CPU}",
        'or go back to the policy of the file:\ncpuManagerPolicy: "{stored}"',
    ),
    "cpu-manager-state-reserved-mismatch": text(
        "the kubelet does not start: cpu_manager_state does not fit the machine or the reservation",
        "{message:sentence} The file was written when other CPUs were reserved or online"
        "[[ ({reserved} reserved now)]][[ ({online} online now)]][[, {stored} in the file]].",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_CPU}",
    ),
    "cpu-manager-state-corrupt": text(
        "cpu_manager_state is corrupt[[: {problem}]]",
        "The checksum of the file does not fit its content, or the content cannot be read; the kubelet does not start "
        "with it. A full disk, an edit by hand or a downgrade of the kubelet does this.",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_CPU}",
    ),
    "memory-manager-reserved-memory-mismatch": text(
        "the kubelet does not start: reservedMemory adds up to {found}, not to {wanted}[[: {tooMuch} too much]][[: {tooLittle} too "
        "little]][[ ({resource})]]",
        "memoryManagerPolicy Static asks that reservedMemory, over all NUMA nodes, is exactly what is kept back from "
        "pods: kubeReserved[[ ({kubeReserved})]] + systemReserved[[ ({systemReserved})]] + evictionHard"
        "[[ ({evictionHard})]] = {wanted}. It is {found}[[, {tooMuch} too much]][[, {tooLittle} too little]].",
        "make reservedMemory add up to {wanted} over the NUMA nodes[[, for example:\n{example}]]",
        "or give up NUMA-aware memory:\nmemoryManagerPolicy: None",
    ),
    "memory-manager-reserved-memory-mismatch/no-such-node": text(
        "the kubelet does not start: reservedMemory names NUMA node {numaNode}, which is not there",
        "{message:sentence} NUMA nodes are numbered as numactl --hardware shows them.",
        "give the reservation to a NUMA node that the machine has; the sum over all nodes stays the same",
    ),
    "memory-manager-reserved-memory-mismatch/nothing-reserved": text(
        "the kubelet does not start: memoryManagerPolicy Static without reservedMemory",
        "The Memory Manager asks that some memory of some NUMA node is kept for the system: {message}.",
        "systemReserved:\n  memory: 1Gi\nevictionHard:\n  memory.available: 100Mi\nreservedMemory:\n- numaNode: 0\n"
        "  limits:\n    memory: 1124Mi   # 1Gi + 100Mi",
        "or give up NUMA-aware memory:\nmemoryManagerPolicy: None",
    ),
    "memory-manager-state-mismatch/policy": text(
        'the kubelet does not start: memory_manager_state is of policy "{stored}", configured is "{configured}"',
        "The state file {file} was written under policy {stored}. The kubelet is now set to {configured} and will not "
        "start with it.",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_MEMORY}",
        'or go back to the policy of the file:\nmemoryManagerPolicy: "{stored}"',
    ),
    "memory-manager-state-mismatch": text(
        "the kubelet does not start: memory_manager_state does not fit[[ ({problem})]]",
        "The state file was written under another policy, another reservation, or on another machine: {message}",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_MEMORY}",
    ),
    "memory-manager-state-corrupt": text(
        "memory_manager_state is corrupt[[: {problem}]]",
        "The checksum of the file does not fit its content, or the content cannot be read; the kubelet does not start "
        "with it.",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_MEMORY}",
    ),
    "memory-manager-state-corrupt/renamed": text(
        "memory_manager_state is not one that a kubelet wrote[[: {problem}]]",
        'Its groups of NUMA nodes are called "nodes", where a kubelet writes "cells": an example from documentation, or '
        "edited by hand. A kubelet does not start with it.",
        f"drain the node and let the kubelet begin anew:\n{_RESTART_MEMORY}",
    ),
    "device-manager-state-corrupt": text(
        "kubelet_internal_checkpoint is corrupt[[: {problem}]]",
        "The checksum of the file does not fit its content. The kubelet forgets who holds which device and may give "
        "devices away twice.",
        "drain the node and restart the kubelet; running pods keep their devices until then",
    ),
    "too-many-numa-nodes": text(
        "the kubelet does not start: more NUMA nodes[[ ({found})]] than the {most} allowed",
        "The Topology Manager tries every set of NUMA nodes, and their number doubles with each node; beyond {most} "
        "nodes it refuses to start[[ under policy {policy}]].",
        'raise the limit (kubelet 1.31 and later):\ntopologyManagerPolicyOptions:\n  max-allowable-numa-nodes: "{found}"',
        "or show fewer NUMA nodes: set NPS or SNC lower in the firmware",
        "or turn the Topology Manager off:\ntopologyManagerPolicy: none",
    ),
    "unknown-policy": text(
        'the kubelet does not start: unknown policy "{given}"',
        "{message:sentence}",
        "{field}: {near}",
        "use one of: {allowed:or}",
    ),
    "unknown-policy/platform": text(
        'the kubelet does not start: policy "{given}" is not there on {platform}',
        "{message:sentence} Kubelets know the policy, but it was made for another operating system: the Memory Manager has "
        "BestEffort on Windows, and Static elsewhere.",
        "memoryManagerPolicy: None",
        "or, with memory reserved for the system:\nmemoryManagerPolicy: Static",
    ),
    "unknown-policy-option": text(
        'the kubelet does not start: unknown policy option "{option}"',
        "[[A kubelet of this version does not know the {manager} policy option {option}. ]]{message:sentence}",
        "did you mean {near}?",
        "remove {option}, or use a kubelet that knows it[[ ({since} and later)]]",
    ),
    "policy-option-needs-gate": text(
        'the kubelet does not start: policy option "{option}" is behind the feature gate {gate}',
        "The option {option} is {stage}, and options of that stage need the gate {gate}, which is closed.",
        "featureGates:\n  {gate}: true",
        "or remove {option}",
    ),
    "incompatible-policy-options": text(
        "the kubelet does not start: policy options exclude each other[[: {options:and}]]",
        "{message:sentence}",
        "keep one of {options:and}",
    ),
    "incompatible-policy-options/none-policy": text(
        "the kubelet does not start: cpuManagerPolicyOptions without cpuManagerPolicy static",
        "Options belong to the static policy. {message:sentence}",
        "cpuManagerPolicy: static   # and reserve CPUs for the system",
        "or remove cpuManagerPolicyOptions",
    ),
    "incompatible-policy-options/hardware": text(
        "the kubelet does not start: align-by-socket does not fit this machine",
        "{message:sentence} It has more sockets than NUMA nodes.",
        "remove align-by-socket from cpuManagerPolicyOptions",
    ),
    "incompatible-policy-options/no-distances": text(
        "the kubelet does not start: prefer-closest-numa-nodes does not fit this machine",
        "{message:sentence} The option chooses NUMA nodes by the distances between them, and the machine does not tell all "
        "of these.",
        "remove prefer-closest-numa-nodes from topologyManagerPolicyOptions",
        "see what the kernel knows, and in a virtual machine pass the distances through:\n"
        "cat /sys/devices/system/node/node*/distance",
    ),
    "kubelet-configuration-invalid": text(
        "the kubelet does not start: {path} is not valid", "{message:sentence}", "{fix}"
    ),
    "kubelet-configuration-invalid/gate": text(
        "the kubelet does not start: {path} is not valid",
        "{message:sentence} Gates come and go with the releases: what is finished is locked, and then gone.",
        "remove {gate} from featureGates",
    ),
    "evidence-incomplete": text(
        "{file} {problem}: nothing of it was read",
        _REST_NOT_KNOWN,
        _AGAIN,
    ),
    "evidence-incomplete/bytes": text(
        "{file} {problem}: read up to {bytes:size}",
        _REST_NOT_KNOWN,
        _AGAIN,
    ),
    "evidence-incomplete/member": text(
        "{file} {problem}: read up to {member}",
        _REST_NOT_KNOWN,
        _AGAIN,
    ),
    "nothing-recognised": text(
        "nothing here could be read as evidence, so nothing was found out",
        "[[{unread:unread}. ]]That no problem is shown does not mean that there is none.",
        "name the unit in which the kubelet runs:\njournalctl -u kubelet   # or k3s, k3s-agent, rke2-server, rke2-agent",
        "numaware diagnose --help says what can be read",
    ),
    "not-a-kubelet-configuration": text(
        "{file} is not a KubeletConfiguration",
        "It has settings of the Topology Manager[[ ({settings:and})]] where no kubelet looks for them[[, under "
        "{under}]]: they change nothing there.",
        "put them at the top of a KubeletConfiguration:\n"
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{yaml}",
    ),
}
