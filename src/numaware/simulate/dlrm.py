"""The trace of disaggregated recommendation models (DLRM) of a production cluster: instances of services in CSV.

It has no nodes, so `nodes` makes some of one shape: two NUMA nodes, each with 192 CPUs, 1,152 GiB, four GPUs and one RDMA
card, so that the largest instance fits on one NUMA node and every NUMA node has something of all that instances ask
for. A card is a hundred devices of the resource `rdma/percent` on its NUMA node: shares of it are handed out by the
kubelet as devices are. Kubelets are those of `openb`.

- Every instance is a Guaranteed pod of one container: CPUs, memory, `nvidia.com/gpu` and `rdma/percent`. Disks are left out.
- Instances of one service (`app_name`) in one role (`role`: CN without, HN with a GPU) carry the labels `app` and `role`.
  The role decides about nothing but the GPU: a CN instance may go beside GPUs.
- `max_instance_per_node` is a hard topology spread over hostnames with that skew, and `minDomains` beyond any cluster, which
  makes Kubernetes count from zero: so it is the most instances of that service and role on a node. Where instances of one
  service and role name different limits the smallest holds for all of them. -1 is no limit.
"""

from __future__ import annotations

from functools import lru_cache

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.simulate.clusters import HOSTNAME, MOST_PODS, ClusterSpec, NodeSpec
from numaware.simulate.csv_rows import Row, rows
from numaware.simulate.openb import GPU, ZoneShape, hardware, pins
from numaware.simulate.traces import SECOND, TimedPod, Trace
from numaware.twin.config import KubeletConfig
from numaware.workload.pod import NANO, Container, Pod
from numaware.workload.scheduling import Requirement, Scheduling, Selector, SpreadRule

RDMA = "rdma/percent"
_GIB = 1 << 30
SHAPE = (ZoneShape(192, 1152 * _GIB, ((GPU, 4), (RDMA, 100))),) * 2
_MOST_NODES = 100_000
# More than any machine has: what is larger is a mistake in the file.
_MOST_CPUS, _MOST_GPUS, _MOST_GIB, _MOST_PERCENT = 4096, 64, 1 << 20, 6400
_MOST_TIME = 1 << 40
# The largest number that Kubernetes takes.
_NEVER_REACHED = (1 << 31) - 1

_COLUMNS = (
    "instance_sn",
    "role",
    "app_name",
    "cpu_request",
    "gpu_request",
    "rdma_request",
    "memory_request",
    "max_instance_per_node",
)
_NO_LIMIT = "-1"
_Service = tuple[str, str]


def nodes(count: str, config: KubeletConfig) -> ClusterSpec:
    """So many nodes of the shape above, whose kubelets all run with `config`."""
    if (
        not count.isascii()
        or not count.isdecimal()
        or not 0 < int(count[:9]) <= _MOST_NODES
        or len(count) > 9
    ):
        raise InputError(
            f"dlrm:{printable(count, 40)}",
            f"is no number of nodes up to {_MOST_NODES}",
            hint="dlrm:400 stands for 400 nodes of the shape in docs/lab.md",
        )
    machine = hardware(SHAPE, pinned=pins(config))
    width = len(str(int(count) - 1))
    return ClusterSpec(
        f"dlrm-{int(count)}",
        tuple(
            NodeSpec(f"dlrm-{number:0{width}}", machine, config, most_pods=MOST_PODS)
            for number in range(int(count))
        ),
    )


def pods(data: bytes, source: str, *, timed: bool = False) -> Trace:
    """The instances as a trace: a second apart and never leaving, or, when `timed`, as their columns say.

    An empty time lies outside the trace: such an instance is there from the beginning, or stays.
    """
    instances = list(rows(data, source, _COLUMNS))
    limits: dict[_Service, int] = {}
    for row in instances:
        if row.text("max_instance_per_node") != _NO_LIMIT:
            limit, service = row.number("max_instance_per_node", _NEVER_REACHED), _service(row)
            if not limit:
                raise InputError(row.where, "max_instance_per_node is 0, so it could run nowhere")
            limits[service] = min(limit, limits.get(service, limit))
    arrivals: dict[str, TimedPod] = {}
    for index, row in enumerate(instances):
        name, service = row.text("instance_sn"), _service(row)
        if not name or name in arrivals:
            raise InputError(row.where, f"instance {printable(name, 80)!r} has no name or is listed twice")
        pod = Pod(
            name,
            uid=f"default/{name}",
            containers=(_container(row),),
            scheduling=_scheduling(service, limits.get(service)),
        )
        time, lifetime = _times(row) if timed else (index * SECOND, None)
        arrivals[name] = TimedPod(pod, "-".join(service), time, lifetime)
    if not arrivals:
        raise InputError(source, "lists no instances")
    return Trace(source, tuple(arrivals.values()))


def _service(row: Row) -> _Service:
    app, role = row.text("app_name"), row.text("role")
    if not app or role not in ("CN", "HN"):
        raise InputError(
            row.where,
            f"app_name {printable(app, 40)!r} in role {printable(role, 40)!r}",
            hint="roles are CN and HN",
        )
    return app, role


def _times(row: Row) -> tuple[int, int | None]:
    """When an instance comes and how long it stays, in the lab's milliseconds."""
    created, scheduled, deleted = (
        row.thousandths(column, _MOST_TIME) if row.text(column) else None
        for column in ("creation_time", "scheduled_time", "deletion_time")
    )
    begin = created or 0
    return begin, None if deleted is None else max(SECOND, deleted - (scheduled or begin))


def _container(row: Row) -> Container:
    return _shaped(
        row.thousandths("cpu_request", _MOST_CPUS),
        row.thousandths("memory_request", _MOST_GIB),
        row.number("gpu_request", _MOST_GPUS),
        row.number("rdma_request", _MOST_PERCENT),
    )


@lru_cache(maxsize=1024)
def _shaped(cpu_milli: int, memory_milli_gib: int, gpus: int, percent: int) -> Container:
    """One container; equal instances share it."""
    amounts = {
        "cpu": cpu_milli * (NANO // 1000),
        "memory": memory_milli_gib * _GIB // 1000 * NANO,
        GPU: gpus * NANO,
        RDMA: percent * NANO,
    }
    requests = tuple(sorted(pair for pair in amounts.items() if pair[1]))
    return Container("app", requests, requests)


@lru_cache(maxsize=1024)
def _scheduling(service: _Service, limit: int | None) -> Scheduling:
    labels = tuple(zip(("app", "role"), service, strict=True))
    if limit is None:
        return Scheduling(labels=labels)
    selector = Selector(tuple(Requirement(key, "In", (value,)) for key, value in labels))
    spread = SpreadRule(HOSTNAME, limit, hard=True, selector=selector, min_domains=_NEVER_REACHED)
    return Scheduling(labels=labels, spread=(spread,))
