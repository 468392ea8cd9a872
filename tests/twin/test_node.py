"""The front door: admit, release, start, restart, on machines small enough to work out by hand."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import state_files
from numaware.twin.hardware import Hardware, PluginDevice, PluginResource
from numaware.twin.node import Merge, Node
from numaware.workload.pod import NANO, Container, Pod
from support.twin_nodes import (
    GI,
    GPU,
    HUGE,
    NIC,
    admitted,
    config,
    container,
    cpus_of,
    devices_of,
    machine,
    pod,
    pod_of,
    shared_pool,
    sized,
    state_key,
)


class TestAdmit:
    def test_a_node_stays_what_it_was(self) -> None:
        node = Node.fresh(machine(), config("restricted"))
        before = state_key(node)
        after = node.admit(pod("u", 3)).node
        assert state_key(node) == before
        assert (shared_pool(node), shared_pool(after)) == ("0-15", "0,4-15")

    def test_a_later_container_sees_what_an_earlier_one_took(self) -> None:
        pair = pod_of("u", container("a", {"cpu": 5, "memory": GI}), container("b", {"cpu": 5, "memory": GI}))
        node = admitted(Node.fresh(machine(), config("single-numa-node")), pair)
        assert [cpus_of(node, "u", name) for name in "ab"] == ["1-5", "8-12"]

    def test_what_a_refused_pod_got_is_held_until_the_kubelet_cleans_up(self) -> None:
        pair = pod_of("u", container("a", {"cpu": 5, "memory": GI}), container("b", {"cpu": 9, "memory": GI}))
        node = Node.fresh(machine(), config("single-numa-node"))
        verdict = node.admit(pair)
        assert verdict.reason == "TopologyAffinityError"
        assert verdict.held.cpu.owned == {"u": {"a": 0b111110}}
        assert verdict.node.state.cpu == replace(node.state.cpu, reuse=verdict.node.state.cpu.reuse)
        assert "u" not in verdict.node.state.pods

    def test_merges_are_watched_up_to_the_first_refusal(self) -> None:
        three = pod_of(
            "u",
            *(
                container(name, {"cpu": cpus, "memory": GI})
                for name, cpus in zip("abc", (1, 9, 1), strict=True)
            ),
        )
        merges: list[Merge] = []
        Node.fresh(machine(), config("single-numa-node")).admit(three, merges.append)
        assert [(merge.container, merge.admitted) for merge in merges] == [("a", True), ("b", False)]

    def test_policy_none_merges_nothing(self) -> None:
        merges: list[Merge] = []
        Node.fresh(machine(), config("none")).admit(pod("u", 3), merges.append)
        assert merges == []

    def test_a_fraction_of_a_cpu_is_shared_while_its_sibling_is_pinned(self) -> None:
        half = (("cpu", NANO // 2), ("memory", GI * NANO))
        pair = pod_of("u", container("a", {"cpu": 2, "memory": GI}), Container("b", half, half))
        node = admitted(Node.fresh(machine(), config("restricted")), pair)
        assert (cpus_of(node, "u", "a"), cpus_of(node, "u", "b")) == ("1-2", "")

    def test_a_burstable_pod_gets_devices_but_no_cpus(self) -> None:
        hardware = machine(devices={GPU: {"a": (1,)}})
        burstable = Pod("p", uid="u", containers=(Container("app", sized({"cpu": 2}), sized({GPU: 1})),))
        node = admitted(Node.fresh(hardware, config("restricted")), burstable)
        assert (cpus_of(node, "u"), devices_of(node, "u")) == ("", {1: 1})

    def test_the_message_counts_what_was_missing_in_the_second_helping(self) -> None:
        node = admitted(Node.fresh(machine(2, 14), config("best-effort")), pod("a", 14))
        verdict = node.admit(pod("b", 14))
        assert verdict.message == (
            "Allocate failed due to not enough cpus available to satisfy request: requested=1, available=0, "
            "which is unexpected"
        )

    def test_memory_only_init_containers_ask_for_can_span_under_single_numa_node(self) -> None:
        """With scope pod only the app containers' kinds of memory are asked about: the huge pages come later, on two nodes."""
        hardware = machine(memory=16 * GI, hugepages=2 * GI)
        odd = pod_of(
            "u",
            container("app", {"cpu": 2, "memory": GI}),
            init=(container("init", {"cpu": 1, "memory": GI, HUGE: 3 * GI}),),
        )
        node = admitted(Node.fresh(hardware, config("single-numa-node", scope="pod", memory=True)), odd)
        blocks = {block.kind: block.nodes for block in node.state.memory.blocks["u"]["init"]}
        assert blocks[HUGE] == 0b11

    def test_a_huge_page_size_a_node_lacks_crashes_the_kubelet(self) -> None:
        node = Node.fresh(machine(), config("best-effort", memory=True))
        with pytest.raises(KubeletPanic, match="nil pointer"):
            node.admit(pod("u", 1, GI, huge=2 * GI))


class TestDevices:
    def test_those_on_the_nodes_of_the_hint_come_first_then_others_then_those_nowhere(self) -> None:
        hardware = machine(2, 8, devices={GPU: {"a": (), "b": (0,), "c": (1,)}})
        full = admitted(Node.fresh(hardware, config("best-effort")), pod("other", 7))
        for count, places in ((1, {1: 1}), (2, {0: 1, 1: 1}), (3, {-1: 1, 0: 1, 1: 1})):
            node = full.admit(pod("u", 8, gpu=count)).node
            assert devices_of(node, "u") == places

    def test_some_devices_without_topology_make_a_request_impossible_that_could_be_met(self) -> None:
        hardware = machine(2, 8, devices={GPU: {"a": (), "b": (0,)}})
        assert (
            Node.fresh(hardware, config("restricted")).admit(pod("u", 1, gpu=2)).reason
            == "TopologyAffinityError"
        )
        assert Node.fresh(hardware, config("best-effort")).admit(pod("u", 1, gpu=2)).admitted

    def test_devices_without_topology_fit_everywhere(self) -> None:
        hardware = machine(2, 8, devices={NIC: {"a": (), "b": ()}})
        node = admitted(Node.fresh(hardware, config("single-numa-node")), pod("u", 8, nic=2))
        assert (cpus_of(node, "u"), devices_of(node, "u", NIC)) == ("8-15", {-1: 2})

    def test_a_device_on_two_nodes_is_at_home_on_both(self) -> None:
        hardware = machine(2, 8, devices={GPU: {"a": (0, 1)}})
        node = admitted(Node.fresh(hardware, config("single-numa-node")), pod("u", 8, gpu=1))
        assert (cpus_of(node, "u"), devices_of(node, "u")) == ("8-15", {0: 1, 1: 1})

    def test_unhealthy_devices_are_refused_by_name(self) -> None:
        sick = PluginResource(GPU, (PluginDevice("a", (0,), healthy=False),))
        node = Node.fresh(Hardware(machine().numa, (sick,)), config("none"))
        assert f"cannot allocate unhealthy devices {GPU}" in node.admit(pod("u", 1, gpu=1)).message

    def test_a_resource_nobody_registered_is_not_the_device_managers_business(self) -> None:
        assert Node.fresh(machine(), config("restricted")).admit(pod("u", 1, gpu=4)).admitted

    def test_devices_of_an_init_container_are_used_again(self) -> None:
        hardware = machine(devices={GPU: {"a": (0,), "b": (1,)}})
        again = pod_of("u", container("app", {GPU: 2}), init=(container("init", {GPU: 2}),))
        node = admitted(Node.fresh(hardware, config("restricted")), again)
        assert devices_of(node, "u", name="init") == devices_of(node, "u") == {0: 1, 1: 1}

    def test_the_file_still_lists_a_pod_that_is_gone(self) -> None:
        hardware = machine(devices={GPU: {"a": (0,)}})
        node = admitted(Node.fresh(hardware, config("none")), pod("u", 1, gpu=1)).release("u")
        assert node.state.device.owned == {}
        assert '"PodUID":"u"' in state_files(node.kubelet, node.state)["kubelet_internal_checkpoint"]


class TestRelease:
    def test_a_pod_nobody_knows_changes_nothing(self) -> None:
        node = admitted(Node.fresh(machine(), config("restricted")), pod("u", 3))
        assert node.release("stranger").state == node.state

    def test_all_at_once_is_as_one_after_another(self) -> None:
        node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 3), pod("b", 2))
        assert state_key(node.release("a", "b")) == state_key(node.release("a").release("b"))


class TestStart:
    def test_memory_of_init_containers_that_ended_is_free_again_but_not_a_sidecars(self) -> None:
        three = pod_of(
            "u",
            container("app", {"cpu": 1, "memory": GI}),
            init=(
                container("big", {"cpu": 1, "memory": 6 * GI}),
                container("side", {"cpu": 1, "memory": 2 * GI}, restartable=True),
            ),
        )
        node = admitted(Node.fresh(machine(memory=16 * GI), config("best-effort", memory=True)), three)
        started = node.start_containers("u")
        held = {
            name: sum(block.size for block in blocks)
            for name, blocks in started.state.memory.blocks["u"].items()
        }
        assert held == {"app": GI, "side": 2 * GI}
        assert started.state.memory.nodes[0].free[0] == 12 * GI

    def test_a_pod_that_is_not_there_starts_nothing(self) -> None:
        node = Node.fresh(machine(), config("best-effort", memory=True))
        assert node.start_containers("u") is node


class TestRestart:
    def test_pods_keep_what_they_had(self) -> None:
        hardware = machine(devices={GPU: {"a": (0,), "b": (1,)}})
        node = admitted(
            Node.fresh(hardware, config("restricted", memory=True)), pod("a", 3, gpu=1), pod("b", 8, gpu=1)
        )
        restarted = node.restart()
        assert [(uid, verdict.admitted) for uid, verdict in restarted.verdicts] == [("a", True), ("b", True)]
        assert state_key(restarted.node) == state_key(node)

    def test_full_pcpus_only_refuses_a_running_pod_when_the_rest_is_smaller(self) -> None:
        options = (("full-pcpus-only", "true"),)
        node = Node.fresh(machine(1, 8, threads=2), config("none", cpu_options=options, reserved="2"))
        node = admitted(node, pod("u", 4))
        ((_, verdict),) = node.restart().verdicts
        assert verdict.reason == "SMTAlignmentError"
        assert "available physical CPUs = 2, requested CPUs = 4" in verdict.message
        assert shared_pool(node.restart().node) == "0-7"

    def test_a_full_machine_with_strict_reservation_does_not_start_again(self) -> None:
        options = (("strict-cpu-reservation", "true"),)
        node = admitted(Node.fresh(machine(1, 4), config("none", cpu_options=options)), pod("u", 3))
        with pytest.raises(StartError, match="default cpuset cannot be empty"):
            node.restart()

    def test_finished_init_containers_want_their_memory_again(self) -> None:
        hungry = pod_of(
            "u",
            container("app", {"cpu": 1, "memory": GI}),
            init=(container("init", {"cpu": 1, "memory": 12 * GI}),),
        )
        node = Node.fresh(machine(1, 8, memory=16 * GI), config("best-effort", memory=True))
        node = admitted(admitted(node, hungry).start_containers("u"), pod("other", 1, 10 * GI))
        verdicts = dict(node.restart().verdicts)
        assert (verdicts["u"].admitted, verdicts["other"].admitted) == (False, True)
        assert "[memorymanager] failed to find" in verdicts["u"].message

    def test_every_pods_merges_are_watched(self) -> None:
        node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 3), pod("b", 2))
        heard: list[tuple[str, str | None]] = []
        node.restart(lambda uid, merge: heard.append((uid, merge.container)))
        assert heard == [("a", "app"), ("b", "app")]
