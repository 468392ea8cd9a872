"""Explanations on a terminal: never wider than it, whatever the names in them hold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.cli.explain_view import lines, paragraph
from numaware.diagnose.explain.explanation import explain
from numaware.machine.drawing.lines import Line, line_width, plain
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, HUGE, admitted, config, container, machine, pod, pod_of

DEVICES = {
    GPU: {"g0": (0,), "g1": (1,)},
    "very-long.vendor.example.com/infiniband-virtual-function": {"v": (0,)},
}
HOSTILE = st.text(
    st.sampled_from("ab-\x1b[31m\u202e\u3000\r\n\t\u0301漢字\uff57\U0001f468\u200d\u00a0,") | st.characters(),
    max_size=300,
)


def shown(node: Node, asked: Pod, room: int, name: str = "n1") -> list[Line]:
    return list(lines(explain(name, node, asked), room))


def busy(policy: str) -> Node:
    hardware = machine(3, 8, hugepages=2 * GI, devices=DEVICES)
    return admitted(
        Node.fresh(hardware, config(policy, memory=True)), pod("a", 4, 2 * GI, gpu=1), pod("b", 5)
    )


@pytest.mark.parametrize("room", [40, 53, 66, 80, 100, 120])
@pytest.mark.parametrize("policy", ["none", "restricted", "single-numa-node"])
@pytest.mark.parametrize("cpus", [2, 7, 40])
def test_no_line_is_wider_than_the_room(room: int, policy: str, cpus: int) -> None:
    page = shown(busy(policy), pod("new", cpus, 70 * GI, gpu=1, huge=GI), room)
    assert max(map(line_width, page)) <= room
    assert len(page) > 8


@settings(max_examples=60)
@given(HOSTILE, HOSTILE, HOSTILE, st.integers(40, 120), st.sampled_from([2, 40]))
def test_names_of_strangers_cannot_break_the_page(
    node_name: str, pod_name: str, container_name: str, room: int, cpus: int
) -> None:
    node = busy("restricted")
    parts = [
        container(name, {"cpu": cpus, "memory": GI, GPU: 1, HUGE: 2 << 20}) for name in (container_name, "x")
    ]
    asked = msgspec.structs.replace(pod_of("new", *parts), name=pod_name, namespace=pod_name)
    holder = msgspec.structs.replace(node.state.pods["a"], name=pod_name)
    node = Node(node.kubelet, msgspec.structs.replace(node.state, pods={**node.state.pods, "a": holder}))
    for line in shown(node, asked, room, node_name):
        assert line_width(line) <= room
        assert plain(line).replace(" ", "").isprintable() or not plain(line)


def test_a_long_name_is_cut_not_repeated_without_end() -> None:
    asked = msgspec.structs.replace(pod("new", 2), name="n" * 100_000)
    assert sum(map(line_width, shown(busy("none"), asked, 80))) < 5_000


def test_words_that_belong_together_stay_together() -> None:
    page = [plain(line) for line in shown(busy("single-numa-node"), pod("new", 2), 60)]
    assert "  kubelet v1.35.0 ·" in page
    assert "  topology single-numa-node, container scope ·" in page


def test_a_machine_where_nothing_is_managed_has_no_picture() -> None:
    idle = Node.fresh(machine(), msgspec.structs.replace(config(), cpu_policy="none"))
    page = [plain(line) for line in shown(idle, pod("new", 2), 100)]
    assert page == [
        "✓ default/new would be admitted by n1",
        "  kubelet v1.35.0 · topology none · CPU manager none · memory manager None",
        "",
        "  app  CPUs from the shared pool",
    ]


def test_each_kind_of_cpu_has_its_mark_and_only_those_there_are_in_the_legend() -> None:
    node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 2))
    page = [plain(line) for line in shown(node, pod("new", 3), 100)]
    assert "  NUMA 0   ▨■■◆◆◆□□  5 of 8 CPUs" in page
    assert "  NUMA 1   □□□□□□□□  8 of 8 CPUs" in page
    assert "           CPUs: ▨ reserved  ■ held  ◆ this pod  □ free to pin" in page


def test_a_wide_node_is_drawn_to_scale() -> None:
    node = Node.fresh(machine(1, 256), config("restricted"))
    (bar,) = [plain(line) for line in shown(node, pod("new", 128), 100) if "NUMA 0" in plain(line)][:1]
    assert bar.startswith("  NUMA 0   ▨" + "◆" * 16 + "□" * 15 + "  255 of 256 CPUs")


def test_nodes_without_cpus_or_devices_say_so() -> None:
    hardware = machine(2, 4, devices={GPU: {"g0": (0,)}})
    memory_only = msgspec.structs.replace(hardware.numa[1], cpus=())
    node = Node.fresh(
        msgspec.structs.replace(hardware, numa=(hardware.numa[0], memory_only)), config("restricted")
    )
    page = [plain(line) for line in shown(node, pod("new", 2), 100)]
    assert f"  NUMA 1         no CPUs      no {GPU}" in page


def test_a_spread_container_is_told_from_an_aligned_one() -> None:
    node = Node.fresh(machine(devices={GPU: {"g0": (0,), "loose": ()}}), config("best-effort"))
    page = [plain(line) for line in shown(node, pod("new", 9, gpu=2), 120)]
    assert (
        f"  app  CPUs 1,8-15 on NUMA 0+1 · {GPU}: 1 without NUMA node, 1 on NUMA 0 · spread over NUMA 0+1"
        in page
    )


def test_a_paragraph_hangs_and_is_safe() -> None:
    found = [plain(line) for line in paragraph("⚠ one\ntwo \x1b[31mthree four", 12, hang=2)]
    assert found == ["⚠ one\ufffdtwo", "  \ufffd[31mthree", "  four"]
