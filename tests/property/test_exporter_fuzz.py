"""Whatever stands in the kernel's files, reading them for metrics ends, and gives numbers or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numaware.machine.sysfs.source import Source
from numaware.machine.tree import ArchiveTree
from numaware.node.exporter import cgroups, kernel

NODE = "sys/devices/system/node/node0"
GROUP = "sys/fs/cgroup/kubepods/burstable/pod0b6e4d3a-59c5-4f0e-9a34-0c3f6f1f2a77"
# Bytes of any kind, and lines that are nearly right.
PIECES = st.sampled_from(
    [
        b"Node 0 MemTotal:", b" 123 kB", b"\n", b"numa_hit", b" 5", b"cpu0", b" 1 2 3 4 5 6 7 8 9 10", b"cpu",
        b"anon", b" N0=7", b" N1=", b"hierarchical_", b"total=3", b"file", b"=", b"99999999999999999999999", b"\x00",
    ]
)  # fmt: skip
TEXTS = st.binary(max_size=200) | st.lists(PIECES, max_size=30).map(b"".join)


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.lists(st.text(max_size=20), max_size=5))
def test_any_bytes_give_whole_numbers_or_nothing(
    meminfo: bytes, numastat: bytes, stat: bytes, memory: bytes, names: list[str]
) -> None:
    files = {
        f"{NODE}/meminfo": meminfo,
        f"{NODE}/numastat": numastat,
        "proc/stat": stat,
        f"{GROUP}/memory.numa_stat": memory,
        **{f"sys/fs/cgroup/kubepods/{name.replace('/', '')}/x": b"" for name in names},
    }
    source = Source(ArchiveTree(dict(files), "made"))
    for size in (*kernel.memory(source, 0).values(), *kernel.locality(source, 0).values()):
        assert size >= 0
    for counts in kernel.ticks(source).values():
        assert 4 <= len(counts) <= len(kernel.MODES)
    groups = cgroups.pod_groups(source, 10)
    assert groups["0b6e4d3a-59c5-4f0e-9a34-0c3f6f1f2a77"] == GROUP
    found = cgroups.pod_memory(source, GROUP)
    assert found is None or all(size >= 0 for nodes in found.values() for size in nodes.values())


@given(st.lists(st.text(alphabet="abc_-0", max_size=12), max_size=10))
def test_names_of_pods_come_from_folders_of_three_parts_only(names: list[str]) -> None:
    source = Source(ArchiveTree({f"var/log/pods/{name}/0.log": b"" for name in names if name}, "made"))
    for uid, (namespace, name) in cgroups.pod_names(source).items():
        assert f"{namespace}_{name}_{uid}" in names
