"""What is found in files before they are applied, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

TEXTS: Mapping[str, Text] = {
    "cpu-manager-no-reserved-cpus/on-a-base": Text(
        "no CPU is reserved here, and the static CPU manager needs one",
        "cpuManagerPolicy static starts only with reserved CPUs. None is in this file; it is laid over a base "
        "configuration, which may have systemReserved.cpu or kubeReserved.cpu.",
        (
            (
                "name the CPUs, so that it does not depend on the base:\n"
                'reservedSystemCPUs: "0,1"   # whole cores, on the NUMA node of the network card'
            ),
        ),
    ),
    "memory-manager-reserved-memory-mismatch/not-reservable": Text(
        "the kubelet does not start: reservedMemory keeps {found} of {resource}, and nothing asks for it",
        "What reservedMemory keeps of each kind has to be what is reserved on the node as a whole, and {resource} is "
        "reserved by none of kubeReserved, systemReserved and evictionHard: its sum has to be 0.",
        ("remove {resource} from reservedMemory",),
    ),
    "memory-manager-reserved-memory-mismatch/unbacked": Text(
        "the kubelet does not start: reservedMemory keeps {found}, and nothing is reserved on the node as a whole",
        "reservedMemory only says where the memory is kept that kubeReserved, systemReserved and evictionHard keep back "
        "together, and here they keep back none.",
        ("systemReserved:\n  memory: {found}",),
    ),
    "policy-option-needs-gate/all": Text(
        "the kubelet does not start: policy options are behind the feature gate {gate}",
        "{message:sentence} Kubelets of this version take no policy option at all while the gate {gate} is closed"
        "[[ ({options:and})]].",
        ("featureGates:\n  {gate}: true", "or remove the options"),
    ),
    "incompatible-policy-options/distribute-on-one-node": Text(
        "{option} does nothing under single-numa-node",
        "{option} deals the CPUs of a container evenly over several NUMA nodes, and single-numa-node admits only "
        "containers that stay on one. The kubelet starts, and nothing is ever distributed.",
        (
            "remove {option}",
            "or let large pods span nodes:\ntopologyManagerPolicy: restricted",
        ),
    ),
    "incompatible-policy-options/closest-of-one-node": Text(
        "{option} does nothing under single-numa-node",
        "{option} chooses among sets of several NUMA nodes by their distance, and single-numa-node accepts only sets of "
        "one.",
        (
            "remove {option}",
            "or let large pods span nodes that are near each other:\ntopologyManagerPolicy: restricted",
        ),
    ),
    "reserved-cpus-split-cores": Text(
        "reserving CPUs {reserved} wastes CPUs {lost}",
        "With full-pcpus-only only whole cores are given away. The CPUs {lost} share cores with reserved ones, so no "
        "container can ever have them to itself: {count:cpus} of the machine.",
        ('reserve whole cores:\nreservedSystemCPUs: "{whole}"',),
    ),
    "marks-of-a-manual": Text(
        "{name} holds marks of a manual: {marks:and}",
        "Manuals number lines to explain them, and write dots for what they leave out; neither is YAML. Read as they are, "
        "marks become part of a value, or the file cannot be read at all. They were left out here to look at the rest.",
        ("sed -i -E 's/[ \\t]+<[0-9]+>[ \\t]*$//; /^[ \\t]+\\.\\.\\.$/d' {name}",),
    ),
    "ignored-field": Text(
        "{path} has no effect",
        "{path}: {message}.",
        ("did you mean {near}?", "remove {path}, or correct it"),
    ),
    "ignored-field/manifest": Text(
        "{path} is no field of Kubernetes and has no effect",
        "Kubernetes drops it without a word, and the pod runs without what it says.",
        ("write it as {near}",),
    ),
    "manifest-invalid": Text(
        "the API server refuses {name}: {path}",
        "{path}: {message}",
        (),
    ),
    "memory-in-fractions-of-a-byte": Text(
        "{path} asks for a fraction of a byte",
        "{message:sentence} The suffix m means thousandths, so 500m of memory is half a byte.",
        ("write Mi for mebibytes, M for megabytes",),
    ),
    "pod-level-resources-not-pinned": Text(
        "{who} has resources as a whole and is not pinned",
        "The CPU and Memory Managers pass over pods with spec.resources: its containers run on shared CPUs.",
        ("give each container its own equal requests and limits, and remove spec.resources",),
    ),
    "devices-without-topology": Text(
        "no NUMA node is known of any {resource}[[ on {nodes:and}]]",
        "The device plugin announces {resource} without topology, so the Topology Manager has no hint for it: CPUs and "
        "memory are aligned with each other, and the device may be on another NUMA node.",
        (
            "use a version of the device plugin that reports the NUMA node of each device",
            "in a virtual machine, pass the NUMA nodes of devices through (numa_node in sysfs is -1 otherwise)",
        ),
    ),
    "memory-needs-two-nodes/refused": Text(
        "{who}: the memory of container {container} fits no single NUMA node",
        "Container {container} asks for {asked}, and one NUMA node of {node} can give at most {most:size}, while its CPUs "
        "would fit on {cpuNodes:sets}. Under {policy} the two have to agree, so the pod is always refused.",
        (
            "ask for at most {most:size} of {resource}",
            "or split the work into pods that each fit one NUMA node",
            "or ask for so many CPUs that they need {memoryNodes:nodes} too, under restricted",
        ),
    ),
    "memory-needs-two-nodes/spans": Text(
        "{who}: the memory of container {container} comes from {memoryNodes:nodes}",
        "Container {container} asks for {asked}, and one NUMA node of {node} can give at most {most:size}. Its CPUs would "
        "fit on {cpuNodes:sets}; under {policy} it is admitted, with memory from both sides of the machine.",
        (
            "ask for at most {most:size} of {resource}",
            "or split the work into pods that each fit one NUMA node",
        ),
    ),
}
