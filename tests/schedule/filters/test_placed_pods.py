"""Pods beside pods: affinity, anti-affinity of both sides, and spread."""

from __future__ import annotations

import msgspec
import pytest

from numaware.diagnose.reason import Reason
from numaware.schedule.filters import PlacedPods
from numaware.schedule.filters import placed_pods as index
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.schedule.preference_scores import neighbour_scores
from numaware.workload.pod import Pod
from numaware.workload.scheduling import (
    NodeRules,
    PodRules,
    PodTerm,
    PreferredPods,
    Requirement,
    Selector,
    SpreadRule,
    Toleration,
)
from support.placed_pods import labels, node, pod, selector, term

NODES = (node("a1", "zone=a"), node("a2", "zone=a"), node("b1", "zone=b"), node("nowhere"))
NOT_NEAR = Reason("pod-affinity")
TOO_NEAR = Reason("pod-anti-affinity")
NOT_WELCOME = Reason("existing-anti-affinity")
UNEVEN = Reason("topology-spread")
NO_DOMAIN = Reason("topology-spread-label")


def reasons(neighbours: PlacedPods, asking: Pod, nodes: tuple[NodeFacts, ...] = NODES) -> list[Reason | None]:
    rules = neighbours.rules_for(asking)
    return [rules.reason(each.name) if rules else None for each in nodes]


def with_web(*names: str) -> PlacedPods:
    neighbours = PlacedPods(NODES)
    for number, name in enumerate(names):
        neighbours.place(pod(f"web-{number}", "app=web"), name)
    return neighbours


def near(*terms: PodTerm, text: str = "app=db") -> Pod:
    return pod("new", text, rules=PodRules(near=terms))


def apart(*terms: PodTerm, text: str = "app=db") -> Pod:
    return pod("new", text, rules=PodRules(apart=terms))


def spread(key: str = "zone", skew: int = 1, chosen: Selector | None = None, **fields: object) -> Pod:
    rule = SpreadRule(key, skew, hard=True, selector=selector("app=web") if chosen is None else chosen)
    return pod("new", "app=web", spread=(msgspec.structs.replace(rule, **fields),))


def test_a_pod_without_rules_among_pods_without_rules_has_nothing_to_ask() -> None:
    assert with_web("a1").rules_for(pod("new", "app=web")) is None


def test_affinity_asks_for_the_domain_of_a_pod_it_means() -> None:
    assert reasons(with_web("a1"), near(term("zone", "app=web"))) == [None, None, NOT_NEAR, NOT_NEAR]


def test_affinity_to_nobody_fits_nowhere_except_for_the_first_of_its_own_kind() -> None:
    neighbours = with_web("a1")
    assert reasons(neighbours, near(term("zone", "app=cache"))) == [NOT_NEAR] * 4
    itself = near(term("zone", "app=db"))
    assert reasons(neighbours, itself) == [None, None, None, NOT_NEAR]
    neighbours.place(itself, "b1")
    assert reasons(neighbours, itself) == [NOT_NEAR, NOT_NEAR, None, NOT_NEAR]


def test_several_terms_mean_pods_that_fulfil_all_of_them() -> None:
    neighbours = with_web("a1")
    neighbours.place(pod("both", "app=web tier=front"), "b1")
    asking = near(term("zone", "app=web"), term("host", "tier=front"))
    assert reasons(neighbours, asking) == [NOT_NEAR, NOT_NEAR, None, NOT_NEAR]


def test_anti_affinity_keeps_the_pod_out_of_the_domain_and_a_node_outside_all_domains_is_free() -> None:
    assert reasons(with_web("a1"), apart(term("zone", "app=web"))) == [TOO_NEAR, TOO_NEAR, None, None]
    assert reasons(with_web("a1"), apart(term("host", "app=web"))) == [TOO_NEAR, None, None, None]


def test_placed_pods_keep_others_out_by_their_own_anti_affinity_until_they_go() -> None:
    neighbours = PlacedPods(NODES)
    neighbours.place(apart(term("zone", "app=web")), "b1")
    assert reasons(neighbours, pod("w", "app=web")) == [None, None, NOT_WELCOME, None]
    assert neighbours.rules_for(pod("c", "app=cache")) is None
    neighbours.remove("new")
    assert neighbours.rules_for(pod("w", "app=web")) is None


def test_the_pods_own_rules_are_told_before_those_of_others() -> None:
    neighbours = PlacedPods(NODES)
    mutual = apart(term("zone", "app=db"))
    neighbours.place(mutual, "a1")
    other = msgspec.structs.replace(mutual, uid="other")
    assert reasons(neighbours, other) == [TOO_NEAR, TOO_NEAR, None, None]
    assert reasons(neighbours, pod("plain", "app=db")) == [NOT_WELCOME, NOT_WELCOME, None, None]


@pytest.mark.parametrize(
    ("namespaces", "chosen", "meant"),
    [
        (("default",), None, False),
        (("shop",), None, True),
        (("default", "shop"), None, True),
        ((), Selector(), True),
        ((), Selector((Requirement("team", "In", ("red",)),)), True),
        ((), Selector((Requirement("team", "In", ("blue",)),)), False),
        ((), Selector((Requirement("kubernetes.io/metadata.name", "In", ("shop",)),)), True),
        (("other",), Selector((Requirement("team", "Exists"),)), True),
    ],
)
def test_a_term_means_the_namespaces_it_lists_and_those_it_selects(
    namespaces: tuple[str, ...], chosen: Selector | None, meant: bool
) -> None:
    neighbours = PlacedPods(NODES, {"shop": labels("team=red")})
    neighbours.place(pod("w", "app=web", namespace="shop"), "b1")
    asking = apart(PodTerm("host", selector("app=web"), namespaces, chosen))
    assert reasons(neighbours, asking)[2] == (TOO_NEAR if meant else None)


def test_labels_of_namespaces_that_come_change_and_go_change_who_is_meant() -> None:
    neighbours = PlacedPods(NODES)
    neighbours.place(pod("w", "app=web", namespace="shop"), "b1")
    red = PodTerm("host", selector("app=web"), (), selector("team=red"))
    theirs = PodTerm("host", selector("app=db"), (), selector("team=red"))
    neighbours.place(pod("guard", rules=PodRules(apart=(theirs,))), "a1")
    asking = msgspec.structs.replace(apart(red), namespace="shop")
    assert reasons(neighbours, asking) == [None] * 4
    assert neighbours.set_namespace("shop", labels("team=red"))
    assert reasons(neighbours, asking) == [NOT_WELCOME, None, TOO_NEAR, None]
    assert not neighbours.set_namespace("shop", labels("team=red"))
    assert neighbours.set_namespace("shop", labels("team=blue"))
    assert reasons(neighbours, asking) == [None] * 4
    neighbours.set_namespace("shop", labels("team=red"))
    assert neighbours.set_namespace("shop", None)
    assert reasons(neighbours, asking) == [None] * 4


def test_a_namespace_matters_to_nobody_while_no_rule_selects_by_labels() -> None:
    neighbours = with_web("a1")
    reasons(neighbours, apart(term("host", "app=web")))
    assert not neighbours.set_namespace("default", labels("team=red"))
    assert reasons(neighbours, apart(term("host", "app=web"))) == [TOO_NEAR, None, None, None]


def test_until_all_namespaces_are_known_a_pod_is_kept_off_whoever_may_mean_it() -> None:
    neighbours = PlacedPods(NODES, knows_namespaces=False)
    neighbours.place(
        pod("guard", rules=PodRules(apart=(PodTerm("host", selector("app=db"), (), selector("team=red")),))),
        "a1",
    )
    asking = pod("new", "app=db", namespace="shop")
    neighbours.set_namespace("shop", labels("team=blue"))
    assert reasons(neighbours, asking) == [NOT_WELCOME, None, None, None]
    assert neighbours.know_namespaces()
    assert reasons(neighbours, asking) == [None] * 4


def test_a_term_without_selector_means_nobody_and_an_empty_one_everybody() -> None:
    neighbours = with_web("a1")
    assert reasons(neighbours, apart(PodTerm("host", None, ("default",)))) == [None] * 4
    assert reasons(neighbours, apart(PodTerm("host", Selector(), ("default",)))) == [
        TOO_NEAR,
        None,
        None,
        None,
    ]


def test_spread_fills_the_emptiest_domain_first() -> None:
    assert reasons(with_web("a1"), spread()) == [UNEVEN, UNEVEN, None, NO_DOMAIN]
    assert reasons(with_web("a1", "b1"), spread()) == [None, None, None, NO_DOMAIN]
    assert reasons(with_web("a1", "a2"), spread(skew=3)) == [None, None, None, NO_DOMAIN]
    assert reasons(with_web("a1", "a2"), spread(skew=2)) == [UNEVEN, UNEVEN, None, NO_DOMAIN]


def test_a_pod_that_is_not_of_the_kind_it_counts_makes_no_domain_fuller() -> None:
    asking = msgspec.structs.replace(
        spread(), scheduling=msgspec.structs.replace(spread().scheduling, labels=())
    )
    assert reasons(with_web("a1"), asking) == [None, None, None, NO_DOMAIN]


def test_spread_counts_only_pods_of_the_same_namespace() -> None:
    neighbours = PlacedPods(NODES)
    neighbours.place(pod("w", "app=web", namespace="shop"), "a1")
    assert reasons(neighbours, spread()) == [None, None, None, NO_DOMAIN]


def test_too_few_domains_count_as_if_one_were_empty() -> None:
    neighbours = with_web("a1", "b1")
    assert reasons(neighbours, spread(min_domains=2))[:3] == [None, None, None]
    assert reasons(neighbours, spread(min_domains=3))[:3] == [UNEVEN, UNEVEN, UNEVEN]


def test_a_spread_that_is_only_wished_for_refuses_nothing() -> None:
    assert reasons(with_web("a1"), spread(hard=False)) == [None] * 4


def test_a_spread_of_everything_counts_nobody_and_so_fits_wherever_there_is_a_domain() -> None:
    assert reasons(with_web("a1", "a1", "a2"), spread(chosen=Selector())) == [None, None, None, NO_DOMAIN]


def test_nodes_the_pod_may_not_use_are_no_domains_unless_the_rule_says_so() -> None:
    nodes = (node("a1", "zone=a use=yes"), node("b1", "zone=b use=yes"), node("c1", "zone=c"))
    neighbours = PlacedPods(nodes)
    neighbours.place(pod("w0", "app=web"), "a1")
    neighbours.place(pod("w1", "app=web"), "b1")
    choosy = NodeRules(selector=labels("use=yes"))
    for heeds, expected in ((True, [None, None]), (False, [UNEVEN, UNEVEN])):
        asking = spread(heed_affinity=heeds)
        asking = msgspec.structs.replace(
            asking, scheduling=msgspec.structs.replace(asking.scheduling, node=choosy)
        )
        assert reasons(neighbours, asking, nodes[:2]) == expected


def test_tainted_nodes_are_domains_unless_the_rule_heeds_taints_and_the_pod_does_not_tolerate_them() -> None:
    nodes = (node("a1", "zone=a"), node("b1", "zone=b", Taint("gpu", "", "NoSchedule")))
    neighbours = PlacedPods(nodes)
    neighbours.place(pod("w0", "app=web"), "a1")
    assert reasons(neighbours, spread(), nodes[:1]) == [UNEVEN]
    assert reasons(neighbours, spread(heed_taints=True), nodes[:1]) == [None]
    asking = spread(heed_taints=True)
    tolerant = NodeRules(tolerations=(Toleration("gpu", exists=True),))
    asking = msgspec.structs.replace(
        asking, scheduling=msgspec.structs.replace(asking.scheduling, node=tolerant)
    )
    assert reasons(neighbours, asking, nodes[:1]) == [UNEVEN]


def test_a_node_that_lacks_one_of_the_keys_counts_for_none_of_the_rules() -> None:
    nodes = (node("a1", "zone=a rack=1"), node("b1", "zone=b rack=2"), node("c1", "zone=c"))
    neighbours = PlacedPods(nodes)
    neighbours.place(pod("w0", "app=web"), "a1")
    neighbours.place(pod("w1", "app=web"), "b1")
    rules = tuple(SpreadRule(key, 1, hard=True, selector=selector("app=web")) for key in ("zone", "rack"))
    assert reasons(neighbours, pod("new", "app=web", spread=rules), nodes) == [None, None, NO_DOMAIN]
    assert reasons(neighbours, pod("new", "app=web", spread=rules[:1]), nodes) == [UNEVEN, UNEVEN, None]


def test_spread_is_told_before_affinity() -> None:
    asking = pod(
        "new",
        "app=web",
        rules=PodRules(apart=(term("host", "app=web"),)),
        spread=(SpreadRule("zone", 1, hard=True, selector=selector("app=web")),),
    )
    assert reasons(with_web("a1"), asking) == [UNEVEN, UNEVEN, None, NO_DOMAIN]


def test_a_pod_that_moves_is_in_one_place_only() -> None:
    neighbours = with_web("a1")
    neighbours.place(pod("web-0", "app=web"), "b1")
    assert reasons(neighbours, apart(term("host", "app=web"))) == [None, None, TOO_NEAR, None]


def test_a_node_that_changes_its_zone_takes_its_pods_along() -> None:
    neighbours = with_web("a1")
    neighbours.place(apart(term("zone", "app=cache")), "a1")
    asking = apart(term("zone", "app=web"))
    assert reasons(neighbours, asking) == [TOO_NEAR, TOO_NEAR, None, None]
    neighbours.set_node(node("a1", "zone=b"))
    assert reasons(neighbours, asking) == [TOO_NEAR, None, TOO_NEAR, None]
    assert reasons(neighbours, pod("c", "app=cache")) == [NOT_WELCOME, None, NOT_WELCOME, None]


def test_a_node_that_is_gone_takes_its_pods_with_it() -> None:
    neighbours = with_web("a1", "b1")
    neighbours.drop_node("a1")
    assert reasons(neighbours, apart(term("zone", "app=web")), NODES[1:]) == [None, TOO_NEAR, None]
    neighbours.remove("web-0")
    assert reasons(neighbours, apart(term("zone", "app=web")), NODES[1:]) == [None, TOO_NEAR, None]


def test_a_pod_on_a_node_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="elsewhere"):
        with_web("a1").place(pod("p"), "elsewhere")


def test_a_pod_that_is_not_there_can_be_removed() -> None:
    neighbours = with_web("a1")
    neighbours.remove("nobody")
    assert reasons(neighbours, apart(term("host", "app=web"))) == [TOO_NEAR, None, None, None]


def test_counts_that_were_dropped_for_want_of_room_are_worked_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "MAX_TALLIES", 2)
    neighbours = with_web("a1")
    for app in ("web", "cache", "db", "web"):
        expected = [TOO_NEAR, None, None, None] if app == "web" else [None] * 4
        assert reasons(neighbours, apart(term("host", f"app={app}"), term("zone", "app=none"))) == expected
    neighbours.place(pod("more", "app=web"), "b1")
    assert reasons(neighbours, apart(term("host", "app=web"))) == [TOO_NEAR, None, TOO_NEAR, None]


def test_wishes_of_the_pod_and_of_those_placed_weigh_nodes() -> None:
    neighbours = with_web("a1", "a1", "b1")
    asking = pod(
        "new",
        "app=db",
        rules=PodRules(
            rather_near=(PreferredPods(10, term("host", "app=web")),),
            rather_apart=(PreferredPods(3, term("zone", "app=web")),),
        ),
    )
    names = [each.name for each in NODES]
    question = neighbours.rules_for(asking)
    assert question is not None
    assert [question.weight(name) for name in names] == [14, -6, 7, 0]
    assert neighbour_scores(question, names) == [100, 0, 65, 30]
    fond = PodRules(near=(term("zone", "app=db"),), rather_apart=(PreferredPods(5, term("host", "app=db")),))
    neighbours.place(pod("fond", "app=cache", rules=fond), "b1")
    question = neighbours.rules_for(asking)
    assert question is not None
    assert [question.weight(name) for name in names] == [14, -6, 7 + 1 - 5, 0]


def test_nobody_scores_where_nobody_wishes() -> None:
    names = [each.name for each in NODES]
    assert neighbour_scores(None, names) == [0] * 4
    assert neighbour_scores(with_web("a1").rules_for(apart(term("host", "app=web"))), names) == [0] * 4
    even = pod("new", rules=PodRules(rather_near=(PreferredPods(9, term("zone", "app=none")),)))
    assert neighbour_scores(with_web("a1").rules_for(even), names) == [0] * 4
