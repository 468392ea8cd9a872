"""The load through kube-scheduler that asks `numaware extender`: the same scheduler as alone, and no refusals."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Callable

import pytest

from e2e import load
from e2e.audit import audit, phases
from e2e.control_plane import ControlPlane
from e2e.fake_kubelet import FakeKubelet
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon, extender_config
from e2e.program import eventually
from numaware.kube import pods
from numaware.schedule.node_facts import pod_requests
from numaware.workload.pod import Pod

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
# Before that it is not worth asking every kubelet about every pod that waits.
NEARLY_ALL = load.PODS * 97 // 100


def without_room(plane: ControlPlane, fakes: FakeNodes) -> list[str]:
    """Pods that wait and that no kubelet would take any more.

    kube-scheduler looks at half of the nodes and spreads pods over those that we find equally good, so the last nodes with
    four GPUs beside each other can be used up by smaller pods. What must hold is that nobody waits who could run.
    """
    if len(fakes.admissions()) < NEARLY_ALL:
        return []
    waiting = [one for one in plane.api().list_all(PODS) if not one["spec"].get("nodeName")]
    kubelets = [fakes.kubelet(spec.name) for spec in load.nodes()]
    hopeless: dict[str, bool] = {}
    for one in waiting:
        pod = pods.decode(json.dumps(one).encode()).pod
        shape = one["metadata"]["labels"]["shape"]
        if shape not in hopeless:
            hopeless[shape] = not any(would_take(kubelet, pod) for kubelet in kubelets)
    return [one["metadata"]["name"] for one in waiting if hopeless[one["metadata"]["labels"]["shape"]]]


def would_take(kubelet: FakeKubelet, pod: Pod) -> bool:
    known = all(name in kubelet.allocatable for name, _ in pod_requests(pod))
    return known and copy.copy(kubelet).admit(pod).admitted


def test_no_kubelet_refuses_what_kube_scheduler_sends_it_once_it_asks(
    plane: ControlPlane, record_property: Callable[[str, object], None]
) -> None:
    with FakeNodes(plane, load.nodes()) as fakes, Daemon(plane, "extender") as extender:
        extender.wait_ready()
        scheduler = plane.start_scheduler(extender_config(extender))
        plane.wait_ready("scheduler")
        began = time.monotonic()
        plane.api().create_all(PODS, load.pods())
        eventually(
            lambda: len(fakes.admissions()) + len(without_room(plane, fakes)) == load.PODS,
            "every pod that some kubelet would take has been sent to a node",
            1200,
            extender,
        )
        took = time.monotonic() - began
        spent = f"{extender.cpu_seconds():.0f} CPU seconds and kube-scheduler's {scheduler.cpu_seconds():.0f}"
        record_property(
            "measured",
            f"kube-scheduler + numaware extender: {load.PODS} pods, refused {len(fakes.refusals())},"
            f" no node left for {len(without_room(plane, fakes))}, {took:.0f} s, {spent}",
        )
        assert fakes.refusals() == []
        assert audit(plane, fakes) == []
        waiting = without_room(plane, fakes)
        assert phases(plane) == Counter({"Running": load.PODS - len(waiting), "Pending": len(waiting)})
        judged = {name for name, value in extender.metrics().items() if "predictions_total" in name and value}
        assert judged == {'numaware_predictions_total{outcome="match"}'}
