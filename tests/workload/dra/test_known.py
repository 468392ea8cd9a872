"""What a cluster's slices, claims and classes come to."""

from __future__ import annotations

from msgspec.structs import replace

from numaware.workload.dra.known import Ask, DraObjects
from numaware.workload.dra.objects import (
    Allotted,
    ClaimSpec,
    ClaimTemplate,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSlice,
)
from numaware.workload.pod import Pod
from numaware.workload.scheduling import PodClaim, Scheduling, ServedResources
from support.twin_nodes import container, pod, pod_of

SLICE = DeviceSlice("s", "d.io", "n1", "n1", 1, (Device("d0", (0,)), Device("d1", (1,))))
CLASS = DeviceClass("gpu", "d.io/gpu", ("d.io",))
GIVEN = Allotted("r", "d.io", "n1", "d1")
CLAIM = DeviceClaim("default", "c", ClaimSpec((DeviceRequest("r", ("gpu",)),)), (GIVEN,), ("u1",))


def claiming(**claim: str) -> Pod:
    scheduling = Scheduling(resource_claims=(PodClaim("gpu", **claim),))
    return replace(pod("a", cpus=1), scheduling=scheduling)


def test_devices_of_a_node_are_known_with_the_claims_that_have_them() -> None:
    known = DraObjects([SLICE, CLAIM])
    assert [(one.device.name, one.claims) for one in known.devices_on("n1")] == [
        ("d0", ()),
        ("d1", (("default", "c"),)),
    ]
    assert (known.nodes, known.node_of(GIVEN.key), known.devices_on("n2")) == (("n1",), "n1", [])
    known.drop(CLAIM)
    assert [one.claims for one in known.devices_on("n1")] == [(), ()]


def test_of_a_pool_the_last_generation_counts() -> None:
    newer = DeviceSlice("t", "d.io", "n1", "n1", 2, (Device("d7"),))
    known = DraObjects([SLICE, newer])
    assert [one.device.name for one in known.devices_on("n1")] == ["d7"]
    known.drop(newer)
    assert len(known.devices_on("n1")) == 2


def test_an_object_that_comes_again_replaces_what_it_said_before() -> None:
    known = DraObjects([SLICE, CLASS, CLAIM])
    known.put(replace(SLICE, node="n2"))
    known.put(replace(CLASS, resource="other.io/gpu"))
    known.put(replace(CLAIM, allotted=None))
    assert (known.nodes, known.serves("d.io/gpu"), known.serves("other.io/gpu")) == (("n2",), (), ("gpu",))
    assert all(not one.claims for one in known.devices_on("n2"))


def test_resources_are_served_by_classes_that_are_there() -> None:
    names = ("d.io/gpu", "deviceclass.resource.kubernetes.io/gpu", "e.io/x")
    wants = pod_of("a", container("app", dict.fromkeys(names, 1)))
    assert DraObjects().served(wants) == ()
    assert DraObjects([CLASS]).served(wants) == ("d.io/gpu", "deviceclass.resource.kubernetes.io/gpu")


def test_a_pod_asks_for_its_claims_and_for_resources_that_turn_out_to_be_devices() -> None:
    known = DraObjects([SLICE, CLASS, CLAIM])
    assert known.asks_of(claiming(claim="c")) == (Ask("gpu", (), ("gpu",), CLAIM.spec, (GIVEN,)),)
    assert known.asks_of(claiming(claim="gone")) == (Ask("gpu", (), (), None, None),)
    template = ClaimTemplate("default", "t", CLAIM.spec)
    known.put(template)
    assert known.asks_of(claiming(template="t")) == (Ask("gpu", (), ("gpu",), CLAIM.spec, None),)
    mapped = replace(pod("a"), scheduling=Scheduling(served=ServedResources("c", ("d.io/gpu",))))
    assert known.asks_of(mapped, ("d.io/gpu",)) == (Ask("", ("d.io/gpu",), ("gpu",), CLAIM.spec, (GIVEN,)),)
    assert known.asks_of(pod("a"), ("d.io/gpu",)) == (Ask("", ("d.io/gpu",), ("gpu",), None, None),)
