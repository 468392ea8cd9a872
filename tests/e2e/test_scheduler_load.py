"""The load through `numaware scheduler`: every pod runs where it was foreseen, and no kubelet refuses one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e import load
from e2e.audit import audit, phases
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon
from e2e.program import eventually

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"


def test_no_kubelet_refuses_what_numaware_sends_it(
    plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    with FakeNodes(plane, load.nodes()) as fakes, Daemon(plane, "scheduler") as scheduler:
        scheduler.wait_ready()
        began = time.monotonic()
        plane.api().create_all(PODS, load.pods(scheduler="numaware"))
        eventually(
            lambda: len(fakes.admissions()) == load.PODS, "every pod has been sent to a node", 900, scheduler
        )
        took = time.monotonic() - began
        assert fakes.refusals() == []
        assert audit(plane, fakes) == []
        assert phases(plane) == {"Running": load.PODS}
        outcomes = {
            name: value
            for name, value in scheduler.metrics().items()
            if name.startswith("numaware_predictions_total") and value
        }
        record_property(
            "measured",
            f"numaware scheduler: {load.PODS} pods, refused {{}}, {took:.0f} s,"
            f" {scheduler.cpu_seconds():.0f} CPU seconds, predictions {outcomes}",
        )
        assert outcomes.keys() == {'numaware_predictions_total{outcome="match"}'}
