"""Pods: where they are, whether that is what was promised, and who still waits."""

from __future__ import annotations

from itertools import islice
from typing import Literal

import msgspec

from numaware.diagnose.evidence import fit_error
from numaware.diagnose.texts import Lang, say
from numaware.machine.cpuset import list_form
from numaware.schedule.cluster import Member
from numaware.schedule.ledger import Placement
from numaware.schedule.node_facts import pod_requests
from numaware.serve.console.views.node import device_ids, name_of
from numaware.serve.console.views.wall_model import WallModel
from numaware.serve.console.world import Event, World
from numaware.simulate.measure import numa_nodes
from numaware.twin.account import fewest_nodes_for, held_by
from numaware.workload.pod import NANO, Pod
from numaware.workload.qos import qos_class

Phase = Literal["Running", "Pending"]
_MOST_EVENTS = 50


class PodSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A pod in a list. `aligned` is None for one that owns nothing; `predicted` None where nobody predicted."""

    namespace: str
    name: str
    uid: str
    owner: str
    phase: Phase
    node: str
    qos: str
    cpu_milli: int
    memory: int
    devices: dict[str, int]
    gpus: int
    numa: tuple[int, ...]
    aligned: bool | None
    predicted: bool | None
    since: int
    message: str


class ZoneView(msgspec.Struct, frozen=True, rename="camel"):
    """What a pod has of one NUMA node."""

    numa: int
    cpus: str
    amounts: dict[str, int]


class ContainerView(msgspec.Struct, frozen=True, rename="camel"):
    """One container and what it asks for, in Kubernetes' units."""

    name: str
    init: bool
    requests: dict[str, int]
    limits: dict[str, int]


class Placed(msgspec.Struct, frozen=True, rename="camel"):
    """How a pod was placed: when, what was predicted then (None where nobody predicted), and what the kubelet did.

    What nodes would say if it came now is another question (`/api/v1/whatif`).
    """

    at: int
    predicted: tuple[ZoneView, ...] | None
    observed: tuple[ZoneView, ...] | None


class PodView(msgspec.Struct, frozen=True, rename="camel"):
    """All that is known of a pod; `placed` is None as long as it waits."""

    summary: PodSummary
    scheduler: str
    containers: tuple[ContainerView, ...]
    cpus: str
    devices: dict[str, tuple[str, ...]]
    placed: Placed | None
    fewest_numa: int | None
    events: tuple[Event, ...]


def listed(world: World, part: str, node: str, phase: str) -> list[tuple[Pod, Member | None]]:
    """Pods and the nodes they are on, in order of name: those with that part in their name, on that node, in that phase."""
    waiting: list[tuple[Pod, Member | None]] = [(each.pod, None) for each in world.waiting.values()]
    placed = ((pod, member) for member in world.cluster for pod in member.pods.values())
    return sorted(
        (
            (pod, member)
            for pod, member in (*waiting, *placed)
            if node in ("", member.name if member else None)
            and phase in ("", _phase(member))
            and part in full_name(pod)
        ),
        key=lambda each: full_name(each[0]),
    )


def full_name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _phase(member: Member | None) -> Phase:
    return "Running" if member else "Pending"


def find(world: World, namespace: str, name: str) -> tuple[Pod, Member | None] | None:
    """The pod of that name and the node it is on."""
    for waiting in world.waiting.values():
        if waiting.pod.name == name and waiting.pod.namespace == namespace:
            return waiting.pod, None
    for uid, member in world.cluster.where.items():
        pod = member.load.node.state.pods[uid]
        if pod.name == name and pod.namespace == namespace:
            return pod, member
    return None


def view_of(wall_model: WallModel, pod: Pod, member: Member | None, lang: Lang) -> PodView:
    """Everything about one pod."""
    world = wall_model.world
    story = world.stories.get(pod.uid)
    full = name_of(pod)
    held = held_by(member.node.state, pod.uid) if member else None
    recent = (event for event in reversed(world.events) if event.pod == full)
    return PodView(
        summary=summary_of(wall_model, pod, member, lang),
        scheduler=story.scheduler if story else "",
        containers=tuple(
            ContainerView(
                container.name,
                container in pod.init_containers,
                _amounts(container.requests),
                _amounts(container.limits),
            )
            for container in pod.in_order
        ),
        cpus=list_form(held.cpus) if held else "",
        devices=device_ids(member.node, held) if member and held else {},
        placed=Placed(
            story.since,
            _zones(story.predicted) if story.predicted else None,
            _zones(story.observed) if story.observed else None,
        )
        if story and member
        else None,
        fewest_numa=fewest_nodes_for(member.node, pod) if member and numa_nodes(member, pod) else None,
        events=tuple(islice(recent, _MOST_EVENTS)),
    )


def summary_of(wall_model: WallModel, pod: Pod, member: Member | None, lang: Lang) -> PodSummary:
    """The pod's line in a list; what its scheduler says of it is told in a language."""
    world = wall_model.world
    requests = dict(pod_requests(pod))
    story, waiting = world.stories.get(pod.uid), world.waiting.get(pod.uid)
    devices = {name: amount for name, amount in requests.items() if "/" in name}
    mask = numa_nodes(member, pod) if member else 0
    predicted = None if story is None or story.predicted is None else story.predicted == story.observed
    return PodSummary(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        owner=story.owner if story else waiting.owner if waiting else "",
        phase=_phase(member),
        node=member.name if member else "",
        qos=qos_class(pod),
        cpu_milli=requests.get("cpu", 0),
        memory=requests.get("memory", 0),
        devices=devices,
        gpus=sum(amount for name, amount in devices.items() if "gpu" in name),
        numa=member.node.kubelet.layout.node_ids(mask) if member else (),
        aligned=wall_model.is_aligned(member, pod, mask) if member and mask else None,
        predicted=predicted,
        since=story.since if story else waiting.since if waiting else 0,
        message=_in_words(waiting.message, lang) if waiting else "",
    )


def _zones(placement: Placement) -> tuple[ZoneView, ...]:
    return tuple(ZoneView(zone.numa, zone.cpus, dict(zone.amounts)) for zone in placement.zones)


def _amounts(resources: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """CPUs in thousandths, everything else in whole units."""
    return {name: -(-nano * 1000 // NANO) if name == "cpu" else -(-nano // NANO) for name, nano in resources}


def event_in_words(event: Event, lang: Lang) -> Event:
    """What happened, with what its scheduler said told in a language."""
    return msgspec.structs.replace(event, message=_in_words(event.message, lang))


def _in_words(message: str, lang: Lang) -> str:
    """What is known of a scheduler's message in a language; a message of another kind is quoted."""
    return say((lang != "en" and fit_error.read(message)) or message, lang)
