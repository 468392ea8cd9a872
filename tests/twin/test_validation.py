from __future__ import annotations

import pytest

from numaware.machine.quantity import Quantity
from numaware.twin.config import MemoryReservation
from numaware.twin.settings import Settings
from numaware.twin.validation import problems

OLD = "v1.20.15"


def told(settings: Settings, version: str = "v1.35.0") -> list[str]:
    found = problems(settings, version)
    assert all(problem.severity == "error" for problem in found)
    return [str(problem.text) for problem in found]


def reserved(node: int, **limits: str) -> MemoryReservation:
    named = {name.replace("_", "-"): Quantity.parse(text) for name, text in limits.items()}
    return MemoryReservation(node, tuple(named.items()))


def test_settings_nobody_touched_are_fine_in_every_release() -> None:
    for minor in range(20, 37):
        assert told(Settings(), f"v1.{minor}.0") == []


def test_a_good_configuration_is_fine() -> None:
    settings = Settings(
        topology_policy="single-numa-node",
        topology_scope="pod",
        topology_options=(("prefer-closest-numa-nodes", "true"),),
        cpu_policy="static",
        cpu_options=(("full-pcpus-only", "true"),),
        memory_policy="Static",
        reserved_cpus="0-1,32",
        reserved_memory=(reserved(0, memory="1Gi", hugepages_2Mi="4Mi"), reserved(1, memory="1Gi")),
        kube_reserved=(("cpu", "500m"), ("ephemeral-storage", "1Gi"), ("memory", "1Gi"), ("pid", "1000")),
        eviction_hard=(("memory.available", "5%"), ("nodefs.available", "10%")),
        feature_gates=(("CPUManagerPolicyAlphaOptions", True), ("SomeOtherGate", True)),
    )
    assert told(settings) == []


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            "v1.35.0",
            (
                'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "single-numa" '
                'must be one of: ["none" "best-effort" "restricted" "single-numa-node"]'
            ),
        ),
        (OLD, "invalid configuration: topologyManagerPolicy non-allowable value: single-numa"),
    ],
)
def test_an_unknown_topology_policy_is_refused(version: str, text: str) -> None:
    assert told(Settings(topology_policy="single-numa"), version) == [text]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            "v1.27.3",
            (
                'invalid configuration: topologyManagerScope (--topology-manager-scope) "node" '
                'must be one of: "container", or "pod"'
            ),
        ),
        (OLD, "invalid configuration: topologyManagerScope non-allowable value: node"),
    ],
)
def test_an_unknown_scope_is_refused(version: str, text: str) -> None:
    assert told(Settings(topology_scope="node"), version) == [text]


def test_a_closed_gate_forbids_a_policy_as_long_as_it_could_be_closed() -> None:
    settings = Settings(topology_policy="restricted", feature_gates=(("TopologyManager", False),))
    assert told(settings, "v1.26.0") == [
        "invalid configuration: topologyManagerPolicy restricted requires feature gate TopologyManager"
    ]
    assert told(settings, "v1.28.0") == [
        "cannot set feature gate TopologyManager to false, feature is locked to true"
    ]
    assert told(settings, "v1.29.0") == ["unrecognized feature gate: TopologyManager"]


def test_a_bad_gate_is_all_the_kubelet_tells() -> None:
    settings = Settings(topology_policy="bogus", feature_gates=(("CPUManager", True),))
    assert told(settings) == ["unrecognized feature gate: CPUManager"]
    assert told(Settings(feature_gates=(("CPUManager", True),)), "v1.32.0") == []
    assert told(Settings(feature_gates=(("MemoryManager", True),)), OLD) == [
        "unrecognized feature gate: MemoryManager"
    ]


def test_reserved_cpus_and_reserved_cgroups_exclude_each_other() -> None:
    text = (
        "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
        "or kubeReservedCgroup (--kube-reserved-cgroup)"
    )
    assert told(Settings(reserved_cpus="0", kube_reserved_cgroup="/k")) == [f"invalid configuration: {text}"]
    assert told(Settings(reserved_cpus="0", system_reserved_cgroup="/s"), OLD) == [text]
    assert told(Settings(system_reserved_cgroup="/s")) == []


@pytest.mark.parametrize(
    ("cpus", "reason"),
    [
        ("0, 1", 'strconv.Atoi: parsing " 1": invalid syntax'),
        ("a", 'strconv.Atoi: parsing "a": invalid syntax'),
        ("0-", 'strconv.Atoi: parsing "": invalid syntax'),
        ("3-1", 'invalid range "3-1" (3 > 1)'),
        ("0,,1", 'strconv.Atoi: parsing "": invalid syntax'),
        ("0-7:2/4", 'strconv.Atoi: parsing "7:2/4": invalid syntax'),
        ("0-999999999", "CPU 999999999 is beyond the CPUs of any machine"),
    ],
)
def test_reserved_cpus_that_are_no_list_are_refused(cpus: str, reason: str) -> None:
    assert told(Settings(reserved_cpus=cpus)) == [
        f"invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) {cpus}, error: {reason}"
    ]
    assert told(Settings(reserved_cpus=cpus), OLD) == [
        f"unable to parse reservedSystemCPUs (--reserved-cpus), error: {reason}"
    ]


def test_reserved_memory_must_be_of_a_known_kind_once_and_not_zero() -> None:
    settings = Settings(
        reserved_memory=(
            reserved(0, memory="1Gi"),
            reserved(1, cpu="1"),
            reserved(2, memory="0"),
            reserved(0, memory="2Gi"),
        )
    )
    expected = [
        'the limit type "cpu" for NUMA node 1 is not supported, only [memory hugepages-<HugePageSize>] is accepted',
        'reserved memory may not be zero for NUMA node 2 and resource "memory"',
        'the reserved memory has a duplicate value for NUMA node 0 and resource "memory"',
    ]
    assert told(settings) == [f"invalid configuration: {text}" for text in expected]
    assert told(settings, "v1.21.0") == expected
    assert told(settings, OLD) == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("hugepages-2Mi", "1Gi", 'cannot reserve "hugepages-2Mi" resource'),
        (
            "cpu",
            "one",
            (
                'failed to parse quantity "one" for "cpu" resource: quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
        (
            "cpu",
            "1mm",
            'failed to parse quantity "1mm" for "cpu" resource: unable to parse quantity\'s suffix',
        ),
        ("memory", "-1Gi", 'resource quantity for "memory" cannot be negative: -1Gi'),
    ],
)
def test_reservations_that_are_no_amounts_are_refused(name: str, text: str, reason: str) -> None:
    assert told(Settings(kube_reserved=((name, text),))) == [
        f"--kube-reserved value failed to parse: {reason}"
    ]
    assert told(Settings(system_reserved=((name, text),))) == [
        f"--system-reserved value failed to parse: {reason}"
    ]


@pytest.mark.parametrize(
    ("signal", "text", "reason"),
    [
        ("memory.free", "1Gi", "unsupported eviction signal memory.free"),
        ("memory.available", "0", "eviction threshold memory.available must be positive: 0"),
        ("memory.available", "-1Gi", "eviction threshold memory.available must be positive: -1Gi"),
        ("memory.available", "120%", "eviction percentage threshold memory.available must be <= 100%: 120%"),
        ("memory.available", "-5%", "eviction percentage threshold memory.available must be >= 0%: -5%"),
        ("memory.available", "x%", 'strconv.ParseFloat: parsing "x": invalid syntax'),
    ],
)
def test_eviction_thresholds_that_make_no_sense_are_refused(signal: str, text: str, reason: str) -> None:
    assert told(Settings(eviction_hard=((signal, text),))) == [reason]


def test_container_file_systems_became_a_signal_in_v1_31() -> None:
    settings = Settings(eviction_hard=(("containerfs.available", "10%"),))
    assert told(settings) == []
    assert told(settings, "v1.30.0") == ["unsupported eviction signal containerfs.available"]


def test_options_need_their_own_gate_in_old_releases() -> None:
    cpu = Settings(cpu_options=(("full-pcpus-only", "true"),))
    assert told(cpu, "v1.22.0") == [
        (
            "CPU Manager policy options map[full-pcpus-only:true] "
            'require feature gates "CPUManager", "CPUManagerPolicyOptions" enabled'
        )
    ]
    assert told(cpu, "v1.23.0") == []
    topology = Settings(topology_options=(("prefer-closest-numa-nodes", "true"),))
    begin = "topology manager policy options map[prefer-closest-numa-nodes:true] require feature gates"
    assert told(topology, "v1.26.0") == [f'{begin} "TopologyManager", "TopologyManagerPolicyOptions" enabled']
    assert told(topology, "v1.27.0") == [f'{begin} "TopologyManagerPolicyOptions" enabled']
    assert told(topology, "v1.28.0") == []
