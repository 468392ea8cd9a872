"""What a plan says: steps with their reasons, the kubelet's own refusals, and the pods that a restart would end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from node.kubelet_switch.conftest import WANTED, SwitchedNode
from numaware.errors import InputError
from numaware.kube.pods import decode
from numaware.node.kubelet_switch.place import Layer
from numaware.node.kubelet_switch.plan import Manner, plan
from numaware.node.kubelet_switch.steps import Drain, Remove
from numaware.node.kubelet_switch.words import worded


def pod(name: str, cpu: str = "4", owner: str = "ReplicaSet") -> Any:
    owners = [{"kind": owner, "name": "o", "uid": "o", "apiVersion": "v1"}] if owner else []
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return decode(
        msgspec.json.encode(
            {
                "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners},
                "spec": {
                    "nodeName": "n1",
                    "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
                },
                "status": {"phase": "Running"},
            }
        )
    )


def names(steps: Any) -> list[str]:
    return [worded(step).name for step in steps]


def test_from_none_to_static_both_state_files_go_each_with_the_kubelets_reason(node: SwitchedNode) -> None:
    made = node.planned(**WANTED)
    assert made.possible
    assert names(made.steps) == ["stop", "backup", "write", "remove", "remove", "start", "ready"]
    removed = {step.path.rpartition("/")[2]: step.said for step in made.steps if isinstance(step, Remove)}
    assert set(removed) == {"cpu_manager_state", "memory_manager_state"}
    assert (
        'configured policy "static" differs from state checkpoint policy "none"'
        in removed["cpu_manager_state"]
    )


def test_a_policy_that_no_state_file_depends_on_leaves_them_all(node: SwitchedNode) -> None:
    made = node.planned(topologyManagerPolicy="best-effort")
    assert names(made.steps) == ["stop", "backup", "write", "start", "ready"]


def test_what_is_so_already_changes_nothing(node: SwitchedNode) -> None:
    made = node.planned(cpuManagerPolicy="none")
    assert not made.steps
    assert not made.diff


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            {"topologyManagerPolicy": "strict"},
            'topologyManagerPolicy (--topology-manager-policy) "strict" must be one of',
        ),
        (
            {"cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {"full-pcpu-only": "true"}},
            "unknown CPU Manager Policy option",
        ),
        (
            {
                "cpuManagerPolicy": "static",
                "cpuManagerPolicyOptions": {"distribute-cpus-across-cores": "true"},
            },
            "CPU Manager Policy Alpha-level Options not enabled",
        ),
        (
            {
                "memoryManagerPolicy": "Static",
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            },
            'the total amount "1Gi" of type "memory" is not equal to the value "1124Mi"',
        ),
        (
            {"cpuManagerPolicy": "static", "systemReserved": {"cpu": None}},
            "unable to determine reserved CPU resources for static policy",
        ),
    ],
)
def test_the_kubelets_refusal_is_told_in_its_own_words_and_nothing_is_planned(
    node: SwitchedNode, wanted: dict[str, Any], said: str
) -> None:
    made = node.planned(**wanted)
    assert not made.possible
    assert not made.steps
    assert said in made.refusals[0]


def test_running_pods_that_a_restart_would_end_are_named(node: SwitchedNode) -> None:
    situation = msgspec.structs.replace(
        node.situation(), pods=(pod("small"), pod("large", "10"), pod("huge", "9")), node="n1"
    )
    made = plan(situation, {**WANTED, "topologyManagerPolicy": "single-numa-node"}, Manner(journal="/j"))
    assert [(one.name, one.reason) for one in made.ended] == [
        ("large", "TopologyAffinityError"),
        ("huge", "TopologyAffinityError"),
    ]


def test_pods_beyond_what_is_left_end_as_out_of_cpu(node: SwitchedNode) -> None:
    situation = msgspec.structs.replace(node.situation(), pods=(pod("a", "8"), pod("b", "7")), node="n1")
    made = plan(situation, {"systemReserved": {"cpu": "4"}}, Manner(journal="/j"))
    assert [(one.name, one.reason) for one in made.ended] == [("b", "OutOfcpu")]


def test_a_drain_moves_what_can_move_and_asks_before_it_ends_what_nobody_makes_anew(
    node: SwitchedNode,
) -> None:
    pods = (
        pod("moves"),
        pod("stays", owner="DaemonSet"),
        pod("static", owner="Node"),
        pod("alone", owner=""),
    )
    situation = msgspec.structs.replace(node.situation(), pods=pods, node="n1")
    made = plan(situation, WANTED, Manner(drain=True, journal="/j"))
    assert not made.possible
    assert "default/alone" in str(made.obstacles[0])
    made = plan(situation, WANTED, Manner(drain=True, force=True, journal="/j"))
    assert made.possible
    assert names(made.steps)[:3] == ["cordon", "drain", "stop"]
    assert names(made.steps)[-1] == "uncordon"
    (drain,) = (step for step in made.steps if isinstance(step, Drain))
    assert drain.pods == ("default/moves", "default/alone")


def test_a_node_that_was_cordoned_stays_so(node: SwitchedNode) -> None:
    situation = msgspec.structs.replace(node.situation(), pods=(), node="n1", unschedulable=True)
    made = plan(situation, WANTED, Manner(journal="/j"))
    assert "uncordon" not in names(made.steps)


def test_a_flag_that_wins_over_the_file_makes_the_switch_vain(node: SwitchedNode) -> None:
    situation = node.situation()
    place = msgspec.structs.replace(
        situation.place, flag_text="--cpu-manager-policy=none", flag_source="kubelet.env"
    )
    with pytest.raises(InputError, match=r"would have no effect: kubelet\.env has the last word"):
        plan(msgspec.structs.replace(situation, place=place), WANTED, Manner(journal="/j"))


def test_a_drop_in_read_later_makes_the_switch_vain(node: SwitchedNode) -> None:
    situation = node.situation()
    later = Layer("/etc/kubelet.d/zz.conf", "drop-in", b"topologyManagerPolicy: none\n")
    place = msgspec.structs.replace(situation.place, layers=(*situation.place.layers, later))
    with pytest.raises(InputError, match=r"zz\.conf has the last word"):
        plan(
            msgspec.structs.replace(situation, place=place),
            {"topologyManagerPolicy": "restricted"},
            Manner(journal="/j"),
        )
