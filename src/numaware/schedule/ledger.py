"""Predicted and observed placements: made from a twin, written as an annotation, read back, compared.

The scheduler writes its prediction on the pod it binds, and the agent writes what it saw in the same form. A prediction that
failed becomes a file to be replayed (`miss.py`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet, list_form
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.account import ContainerPlacement, container_placement, held_by
from numaware.twin.memory.state import Block
from numaware.twin.node import Node, Verdict
from numaware.workload.demand import Amounts
from numaware.workload.pod import Pod
from numaware.workload.scheduling import PLACEMENT_OBSERVED, PLACEMENT_PREDICTED

PREDICTED, OBSERVED = PLACEMENT_PREDICTED, PLACEMENT_OBSERVED

Outcome = Literal["match", "wrong_zone", "wrong_cpus", "rejected", "unexpected"]

_MOST_BYTES = 1 << 18
_ZONE = "node-"
_ENCODER = msgspec.json.Encoder()


class ZonePart(msgspec.Struct, frozen=True):
    """What a pod has of one NUMA node, in whole units; `cpus` is a list, empty where nobody tells the numbers."""

    numa: int
    amounts: Amounts
    cpus: str = ""


class Placement(msgspec.Struct, frozen=True):
    """Where a pod is: by NUMA node, ascending, and by container where that is known (an annotation does not tell)."""

    zones: tuple[ZonePart, ...] = ()
    containers: tuple[ContainerPlacement, ...] = ()


class Prediction(msgspec.Struct, frozen=True):
    """What the kubelet of `node` will do with a pod: place it, or refuse it for a reason."""

    uid: str
    pod: str
    node: str
    placement: Placement | None
    reason: str = ""


class Observation(msgspec.Struct, frozen=True):
    """What the kubelet did: the placement, or None and the reason of the refusal."""

    placement: Placement | None
    reason: str = ""


def predict(name: str, pod: Pod, verdict: Verdict) -> Prediction:
    """The prediction that goes with a verdict on the node called `name`."""
    placement = placement_of(verdict.node, pod) if verdict.admitted else None
    return Prediction(pod.uid, f"{pod.namespace}/{pod.name}", name, placement, verdict.reason)


def placement_of(node: Node, pod: Pod) -> Placement:
    """What a pod holds on the twin, as somebody who asks the kubelet later will see it: by NUMA node, and by container."""
    parts = [container_placement(node.kubelet, node.state, pod.uid, name) for name in _staying(node, pod)]
    return Placement(zones_of(node, pod), tuple(parts))


def zones_of(node: Node, pod: Pod) -> tuple[ZonePart, ...]:
    """What a pod holds of each NUMA node.

    The kubelet shows no init containers that end, so they do not count. Memory charged to several NUMA nodes at once is
    listed in equal parts, because which byte is where nobody can see; a device that belongs to two nodes counts on
    both, and one that belongs to none on none.
    """
    kubelet = node.kubelet
    layout, held = kubelet.layout, held_by(node.state, pod.uid, _staying(node, pod))
    zones = []
    for position, numa in enumerate(layout.ids):
        cpus = held.cpus & layout.node_cpus[position]
        amounts = {"cpu": cpus.bit_count()}
        for resource, mask in held.devices.items():
            amounts[resource] = (mask & kubelet.devices.inventories[resource].on_node[position]).bit_count()
        for block in held.memory:
            if block.nodes >> position & 1:
                amounts[block.kind] = amounts.get(block.kind, 0) + _even_part(block, position)
        listed = tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount))
        if listed:
            zones.append(ZonePart(numa, listed, list_form(cpus)))
    return tuple(zones)


def _staying(node: Node, pod: Pod) -> list[str]:
    """The containers that somebody who looks later still finds."""
    wanted = node.kubelet.demand(pod)
    return [part.name for part in wanted.containers if not part.ends]


def compare(prediction: Prediction | None, observed: Observation) -> Outcome:
    """How a prediction turned out; without one, whatever was placed is unexpected.

    CPU numbers are compared only where both sides tell them.
    """
    if observed.placement is None:
        expected = prediction is not None and prediction.placement is None
        return "match" if expected else "rejected"
    if prediction is None or prediction.placement is None:
        return "unexpected"
    predicted, seen = prediction.placement.zones, observed.placement.zones
    if [(part.numa, part.amounts) for part in predicted] != [(part.numa, part.amounts) for part in seen]:
        return "wrong_zone"
    pairs = zip(predicted, seen, strict=True)
    same = all(not (mine.cpus and theirs.cpus) or mine.cpus == theirs.cpus for mine, theirs in pairs)
    return "match" if same else "wrong_cpus"


# The annotation


class _WireZone(msgspec.Struct, frozen=True, omit_defaults=True):
    zone: str
    amount: dict[str, str]
    cpus: str = ""


def encode(placement: Placement) -> str:
    """The value of the annotation; equal placements give equal bytes."""
    zones = [
        _WireZone(f"{_ZONE}{part.numa}", {name: str(count) for name, count in part.amounts}, part.cpus)
        for part in placement.zones
    ]
    return _ENCODER.encode(zones).decode()


def decode(text: str, source: str) -> Placement:
    """Read an annotation, whoever wrote it; `InputError` for what is none."""
    if len(text) > _MOST_BYTES:
        raise InputError(source, "larger than 256 KiB, which no placement is")
    try:
        entries = msgspec.json.decode(text.encode(errors="surrogatepass"), type=list[_WireZone])
        parts = [_part(entry) for entry in entries]
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        hint = 'expected a form such as [{"zone":"node-0","amount":{"cpu":"8"},"cpus":"1-8"}]'
        raise InputError(source, f"not a placement: {printable(str(error))}", hint=hint) from None
    if len({part.numa for part in parts}) < len(parts):
        raise InputError(source, "not a placement: a zone is listed twice")
    return Placement(tuple(sorted(parts, key=lambda part: part.numa)))


def read(text: str, source: str) -> Placement | None:
    """What an annotation says; anybody may write there, so what is no placement says nothing."""
    try:
        return decode(text, source) if text else None
    except InputError:
        return None


def _part(entry: _WireZone) -> ZonePart:
    number = entry.zone.removeprefix(_ZONE)
    if not entry.zone.startswith(_ZONE) or not (number.isascii() and number.isdigit()) or len(number) > 4:
        raise ValueError(f"{printable(entry.zone, 80)!r} is no zone")
    amounts = {name: Quantity.parse(text) for name, text in entry.amount.items()}
    for name, quantity in amounts.items():
        if quantity.nano < 0:
            raise ValueError(f"{printable(name, 80)} is below zero")
    return ZonePart(
        int(number),
        tuple(sorted((name, quantity.value) for name, quantity in amounts.items() if quantity.nano)),
        str(CpuSet.parse(entry.cpus)) if entry.cpus else "",
    )


def _even_part(block: Block, position: int) -> int:
    """What one of its NUMA nodes has of a block; what does not divide goes to the first ones."""
    each, rest = divmod(block.size, block.nodes.bit_count())
    return each + ((block.nodes & (1 << position) - 1).bit_count() < rest)
