"""Score of scheduler-plugins: the four strategies.

Mirrors `score.go`, `least_allocated.go`, `most_allocated.go`, `balanced_allocation.go` of `pkg/noderesourcetopology`
(August 2026). Scores are whole numbers as Go makes them, and need not lie between 0 and 100. Where the plugin crashes
the answer here is 0: nobody is sent there because of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import msgspec

from numaware.schedule.peers.crash import CrashError
from numaware.schedule.peers.filtering import CRASHING_ID
from numaware.schedule.peers.least_numa import least_numa_nodes
from numaware.schedule.peers.requests import effective_request
from numaware.schedule.peers.zones import PeerZone, Topology
from numaware.workload.pod import Pod, Resources, units
from numaware.workload.qos import qos_class

HIGHEST, LOWEST = 100, 0

StrategyType = Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
STRATEGIES: tuple[StrategyType, ...] = get_args(StrategyType)

# What a float that is no number becomes as a 64-bit integer on amd64.
_NO_NUMBER = -(1 << 63)


class Strategy(msgspec.Struct, frozen=True):
    """The plugin's `scoringStrategy`; a resource without a weight, or with one below 1, weighs 1."""

    type: StrategyType = "LeastAllocated"
    weights: tuple[tuple[str, int], ...] = ()


# The score of one zone for one set of requests.
_Rate = Callable[[Resources, Mapping[str, int], Mapping[str, int]], int]


def score_node(topology: Topology | None, pod: Pod, strategy: Strategy, *, fresh: bool = True) -> int:
    """How good the node is for the pod; see `filter_node` for `topology` and `fresh`."""
    if qos_class(pod) != "Guaranteed":
        return HIGHEST
    if not fresh or topology is None:
        return LOWEST
    if strategy.type != "LeastNUMANodes" and topology.manager.policy != "single-numa-node":
        return LOWEST
    try:
        return _score(topology, pod, strategy)
    except CrashError:
        return LOWEST


def _score(topology: Topology, pod: Pod, strategy: Strategy) -> int:
    if any(zone.id == CRASHING_ID for zone in topology.zones):
        raise CrashError
    as_one = topology.manager.scope == "pod"
    requests = [effective_request(pod)] if as_one else [container.requests for container in pod.in_order]
    if strategy.type == "LeastNUMANodes":
        return least_numa_nodes(topology, requests)
    rate = _RATES[strategy.type]
    # A repeated name weighs what its last entry says.
    weights = {name: max(weight, 1) for name, weight in dict(strategy.weights).items()}
    scores = [_worst_fit(request, topology.zones, rate, weights) for request in requests]
    return scores[0] if as_one else _truncated(sum(map(float, scores)) / len(scores) if scores else math.nan)


def _worst_fit(
    request: Resources, zones: tuple[PeerZone, ...], rate: _Rate, weights: Mapping[str, int]
) -> int:
    """The lowest score above 0 of any zone, which need not be the zone that the kubelet will use."""
    worst = 0
    for zone in zones:
        score = rate(request, dict(zone.available), weights)
        if worst == 0 or (score != 0 and score < worst):
            worst = score
        # The plugin notes each score in a list as long as there are zones, at the place of the NUMA id.
        if zone.id >= len(zones):
            raise CrashError
    return worst


def _least_allocated(request: Resources, available: Mapping[str, int], weights: Mapping[str, int]) -> int:
    return _weighed(request, available, weights, lambda wanted, there: (there - wanted) * HIGHEST // there)


def _most_allocated(request: Resources, available: Mapping[str, int], weights: Mapping[str, int]) -> int:
    return _weighed(request, available, weights, lambda wanted, there: wanted * HIGHEST // there)


def _weighed(
    request: Resources,
    available: Mapping[str, int],
    weights: Mapping[str, int],
    share: Callable[[int, int], int],
) -> int:
    """The weighted mean over all requested resources; one that the zone lacks, or has too little of, counts 0."""
    total = weight = 0
    for name, wanted in request:
        mine = weights.get(name, 1)
        weight += mine
        there = available.get(name, 0)
        if 0 < there >= wanted:
            total += mine * share(units(wanted), units(there))
    if not weight:
        raise CrashError  # an integer division by zero
    return total // weight


def _balanced_allocation(request: Resources, available: Mapping[str, int], _: Mapping[str, int]) -> int:
    """High when all resources would be used to a similar degree: one minus the variance of the degrees.

    Floating point as the plugin's library does it, in the order of names where Go's is random: near a whole number
    the result may differ by one from that of some other order.
    """
    fractions = []
    for name, wanted in request:
        there = units(available.get(name, 0))
        fraction = units(wanted) / there if there else 1.0
        if fraction > 1:
            return 0
        fractions.append(fraction)
    count = len(fractions)
    if count < 2:
        return _NO_NUMBER
    mean = sum(fractions) / count
    squares = drift = 0.0
    for fraction in fractions:
        squares += (fraction - mean) * (fraction - mean)
        drift += fraction - mean
    return _truncated((1 - (squares - drift * drift / count) / (count - 1)) * HIGHEST)


def _truncated(number: float) -> int:
    return _NO_NUMBER if math.isnan(number) else int(number)


_RATES: dict[StrategyType, _Rate] = {
    "LeastAllocated": _least_allocated,
    "MostAllocated": _most_allocated,
    "BalancedAllocation": _balanced_allocation,
}
