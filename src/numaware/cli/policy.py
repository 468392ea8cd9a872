"""`numaware policy`: the wanted kubelet policy of a pool, ordered, watched, held and called back."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from cyclopts import App, Parameter

from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, on_cluster
from numaware.cli.options import AsJson, flag, option, repeatable
from numaware.cli.output import write_json
from numaware.cli.tables import table
from numaware.errors import InputError
from numaware.kube import kubelet_policies
from numaware.kube.errors import ApiError
from numaware.kube.kubelet_policies import KubeletPolicy, Order
from numaware.machine.words import printable
from numaware.node.kubelet_switch.edit import wanted_of
from numaware.sentence import Sentence
from numaware.workload.requirements import LABEL_VALUE, QUALIFIED

if TYPE_CHECKING:
    from numaware.kube.client import Client

app = App(name="policy", help="Order a kubelet policy for a pool of nodes, and see how far it is.")

Name = Annotated[str, Parameter(name="NAME", help="The name of the KubeletPolicy.")]
T = TypeVar("T")
_MOST_NAMED = 10


@app.command(name="set")
def set_policy(
    name: Name,
    /,
    *,
    wanted: Annotated[
        list[str] | None, repeatable("FIELD=VALUE, or FIELD.KEY=VALUE for one option.", "--set")
    ] = None,
    where_missing: Annotated[
        list[str] | None, repeatable("The same, only for kubelets that have no such setting.")
    ] = None,
    node_selector: Annotated[
        list[str] | None, repeatable("LABEL=VALUE of the nodes; all nodes if not given.", "--nodes")
    ] = None,
    max_unavailable: Annotated[int, option("How many nodes may be away at once.")] = 1,
    drain: Annotated[bool, flag("Evict the pods that can move before a kubelet stops.")] = False,
    dry_run: Annotated[
        bool, flag("Ask the API server what it says to the order, name its nodes, and order nothing.")
    ] = False,
    cluster: ClusterOptions = USUAL_CLUSTER,
    as_json: AsJson = False,
) -> int:
    """Order a kubelet policy for a pool: agents carry it out, one node at a time.

    Every node is planned by its agent as `numaware kubelet plan` does it: what
    its kubelet would refuse, or what would end running pods, is not begun. The
    first node that fails is put back, and stops all others. Ordering the same
    again tries again.

    Only agents that were started with --allow-kubelet-changes act; the others
    say so (`numaware policy status`).

    Exit code: 0 ordered, 1 with --dry-run if it is for no node, 2 bad input.

    For example:

      numaware policy set gpu --set topologyManagerPolicy=restricted --nodes pool=gpu --dry-run
      numaware policy set gpu --set topologyManagerPolicy=restricted --nodes pool=gpu
      numaware policy set near --set topologyManagerPolicyOptions.prefer-closest-numa-nodes=true --drain
    """
    selector = dict(_label(one) for one in node_selector or ())
    fields = wanted_of(wanted or ())
    if not fields:
        raise InputError("--set", Sentence("names no setting"), hint="--set topologyManagerPolicy=restricted")
    if max_unavailable < 1:
        raise InputError("--max-unavailable", f"{max_unavailable} is less than 1")
    spec = {
        "nodeSelector": selector,
        "kubelet": fields,
        "whereMissing": wanted_of(where_missing or (), source="--where-missing"),
        "maxUnavailable": max_unavailable,
        "drain": drain,
        "order": "Apply",
    }

    async def work(client: Client) -> KubeletPolicy:
        return await kubelet_policies.order_anew(client, name, spec)

    async def look(client: Client) -> tuple[KubeletPolicy, list[str]]:
        policy = await kubelet_policies.order_tried(client, name, spec)
        return policy, await _covered(client, policy)

    if dry_run:
        policy, nodes = _with(cluster, look)
        if as_json:
            write_json({"name": policy.name, "spec": msgspec.to_builtins(policy.spec), "nodes": nodes})
        else:
            sys.stdout.write("\n".join([*_head(policy), *_for_nodes(nodes), ""]))
        return int(not nodes)
    _show([_with(cluster, work)], as_json=as_json)
    return 0


@app.command
def status(
    name: Annotated[str, Parameter(name="NAME", help="One KubeletPolicy; all if not given.")] = "",
    /,
    *,
    cluster: ClusterOptions = USUAL_CLUSTER,
    as_json: AsJson = False,
) -> int:
    """Show how far the orders are, node by node.

    Exit code: 0 done or under way, 1 a node failed or is refused, 2 bad input.

    For example:

      numaware policy status
      numaware policy status gpu --json
    """

    async def work(client: Client) -> list[KubeletPolicy]:
        return (
            [await kubelet_policies.read(client, name)] if name else await kubelet_policies.read_all(client)
        )

    found = _with(cluster, work)
    _show(found, as_json=as_json)
    return int(any(one.phase in ("Failed", "Refused") for policy in found for one in policy.nodes.values()))


@app.command
def pause(name: Name, /, *, cluster: ClusterOptions = USUAL_CLUSTER) -> int:
    """Begin no further node; what is under way is brought to its end. `resume` goes on.

    For example:

      numaware policy pause gpu
    """
    return _ordered(cluster, name, "Pause")


@app.command
def resume(name: Name, /, *, cluster: ClusterOptions = USUAL_CLUSTER) -> int:
    """Go on with an order that was paused.

    For example:

      numaware policy resume gpu
    """
    return _ordered(cluster, name, "Apply")


@app.command
def abort(name: Name, /, *, cluster: ClusterOptions = USUAL_CLUSTER) -> int:
    """Begin no further node, and put back the one that is half-way. What is done stays done.

    For example:

      numaware policy abort gpu
    """
    return _ordered(cluster, name, "Abort")


@app.command(name="rollback")
def roll_back(name: Name, /, *, cluster: ClusterOptions = USUAL_CLUSTER) -> int:
    """Put back, one node at a time, every node that the order has changed.

    For example:

      numaware policy rollback gpu
    """
    return _ordered(cluster, name, "RollBack")


async def _covered(client: Client, policy: KubeletPolicy) -> list[str]:
    """The names of the nodes that an order is for."""
    # Only who asks for them pays for reading nodes.
    from numaware.kube.nodes import decode  # noqa: PLC0415
    from numaware.kube.resources import NODES  # noqa: PLC0415

    nodes = [decode(item) async for page in client.list(NODES) for item in page.items]
    return sorted(node.name for node in nodes if policy.covers(node.labels))


def _for_nodes(nodes: list[str]) -> list[str]:
    count = "1 node" if len(nodes) == 1 else f"{len(nodes) or 'no'} nodes"
    more = len(nodes) - _MOST_NAMED
    named = ", ".join(nodes[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [f"  {count}{f': {named}' if nodes else ' with these labels'}", "Nothing was ordered (--dry-run)."]


def _ordered(cluster: ClusterOptions, name: str, order: Order) -> int:
    async def work(client: Client) -> KubeletPolicy:
        await kubelet_policies.read(client, name)
        return await kubelet_policies.order(client, name, {"order": order})

    _show([_with(cluster, work)], as_json=False)
    return 0


def _with(cluster: ClusterOptions, work: Callable[[Client], Awaitable[T]]) -> T:
    async def told(client: Client, _: str) -> T:
        try:
            return await work(client)
        except ApiError as error:
            hint = Sentence("deploy/crd/kubeletpolicies.yaml brings the kind") if error.not_found else ""
            raise InputError("KubeletPolicy", str(error), hint=hint) from None

    return on_cluster(cluster, told)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    # A value that no label can have would cover no node, and nobody would hear of it.
    if not equals or not QUALIFIED.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
        hint = Sentence("once for each label: --nodes pool=gpu --nodes zone=a")
        raise InputError(f"--nodes {printable(text, 80)}", Sentence("is not LABEL=VALUE"), hint=hint)
    return key, value


def _show(policies: list[KubeletPolicy], *, as_json: bool) -> None:
    if as_json:
        write_json([_document(policy) for policy in policies])
    else:
        for policy in policies:
            sys.stdout.write(page(policy))


def _document(policy: KubeletPolicy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "spec": msgspec.to_builtins(policy.spec),
        "nodes": msgspec.to_builtins(dict(sorted(policy.nodes.items()))),
    }


def _head(policy: KubeletPolicy) -> list[str]:
    spec = policy.spec
    nodes = ", ".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items())) or "all"
    lines = [f"{policy.name}: {spec.order}, nodes {nodes}, at most {spec.max_unavailable} away"]
    return lines + [
        f"  {field}: {msgspec.json.encode(value).decode()}" for field, value in sorted(spec.kubelet.items())
    ]


def page(policy: KubeletPolicy) -> str:
    lines = _head(policy)
    rows = [
        (
            name,
            one.phase
            if one.wanted == policy.wanted or one.phase == "NotAllowed"
            else f"{one.phase} (earlier order)",
            f"{one.step}/{one.steps}" if one.steps else "",
            one.message,
        )
        for name, one in sorted(policy.nodes.items())
    ]
    if not rows:
        return "\n".join([*lines, "  no agent of such a node has answered yet", ""])
    shown = table(("NODE", "PHASE", "STEP", "MESSAGE"), rows)
    return "\n".join(lines) + "\n" + "".join(f"  {line}" for line in shown)
