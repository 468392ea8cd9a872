"""Slices, claims, templates and classes of `resource.k8s.io`, as values: all of them that says where a device is and who has it.

`reading.py` makes them of objects as they are written, `known.py` keeps them and answers.
"""

from __future__ import annotations

import msgspec

NUMA_NODE = "resource.kubernetes.io/numaNode"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
# What aligns devices with each other: a claim with one of these as `matchAttribute`.
ALIGNING = (NUMA_NODE, PCIE_ROOT)
# Every class is an extended resource of this name, too.
CLASS_AS_RESOURCE = "deviceclass.resource.kubernetes.io/"
# Drivers that hand out CPUs, which is what the CPU Manager's static policy does.
CPU_DRIVERS = frozenset({"dra.cpu"})

# (driver, pool, device)
DeviceKey = tuple[str, str, str]
# (namespace, name)
ClaimKey = tuple[str, str]


class Device(msgspec.Struct, frozen=True):
    """One device of a slice. `numa` are the NUMA nodes that it says it is near, the one it is on first; none if it does not say.

    One that is `shared` may be allocated many times.
    """

    name: str
    numa: tuple[int, ...] = ()
    pcie_roots: tuple[str, ...] = ()
    shared: bool = False

    @property
    def home(self) -> int | None:
        """The NUMA node that it is on."""
        return self.numa[0] if self.numa else None


class DeviceSlice(msgspec.Struct, frozen=True):
    """A ResourceSlice: devices of one driver and pool. `node` is empty where more than one node can reach them."""

    name: str
    driver: str
    pool: str
    node: str = ""
    generation: int = 0
    devices: tuple[Device, ...] = ()


class DeviceClass(msgspec.Struct, frozen=True):
    """A DeviceClass. `resource` is the extended resource that it serves; `drivers` are those its selectors name, as far as known."""

    name: str
    resource: str = ""
    drivers: tuple[str, ...] = ()


class DeviceRequest(msgspec.Struct, frozen=True):
    """One request of a claim: devices of a class, or of the first of several that can be had. `count` is None for all there are."""

    name: str
    classes: tuple[str, ...] = ()
    count: int | None = 1


class Constraint(msgspec.Struct, frozen=True):
    """Devices of these requests, or of all where none is named, have to have the same value of an attribute."""

    attribute: str
    requests: tuple[str, ...] = ()

    def covers(self, request: str) -> bool:
        """Whether the request is meant, or one of the alternatives within it."""
        return not self.requests or any(one.partition("/")[0] == request for one in self.requests)


class ClaimSpec(msgspec.Struct, frozen=True):
    """What is claimed."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()


class Allotted(msgspec.Struct, frozen=True):
    """A device that a claim was given for one of its requests."""

    request: str
    driver: str
    pool: str
    device: str

    @property
    def key(self) -> DeviceKey:
        return self.driver, self.pool, self.device


class DeviceClaim(msgspec.Struct, frozen=True):
    """A ResourceClaim. `allotted` is None until it is allocated; `reserved` are the uids of the pods that may use it."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()
    allotted: tuple[Allotted, ...] | None = None
    reserved: tuple[str, ...] = ()

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name


class ClaimTemplate(msgspec.Struct, frozen=True):
    """A ResourceClaimTemplate: a claim is made by it for every pod."""

    namespace: str
    name: str
    spec: ClaimSpec = ClaimSpec()

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name


DraObject = DeviceSlice | DeviceClass | DeviceClaim | ClaimTemplate
