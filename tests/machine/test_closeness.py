from __future__ import annotations

import pytest

from numaware.machine.closeness import PciTree
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine, NumaNode, PciDevice


def machine(*functions: tuple[str, str | None, int | None], nodes: int = 2) -> Machine:
    return Machine(
        numa=tuple(NumaNode(node, cpus=CpuSet([node])) for node in range(nodes)),
        pci=tuple(
            PciDevice(address, "060400", "8086", "0001", numa=numa, parent=parent)
            for address, parent, numa in functions
        ),
    )


# One socket with two host bridges (root buses 16 and 64), a second socket with one (root bus d7). Behind
# 16:02.0 there are two switches below a third; two cards hang from each, one of them with two functions.
SERVER = machine(
    ("0000:16:02.0", None, 0),
    ("0000:17:00.0", "0000:16:02.0", 0),  # upstream port of the first switch
    ("0000:18:00.0", "0000:17:00.0", 0),
    ("0000:18:04.0", "0000:17:00.0", 0),
    ("0000:19:00.0", "0000:18:00.0", 0),  # upstream port of the second switch
    ("0000:1a:00.0", "0000:19:00.0", 0),
    ("0000:1a:08.0", "0000:19:00.0", 0),
    ("0000:1b:00.0", "0000:1a:00.0", 0),  # card
    ("0000:1c:00.0", "0000:1a:08.0", 0),  # card with two functions
    ("0000:1c:00.1", "0000:1a:08.0", 0),
    ("0000:1d:00.0", "0000:18:04.0", 0),  # upstream port of the third switch
    ("0000:1e:00.0", "0000:1d:00.0", 0),
    ("0000:1f:00.0", "0000:1e:00.0", 0),  # card
    ("0000:16:04.0", None, 0),
    ("0000:20:00.0", "0000:16:04.0", 0),  # card in a slot of its own
    ("0000:64:00.0", None, 0),
    ("0000:65:00.0", "0000:64:00.0", 0),  # card at the other host bridge
    ("0000:d7:00.0", None, 1),
    ("0000:d8:00.0", "0000:d7:00.0", 1),  # card at the other socket
)


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        ("1b:00.0", "1c:00.0", "PIX"),
        ("1c:00.0", "1c:00.1", "PIX"),
        ("1b:00.0", "1f:00.0", "PXB"),
        ("1b:00.0", "20:00.0", "PHB"),
        ("1b:00.0", "65:00.0", "NODE"),
        ("1b:00.0", "d8:00.0", "SYS"),
        ("16:02.0", "16:04.0", "PHB"),
        ("1b:00.0", "1a:00.0", "PIX"),
        ("1b:00.0", "16:02.0", "PXB"),
    ],
)
def test_what_a_transfer_has_to_cross_gives_the_word(a: str, b: str, word: str) -> None:
    tree = PciTree(SERVER)
    assert tree.closeness(f"0000:{a}", f"0000:{b}") == word
    assert tree.closeness(f"0000:{b}", f"0000:{a}") == word


def test_functions_of_a_virtual_machine_share_the_host_bridge() -> None:
    tree = PciTree(machine(("0000:00:05.0", None, None), ("0000:00:06.0", None, None), nodes=1))
    assert tree.closeness("0000:00:05.0", "0000:00:06.0") == "PHB"


def test_one_bus_number_in_two_domains_is_two_host_bridges() -> None:
    tree = PciTree(machine(("0001:00:00.0", None, 0), ("0002:00:00.0", None, 0)))
    assert tree.closeness("0001:00:00.0", "0002:00:00.0") == "NODE"


@pytest.mark.parametrize(("nodes", "word"), [(1, "NODE"), (2, "SYS")])
def test_an_unknown_node_is_the_only_one_or_none(nodes: int, word: str) -> None:
    tree = PciTree(machine(("0001:00:00.0", None, None), ("0002:00:00.0", None, None), nodes=nodes))
    assert tree.closeness("0001:00:00.0", "0002:00:00.0") == word


def test_the_cpus_of_a_function_tell_its_node() -> None:
    two = machine(nodes=2).numa
    functions = tuple(
        PciDevice(f"000{n}:00:00.0", "020000", "8086", "0001", local_cpus=CpuSet([1])) for n in (1, 2)
    )
    assert PciTree(Machine(numa=two, pci=functions)).closeness("0001:00:00.0", "0002:00:00.0") == "NODE"


def test_bridges_in_a_circle_do_not_hang() -> None:
    tree = PciTree(machine(("0000:01:00.0", "0000:02:00.0", 0), ("0000:02:00.0", "0000:01:00.0", 0)))
    assert tree.closeness("0000:01:00.0", "0000:02:00.0") == "PIX"


def test_an_address_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        PciTree(SERVER).closeness("0000:1b:00.0", "0000:ff:00.0")
