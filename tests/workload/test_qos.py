from __future__ import annotations

import pytest

from numaware.workload.pod import NANO, Container, Pod, Qos, amount
from numaware.workload.qos import peak, qos_class


def container(
    name: str, *, request: int = 0, limit: int = 0, memory: int = 5, restartable: bool = False
) -> Container:
    """CPUs as asked, and the same memory requested and limited."""
    requests = (("cpu", request * NANO), ("memory", memory * NANO))
    limits = (("cpu", limit * NANO), ("memory", memory * NANO))
    return Container(name, requests, limits, restartable)


def test_equal_requests_and_limits_make_a_pod_guaranteed() -> None:
    assert qos_class(Pod("p", containers=(container("a", request=1, limit=1),))) == "Guaranteed"


def test_sums_decide_and_not_each_container() -> None:
    uneven = (container("a", request=1, limit=2), container("b", request=3, limit=2))
    assert qos_class(Pod("p", containers=uneven)) == "Guaranteed"


def test_one_container_without_a_limit_makes_it_burstable() -> None:
    init = (container("i", request=0, limit=0),)
    assert (
        qos_class(Pod("p", containers=(container("a", request=1, limit=1),), init_containers=init))
        == "Burstable"
    )


def test_devices_alone_are_best_effort() -> None:
    gpu = (("nvidia.com/gpu", NANO),)
    assert qos_class(Pod("p", containers=(Container("a", gpu, gpu),))) == "BestEffort"


@pytest.mark.parametrize("recorded", ["Guaranteed", "Burstable", "BestEffort"])
def test_what_the_api_server_recorded_wins(recorded: Qos) -> None:
    assert qos_class(Pod("p", containers=(container("a", request=1, limit=2),), qos=recorded)) == recorded


def test_resources_of_the_pod_itself_decide_before_those_of_its_containers() -> None:
    own = (("cpu", NANO), ("memory", NANO))
    loose = (container("a", request=1, limit=2),)
    assert qos_class(Pod("p", containers=loose, pod_requests=own, pod_limits=own)) == "Guaranteed"
    assert qos_class(Pod("p", containers=loose, pod_requests=own)) == "Burstable"


def test_the_peak_counts_sidecars_from_their_start_and_other_init_containers_one_by_one() -> None:
    pod = Pod(
        "p",
        init_containers=(
            container("a", request=4),
            container("s", request=2, restartable=True),
            container("b", request=6),
        ),
        containers=(container("c", request=3), container("d", request=1)),
    )

    def cpus(one: Container) -> int:
        return amount(one.requests, "cpu") // NANO

    assert peak(pod, cpus) == 8
    assert peak(pod, cpus, sidecars=False) == 6
