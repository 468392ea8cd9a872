"""What the lab counts: allocation, alignment, stranded capacity. All of it from the twins, none from a scheduler's claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.need import need_of
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, gpu_resource, room, site
from numaware.schedule.stranding import Mix
from numaware.simulate.result import Tile
from numaware.twin import account
from numaware.workload.pod import Pod

_HIGHEST = 1000


def percent(part: int, whole: int) -> float:
    """With two decimals; 0 of nothing is 0."""
    return round(100 * part / whole, 2) if whole else 0.0


class Meter:
    """Sums over a cluster, kept up by the pods that come and go."""

    def __init__(self, cluster: Cluster, pods: Iterable[Pod]) -> None:
        self.cluster = cluster
        self.gpu = next((name for member in cluster if (name := gpu_resource(member.node))), "")
        self.room = Counter[str]()
        for member in cluster:
            self.room.update(member.allocatable)
        self.used = Counter[str]()
        # Devices other than GPUs count under their own names.
        names = {name for member in cluster for name in member.node.kubelet.devices.inventories}
        self.devices = tuple(sorted(names - {self.gpu}))
        self._mix = Mix(Counter(need_of(pod, self.gpu) for pod in pods))
        self._stranded: dict[str, tuple[int, int]] = {}

    @property
    def gpu_room(self) -> int:
        """All GPUs in thousandths."""
        return WHOLE * self.room[self.gpu]

    def add(self, pod: Pod, sign: int) -> None:
        """A pod has come (1) or gone (-1)."""
        for name, amount in pod_requests(pod):
            self.used[name] += sign * amount

    @property
    def cpu(self) -> float:
        return percent(self.used["cpu"], self.room["cpu"])

    @property
    def memory(self) -> float:
        return percent(self.used["memory"], self.room["memory"])

    @property
    def gpus(self) -> float:
        return percent(WHOLE * self.used[self.gpu] + self.used[SHARE_RESOURCE], self.gpu_room)

    def by_device(self) -> dict[str, float]:
        """Allocation of each kind of device; GPUs, shares and all, are `gpu`."""
        found = {"gpu": self.gpus} if self.gpu else {}
        return found | {name: percent(self.used[name], self.room[name]) for name in self.devices}

    def stranded(self) -> float:
        """Free capacity that the pods of the trace cannot use, of all there is."""
        total = sum(self._stranded_on(member) for member in self.cluster)
        whole = self.gpu_room or self.room["cpu"]
        return percent(total, whole * max(1, self._mix.total))

    def _stranded_on(self, member: Member) -> int:
        known = self._stranded.get(member.name)
        if known is None or known[0] != member.version:
            load = member.load
            here = room(load.node, load.shares, member.allocatable, load.used)
            known = self._stranded[member.name] = (
                member.version,
                self._mix.stranded(site(load.node.kubelet, member.facts.allocatable), here),
            )
        return known[1]

    def tiles(self) -> tuple[Tile, ...]:
        """Every node, in order of name."""
        return tuple(self._tile(member) for member in self.cluster)

    def _tile(self, member: Member) -> Tile:
        used, room = member.load.used, member.allocatable

        def part(amount: int, whole: int) -> int:
            return _HIGHEST * amount // whole if whole else 0

        gpus = room.get(self.gpu, 0)
        shared = WHOLE * used.get(self.gpu, 0) + used.get(SHARE_RESOURCE, 0)
        whole = WHOLE * gpus or room["cpu"]
        return Tile(
            member.name,
            len(member.pods),
            part(used.get("cpu", 0), room["cpu"]),
            part(used.get("memory", 0), room["memory"]),
            part(shared, WHOLE * gpus) if gpus else None,
            part(self._stranded_on(member), whole * max(1, self._mix.total)),
        )


def size_of(pod: Pod, gpu: str) -> str:
    """How large a pod is to those who count GPUs: how many it wants, `share` for a part of one."""
    requests = dict(pod_requests(pod))
    return "share" if requests.get(SHARE_RESOURCE) else str(requests.get(gpu, 0))


def numa_nodes(member: Member, pod: Pod) -> int:
    """The NUMA nodes, as a mask, of all that a placed pod has for itself, a part of a GPU among it; 0 for none."""
    node, shared = member.node, member.load.sharers.get(pod.uid)
    mask = account.numa_nodes(node, pod.uid)
    gpu = gpu_resource(node)
    if shared is not None and gpu is not None:
        mask |= node.kubelet.devices.inventories[gpu].nodes[shared]
    return mask
