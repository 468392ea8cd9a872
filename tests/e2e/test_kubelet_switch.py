"""`numaware kubelet` beside a real kubelet: there and back, refusals foretold, failures and kills half-way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.program import eventually
from e2e.switched_kubelet import SwitchedKubelet
from numaware.machine import synthetic

pytestmark = pytest.mark.e2e

CONFIG = {"systemReserved": {"cpu": "1", "memory": "1Gi"}, "evictionHard": {"memory.available": "100Mi"}}
SET = (
    "--set=cpuManagerPolicy=static",
    "--set=topologyManagerPolicy=restricted",
    "--set=memoryManagerPolicy=Static",
    "--set=reservedMemory=0:memory=1124Mi",
)
# What the plan foretells, and what the kubelet itself says of it.
REFUSED = {
    "an unknown option": ("cpuManagerPolicy=static", "cpuManagerPolicyOptions.full-pcpu-only=true"),
    "a closed gate": ("cpuManagerPolicy=static", "cpuManagerPolicyOptions.distribute-cpus-across-cores=true"),
    "a wrong sum": ("memoryManagerPolicy=Static", "reservedMemory=0:memory=1Gi"),
}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[SwitchedKubelet]:
    with SwitchedKubelet(tmp_path, synthetic.read("2s x 4c x 2t mem=32Gi"), CONFIG) as running:
        yield running


def policies(kubelet: SwitchedKubelet) -> tuple[str, str]:
    """What the kubelet itself has written down."""
    names = ("cpu_manager_state", "memory_manager_state")
    cpu, memory = (str(kubelet.state(name)["policyName"]) for name in names)
    return cpu, memory


def test_from_none_to_static_and_back_to_the_byte(kubelet: SwitchedKubelet) -> None:
    before = kubelet.bytes()
    assert "Nothing was done" in kubelet.numaware("apply", *SET, status=1)
    assert kubelet.bytes() == before
    assert "Applied." in kubelet.numaware("apply", *SET, "--yes")
    assert kubelet.whole()
    assert policies(kubelet) == ("static", "Static")
    after = kubelet.config_file.read_text(encoding="utf-8")
    assert after.startswith("# Row 7.\n")
    assert "# The end.\n" in after
    assert "Nothing would change." in kubelet.numaware("apply", *SET, "--yes")
    assert "Applied." in kubelet.numaware("rollback", "--yes")
    assert kubelet.whole()
    assert kubelet.bytes() == before
    assert policies(kubelet) == ("none", "None")


def test_the_plan_foretells_what_the_kubelet_says(kubelet: SwitchedKubelet) -> None:
    before = kubelet.bytes()
    good = kubelet.config_file.read_bytes()
    stale = kubelet.numaware("plan", *SET)
    foretold = {
        name: kubelet.numaware("plan", *(f"--set={one}" for one in wanted), status=1)
        for name, wanted in REFUSED.items()
    }
    assert kubelet.bytes() == before
    # The same by hand, as the twin was asked not to let it be done.
    edits = {
        "a stale state": (stale, "cpuManagerPolicy: static\n"),
        "an unknown option": (
            foretold["an unknown option"],
            'cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpu-only: "true"}\n',
        ),
        "a closed gate": (
            foretold["a closed gate"],
            'cpuManagerPolicy: static\ncpuManagerPolicyOptions: {distribute-cpus-across-cores: "true"}\n',
        ),
        "a wrong sum": (
            foretold["a wrong sum"],
            "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n",
        ),
    }
    for name, (told, text) in edits.items():
        kubelet.stop()
        if name != "a stale state":
            for path in kubelet.root.glob("*_manager_state"):
                path.unlink()
        kubelet.config_file.write_bytes(good + text.encode())
        log = Path(f"{kubelet.socket}.log")
        start = log.stat().st_size
        kubelet.program.start()

        sentence = next(line for line in told.splitlines() if "would not start: " in line)
        refusal = sentence.partition("would not start: ")[2][:120]

        def said(log: Path = log, start: int = start, refusal: str = refusal) -> bool:
            return refusal in log.read_bytes()[start:].decode(errors="replace").replace('\\"', '"')

        eventually(said, f"the kubelet refuses {name}: {refusal}")


def test_a_kubelet_that_does_not_come_up_is_put_back(kubelet: SwitchedKubelet) -> None:
    before = kubelet.bytes()
    kubelet.break_next_start()
    told = kubelet.numaware("apply", *SET, "--yes", status=1)
    assert "Rolled back, everything is as it was" in told
    assert "the unit was told to fail" in told
    assert kubelet.whole()
    assert kubelet.bytes() == before


def test_killed_half_way_it_is_brought_to_either_end(kubelet: SwitchedKubelet) -> None:
    """At some steps; at all of them in `make switch-trials`, and in the tests of the executor."""
    before = kubelet.bytes()
    kubelet.killed_at("write ", *SET, "--yes")
    assert "left half-way" in kubelet.numaware("apply", *SET, "--yes", status=2)
    kubelet.numaware("rollback", "--yes")
    assert kubelet.whole()
    assert kubelet.bytes() == before
    kubelet.killed_at("start kubelet", *SET, "--yes")
    kubelet.numaware("apply", "--resume", "--yes")
    assert kubelet.whole()
    assert policies(kubelet) == ("static", "Static")
    kubelet.numaware("rollback", "--yes")
    assert kubelet.bytes() == before


def test_a_full_disk_and_a_read_only_configuration_leave_all_as_it_was(
    kubelet: SwitchedKubelet, tmp_path: Path
) -> None:
    before = kubelet.bytes()
    small = tmp_path / "small"
    small.mkdir()
    kubelet.mounted(small, "size=64k")
    try:
        (small / "config.yaml").write_bytes(before["config.yaml"])
        filler = bytes(1 << 20)
        with pytest.raises(OSError, match="No space"):
            (small / "filler").write_bytes(filler)
        told = kubelet.numaware("apply", *SET, "--yes", config=small / "config.yaml", status=1)
        assert "No space left on device" in told
        assert (small / "config.yaml").read_bytes() == before["config.yaml"]
        kubelet.mounted(small, "remount,ro")
        told = kubelet.numaware("apply", *SET, "--yes", config=small / "config.yaml", status=2)
        assert "cannot be written" in told
    finally:
        kubelet.unmounted(small)
    assert kubelet.whole()
    assert kubelet.bytes() == before
