from __future__ import annotations

import msgspec
import pytest

from numaware.diagnose.recommend.configuration import Purpose, recommend
from numaware.diagnose.recommend.reservation import kept_cores, kept_memory
from numaware.diagnose.render import kubelet_yaml
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.machine.topology import Machine
from numaware.twin.inventory import hardware_of
from support.choices import PURPOSES

GI = 1 << 30
SERVER = "2s x 1n x 16c x 2t +gpu@0,0,1,1 +nic@0 mem=256Gi"


def reserved(machine: str, purpose: Purpose = "mixed") -> str:
    found = recommend(synthetic.read(machine), purpose).document["reservedSystemCPUs"]
    assert isinstance(found, str)
    return found


def test_the_core_of_the_boot_cpu_is_always_kept() -> None:
    assert reserved("1s x 1n x 4c x 2t") == "0,4"


def test_equal_numa_nodes_keep_the_same() -> None:
    assert reserved("2s x 1n x 16c x 2t") == "0,16,32,48"


def test_numa_nodes_with_gpus_keep_their_cpus_for_pods() -> None:
    # 96 cores in 4 nodes: 3 cores; the boot core, then the nodes without GPUs.
    assert reserved("4x24 +gpu@0,2") == "0,24,72"


def test_isolated_cpus_are_left_alone() -> None:
    machine = msgspec.structs.replace(synthetic.read("1x64"), isolated=CpuSet(range(1, 60)))
    found = recommend(machine, "mixed").document["reservedSystemCPUs"]
    assert found == "0,60"


@pytest.mark.parametrize(
    ("cores", "nodes", "generous", "kept"),
    [
        (1, 1, False, 1),
        (4, 1, False, 1),
        (64, 2, False, 2),
        (64, 4, False, 4),
        (64, 4, True, 4),
        (128, 2, True, 8),
        (8, 8, False, 1),
    ],
)
def test_how_many_cores_are_kept(cores: int, nodes: int, generous: bool, kept: int) -> None:
    assert kept_cores(cores, nodes, generous=generous, even=True) == kept


@pytest.mark.parametrize(
    ("memory", "kube"),
    [("4Gi", GI), ("8Gi", 4 * GI * 25 // 100 + 4 * GI * 20 // 100)],
)
def test_memory_for_the_kubelet_follows_the_steps(memory: str, kube: int) -> None:
    kept = kept_memory(hardware_of(synthetic.read(f"1x4 mem={memory}")))
    assert kept is not None
    assert abs(kept.kube - kube) < 1 << 20


def test_the_sum_of_reserved_memory_is_what_is_kept_and_follows_the_size_of_the_nodes() -> None:
    kept = kept_memory(hardware_of(synthetic.read("2x4 mem=100Gi")))
    assert kept is not None
    assert sum(size for _, size in kept.split) == kept.total
    assert max(size for _, size in kept.split) - min(size for _, size in kept.split) <= 1 << 20


def test_memory_that_is_not_known_is_not_managed() -> None:
    assert kept_memory(hardware_of(synthetic.read("2x4 mem=0"))) is None
    document = recommend(synthetic.read("2x4 mem=0"), "latency").document
    assert document["memoryManagerPolicy"] == "None"
    assert "reservedMemory" not in document


def test_the_reserved_memory_adds_up_to_the_byte() -> None:
    document = recommend(synthetic.read(SERVER), "ai-training").document
    parts = [
        document["kubeReserved"]["memory"],
        document["systemReserved"]["memory"],
        document["evictionHard"]["memory.available"],
    ]
    split = [entry["limits"]["memory"] for entry in document["reservedMemory"]]
    assert sum(Quantity.parse(part).value for part in parts) == sum(
        Quantity.parse(part).value for part in split
    )


@pytest.mark.parametrize(
    ("purpose", "policy", "scope"),
    [
        ("ai-training", "restricted", "pod"),
        ("inference", "single-numa-node", "pod"),
        ("latency", "single-numa-node", "pod"),
        ("database", "restricted", "pod"),
        ("mixed", "best-effort", "container"),
    ],
)
def test_the_policy_follows_from_the_purpose(purpose: Purpose, policy: str, scope: str) -> None:
    document = recommend(synthetic.read(SERVER), purpose).document
    assert (document["topologyManagerPolicy"], document["topologyManagerScope"]) == (policy, scope)


def test_an_old_release_gets_only_what_it_has_and_is_told_what_it_lacks() -> None:
    found = recommend(synthetic.read(SERVER), "latency", "v1.31.0")
    assert found.document["cpuManagerPolicyOptions"] == {"full-pcpus-only": "true"}
    assert [note.facts.get("option") for note in found.notes] == ["strict-cpu-reservation"]
    assert "memoryManagerPolicy" not in recommend(synthetic.read(SERVER), "latency", "v1.20.0").document


def test_many_numa_nodes_are_aligned_only_where_the_kubelet_can_afford_it() -> None:
    machine = synthetic.read("4s x 4n x 4c")
    assert recommend(machine, "latency").document["topologyManagerPolicyOptions"] == {
        "max-allowable-numa-nodes": "16"
    }
    assert recommend(machine, "database").document["topologyManagerPolicy"] == "none"
    assert recommend(machine, "latency", "v1.28.0").document["topologyManagerPolicy"] == "none"
    eight = recommend(synthetic.read("2s x 4n x 8c"), "ai-training").document
    assert (eight["topologyManagerPolicy"], eight["memoryManagerPolicy"]) == ("restricted", "None")


def test_a_machine_of_one_core_shares_it() -> None:
    found = recommend(synthetic.read("1x1"), "latency")
    assert found.document["cpuManagerPolicy"] == "none"
    assert found.notes[0].key == "recommend-one-core"


@pytest.mark.parametrize("purpose", PURPOSES)
def test_gpus_are_part_of_the_proof_where_the_purpose_is_about_them(purpose: Purpose) -> None:
    proof = kubelet_yaml.to_builtins(recommend(synthetic.read(SERVER), purpose), "m")["proof"]
    assert ("nvidia.com/gpu" in proof["requests"]) == (purpose in ("ai-training", "inference"))
    assert proof["numaNodes"] in ([0], [1])


def test_a_machine_without_cpus_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="no online CPU"):
        recommend(Machine(), "mixed")


def test_every_line_has_its_reason_above_it() -> None:
    found = recommend(synthetic.read(SERVER), "latency")
    lines = kubelet_yaml.render(found, "m").splitlines()
    for setting in found.settings:
        (at,) = (number for number, line in enumerate(lines) if line.startswith(f"{setting.key}:"))
        assert lines[at - 1].startswith("# ")
        assert len(setting.why) >= 1
