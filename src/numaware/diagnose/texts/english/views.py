"""The fixed words around answers on the command line, in English."""

from __future__ import annotations

from collections.abc import Mapping

from numaware.diagnose.texts.english.explain import quantity
from numaware.diagnose.texts.template import Each, Specs
from numaware.machine.words import count

LABELS: Mapping[str, str] = {
    # one pod on one node
    "explain-admitted": "✓ {pod} would be admitted by {node}",
    "explain-refused": "✗ {pod} would be refused by {node}: {reason}",
    "explain-never": "✗ {pod} would be refused by {node}, even if nothing else ran there: {reason}",
    "explain-unschedulable": "✗ {pod} would not be sent to {node}: {reason}",
    "explain-says": "the kubelet says: {message}",
    "explain-topology": "topology {policy}[[, {scope} scope]]",
    "explain-cpus": "CPU manager {policy}",
    "explain-memory": "memory manager {policy}",
    "explain-legend": "CPUs: {legend}",
    "explain-reserved": "reserved",
    "explain-held": "held",
    "explain-new": "this pod",
    "explain-free": "free to pin",
    "explain-none": "no {resource:resource}",
    "explain-room": "free to pin, before it comes:",
    "explain-left": "{free:bare} of {total:bare} {resource:beside}",
    "explain-shared": "CPUs from the shared pool",
    "explain-own": "{cpus:cpulist} on {nodes:set}",
    "explain-block": "{amount:amount} on {nodes:set}",
    "explain-devices": "{resource}: {held:held}",
    "explain-aligned": "aligned",
    "explain-spread": "spread over {nodes:set}",
    "explain-no-change": "no change to requests, policy, options or running pods was found that would admit it here",
    "explain-changes": "any one of these would admit it (each was tried on the twin)",
    "explain-several": "{pod}: {count} of {nodes} nodes would admit it[[: {names:list}]]",
    "note": "note: {note}",
    # one pod on all nodes
    "whatif-summary": "{kind} {name}: {placed} of {pods:pods} would find a node",
    "whatif-goes": "{pod} → {node}[[, {how}]][[, on {zones:zones}]]",
    "whatif-none": "{pod}: {message}",
    "whatif-more": "and {count} more",
    "whatif-takes": "would take it[[, {how}]]",
    "whatif-split": "split",
    "whatif-group": "{count:machines}: {said}",
    "reasons": "{reasons:clauses}",
    "whatif-names": "{names:list}[[, and {more} more]]",
    "whatif-waiting": "{count:pods} of the cluster file found no place, the first of them {first}",
    # what keeps a pod from one NUMA node, or from the node
    "only-on": "{resource:resource} only on NUMA {numa:list}",
    "short-on-every": "{resource:among} short by {amount:bare} on every NUMA node",
    "short-on-node": "{resource:among} short by {amount:bare} on the node",
    "too-small": "needs {amount:bare} more {resource:beside} than the machine has",
    # what a file was taken for
    "kind-archive": "archive",
    "kind-events": "events",
    "kind-kubectl text": "kubectl text",
    "kind-kubelet configuration": "kubelet configuration",
    "kind-kubelet flags": "kubelet flags",
    "kind-device plugin configuration": "device plugin configuration",
    "kind-kubelet log": "kubelet log",
    "kind-manifest": "manifest",
    "kind-pods": "pods",
    "kind-settings": "settings",
    "kind-state file": "state file",
    "kind-topology": "topology",
    "kind-unknown": "unknown",
    # a pod that waits
    "pending-placed": "{pod} is on {node}",
    "pending-taken": (
        "{pod} would be taken by {count:machines}; {node} is the best. It waits for its scheduler, {scheduler}."
    ),
    "pending-dra": (
        "{what:and}: served by DRA, which kube-scheduler allocates and no kubelet aligns; {count:machines} would take all the rest "
        "of the pod."
    ),
    "pending-said": "its scheduler said: {message}",
    "pending-see": "see also: numaware explain pod {pod} --on NODE",
    "nodes-dra": "{node}, by DRA: {devices:of_dra}",
    # lists of nodes and pods; headings, column by column
    "nodes-heading": "NODE|POLICY|KNOWN|PODS|CPUS FREE TO PIN|DEVICES FREE TO PIN|CPUS NOT REQUESTED",
    "nodes-known-complete": "complete",
    "nodes-known-counts": "counts",
    "nodes-known-none": "none",
    "nodes-known": "{level}[[ ({source})]][[, {old}]]",
    "nodes-old": "old",
    "nodes-pods": "{pods}[[ (+{waiting} on their way)]]",
    "pods-heading": "NAMESPACE|NAME|NODE|NUMA|CPUS|ALIGNED|FORESEEN|AS SEEN",
    "pods-aligned": "yes",
    "pods-crossing": "no",
    "outcome-match": "match",
    "outcome-wrong_zone": "wrong_zone",
    "outcome-wrong_cpus": "wrong_cpus",
    "outcome-rejected": "rejected",
    "outcome-unexpected": "unexpected",
    # schedulers side by side
    "simulate-head": "{cluster} ({nodes:machines}), {trace} ({pods:pods}), {seeds}",
    "simulate-seed": "seed {seed}",
    "simulate-seeds": "means over seeds {seeds}",
    "simulate-unplaced": "{policy}: unplaced pods",
    "simulate-sizes": "placed pods by GPUs",
    "simulate-of": "{placed} of {asked}",
    "simulate-storm": "{policy}: {owner} was refused {times} within {seconds} s, most of them by {node} ({reason})",
    "measure-placed pods": "placed pods",
    "measure-refused by kubelets": "refused by kubelets",
    "measure-refused per 1,000 pods": "refused per 1,000 pods",
    "measure-aligned % of pinned pods": "aligned % of pinned pods",
    "measure-cross-NUMA pods": "cross-NUMA pods",
    "measure-CPU % allocated": "CPU % allocated",
    "measure-memory % allocated": "memory % allocated",
    "measure-stranded % of capacity": "stranded % of capacity",
    "measure-wait on average": "wait on average",
    "measure-talk between NUMA nodes MB/s": "talk between NUMA nodes MB/s",
    "measure-talk after moves MB/s": "talk after moves MB/s",
    "measure-decisions per s": "decisions per s",
    "measure-device": "{device} % allocated",
}


def _named(resource: str) -> str:
    return "CPUs" if resource == "cpu" else resource


def _held(counts: Mapping[str, int]) -> str:
    """So many devices on each NUMA node, -1 for none."""
    return ", ".join(
        f"{number} on NUMA {numa}" if int(numa) >= 0 else f"{number} without NUMA node"
        for numa, number in counts.items()
    )


SPECS: Specs = {
    "clauses": "; ".join,
    "bare": quantity,
    "resource": _named,
    "beside": _named,
    "among": _named,
    "cpulist": lambda cpus: f"{'CPU' if cpus.isdigit() else 'CPUs'} {cpus}",
    "held": _held,
    "zones": Each("NUMA {numa}[[ (CPUs {cpus})]]", " and "),
    "of_dra": Each("{free} of {count} {driver} free[[ on NUMA {numa}]]", ", "),
    "machines": lambda number: count(number, "node"),
}
