"""What CPU sets cost on machines of today and tomorrow; run by `make bench`, which prints the table."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from numaware.machine.cpuset import CpuSet

SIZES = (64, 256, 1024, 4096)
size = pytest.mark.parametrize("cpus", SIZES)


def every_other(cpus: int) -> CpuSet:
    """The worst case of the list form: no two CPUs in a run."""
    return CpuSet(range(0, cpus, 2))


@size
def test_parse(benchmark: BenchmarkFixture, cpus: int) -> None:
    text = str(every_other(cpus))
    assert len(benchmark(CpuSet.parse, text)) == cpus // 2


@size
def test_print(benchmark: BenchmarkFixture, cpus: int) -> None:
    assert benchmark(str, every_other(cpus)).count(",") == cpus // 2 - 1


@size
def test_iterate(benchmark: BenchmarkFixture, cpus: int) -> None:
    assert len(benchmark(list, every_other(cpus))) == cpus // 2


@size
def test_algebra(benchmark: BenchmarkFixture, cpus: int) -> None:
    odd, low = CpuSet(range(cpus)) - every_other(cpus), CpuSet(range(cpus // 2))
    assert len(benchmark(lambda: (odd & low) | (odd - low))) == cpus // 2
