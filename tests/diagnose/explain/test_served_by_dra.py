"""What a verdict says of devices that come by DRA: nobody aligns them, and where they are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.explain.explanation import explain, to_builtins
from numaware.diagnose.explain.served_by_dra import DraPart
from numaware.diagnose.texts import say
from numaware.twin.node import Node
from numaware.workload.dra.known import DraObjects
from numaware.workload.dra.objects import (
    Allotted,
    ClaimSpec,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSlice,
)
from numaware.workload.pod import Pod
from numaware.workload.scheduling import PodClaim, Scheduling, ServedResources
from support.twin_nodes import GI, config, container, machine, pod, pod_of

NODE = Node.fresh(machine(2, 8), config("single-numa-node"))
SLICE = DeviceSlice("s", "d.io", "p", "n1", 1, (Device("d0", (0,)), Device("d1", (1,)), Device("d2")))
CLASS = DeviceClass("gpu", "d.io/gpu", ("d.io",))
SPEC = ClaimSpec((DeviceRequest("r", ("gpu",)),))
PREFIX = "not aligned by the kubelet: served by DRA. "


def claim(*devices: str, driver: str = "d.io", pool: str = "p") -> DeviceClaim:
    given = tuple(Allotted("r", driver, pool, device) for device in devices)
    return DeviceClaim("default", "c", SPEC, given or None)


def claiming(cpus: int = 4) -> Pod:
    scheduling = Scheduling(resource_claims=(PodClaim("gpu", "c"),))
    return replace(pod("a", cpus=cpus), scheduling=scheduling)


def part(wants: Pod, *given: object, node: Node = NODE, name: str = "n1") -> DraPart:
    (found,) = explain(name, node, wants, dra=DraObjects(given)).dra  # type: ignore[arg-type] # any of them
    return found


@pytest.mark.parametrize(
    ("devices", "aligned", "told"),
    [
        (
            ("d0",),
            True,
            "gpu has 1 device of d.io on NUMA 0, where the pod's CPUs and memory are too (NUMA 0): by luck",
        ),
        (("d1",), False, "gpu has 1 device of d.io on NUMA 1, and the pod's CPUs and memory are on NUMA 0"),
        (("d0", "d1"), False, "1 device of d.io on NUMA 0 and 1 device of d.io on NUMA 1, and"),
        # One that is elsewhere is enough; one of which nobody knows leaves it open.
        (("d1", "d2"), False, "1 device of d.io and 1 device of d.io on NUMA 1"),
        (("d0", "d2"), None, "its driver does not say on which NUMA node that is"),
        (("d9",), None, "its driver does not say"),
    ],
)
def test_allocated_devices_are_held_against_what_the_kubelet_gives(
    devices: tuple[str, ...], aligned: bool | None, told: str
) -> None:
    found = part(claiming(), SLICE, CLASS, claim(*devices))
    assert (found.state, found.aligned) == ("allocated", aligned)
    assert say(found.text).startswith(PREFIX)
    assert told in say(found.text)


def test_a_pod_that_owns_nothing_has_its_devices_alone() -> None:
    found = part(claiming(0), SLICE, claim("d1"))
    assert (found.aligned, found.text.key) == (None, "dra-alone")


def test_what_is_not_allocated_is_kube_schedulers_and_free_devices_are_told() -> None:
    other = replace(claim("d0"), name="other")
    found = part(claiming(), SLICE, CLASS, claim(), other)
    assert (found.state, found.aligned) == ("open", None)
    assert [one.device.name for one in found.devices] == ["d1", "d2"]
    assert (
        "kube-scheduler has not allocated gpu yet; free here: 1 device of d.io and 1 device of d.io on NUMA 1"
        in (say(found.text))
    )


def test_a_claim_that_nobody_has_shown_is_not_passed_over_in_silence() -> None:
    assert part(claiming()).state == "unseen"
    known = DraObjects()
    known.hidden = True
    (found,) = explain("n1", NODE, claiming(), dra=known).dra
    assert "this account may not list" in say(found.text)


def test_devices_of_another_node_bind_the_pod_to_it() -> None:
    found = part(claiming(), SLICE, claim("d0"), name="n2")
    assert (found.state, say(found.text)) == (
        "elsewhere",
        PREFIX + "gpu has its devices on n1, so the pod can run only there",
    )


def test_a_driver_of_cpus_and_the_static_cpu_manager_exclude_each_other() -> None:
    cpus = DeviceSlice("c", "dra.cpu", "p", "n1", 1, (Device("cpu0", (0,), (), True),))
    assert part(claiming(), cpus, claim("cpu0", driver="dra.cpu")).text.key == "dra-cpus"
    assert part(claiming(), SLICE, claim("d0")).text.key == "dra-aligned"
    shares = Node.fresh(machine(2, 8), replace(config(), cpu_policy="none"))
    assert part(claiming(), cpus, claim("cpu0", driver="dra.cpu"), node=shares).text.key != "dra-cpus"


def test_a_resource_that_dra_serves_gives_no_hint_and_is_not_missed() -> None:
    wants = pod_of("a", container("app", {"cpu": 4, "memory": GI, "d.io/gpu": 1}))
    refused = explain("n1", NODE, wants)
    assert (refused.admitted, refused.reason) == (False, "Unschedulable")
    served = explain("n1", NODE, wants, dra=DraObjects([SLICE, CLASS]))
    assert served.admitted
    assert all("d.io/gpu" not in (merge.device or {}) for merge in served.merges)
    assert (served.dra[0].resources, served.dra[0].state) == (("d.io/gpu",), "open")
    # Where a plugin offers it the plugin serves it, with a hint.
    offered = Node.fresh(machine(2, 8, devices={"d.io/gpu": {"g0": (1,)}}), config("single-numa-node"))
    by_plugin = explain("n1", offered, wants, dra=DraObjects([SLICE, CLASS]))
    assert by_plugin.dra == ()
    assert by_plugin.placements[0].devices == (("d.io/gpu", ((1, 1),)),)


def test_the_documented_shape_has_every_device() -> None:
    mapped = replace(pod("a", cpus=4), scheduling=Scheduling(served=ServedResources("c", ("d.io/gpu",))))
    given = DraObjects([SLICE, CLASS, claim("d1")])
    (told,) = to_builtins(explain("n1", NODE, mapped, dra=given))["dra"]
    text = told.pop("text")
    assert text.startswith(PREFIX)
    assert told == {
        "claim": "",
        "resources": ["d.io/gpu"],
        "state": "allocated",
        "devices": [{"driver": "d.io", "pool": "p", "device": "d1", "numaNode": 1, "pcieRoots": []}],
        "aligned": False,
    }
