"""One moment of a node, and of what is not on any node, as bytes and back.

Everything is decoded by its type, so that a file can bring no more than values. What many snapshots have in common, the
machine with its kubelet's settings and the templates that pods are made from, is kept once and called by a number: how
the two functions that find it are made is the file's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from numaware.schedule.candidate_twins import CandidateTwin, candidate_twins
from numaware.schedule.cluster import Load
from numaware.schedule.ledger import Placement, ZonePart
from numaware.schedule.node_facts import NodeFacts
from numaware.schedule.partial_node import PartialNode
from numaware.schedule.published_counts import Counts
from numaware.sentence import Sentence, quoted
from numaware.serve.console.world import Change, Event, Happening, Source, Story, Switch, Waiting
from numaware.twin.account import ContainerPlacement
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.node import Node
from numaware.twin.node_codec import ConfigText, EncodedState
from numaware.workload.demand import Amounts
from numaware.workload.pod import Pod


class Ground(msgspec.Struct, frozen=True, array_like=True):
    """A machine and its kubelet's settings."""

    hardware: Hardware
    config: ConfigText


class Heard(NamedTuple):
    """How a node is known, since when, and whether that was lately: then its age stays what it was, else it grows."""

    source: Source
    at: int
    age: int
    lately: bool


class NodeMoment(NamedTuple):
    """A node as it was: facts, load, the letters of its pods, how these came there, and how all of it is known."""

    facts: NodeFacts
    load: Load
    letters: Mapping[str, int]
    stories: Mapping[str, Story]
    heard: Heard


class ClusterMoment(NamedTuple):
    """What is on no node: pods that wait, switches, and those that were moved."""

    waiting: Mapping[str, Waiting]
    switches: tuple[Switch, ...]
    changes: tuple[Change, ...]


# A placement without the names of its fields: zones, then containers. A node with all the pods it may have should not be
# longer than what a dictionary can be (32 KiB).
_Zone = tuple[int, Amounts, str]
_Container = tuple[
    str,
    str,
    tuple[tuple[tuple[int, ...], str, int], ...],
    tuple[tuple[str, tuple[tuple[int, int], ...]], ...],
]
_Place = tuple[tuple[_Zone, ...], tuple[_Container, ...]]


class _Story(msgspec.Struct, frozen=True, array_like=True):
    """`observed` is None where a pod was seen just where it was predicted to be, and `as_predicted` says so."""

    since: int
    owner: str
    scheduler: str
    predicted: _Place | None
    as_predicted: bool
    observed: _Place | None


class _Pod(msgspec.Struct, frozen=True, array_like=True):
    uid: str
    name: str
    namespace: str
    template: int
    letter: int | None = None
    story: _Story | None = None


class _Waits(msgspec.Struct, frozen=True, array_like=True):
    pod: _Pod
    owner: str
    since: int
    message: str


class _Node(msgspec.Struct, frozen=True, array_like=True):
    """A node that is known by counts has those and the state of every candidate twin, any other its ground and one state."""

    facts: NodeFacts
    heard: Heard
    ground: int | None
    counts: Counts | None
    exact: bool
    states: tuple[EncodedState, ...]
    pods: tuple[_Pod, ...]
    used: dict[str, int]
    shares: dict[int, int]
    sharers: dict[str, int]
    astray: tuple[str, ...]


class _Cluster(msgspec.Struct, frozen=True, array_like=True):
    waiting: tuple[_Waits, ...]
    switches: tuple[Switch, ...]
    changes: tuple[Change, ...]


class _Event(msgspec.Struct, frozen=True, array_like=True):
    """What happened, without its number and time."""

    kind: Happening
    pod: str
    node: str
    owner: str
    reason: str
    message: str
    # Older files have none.
    change: Change | None = None


def _kept_sentence(sentence: Sentence) -> tuple[str, dict[str, Any]]:
    return sentence.template, sentence.facts


def _sentence(_: type, kept: Any) -> Sentence:
    """A sentence as it was kept (of older files only its English is known); `ValueError` for what is none."""
    if isinstance(kept, str):
        return quoted(kept)
    try:
        template, facts = kept
        told = {name: _sentence(_, fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
        sentence = Sentence(template, **told)
        str(sentence)
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"no sentence: {error}") from None
    return sentence


_ENCODER = msgspec.json.Encoder(enc_hook=_kept_sentence)
_NODE, _CLUSTER = msgspec.json.Decoder(_Node), msgspec.json.Decoder(_Cluster, dec_hook=_sentence)
_EVENT = msgspec.json.Decoder(_Event, dec_hook=_sentence)
_TEMPLATE, _GROUND = msgspec.json.Decoder(Pod), msgspec.json.Decoder(Ground)


def packed_event(event: Event) -> str:
    _, _, *rest = msgspec.structs.astuple(event)
    return _ENCODER.encode(rest).decode()


def event_of(number: int, time: int, data: str) -> Event:
    return Event(number, time, *msgspec.structs.astuple(_EVENT.decode(data)))


class Packer:
    """Moments to bytes; `number_of` keeps what it is given and tells its number, the same for the same bytes."""

    def __init__(self, number_of: Callable[[bytes], int]) -> None:
        self._number_of = number_of

    def node(self, moment: NodeMoment) -> bytes:
        load = moment.load
        node = load.node
        ground, counts, exact = None, None, True
        twins: tuple[Node, ...] = (node,)
        if isinstance(node, PartialNode):
            counts, exact = node.counts, node.exact
            twins = tuple(candidate.node for candidate in node.candidate_twins)
        else:
            ground = self._number_of(_encoded_ground(node.kubelet))
        return msgspec.json.encode(
            _Node(
                moment.facts,
                moment.heard,
                ground,
                counts,
                exact,
                tuple(EncodedState.of(twin.state) for twin in twins),
                tuple(
                    self._pod(uid, pod, moment.letters.get(uid), moment.stories.get(uid))
                    for uid, pod in node.state.pods.items()
                ),
                dict(load.used),
                dict(load.shares),
                dict(load.sharers),
                tuple(sorted(load.astray)),
            )
        )

    def cluster(self, moment: ClusterMoment) -> bytes:
        waiting = tuple(
            _Waits(self._pod(uid, waiting.pod), waiting.owner, waiting.since, waiting.message)
            for uid, waiting in moment.waiting.items()
        )
        return _ENCODER.encode(_Cluster(waiting, moment.switches, moment.changes))

    def _pod(self, uid: str, pod: Pod, letter: int | None = None, story: Story | None = None) -> _Pod:
        template = msgspec.structs.replace(pod, name="", namespace="", uid="")
        number = self._number_of(msgspec.json.encode(template))
        return _Pod(uid, pod.name, pod.namespace, number, letter, _packed_story(story) if story else None)


class Unpacker:
    """Bytes to moments; `value_of` gives back what has a number. Kubelets and templates are made once."""

    def __init__(self, value_of: Callable[[int], bytes]) -> None:
        self._value_of = value_of
        self._kubelets: dict[int, Kubelet] = {}
        self._templates: dict[int, Pod] = {}

    def node(self, data: bytes) -> NodeMoment:
        """`ValueError` for what is no node."""
        stored = _NODE.decode(data)
        pods = {pod.uid: self._pod(pod) for pod in stored.pods}
        return NodeMoment(
            stored.facts,
            Load(
                self._node(stored, pods), stored.used, stored.shares, stored.sharers, frozenset(stored.astray)
            ),
            {pod.uid: pod.letter for pod in stored.pods if pod.letter is not None},
            {pod.uid: _story(pod.story) for pod in stored.pods if pod.story is not None},
            stored.heard,
        )

    def cluster(self, data: bytes) -> ClusterMoment:
        stored = _CLUSTER.decode(data)
        return ClusterMoment(
            {
                waiting.pod.uid: Waiting(
                    self._pod(waiting.pod), waiting.owner, waiting.since, waiting.message
                )
                for waiting in stored.waiting
            },
            stored.switches,
            stored.changes,
        )

    def _node(self, stored: _Node, pods: dict[str, Pod]) -> Node:
        if stored.counts is not None:
            made = candidate_twins(stored.counts)
            after = tuple(
                CandidateTwin(candidate.assumed, Node(candidate.node.kubelet, state.state(pods)))
                for candidate, state in zip(made, stored.states, strict=True)
            )
            return PartialNode(stored.counts, after, exact=stored.exact)
        if stored.ground is None or len(stored.states) != 1:
            raise ValueError("a node without its machine")
        return Node(self._kubelet(stored.ground), stored.states[0].state(pods))

    def _pod(self, packed: _Pod) -> Pod:
        template = self._templates.get(packed.template)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[packed.template] = _TEMPLATE.decode(self._value_of(packed.template))
        return msgspec.structs.replace(template, name=packed.name, namespace=packed.namespace, uid=packed.uid)

    def _kubelet(self, number: int) -> Kubelet:
        known = self._kubelets.get(number)
        if known is None:
            if len(self._kubelets) >= _MOST_KUBELETS:
                self._kubelets.clear()
            ground = _GROUND.decode(self._value_of(number))
            known = self._kubelets[number] = start(ground.hardware, ground.config.configuration())
        return known


_MOST_TEMPLATES = 50_000
_MOST_KUBELETS = 5_000


@lru_cache(maxsize=_MOST_KUBELETS)
def _encoded_ground(kubelet: Kubelet) -> bytes:
    return msgspec.json.encode(Ground(kubelet.hardware, ConfigText.of(kubelet.config)))


def _packed_story(story: Story) -> _Story:
    same = story.predicted == story.observed
    predicted, observed = _place(story.predicted), None if same else _place(story.observed)
    return _Story(story.since, story.owner, story.scheduler, predicted, same, observed)


def _story(packed: _Story) -> Story:
    predicted = _placement(packed.predicted)
    observed = predicted if packed.as_predicted else _placement(packed.observed)
    return Story(packed.since, packed.owner, predicted, observed, packed.scheduler)


def _place(placement: Placement | None) -> _Place | None:
    if placement is None:
        return None
    return (
        tuple((zone.numa, zone.amounts, zone.cpus) for zone in placement.zones),
        tuple((part.name, part.cpus, part.memory, part.devices) for part in placement.containers),
    )


def _placement(place: _Place | None) -> Placement | None:
    if place is None:
        return None
    zones, containers = place
    return Placement(
        tuple(ZonePart(*zone) for zone in zones), tuple(ContainerPlacement(*one) for one in containers)
    )
