"""Orders for kubelets (KubeletPolicy objects): all that were given and how far each is, held and called back, or given anew.

What a page shows of an order is worked out here from the object, for a live cluster as for the lab.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.kube import kubelet_policies
from numaware.kube.client import Client
from numaware.kube.decoding import DecodeError
from numaware.kube.errors import ApiError
from numaware.kube.kubelet_policies import KubeletPolicy, Phase
from numaware.kube.kubelet_policies import Order as Command
from numaware.kube.resources import KUBELET_POLICIES
from numaware.kube.reviews import may_i
from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.sentence import Sentence
from numaware.serve.console.views.pod_shape import Policy, Scope
from numaware.serve.console.world import NOTHING, OrderBook, SwitchError, Told

_VERBS = ("list", "create", "update", "patch")
_KIND = "kubeletpolicies.numaware.io"
_MISSING = Sentence(
    "the cluster does not know KubeletPolicy objects: deploy/crd/kubeletpolicies.yaml brings them"
)
_NOWHERE = Sentence("nothing is ordered here")
_POOL_LABEL = "pool"


class NodeProgress(msgspec.Struct, frozen=True, rename="camel"):
    """Where one node stands with an order: at which step of how many, and why; not `current` if with an earlier one."""

    node: str
    phase: Phase
    current: bool
    step: int = 0
    steps: int = 0
    message: str = ""


class Order(msgspec.Struct, frozen=True, rename="camel"):
    """One order: what is wanted of which nodes (`selector`, none means all), what was commanded last, and how far it is."""

    name: str
    command: Command
    wanted: tuple[str, ...]
    selector: tuple[str, ...]
    most_away: int
    drain: bool
    done: int
    failed: int
    waiting: int
    switching: int
    nodes: tuple[NodeProgress, ...]


class Orders(msgspec.Struct, frozen=True, rename="camel"):
    """All orders by name; `locked` says why none may be given or changed from here."""

    orders: tuple[Order, ...] = ()
    locked: Told = NOTHING


class CommandWish(msgspec.Struct, frozen=True):
    """What shall become of an order."""

    command: Command


class OrderWish(msgspec.Struct, frozen=True, rename="camel"):
    """A kubelet policy for a pool, whose name is given twice: `confirm` is typed by whoever orders it."""

    pool: str
    policy: Policy
    scope: Scope
    confirm: str
    drain: bool = False


class NoOrders:
    """Where nothing is ordered: who only looks on says why, of a past that is over nothing need be said."""

    policies: Sequence[KubeletPolicy] = ()

    def __init__(self, locked: Sentence = _NOWHERE) -> None:
        self.locked = locked

    async def read(self) -> None:
        """There is nothing to read."""

    async def give(self, name: str, spec: Mapping[str, Any]) -> None:  # noqa: ARG002 - nobody is there to do it
        raise SwitchError(_NOWHERE)

    async def change(self, name: str, command: Command) -> None:  # noqa: ARG002 - as above
        raise SwitchError(_NOWHERE)


class ClusterOrders:
    """The objects of a cluster, which the agents of its nodes carry out."""

    def __init__(self, client: Client) -> None:
        self.policies: Sequence[KubeletPolicy] = ()
        self.locked = Sentence("it has not been read yet")
        self._client = client

    async def read(self) -> None:
        try:
            verbs = [verb for verb in _VERBS if not await may_i(self._client, verb, KUBELET_POLICIES)]
            self.policies = () if "list" in verbs else await kubelet_policies.read_all(self._client)
        except ApiError as error:
            self.policies = ()
            self.locked = _MISSING if error.not_found else _refusal(error)
        except DecodeError as error:
            self.policies = ()
            self.locked = _refusal(error)
        else:
            self.locked = _locked(verbs[0]) if verbs else Sentence()

    async def give(self, name: str, spec: Mapping[str, Any]) -> None:
        try:
            await kubelet_policies.order_anew(self._client, name, spec)
        except ApiError as error:
            raise SwitchError(_refusal(error)) from None

    async def change(self, name: str, command: Command) -> None:
        try:
            await kubelet_policies.read(self._client, name)
            await kubelet_policies.order(self._client, name, {"order": command})
        except ApiError as error:
            if error.not_found:
                raise KeyError(name) from None
            raise SwitchError(_refusal(error)) from None


def orders_of(book: OrderBook) -> Orders:
    """What is shown of them."""
    return Orders(tuple(_shown(policy) for policy in book.policies), book.locked)


def _shown(policy: KubeletPolicy) -> Order:
    nodes = tuple(
        NodeProgress(
            name,
            one.phase,
            one.phase == "NotAllowed" or one.wanted == policy.wanted,
            one.step,
            one.steps,
            one.message,
        )
        for name, one in sorted(policy.nodes.items())
    )
    counts = Counter(one.phase if one.current else "Pending" for one in nodes)
    spec = policy.spec
    return Order(
        policy.name,
        spec.order,
        tuple(_lines(spec.kubelet)),
        tuple(f"{key}={value}" for key, value in sorted(spec.node_selector.items())),
        spec.max_unavailable,
        spec.drain,
        counts["RolledBack" if spec.order == "RollBack" else "Done"],
        counts["Failed"] + counts["Refused"] + counts["NotAllowed"],
        counts["Pending"] + (counts["Done"] if spec.order == "RollBack" else 0),
        counts["Switching"],
        nodes,
    )


def _lines(kubelet: Mapping[str, Any]) -> list[str]:
    """Field by field, an option of a map as one of its own."""
    lines = []
    for field, value in sorted(kubelet.items()):
        if isinstance(value, dict):
            lines += [f"{field}.{key}={member}" for key, member in sorted(value.items())]
        else:
            lines.append(f"{field}={value}")
    return lines


def pool_spec(members: Sequence[Member], wish: OrderWish) -> tuple[str, dict[str, Any]]:
    """The name and the spec of an order for a pool; `InputError` where it was not confirmed, or no label makes it a pool."""
    if wish.confirm != wish.pool:
        raise InputError("confirm", Sentence("is not the name of the pool"))
    if any(dict(member.facts.labels).get(_POOL_LABEL) != wish.pool for member in members):
        raise InputError(
            "pool",
            Sentence("the nodes of {pool} have no label that says so", pool=printable(wish.pool, 80)),
            hint=Sentence(
                "label them pool={pool}, or use `numaware policy set`", pool=printable(wish.pool, 80)
            ),
        )
    spec = {
        "nodeSelector": {_POOL_LABEL: wish.pool},
        "kubelet": {"topologyManagerPolicy": wish.policy, "topologyManagerScope": wish.scope},
        "drain": wish.drain,
        "order": "Apply",
    }
    return f"pool-{wish.pool}".lower(), spec


def _locked(verb: str) -> Sentence:
    return Sentence("the account of this console may not {verb} {what}", verb=verb, what=_KIND)


def _refusal(error: Exception) -> Sentence:
    return Sentence("the API server says: {problem}", problem=str(error))
