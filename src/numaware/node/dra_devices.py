"""Devices that DRA drivers report of this node, as metrics: the kubelet's own do not have them, and no policy aligns them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from numaware.kube.client import Client
from numaware.kube.dra import decode_slice
from numaware.kube.reflector import Reflector
from numaware.kube.resources import RESOURCE_SLICES
from numaware.node.exporter.families import Family, gauge
from numaware.node.troubles import Troubles
from numaware.workload.dra.known import DraObjects
from numaware.workload.dra.objects import DeviceSlice


class DraDevices:
    """Keeps the slices of the node called `name`; a server without `resource.k8s.io` has none, and that is no trouble."""

    def __init__(self, name: str, client: Client, troubles: Troubles) -> None:
        self._name = name
        self._troubles = troubles
        self._slices: Reflector[DeviceSlice] = Reflector(
            client,
            RESOURCE_SLICES,
            decode_slice,
            field_selector=f"spec.nodeName={name}",
            on_problem=lambda key, problem: troubles.raised("slices", "unreadable", f"{key}: {problem}"),
            on_trouble=lambda error: troubles.raised("slices", "unwatched", str(error)),
        )

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._slices.run()

    def families(self) -> Iterator[Family]:
        """How many devices which driver has where; nothing where there is none."""
        if self._slices.synced.is_set() and not self._slices.in_trouble and not self._slices.problems:
            self._troubles.cleared("slices")
        devices = DraObjects(self._slices.items.values()).devices_on(self._name)
        counts = Counter(
            (one.driver, "" if one.device.home is None else str(one.device.home)) for one in devices
        )
        if counts:
            yield gauge(
                "numa_dra_devices",
                "Devices that a DRA driver reports, by the NUMA node that it says they are on.",
                ["driver", "numa"],
                [(key, float(count)) for key, count in sorted(counts.items())],
            )
