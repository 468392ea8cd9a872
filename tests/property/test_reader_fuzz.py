"""Whatever bytes a reader is given, it answers with a machine or with one `InputError`; and what a tool prints
about any machine is read back as that machine, as far as the tool knows it.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.codec import decode, encode
from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.sources import KINDS, read_source
from numaware.machine.topology import Cpu, Device, Link, Machine
from property.tool_outputs import OUTPUTS

kinds = pytest.mark.parametrize("kind", KINDS)
LINK_TYPES = st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", "NV4", "NV18"])


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Made-up machines with up to 96 CPUs and some devices, linked."""
    sockets, nodes, cores, threads = (draw(st.integers(1, most)) for most in (3, 2, 8, 2))
    places = st.lists(st.integers(0, sockets * nodes - 1), min_size=1, max_size=4)
    gpus = ",".join(map(str, draw(places)))
    nics = ",".join(map(str, draw(places)))
    machine = synthetic.read(
        f"{sockets}s x {nodes}n x {cores}c x {threads}t +gpu@{gpus} +nic@{nics} mem=16Gi"
    )
    names = [device.name for device in machine.devices]
    pairs = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    return msgspec.structs.replace(machine, links=tuple(Link(a, b, draw(LINK_TYPES)) for a, b in pairs))


def refused(error: InputError) -> None:
    """An error a person can use: it names the file and says in one line what is wrong."""
    assert error.source == "some/file"
    assert 0 < len(str(error.problem)) < 1000
    assert "\n" not in str(error)


def read(kind: str, data: bytes) -> Machine | None:
    """The machine, or None where the reader refuses; anything else it does is an error of ours."""
    try:
        machine = read_source(kind, data, "some/file")
    except InputError as error:
        refused(error)
        return None
    assert [cpu.id for cpu in machine.cpus] == sorted({cpu.id for cpu in machine.cpus})
    assert [node.id for node in machine.numa] == sorted({node.id for node in machine.numa})
    assert decode(encode(machine)) == machine
    return machine


SAMPLE = synthetic.read("2s x 2n x 2c x 2t +gpu@0,3 +nic@1")
SAMPLE = msgspec.structs.replace(SAMPLE, links=(Link("GPU0", "GPU1", "NV4"), Link("GPU0", "NIC0", "PIX")))
PRINTED = {kind: OUTPUTS[kind](SAMPLE) for kind in KINDS}


@kinds
@settings(max_examples=60)
@given(data=st.binary(max_size=300))
def test_random_bytes_do_no_harm(kind: str, data: bytes) -> None:
    read(kind, data)


@kinds
@settings(max_examples=60)
@given(cut=st.integers(0, 10_000), tail=st.binary(max_size=20))
def test_a_cut_off_file_does_no_harm(kind: str, cut: int, tail: bytes) -> None:
    read(kind, PRINTED[kind][:cut] + tail)


@kinds
@settings(max_examples=120)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, 10_000),
            st.integers(0, 12),
            st.sampled_from(
                [b"", b" ", b"\t", b"-1", b"0", b"99999", b"9" * 30, b"X", b",", b":", b"-", b"\n"]
            )
            | st.binary(max_size=3)
            | st.sampled_from(
                [b"0x", b'"', b"<", b"{}", b"\xff", b"1e9", b"0-65535", b"GPU0", b"node", b"null"]
            ),
        ),
        max_size=6,
    )
)
def test_a_damaged_file_does_no_harm(kind: str, edits: list[tuple[int, int, bytes]]) -> None:
    data = PRINTED[kind]
    for place, length, put in edits:
        at = place % len(data)
        data = data[:at] + put + data[at + length :]
    read(kind, data)


@kinds
@settings(max_examples=40)
@given(order=st.randoms(use_true_random=False), keep=st.integers(0, 100))
def test_shuffled_lines_do_no_harm(kind: str, order: object, keep: int) -> None:
    lines = PRINTED[kind].splitlines(keepends=True)
    order.shuffle(lines)  # type: ignore[attr-defined]  # hypothesis hands out a random.Random
    read(kind, b"".join(lines[: len(lines) * keep // 100]))


@kinds
@settings(max_examples=30)
@given(machine=machines())
def test_no_whole_output_is_doubted(kind: str, machine: Machine) -> None:
    found = read(kind, OUTPUTS[kind](machine))
    assert found is not None
    assert found.warnings == ()


@settings(max_examples=40)
@given(machines())
def test_numactl_is_read_back(machine: Machine) -> None:
    found = read_source("numactl", OUTPUTS["numactl"](machine), "f")
    assert found.numa == tuple(msgspec.structs.replace(node, kind=None) for node in machine.numa)
    assert found.cpus == tuple(Cpu(cpu.id, numa=cpu.numa) for cpu in machine.cpus)


@settings(max_examples=40)
@given(machines())
def test_lscpu_is_read_back(machine: Machine) -> None:
    found = read_source("lscpu", OUTPUTS["lscpu"](machine), "f")
    assert found.cpus == tuple(msgspec.structs.replace(cpu, die=None) for cpu in machine.cpus)
    assert found.caches == tuple(msgspec.structs.replace(cache, size_bytes=None) for cache in machine.caches)
    assert [(node.id, node.cpus) for node in found.numa] == [(node.id, node.cpus) for node in machine.numa]


@settings(max_examples=40)
@given(machines())
def test_nvidia_smi_is_read_back(machine: Machine) -> None:
    found = read_source("nvidia-smi", OUTPUTS["nvidia-smi"](machine), "f")
    assert found.links == machine.links
    assert found.devices == tuple(
        Device(d.name, "gpu", None, d.cpus, d.numa) if d.kind == "gpu" else Device(d.name, "nic")
        for d in machine.devices
    )
    near = {d.numa: d.cpus for d in machine.devices if d.kind == "gpu"}
    assert {node.id: node.cpus for node in found.numa} == near


@settings(max_examples=40)
@given(machines())
def test_hwloc_is_read_back(machine: Machine) -> None:
    found = read_source("hwloc", OUTPUTS["hwloc"](machine), "f")
    assert found.cpus == tuple(msgspec.structs.replace(cpu, die=None) for cpu in machine.cpus)
    assert (found.caches, found.numa, found.architecture) == (machine.caches, machine.numa, "x86_64")
    assert found.pci == tuple(msgspec.structs.replace(function, driver=None) for function in machine.pci)
    assert sorted(found.devices, key=lambda d: d.name) == sorted(machine.devices, key=lambda d: d.name)


@settings(max_examples=40)
@given(machines())
def test_nccl_is_read_back(machine: Machine) -> None:
    found = read_source("nccl", OUTPUTS["nccl"](machine), "f")
    assert found.pci == tuple(msgspec.structs.replace(function, driver=None) for function in machine.pci)
    assert sorted(found.devices, key=lambda d: d.name) == sorted(machine.devices, key=lambda d: d.name)
    assert [(node.id, node.cpus) for node in found.numa] == [(node.id, node.cpus) for node in machine.numa]


@settings(max_examples=40)
@given(machines())
def test_cadvisor_is_read_back(machine: Machine) -> None:
    found = read_source("cadvisor", OUTPUTS["cadvisor"](machine), "f")
    assert found.cpus == tuple(msgspec.structs.replace(cpu, die=None) for cpu in machine.cpus)
    assert found.numa == tuple(msgspec.structs.replace(node, kind=None) for node in machine.numa)
    assert (found.caches, found.memory_bytes) == (machine.caches, machine.memory_bytes)


@settings(max_examples=40)
@given(machines())
def test_lspci_is_read_back(machine: Machine) -> None:
    found = read_source("lspci", OUTPUTS["lspci"](machine), "f")
    assert found.pci[:-1] == tuple(
        msgspec.structs.replace(function, local_cpus=None) for function in machine.pci
    )
    assert [(gpu.name, gpu.pci) for gpu in found.devices] == [
        (gpu.name, gpu.pci) for gpu in machine.devices if gpu.kind == "gpu"
    ]


@settings(max_examples=100)
@given(
    st.text(max_size=60) | st.from_regex(r"\d{1,3}[snctx ]{1,3}\d{1,3}[snct](x \d[ct])?( \+gpu@\d(,\d)*)?")
)
def test_any_line_makes_a_machine_or_one_error(text: str) -> None:
    try:
        machine = synthetic.read(text, "some/file")
    except InputError as error:
        refused(error)
        return
    union = EMPTY
    for node in machine.numa:
        assert not union & node.cpus
        union |= node.cpus
    assert union == CpuSet(range(len(machine.cpus)))
    assert decode(encode(machine)) == machine
