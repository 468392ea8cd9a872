"""kube-scheduler alone on the load: how many pods its choices cost, where it knows of no NUMA nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from e2e import load
from e2e.audit import audit, phases
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.program import eventually

pytestmark = pytest.mark.e2e


def test_kubelets_refuse_pods_that_kube_scheduler_sends_them(
    plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    plane.start_scheduler()
    with FakeNodes(plane, load.nodes(), agents=False) as fakes:
        plane.api().create_all("/api/v1/namespaces/default/pods", load.pods())
        eventually(lambda: len(fakes.admissions()) == load.PODS, "every pod has been sent to a node", 600)
        assert audit(plane, fakes) == []
        refused = Counter(refusal.reason for refusal in fakes.refusals())
        record_property("measured", f"kube-scheduler alone: {load.PODS} pods, refused {dict(refused)}")
        assert set(refused) == {"TopologyAffinityError"}
        assert phases(plane) == {"Failed": refused.total(), "Running": load.PODS - refused.total()}
