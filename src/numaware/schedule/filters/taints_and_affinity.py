"""What depends on the pod and on the node's own description only: cordons, names, taints, node affinity, features.

Mirrors kube-scheduler's plugins NodeUnschedulable, NodeName, TaintToleration and NodeAffinity (v1.35), in the order in
which they are asked, and NodeDeclaredFeatures (v1.37). Only `scheduling.node` and the node's facts count, so an answer may be kept for as long as both
stay equal.
"""

from __future__ import annotations

from numaware.diagnose.reason import Reason
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.workload.scheduling import NodeRules, Scheduling

UNSCHEDULABLE = Reason("unschedulable")
OTHER_NODE = Reason("node-name")
NOT_SELECTED = Reason("node-affinity")
FEATURES = Reason("node-features")

_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def static_reason(scheduling: Scheduling, facts: NodeFacts) -> Reason | None:
    """The first reason why the pod may never go to this node as it is described, None if there is none."""
    rules = scheduling.node
    if facts.unschedulable and not tolerates(rules, _CORDON):
        return UNSCHEDULABLE
    if rules.node_name and rules.node_name != facts.name:
        return OTHER_NODE
    taint = untolerated_taint(rules, facts)
    if taint is not None:
        return Reason("untolerated-taint", (taint.key, taint.value))
    if not selects(rules, facts):
        return NOT_SELECTED
    return None if {*rules.features} <= {*facts.features} else FEATURES


def selects(rules: NodeRules, facts: NodeFacts) -> bool:
    """Whether the pod's node selector and required node affinity both take the node."""
    if not rules.selector and rules.required is None:
        return True
    labels = dict(facts.labels)
    if any(labels.get(key) != value for key, value in rules.selector):
        return False
    return rules.required is None or any(term.matches(facts.name, labels) for term in rules.required)


def untolerated_taint(rules: NodeRules, facts: NodeFacts) -> Taint | None:
    """The first taint that keeps the pod off the node; those that only discourage do not."""
    for taint in facts.taints:
        if taint.effect != "PreferNoSchedule" and not tolerates(rules, taint):
            return taint
    return None


def tolerates(rules: NodeRules, taint: Taint) -> bool:
    return any(toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in rules.tolerations)
