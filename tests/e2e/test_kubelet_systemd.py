"""`numaware kubelet` with the real systemd: a real kubelet as its unit, stopped, started, and given up by it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from e2e.program import eventually
from e2e.real_systemd import UNIT, SystemdKubelet
from numaware.machine import synthetic

pytestmark = pytest.mark.e2e

CONFIG = {"systemReserved": {"cpu": "1", "memory": "1Gi"}, "evictionHard": {"memory.available": "100Mi"}}
SET = ("--set=cpuManagerPolicy=static", "--set=topologyManagerPolicy=restricted")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemdKubelet]:
    folder = tmp_path_factory.mktemp("systemd")
    with SystemdKubelet(folder, synthetic.read("2s x 4c x 2t mem=32Gi"), CONFIG) as kubelet:
        yield kubelet


@pytest.fixture
def kubelet(running: SystemdKubelet) -> Iterator[SystemdKubelet]:
    """With nothing switched, and nothing added to its unit."""
    assert running.state("cpu_manager_state")["policyName"] == "none"
    yield running
    running.drop_in("")


def shown(kubelet: SystemdKubelet) -> dict[str, str]:
    asked = "--property=ActiveState,Result,NRestarts,MainPID"
    lines = kubelet.ask("systemctl", "show", asked, UNIT).splitlines()
    return dict(line.split("=", 1) for line in lines)


def fails_with_the_policy(kubelet: SystemdKubelet) -> str:
    """A command that fails, and says why, as long as the configuration has the wanted policy."""
    return f"! grep -q restricted {shlex.quote(str(kubelet.config_file))} || {{ echo not on this machine; exit 1; }}"


def test_there_and_back_to_the_byte(kubelet: SystemdKubelet) -> None:
    before, begun = kubelet.bytes(), shown(kubelet)
    assert (begun["ActiveState"], begun["NRestarts"]) == ("active", "0")
    assert "Applied." in kubelet.numaware("apply", *SET, "--yes")
    assert kubelet.whole()
    assert kubelet.state("cpu_manager_state")["policyName"] == "static"
    after = shown(kubelet)
    assert after["NRestarts"] == "0"
    assert after["MainPID"] != begun["MainPID"]
    assert "Applied." in kubelet.numaware("rollback", "--yes")
    assert kubelet.whole()
    assert kubelet.bytes() == before


def test_a_unit_that_does_not_start_is_put_back(kubelet: SystemdKubelet) -> None:
    before = kubelet.bytes()
    kubelet.drop_in(f"[Service]\nExecStartPre=sh -c {shlex.quote(fails_with_the_policy(kubelet))}\n")
    told = kubelet.numaware("apply", *SET, "--yes", status=1)
    assert "the control process exited with error code" in told
    assert "it said: not on this machine" in told
    assert "Rolled back, everything is as it was" in told
    assert kubelet.whole()
    assert kubelet.bytes() == before


def test_a_kubelet_that_systemd_has_given_up_is_started_all_the_same_on_the_way_back(
    kubelet: SystemdKubelet,
) -> None:
    """Two starts a minute, and no more before somebody forgives it."""
    before = kubelet.bytes()
    again = shlex.quote(f"{fails_with_the_policy(kubelet)}; exec {kubelet.command}")
    kubelet.drop_in(f"[Unit]\nStartLimitBurst=2\n[Service]\nExecStart=\nExecStart=sh -c {again}\n")
    told = kubelet.numaware("apply", *SET, "--yes", status=1)
    assert "the kubelet does not stay up; it said:" in told
    assert "not on this machine" in told
    assert "Rolled back, everything is as it was" in told
    assert kubelet.whole()
    assert kubelet.bytes() == before
    log = kubelet.ask("journalctl", "--unit", UNIT, "--output", "cat")
    assert "Start request repeated too quickly" in log


def test_killed_half_way_it_is_brought_to_either_end(kubelet: SystemdKubelet) -> None:
    before = kubelet.bytes()
    kubelet.killed_at("write ", *SET, "--yes")
    assert shown(kubelet)["ActiveState"] == "inactive"
    kubelet.numaware("rollback", "--yes")
    assert kubelet.whole()
    assert kubelet.bytes() == before
    kubelet.killed_at("start kubelet", *SET, "--yes")
    kubelet.numaware("apply", "--resume", "--yes")
    assert kubelet.whole()
    assert kubelet.state("cpu_manager_state")["policyName"] == "static"
    kubelet.numaware("rollback", "--yes")
    assert kubelet.bytes() == before


def test_a_kubelet_that_was_killed_is_back_before_anybody_looks(kubelet: SystemdKubelet) -> None:
    kubelet.ask("systemctl", "kill", "--signal=KILL", UNIT)
    eventually(lambda: shown(kubelet)["NRestarts"] == "1" and kubelet.whole(), "it is back", 60)
    assert "Applied." in kubelet.numaware("apply", "--set=topologyManagerScope=pod", "--yes")
    assert "Applied." in kubelet.numaware("rollback", "--yes")


@pytest.mark.parametrize("usable", [True, False], ids=["unknown", "unusable"])
def test_a_unit_that_could_not_be_started_again_is_not_stopped(kubelet: SystemdKubelet, usable: bool) -> None:
    before, begun, unit = kubelet.bytes(), shown(kubelet), "kublet"
    if not usable:
        unit = "kubelet"
        kubelet.drop_in("[Service]\nExecStart=\n")
    told = kubelet.numaware("apply", *SET, "--yes", f"--unit={unit}.service", status=2)
    assert f"{unit}: systemd has no such unit that it could start" in told
    assert kubelet.bytes() == before
    assert shown(kubelet) == begun
