from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.kube import pods
from numaware.kube.decoding import DecodeError, OwnerReference
from numaware.kube.pods import LivePod, decode
from numaware.workload.demand import demand
from numaware.workload.scheduling import PLACEMENT_OBSERVED, PLACEMENT_PREDICTED, Owner
from support.live_objects import pod_object, raw


def _decoded(*args: Any, **kwargs: Any) -> LivePod:
    return decode(raw(pod_object(*args, **kwargs)))


def test_a_pod_shows_what_scheduling_needs_and_nothing_else() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
        "lastTransitionTime": "2026-11-15T12:00:00Z",
    }
    live = _decoded(
        ownerReferences=[owner],
        labels={"app": "web"},
        annotations={"numaware.io/workload-class": "high", "other": "x", PLACEMENT_PREDICTED: "[]"},
        status={"conditions": [condition]},
    )
    assert (live.full_name, live.uid, live.version, live.node) == ("default/web-0", "uid-web-0", "17", "")
    assert live.created == datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert live.deletion is None
    assert (live.scheduler, live.phase) == ("numaware", "Pending")
    assert live.scheduled is not None
    assert live.scheduled.reason == "Unschedulable"
    assert live.owners == (OwnerReference("StatefulSet", "web", "u", "apps/v1", controller=True),)
    assert live.predicted == "[]"
    assert live.pod.scheduling.labels == (("app", "web"),)
    assert live.pod.scheduling.annotations == (("numaware.io/workload-class", "high"),)
    assert live.pod.scheduling.owners == (Owner("StatefulSet", "web", controller=True),)
    assert demand(live.pod).cpus == 2


def test_pods_of_one_template_are_read_once() -> None:
    pods._template.cache_clear()
    found = [_decoded(f"web-{number}", node=f"n{number}") for number in range(20)]
    assert pods._template.cache_info().misses == 1
    assert {live.pod.name for live in found} == {f"web-{number}" for number in range(20)}
    assert len({(live.pod.containers, live.pod.scheduling) for live in found}) == 1


def test_a_record_of_a_placement_makes_no_other_pod() -> None:
    before = _decoded()
    after = _decoded(node="n1", annotations={PLACEMENT_PREDICTED: "[]", PLACEMENT_OBSERVED: "[]"})
    assert before.pod == after.pod
    assert (after.node, after.predicted, after.observed) == ("n1", "[]", "[]")


def test_claims_of_ephemeral_volumes_are_named_after_the_pod() -> None:
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "conf", "configMap": {"name": "c"}},
    ]
    claims = [_decoded(name, spec={"volumes": volumes}).pod.scheduling.claims for name in ("a", "b")]
    assert claims == [("a-scratch", "data"), ("b-scratch", "data")]


@pytest.mark.parametrize(
    ("phase", "node", "holds"),
    [("Pending", None, False), ("Pending", "n1", True), ("Running", "n1", True), ("Succeeded", "n1", False)],
)
def test_a_bound_pod_holds_its_resources_until_it_has_ended(
    phase: str, node: str | None, holds: bool
) -> None:
    assert _decoded(node=node, status={"phase": phase}).holds is holds


def test_a_pod_that_is_being_deleted_still_holds_its_resources() -> None:
    live = _decoded(node="n1", deletionTimestamp="2026-11-15T12:00:30Z")
    assert live.deletion is not None
    assert live.holds


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        (
            {"containers": [{"name": "a", "resources": {"limits": {"cpu": "-1"}}}]},
            "greater than or equal to 0",
        ),
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "many"}}}]}, "not a quantity"),
        ({"containers": "none"}, "Expected `array | null`, got `str`"),
        ({"tolerations": [{"operator": "Exists", "value": "x"}]}, "there must be no value"),
        ({"affinity": 7}, "expected a mapping"),
    ],
)
def test_a_pod_that_cannot_be_read_says_which_one_it_is(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        _decoded(node="n1", spec=spec)
    assert caught.value.subject == "pod default/web-0"
    assert message in caught.value.message


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"metadata": {"name": 3}}', b"{" * 5000]
)
def test_what_is_no_pod_at_all_is_one_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


_FIELDS = (
    "name labels annotations ownerReferences containers initContainers volumes affinity tolerations nodeSelector "
    "topologySpreadConstraints priority conditions qosClass phase"
)


@given(st.sampled_from(("metadata", "spec", "status")), st.sampled_from(_FIELDS.split()), _JSON)
def test_odd_content_is_either_read_or_refused_with_one_error(part: str, field: str, value: object) -> None:
    document = pod_object()
    document[part] = {**document[part], field: value}
    problem = ""
    try:
        live = decode(raw(document))
        assert live.pod.uid == live.uid
    except DecodeError as error:
        problem = str(error)
    assert "\n" not in problem
