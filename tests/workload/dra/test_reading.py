"""Slices, claims and classes as three releases of the API write them."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.workload.dra.objects import (
    NUMA_NODE,
    Allotted,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSlice,
    DraObject,
)
from numaware.workload.dra.reading import read_file


def read(kind: str, spec: str, version: str = "v1", more: str = "") -> DraObject:
    text = f"""apiVersion: resource.k8s.io/{version}
kind: {kind}
metadata: {{name: a, namespace: ml}}
spec: {spec}
{more}"""
    (found,) = read_file(text.encode(), "dra.yaml")
    return found


def devices(attributes: str, version: str = "v1") -> tuple[Device, ...]:
    body = f"attributes: {attributes}" if version != "v1beta1" else f"basic: {{attributes: {attributes}}}"
    spec = (
        f"{{driver: d.io, nodeName: n1, pool: {{name: p, generation: 3}}, devices: [{{name: d0, {body}}}]}}"
    )
    found = read("ResourceSlice", spec, version)
    assert isinstance(found, DeviceSlice)
    assert (found.driver, found.pool, found.node, found.generation) == ("d.io", "p", "n1", 3)
    return found.devices


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_device_is_where_its_driver_says_in_every_version(version: str) -> None:
    attributes = f"{{{NUMA_NODE}: {{int: 1}}, resource.kubernetes.io/pcieRoot: {{string: 'pci0000:40'}}, x: {{bool: true}}}}"
    assert devices(attributes, version) == (Device("d0", (1,), ("pci0000:40",)),)


@pytest.mark.parametrize(
    ("attributes", "numa"),
    [
        (f"{{{NUMA_NODE}: {{ints: [5, 4, 6, 5]}}}}", (5, 4, 6)),
        # Of drivers from before the standard; the kernel's -1 is no node.
        ("{numaNode: {int: 0}}", (0,)),
        ("{d.io/numaNodeID: {int: 2}}", (2,)),
        (f"{{{NUMA_NODE}: {{int: -1}}}}", ()),
        ("{other.io/numaNode: {int: 2}}", ()),
        ("{}", ()),
    ],
)
def test_lists_old_names_and_silence_are_understood(attributes: str, numa: tuple[int, ...]) -> None:
    (device,) = devices(attributes)
    assert device.numa == numa
    assert device.home == (numa[0] if numa else None)


@pytest.mark.parametrize(
    ("version", "request_", "read_as"),
    [
        ("v1", "{name: r, exactly: {deviceClassName: gpu, count: 2}}", DeviceRequest("r", ("gpu",), 2)),
        ("v1beta1", "{name: r, deviceClassName: gpu}", DeviceRequest("r", ("gpu",))),
        (
            "v1",
            "{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}",
            DeviceRequest("r", ("gpu",), None),
        ),
        (
            "v1beta2",
            "{name: r, firstAvailable: [{name: a, deviceClassName: big}, {name: b, deviceClassName: small, count: 2}]}",
            DeviceRequest("r", ("big", "small"), 2),
        ),
    ],
)
def test_requests_are_read_in_every_version(version: str, request_: str, read_as: DeviceRequest) -> None:
    spec = f"{{devices: {{requests: [{request_}], constraints: [{{matchAttribute: {NUMA_NODE}, requests: [r]}}]}}}}"
    claimed = ClaimSpec((read_as,), (Constraint(NUMA_NODE, ("r",)),))
    assert read("ResourceClaim", spec, version) == DeviceClaim("ml", "a", claimed)
    assert read("ResourceClaimTemplate", f"{{spec: {spec}}}", version) == ClaimTemplate("ml", "a", claimed)


def test_what_was_allocated_and_for_whom_is_in_the_status() -> None:
    status = """status:
  allocation: {devices: {results: [{request: r, driver: d.io, pool: p, device: d0}]}}
  reservedFor: [{resource: pods, name: x, uid: u1}]
"""
    found = read("ResourceClaim", "{}", more=status)
    assert found == DeviceClaim("ml", "a", ClaimSpec(), (Allotted("r", "d.io", "p", "d0"),), ("u1",))


def test_a_class_tells_the_resource_it_serves_and_the_drivers_it_names() -> None:
    expression = """device.driver == 'd.io' && device.attributes['d.io'].model == 'x'"""
    spec = f'{{extendedResourceName: d.io/gpu, selectors: [{{cel: {{expression: "{expression}"}}}}]}}'
    assert read("DeviceClass", spec) == DeviceClass("a", "d.io/gpu", ("d.io",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"kind: Pod\nmetadata: {name: a}\n", "holds no ResourceSlice"),
        (b"kind: ResourceSlice\nmetadata: {name: a}\n", "spec"),
        (b"kind: ResourceClaim\nmetadata: {}\nspec: {}\n", "metadata.name is missing"),
        (b"kind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: 7}}\n", "requests"),
    ],
)
def test_what_is_no_such_object_is_one_clear_error(text: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_file(text, "dra.yaml")
