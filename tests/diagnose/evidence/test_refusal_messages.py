"""The kubelet's sentences of all releases, each with the code it stands for and the numbers it holds."""

from __future__ import annotations

from typing import Any

import pytest

from numaware.diagnose.evidence.refusal_messages import refusal
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import CODES, Subject, finding
from numaware.diagnose.texts import finding_text

UNEXPECTED = "Allocate failed due to {}, which is unexpected"

REFUSALS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Resources cannot be allocated with Topology locality", "", "topology-affinity-error", {}),
    (
        "SMT Alignment Error: requested 5 cpus not multiple cpus per core = 2",
        "SMTAlignmentError",
        "smt-alignment-error",
        {"requested": 5, "threads": 2, "fewer": 4, "more": 6},
    ),
    (
        (
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 4, requested CPUs = 8, "
            "CPUs per core = 2"
        ),
        "SMTAlignmentError",
        "smt-alignment-error",
        {"requested": 8, "available": 4, "threads": 2},
    ),
    (
        UNEXPECTED.format("not enough cpus available to satisfy request"),
        "UnexpectedAdmissionError",
        "not-enough-exclusive-cpus",
        {},
    ),
    (
        UNEXPECTED.format("not enough cpus available to satisfy request: requested=12, available=7"),
        "UnexpectedAdmissionError",
        "not-enough-exclusive-cpus",
        {"requested": 12, "available": 7},
    ),
    (
        (
            "Update plugin resources failed due to requested number of devices unavailable for nvidia.com/gpu. "
            "Requested: 2, Available: 1, which is unexpected."
        ),
        "UnexpectedAdmissionError",
        "devices-unavailable",
        {"resource": "nvidia.com/gpu", "requested": 2, "available": 1},
    ),
    (
        (
            "pod rejected, sum of exclusive container cpu requests equals pod budget, "
            "leaving no cpus for shared containers"
        ),
        "EmptyPodSharedPoolError",
        "empty-pod-shared-pool",
        {"resource": "cpu"},
    ),
    (
        "pod rejected, pod has shared init containers but no cpus available for them",
        "EmptyPodSharedPoolError",
        "empty-pod-shared-pool",
        {"resource": "cpu"},
    ),
    (
        UNEXPECTED.format("accounting error, not enough CPUs allocated, remaining: 2"),
        "UnexpectedAdmissionError",
        "distributed-cpus-miscounted",
        {"missing": 2},
    ),
    (
        UNEXPECTED.format("accounting error, too many CPUs allocated, remaining: -4"),
        "UnexpectedAdmissionError",
        "distributed-cpus-miscounted",
        {"missing": -4},
    ),
    (
        UNEXPECTED.format("no healthy devices present; cannot allocate unhealthy devices amd.com/gpu"),
        "UnexpectedAdmissionError",
        "devices-unhealthy",
        {"resource": "amd.com/gpu"},
    ),
    (
        UNEXPECTED.format(
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices a.b/c"
        ),
        "UnexpectedAdmissionError",
        "devices-unhealthy",
        {"resource": "a.b/c"},
    ),
    (
        UNEXPECTED.format("can't allocate unregistered device intel.com/sriov"),
        "UnexpectedAdmissionError",
        "devices-unavailable",
        {"resource": "intel.com/sriov"},
    ),
    (
        UNEXPECTED.format("cannot allocate unregistered device intel.com/sriov"),
        "UnexpectedAdmissionError",
        "devices-unavailable",
        {"resource": "intel.com/sriov"},
    ),
    (
        UNEXPECTED.format(
            "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Internal"
        ),
        "UnexpectedAdmissionError",
        "device-plugin-error",
        {"call": "GetPreferredAllocation", "error": "rpc error: code = Internal"},
    ),
    (
        UNEXPECTED.format("rpc error: code = Unavailable desc = connection refused"),
        "UnexpectedAdmissionError",
        "device-plugin-error",
        {"call": "Allocate", "error": "rpc error: code = Unavailable desc = connection refused"},
    ),
    (
        UNEXPECTED.format(
            "rpc error: code = Unknown desc = request for 'x.y/z: 3' too large: maximum request size for shared "
            "resources is 1"
        ),
        "UnexpectedAdmissionError",
        "device-plugin-refused",
        {"asked": "x.y/z: 3", "most": 1, "resource": "x.y/z"},
    ),
    (
        UNEXPECTED.format(
            "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
        ),
        "UnexpectedAdmissionError",
        "not-enough-memory-on-nodes",
        {},
    ),
    (
        UNEXPECTED.format("[memorymanager] preferred hint violates NUMA node allocation"),
        "UnexpectedAdmissionError",
        "not-enough-memory-on-nodes",
        {},
    ),
    (
        "Node didn't have enough resource: cpu, requested: 4000, used: 61500, capacity: 64000",
        "OutOfcpu",
        "out-of-cpu",
        {"requested": "4", "used": "61500m", "capacity": "64"},
    ),
    (
        "Pod Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 4, capacity: 8",
        "OutOfnvidia.com/gpu",
        "out-of-resource",
        {"resource": "nvidia.com/gpu", "requested": 8},
    ),
    ("", "OutOfmemory", "out-of-resource", {"resource": "memory"}),
    ("", "TopologyAffinityError", "topology-affinity-error", {}),
    (UNEXPECTED.format("something new"), "UnexpectedAdmissionError", "admission-error", {}),
]

STARTS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "[cpumanager] unable to determine reserved CPU resources for static policy",
        "cpu-manager-no-reserved-cpus",
        {},
    ),
    (
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero",
        "cpu-manager-no-reserved-cpus",
        {},
    ),
    (
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs (size of 0-1 did not equal 4)",
        "cpu-manager-reserved-cpus-wrong",
        {"reserved": "0-1", "wanted": "4"},
    ),
    (
        (
            'configured policy "static" differs from state checkpoint policy "none", please drain this node and delete the CPU '
            'manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
        ),
        "cpu-manager-state-policy-mismatch",
        {"configured": "static", "stored": "none"},
    ),
    (
        (
            '[memorymanager] configured policy "Static" differs from state checkpoint policy "None", please drain this node and '
            'delete the memory manager checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
        ),
        "memory-manager-state-mismatch",
        {"configured": "Static", "stored": "None"},
    ),
    (
        'not all reserved cpus: "0-3" are present in defaultCpuSet: "2-31"',
        "cpu-manager-state-reserved-mismatch",
        {"reserved": "0-3", "stored": "2-31"},
    ),
    (
        'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"',
        "cpu-manager-state-reserved-mismatch",
        {"reserved": "0"},
    ),
    (
        'current set of available CPUs "0-15" doesn\'t match with CPUs in state "0-31"',
        "cpu-manager-state-reserved-mismatch",
        {"online": "0-15", "stored": "0-31"},
    ),
    ("default cpuset cannot be empty", "cpu-manager-state-reserved-mismatch", {}),
    (
        (
            "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the CPU manager "
            'checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
        ),
        "cpu-manager-state-corrupt",
        {"problem": "checkpoint is corrupted"},
    ),
    (
        (
            "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the memory "
            'manager checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
        ),
        "memory-manager-state-corrupt",
        {},
    ),
    (
        'the total amount "2Gi" of type "memory" is not equal to the value "2148Mi" determined by Node Allocatable feature',
        "memory-manager-reserved-memory-mismatch",
        {"found": "2Gi", "wanted": "2148Mi", "resource": "memory"},
    ),
    (
        "the reserved memory configuration references a NUMA node 3 that does not exist on this machine",
        "memory-manager-reserved-memory-mismatch",
        {"numaNode": "3"},
    ),
    (
        "[memorymanager] you should specify the system reserved memory",
        "memory-manager-reserved-memory-mismatch",
        {},
    ),
    (
        "[memorymanager] the expected machine state is different from the real one",
        "memory-manager-state-mismatch",
        {},
    ),
    ("unsupported on machines with more than 8 NUMA Nodes", "too-many-numa-nodes", {"most": 8}),
    (
        'new static policy error: unknown CPU Manager Policy option: "fullpcpus"',
        "unknown-policy-option",
        {"option": "fullpcpus"},
    ),
    ('unknown Topology Manager Policy option: "closest"', "unknown-policy-option", {"option": "closest"}),
    (
        'CPU Manager Policy Alpha-level Options not enabled, but option "align-by-socket" provided',
        "policy-option-needs-gate",
        {"option": "align-by-socket", "gate": "CPUManagerPolicyAlphaOptions"},
    ),
    (
        'topology manager policy beta-level options not enabled, but option "prefer-closest-numa-nodes" provided',
        "policy-option-needs-gate",
        {"gate": "TopologyManagerPolicyBetaOptions"},
    ),
    (
        "static policy options full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        "incompatible-policy-options",
        {"options": ["full-pcpus-only", "distribute-cpus-across-cores"]},
    ),
    (
        "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option",
        "incompatible-policy-options",
        {},
    ),
    (
        "new none policy error: None policy: received unsupported options=map[full-pcpus-only:true]",
        "incompatible-policy-options",
        {},
    ),
    ('unknown policy: "statik"', "unknown-policy", {"given": "statik"}),
    (
        'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        "kubelet-configuration-invalid",
        {"path": "max-allowable-numa-nodes"},
    ),
    (
        (
            "could not restore state from checkpoint: could not load v4 checkpoint: failed to deserialize cpu manager checkpoint "
            "data: unexpected end of JSON input, please drain this node and delete the CPU manager checkpoint file "
            '"/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
        ),
        "cpu-manager-state-corrupt",
        {
            "problem": "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: unexpected end of JSON input"
        },
    ),
    (
        (
            "could not restore state from checkpoint: could not load v3 checkpoint: checkpoint is corrupted, please drain this "
            'node and delete the memory manager checkpoint file "/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
        ),
        "memory-manager-state-corrupt",
        {"problem": "could not load v3 checkpoint: checkpoint is corrupted"},
    ),
    (
        (
            "could not restore state from checkpoint: json: cannot unmarshal object into Go struct field "
            "CPUManagerCheckpointV1.entries of type string, please drain this node and delete the CPU manager checkpoint file"
        ),
        "cpu-manager-state-corrupt",
        {},
    ),
    (
        (
            "could not restore state from checkpoint: failed to migrate checkpoint from v1 to v2: containerID 'cid' not found in "
            "initial containers list, please drain this node and delete the CPU manager checkpoint file"
        ),
        "cpu-manager-state-corrupt",
        {},
    ),
    (
        "cannot discover NUMA topology: error getting NUMA distances from cadvisor",
        "incompatible-policy-options",
        {},
    ),
    (
        (
            'the "prefer-closest-numa-nodes" policy option is not supported on Windows because NUMA node distances are not '
            "available"
        ),
        "incompatible-policy-options",
        {},
    ),
    (
        'policy "BestEffort" is not available for platform "linux"',
        "unknown-policy",
        {"given": "BestEffort", "platform": "linux"},
    ),
    (
        'policy "Static" is not available on Windows',
        "unknown-policy",
        {"given": "Static", "platform": "Windows"},
    ),
    (
        "failed to set feature gates from initial flags-based config: unrecognized feature gate: MemoryManager",
        "kubelet-configuration-invalid",
        {"path": "featureGates.MemoryManager"},
    ),
    (
        "cannot set feature gate CPUManagerPolicyOptions to false, feature is locked to true",
        "kubelet-configuration-invalid",
        {"path": "featureGates.CPUManagerPolicyOptions"},
    ),
]


@pytest.mark.parametrize(("message", "reason", "code", "facts"), REFUSALS)
def test_a_refusal_is_recognised_with_its_numbers(
    message: str, reason: str, code: str, facts: dict[str, Any]
) -> None:
    meaning = refusal(message, reason)
    assert meaning is not None
    assert meaning.code == code
    assert facts.items() <= dict(meaning.facts).items()


@pytest.mark.parametrize(("message", "code", "facts"), STARTS)
def test_a_failed_start_is_recognised_with_its_numbers(
    message: str, code: str, facts: dict[str, Any]
) -> None:
    for wrapped in (message, f"failed to run Kubelet: {message}", message.replace('"', '\\"')):
        meaning = start_failure(wrapped)
        assert meaning is not None
        assert meaning.code == code
        assert facts.items() <= dict(meaning.facts).items()


@pytest.mark.parametrize(
    "meaning",
    [
        *(refusal(message, reason) for message, reason, *_ in REFUSALS),
        *(start_failure(message) for message, *_ in STARTS),
    ],
)
def test_every_sentence_can_be_told_without_a_gap(meaning: Any) -> None:
    assert meaning.code in CODES
    words = finding_text(finding(meaning.code, Subject("Pod"), meaning.facts, variant=meaning.variant))
    assert "?" not in words.title + words.cause
    assert "{" not in words.title


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Back-off restarting failed container", "BackOff"),
        ("0/3 nodes are available: 3 Insufficient cpu.", "FailedScheduling"),
        ("node(s) didn't match pod topology spread constraints", "FailedScheduling"),
        ("Liveness probe failed: HTTP probe failed with statuscode: 500", "Unhealthy"),
        ("MountVolume.SetUp failed for volume", "FailedMount"),
        ("", ""),
    ],
)
def test_other_troubles_are_not_ours(message: str, reason: str) -> None:
    assert refusal(message, reason) is None
    assert start_failure(message) is None
