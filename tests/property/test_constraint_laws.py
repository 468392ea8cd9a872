"""Rules about pods beside pods, and about nodes: counted step by step or told plainly, the answer is the same."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar, get_args

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.reason import Reason
from numaware.schedule.filters import PlacedPods, static_reason
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.preference_scores import neighbour_scores
from numaware.workload.pod import Pod
from numaware.workload.scheduling import (
    Effect,
    Labels,
    NodeRules,
    NodeTerm,
    Operator,
    PodRules,
    PodTerm,
    PreferredPods,
    Requirement,
    Scheduling,
    Selector,
    SpreadRule,
    Toleration,
)
from support.placed_pods import Place, labels, plain_reason, plain_weight, pod

KEYS = ("host", "zone", "rack")
NAMESPACES: dict[str, Labels] = {"x": labels("team=red"), "y": labels("team=blue")}
TEAMS = (Selector((Requirement("team", "In", ("red",)),)), Selector((Requirement("team", "Exists"),)))
EFFECTS: tuple[Effect, ...] = get_args(Effect)

# Whole scenes are made from one source of chance, not drawn value by value: rules that meet pods they mean are rare,
# and have to be made dense to find anything.
scenes = st.randoms(use_true_random=True)
T = TypeVar("T")


def some(chance: Random, make: Callable[[Random], T], most: int) -> tuple[T, ...]:
    return tuple(make(chance) for _ in range(chance.randint(0, most)))


def a_requirement(chance: Random) -> Requirement:
    operator: Operator = chance.choice(("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
    values = tuple(sorted(chance.sample("ab", chance.randint(1, 2))))
    return Requirement(chance.choice(("app", "tier")), operator, values if "In" in operator else ())


def a_selector(chance: Random) -> Selector | None:
    return None if chance.random() < 0.1 else Selector(some(chance, a_requirement, 2))


def a_term(chance: Random) -> PodTerm:
    namespaces = tuple(sorted(chance.sample("xy", chance.randint(1, 2))))
    return PodTerm(chance.choice(KEYS), a_selector(chance), namespaces, chance.choice((None, None, *TEAMS)))


def a_wish(chance: Random) -> PreferredPods:
    return PreferredPods(chance.randint(1, 100), a_term(chance))


def a_spread(chance: Random) -> SpreadRule:
    return SpreadRule(
        topology_key=chance.choice(KEYS),
        max_skew=chance.randint(1, 2),
        hard=chance.random() < 0.8,
        selector=a_selector(chance),
        min_domains=chance.choice((1, 1, 2, 3)),
        heed_affinity=chance.random() < 0.5,
        heed_taints=chance.random() < 0.5,
    )


def a_toleration(chance: Random) -> Toleration:
    return Toleration(
        key=chance.choice(("", "gpu", "gpu", "old")),
        exists=chance.random() < 0.5,
        value=chance.choice(("", "yes")),
        effect=chance.choice(("", *EFFECTS)),
    )


def a_node_requirement(chance: Random) -> Requirement:
    if chance.random() < 0.7:
        return a_requirement(chance)
    return Requirement("size", chance.choice(("Gt", "Lt")), (chance.choice(("3", "-1", "x")),))


def a_node_term(chance: Random) -> NodeTerm:
    names = (Requirement("metadata.name", "NotIn", ("n1",)),)
    return NodeTerm(
        (a_node_requirement(chance), *some(chance, a_node_requirement, 1)), chance.choice(((), (), names))
    )


def node_rules(chance: Random) -> NodeRules:
    return NodeRules(
        node_name=chance.choice(("", "", "", "n0")),
        selector=chance.choice(((), (), labels("app=a"), labels("app=a tier=b"))),
        required=chance.choice((None, some(chance, a_node_term, 2))),
        tolerations=some(chance, a_toleration, 2),
    )


def a_taint(chance: Random) -> Taint:
    return Taint(chance.choice(("gpu", "old")), chance.choice(("", "yes")), chance.choice(EFFECTS))


def a_node(chance: Random, name: str) -> NodeFacts:
    values = {"host": name, "zone": "ab", "rack": "abc", "app": "ab", "tier": "ab"}
    found = {
        key: name if key == "host" else chance.choice(value)
        for key, value in values.items()
        if chance.random() < 0.75
    }
    found["size"] = chance.choice(("0", "4", "big"))
    return NodeFacts(
        name, tuple(sorted(found.items())), some(chance, a_taint, 2), unschedulable=chance.random() < 0.1
    )


def a_pod(chance: Random, name: str) -> Pod:
    rules = PodRules(
        near=some(chance, a_term, 2) if chance.random() < 0.4 else (),
        apart=some(chance, a_term, 1) if chance.random() < 0.4 else (),
        rather_near=some(chance, a_wish, 2),
        rather_apart=some(chance, a_wish, 2),
    )
    return pod(
        name,
        chance.choice(("", "app=a", "app=b", "app=a tier=b", "tier=a")),
        namespace=chance.choice("xxy"),
        rules=rules if chance.random() < 0.7 else PodRules(),
        spread=some(chance, a_spread, 2),
        nodes=node_rules(chance) if chance.random() < 0.3 else NodeRules(),
    )


class Scene:
    """A cluster with a past: pods came, went and moved, nodes changed and went, somebody asked in between."""

    def __init__(self, chance: Random) -> None:
        self.nodes = {name: a_node(chance, name) for name in ("n0", "n1", "n2", "n3")}
        self.placed: dict[str, tuple[Pod, str]] = {}
        self.neighbours = PlacedPods(self.nodes.values(), NAMESPACES)
        # Those who ask in between ask again at the end, when what they asked for has been counted for a while.
        self.asking = [a_pod(chance, "new") for _ in range(3)]
        # One asks as another does but may use other nodes, so that what they share is not mixed up.
        self.asking += [
            msgspec.structs.replace(
                asking, scheduling=msgspec.structs.replace(asking.scheduling, node=node_rules(chance))
            )
            for asking in self.asking
        ]
        for _ in range(chance.randint(0, 14)):
            self._happen(chance)

    def _happen(self, chance: Random) -> None:
        what = chance.choice(("place",) * 6 + ("remove", "remove", "ask", "ask", "change", "drop"))
        node, uid = chance.choice(sorted(self.nodes)), f"p{chance.randint(0, 6)}"
        if what == "place":
            newcomer = a_pod(chance, uid)
            self.placed[uid] = newcomer, node
            self.neighbours.place(newcomer, node)
        elif what == "remove":
            self.placed.pop(uid, None)
            self.neighbours.remove(uid)
        elif what == "ask":
            self.neighbours.rules_for(chance.choice(self.asking))
        elif what == "change":
            self.nodes[node] = a_node(chance, node)
            self.neighbours.set_node(self.nodes[node])
        elif len(self.nodes) > 2:
            del self.nodes[node]
            self.placed = {uid: (who, at) for uid, (who, at) in self.placed.items() if at != node}
            self.neighbours.drop_node(node)

    def reasons(self, asking: Pod, neighbours: PlacedPods | None = None) -> dict[str, Reason | None]:
        rules = (neighbours or self.neighbours).rules_for(asking)
        return {name: None if rules is None else rules.reason(name) for name in self.nodes}


@given(scenes)
@settings(max_examples=500)
def test_counting_step_by_step_answers_as_going_through_all_pods_does(chance: Random) -> None:
    scene = Scene(chance)
    there: list[Place] = [(who, scene.nodes[at]) for who, at in scene.placed.values()]
    nodes = list(scene.nodes.values())
    for asking in scene.asking:
        plain = {where.name: plain_reason(asking, where, nodes, there, NAMESPACES) for where in nodes}
        assert scene.reasons(asking) == plain
        rules = scene.neighbours.rules_for(asking)
        weights = [0 if rules is None else rules.weight(where.name) for where in nodes]
        assert weights == [plain_weight(asking, where, there, NAMESPACES) for where in nodes]


@given(scenes)
def test_neighbours_that_came_step_by_step_answer_as_those_told_at_once(chance: Random) -> None:
    scene = Scene(chance)
    told = PlacedPods(scene.nodes.values(), NAMESPACES)
    for who, at in scene.placed.values():
        told.place(who, at)
    names = sorted(scene.nodes)
    for asking in scene.asking:
        assert scene.reasons(asking) == scene.reasons(asking, told)
        scores = neighbour_scores(scene.neighbours.rules_for(asking), names)
        assert scores == neighbour_scores(told.rules_for(asking), names)
        assert all(0 <= score <= 100 for score in scores)


@given(scenes)
def test_pods_that_no_rule_means_and_that_have_none_never_change_an_answer(chance: Random) -> None:
    scene = Scene(chance)
    before = [scene.reasons(asking) for asking in scene.asking]
    for number in range(3):
        stranger = pod(f"stranger-{number}", "app=a tier=b", namespace="z")
        scene.neighbours.place(stranger, chance.choice(sorted(scene.nodes)))
    assert [scene.reasons(asking) for asking in scene.asking] == before


@given(scenes)
def test_a_rule_to_stay_apart_that_is_dropped_never_turns_a_fit_into_a_refusal(chance: Random) -> None:
    scene = Scene(chance)
    for asking in scene.asking:
        rules = asking.scheduling.pods
        looser = msgspec.structs.replace(
            asking,
            scheduling=msgspec.structs.replace(
                asking.scheduling, spread=(), pods=msgspec.structs.replace(rules, apart=rules.apart[1:])
            ),
        )
        before, after = scene.reasons(asking), scene.reasons(looser)
        assert [name for name, reason in before.items() if reason is None and after[name] is not None] == []


@given(scenes)
def test_one_toleration_more_never_turns_a_fit_into_a_refusal(chance: Random) -> None:
    rules = node_rules(chance)
    wider = msgspec.structs.replace(rules, tolerations=(*rules.tolerations, a_toleration(chance)))
    for where in (a_node(chance, f"n{index}") for index in range(6)):
        if static_reason(Scheduling(node=rules), where) is None:
            assert static_reason(Scheduling(node=wider), where) is None


@given(scenes)
def test_rules_about_nodes_that_are_dropped_or_widened_never_turn_a_fit_into_a_refusal(
    chance: Random,
) -> None:
    rules = node_rules(chance)
    looser = [
        msgspec.structs.replace(rules, selector=rules.selector[1:]),
        msgspec.structs.replace(rules, required=None),
        msgspec.structs.replace(rules, node_name=""),
    ]
    if rules.required:
        first, *rest = rules.required
        shorter = msgspec.structs.replace(first, labels=first.labels[1:])
        looser += [
            msgspec.structs.replace(rules, required=(*rules.required, a_node_term(chance))),
            msgspec.structs.replace(rules, required=(shorter, *rest)),
        ]
    for where in (a_node(chance, f"n{index}") for index in range(6)):
        if static_reason(Scheduling(node=rules), where) is None:
            assert [static_reason(Scheduling(node=each), where) for each in looser] == [None] * len(looser)
