"""The JSON of a machine: what a document must not say, and what happens to it then."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.codec import MAX_JSON_BYTES, decode, encode, page_size_bytes, page_size_name
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Cpu, HugePages, Machine, NumaNode


def test_a_document_may_be_cut_down_to_what_matters() -> None:
    machine = decode(b'{"cpus": [{"id": 1}, {"id": 0}], "numa": [{"id": 0, "cpus": "0-1"}]}')
    assert machine == Machine(cpus=(Cpu(0), Cpu(1)), numa=(NumaNode(0, cpus=CpuSet.parse("0-1")),))


def test_derived_fields_are_written_and_never_read() -> None:
    written = encode(Machine(cpus=(Cpu(0, package=0), Cpu(1, online=False))))
    assert b'"cpuCount": 1' in written
    assert b'"offlineCpus": "1"' in written
    lie = written.replace(b'"cpuCount": 1', b'"cpuCount": 99').replace(
        b'"offlineCpus": "1"', b'"offlineCpus": ""'
    )
    assert encode(decode(lie)) == written


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ('{"numa": []}', "missing required field `cpus`"),
        ('{"cpus": [{"id": 0}, {"id": 0}], "numa": []}', "CPU 0 is listed twice"),
        ('{"cpus": [], "numa": [{"id": 3}, {"id": 3}]}', "NUMA node 3 is listed twice"),
        ('{"cpus": [{"id": -1}], "numa": []}', "CPU id -1 is not between 0 and 65535"),
        ('{"cpus": [{"id": 70000}], "numa": []}', "CPU id 70000 is not between 0 and 65535"),
        ('{"cpus": [{"id": 0, "siblings": "0-"}], "numa": []}', "'0-' is not a CPU list"),
        ('{"cpus": [{"id": 0, "siblings": [0]}], "numa": []}', "expected a CPU list such as 0-3,8"),
        ('{"cpus": [{"id": 0, "kind": "X"}], "numa": []}', "Invalid enum value 'X'"),
        ('{"cpus": [], "numa": [], "memoryBytes": -1}', "Expected `int` >= 0"),
        ('{"cpus": [], "numa": [{"id": 0, "distances": {"0": -10}}]}', "Expected `int` >= 0"),
        ('{"cpus": [], "numa": [{"id": 0, "hugepages": {"2MB": {"total": 1}}}]}', "'2MB' is not a page size"),
        (
            '{"cpus": [], "numa": [{"id": 0, "hugepages": {"2Mi": {"total": 1}, "2048Ki": {"total": 1}}}]}',
            "NUMA node 0 lists a huge page size twice",
        ),
        ('{"cpus": ' + "[" * 50_000, "Expected `object`"),
    ],
    ids=lambda text: text[:40],
)
def test_a_document_that_is_no_machine_says_why(document: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(document.encode(), "node.json")
    assert str(caught.value).startswith("node.json: not a topology in JSON: ")
    assert problem in str(caught.value)


def test_a_document_too_large_to_be_a_machine_is_not_even_parsed() -> None:
    with pytest.raises(InputError, match="larger than 64 MiB"):
        decode(bytes(MAX_JSON_BYTES + 1))


@pytest.mark.parametrize(
    ("size", "name"),
    [(2 << 20, "2Mi"), (1 << 30, "1Gi"), (64 << 10, "64Ki"), (1536 << 20, "1536Mi"), (1000, "1000")],
)
def test_page_sizes_have_the_names_kubernetes_gives_them(size: int, name: str) -> None:
    assert page_size_name(size) == name
    assert page_size_bytes(name) == size


def test_pools_come_back_smallest_page_first() -> None:
    node = NumaNode(0, hugepages=(HugePages(2 << 20, 5, 1), HugePages(1 << 30, 2)))
    assert decode(encode(Machine(numa=(node,)))).numa == (node,)
