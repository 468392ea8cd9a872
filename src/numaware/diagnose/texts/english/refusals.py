"""Pods that were refused, or admitted with less than they hoped for, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.template import Text, text

_NUMA_SCHEDULER = (
    "let a scheduler that knows NUMA nodes choose the node (numaware does), so that the pod is not sent where the "
    "kubelet must refuse it"
)
_LOOK_CLOSER = (
    "collect the kubelet's log around the refusal (journalctl -u kubelet), its configuration and "
    "/var/lib/kubelet/*_manager_state, and give them all to numaware diagnose"
)
_TRIED = "{bestChange}   # tried on the twin of this node"
_AT_MOST = "ask for at most {atMost:amount} instead of {askedFor:quantity}: NUMA node {freestNode} has so much left, as far as the evidence shows"
_ROOM = "make room: move or delete {holders:holders}"
_REFUSED = "{who} was refused with TopologyAffinityError[[ on {node}]]"

TEXTS: Mapping[str, Text] = {
    "topology-affinity-error": text(
        _REFUSED,
        "The Topology Manager found no placement that its policy[[ {policy}]] accepts. The event alone cannot tell which "
        "resource failed: the kubelet has one sentence for every cause. The hints of each resource are in the kubelet's "
        "log, and who holds what is in the state files[[ of node {node}]].",
        _TRIED,
        _LOOK_CLOSER,
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/reported": text(
        _REFUSED + ": no NUMA node has {asked} {resource} free to pin",
        "Container {container} asks for {asked} {resource}, and its node reports as free to pin: {free:free}. No single NUMA node has "
        "enough[[, and the policy is {policy}]]. The report may be older or newer than the refusal.",
        _TRIED,
        "ask for at most {most} {resource}, or make room on one NUMA node",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/one-resource": text(
        _REFUSED + ": {resource} fits only on {masks:sets}",
        "[[Container {container}: ]]{resource} can now be had only on {masks:sets}, and that is no preferred "
        "placement[[ for policy {policy}]]: an empty machine could do with fewer NUMA nodes. Others hold what is missing "
        "on each node.[[ {blame:blame}.]]",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "make the request smaller, so that {resource} fits on one NUMA node",
        "make room: move or delete a pod that holds {resource} on the NUMA node where most is left",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error/too-wide": text(
        _REFUSED + ": {resource} needs {masks:sets}",
        "[[Container {container}: ]]more {resource} is asked for than one NUMA node has, even empty. It fits only on "
        "{masks:sets}, and the policy single-numa-node gives one. No amount of free room on this machine helps.[[ {blame:blame}.]]",
        _TRIED,
        _AT_MOST,
        "make the request smaller than one NUMA node, or use a machine with larger NUMA nodes",
        "or let large pods span nodes:\ntopologyManagerPolicy: restricted",
    ),
    "topology-affinity-error/nothing-fits": text(
        _REFUSED + ": no set of NUMA nodes has enough {resource}",
        "[[Container {container}: ]]more {resource} is asked for than is free to pin on all NUMA nodes together, so the manager "
        "offered no hint at all and the merge had nothing to work with.",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "ask for less {resource}, or free some on this node",
        _NUMA_SCHEDULER,
    ),
    "topology-affinity-error-disjoint-hints": text(
        _REFUSED + ": no common NUMA node for {resources:and}",
        "Each resource fits by itself, but {wants:wants}: they exclude each other, there is no common NUMA node."
        "[[ The merged hint is {merged}: no nodes anybody prefers, so the policy refuses the "
        "pod.]][[ Policy: {policy}.]] A controller that makes the pod again does not help: nothing has changed.",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "make the request smaller, so that {resources:and} fit on one NUMA node",
        "or make room: free {room:room}, by moving or deleting pods that hold it there",
        _NUMA_SCHEDULER,
    ),
    "smt-alignment-error": text(
        "{who} was refused with SMTAlignmentError[[ on {node}]]: {requested:cpus} asked for, a core has {threads} "
        "threads",
        "The CPU manager runs with full-pcpus-only, which gives whole physical cores only; {requested} is no multiple "
        "of {threads}. Count every container, and what a virtual machine adds by itself: an isolated emulator thread "
        "makes an even request odd.",
        "ask for an even number of CPUs, a multiple of {threads}: {fewer} or {more} instead of {requested}",
        "or remove full-pcpus-only from cpuManagerPolicyOptions, which lets two pods share a core",
    ),
    "smt-alignment-error/no-cores-left": text(
        "{who} was refused with SMTAlignmentError[[ on {node}]]: {requested:cpus} asked for, {available} left on "
        "whole cores",
        "The CPU manager runs with full-pcpus-only, which gives whole physical cores only ({threads} CPUs each), and not "
        "enough of them are free: {available:cpus} are left on cores that the system does not use.",
        _TRIED,
        "free cores on this node, ask for less, or place the pod elsewhere",
        "reserve whole cores for the system, so that no half of one is lost",
    ),
    "not-enough-exclusive-cpus": text(
        "{who} was refused with UnexpectedAdmissionError: not enough exclusive CPUs[[ on {node}]]",
        "The static CPU manager has fewer free cpus than the container asks for[[: {requested} requested, {available} "
        "available]][[ ({wanted} asked for in all)]]. The scheduler counts CPUs of the whole node in thousandths; the "
        "kubelet gives away whole CPUs, and never the reserved ones. This is not a topology error.",
        _TRIED,
        _AT_MOST,
        _ROOM,
        "ask for fewer CPUs, or let some exclusive CPUs go: numaware checkpoint show "
        "/var/lib/kubelet/cpu_manager_state says who holds them",
        "keep pods that need no pinning out of the exclusive pool: ask for a fraction such as 1500m, or make "
        "them Burstable",
    ),
    "distributed-cpus-miscounted": text(
        "{who} was refused with UnexpectedAdmissionError: the CPU manager lost count of the CPUs it dealt out[[ on {node}]]",
        "With distribute-cpus-across-numa the CPU manager chooses NUMA nodes that all have their part of the CPUs free, but "
        "then deals from others: while it looks on, a later choice is written over the last nodes of the best one. A node "
        "that has less than its part gives nothing, and the sum does not come out even (remaining: {missing}). Enough CPUs are "
        "free. This is an error of the kubelet, not of the pod, and it comes again as long as the node is filled like this.",
        _TRIED,
        "ask for fewer CPUs, so that they fit on fewer NUMA nodes",
        "or remove distribute-cpus-across-numa from cpuManagerPolicyOptions, which takes a restart of the kubelet with an "
        "empty cpu_manager_state",
        "or place the pod on a node whose NUMA nodes are filled evenly",
    ),
    "empty-pod-shared-pool": text(
        "{who} was refused with EmptyPodSharedPoolError[[ on {node}]]: nothing of its {resource} is left to share",
        "The pod has resources of its own (spec.resources), and containers that ask for whole CPUs or for memory take theirs "
        "out of them; what is left is shared by the others. Here these take all of its {resource}, and containers that would "
        "share have nothing to run on. No node can change that.",
        "raise {resource} in the pod's spec.resources above the sum of what its containers ask for themselves",
        "or ask for less in those containers, or give every container resources of its own",
    ),
    "empty-pod-shared-pool/init": text(
        "{who} was refused with EmptyPodSharedPoolError[[ on {node}]]: no {resource} is left for an init container",
        "The pod has resources of its own (spec.resources). Init containers that restart take theirs out of them and keep it; "
        "an init container after them that asks for none would share what is left of {resource}, and there is nothing. No "
        "node can change that.",
        "raise {resource} in the pod's spec.resources, or ask for less in the init containers that restart",
        "or give that init container resources of its own",
    ),
    "not-enough-memory-on-nodes": text(
        "{who} was refused: the Memory Manager cannot give the memory[[ on {node}]]",
        "The Memory Manager could not give memory from the NUMA nodes that were chosen ({message}): they have not so much "
        "left, or they already serve as another group of nodes. Memory that fits nowhere is no hint for the Topology "
        "Manager, so this is an UnexpectedAdmissionError under every policy.",
        _TRIED,
        "ask for less memory, or free memory on this node",
        _NUMA_SCHEDULER,
    ),
    "out-of-cpu": text(
        "{who} was refused with OutOfcpu[[ on {node}]]",
        "The node has not enough CPU left[[: {requested} requested, {used} in use, {capacity} in all]]. The pod was "
        "bound by a scheduler, or by nodeName, that did not know what already runs there. This is not a NUMA error.",
        "ask for less, or place the pod elsewhere",
        "do not set spec.nodeName by hand: it goes past the scheduler",
    ),
    "out-of-resource": text(
        "{who} was refused with {reason}[[ on {node}]]",
        "The node has not enough {resource} left[[: {requested} requested, {used} in use, {capacity} in all]]. "
        "This is not a NUMA error.",
        "ask for less, or place the pod elsewhere",
        "do not set spec.nodeName by hand: it goes past the scheduler",
    ),
    "devices-unavailable": text(
        "{who} was refused: not enough {resource} left[[ on {node}]]",
        "The Device Manager has fewer free devices than the container asks for[[: requested {requested}, available "
        "{available}]]. Devices of pods that still terminate are not free yet, and after a restart of the plugin or the "
        "kubelet they are counted anew.",
        _TRIED,
        "wait for pods that terminate, or ask for fewer {resource}",
        "look at the plugin: kubectl describe node shows what it offers",
    ),
    "devices-unavailable/unregistered": text(
        "{who} was refused: no plugin offers {resource}[[ on {node}]]",
        "The kubelet knew {resource} when the pod was bound, but its device plugin has not registered since the kubelet "
        "started. This is not a topology error.",
        "look at the pod of the plugin on this node; it has to register again after each start of the kubelet",
    ),
    "devices-unhealthy": text(
        "{who} was refused: no healthy devices of {resource}[[ on {node}]]",
        "All devices of {resource} are unhealthy or gone at the moment, so there are no healthy devices to give. This is "
        "not a topology error.",
        "look at the devices and at the log of their plugin: kubectl -n kube-system logs -l name=PLUGIN",
        "restart the plugin when the devices work again; it registers them anew",
    ),
    "devices-unhealthy/held": text(
        "{who} was refused: its own {resource} is no longer healthy[[ on {node}]]",
        "After a restart the kubelet wants to give the pod the devices it had, and they are unhealthy now; no healthy "
        "devices are taken in their place. This is not a topology error.",
        "delete the pod, so that a new one gets other devices",
        "look at the devices and at their plugin's log",
    ),
    "device-plugin-error": text(
        "{who} was refused: the device plugin failed in {call}[[ on {node}]]",
        "{call} of the device plugin returned an error: {error}. This is not a topology error: the plugin, its driver or "
        "its permissions are at fault.",
        "read the plugin's own log; it names the device and the library that failed",
        "check that the plugin runs privileged, or with the device files and capabilities its driver needs",
    ),
    "device-plugin-error/gone": text(
        "the device plugin of {resource} went away and did not come back[[ on {node}]]",
        "The kubelet lost its connection ({call})[[: {error}]], and no plugin has registered {resource} since. Its "
        "devices count as unhealthy, and pods that ask for them are refused.",
        "look at the pod of the plugin on this node, and at its log",
    ),
    "device-plugin-refused": text(
        "{who} was refused by the device plugin (not NUMA): {asked}",
        "Not a NUMA problem: the plugin shares each device between pods and refuses a container that asks for more "
        "than {most} of them ({asked}), since more shares give no more of the device (failRequestsGreaterThanOne).",
        "ask for {most}: more replicas of a shared device give no more of it",
        "or ask for whole devices, where the plugin offers them under another name",
    ),
    "admission-error": text(
        "{who} was refused with {reason}[[ on {node}]]",
        "The kubelet refused the pod[[: {message}]]",
        _LOOK_CLOSER,
    ),
    "admission-loop": text(
        "{who} is refused with {reason} and made again: {count} times[[ in {seconds:duration}]]",
        "Its controller[[ ({controllerKind} {controller})]] replaces each refused pod, the scheduler sends the new one to "
        "the same node[[ {node}]], and the kubelet refuses it for the same reason ({reason})[[, about every "
        "{period:duration}]][[, since {since}]]. It does not end by itself: the scheduler does not see what the kubelet "
        "looks at.",
        "break the loop first:\nkubectl -n {namespace} scale {controllerKind}/{controller} "
        "--replicas={fewerReplicas}",
        "or send the next pod elsewhere:\nkubectl cordon {node}",
        "then cure the cause, which is told with the refusal itself",
    ),
    "unaligned-under-best-effort": text(
        "{who} was admitted, but is not aligned: its resources are on {nodes:nodes}",
        "[[It holds {devices:devices}. ]][[{blame:blame}. ]]The merged hint is {merged}, not preferred[[ (container {container})]]. Policy best-effort admits "
        "such a pod and gives it what there is, so that it runs with part of its resources on another NUMA node; "
        "restricted would refuse it.",
        "use restricted or single-numa-node where such pods should rather be refused than run slowly",
        "ask for no more than one NUMA node has free to pin",
        _NUMA_SCHEDULER,
    ),
    "cpu-spread-over-nodes-under-best-effort": text(
        "{who} was admitted, yet its CPUs[[ {cpus}]] lie on {spread:nodes}",
        "[[{requested:cpus} were asked for. ]]They do not fit on one NUMA node[[ of {perNode:cpus}]][[, so the CPU manager "
        "offers only {offered:sets}]]. Merged with the other resources the hint became {merged}, and kubelets before 1.24 "
        "call that preferred; the CPUs given[[, {cpus},]] lie on {spread:nodes} all the same. Policy {policy} admits the "
        "pod: it is only partly aligned.",
        "ask for no more CPUs than one NUMA node can give[[: at most {most:cpus} ({perNode} of a node less "
        "{reserved} reserved)]], or use a machine with larger NUMA nodes",
        "use restricted or single-numa-node, on a kubelet of 1.24 or later, to refuse such pods",
    ),
    "memory-needs-two-nodes": text(
        "{who}: memory fits only on {memoryNodes:nodes} together",
        "The CPUs would fit on {cpuNodes:sets}, but the memory fits only on both nodes together ({memoryHint}[[, container {container}]]), so it takes {memoryNodes:nodes}. Under single-numa-node the pod is rejected; under restricted, "
        "since 1.24, too, because the CPUs prefer one node.",
        "ask for less memory than one NUMA node can give",
        "use a machine with more memory per NUMA node",
    ),
    # what is as it should be
    "aligned": text(
        "{who} was admitted and is aligned on {nodes:nodes}",
        "[[Container {container}: ]]the merged hint is preferred, for {nodes:nodes}[[ ({merged})]]. Everything it asked for "
        "is there, and the pod was admitted.",
    ),
    "aligned/several": text(
        "{who} was admitted on {nodes:nodes}, as few as it needs",
        "[[Container {container}: ]]the merged hint is preferred, for {nodes:nodes}[[ ({merged})]]. It asks for more than one "
        "NUMA node has, and the pod was admitted on as few as possible.",
    ),
    "aligned/by-socket": text(
        "{who} was admitted and is aligned by socket: its CPUs are on {nodes:nodes}",
        "The CPU manager runs with align-by-socket: the merged hint is preferred[[ ({merged})]], and CPUs {cpus} may come from "
        "any NUMA node of its socket.",
    ),
    "healthy": text("{what}", "{story}"),
    "healthy/pinned": text(
        "{who} got CPUs {cpus} to itself",
        "The CPU manager gave[[ container {container}]] the exclusive CPUs {cpus}[[ ({requested:cpus} asked for)]][[, all on "
        "{nodes:nodes}]].",
    ),
    "healthy/started": text(
        "the kubelet started[[ on {node}]]: {managers:managers}",
        "These resource managers started: {managers:managers}[[; CPUs {reserved} are reserved]][[; version {version}]].",
    ),
    "healthy/state": text(
        "{file} is as a kubelet wrote it[[: policy {policy}]]",
        "The checksum fits the content; it holds {pods:pods}[[ with {exclusive:cpus} of their own]].[[ Shared CPUs: "
        "{sharedCpus}.]]",
    ),
}
