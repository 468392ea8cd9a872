from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.nvidia_smi import read
from numaware.machine.topology import Link

TABBED = (
    b"\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    b"GPU0\t X \tNV4\tPIX\t0-3,8-11\t0\t\tN/A\n"
    b"GPU1\tNV4\t X \tSYS\t4-7,12-15\t1\t\tN/A\n"
    b"NIC0\tPIX\tSYS\t X \t\t\t\t\n"
    b"\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def test_devices_have_their_cpus_and_node() -> None:
    gpu0, gpu1, nic0 = read(TABBED).devices
    assert (gpu0.name, gpu0.kind, str(gpu0.cpus), gpu0.numa) == ("GPU0", "gpu", "0-3,8-11", 0)
    assert (gpu1.name, gpu1.kind, str(gpu1.cpus), gpu1.numa) == ("GPU1", "gpu", "4-7,12-15", 1)
    assert (nic0.name, nic0.kind, nic0.cpus, nic0.numa, nic0.alias) == ("NIC0", "nic", None, None, "mlx5_0")


def test_each_pair_is_linked_once_in_the_order_of_the_table() -> None:
    assert read(TABBED).links == (
        Link("GPU0", "GPU1", "NV4"),
        Link("GPU0", "NIC0", "PIX"),
        Link("GPU1", "NIC0", "SYS"),
    )


def test_the_affinities_tell_which_cpus_are_on_a_node() -> None:
    machine = read(TABBED)
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0-3,8-11"), (1, "4-7,12-15")]
    assert {cpu.id: cpu.numa for cpu in machine.cpus}[12] == 1


def test_spacing_does_not_matter() -> None:
    spaced = b"""   GPU0  GPU1 NIC0  CPU  Affinity NUMA Affinity   GPU NUMA ID
GPU0  X  NV4 PIX   0-3,8-11        0   N/A
 GPU1 NV4    X SYS 4-7,12-15  1  N/A

NIC0 PIX SYS  X
 NIC0:   mlx5_0
"""
    assert read(spaced) == read(TABBED)


def test_text_before_the_table_is_passed_over() -> None:
    before = b"$ nvidia-smi topo -m\nGPU0 is fine\nGPU0 GPU1\n\n"
    assert read(before + TABBED) == read(TABBED)


@pytest.mark.parametrize("quote", [b"> ", b"# ", b">> "])
def test_quoted_lines_are_read(quote: bytes) -> None:
    assert read(quote + TABBED.replace(b"\n", b"\n" + quote)) == read(TABBED)


def test_old_names_of_nics_are_devices_too() -> None:
    machine = read(b"\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nmlx5_0\tPHB\t X \t\n")
    assert [(device.name, device.kind) for device in machine.devices] == [("GPU0", "gpu"), ("mlx5_0", "nic")]
    assert machine.links == (Link("GPU0", "mlx5_0", "PHB"),)
    assert machine.numa == ()


@pytest.mark.parametrize(
    ("row", "cpus", "numa"),
    [
        ("GPU0\t X \t\t\t\tN/A", None, None),
        ("GPU0\t X \t\t1\t\tN/A", None, 1),
        ("GPU0\t X \t0-3\t\t\tN/A", "0-3", None),
        ("GPU0\t X \t0-3\tN/A\t\tN/A", "0-3", None),
        ("GPU0     X      0-3", "0-3", None),
        ("GPU0     X              1               N/A", None, 1),
        ("GPU0     X              1", None, 1),
        ("GPU0     X                              N/A", None, None),
        ("GPU0     X      0-3             N/A", "0-3", None),
        ("GPU0     X      0-3     1", "0-3", 1),
        ("GPU0     X      0-3,100-103     1", "0-3,100-103", 1),
    ],
)
def test_a_blank_affinity_stays_unknown(row: str, cpus: str | None, numa: int | None) -> None:
    header = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    header = header if "\t" in row else header.expandtabs()
    (gpu,) = read(f"{header}\n{row}\n".encode()).devices
    assert (None if gpu.cpus is None else str(gpu.cpus), gpu.numa) == (cpus, numa)


def test_the_memory_of_a_gpu_is_a_node_near_the_gpus_cpus() -> None:
    machine = read(b"\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0\t\t1\n")
    assert [(node.id, str(node.cpus), str(node.nearest_cpus), node.kind) for node in machine.numa] == [
        (0, "0-71", "0-71", None),
        (1, "", "0-71", "gpu"),
    ]
    assert machine.devices[0].numa == 0


def test_several_nodes_are_no_home() -> None:
    machine = read(b"\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-7\t0-1\n")
    assert machine.devices[0].numa is None
    assert machine.numa == ()
    assert "GPU0 is near several NUMA nodes (0-1)" in machine.warnings[0]


def test_overlapping_affinities_tell_nothing_about_nodes() -> None:
    machine = read(b"GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X SYS 0-7 0\nGPU1 SYS X 4-9 1\n")
    assert (machine.numa, machine.cpus) == ((), ())
    assert [device.numa for device in machine.devices] == [0, 1]
    assert "NUMA node 1 lists CPUs 4-7" in machine.warnings[0]


def test_a_table_that_contradicts_itself_is_told() -> None:
    machine = read(b"GPU0 GPU1\nGPU0 X PIX\nGPU1 PXB X\n")
    assert machine.links == (Link("GPU0", "GPU1", "PIX"),)
    assert machine.warnings == ("GPU0 to GPU1 is PIX but GPU1 to GPU0 is PXB; PIX is taken",)


def test_a_missing_row_is_filled_from_the_other_side_and_told() -> None:
    machine = read(b"GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X NODE\n")
    assert machine.links == (
        Link("GPU0", "GPU1", "PIX"),
        Link("GPU0", "GPU2", "SYS"),
        Link("GPU1", "GPU2", "NODE"),
    )
    assert machine.warnings == ("the table has no row for GPU2; it looks cut off",)


def test_a_row_cut_short_is_not_taken_for_a_header() -> None:
    machine = read(b"GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU2 SYS\nGPU1 PIX X NODE\n")
    assert [link.type for link in machine.links] == ["PIX", "SYS", "NODE"]


def test_the_order_of_the_columns_is_free() -> None:
    machine = read(b"NIC0 GPU0 CPU Affinity\nNIC0 X PIX\nGPU0 PIX X 0-3\n")
    assert machine.links == (Link("NIC0", "GPU0", "PIX"),)
    assert [str(device.cpus) for device in machine.devices] == ["None", "0-3"]


def test_a_cell_that_is_no_link_gives_none() -> None:
    assert read(b"GPU0 GPU1\nGPU0 X N/A\nGPU1 N/A X\n").links == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x01",
        b"No devices were found\n",
        b"GPU0 GPU1\n",
        b"GPU0 GPU1\nGPU0 X OK\nGPU1 OK X\n",
        b"GPU0 CPU Affinity\nGPU0 X 0-99999\n",
        b"GPU0 CPU Affinity\nGPU0 X 9-0\n",
        " ".join(f"GPU{n}" for n in range(2000)).encode() + b"\nGPU0 X\n",
    ],
)
def test_what_is_not_such_a_table_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "topo.txt")
    assert caught.value.source == "topo.txt"
