"""What can be switched, what a switch would change, and what another kubelet policy would mean for a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

import msgspec
import structlog

from numaware.diagnose.reason import Reason
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.sentence import Sentence, quoted
from numaware.serve.console.orders import CommandWish, Orders, OrderWish, orders_of, pool_spec
from numaware.serve.console.views.pod_shape import Policy, Scope
from numaware.serve.console.views.wall_model import pool_of
from numaware.serve.console.world import NOTHING, Change, Source, Status, Switch, SwitchError, Told, World
from numaware.twin.account import is_aligned, numa_nodes
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.node import Node

_log = structlog.get_logger(__name__)

Sign = Literal["+", "-", " "]
_CONTEXT = 2


class DiffLine(msgspec.Struct, frozen=True):
    """One line of a difference."""

    sign: Sign
    text: str


class Pool(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that belong together, and the kubelet policy that most of them have."""

    name: str
    nodes: int
    policy: str
    scope: str
    mixed: bool


class Policies(msgspec.Struct, frozen=True, rename="camel"):
    """Switches, pools, orders to kubelets and history, how all that is known and when it was read.

    `undo` is how the switch that was moved last stood before, None where that cannot be had again.
    """

    switches: tuple[Switch, ...]
    pools: tuple[Pool, ...]
    orders: Orders
    changes: tuple[Change, ...]
    undo: Status | None
    source: Source
    time: int


class SwitchWish(msgspec.Struct, frozen=True, rename="camel"):
    """How a switch should stand; with `dryRun` nothing is changed."""

    status: Status
    dry_run: bool = False


class SwitchAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The switch as it stands now, and what differs (or would differ)."""

    switch: Switch
    changed: bool
    diff: tuple[DiffLine, ...]
    added: int
    removed: int


class PolicyWish(msgspec.Struct, frozen=True, rename="camel"):
    """A kubelet policy to try on a pool; nothing is changed."""

    pool: str
    policy: Policy
    scope: Scope


class NodeOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """A node after its kubelet was drained of its state and restarted: which of its pods would not come back.

    Of `owning` pods, those with something of their own, so many are aligned before and after.
    """

    node: str
    pods: int
    refused: tuple[str, ...]
    problem: Told = NOTHING
    aligned_before: int = 0
    aligned_after: int = 0
    owning: int = 0


class PolicyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What the policy would mean, node by node; `diff` is what kubelets would be told, most of them being as the pool is."""

    pool: str
    diff: tuple[DiffLine, ...]
    nodes: tuple[NodeOutcome, ...]
    pods: int
    refused: int
    aligned_before: int
    aligned_after: int
    owning: int


async def policies_of(world: World) -> Policies:
    """All there is to switch; the newest change first."""
    await world.read_switches()
    counts: Counter[tuple[str, str, str]] = Counter()
    for member in world.cluster:
        config = member.node.kubelet.config
        counts[pool_of(member), config.topology_policy, config.topology_scope] += 1
    pools: dict[str, list[tuple[int, str, str]]] = {}
    for (name, policy, scope), number in counts.items():
        pools.setdefault(name, []).append((-number, policy, scope))
    found = [
        Pool(name, -sum(number for number, *_ in kinds), *min(kinds)[1:], len(kinds) > 1)
        for name, kinds in sorted(pools.items())
    ]
    switches, changes = tuple(world.switches), tuple(reversed(world.changes))
    source: Source = "modelled" if world.kind == "lab" else "reported"
    return Policies(
        switches, tuple(found), orders_of(world.orders), changes, _undo(switches, changes), source, world.now
    )


def _undo(switches: Sequence[Switch], changes: Sequence[Change]) -> Status | None:
    """How the last change is taken back: not if that was done already, or somebody else has moved the switch since."""
    if not changes or changes[0].problem:
        return None
    last = changes[0]
    return last.before if any((one.id, one.status) == (last.switch, last.after) for one in switches) else None


async def find(world: World, name: str) -> Switch | None:
    """The switch as it stands now."""
    await world.read_switches()
    return next((switch for switch in world.switches if switch.id == name), None)


def preview(world: World, switch: Switch, wish: SwitchWish) -> SwitchAnswer:
    """What moving the switch would change."""
    if switch.broken:
        raise SwitchError(switch.broken)
    return _answer(switch, switch.conf, world.switched_conf(switch.id, wish.status))


async def move(world: World, switch: Switch, wish: SwitchWish, by: str) -> SwitchAnswer:
    """Move it; every such wish is written to the log, with what became of it."""
    told = {"switch": switch.id, "before": switch.status, "wanted": wish.status, "by": by}
    try:
        after = await world.set_switch(switch.id, wish.status, by)
    except SwitchError as error:
        _log.warning("not switched", **told, problem=str(error))
        raise
    _log.info("switched", **told, changed=switch.conf != after.conf)
    return _answer(after, switch.conf, after.conf)


async def order_pool(world: World, wish: OrderWish, by: str) -> Orders:
    """Order a kubelet policy for a pool; `InputError` where it was not confirmed, `SwitchError` where it may not be."""
    name, spec = pool_spec(pool_members(world, wish.pool), wish)
    if world.orders.locked:
        raise SwitchError(world.orders.locked)
    await world.orders.give(name, spec)
    _log.info("kubelets ordered", order=name, by=by, **spec["kubelet"])
    await world.orders.read()
    return orders_of(world.orders)


async def command(world: World, name: str, wish: CommandWish, by: str) -> Orders:
    """Hold an order, go on with it, or call it back; `KeyError` if there is none of that name."""
    if world.orders.locked:
        raise SwitchError(world.orders.locked)
    await world.orders.change(name, wish.command)
    _log.info("order changed", order=name, command=wish.command, by=by)
    await world.orders.read()
    return orders_of(world.orders)


def _answer(switch: Switch, before: str, after: str) -> SwitchAnswer:
    diff = difference(before, after)
    signs = Counter(line.sign for line in diff)
    return SwitchAnswer(switch, before != after, diff, signs["+"], signs["-"])


def difference(before: str, after: str) -> tuple[DiffLine, ...]:
    """The lines that differ with a little of what stands around them; nothing if nothing does."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        for what, old_from, old_to, new_from, new_to in group:
            if what == "equal":
                lines += [DiffLine(" ", text) for text in old[old_from:old_to]]
                continue
            lines += [DiffLine("-", text) for text in old[old_from:old_to]]
            lines += [DiffLine("+", text) for text in new[new_from:new_to]]
    return tuple(lines)


def pool_members(world: World, pool: str) -> list[Member]:
    """The nodes of a pool, as they are now; `InputError` for a pool without any."""
    members = [member for member in world.cluster if pool_of(member) == pool]
    if not members:
        raise InputError("pool", Sentence("there is no pool {name!r}", name=printable(pool, 80)))
    return members


def try_policy(members: Sequence[Member], wish: PolicyWish) -> PolicyAnswer:
    """Restart the kubelets of a pool, in thought, with empty state files and another policy."""
    found = tuple(_restarted(member, wish) for member in members)
    ((policy, scope), _), *_ = Counter(_topology(member) for member in members).most_common(1)
    return PolicyAnswer(
        wish.pool,
        difference(_told(policy, scope), _told(wish.policy, wish.scope)),
        found,
        sum(one.pods for one in found),
        sum(len(one.refused) for one in found),
        sum(one.aligned_before for one in found),
        sum(one.aligned_after for one in found),
        sum(one.owning for one in found),
    )


def _topology(member: Member) -> tuple[str, str]:
    config = member.node.kubelet.config
    return config.topology_policy, config.topology_scope


def _told(policy: str, scope: str) -> str:
    """As a KubeletConfiguration says it."""
    return f"topologyManagerPolicy: {policy}\ntopologyManagerScope: {scope}\n"


def _restarted(member: Member, wish: PolicyWish) -> NodeOutcome:
    node = member.node
    config = msgspec.structs.replace(
        node.kubelet.config, topology_policy=wish.policy, topology_scope=wish.scope
    )
    pods = node.state.pods
    try:
        fresh = Node.fresh(node.kubelet.hardware, config)
    except (StartError, ValueError) as error:
        return NodeOutcome(member.name, len(pods), (), quoted(printable(str(error), 300)))
    refused = []
    for pod in pods.values():
        try:
            verdict = fresh.admit(pod)
        except KubeletPanic as crash:
            why = Reason("kubelet-crash", (str(crash),))
            return NodeOutcome(member.name, len(pods), (), Sentence("{reason}", reason=why))
        fresh = verdict.node
        if not verdict.admitted:
            refused.append(f"{pod.namespace}/{pod.name}")
    before, after = _aligned(node), _aligned(fresh)
    return NodeOutcome(
        member.name,
        len(pods),
        tuple(refused),
        aligned_before=sum(before.values()),
        aligned_after=sum(after.values()),
        owning=len(before.keys() | after.keys()),
    )


def _aligned(node: Node) -> dict[str, bool]:
    """Of each pod that has something of its own whether it lies on as few NUMA nodes as it can."""
    lying = {uid: numa_nodes(node, uid) for uid in node.state.pods}
    return {uid: is_aligned(node, node.state.pods[uid], nodes) for uid, nodes in lying.items() if nodes}
