"""The wall of nodes and the numbers above it, kept up node by node as the cluster changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from numaware.diagnose.rules.storms import Storm
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.pod_kinds import owns_something
from numaware.serve.console.views.judging import VERDICTS, Judge, Judgement, Verdict
from numaware.serve.console.views.pod_shape import Shape, pod_of
from numaware.serve.console.views.refusals import BUCKET, Refusals
from numaware.serve.console.views.strips import Largest, Strip, largest_by_gpus, largest_first, strips_of
from numaware.serve.console.views.summary import Summary, summary_of
from numaware.serve.console.world import Kind, Source, World
from numaware.simulate.measure import numa_nodes
from numaware.twin.account import is_aligned
from numaware.twin.kubelet import Kubelet
from numaware.workload.pod import Pod

# A node that has not been heard of for longer than three reports, ten seconds apart, is stale.
STALE_AFTER = 30_000
_MOST_SHAPES = 32
_MOST_CLASSES = 1 << 16
# What a person should look at first: what NUMA alone keeps out, then what it spreads, then what is merely used up.
WORST_FIRST: tuple[Verdict, ...] = ("refused", "split", "full", "aligned", "never")
# Refusals and stranded pods that tell two tiles apart.
_RANKS = 1000
# A verdict's place in the list of them, and how far down a tile comes for it alone; whatever else there is to see lifts the
# tile by less than from one verdict to the next.
_PLACES = {
    verdict: (place, 4 * _RANKS * _RANKS * (1 + WORST_FIRST.index(verdict)))
    for place, verdict in enumerate(VERDICTS)
}


class Tile(msgspec.Struct, frozen=True, array_like=True, rename="camel", gc=False):
    """One node of the wall, as short as it can be told; `verdict` is a place in the list of verdicts.

    `numa` is where the pod would lie. `reportedAt` is when the node was last heard of, 0 for one whose state is current
    as long as nothing else is told. Tiles of a lower `rank` come first where the worst does.
    """

    name: str
    pool: str
    policy: str
    verdict: int
    stranded: int
    refusals: int
    storm: bool
    stale: bool
    strips: tuple[Strip, ...]
    numa: tuple[int, ...]
    source: Source
    reported_at: int
    rank: int


class Stranded(msgspec.Struct, frozen=True, rename="camel"):
    """What borders between NUMA nodes keep from pods of a shape."""

    pods: int
    nodes: int
    cpus: int
    gpus: int


class Numbers(msgspec.Struct, frozen=True, rename="camel"):
    """The headline numbers of the cluster, for one shape of pod."""

    name: str
    kind: Kind
    time: int
    serial: int
    nodes: int
    pods: int
    waiting: int
    pinned: int
    aligned: int
    refusals: int
    # Of the last hour, oldest first, `bucketMs` each.
    refusal_buckets: tuple[int, ...]
    bucket_ms: int
    # In the last `bucketMs`, and the worst storm of them.
    lately: int
    storm: Storm | None
    verdicts: dict[str, int]
    stranded: Stranded
    largest: tuple[Largest, ...]
    # The one of them with as many GPUs as the shape has, else with fewest.
    largest_alike: Largest | None
    stale: int
    oldest: str
    oldest_age_ms: int


class _Shared(msgspec.Struct, frozen=True, gc=False):
    """What is the same for all nodes in equal state: strips, and by number of GPUs the largest pods (of no node yet)."""

    strips: tuple[Strip, ...]
    largest: tuple[Largest, ...]


class _Row(msgspec.Struct, frozen=True, gc=False):
    """What is counted of one node, whatever the question."""

    pool: str
    shared: _Shared
    pods: int
    pinned: int
    aligned: int


class WallModel:
    """Rows of all nodes, caught up when asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.judge = Judge(world.cluster)
        self._seen = -1
        self._rows: dict[str, _Row] = {}
        # Lines of lists, each with the row that it goes with.
        self._summaries: dict[str, tuple[_Row, Summary]] = {}
        # By the engine's classes, which the next question needs as well.
        self._shared: dict[tuple[int, int], _Shared] = {}
        # Whether a pod that owns something is aligned, with the machine and NUMA nodes that holds for: a later report may
        # tell of others than the first one did.
        self._aligned: dict[str, tuple[Kubelet, int, bool]] = {}
        # What nodes say to the shapes that are being looked at, and how far in the cluster's changes that is.
        self._judged: dict[Shape, tuple[int, dict[str, Judgement]]] = {}
        self._numbers: dict[Shape, tuple[int, int, Numbers]] = {}
        self._refusals = Refusals(world)

    @property
    def cluster(self) -> Cluster:
        return self.world.cluster

    @property
    def serial(self) -> int:
        return self.cluster.serial

    def refresh(self) -> list[str]:
        """Look at the nodes that changed; returns their names, those that are gone included."""
        names = list(self.cluster.changed_since(self._seen))
        if self._seen < 0:
            # Whoever asks first need not wait until the engine has sorted the nodes.
            self.judge.judge(pod_of(Shape()), [])
        self._seen = self.cluster.serial
        for name in names:
            member = self.cluster.by_name.get(name)
            if member is None:
                self._rows.pop(name, None)
                self._summaries.pop(name, None)
            else:
                self._rows[name] = self._row(member)
        if len(self._aligned) > 2 * len(self.cluster.where) + 1000:
            self._aligned = {uid: known for uid, known in self._aligned.items() if uid in self.cluster.where}
        return names

    def is_aligned(self, member: Member, pod: Pod, nodes: int) -> bool:
        """Whether a placed pod, which lies on these NUMA nodes, needs as many on that machine."""
        kubelet = member.node.kubelet
        known = self._aligned.get(pod.uid)
        if known is None or known[0] is not kubelet or known[1] != nodes:
            known = self._aligned[pod.uid] = kubelet, nodes, is_aligned(member.node, pod, nodes)
        return known[2]

    def strips(self, name: str) -> tuple[Strip, ...]:
        return self._rows[name].shared.strips

    def _row(self, member: Member) -> _Row:
        owning = [
            (pod, nodes)
            for pod in member.pods.values()
            if owns_something(pod) and (nodes := numa_nodes(member, pod))
        ]
        return _Row(
            pool_of(member),
            self._shared_by_class(member),
            len(member.pods),
            len(owning),
            sum(self.is_aligned(member, pod, nodes) for pod, nodes in owning),
        )

    def _shared_by_class(self, member: Member) -> _Shared:
        number = self.judge.engine.class_of(member)
        shared = self._shared.get(number)
        if shared is None:
            if len(self._shared) > _MOST_CLASSES:
                self._shared.clear()
            shared = self._shared[number] = _Shared(strips_of(member), tuple(largest_by_gpus(member)))
        return shared

    # Tiles

    def tiles(self, shape: Shape, names: Sequence[str] | None = None) -> tuple[Tile, ...]:
        """The nodes of those names, or all, in order of name."""
        self.refresh()
        judged, refusals, now = self.judged(shape), self.refusals(), self.world.now
        rows, by_name, reported = self._rows, self.cluster.by_name, self.world.reported
        if names is None:
            names = [member.name for member in self.cluster.members]
        tiles = []
        for name in names:
            member = by_name.get(name)
            if member is None:
                continue
            row, judgement = rows[name], judged[name]
            source, at = reported(name)
            stale, storm = at < now - STALE_AFTER, name in refusals.storms
            refused, stranded = refusals.by_node.get(name, 0), judgement.stranded
            place, rank = _PLACES[judgement.verdict]
            # Worst first: by verdict, then storms, refusals, stranded pods and silence.
            if storm or refused or stale:
                rank -= 2 * _RANKS * (storm * _RANKS + min(refused, _RANKS - 1)) + stale
            rank -= 2 * (stranded if stranded < _RANKS else _RANKS - 1)
            tiles.append(
                Tile(
                    name,
                    row.pool,
                    member.facts.topology_policy or "",
                    place,
                    stranded,
                    refused,
                    storm,
                    stale,
                    row.shared.strips,
                    judgement.numa,
                    source,
                    at if at < now else 0,
                    rank,
                )
            )
        return tuple(tiles)

    def unjudged(self, shape: Shape) -> list[str]:
        """The nodes that changed since they were judged for the shape, or never were."""
        seen, _ = self._judged.get(shape, (-1, None))
        return [name for name in self.cluster.changed_since(seen) if name in self.cluster.by_name]

    def judged(self, shape: Shape) -> dict[str, Judgement]:
        """What every node says to the shape, by name; only nodes that changed are asked again."""
        seen, known = self._judged.pop(shape, (-1, {}))
        serial = self.cluster.serial
        if seen != serial:
            changed = self.cluster.changed_since(seen)
            names = [name for name in changed if name in self.cluster.by_name]
            for name in set(changed).difference(names):
                known.pop(name, None)
            known.update(zip(names, self.judge.judge(pod_of(shape), names), strict=True))
        self._judged[shape] = serial, known
        if len(self._judged) > _MOST_SHAPES:
            del self._judged[next(iter(self._judged))]
        return known

    def summaries(self, members: Iterable[Member]) -> tuple[Summary, ...]:
        """Their lines in a list; what a line says of the node itself is worked out again only when that has changed."""
        self.refresh()
        refusals = self.refusals()
        summaries = []
        for member in members:
            row = self._rows[member.name]
            known = self._summaries.get(member.name)
            if known is None or known[0] is not row:
                known = row, summary_of(member, row.pool, row.shared.strips)
                self._summaries[member.name] = known
            source, at = self.heard(member.name)
            summaries.append(
                replace(
                    known[1],
                    refusals=refusals.by_node[member.name],
                    storm=member.name in refusals.storms,
                    stale=at < self.world.now - STALE_AFTER,
                    source=source,
                    reported_at=at,
                )
            )
        return tuple(summaries)

    def heard(self, name: str) -> tuple[Source, int]:
        """How the node is known, and when it was last heard of: now, if what is known is current."""
        source, at = self.world.reported(name)
        now = self.world.now
        return source, at if 0 < at < now else now

    # Numbers

    def refusals(self) -> Refusals:
        """Those of the last hour, as of now."""
        self._refusals.refresh()
        return self._refusals

    def pinned(self) -> tuple[int, int]:
        """Pods that own something, and how many of them are aligned."""
        rows = self._rows.values()
        return sum(row.pinned for row in rows), sum(row.aligned for row in rows)

    def numbers(self, shape: Shape) -> Numbers:
        """All headline numbers at once; worked out again when a node has changed or a second has passed."""
        key = self.cluster.serial, self.world.now // 1000
        known = self._numbers.get(shape)
        if known is None or known[:2] != key:
            if len(self._numbers) > _MOST_SHAPES:
                self._numbers.clear()
            known = self._numbers[shape] = *key, self._counted(shape)
        return known[2]

    def _counted(self, shape: Shape) -> Numbers:
        self.refresh()
        judged = self.judged(shape)
        refusals = self.refusals()
        rows = self._rows.values()
        pinned, aligned = self.pinned()
        now = self.world.now
        ages = [(now - self.heard(member.name)[1], member.name) for member in self.cluster]
        oldest = max(ages, default=(0, ""))
        largest = tuple(self._largest())
        return Numbers(
            name=self.world.name,
            kind=self.world.kind,
            time=now,
            serial=self.serial,
            nodes=len(self.cluster),
            pods=sum(row.pods for row in rows),
            waiting=len(self.world.waiting),
            pinned=pinned,
            aligned=aligned,
            refusals=refusals.total,
            refusal_buckets=refusals.buckets,
            bucket_ms=BUCKET,
            lately=refusals.lately,
            storm=refusals.worst,
            verdicts=tally(judged.values()),
            stranded=_stranded(judged.values(), pod_of(shape)),
            largest=largest,
            largest_alike=next((one for one in largest if one.gpus == shape.gpu), next(iter(largest), None)),
            stale=sum(age > STALE_AFTER for age, _ in ages),
            oldest=oldest[1],
            oldest_age_ms=oldest[0],
        )

    def _largest(self) -> list[Largest]:
        # Of nodes in equal state the first by name stands for all.
        first: dict[int, tuple[str, _Shared]] = {}
        for name, row in self._rows.items():
            known = first.get(id(row.shared))
            if known is None or name < known[0]:
                first[id(row.shared)] = name, row.shared
        best: dict[int, Largest] = {}
        for name, shared in sorted(first.values(), key=itemgetter(0)):
            for one in shared.largest:
                if one.gpus not in best or largest_first(one) < largest_first(best[one.gpus]):
                    best[one.gpus] = replace(one, node=name)
        return [best[gpus] for gpus in sorted(best)]


def pool_of(member: Member) -> str:
    """The pool a node belongs to: what its label says, else its name without the number at the end."""
    for name, value in member.facts.labels:
        if name == "pool" and value:
            return value
    return member.name.rstrip("0123456789").rstrip("-") or member.name


def tally(judged: Iterable[Judgement]) -> dict[str, int]:
    """How many nodes give each verdict."""
    counts = Counter(judgement.verdict for judgement in judged)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _stranded(judged: Collection[Judgement], pod: Pod) -> Stranded:
    pods = sum(judgement.stranded for judgement in judged)
    requests = dict(pod_requests(pod))
    gpus = sum(amount for name, amount in requests.items() if "gpu" in name)
    return Stranded(
        pods,
        sum(judgement.stranded > 0 for judgement in judged),
        pods * -(-requests.get("cpu", 0) // 1000),
        pods * gpus,
    )
