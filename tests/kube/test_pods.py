from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.kube import pods
from numaware.kube.decoding import DecodeError, OwnerReference
from numaware.kube.pods import LivePod, decode
from numaware.schedule.node_facts import pod_requests
from numaware.workload.demand import demand
from numaware.workload.disks import Disk
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
        status={"conditions": [condition], "nominatedNodeName": "n3"},
    )
    assert (live.full_name, live.uid, live.version, live.node) == ("default/web-0", "uid-web-0", "17", "")
    assert live.created == datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert live.deletion is None
    assert (live.scheduler, live.phase) == ("numaware", "Pending")
    assert live.scheduled is not None
    assert live.scheduled.reason == "Unschedulable"
    assert live.owners == (OwnerReference("StatefulSet", "web", "u", "apps/v1", controller=True),)
    assert live.predicted == "[]"
    assert live.nominated == "n3"
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
    found = [_decoded(name, spec={"volumes": volumes}).pod.scheduling for name in ("a", "b")]
    assert [one.claims for one in found] == [("data", "a-scratch"), ("data", "b-scratch")]
    assert [one.ephemeral for one in found] == [("a-scratch",), ("b-scratch",)]


def test_disks_that_a_pod_names_itself_are_read() -> None:
    volumes = [
        {"name": "a", "gcePersistentDisk": {"pdName": "disk", "readOnly": True}},
        {"name": "b", "awsElasticBlockStore": {"volumeID": "vol-1"}},
        {"name": "c", "rbd": {"monitors": ["m1", "m2"], "image": "i", "pool": "p"}},
        {"name": "d", "iscsi": {"iqn": "iqn.2001:x", "targetPortal": "t", "lun": 0}},
        {"name": "e", "emptyDir": {}},
    ]
    assert _decoded(spec={"volumes": volumes}).pod.scheduling.disks == (
        Disk("gce-pd", "disk", read_only=True),
        Disk("aws-ebs", "vol-1"),
        Disk("rbd", "p/i", monitors=("m1", "m2")),
        Disk("iscsi", "iqn.2001:x"),
    )


def test_a_group_and_the_features_that_a_node_has_to_declare_are_read() -> None:
    spec: dict[str, Any] = {
        "hostNetwork": True,
        "hostUsers": False,
        "schedulingGroup": {"podGroupName": "gang"},
    }
    found = _decoded(spec=spec).pod.scheduling
    assert (found.group, found.node.features) == ("gang", ("UserNamespacesHostNetworkSupport",))
    spec = {
        "workloadRef": {"name": "older", "podGroup": "g"},
        "containers": [
            {
                "name": "app",
                "restartPolicyRules": [{"action": "RestartAllContainers"}],
                "volumeMounts": [{"name": "x"}, {"name": "y", "bindMountOptions": ["noexec"]}],
            }
        ],
    }
    found = _decoded(spec=spec).pod.scheduling
    assert found.group == "older"
    assert found.node.features == ("RestartAllContainersOnContainerExits", "VolumeBindMountOptions")


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
        ({"containers": "none"}, "spec.containers: Expected `array | null`, got `str`"),
        ({"containers": ["none"]}, "spec.containers[0]: Expected `object`, got `str`"),
        ({"tolerations": [{"key": "k", "operator": "Near", "value": "3"}]}, 'Unsupported value: "Near"'),
        ({"tolerations": [{"operator": "Exists", "value": "x"}]}, "there must be no value"),
        ({"affinity": 7}, "expected a mapping"),
        ({"priority": "high"}, "spec.priority: Expected `int | null`, got `str`"),
    ],
)
def test_a_pod_that_cannot_be_read_in_full_is_there_and_says_what_is_wrong(
    spec: dict[str, Any], message: str
) -> None:
    live = _decoded(node="n1", spec=spec)
    assert (live.full_name, live.uid, live.node, live.holds) == ("default/web-0", "uid-web-0", "n1", True)
    assert message in live.unread
    assert all(amount >= 0 for _, amount in pod_requests(live.pod))


def test_a_pod_with_a_value_of_a_later_release_counts_by_its_requests() -> None:
    odd = _decoded(node="n1", spec={"tolerations": [{"key": "k", "operator": "Near", "value": "3"}]})
    assert dict(pod_requests(odd.pod)) == {"cpu": 2000, "memory": 1 << 30, "pods": 1}
    assert demand(odd.pod).cpus == 2


def test_what_is_left_of_a_container_with_odd_fields_counts() -> None:
    named = {"name": 7, "resources": {"requests": {"cpu": "3", "memory": "lots"}}}
    live = _decoded(node="n1", spec={"containers": [named, {"name": "b", "resources": 4}]})
    assert live.unread
    assert dict(pod_requests(live.pod))["cpu"] == 3000


def test_only_the_error_is_remembered_where_all_else_can_be_read() -> None:
    live = _decoded(node="n1", labels={"app": 3}, creationTimestamp="yesterday")
    assert live.unread == "metadata.creationTimestamp: Invalid RFC3339 encoded datetime"
    assert (live.uid, live.version, demand(live.pod).cpus) == ("uid-web-0", "17", 2)


# Resizes


def _status(*, promised: str | None = None, actual: str | None = None, reason: str = "") -> dict[str, Any]:
    told: dict[str, Any] = {"name": "app"}
    if promised is not None:
        told["allocatedResources"] = {"cpu": promised, "memory": "1Gi"}
    if actual is not None:
        amounts = {"cpu": actual, "memory": "1Gi"}
        told["resources"] = {"limits": amounts, "requests": amounts}
    pending = {"type": "PodResizePending", "status": "True", "reason": reason}
    return {"containerStatuses": [told], "conditions": [pending] if reason else []}


@pytest.mark.parametrize(
    ("asked", "status", "counted", "held"),
    [
        # Being made smaller: what was promised, and what still runs, are not free yet.
        ("1", {"promised": "10", "actual": "10"}, 10_000, 10),
        ("1", {"promised": "1", "actual": "10"}, 10_000, 1),
        ("1", {"actual": "10"}, 10_000, 10),
        # Being made larger: it counts, unless the kubelet has said that it will never be given.
        ("10", {"promised": "4", "actual": "4"}, 10_000, 4),
        ("10", {"promised": "4", "actual": "4", "reason": "Deferred"}, 10_000, 4),
        ("10", {"promised": "4", "actual": "4", "reason": "Infeasible"}, 4000, 4),
        # Over, or not begun.
        ("4", {"promised": "4", "actual": "4"}, 4000, 4),
        ("4", {}, 4000, 4),
    ],
)
def test_the_largest_of_asked_promised_and_running_counts_while_a_pod_is_resized(
    asked: str, status: dict[str, str], counted: int, held: int
) -> None:
    live = _decoded(cpu=asked, node="n1", status=_status(**status))
    assert not live.unread
    assert dict(pod_requests(live.pod))["cpu"] == counted
    assert demand(live.pod).cpus == held


def test_a_pod_whose_status_repeats_its_spec_is_the_pod_of_its_template() -> None:
    before, after = _decoded(), _decoded(node="n1", status=_status(promised="2", actual="2"))
    assert before.pod == after.pod


def test_an_init_container_that_ends_has_no_standing() -> None:
    init = {"name": "init", "resources": {"requests": {"cpu": "1"}}}
    told = [{"name": "init", "allocatedResources": {"cpu": "30"}}]
    live = _decoded(node="n1", spec={"initContainers": [init]}, status={"initContainerStatuses": told})
    assert dict(pod_requests(live.pod))["cpu"] == 2000
    live = _decoded(
        node="n1",
        spec={"initContainers": [{**init, "restartPolicy": "Always"}]},
        status={"initContainerStatuses": told},
    )
    assert dict(pod_requests(live.pod))["cpu"] == 32_000


def test_a_resize_of_the_pod_as_a_whole_counts() -> None:
    own = {"requests": {"cpu": "2"}}
    live = _decoded(node="n1", spec={"resources": own}, status={"allocatedResources": {"cpu": "6"}})
    assert dict(pod_requests(live.pod))["cpu"] == 6000


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
    "topologySpreadConstraints priority conditions qosClass phase overhead containerStatuses resources allocatedResources"
)


@given(st.sampled_from(("metadata", "spec", "status")), st.sampled_from(_FIELDS.split()), _JSON)
def test_odd_content_never_makes_a_pod_disappear(part: str, field: str, value: object) -> None:
    document = pod_object(node="n1")
    document[part] = {**document[part], field: value}
    if (part, field) == ("metadata", "name") and not isinstance(value, str):
        with pytest.raises(DecodeError):
            decode(raw(document))
        return
    live = decode(raw(document))
    assert (live.uid, live.node, live.pod.uid) == ("uid-web-0", "n1", "uid-web-0")
    assert "\n" not in live.unread
    counted = dict(pod_requests(live.pod))
    assert all(amount >= 0 for amount in counted.values())
    if (part, field) not in {("spec", "containers"), ("spec", "initContainers"), ("spec", "overhead")}:
        assert counted["cpu"] >= 2000
    assert demand(live.pod)


_PLACES = st.sampled_from(
    [
        "tolerations",
        "affinity",
        "nodeSelector",
        "topologySpreadConstraints",
        "schedulingGates",
        "resourceClaims",
        "volumes",
    ]
)


@given(
    _PLACES, _JSON, st.sampled_from(("operator", "effect", "whenUnsatisfiable", "nodeTaintsPolicy", "new"))
)
def test_a_word_of_a_later_release_is_read_as_unread_and_not_as_nothing(
    place: str, value: object, key: str
) -> None:
    """What a rule says is not known, so no node is chosen by the rest of it; what the pod holds is."""
    live = decode(raw(pod_object(node="n1", spec={place: [{"key": "a", key: value}]})))
    assert dict(pod_requests(live.pod))["cpu"] == 2000
    assert demand(live.pod).cpus == 2
