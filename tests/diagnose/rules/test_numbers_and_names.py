"""With the machine or the manifest beside a log, the fix has a number and names the pods; sums are told as differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.diagnosis import findings
from numaware.diagnose.texts import finding_text
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import memory as memory_file
from numaware.twin.topology.hints import Hint
from support.diagnosed import bundled, diagnosed
from support.kubelet_logs import ERAS, Era, Story, journald, noisy, written
from support.shared_data import shared

NUMACTL = """available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3 4 5 6 7
node 0 size: 32000 MB
node 1 cpus: 8 9 10 11 12 13 14 15
node 1 size: 32000 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop}
spec:
  containers:
  - name: app
    resources: {requests: {cpu: "6", memory: 4Gi}, limits: {cpu: "6", memory: 4Gi}}
"""
HOLDER = Story(
    name="db-0",
    uid="1f8fad5b-d9cb-469f-a165-70867728950e",
    hints={"cpu": [Hint(1, preferred=True)]},
    merged=Hint(1, preferred=True),
    admitted=True,
    wanted=5,
    given="3-7",
)
REFUSED = Story(
    hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
    merged=Hint(None, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
SUM = 'the total amount "{}" of type "memory" is not equal to the value "{}" determined by Node Allocatable feature'
HEADER = "E1116 20:00:00.000000    1234 container_manager_linux.go:333] "


def trouble(**files: str) -> Finding:
    (one,) = [one for one in diagnosed(**files) if one.severity != "info"]
    return one


@pytest.mark.parametrize("era", ERAS[1:], ids=lambda era: era.name)
def test_a_refusal_beside_numactl_and_the_manifest_has_numbers_and_names(era: Era) -> None:
    log = noisy(written(era, HOLDER), journald) + noisy(written(era, REFUSED), journald)
    fix = finding_text(trouble(log=log, pod__yaml=POD, numactl=NUMACTL)).fix
    assert fix[0].startswith("ask for at most 3 CPUs instead of 6: NUMA node 0 has so much left")
    assert fix[1] == "make room: move or delete shop/db-0 (5 CPUs on NUMA node 0)"


def test_larger_holders_where_room_does_not_help_do_not_hide_those_where_it_does() -> None:
    machine = NUMACTL.replace("12 13 14 15", " ".join(str(cpu) for cpu in range(12, 48)))
    elsewhere = {f"far-{n}": {"app": f"{8 * n + 8}-{8 * n + 15}"} for n in range(5)}
    state = cpu_file.encode("static", "0-2", {HOLDER.uid: {"app": "3-7"}, **elsewhere})
    log = noisy(written(ERAS[2], HOLDER), journald) + noisy(written(ERAS[2], REFUSED), journald)
    fix = finding_text(trouble(log=log, pod__yaml=POD, numactl=machine, cpu_manager_state=state)).fix
    assert "make room: move or delete shop/db-0 (5 CPUs on NUMA node 0)" in fix


def test_without_a_machine_nothing_is_counted() -> None:
    log = noisy(written(ERAS[2], HOLDER), journald) + noisy(written(ERAS[2], REFUSED), journald)
    one = trouble(log=log, pod__yaml=POD)
    assert "atMost" not in one.facts
    assert "holders" not in one.facts


SHORT_OF_MEMORY = Story(
    hints={"cpu": [Hint(1, preferred=True), Hint(2, preferred=True)], "memory": [Hint(3, preferred=False)]},
    merged=Hint(3, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)
GPU = "nvidia.com/gpu"
WITHOUT_GPUS = replace(
    SHORT_OF_MEMORY,
    hints={"cpu": [Hint(1, preferred=True), Hint(2, preferred=True)], GPU: [Hint(3, preferred=False)]},
)


def table(free: int) -> memory_file.MemoryTable:
    return memory_file.MemoryTable(32 << 30, 0, 32 << 30, (32 << 30) - free, free)


def test_a_refusal_over_memory_has_numbers_and_names_from_the_state_file() -> None:
    log = noisy(written(ERAS[2], HOLDER), journald) + noisy(written(ERAS[2], SHORT_OF_MEMORY), journald)
    nodes = {
        n: memory_file.NodeEntry(1, {"memory": table(free)}, (n,)) for n, free in ((0, 2 << 30), (1, 3 << 30))
    }
    held = {
        HOLDER.uid: {"app": [memory_file.MemoryBlock((0,), "memory", 30 << 30)]},
        "gone-uid": {"app": [memory_file.MemoryBlock((1,), "memory", 29 << 30)]},
    }
    state = memory_file.encode("Static", nodes, held)
    told = trouble(log=log, pod__yaml=POD, memory_manager_state=state)
    fix = finding_text(told).fix
    at_most = "ask for at most 3 GiB of memory instead of 4 GiB: NUMA node 1 has so much left, as far as the evidence shows"
    room = "make room: move or delete shop/db-0 (30 GiB of memory on NUMA node 0) or gone-uid (29 GiB of memory on NUMA node 1)"
    assert fix[:2] == (at_most, room)
    chinese = finding_text(told, "zh").fix
    assert "最多请求 3 GiB 内存，而不是 4 GiB" in chinese[0]
    assert "shop/db-0（NUMA 节点 0 上的 30 GiB 内存）" in chinese[1]


def test_a_refusal_over_devices_names_the_pods_that_hold_them() -> None:
    log = noisy(written(ERAS[2], HOLDER), journald) + noisy(written(ERAS[2], WITHOUT_GPUS), journald)
    entries = [
        device_file.DeviceEntry(HOLDER.uid, "app", GPU, {0: ["g0", "g1"]}),
        device_file.DeviceEntry("other-uid", "app", "x.io/nic", {0: ["n0"]}),
    ]
    state = device_file.encode(entries, {GPU: ["g0", "g1", "g2"], "x.io/nic": ["n0"]})
    fix = finding_text(trouble(log=log, kubelet_internal_checkpoint=state)).fix
    assert f"make room: move or delete shop/db-0 (2 {GPU} on NUMA node 0)" in fix
    assert not any("nic" in line or "ask for at most" in line for line in fix)


@pytest.mark.parametrize(
    "line",
    [
        # As people quote it, quotes half gone.
        'Failed to initialize memory manager" err="{}"',
        HEADER + '"Failed to initialize memory manager" err="{}"',
        HEADER + "Failed to initialize memory manager: {}",
        'Nov 16 20:00:00 n1 k3s[7]: time="2026-11-16T20:00:00Z" level=fatal msg="kubelet exited: {}"',
        'Nov 16 20:00:00 n1 rke2[7]: time="2026-11-16T20:00:00Z" level=error msg="kubelet exited: {}"',
    ],
)
@pytest.mark.parametrize(
    ("found", "wanted", "said"), [("3136Mi", "3Gi", "64Mi too much"), ("3Gi", "3136Mi", "64Mi too little")]
)
@pytest.mark.parametrize("escaped", [True, False])
def test_reserved_memory_is_told_as_a_difference(
    line: str, found: str, wanted: str, said: str, *, escaped: bool
) -> None:
    message = SUM.format(found, wanted)
    one = trouble(log=line.format(message.replace('"', '\\"') if escaped else message) + "\n")
    assert one.code == "memory-manager-reserved-memory-mismatch"
    assert one.facts["difference"] == "64Mi"
    assert said in finding_text(one).title
    assert ("多了 64Mi" if "much" in said else "少了 64Mi") in finding_text(one, "zh").title


def test_bytes_are_told_in_mebibytes_where_they_are_some() -> None:
    one = trouble(log=SUM.format(3136 << 20, 3 << 30) + "\n")
    assert "64Mi too much" in finding_text(one).title


def test_the_example_is_for_the_machine_beside_it() -> None:
    one = trouble(log=SUM.format("3136Mi", "3Gi") + "\n", numactl=NUMACTL)
    assert one.facts["example"].count("memory: 1536Mi") == 2


def test_k3s_says_which_kubelet_is_inside() -> None:
    log = (
        'Nov 16 20:00:00 n1 k3s[7]: time="2026-11-16T20:00:00Z" level=info msg="Starting k3s v1.28.5+k3s1 (5b2d)"\n'
        'Nov 16 20:00:01 n1 k3s[7]: I1116 20:00:01.988280 7 cpu_manager.go:214] "Starting CPU manager" policy="static"\n'
    )
    (one,) = diagnosed(log=log)
    assert (one.code, one.facts["version"]) == ("healthy", "v1.28.5")


def test_lines_pasted_below_what_a_tool_printed_are_read_too() -> None:
    bundle = bundled(paste=NUMACTL + "\n" + SUM.format("3136Mi", "3Gi") + "\n")
    assert bundle.files == [("paste", "numactl, kubelet log")]
    (one,) = findings(bundle)
    assert one.facts["example"].count("memory: 1536Mi") == 2
    assert bundled(paste=NUMACTL).files == [("paste", "numactl")]


def test_the_manual_that_shows_the_line_is_read() -> None:
    (path,) = shared("seeds").glob("002_*.txt")
    codes = [one.code for one in diagnosed(manual=path.read_bytes())]
    assert "memory-manager-reserved-memory-mismatch" in codes
