"""Pods that were refused, or admitted with less than they hoped for, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.text import Text

_NUMA_SCHEDULER = (
    "let a scheduler that knows NUMA nodes choose the node (numaware does), so that the pod is not sent where the "
    "kubelet must refuse it"
)
_LOOK_CLOSER = (
    "collect the kubelet's log at verbosity 5 around the refusal (logging.verbosity: 5), its configuration and "
    "/var/lib/kubelet/*_manager_state, and give them all to numaware diagnose"
)

TEXTS: Mapping[str, Text] = {
    "topology-affinity-error": Text(
        "[[{who} was ]]refused with TopologyAffinityError[[ on {node}]]",
        "The Topology Manager found no placement that its policy[[ ({policy})]] accepts.[[ {story}]]",
        ("{remedy}", _NUMA_SCHEDULER),
    ),
    "topology-affinity-error/event-only": Text(
        "[[{who} was ]]refused with TopologyAffinityError[[ on {node}]]",
        "The Topology Manager refused the pod. The event alone cannot tell which resource failed: the kubelet uses one "
        "sentence for every cause. The hints of each resource are in the kubelet's log, and who holds what is in the "
        "state files[[ of node {node}]].",
        (_LOOK_CLOSER, _NUMA_SCHEDULER),
    ),
    "topology-affinity-error/one-resource": Text(
        "{who} was refused with TopologyAffinityError: {resource} fits only on {masks:sets}",
        "Container {container} asks for {resource}, which can now be had only on {masks:sets}[[, and the policy "
        "{policy} does not accept that]]. An empty machine could do better, so this is fragmentation: others hold what "
        "is missing on each NUMA node.",
        (
            "ask for less {resource}, so that it fits on one NUMA node",
            "make room: move or delete a pod that holds {resource} on the NUMA node where most is left",
            _NUMA_SCHEDULER,
        ),
    ),
    "topology-affinity-error/nothing-fits": Text(
        "{who} was refused with TopologyAffinityError: no set of NUMA nodes has enough {resource}",
        "Container {container} asks for more {resource} than is free on all NUMA nodes together, so the manager offered "
        "no hint at all and the merge had nothing to work with.",
        ("ask for less {resource}, or free some on this node", _NUMA_SCHEDULER),
    ),
    "topology-affinity-error-disjoint-hints": Text(
        "{who} was refused with TopologyAffinityError: no common NUMA node for {resources:and}",
        "Each resource fits by itself, but {wants:wants}: there is no common NUMA node. The merged hint of container "
        "{container} is {merged} and not preferred, so the policy[[ {policy}]] refuses the pod.",
        (
            "make the request smaller, so that everything fits on one NUMA node",
            "{room}",
            _NUMA_SCHEDULER,
        ),
    ),
    "smt-alignment-error": Text(
        "[[{who} was ]]refused with SMTAlignmentError: {requested:cpus} asked for, a core has {threads} threads",
        "The CPU manager runs with full-pcpus-only, which gives whole physical cores only; {requested} is no multiple "
        "of {threads}. Count every container, and what a virtual machine adds by itself: an isolated emulator thread "
        "makes an even request odd.",
        (
            "ask for an even number of CPUs, a multiple of {threads}: {fewer} or {more} instead of {requested}",
            "or remove full-pcpus-only from cpuManagerPolicyOptions, which lets two pods share a core",
        ),
    ),
    "smt-alignment-error/no-cores-left": Text(
        "[[{who} was ]]refused with SMTAlignmentError: {requested:cpus} asked for, {available} left on whole cores",
        "The CPU manager runs with full-pcpus-only, which gives whole physical cores only, and not enough of them are "
        "free: {available:cpus} are left on cores that the system does not use.",
        ("ask for at most {available:cpus}", "free cores on this node, or place the pod elsewhere"),
    ),
    "not-enough-exclusive-cpus": Text(
        "[[{who} was ]]refused with UnexpectedAdmissionError: not enough exclusive CPUs[[ on {node}]]",
        "The static CPU manager has fewer free cpus than the container asks for[[: {requested} requested, {available} "
        "available]]. The scheduler counts CPUs of the whole node, in thousandths; the kubelet gives away whole CPUs "
        "and never the reserved ones. This is not a topology error: any NUMA node would have done.",
        (
            (
                "ask for fewer CPUs, or let some exclusive CPUs go: numaware checkpoint show "
                "/var/lib/kubelet/cpu_manager_state says who holds them"
            ),
            (
                "keep pods that need no pinning out of the exclusive pool: ask for a fraction such as 1500m, or make "
                "them Burstable"
            ),
        ),
    ),
    "not-enough-memory-on-nodes": Text(
        "[[{who} was ]]refused: not enough {resource} on the NUMA nodes it was sent to",
        "The Memory Manager could not give {resource} from the NUMA nodes that were chosen[[ ({nodes:nodes})]]: "
        "they do not have so much left, or they already serve as another group of nodes.",
        ("ask for less {resource}, or free memory on this node", _NUMA_SCHEDULER),
    ),
    "out-of-cpu": Text(
        "[[{who} was ]]refused with OutOfcpu[[ on {node}]]",
        "The node has not enough CPU left[[: {requested} requested, {used} in use, {capacity} in all]]. The pod was "
        "bound by a scheduler, or by nodeName, that did not know what already runs there. This is not a NUMA error.",
        (
            "ask for less, or place the pod elsewhere",
            "do not set spec.nodeName by hand: it goes past the scheduler",
        ),
    ),
    "out-of-resource": Text(
        "[[{who} was ]]refused with {reason}[[ on {node}]]",
        "The node has not enough {resource} left[[: {requested} requested, {used} in use, {capacity} in all]]. "
        "This is not a NUMA error.",
        ("ask for less, or place the pod elsewhere",),
    ),
    "devices-unavailable": Text(
        "[[{who} was ]]refused: not enough {resource} left[[ on {node}]]",
        "The Device Manager has fewer free devices than the container asks for[[: requested {requested}, available "
        "{available}]]. Devices of pods that still terminate are not free yet, and after a restart of the plugin or the "
        "kubelet they are counted anew.",
        (
            "wait for pods that terminate, or ask for fewer {resource}",
            "look at the plugin: kubectl describe node NODE shows what it offers",
        ),
    ),
    "devices-unhealthy": Text(
        "[[{who} was ]]refused: no healthy devices of {resource}[[ on {node}]]",
        "All devices of {resource} are unhealthy or unknown to the kubelet at the moment, so there are no healthy "
        "devices to give. This is not a topology error.",
        (
            "look at the devices and at the log of their plugin: kubectl -n kube-system logs -l name=PLUGIN",
            "restart the plugin when the devices work again; it registers them anew",
        ),
    ),
    "device-plugin-error": Text(
        "[[{who} was ]]refused: the device plugin[[ of {resource}]] failed[[ in {call}]]",
        "[[The call {call} of ]]the device plugin returned an error: {error}. This is not a topology error: the plugin, its "
        "driver or its permissions are at fault.",
        (
            "read the plugin's own log; it names the device and the library that failed",
            "check that the plugin runs privileged, or with the device nodes and capabilities its driver needs",
        ),
    ),
    "device-plugin-refused": Text(
        "[[{who} was ]]refused by the device plugin (not NUMA): {asked}",
        "Not a NUMA problem: the plugin shares each device between pods and refuses a container that asks for more "
        "than {most} of them ({asked}), since more shares give no more of the device (failRequestsGreaterThanOne).",
        (
            "ask for {most}: more replicas of a shared device give no more of it",
            "or ask for whole devices, where the plugin offers them under another name",
        ),
    ),
    "device-plugin-refused/other": Text(
        "[[{who} was ]]refused by the device plugin (not NUMA): {error}",
        "Not a NUMA problem: the plugin itself refused the request, saying: {error}.",
        ("read the plugin's own log and its sharing settings",),
    ),
    "admission-error": Text(
        "[[{who} was ]]refused with {reason}[[ on {node}]]",
        "The kubelet refused the pod: {message}",
        (_LOOK_CLOSER,),
    ),
    "admission-loop": Text(
        "{who} is refused and made again, {count} times[[ in {seconds:duration}]]",
        "Its controller replaces each refused pod, and the scheduler sends the new one to the same node[[ {node}]], "
        "which refuses it for the same reason ({reason})[[: about every {period:duration}]][[, since {since}]]. "
        "Nothing changes by itself, because nothing that the scheduler looks at changes.[[ {story}]]",
        (
            "break the loop first: kubectl -n {namespace} scale {controllerKind}/{controller} --replicas={fewerReplicas}",
            "kubectl cordon {node}   # the next pod goes elsewhere",
            "then cure the cause, which is told with the refusal itself",
        ),
    ),
    "unaligned-under-best-effort": Text(
        "{who} was admitted, but not aligned: its resources are on {nodes:nodes}",
        "[[While {wants:wants}, ]]the merged hint of container {container} is {merged} and not preferred. The policy "
        "best-effort[[ ({policy})]] admits such pods, so it runs with part of its resources on another NUMA node.",
        (
            "use restricted or single-numa-node where such pods should rather be refused than run slowly",
            "ask for no more than one NUMA node has free",
            _NUMA_SCHEDULER,
        ),
    ),
    "cpu-spread-over-nodes-under-best-effort": Text(
        "{who} was admitted, yet its CPUs {cpus} lie on {nodes:nodes}",
        "{requested:cpus} do not fit on one NUMA node[[ of {perNode:cpus}]], so the CPU manager offers only "
        "{offered:sets}. Merged with the other resources the hint became {merged}, called preferred; the CPUs given, "
        "{cpus}, lie on {spread:nodes} all the same. The policy best-effort admits the pod, which is only partly "
        "aligned.",
        (
            (
                "ask for at most {most:cpus}[[ ({perNode} of a node less {reserved} reserved)]], or use a machine with larger "
                "NUMA nodes"
            ),
            "use restricted or single-numa-node to refuse such pods",
        ),
    ),
    "memory-needs-two-nodes": Text(
        "{who}: memory fits only on {memoryNodes:nodes} together",
        "The CPUs would fit on {cpuNodes:sets}, but the memory of container {container} only on both nodes together "
        "({memoryHint}), so the merged hint is {memoryNodes:nodes}. Under single-numa-node the pod is rejected, under "
        "restricted it runs with memory from both nodes.",
        (
            "ask for less memory than one NUMA node can give",
            "use a machine with more memory per NUMA node",
        ),
    ),
}
