"""kube-scheduler started from the file that `numaware extender config` prints, as it is: no kubelet refuses what it sends.

One round of pods that all arrive at once; `NUMAWARE_ROUNDS=10` for more (`make extender-rounds`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import load
from e2e.audit import audit
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon, printed_config
from e2e.program import eventually
from e2e.trouble import PODS, clear

pytestmark = pytest.mark.e2e

ROUNDS = int(os.environ.get("NUMAWARE_ROUNDS", "1"))
# As full as the whole load is.
_NODES, _PODS = 52, 460


def test_pods_that_arrive_at_once_are_never_refused(
    plane: ControlPlane, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    path = tmp_path / "kube-scheduler.yaml"
    told = []
    with Daemon(plane, "extender") as extender:
        path.write_text(printed_config(extender, "--kubeconfig", str(plane.kubeconfig("kube-scheduler"))))
        plane.start_scheduler_from(path)
        plane.wait_ready("scheduler")
        extender.wait_ready()
        for number in range(ROUNDS):
            with FakeNodes(plane, load.nodes(_NODES)) as fakes:
                eventually(
                    lambda: extender.metrics().get('numaware_nodes{knowledge="complete"}') == _NODES,
                    "the extender knows all nodes",
                    alive=extender,
                )
                began = time.monotonic()
                pods = load.pods(_PODS, seed=number + 1, scheduler="default-scheduler")
                plane.api().create_all(PODS, pods)
                settled(fakes)
                told.append(f"{len(fakes.running())} of {_PODS} in {time.monotonic() - began:.0f} s")
                assert fakes.refusals() == [], f"round {number + 1}"
                assert audit(plane, fakes) == []
            clear(plane)
        plane.stop("scheduler")
    record_property("measured", f"kube-scheduler from the printed file: {', '.join(told)}, none refused")


def settled(fakes: FakeNodes) -> None:
    """Until all pods run but the last few, for which kube-scheduler may have left no room by how it spreads the others.

    It asks about those again every few seconds, so that nothing more comes means that nobody would take them.
    """
    quiet = time.monotonic()
    most = -1
    while len(fakes.running()) < _PODS:
        running = len(fakes.running())
        if running > most:
            most, quiet = running, time.monotonic()
        enough = running >= _PODS * 97 // 100
        assert time.monotonic() - quiet < 60, f"{running} pods run, and no more come"
        if enough and time.monotonic() - quiet > 8:
            return
        time.sleep(0.2)
