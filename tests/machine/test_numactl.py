from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.numactl import read
from support.invented_machines import numa_node

TWO_NODES = b"""\
available: 2 nodes (0-1)
node 0 cpus: 0 2 4 6
node 0 size: 7959 MB
node 0 free: 6982 MB
node 1 cpus: 1 3 5 7
node 1 size: 8053 MB
node 1 free: 7088 MB
node distances:
node   0   1
  0:  10  20
  1:  21  10
"""


def test_cpus_memory_and_distances_are_read() -> None:
    machine = read(TWO_NODES)
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0,2,4,6"), (1, "1,3,5,7")]
    assert [node.memory_bytes for node in machine.numa] == [7959 << 20, 8053 << 20]
    assert [node.distances for node in machine.numa] == [((0, 10), (1, 20)), ((0, 21), (1, 10))]
    assert [cpu.numa for cpu in machine.cpus] == [0, 1, 0, 1, 0, 1, 0, 1]
    assert machine.warnings == ()


def test_what_the_output_does_not_say_stays_unknown() -> None:
    machine = read(TWO_NODES)
    assert {(cpu.package, cpu.core, cpu.siblings) for cpu in machine.cpus} == {(None, None, CpuSet())}
    assert machine.memory_bytes is None
    assert numa_node(machine, 0).hugepages == ()


def test_the_distances_of_sparse_node_ids_follow_the_header() -> None:
    machine = read(
        b"available: 2 nodes (0,8)\nnode 0 cpus: 0\nnode 0 size: 1 MB\nnode 8 cpus: 1\nnode 8 size: 1 MB\n"
        b"node distances:\nnode   0   8 \n  0:  10  40 \n  8:  41  10 \n"
    )
    assert numa_node(machine, 8).distances == ((0, 41), (8, 10))
    assert numa_node(machine, 0).distances == ((0, 10), (8, 40))


def test_a_node_without_cpus_is_near_the_cpus_at_the_least_distance() -> None:
    machine = read(
        b"available: 4 nodes (0-3)\nnode 0 cpus: 0 1\nnode 0 size: 5 MB\nnode 1 cpus: 2 3\nnode 1 size: 5 MB\n"
        b"node 2 cpus:\nnode 2 size: 7 MB\nnode 3 cpus:\nnode 3 size: 0 MB\nnode distances:\nnode 0 1 2 3\n"
        b"0: 10 21 17 28\n1: 21 10 28 28\n2: 17 28 10 28\n3: 28 28 28 10\n"
    )
    assert [str(node.cpus) for node in machine.numa] == ["0-1", "2-3", "", ""]
    assert [str(node.nearest_cpus) for node in machine.numa] == ["0-1", "2-3", "0-1", ""]
    assert numa_node(machine, 3).memory_bytes == 0


def test_blanks_line_ends_and_surrounding_text_do_not_matter() -> None:
    messy = TWO_NODES.replace(b"\n", b"\r\n").replace(b"node 0", b"  node   0").replace(b"  0:", b"\t0:\t")
    assert read(b"$ numactl -H\r\npolicy: default\r\nphyscpubind: 0 1 2\r\n" + messy + b"$ exit\r\n") == read(
        TWO_NODES
    )


@pytest.mark.parametrize("quote", [b"> ", b"# ", b">> ", b"#"])
def test_quoted_lines_are_read(quote: bytes) -> None:
    assert read(quote + TWO_NODES.replace(b"\n", b"\n" + quote)) == read(TWO_NODES)


def test_remarks_behind_the_numbers_are_ignored() -> None:
    remarked = TWO_NODES.replace(b"0 2 4 6", b"0 2 4 6  (4 cores)").replace(
        b"10  20", b"10  20   <- local=10"
    )
    assert read(remarked) == read(TWO_NODES)


def test_distances_alone_name_the_nodes_and_are_told_to_be_incomplete() -> None:
    machine = read(TWO_NODES[TWO_NODES.index(b"node distances") :])
    assert [node.distances for node in machine.numa] == [((0, 10), (1, 20)), ((0, 21), (1, 10))]
    assert machine.warnings == ("NUMA nodes 0-1 are named but not described; the output looks cut off",)


def test_a_wrapped_cpu_list_is_put_together() -> None:
    assert read(TWO_NODES.replace(b"0 2 4 6", b"0 2\n4 6 ")) == read(TWO_NODES)


def test_memory_that_is_not_available_is_unknown() -> None:
    assert numa_node(read(b"node 0 cpus: 0\nnode 0 size: <not available>\n"), 0).memory_bytes is None


def test_no_distance_information_gives_no_distances() -> None:
    text = TWO_NODES[: TWO_NODES.index(b"node distances")] + b"No distance information available.\n"
    assert [node.distances for node in read(text).numa] == [(), ()]
    assert read(text).warnings == ()


def test_an_output_that_is_cut_off_is_told() -> None:
    lines = TWO_NODES.splitlines(keepends=True)
    assert "nodes 1 are named but not described" in " ".join(read(b"".join(lines[:4])).warnings)
    assert "distance rows of NUMA nodes 1" in " ".join(read(b"".join(lines[:-1])).warnings)
    assert "2 NUMA nodes are announced and 1 described" in " ".join(
        read(b"available: 2 nodes\nnode 0 cpus: 0\n").warnings
    )


def test_a_cpu_on_two_nodes_stays_on_the_first_and_is_told() -> None:
    machine = read(b"node 0 cpus: 0 1\nnode 1 cpus: 1 2\n")
    assert [cpu.numa for cpu in machine.cpus] == [0, 0, 1]
    assert machine.warnings == ("NUMA node 1 lists CPUs 1 that another node lists too",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n",
        b"\x7fELF\x00\x01",
        b"No NUMA support available on this system.\n",
        b"node 70000 cpus: 1\n",
        b"node 0 cpus: 0 99999\n",
        b"available: 3 nodes (0-99999999)\nnode 0 cpus: 1\n",
    ],
)
def test_what_is_not_such_an_output_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "file.txt")
    assert caught.value.source == "file.txt"
