"""Fragmentation gradient descent, held against a literal reading of its definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from numaware.simulate.fgd import Typical
from numaware.simulate.run import run
from numaware.workload.pod import Pod
from support.lab_worlds import cluster, guaranteed, trace
from support.twin_nodes import GPU

PODS = [
    guaranteed("cpu", 4),
    guaranteed("small", 1, share=300),
    guaranteed("half", 3, share=500),
    guaranteed("one", 2, gpu=1),
    guaranteed("two", 6, gpu=2),
]
NEEDS = {
    "cpu": (4, 0, 0),
    "small": (1, 1, 300),
    "half": (3, 1, 500),
    "one": (2, 1, 1000),
    "two": (6, 2, 1000),
}


def by_definition(pods: Sequence[Pod], gpus: Sequence[int], cpu: int) -> int:
    """Pod by pod: all idle capacity if it cannot run or wants no GPU, else what is on GPUs with too little left."""
    total = 0
    for pod in pods:
        cpus, count, milli = NEEDS[pod.name]
        fits = cpus * 1000 <= cpu and sum(left >= milli for left in gpus) >= count
        total += sum(left for left in gpus if left < milli) if fits and count else sum(gpus)
    return total


@given(
    st.lists(st.sampled_from(PODS), min_size=1, max_size=12),
    st.lists(st.integers(1, 1000), max_size=8).map(sorted),
    st.integers(0, 8000),
)
def test_fragments_are_what_the_definition_says(pods: list[Pod], gpus: list[int], cpu: int) -> None:
    typical = Typical(pods, GPU)
    assert typical.fragments(tuple(gpus), cpu) == by_definition(pods, gpus, cpu)
    assert typical.fragments(tuple(gpus), cpu) == by_definition(pods, gpus, cpu)


def test_shares_are_put_where_they_fit_best() -> None:
    """Four halves fill two GPUs and leave the others whole for the pods that want whole ones."""
    pods = trace(
        *(guaranteed(f"half-{index}", 1, share=500) for index in range(4)), guaranteed("two", 1, gpu=2)
    )
    result = run(cluster(1, "none", gpus=4), pods, "fgd", 1)
    assert result.run.pods_placed == 5
    assert result.run.device_allocated_percent == {"gpu": 100.0}
