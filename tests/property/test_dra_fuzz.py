"""Whatever an object of resource.k8s.io holds: values or one clear error, from a file and from the wire, and both agree."""

from __future__ import annotations

import contextlib
import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.kube import dra
from numaware.kube.decoding import DecodeError
from numaware.workload.dra.known import DraObjects
from numaware.workload.dra.objects import NUMA_NODE, PCIE_ROOT, DeviceSlice
from numaware.workload.dra.reading import read_file

KINDS = {
    "ResourceSlice": dra.decode_slice,
    "DeviceClass": dra.decode_class,
    "ResourceClaim": dra.decode_claim,
}
_WORDS = [
    "spec",
    "status",
    "metadata",
    "name",
    "namespace",
    "driver",
    "nodeName",
    "pool",
    "generation",
    "devices",
    "attributes",
    "basic",
    "int",
    "ints",
    "string",
    "strings",
    "requests",
    "exactly",
    "firstAvailable",
    "deviceClassName",
    "allocationMode",
    "count",
    "constraints",
    "matchAttribute",
    "selectors",
    "cel",
    "expression",
    "extendedResourceName",
    "allocation",
    "results",
    "request",
    "device",
    "reservedFor",
    "uid",
]
_NAMES = st.sampled_from([*_WORDS, NUMA_NODE, PCIE_ROOT, "numaNode"])
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["d.io", "All", "device.driver == 'd.io'", "a/b", ""])
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=30,
)
DEVICES = st.fixed_dictionaries(
    {"name": st.sampled_from(["d0", "d1"])},
    optional={
        "attributes": st.dictionaries(_NAMES, VALUES, max_size=3),
        "basic": st.fixed_dictionaries({"attributes": st.dictionaries(_NAMES, VALUES, max_size=3)}) | VALUES,
    },
)
SLICES = st.fixed_dictionaries(
    {"driver": st.just("d.io"), "devices": st.lists(DEVICES, max_size=3)},
    optional={"nodeName": _LEAVES, "pool": VALUES},
)


@given(st.sampled_from(sorted(KINDS)), VALUES | SLICES, VALUES)
def test_a_damaged_object_is_values_or_one_error_wherever_it_comes_from(
    kind: str, spec: object, status: object
) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "a"}}
    text = json.dumps({**body, "spec": spec, "status": status}).encode()
    read = told = None
    with contextlib.suppress(DecodeError):
        told = KINDS[kind](text)
    with contextlib.suppress(InputError):
        (read,) = read_file(text, "dra.json")
    assert read == told
    if read is not None:
        known = DraObjects([read])
        if isinstance(read, DeviceSlice) and read.node:
            assert {one.device.name for one in known.devices_on(read.node)} == {
                one.name for one in read.devices
            }
        known.drop(read)
        assert known.nodes == ()
        assert not known.claims
        assert msgspec.json.encode(read)
