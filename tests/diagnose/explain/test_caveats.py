"""What stands beside a verdict: what is not pinned, what nobody offers, and how long a real kubelet would take."""

from __future__ import annotations

import msgspec
import pytest

from numaware.diagnose.explain.explanation import explain
from numaware.machine.quantity import Quantity
from numaware.twin.node import Merge, Node
from numaware.twin.topology.cost import combinations, kubelet_seconds
from numaware.workload.pod import Container, Pod, Resources
from support.in_words import causes_of, warnings_of
from support.twin_nodes import GI, GPU, NIC, admitted, config, machine, pod, pod_of


def warnings(node: Node, asked: Pod) -> list[str]:
    return list(warnings_of(explain("n1", node, asked)))


def amounts(**given: str) -> Resources:
    return tuple(sorted((name, Quantity.parse(text).nano) for name, text in given.items()))


STATIC = Node.fresh(machine(), config("restricted"))


def test_a_pod_that_is_pinned_needs_no_warning() -> None:
    assert warnings(STATIC, pod("new", 2)) == []


def test_a_fraction_of_a_cpu_is_not_pinned() -> None:
    same = amounts(cpu="1500m", memory="1Gi")
    assert warnings(STATIC, pod_of("new", Container("app", same, same))) == [
        "container app gets no CPUs of its own: it asks for 1500m CPU, and only whole numbers are pinned"
    ]


@pytest.mark.parametrize(
    ("requests", "limits", "reason"),
    [
        (
            amounts(cpu="2"),
            (),
            "the pod is Burstable, and only Guaranteed pods do (container app has no cpu limit)",
        ),
        (
            amounts(cpu="2", memory="1Gi"),
            amounts(cpu="2"),
            "the pod is Burstable, and only Guaranteed pods do (container app has no memory limit)",
        ),
        (
            amounts(cpu="1", memory="1Gi"),
            amounts(cpu="2", memory="1Gi"),
            "the pod is Burstable, and only Guaranteed pods do (container app requests 1 cpu of a limit of 2)",
        ),
        (
            amounts(cpu="2", memory="512Mi"),
            amounts(cpu="2", memory="1Gi"),
            (
                "the pod is Burstable, and only Guaranteed pods do "
                "(container app requests 512Mi memory of a limit of 1Gi)"
            ),
        ),
        ((), (), "the pod is BestEffort, and only Guaranteed pods do (container app has no cpu limit)"),
    ],
)
def test_a_pod_that_is_not_guaranteed_is_not_pinned(
    requests: Resources, limits: Resources, reason: str
) -> None:
    found = warnings(STATIC, pod_of("new", Container("app", requests, limits)))
    assert found == [f"no container gets CPUs of its own: {reason}"]


def test_pod_level_resources_are_passed_over() -> None:
    whole = amounts(cpu="2", memory="1Gi")
    asked = msgspec.structs.replace(pod("new", 2), pod_requests=whole, pod_limits=whole)
    (found,) = warnings(STATIC, asked)
    assert "the pod has resources as a whole (spec.resources)" in found


def test_a_pod_with_resources_of_its_own_is_not_burstable_for_what_its_containers_lack() -> None:
    memory = amounts(memory="1Gi")
    asked = msgspec.structs.replace(pod("new", 2), pod_requests=memory, pod_limits=memory)
    opened = msgspec.structs.replace(
        config("restricted"), version="v1.37.1", feature_gates=(("PodLevelResourceManagers", True),)
    )
    (found,) = warnings(Node.fresh(machine(), opened), asked)
    assert found == "no container gets CPUs of its own: the pod is Burstable, and only Guaranteed pods do"


def test_where_no_manager_pins_anything_nothing_is_said_of_pinning() -> None:
    idle = msgspec.structs.replace(config(), cpu_policy="none")
    assert warnings(Node.fresh(machine(), idle), pod_of("new", Container("app"))) == []


def test_a_device_that_nobody_offers_is_a_reason() -> None:
    found = explain("n1", STATIC, pod("new", 2, gpu=1))
    assert (found.admitted, found.admitted_when_empty, found.reason) == (False, False, "Unschedulable")
    (cause,) = causes_of(found)
    assert (cause.resource, cause.text) == (
        GPU,
        (
            f"no device plugin here offers {GPU}, so the kubelet passes over it; "
            "a scheduler would not send the pod here"
        ),
    )
    assert (found.warnings, found.changes) == ((), ())


def test_where_the_kubelet_refuses_a_device_that_nobody_offers_is_a_reason_as_well() -> None:
    """Changes were proposed that ended in: needs 1 more GPU than the machine has."""
    strict = Node.fresh(machine(), config("single-numa-node"))
    found = explain("n1", strict, pod("new", 9, gpu=1))
    assert [cause.resource for cause in found.why] == ["cpu", GPU]
    assert (found.reason, found.changes) == ("TopologyAffinityError", ())


def test_a_scheduler_that_has_bound_the_pod_has_seen_the_device() -> None:
    assert explain("n1", STATIC, pod("new", 2, gpu=1), totals=False).admitted


def test_a_shared_request_beyond_the_node_is_told() -> None:
    idle = Node.fresh(machine(), msgspec.structs.replace(config(), cpu_policy="none"))
    assert explain("n1", idle, pod("new", 16)).admitted
    assert warnings(idle, pod("new", 15)) == []
    assert warnings(idle, pod("new", 16)) == [
        (
            "the pod asks for 16 CPUs and the node offers 15: no scheduler would send it here, "
            "and the kubelet would fail it with OutOfcpu"
        )
    ]
    (found,) = warnings(idle, pod("new", 1, 200 * GI))
    assert found.startswith("the pod asks for 200 GiB of memory and the node offers 128 GiB")


def test_overhead_counts_for_the_scheduler_only() -> None:
    idle = Node.fresh(machine(), msgspec.structs.replace(config(), cpu_policy="none"))
    heavy = msgspec.structs.replace(pod("new", 15), overhead=amounts(cpu="250m"))
    (found,) = warnings(idle, heavy)
    assert found.startswith("the pod asks for 16 CPUs and the node offers 15")


def test_a_pod_that_runs_on_the_node_is_judged_as_after_a_restart() -> None:
    running = pod("new", 2)
    (found,) = warnings(admitted(STATIC, running), running)
    assert found.startswith("this pod is on the node already")


# The kubelet's own time, against what was counted and measured on a real one


def wide(nodes: int) -> Node:
    """A machine of 16 CPUs per node, a GPU on every node, NICs on the first two, and huge pages."""
    devices = {
        GPU: {f"g{number}": (number,) for number in range(nodes)},
        NIC: {"n0": (0,), "n1": (1,)},
    }
    hardware = machine(nodes, 16, hugepages=4 * GI, devices=devices)
    return Node.fresh(hardware, config("restricted", memory=True))


def everything(**devices: int) -> Pod:
    return pod("new", 2, GI, **devices)


def combined(node: Node, asked: Pod) -> int:
    merges: list[Merge] = []
    node.admit(asked, merges.append)
    (merge,) = merges
    lists = [hints for answer in (merge.device, merge.cpu, merge.memory) for hints in answer.values()]
    single = node.kubelet.config.topology_policy == "single-numa-node"
    return combinations(lists, single_nodes=single)


def without_memory(nodes: int) -> Node:
    return Node.fresh(wide(nodes).kubelet.hardware, config("restricted"))


@pytest.mark.parametrize(
    ("node", "asked", "count"),
    [
        (without_memory(2), everything(gpu=1), 9),
        (wide(2), everything(gpu=1), 27),
        (wide(4), everything(gpu=1, nic=1, huge=GI), 607_500),
        (without_memory(8), everything(), 255),
        (without_memory(8), everything(gpu=1), 65_025),
        (wide(8), everything(), 65_025),
        (wide(8), everything(gpu=1), 16_581_375),
        (wide(8), everything(gpu=1, nic=1, huge=GI), 811_824_120_000),
    ],
)
def test_combinations_are_those_a_kubelet_was_seen_to_walk(node: Node, asked: Pod, count: int) -> None:
    assert combined(node, asked) == count


def test_single_numa_node_walks_preferred_single_nodes_only() -> None:
    node = Node.fresh(wide(8).kubelet.hardware, config("single-numa-node", memory=True))
    assert combined(node, everything(gpu=1, nic=1, huge=GI)) == 8**4 * 2


def test_the_time_is_that_of_measured_kubelets() -> None:
    # Measured: 16.6 million combinations in 6.5 to 11 seconds; 8.1e11 extrapolated to 3.7 to 6 days.
    assert 6 <= kubelet_seconds(16_581_375) <= 11
    assert 3.7 * 86_400 <= kubelet_seconds(811_824_120_000) <= 6 * 86_400
    assert kubelet_seconds(607_500) == 0


def test_a_slow_merge_is_told_with_its_time() -> None:
    (found,) = warnings(wide(8), everything(gpu=1, nic=1, huge=GI))
    assert found.startswith(
        "a real kubelet would try 811,824,120,000 combinations of hints for container app, about 4 days;"
    )
    (found,) = warnings(wide(8), everything(gpu=1))
    assert "about 8 seconds" in found
    assert warnings(wide(4), everything(gpu=1, nic=1, huge=GI)) == []


def test_in_pod_scope_the_time_is_the_pods() -> None:
    node = Node.fresh(wide(8).kubelet.hardware, config("restricted", scope="pod", memory=True))
    (found,) = warnings(node, everything(gpu=1))
    assert "for this pod" in found
