"""Cordons, names, taints and node affinity."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from numaware.diagnose.texts import say
from numaware.schedule.filters import static_reason
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.preference_scores import node_affinity_scores, taint_scores
from numaware.workload.scheduling import (
    NodeRules,
    NodeTerm,
    Operator,
    PreferredNodes,
    Requirement,
    Scheduling,
    Toleration,
)
from support.placed_pods import labels

NODE = NodeFacts("n1", labels("disk=ssd size=8 zone=a"))
NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"


def reason(rules: NodeRules, node: NodeFacts = NODE) -> str | None:
    refusal = static_reason(Scheduling(node=rules), node)
    return None if refusal is None else say(refusal)


def required(*terms: NodeTerm) -> NodeRules:
    return NodeRules(required=terms)


def expression(key: str, operator: Operator, *values: str) -> NodeTerm:
    return NodeTerm((Requirement(key, operator, values),))


def test_a_pod_without_rules_goes_anywhere() -> None:
    assert reason(NodeRules()) is None


def test_a_cordoned_node_takes_only_pods_that_tolerate_the_cordon() -> None:
    node = msgspec.structs.replace(NODE, unschedulable=True)
    cordon = Toleration("node.kubernetes.io/unschedulable", exists=True, effect="NoSchedule")
    assert reason(NodeRules(), node) == "node(s) were unschedulable"
    assert reason(NodeRules(tolerations=(cordon,)), node) is None
    assert reason(NodeRules(tolerations=(Toleration(exists=True),)), node) is None


def test_a_pod_that_names_its_node_goes_nowhere_else() -> None:
    assert reason(NodeRules(node_name="n1")) is None
    assert reason(NodeRules(node_name="n2")) == "node(s) didn't match the requested node name"


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "fits"),
    [
        ("Gt", "99", "100", True),
        ("Gt", "100", "100", False),
        ("Lt", "101", "100", True),
        ("Lt", "100", "100", False),
        ("Gt", "-5", "0", True),
        # What is no number in the one way to write it is not tolerated.
        ("Gt", "1", "05", False),
        ("Gt", "1", "many", False),
        ("Lt", "+9", "1", False),
        ("Gt", "1", "9223372036854775808", False),
    ],
)
def test_a_toleration_may_compare_numbers(
    operator: Literal["Gt", "Lt"], wanted: str, value: str, fits: bool
) -> None:
    rules = NodeRules(tolerations=(Toleration("price", value=wanted, compares=operator),))
    node = NodeFacts("n1", taints=(Taint("price", value, "NoSchedule"),))
    assert (reason(rules, node) is None) is fits


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (Toleration("gpu", value="yes"), True),
        (Toleration("gpu", value="yes", effect="NoSchedule"), True),
        (Toleration("gpu", exists=True), True),
        (Toleration(exists=True), True),
        (Toleration("gpu", value="no"), False),
        (Toleration("gpu"), False),
        (Toleration("gpu", value="yes", effect="NoExecute"), False),
        (Toleration("other", exists=True), False),
    ],
)
def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(toleration: Toleration, fits: bool) -> None:
    node = msgspec.structs.replace(NODE, taints=(Taint("gpu", "yes", "NoSchedule"),))
    refusal = "node(s) had untolerated taint {gpu: yes}"
    assert reason(NodeRules(), node) == refusal
    assert reason(NodeRules(tolerations=(toleration,)), node) == (None if fits else refusal)


def test_the_first_taint_that_is_not_tolerated_is_named_also_where_it_would_evict() -> None:
    taints = (
        Taint("soft", "", "PreferNoSchedule"),
        Taint("gpu", "", "NoSchedule"),
        Taint("node.kubernetes.io/not-ready", "", "NoExecute"),
    )
    rules = NodeRules(tolerations=(Toleration("gpu", exists=True),))
    node = msgspec.structs.replace(NODE, taints=taints)
    assert reason(rules, node) == "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"


def test_a_taint_that_only_discourages_keeps_nobody_away() -> None:
    node = msgspec.structs.replace(NODE, taints=(Taint("soft", "", "PreferNoSchedule"),))
    assert reason(NodeRules(), node) is None


def test_every_label_of_a_node_selector_has_to_be_there() -> None:
    assert reason(NodeRules(selector=labels("disk=ssd zone=a"))) is None
    assert reason(NodeRules(selector=labels("disk=ssd zone=b"))) == NOT_SELECTED
    assert reason(NodeRules(selector=labels("arch=arm"))) == NOT_SELECTED


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("arch", "In", "arm"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("arch", "NotIn", "arm"), True),
        (expression("zone", "Exists"), True),
        (expression("arch", "Exists"), False),
        (expression("arch", "DoesNotExist"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("size", "Gt", "7"), True),
        (expression("size", "Gt", "8"), False),
        (expression("size", "Lt", "9"), True),
        (expression("size", "Lt", "-9"), False),
        (expression("size", "Lt", "+9"), True),
        (expression("size", "Gt", "many"), False),
        (expression("size", "Lt", "9.5"), False),
        (expression("size", "Lt", "9_0"), False),
        (expression("size", "Lt", "9223372036854775808"), False),
        (expression("zone", "Lt", "9"), False),
        (expression("arch", "Gt", "0"), False),
        (NodeTerm(names=(Requirement("metadata.name", "In", ("n1",)),)), True),
        (NodeTerm(names=(Requirement("metadata.name", "In", ("n2",)),)), False),
        (NodeTerm(names=(Requirement("metadata.name", "NotIn", ("n2",)),)), True),
    ],
)
def test_required_node_affinity(term: NodeTerm, fits: bool) -> None:
    assert reason(required(term)) == (None if fits else NOT_SELECTED)


def test_one_term_is_enough_but_it_has_to_match_as_a_whole() -> None:
    here, elsewhere = Requirement("zone", "In", ("a",)), Requirement("zone", "In", ("b",))
    assert reason(required(NodeTerm((elsewhere,)), NodeTerm((here,)))) is None
    assert reason(required(NodeTerm((here, elsewhere)))) == NOT_SELECTED
    assert reason(required(NodeTerm((here,), (Requirement("metadata.name", "In", ("n2",)),)))) == NOT_SELECTED


def test_an_affinity_of_empty_terms_takes_no_node() -> None:
    assert reason(required()) == NOT_SELECTED


def test_selector_and_affinity_have_to_agree() -> None:
    rules = NodeRules(selector=labels("disk=ssd"), required=(expression("zone", "In", "b"),))
    assert reason(rules) == NOT_SELECTED


def test_the_reason_that_kube_scheduler_would_find_first_is_given() -> None:
    node = msgspec.structs.replace(NODE, unschedulable=True, taints=(Taint("gpu", "", "NoSchedule"),))
    rules = NodeRules(node_name="n2", selector=labels("zone=b"))
    cordon = Toleration("node.kubernetes.io/unschedulable", exists=True)
    assert reason(rules, node) == "node(s) were unschedulable"
    rules = msgspec.structs.replace(rules, tolerations=(cordon,))
    assert reason(rules, node) == "node(s) didn't match the requested node name"
    rules = msgspec.structs.replace(rules, node_name="")
    assert reason(rules, node) == "node(s) had untolerated taint {gpu: }"


def test_preferred_nodes_score_by_the_weights_that_match() -> None:
    scheduling = Scheduling(
        node=NodeRules(
            preferred=(
                PreferredNodes(30, expression("zone", "In", "a")),
                PreferredNodes(60, expression("disk", "Exists")),
            )
        )
    )
    nodes = [NODE, NodeFacts("n2", labels("disk=hdd")), NodeFacts("n3", labels("zone=a")), NodeFacts("n4")]
    assert node_affinity_scores(scheduling, nodes) == [100, 66, 33, 0]
    assert node_affinity_scores(scheduling, nodes[3:]) == [0]
    assert node_affinity_scores(Scheduling(), nodes) == [0, 0, 0, 0]


def test_taints_that_discourage_count_against_a_node_unless_tolerated() -> None:
    soft, other = Taint("soft", "", "PreferNoSchedule"), Taint("other", "", "PreferNoSchedule")
    hard = Taint("hard", "", "NoSchedule")
    nodes = [NodeFacts("n1", taints=(soft, other)), NodeFacts("n2", taints=(soft, hard)), NodeFacts("n3")]
    assert taint_scores(Scheduling(), nodes) == [0, 50, 100]
    tolerant = Scheduling(node=NodeRules(tolerations=(Toleration("soft", exists=True),)))
    assert taint_scores(tolerant, nodes) == [0, 100, 100]
    strict = Scheduling(node=NodeRules(tolerations=(Toleration("soft", exists=True, effect="NoSchedule"),)))
    assert taint_scores(strict, nodes) == [0, 50, 100]
    assert taint_scores(Scheduling(), nodes[2:]) == [100]
