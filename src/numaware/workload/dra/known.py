"""What is known of DRA in a cluster, or of the files somebody gave: which devices a node has, who holds them, what a pod gets.

Fed object by object. Whether a device matches a class or a claim is never worked out here: that is an expression (CEL), and
kube-scheduler's to judge. What is said of devices is what their drivers say, and of claims what was allocated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from numaware.workload.dra.objects import (
    CLASS_AS_RESOURCE,
    CPU_DRIVERS,
    Allotted,
    ClaimKey,
    ClaimSpec,
    ClaimTemplate,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceKey,
    DeviceSlice,
    DraObject,
)
from numaware.workload.pod import Pod


class Offered(NamedTuple):
    """A device that a driver offers on a node, and the claims that have it."""

    driver: str
    pool: str
    device: Device
    claims: tuple[ClaimKey, ...] = ()

    @property
    def key(self) -> DeviceKey:
        return self.driver, self.pool, self.device.name


class Ask(NamedTuple):
    """One thing that a pod has by DRA: a claim, or extended resources that are such devices.

    `allotted` is None as long as it is not allocated. `classes` are those it may be served from, `spec` is None where nobody
    has shown the claim or its template.
    """

    name: str
    resources: tuple[str, ...]
    classes: tuple[str, ...]
    spec: ClaimSpec | None
    allotted: tuple[Allotted, ...] | None


class DraObjects:
    """Objects by name, and what follows from them; `hidden` is whether there may be others that this account may not read."""

    def __init__(self, given: Iterable[DraObject] = ()) -> None:
        self.hidden = False
        # Another after every change.
        self.serial = 0
        self.claims: dict[ClaimKey, DeviceClaim] = {}
        self.classes: dict[str, DeviceClass] = {}
        self._templates: dict[ClaimKey, ClaimTemplate] = {}
        self._slices: dict[str, DeviceSlice] = {}
        self._of_node: dict[str, set[str]] = {}
        self._holders: dict[DeviceKey, set[ClaimKey]] = {}
        # Extended resource -> the classes that serve it.
        self._serving: dict[str, set[str]] = {}
        for one in given:
            self.put(one)

    # News

    def put(self, one: DraObject) -> None:
        """Something is new, or other."""
        self.drop(one)
        match one:
            case DeviceSlice():
                self._slices[one.name] = one
                self._of_node.setdefault(one.node, set()).add(one.name)
            case DeviceClass():
                self.classes[one.name] = one
                if one.resource:
                    self._serving.setdefault(one.resource, set()).add(one.name)
            case DeviceClaim():
                self.claims[one.key] = one
                for given in one.allotted or ():
                    self._holders.setdefault(given.key, set()).add(one.key)
            case ClaimTemplate():
                self._templates[one.key] = one

    def drop(self, one: DraObject) -> None:
        """Something is gone."""
        self.serial += 1
        match one:
            case DeviceSlice():
                before = self._slices.pop(one.name, None)
                if before is not None:
                    _discard(self._of_node, before.node, before.name)
            case DeviceClass():
                known = self.classes.pop(one.name, None)
                if known is not None:
                    _discard(self._serving, known.resource, known.name)
            case DeviceClaim():
                claim = self.claims.pop(one.key, None)
                for given in (claim.allotted if claim else None) or ():
                    _discard(self._holders, given.key, one.key)
            case ClaimTemplate():
                self._templates.pop(one.key, None)

    # Devices

    def devices_on(self, node: str) -> list[Offered]:
        """The devices that drivers offer on the node alone, by driver, pool and name; a pool counts as it was last published."""
        slices = [self._slices[name] for name in self._of_node.get(node, ())]
        newest: dict[tuple[str, str], int] = {}
        for one in slices:
            pool = one.driver, one.pool
            newest[pool] = max(one.generation, newest.get(pool, one.generation))
        found = {}
        for one in slices:
            if one.generation == newest[one.driver, one.pool]:
                for device in one.devices:
                    key = one.driver, one.pool, device.name
                    found[key] = Offered(
                        one.driver, one.pool, device, tuple(sorted(self._holders.get(key, ())))
                    )
        return [found[key] for key in sorted(found)]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that have devices of their own, by name."""
        return tuple(sorted(filter(None, self._of_node)))

    def node_of(self, key: DeviceKey) -> str | None:
        """The node that has the device; None where no slice shows it."""
        driver, pool, name = key
        for one in self._slices.values():
            if (one.driver, one.pool) == (driver, pool) and any(each.name == name for each in one.devices):
                return one.node
        return None

    # Classes

    def serves(self, resource: str) -> tuple[str, ...]:
        """The classes by which DRA serves an extended resource, by name; none where nobody does."""
        own = resource.removeprefix(CLASS_AS_RESOURCE)
        if own != resource:
            return (own,) if own in self.classes else ()
        return tuple(sorted(self._serving.get(resource, ())))

    def drivers_of(self, classes: Iterable[str]) -> tuple[str, ...]:
        """The drivers that the selectors of these classes name; none where one of them does not tell."""
        drivers: set[str] = set()
        for name in classes:
            known = self.classes.get(name)
            if known is None or not known.drivers:
                return ()
            drivers.update(known.drivers)
        return tuple(sorted(drivers))

    def is_of_cpus(self, ask: Ask) -> bool:
        """Whether it is CPUs that a pod gets so."""
        if ask.allotted is not None:
            return any(one.driver in CPU_DRIVERS for one in ask.allotted)
        return bool(CPU_DRIVERS & {*ask.classes, *self.drivers_of(ask.classes)})

    # Pods

    def served(self, pod: Pod) -> tuple[str, ...]:
        """The extended resources of the pod that a class serves, by name: DRA's on every node without a plugin for them."""
        if not self.classes:
            return ()
        asked = {name for container in pod.in_order for name, _ in container.requests}
        return tuple(name for name in sorted(asked) if self.serves(name))

    def asks_of(self, pod: Pod, served: Iterable[str] = ()) -> tuple[Ask, ...]:
        """All that the pod has by DRA; of its resources, those that its status says or that are `served` so."""
        found = [
            self._claimed(pod, one.name, one.claim, one.template) for one in pod.scheduling.resource_claims
        ]
        told = pod.scheduling.served
        if told is not None:
            claim = self.claims.get((pod.namespace, told.claim))
            classes = tuple(name for resource in told.resources for name in self.serves(resource))
            spec, allotted = (claim.spec, claim.allotted) if claim else (None, None)
            found.append(Ask("", told.resources, classes, spec, allotted))
        known = told.resources if told else ()
        found += [Ask("", (name,), self.serves(name), None, None) for name in served if name not in known]
        return tuple(found)

    def _claimed(self, pod: Pod, name: str, claim: str, template: str) -> Ask:
        known = self.claims.get((pod.namespace, claim)) if claim else None
        made_by = self._templates.get((pod.namespace, template)) if template else None
        spec = known.spec if known else made_by.spec if made_by else None
        classes = tuple(dict.fromkeys(each for one in spec.requests for each in one.classes)) if spec else ()
        return Ask(name, (), classes, spec, known.allotted if known else None)


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _discard(index: dict[_Key, set[_Value]], key: _Key, value: _Value) -> None:
    left = index.get(key)
    if left is not None:
        left.discard(value)
        if not left:
            del index[key]
