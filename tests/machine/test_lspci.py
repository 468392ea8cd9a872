from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine import lspci, nvidia_smi
from numaware.machine.closeness import with_links
from numaware.machine.merge import merge
from numaware.machine.topology import Link, Machine

# As printed in a report on a machine with three P100: two of them beside NUMA node 1.
GPU = """\
{address} 3D controller: NVIDIA Corporation GP100GL [Tesla P100 PCIe 16GB] (rev a1)
        Subsystem: NVIDIA Corporation Device 118f
        Flags: bus master, fast devsel, latency 0, IRQ 441, NUMA node {node}
        Memory at fa000000 (32-bit, non-prefetchable) [size=16M]
        Kernel driver in use: nvidia
        Kernel modules: nouveau, nvidia_drm, nvidia

"""
THREE = "".join(
    GPU.format(address=address, node=node)
    for address, node in (("3b:00.0", 0), ("86:00.0", 1), ("d8:00.0", 1))
)
LISTED = b"""\
[root@node2 ~]# nvidia-smi -L
GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-77a702db-e37f-3a74-d46d-c5713f66058c)
GPU 1: Tesla P100-PCIE-16GB (UUID: GPU-9b341c59-f96b-ba85-c137-78c3652fea65)
  MIG 1g.5gb      Device  0: (UUID: MIG-0d1232cb-6a37-5512-bf6b-b3b4a0bd0e7a)
GPU 2: Tesla P100-PCIE-16GB (UUID: GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841)
"""
SWITCH = """\
3a:00.0 PCI bridge: Intel Corporation Sky Lake-E PCI Express Root Port A (rev 04) (prog-if 00 [Normal decode])
\tFlags: bus master, fast devsel, latency 0, NUMA node 0
\tBus: primary=3a, secondary=3b, subordinate=3e, sec-latency=0
3b:00.0 PCI bridge: PLX Technology, Inc. Device 8747 (prog-if 00 [Normal decode])
\tBus: primary=3b, secondary=3c, subordinate=3e, sec-latency=0
3c:08.0 PCI bridge: PLX Technology, Inc. Device 8747 (prog-if 00 [Normal decode])
\tBus: primary=3c, secondary=3d, subordinate=3d, sec-latency=0
3c:10.0 PCI bridge: PLX Technology, Inc. Device 8747 (prog-if 00 [Normal decode])
\tBus: primary=3c, secondary=3e, subordinate=3e, sec-latency=0
3d:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100] [10de:1db4] (rev a1)
3e:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100] [10de:1db4] (rev a1)
05:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)
"""


def read(text: str) -> Machine:
    return lspci.read(text.encode(), "f")


def test_gpus_are_named_as_nvidia_smi_names_them_and_have_their_numa_node() -> None:
    machine = read(THREE)
    assert [(device.name, device.pci, device.numa) for device in machine.devices] == [
        ("GPU0", "0000:3b:00.0", 0),
        ("GPU1", "0000:86:00.0", 1),
        ("GPU2", "0000:d8:00.0", 1),
    ]
    first = machine.pci[0]
    assert (first.class_code, first.vendor, first.driver) == ("030200", "10de", "nvidia")
    assert with_links(machine).links == (
        Link("GPU0", "GPU1", "SYS"),
        Link("GPU0", "GPU2", "SYS"),
        Link("GPU1", "GPU2", "NODE"),
    )


def test_bridges_make_a_tree_of_it() -> None:
    machine = read(SWITCH)
    parents = {function.address: function.parent for function in machine.pci}
    assert parents["0000:3e:00.0"] == "0000:3c:10.0"
    assert parents["0000:3b:00.0"] == "0000:3a:00.0"
    assert parents["0000:3a:00.0"] is None
    assert machine.pci[-1].device == "1db4"
    # A screen for the operator is no GPU.
    assert [device.name for device in machine.devices] == ["GPU0", "GPU1"]
    assert with_links(machine).links == (Link("GPU0", "GPU1", "PIX"),)


def test_without_numa_nodes_nothing_is_said_of_how_close_cards_are() -> None:
    machine = read("\n".join(line for line in THREE.splitlines() if not line.startswith(" ")))
    assert len(machine.devices) == 3
    assert with_links(machine).links == ()


def test_what_a_source_says_of_a_link_stays() -> None:
    table = b"\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV4\tSYS\nGPU1\tNV4\t X \tNODE\nGPU2\tSYS\tNODE\t X \n"
    machine = merge([("lspci", read(THREE)), ("smi", nvidia_smi.read(table, "smi"))])
    assert {link.type for link in with_links(machine).links} == {"NV4", "SYS", "NODE"}
    assert len(with_links(machine).links) == 3


def test_a_list_of_gpus_gives_their_uuids_and_meets_the_others_by_number() -> None:
    listed = nvidia_smi.read(LISTED, "nvidia-smi -L")
    assert [(device.name, device.alias) for device in listed.devices] == [
        ("GPU0", "GPU-77a702db-e37f-3a74-d46d-c5713f66058c"),
        ("GPU1", "GPU-9b341c59-f96b-ba85-c137-78c3652fea65"),
        ("GPU2", "GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841"),
    ]
    both = merge([("lspci", read(THREE)), ("list", listed)])
    assert [(device.pci, device.alias) for device in both.devices][2] == (
        "0000:d8:00.0",
        "GPU-c1e9f249-b37b-81c2-a8d9-ba5ca0294841",
    )


@pytest.mark.parametrize("text", ["hello", "no such thing: 00:00.0", "0000"])
def test_what_is_not_lspci_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"f: no PCI function found \(expected the output of `lspci -v`\)"):
        read(text)
