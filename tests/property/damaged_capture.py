"""Strategies for captures that went wrong: files missing, garbled, huge or swapped for links."""

from __future__ import annotations

from hypothesis import strategies as st

from numaware.machine.archive import Entry, Folder, Link, TooLarge
from support.made_machine import CPU, NODE, pci_files, two_nodes

WHOLE: dict[str, str] = two_nodes() | {
    **pci_files("pci0000:00/0000:00:01.0", class_code="0x060400"),
    **pci_files("pci0000:00/0000:00:01.0/0000:01:00.0", class_code="0x030200", vendor="0x10de"),
    "proc/cpuinfo": "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\n",
    "proc/mounts": "none /sys/fs/cgroup cgroup2 rw 0 0\n",
    "proc/self/cgroup": "0::/pod\n",
    "proc/driver/nvidia/gpus/0000:01:00.0/numa_status": "Node: 1\n",
    "sys/fs/cgroup/cpuset.cpus.effective": "0-7\n",
    "sys/fs/cgroup/pod/cpuset.cpus.effective": "0-5\n",
    "sys/bus/dax/drivers/kmem/dax0.0": "->../../devices/dax0.0",
    "sys/bus/dax/devices/dax0.0/target_node": "1\n",
    "sys/class/net/eth0": "->../../devices/pci0000:00/0000:00:01.0/net/eth0",
    f"{CPU}/isolated": "1\n",
    f"{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
    f"{NODE}/node1/access0/initiators/read_bandwidth": "100\n",
}

_NUMBERS = st.sampled_from(
    ["-1", "0", "7", "65535", "65536", "4294967295", "9" * 30, "0x10", "1e9", "", " ", "-", "³"]
)
_LISTS = st.sampled_from(
    ["0-7", "0-65535", "65536", "5-1", "0-3:1/2", "0,,1", "ffffffff,00000000", "f" * 4000, "1" * 9000]
)
_CONTENT = st.one_of(
    st.binary(max_size=60),
    _NUMBERS.map(str.encode),
    _LISTS.map(str.encode),
    st.sampled_from(list(WHOLE.values())).map(str.encode),
)
_TARGETS = st.sampled_from(
    [".", "..", "/", "/etc", "../../../../..", "missing", "../cpu0", "x" * 300, "../\udcff"]
)
_ENTRIES: st.SearchStrategy[Entry | None] = st.one_of(
    st.none(), _CONTENT, _TARGETS.map(Link), st.just(Folder()), st.just(TooLarge())
)
_NEW_NAMES = st.sampled_from(
    [
        f"{CPU}/cpu65535/topology/core_id",
        f"{CPU}/cpu65536/topology/core_id",
        f"{CPU}/cpu00/topology/core_id",
        f"{NODE}/node1000/cpumap",
        f"{NODE}/node99999999999/meminfo",
        f"{CPU}/cpu1/cache/index99/level",
        "sys/bus/pci/devices/ffffffff:ff:1f.7/class",
        "sys/class/drm/card0/device",
        "sys/class/net/\udcff/device",
        "sys/devices/pci0000:00/0000:00:01.0/driver",
        "sys/devices/pci0000:00/0000:00:01.0/physfn",
        "proc/driver/nvidia/gpus/\udcff/numa_status",
        "sys/bus/dax/drivers/kmem/dax\udcff",
        "sys/bus/dax/devices/dax\udcff/target_node",
        "sys/devices/cpu_core/cpus",
        "sys/devices/cpu_atom/cpus",
        "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
        "sys/kernel/mm/hugepages/hugepages-0kB/nr_hugepages",
    ]
)


@st.composite
def damaged_entries(draw: st.DrawFn) -> dict[str, Entry]:
    """The whole capture with some entries changed; None takes one away."""
    entries: dict[str, Entry] = {name: _entry(text) for name, text in WHOLE.items()}
    changes = draw(st.dictionaries(st.sampled_from(sorted(WHOLE)) | _NEW_NAMES, _ENTRIES, max_size=12))
    for name, entry in changes.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry
    return entries


def _entry(text: str) -> Entry:
    return Link(text[2:]) if text.startswith("->") else text.encode()
