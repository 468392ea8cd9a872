"""The examples on the page about the kubelet's decisions are what the twin says, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numaware.twin.hardware import Hardware
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, admitted, config, container, machine, pod, pod_of
from support.twin_story import told

PAGE = (Path(__file__).parents[2] / "docs" / "kubelet" / "how-the-kubelet-decides.md").read_text()
EXAMPLES = dict(re.findall(r"^<!-- example: (\S+) -->\n```text\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL))

GPU_BOX = machine(2, 14, devices={GPU: {"gpu0": (0,), "gpu1": (1,), "gpu2": (1,)}})
SMALL_BOX = machine(2, 8, memory=16 * GI)
TWO_CONTAINERS = pod_of(
    "u", container("web", {"cpu": 5, "memory": GI}), container("log", {"cpu": 3, "memory": GI})
)
WITH_INIT = pod_of(
    "u",
    container("main", {"cpu": 3, "memory": GI}),
    container("log", {"cpu": 1, "memory": GI}),
    init=(
        container("fetch", {"cpu": 4, "memory": GI}),
        container("proxy", {"cpu": 2, "memory": GI}, restartable=True),
        container("warm", {"cpu": 6, "memory": GI}),
    ),
)


def node(
    policy: str, hardware: Hardware = GPU_BOX, *, scope: str = "container", memory: bool = False
) -> Node:
    return Node.fresh(hardware, config(policy, scope=scope, memory=memory))


def busy() -> Node:
    return admitted(node("best-effort"), pod("a", 4), pod("b", 3, gpu=2))


def short_of_memory() -> Node:
    return admitted(node("best-effort", SMALL_BOX, memory=True), pod("a", 2, 12 * GI), pod("b", 2, 12 * GI))


ASKED: dict[str, tuple[Node, Pod]] = {
    "three-cpus-two-gpus": (node("restricted"), pod("u", 3, gpu=2)),
    "fourteen-cpus": (node("restricted"), pod("u", 14)),
    "twelve-cpus-on-a-busy-machine": (busy(), pod("u", 12)),
    "four-cpus-three-gpus": (node("restricted"), pod("u", 4, gpu=3)),
    "sixteen-cpus-one-gpu": (node("best-effort"), pod("u", 16, gpu=1)),
    "scope-container": (node("single-numa-node", SMALL_BOX), TWO_CONTAINERS),
    "scope-pod": (node("single-numa-node", SMALL_BOX, scope="pod"), TWO_CONTAINERS),
    "memory-on-both-nodes": (node("restricted", SMALL_BOX, memory=True), pod("u", 10, 20 * GI)),
    "memory-nowhere": (short_of_memory(), pod("u", 2, 8 * GI)),
    "init-containers": (node("single-numa-node", machine(2, 12), scope="pod"), WITH_INIT),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_example_is_what_the_twin_says(name: str) -> None:
    assert EXAMPLES[name] == told(*ASKED[name])


def test_no_example_on_the_page_goes_untested() -> None:
    assert EXAMPLES.keys() == ASKED.keys()


def test_the_peak_of_the_pod_with_init_containers_is_eight() -> None:
    """Eight CPUs on one node are needed: seven are not enough, and eight are."""
    for cpus, fits in ((8, False), (9, True)):
        small = node("single-numa-node", machine(1, cpus), scope="pod")
        assert small.admit(WITH_INIT).admitted == fits


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_sixteen_cpus_and_a_gpu_are_refused_by_the_strict_policies_only(policy: str) -> None:
    taken = node(policy).admit(pod("u", 16, gpu=1)).admitted
    assert taken == (policy in ("none", "best-effort"))


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_memory_that_fits_nowhere_is_refused_with_the_same_words_by_every_policy(policy: str) -> None:
    full = admitted(node(policy, SMALL_BOX, memory=True), pod("a", 2, 12 * GI), pod("b", 2, 12 * GI))
    assert told(full, pod("u", 2, 8 * GI)).endswith(EXAMPLES["memory-nowhere"].splitlines()[-1])


def test_before_1_24_the_sixteen_cpus_were_called_aligned() -> None:
    old = Node.fresh(GPU_BOX, config("best-effort", version="v1.23.0"))
    assert "merged  {0}*" in told(old, pod("u", 16, gpu=1))
