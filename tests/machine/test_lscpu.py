from __future__ import annotations

import json

import pytest

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.lscpu import read

OLD = b"""\
Architecture:        x86_64
CPU op-mode(s):      32-bit, 64-bit
CPU(s):              8
On-line CPU(s) list: 0-7
Thread(s) per core:  2
Core(s) per socket:  2
Socket(s):           2
NUMA node(s):        2
Vendor ID:           GenuineIntel
Model name:          Intel(R) Xeon(R) CPU
L1d cache:           32K
L3 cache:            8192K
NUMA node0 CPU(s):   0,1,4,5
NUMA node1 CPU(s):   2,3,6,7
Flags:               fpu vme de
"""
NEW = b"""\
Architecture:             x86_64
  CPU op-mode(s):         32-bit, 64-bit
CPU(s):                   8
  On-line CPU(s) list:    0-7
Vendor ID:                GenuineIntel
  Model name:             Intel(R) Xeon(R) CPU
    CPU family:           6
    Thread(s) per core:   2
    Core(s) per socket:   2
    Socket(s):            2
    Flags:                fpu vme de
                          pse tsc msr
Caches (sum of all):
  L1d:                    128 KiB (4 instances)
  L3:                     16 MiB (2 instances)
NUMA:
  NUMA node(s):           2
  NUMA node0 CPU(s):      0,1,4,5
  NUMA node1 CPU(s):      2,3,6,7
Vulnerabilities:
  Spectre v2:             Mitigation; IBPB: conditional
"""
LOGICAL = b"""\
# The following is the parsable format, which can be fed to other
# programs. Each different item in every column has an unique ID
# starting usually from zero.
# CPU,Core,Socket,Node,,L1d,L1i,L3
0,0,0,0,,0,0,0
1,1,0,0,,1,1,0
2,2,1,1,,2,2,1
3,3,1,1,,3,3,1
4,0,0,0,,0,0,0
5,1,0,0,,1,1,0
6,2,1,1,,2,2,1
7,3,1,1,,3,3,1
"""
# The kernel's ids: a core's number starts again in the second socket.
PHYSICAL = b"# CPU,Core,Socket,Node\n" + b"".join(
    b"%d,%d,%d,%d\n" % (cpu, (cpu % 2) * 4, cpu // 2 % 2, cpu // 2 % 2) for cpu in range(8)
)
TABLE = b"""\
CPU NODE SOCKET CORE L1d:L1i:L3 ONLINE    MAXMHZ
  0    0      0    0 0:0:0         yes 3850.0000
  1    0      0    1 1:1:0         yes 3850.0000
  2    1      1    2 2:2:1         yes 3850.0000
  3    -      -    - -              no         -
"""


@pytest.mark.parametrize("text", [OLD, NEW])
def test_the_summary_lists_nodes_and_counts_cores(text: bytes) -> None:
    machine = read(text)
    assert (machine.architecture, machine.model) == ("x86_64", "Intel(R) Xeon(R) CPU")
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0-1,4-5"), (1, "2-3,6-7")]
    assert [cpu.numa for cpu in machine.cpus] == [0, 0, 1, 1, 0, 0, 1, 1]
    assert machine.core_count == 4
    assert machine.warnings == ()


@pytest.mark.parametrize("text", [OLD, NEW])
def test_counts_are_not_made_into_groups(text: bytes) -> None:
    machine = read(text)
    assert machine.caches == ()
    assert {(cpu.package, cpu.core, cpu.siblings) for cpu in machine.cpus} == {(None, None, CpuSet())}


def test_one_thread_per_core_makes_every_cpu_its_own_core() -> None:
    machine = read(
        OLD.replace(b"Thread(s) per core:  2", b"Thread(s) per core:  1").replace(b"et:  2", b"et:  4")
    )
    assert all(cpu.siblings == CpuSet([cpu.id]) for cpu in machine.cpus)
    assert machine.core_count == 8


def test_counts_that_do_not_fit_the_cpus_are_not_believed() -> None:
    assert read(OLD.replace(b"Core(s) per socket:  2", b"Core(s) per socket:  3")).stated_core_count is None


def test_cores_of_unlike_processors_are_added_up() -> None:
    text = b"""\
On-line CPU(s) list: 0-5
Model name:          Cortex-A55
Thread(s) per core:  1
Core(s) per socket:  4
Socket(s):           1
Model name:          Cortex-A76
Thread(s) per core:  1
Core(s) per cluster: 2
Socket(s):           -
Cluster(s):          1
"""
    assert read(text).stated_core_count == 6


def test_json_says_the_same_as_text() -> None:
    flat = [line.split(b":", 1) for line in OLD.splitlines()]
    fields = [{"field": name.decode() + ":", "data": value.decode().strip()} for name, value in flat]
    assert read(json.dumps({"lscpu": fields}).encode()) == read(OLD)
    nested = {"lscpu": [{"field": "NUMA:", "data": None, "children": fields}]}
    assert read(json.dumps(nested).encode()) == read(OLD)


def test_a_table_tells_packages_cores_and_caches() -> None:
    machine = read(LOGICAL)
    assert [(cpu.package, cpu.core, cpu.numa, str(cpu.siblings)) for cpu in machine.cpus[:3]] == [
        (0, 0, 0, "0,4"),
        (0, 1, 0, "1,5"),
        (1, 2, 1, "2,6"),
    ]
    assert [(c.level, c.type, str(c.cpus)) for c in machine.caches] == [
        *((1, "Data", f"{first},{first + 4}") for first in range(4)),
        *((1, "Instruction", f"{first},{first + 4}") for first in range(4)),
        (3, "Unified", "0-1,4-5"),
        (3, "Unified", "2-3,6-7"),
    ]
    assert {package.id: str(package.cpus) for package in machine.packages} == {0: "0-1,4-5", 1: "2-3,6-7"}


def test_of_two_tables_the_last_has_the_kernels_ids_and_the_first_tells_who_shares() -> None:
    machine = read(OLD + b"\n" + LOGICAL + b"\n" + PHYSICAL)
    assert [(cpu.package, cpu.core, str(cpu.siblings)) for cpu in machine.cpus[:4]] == [
        (0, 0, "0,4"),
        (0, 4, "1,5"),
        (1, 0, "2,6"),
        (1, 4, "3,7"),
    ]
    assert machine.core_count == 4


def test_kernel_ids_alone_tell_cores_apart_by_socket() -> None:
    assert [str(cpu.siblings) for cpu in read(PHYSICAL).cpus[:4]] == ["0,4", "1,5", "2,6", "3,7"]


@pytest.mark.parametrize("text", [OLD, NEW])
def test_sizes_of_the_summary_go_to_the_caches_of_the_table(text: bytes) -> None:
    sizes = {
        cache.level: cache.size_bytes for cache in read(text + LOGICAL).caches if cache.type != "Instruction"
    }
    assert sizes == {1: 32 << 10, 3: 8 << 20}


@pytest.mark.parametrize(
    "line",
    [b"L3: 2.3 MiB (2 instances)", b"L3: 16 MiB (3 instances)", b"L3: lots", b"L3: 1.1M", b"L2: 1 MiB"],
)
def test_a_size_that_rounding_or_counting_leaves_unclear_is_unknown(line: bytes) -> None:
    assert {cache.size_bytes for cache in read(line + b"\n" + LOGICAL).caches} == {None}


def test_unlike_caches_have_no_common_size() -> None:
    uneven = LOGICAL.replace(b"7,3,1,1,,3,3,1", b"7,3,1,1,,3,3,0")
    assert {cache.size_bytes for cache in read(b"L3: 16 MiB (2 instances)\n" + uneven).caches} == {None}


def test_a_cache_table_gives_sizes() -> None:
    table = b"NAME ONE-SIZE ALL-SIZE WAYS TYPE LEVEL\nL1d 48K 96K 12 Data 1\nL3 48M 48M 12 Unified 3\n"
    sizes = {(cache.level, cache.type): cache.size_bytes for cache in read(LOGICAL + table).caches}
    assert sizes == {(1, "Data"): 48 << 10, (1, "Instruction"): None, (3, "Unified"): 48 << 20}


def test_the_extended_table_knows_offline_cpus() -> None:
    machine = read(TABLE)
    assert (str(machine.online), str(machine.offline)) == ("0-2", "3")
    assert [cpu.numa for cpu in machine.cpus] == [0, 0, 1, None]
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 3] == ["0-1", "2"]


def test_the_extended_table_in_json_says_the_same() -> None:
    rows: list[dict[str, object]] = [
        {
            "cpu": cpu,
            "node": cpu // 2,
            "socket": cpu // 2,
            "core": cpu,
            "l1d:l1i:l3": f"{cpu}:{cpu}:{cpu // 2}",
        }
        | {"online": True, "maxmhz": 3850.0}
        for cpu in range(3)
    ]
    rows.append({"cpu": 3, "node": None, "socket": None, "core": None, "l1d:l1i:l3": None, "online": False})
    assert read(json.dumps({"cpus": rows}).encode()) == read(TABLE)


def test_a_cpu_without_the_last_cache_is_in_none() -> None:
    machine = read(
        b"CPU CORE L1d:L1i:L2:L3 ONLINE\n0 0 0:0:0:0 yes\n1 1 4:4:0:0 yes  # remark\n2 2 64:64:8 yes\n"
    )
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 3] == ["0-1"]
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 2] == ["0-1", "2"]


def test_any_columns_in_any_order_are_understood() -> None:
    machine = read(b"NODE CPU MODELNAME CORE\n1 4 Some CPU 7 GHz\n0 2 Other CPU 3\n")
    assert [(cpu.id, cpu.numa, cpu.core) for cpu in machine.cpus] == [(2, 0, None), (4, 1, None)]


def test_masks_are_read_as_masks() -> None:
    text = (
        b"On-line CPU(s) mask: 0xf\nOff-line CPU(s) mask: 0x10\nNUMA node0 CPU(s): 3\nNUMA node1 CPU(s): c\n"
    )
    machine = read(text)
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0-1"), (1, "2-3")]
    assert (str(machine.online), str(machine.offline)) == ("0-3", "4")


def test_a_few_lines_cut_from_the_summary_are_enough() -> None:
    machine = read(b"NUMA node(s):        2\nNUMA node0 CPU(s):   0-15\nNUMA node8 CPU(s):   \n")
    assert [(node.id, str(node.cpus)) for node in machine.numa] == [(0, "0-15"), (8, "")]


@pytest.mark.parametrize("text", [OLD, NEW, TABLE, LOGICAL + PHYSICAL])
@pytest.mark.parametrize("quote", [b"# ", b"> ", b"#   "])
def test_quoted_lines_are_read(text: bytes, quote: bytes) -> None:
    assert read(quote + text.replace(b"\n", b"\n" + quote)) == read(text)


def test_what_does_not_add_up_is_told() -> None:
    assert read(OLD.replace(b"CPU(s):              8", b"CPU(s):             16")).warnings == (
        "CPU(s) says 16, but 8 CPUs are listed",
    )
    assert read(OLD.replace(b"NUMA node1 CPU(s):", b"Something else:")).warnings == (
        "2 NUMA nodes are announced and 1 listed",
    )
    moved = LOGICAL.replace(b"7,3,1,1", b"7,3,1,0")
    assert "CPU 7 is on NUMA node 1 in the summary and on 0 in the table" in read(OLD + moved).warnings


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello\n",
        b"\x00",
        b"{",
        b"{}",
        b'{"lscpu": [{"field": 3}]}',
        b'{"lscpu": ' + b'[{"field": "a", "children": ' * 5000,
        b"NUMA node0 CPU(s): 0-999999\n",
        b"NUMA node99999 CPU(s): 0\n",
        b"# CPU,Core\n99999999999,0\n",
        b"NAME ONE-SIZE\nL1d 48K\n",
    ],
)
def test_what_is_not_such_an_output_is_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read(data, "lscpu.txt")
    assert caught.value.source == "lscpu.txt"
