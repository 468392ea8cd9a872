"""A node's state files: written, read back, and refused as a starting kubelet refuses them."""

from __future__ import annotations

import msgspec
import pytest

from numaware.errors import InputError
from numaware.twin.errors import StartError
from numaware.twin.files import devices_by_node, load_state, state_files
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node, NodeState
from numaware.twin.state import cpu, device, memory
from numaware.twin.state.memory import MemoryBlock, MemoryTable, NodeEntry
from support.twin_nodes import GI, GPU, HUGE, admitted, config, machine, pod, state_key

HARDWARE = machine(hugepages=2 * GI, devices={GPU: {"g0": (0,), "g1": (1,), "g2": (0, 1), "g3": ()}})
EMPTY = Node.fresh(HARDWARE, config("best-effort", memory=True))
BUSY = admitted(EMPTY, pod("a", 2, 2 * GI, gpu=1), pod("b", 5, GI, huge=GI), pod("c", gpu=3))


def written(node: Node) -> dict[str, bytes]:
    return {name: text.encode() for name, text in state_files(node.kubelet, node.state).items()}


def load(name: str, text: str, kubelet: Kubelet = EMPTY.kubelet) -> NodeState:
    return load_state(kubelet, {name: text.encode()})


def refusal(name: str, text: str, kubelet: Kubelet = EMPTY.kubelet) -> StartError:
    with pytest.raises(StartError) as error:
        load(name, text, kubelet)
    return error.value


def test_a_node_is_rebuilt_from_its_files() -> None:
    state = load_state(BUSY.kubelet, written(BUSY))
    again = Node(BUSY.kubelet, state)
    assert written(again) == written(BUSY)
    assert (state_key(again), state.cpu.owned) == (state_key(BUSY), BUSY.state.cpu.owned)
    assert state.memory.blocks == BUSY.state.memory.blocks
    assert state.device.owned == BUSY.state.device.owned


def test_pods_are_known_by_their_uid_and_can_be_released() -> None:
    node = Node(BUSY.kubelet, load_state(BUSY.kubelet, written(BUSY)))
    assert [(uid, found.name, found.namespace) for uid, found in node.state.pods.items()] == [
        ("a", "a", ""),
        ("b", "b", ""),
        ("c", "c", ""),
    ]
    assert state_key(node.release("a", "b", "c")) == state_key(EMPTY)


def test_without_files_nothing_was_handed_out() -> None:
    assert load_state(EMPTY.kubelet, {}) == EMPTY.state


def test_there_is_a_file_only_for_what_the_kubelet_has() -> None:
    bare = Node.fresh(machine(), config())
    assert state_files(bare.kubelet, bare.state).keys() == {cpu.FILE, memory.FILE}
    old = Node.fresh(machine(), config(version="v1.20.0"))
    assert state_files(old.kubelet, old.state).keys() == {cpu.FILE}
    assert load_state(old.kubelet, {memory.FILE: b"not looked at"}) == old.state
    assert state_files(EMPTY.kubelet, EMPTY.state).keys() == {cpu.FILE, memory.FILE, device.FILE}


def test_devices_are_listed_under_each_of_their_nodes() -> None:
    assert devices_by_node(EMPTY.kubelet, GPU, 0b1111) == {-1: ["g3"], 0: ["g0", "g2"], 1: ["g1", "g2"]}
    old = Node.fresh(HARDWARE, config(version="v1.20.0"))
    assert devices_by_node(old.kubelet, GPU, 0b1111) == {0: ["g0", "g2", "g3"], 1: ["g1", "g2"]}


# CPUs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            cpu.encode("static", "0-15", {}).replace("0-15", "0-14"),
            (
                "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete "
                'the CPU manager checkpoint file "cpu_manager_state" before restarting Kubelet'
            ),
        ),
        (
            cpu.encode("none", "", {}),
            (
                'could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy '
                '"none", please drain this node and delete the CPU manager checkpoint file "cpu_manager_state" before '
                "restarting Kubelet"
            ),
        ),
        (
            cpu.encode("static", "1-15", {"u": {"main": "0"}}),
            'not all reserved cpus: "0" are present in defaultCpuSet: "1-15"',
        ),
        (
            cpu.encode("static", "0-15", {"u": {"main": "3"}}),
            'pod: u, container: main cpuset: "3" overlaps with default cpuset "0-15"',
        ),
        (
            cpu.encode("static", "0-30", {"u": {"main": "31"}}),
            'current set of available CPUs "0-15" doesn\'t match with CPUs in state "0-31"',
        ),
    ],
)
def test_cpus_that_a_kubelet_does_not_take_back(text: str, told: str) -> None:
    error = refusal(cpu.FILE, text)
    assert (error.stage, error.message) == ("cpu", told)


def test_without_a_cpu_manager_the_file_says_none() -> None:
    idle = Node.fresh(machine(), msgspec.structs.replace(config(), cpu_policy="none"))
    text = state_files(idle.kubelet, idle.state)[cpu.FILE]
    assert text == '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    assert load(cpu.FILE, text, idle.kubelet) == idle.state


# Memory


def table(total: int, kept: int, used: int) -> MemoryTable:
    return MemoryTable(total, kept, total - kept, used, total - kept - used)


def entries(
    memory_used: tuple[int, int] = (0, 0), cells: tuple[tuple[int, ...], ...] = ((0,), (1,))
) -> dict[int, NodeEntry]:
    """The tables of the machine: 64 GiB a node, 2 GiB of it huge pages, 1 GiB of node 0 kept back."""
    found = {}
    for number, used in enumerate(memory_used):
        kept = GI if number == 0 else 0
        plain = MemoryTable(64 * GI, kept, 62 * GI - kept, used, 62 * GI - kept - used)
        tables = {"memory": plain, HUGE: table(2 * GI, 0, 0)}
        found[number] = NodeEntry(1 if used else 0, tables, cells[number])
    return found


def test_memory_tables_of_this_machine_are_taken_back() -> None:
    blocks = {"u": {"main": [MemoryBlock((1,), "memory", 3 * GI)]}}
    state = load(memory.FILE, memory.encode("Static", entries((0, 3 * GI)), blocks))
    assert [node.assignments for node in state.memory.nodes] == [0, 1]
    assert state.memory.blocks["u"]["main"][0].size == 3 * GI


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            memory.encode("Static", entries(), {}).replace("Static", "static"),
            (
                "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete "
                'the memory manager checkpoint file "memory_manager_state" before restarting Kubelet'
            ),
        ),
        (
            memory.encode("None", {}, {}),
            (
                'could not restore state from checkpoint: [memorymanager] configured policy "Static" differs from state '
                'checkpoint policy "None", please drain this node and delete the memory manager checkpoint file '
                '"memory_manager_state" before restarting Kubelet'
            ),
        ),
        (
            memory.encode("Static", {}, {"u": {"main": [MemoryBlock((0,), "memory", GI)]}}),
            "[memorymanager] machine state can not be empty when it has memory assignments",
        ),
        (
            memory.encode("Static", entries(), {"u": {"main": [MemoryBlock((7,), "memory", GI)]}}),
            "[memorymanager] (pod: u, container: main) the memory assignment uses the NUMA that does not exist",
        ),
        (
            memory.encode("Static", entries(), {"u": {"main": [MemoryBlock((0,), "hugepages-1Gi", GI)]}}),
            "[memorymanager] (pod: u, container: main) the memory assignment uses memory resource that does not exist",
        ),
        (
            memory.encode("Static", entries((GI, 0)), {}),
            "[memorymanager] the expected machine state is different from the real one",
        ),
        (
            memory.encode("Static", {0: entries()[0]}, {}),
            "[memorymanager] the expected machine state is different from the real one",
        ),
        (
            memory.encode("Static", entries(cells=((0, 9), (1,))), {}),
            "[memorymanager] the expected machine state is different from the real one",
        ),
        (
            memory.encode(
                "Static", {**entries(), 1: NodeEntry(0, {"memory": table(8 * GI, 0, 0)}, (1,))}, {}
            ),
            "[memorymanager] the expected machine state is different from the real one",
        ),
    ],
)
def test_memory_that_a_kubelet_does_not_take_back(text: str, told: str) -> None:
    error = refusal(memory.FILE, text)
    assert (error.stage, error.message) == ("memory", told)


def test_an_empty_memory_file_is_a_fresh_start() -> None:
    assert load(memory.FILE, memory.encode("Static", {}, {})).memory == EMPTY.state.memory


# Devices


def test_a_corrupt_device_file_is_an_empty_table() -> None:
    text = device.encode([device.DeviceEntry("u", "main", GPU, {0: ["g0"]})], {GPU: ["g0"]})
    assert load(device.FILE, text).device.owned == {"u": {"main": {GPU: 0b0001}}}
    assert load(device.FILE, text.replace('"Checksum":', '"Checksum":9')).device == EMPTY.state.device


def test_entries_of_resources_that_no_plugin_offers_are_left_out() -> None:
    text = device.encode([device.DeviceEntry("u", "main", "gone.example/nic", {0: ["n0"]})], {})
    assert load(device.FILE, text).device.owned == {}


def test_a_device_under_two_nodes_is_one_device() -> None:
    text = device.encode([device.DeviceEntry("u", "main", GPU, {0: ["g2"], 1: ["g2"]})], {GPU: ["g2"]})
    assert load(device.FILE, text).device.taken == {GPU: 0b0100}


@pytest.mark.parametrize("name", [cpu.FILE, memory.FILE, device.FILE])
@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\x00", b'{"entries": 5, "Data": 5, "machineState": 5}']
)
def test_what_is_no_state_file_at_all_is_told_by_name(name: str, data: bytes) -> None:
    with pytest.raises(InputError) as error:
        load_state(EMPTY.kubelet, {name: data})
    assert error.value.source == name
