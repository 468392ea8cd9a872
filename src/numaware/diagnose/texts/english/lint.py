"""What is found in files before they are applied, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

TEXTS: Mapping[str, Text] = {
    "cpu-manager-no-reserved-cpus/on-a-base": text(
        "no CPU is reserved here, and the static CPU manager needs one",
        "cpuManagerPolicy static starts only with reserved CPUs. None is in this file; it is laid over a base "
        "configuration, which may have systemReserved.cpu or kubeReserved.cpu.",
        "name the CPUs, so that it does not depend on the base:\n"
        'reservedSystemCPUs: "0,1"   # whole cores, on the NUMA node of the network card',
    ),
    "memory-manager-reserved-memory-mismatch/not-reservable": text(
        "the kubelet does not start: reservedMemory keeps {found} of {resource}, and nothing asks for it",
        "What reservedMemory keeps of each kind has to be what is reserved on the node as a whole, and {resource} is "
        "reserved by none of kubeReserved, systemReserved and evictionHard: its sum has to be 0.",
        "remove {resource} from reservedMemory",
    ),
    "memory-manager-reserved-memory-mismatch/unbacked": text(
        "the kubelet does not start: reservedMemory keeps {found}, and nothing is reserved on the node as a whole",
        "reservedMemory only says where the memory is kept that kubeReserved, systemReserved and evictionHard keep back "
        "together, and here they keep back none.",
        "systemReserved:\n  memory: {found}",
    ),
    "policy-option-needs-gate/all": text(
        "the kubelet does not start: policy options are behind the feature gate {gate}",
        "{message:sentence} Kubelets of this version take no policy option at all while the gate {gate} is closed"
        "[[ ({options:and})]].",
        "featureGates:\n  {gate}: true",
        "or remove the options",
    ),
    "incompatible-policy-options/distribute-on-one-node": text(
        "{option} does nothing under single-numa-node",
        "{option} deals the CPUs of a container evenly over several NUMA nodes, and single-numa-node admits only "
        "containers that stay on one. The kubelet starts, and nothing is ever distributed.",
        "remove {option}",
        "or let large pods span nodes:\ntopologyManagerPolicy: restricted",
    ),
    "incompatible-policy-options/closest-of-one-node": text(
        "{option} does nothing under single-numa-node",
        "{option} chooses among sets of several NUMA nodes by their distance, and single-numa-node accepts only sets of "
        "one.",
        "remove {option}",
        "or let large pods span nodes that are near each other:\ntopologyManagerPolicy: restricted",
    ),
    "reserved-cpus-split-cores": text(
        "reserving CPUs {reserved} wastes CPUs {lost}",
        "With full-pcpus-only only whole cores are given away. The CPUs {lost} share cores with reserved ones, so no "
        "container can ever have them to itself: {count:cpus} of the machine.",
        'reserve whole cores:\nreservedSystemCPUs: "{whole}"',
    ),
    "marks-of-a-manual": text(
        "{name} holds marks of a manual: {marks:and}",
        "Manuals number lines to explain them, and write dots for what they leave out; neither is YAML. Read as they are, "
        "marks become part of a value, or the file cannot be read at all. They were left out here to look at the rest.",
        "sed -i -E 's/[ \\t]+<[0-9]+>[ \\t]*$//; /^[ \\t]+\\.\\.\\.$/d' {name}",
    ),
    "ignored-field": text(
        "{path} has no effect", "{path}: {message}.", "did you mean {near}?", "remove {path}, or correct it"
    ),
    "ignored-field/manifest": text(
        "{path} is no field of Kubernetes and has no effect",
        "Kubernetes drops it without a word, and the pod runs without what it says.",
        "write it as {near}",
    ),
    "manifest-invalid": text("the API server refuses {name}: {path}", "{path}: {message}"),
    "memory-in-fractions-of-a-byte": text(
        "{path} asks for a fraction of a byte",
        "{message:sentence} The suffix m means thousandths, so 500m of memory is half a byte.",
        "write Mi for mebibytes, M for megabytes",
    ),
    "pod-level-resources-not-pinned": text(
        "{who} has resources as a whole and is not pinned",
        "The CPU and Memory Managers pass over pods with spec.resources: its containers run on shared CPUs.",
        "give each container its own equal requests and limits, and remove spec.resources",
    ),
    "devices-without-topology": text(
        "no NUMA node is known of any {resource}[[ on {nodes:and}]]",
        "The device plugin announces {resource} without topology, so the Topology Manager has no hint for it: CPUs and "
        "memory are aligned with each other, and the device may be on another NUMA node.",
        "use a version of the device plugin that reports the NUMA node of each device",
        "in a virtual machine, pass the NUMA nodes of devices through (numa_node in sysfs is -1 otherwise)",
    ),
    "pass-device-specs": text(
        "containers will lose their GPUs: {key} is off, and the CPU manager is static",
        "With deviceListStrategy {strategies:and} GPUs get into a container behind the runtime's back. The static CPU manager "
        "updates the container again and again, and each update takes away what the runtime was not told of. Guides say both "
        "true and false here; beside the static CPU manager true is right.",
        "flags:\n  plugin:\n    passDeviceSpecs: true   # --pass-device-specs, and the plugin has to see the host's /dev",
        "or let CDI name the devices:\nflags:\n  plugin:\n    deviceListStrategy: cdi-cri",
    ),
    "pass-device-specs/policy-unknown": text(
        "{key} is off, which is right only without the static CPU manager",
        "Guides say both true and false here. With deviceListStrategy {strategies:and} and cpuManagerPolicy static true is right: "
        "the CPU manager's updates otherwise take GPUs away from containers that run. With cpuManagerPolicy none false is right, "
        "and needs fewer rights. Give the kubelet's configuration too, and this is decided.",
        "numaware lint {name} kubelet-config.yaml",
    ),
    "pass-device-specs/needless": text(
        "{key} is on and not needed",
        "It is there for the static CPU manager, and the kubelet given with it has another policy. It does no harm, but the plugin "
        "has to see the host's /dev for it.",
        "flags:\n  plugin:\n    passDeviceSpecs: false",
    ),
    "pass-device-specs/needless-with-cdi": text(
        "{key} is on and not needed",
        "With deviceListStrategy {strategies:and} CDI names the device nodes to the runtime, so that an update by the CPU manager "
        "keeps them, whatever its policy.",
        "flags:\n  plugin:\n    passDeviceSpecs: false",
    ),
    "claim-not-aligned": text(
        "nothing keeps the devices of {who} on one NUMA node",
        "It has the requests {requests:and}, and each may be served from another NUMA node. Neither kube-scheduler nor the kubelet "
        "aligns devices of DRA unless the claim says so.",
        "{yaml}",
        "or with matchAttribute: resource.kubernetes.io/pcieRoot, for devices below one PCIe root; drivers have to publish the "
        "attribute, and a device without it is not taken",
    ),
    "claim-not-aligned/one-request": text(
        "{who} asks for several devices, which may lie on several NUMA nodes",
        "Neither kube-scheduler nor the kubelet aligns devices of DRA unless the claim says so. With the constraint the claim waits "
        "until one NUMA node has enough of them, so leave it out where a pod wants more than one node has.",
        "{yaml}",
    ),
    "devices-served-by-dra": text(
        "{who}: {names:and} is not aligned by the kubelet: served by DRA",
        "The kubelet gives this pod CPUs of its own, and its Topology Manager has no hint for devices of DRA: they may lie on other "
        "NUMA nodes than the CPUs, whatever the policy says.",
        "numaware explain FILE --node NODE --dra FILE   # says where they are, once they are allocated",
        "or take the devices from a device plugin, which gives hints",
        "or have CPUs handed out by DRA, too (dra-driver-cpu, cpuManagerPolicy none), in one claim with matchAttribute: "
        "resource.kubernetes.io/numaNode",
    ),
    "cpu-driver-beside-static": text(
        "{driver} and the static CPU manager both hand out CPUs",
        "The driver gives CPUs to containers by DRA, and the kubelet configuration given with it has cpuManagerPolicy static. Neither "
        "knows what the other has given away: on one node they exclude each other.",
        "cpuManagerPolicy: none   # and delete /var/lib/kubelet/cpu_manager_state before the restart",
        "or keep the driver off nodes with the static policy",
    ),
    "memory-needs-two-nodes/refused": text(
        "{who}: the memory of container {container} fits no single NUMA node",
        "Container {container} asks for {asked}, and one NUMA node of {node} can give at most {most:size}, while its CPUs "
        "would fit on {cpuNodes:sets}. Under {policy} the two have to agree, so the pod is always refused.",
        "ask for at most {most:size} of {resource}",
        "or split the work into pods that each fit one NUMA node",
        "or ask for so many CPUs that they need {memoryNodes:nodes} too, under restricted",
    ),
    "memory-needs-two-nodes/spans": text(
        "{who}: the memory of container {container} comes from {memoryNodes:nodes}",
        "Container {container} asks for {asked}, and one NUMA node of {node} can give at most {most:size}. Its CPUs would "
        "fit on {cpuNodes:sets}; under {policy} it is admitted, with memory from both sides of the machine.",
        "ask for at most {most:size} of {resource}",
        "or split the work into pods that each fit one NUMA node",
    ),
    # manifests that will not do what their author thinks
    "fractional-cpu-not-pinned": text(
        "{who}: container {container} asks for {cpu} CPU and is not pinned",
        "The static CPU manager pins only whole CPUs. A container that asks for {cpu} runs on the shared CPUs of all "
        "NUMA nodes, and the Topology Manager gets no CPU hint for it.",
        'ask for a whole number of CPUs:\nresources:\n  requests: {{cpu: "{whole}"}}\n  limits: {{cpu: "{whole}"}}',
    ),
    "not-guaranteed": text(
        "{who} is {qos}: no container gets CPUs or memory of its own",
        "Only Guaranteed pods are pinned and aligned, and this one is {qos}[[: {missing}]].",
        "give every container (init containers too) a cpu and a memory limit, and equal requests:\n{yaml}",
    ),
    "init-larger-than-app": text(
        "{who}: init container {init} asks for {initAmount} of {resource}, more than the {appAmount} of all that follows",
        "The init container is served first, and what it took is what the pod is bound to: the {resource} that the app "
        "containers do not take over stays taken until the pod ends, and may tie the pod to two NUMA nodes.",
        "give the init container at most {appAmount} of {resource}",
    ),
    "init-larger-than-app/shared": text(
        "{who}: init container {init} asks for {initAmount} of {resource}, more than the {appAmount} of all that follows",
        "The scheduler keeps the larger of the two for as long as the pod lives: {initAmount} of {resource}, although "
        "only {appAmount} are asked for once the init container has ended.",
        "give the init container at most {appAmount} of {resource}",
    ),
    "never-fits": text(
        "{who} fits no node[[ of {cluster}]], not even an empty one",
        "{story}",
        "{remedy}",
        "or one of these; all were tried on the twin:\n{others}",
    ),
}
