"""A cluster examined: its components, the policies of its node pools, and whether what is published of nodes is true.

The view is a plain value that somebody else fetched, so that the checks are the same for every source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from numaware.diagnose.doctor import volcano
from numaware.diagnose.doctor.check import Check, checked, unknown, worst_first
from numaware.diagnose.doctor.component import MOST, Component, about, node_facts, unready
from numaware.diagnose.doctor.volcano import NumaAware
from numaware.diagnose.finding import Evidence, Finding, Message, Severity, Subject
from numaware.diagnose.rules.lint import World, lint
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.rules import named_version, rules_for

_ROLE = "node-role.kubernetes.io/"
_POOL_LABELS = (
    "numaware.io/pool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
    "node.kubernetes.io/instance-type",
)
# The first releases with NRI.
_NRI_SINCE = {"containerd": (1, 7), "cri-o": (1, 26)}
# How many minor versions a kubelet may be behind the API server.
_SKEW = 3


class ClusterNode(NamedTuple):
    """One node as the API server has it; `pool` is what its provider calls the group it belongs to, `runtime` what the Node
    says of its containers: containerd://1.7.2.
    """

    name: str
    pool: str
    ready: bool
    kubelet: str
    runtime: str = ""


class NodeTopology(NamedTuple):
    """What is published of one node: by whom, its policy and scope; `current` is None where nothing tells."""

    node: str
    publisher: str
    policy: str
    scope: str
    current: bool | None
    problem: str = ""


class ClusterView(NamedTuple):
    """All that is looked at. `topologies` is None where the cluster does not know such objects."""

    name: str
    version: str
    nodes: tuple[ClusterNode, ...]
    topologies: tuple[NodeTopology, ...] | None
    components: tuple[Component, ...]
    configs: tuple[tuple[str, bytes], ...] | None
    own_version: str
    numa_aware: NumaAware = "no-volcano"


def examine_cluster(view: ClusterView) -> tuple[Check, ...]:
    """All checks, the worst first."""
    return tuple(
        worst_first(
            [
                _kubelets(view),
                _agent(view),
                _scheduler(view),
                *_runtimes(view),
                *_plugins(view),
                *volcano.examine(view.components, view.numa_aware),
                *_topologies(view),
                *_pools(view),
                _configs(view),
            ]
        )
    )


# Components


def _kubelets(view: ClusterView) -> Check:
    versions = Counter(node.kubelet for node in view.nodes)
    facts = {
        "server": view.version,
        "versions": [f"{count}x {named_version(version)}" for version, count in sorted(versions.items())],
    }
    return checked("kubelets", Message("doctor-kubelets", facts), _kubelet_findings(view))


def _kubelet_findings(view: ClusterView) -> Iterator[Finding]:
    down = [node.name for node in view.nodes if not node.ready]
    if down:
        yield about("nodes-not-ready", node_facts(down))
    server = _minor(view.version)
    old = [
        node.name
        for node in view.nodes
        if server is not None and (minor := _minor(node.kubelet)) is not None and minor < server - _SKEW
    ]
    if old:
        facts = {"component": "kubelet", **node_facts(old), "wanted": f"v1.{(server or 0) - _SKEW}"}
        yield about("component-old", facts, "kubelet")


def _minor(version: str) -> int | None:
    try:
        return rules_for(version).minor
    except ValueError:
        return None


def _agent(view: ClusterView) -> Check:
    agent = _component(view, "numaware-agent")
    others = sorted({one.publisher for one in view.topologies or () if one.publisher != "numaware"})
    if agent is None:
        seen = Message("doctor-no-agent", {"others": others} if others else {})
        if others:
            return unknown("agent", seen)
        return checked("agent", seen, [about("component-missing", {"component": "numaware-agent"}, "agent")])
    return checked("agent", _state(agent), _agent_findings(view, agent))


def _agent_findings(view: ClusterView, agent: Component) -> Iterator[Finding]:
    without = [node.name for node in view.nodes if node.ready and node.name not in agent.nodes]
    if without:
        yield about("component-missing", node_facts(without, component=agent.name), "on-nodes")
    yield from unready(agent)
    yield from _old(agent, view.own_version)


def _scheduler(view: ClusterView) -> Check:
    scheduler = _component(view, "numaware-scheduler") or _component(view, "numaware-extender")
    if scheduler is None:
        return unknown("scheduler", Message("doctor-no-scheduler"))
    return checked("scheduler", _state(scheduler), [*unready(scheduler), *_old(scheduler, view.own_version)])


def _runtimes(view: ClusterView) -> Iterator[Check]:
    """Which run-time runs containers, and whether it has NRI at all; that it is on, only the node's own files tell."""
    runtimes = Counter(node.runtime for node in view.nodes if node.runtime)
    if not runtimes:
        return
    old = [node for node in view.nodes if not _may_have_nri(node.runtime)]
    facts = node_facts(
        [node.name for node in old], runtime=", ".join(sorted({printable(node.runtime, 60) for node in old}))
    )
    # Who adjusts containers while they run cannot do without.
    severity: Severity = "warning" if _component(view, "numaadj") else "info"
    seen = Message(
        "doctor-runtimes", {"versions": [f"{count}x {name}" for name, count in sorted(runtimes.items())]}
    )
    yield checked("runtimes", seen, [about("runtime-without-nri", facts, severity=severity)] if old else [])


def _may_have_nri(runtime: str) -> bool:
    """`containerd://1.6.8` is too old; of a run-time that nobody knows, nothing is said."""
    name, _, version = runtime.partition("://")
    return name not in _NRI_SINCE or not _numbers(version) or _numbers(version) >= _NRI_SINCE[name]


def _plugins(view: ClusterView) -> Iterator[Check]:
    plugins = [one for one in view.components if "device-plugin" in one.name]
    if plugins:
        shown = [f"{printable(one.name, 80)} {one.ready}/{one.pods}" for one in plugins[:MOST]]
        findings = [finding for one in plugins[:MOST] for finding in unready(one)]
        yield checked("device-plugins", Message("doctor-cluster-plugins", {"plugins": shown}), findings)


def _component(view: ClusterView, name: str) -> Component | None:
    return next((one for one in view.components if one.name == name), None)


def _old(component: Component, wanted: str) -> Iterator[Finding]:
    behind = [one for one in component.versions if _numbers(one) and _numbers(one) < _numbers(wanted)]
    if behind:
        facts = {"component": component.name, "versions": behind[:MOST], "wanted": wanted}
        yield about("component-old", facts)


def _numbers(version: str) -> tuple[int, ...]:
    """`v0.1.0-dirty` as (0, 1, 0); empty where it is no version."""
    parts = version.lstrip("v").partition("-")[0].split(".")
    return (
        tuple(int(part) for part in parts)
        if all(part.isdecimal() and len(part) < 9 for part in parts)
        else ()
    )


# What is published of nodes


def _topologies(view: ClusterView) -> Iterator[Check]:
    if view.topologies is None:
        yield checked(
            "topology-objects",
            Message("doctor-no-topology-kind"),
            [about("component-missing", {"component": "NodeResourceTopology"}, "kind")],
        )
        return
    publishers = Counter(one.publisher for one in view.topologies)
    shown = [f"{count}x {publisher}" for publisher, count in sorted(publishers.items())] or ["0"]
    known = {one.node for one in view.topologies}
    findings = []
    without = [node.name for node in view.nodes if node.name not in known]
    if without:
        findings.append(about("nodes-without-topology", node_facts(without)))
    broken = [one for one in view.topologies if one.problem]
    findings += [
        about("topology-unusable", {"node": one.node, "publisher": one.publisher, "message": one.problem})
        for one in broken[:MOST]
    ]
    yield checked("topology-objects", Message("doctor-topologies", {"publishers": shown}), findings)
    yield _freshness(view)


def _freshness(view: ClusterView) -> Check:
    names = {node.name for node in view.nodes}
    published = [one for one in view.topologies or () if one.node in names and not one.problem]
    stale = [one.node for one in published if one.current is False]
    gone = sorted({one.node for one in view.topologies or () if one.node not in names})
    findings = []
    if stale:
        findings.append(about("topology-stale", node_facts(stale)))
    if gone:
        findings.append(about("topology-stale", node_facts(gone), "gone", "info"))
    current = sum(one.current is True for one in published)
    seen = Message("doctor-fresh", {"current": current, "count": len(published)})
    if published and not findings and not current:
        return unknown("topology-fresh", Message("doctor-fresh-unknown"))
    return checked("topology-fresh", seen, findings)


# Policies


def _pools(view: ClusterView) -> Iterator[Check]:
    """One check for each pool: its nodes should be alike."""
    by_node = {one.node: one for one in view.topologies or () if not one.problem}
    pools: dict[str, Counter[str]] = {}
    for node in view.nodes:
        published = by_node.get(node.name)
        policy = f"{published.policy or '?'}/{published.scope or '?'}" if published else "?"
        pools.setdefault(node.pool, Counter())[policy] += 1
    lines = [
        f"{printable(pool, 60) or '-'}: {', '.join(f'{count}x {policy}' for policy, count in sorted(seen.items()))}"
        for pool, seen in sorted(pools.items())[:MOST]
    ]
    findings = [
        about("policies-differ", {"pool": printable(pool, 60), "policies": known})
        for pool, seen in sorted(pools.items())
        if pool and len(known := sorted(policy for policy in seen if policy != "?")) > 1
    ]
    if lines:
        yield checked("policies", Message("doctor-pools", {"pools": lines}), findings)


def _configs(view: ClusterView) -> Check:
    """The configurations that kubelets themselves report, judged as lint does; equal findings are told once."""
    if not view.configs:
        return unknown("kubelet-configs", Message("doctor-no-configz"))
    versions = {node.name: node.kubelet for node in view.nodes}
    nodes_by_finding: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for node, data in view.configs:
        for one in _config_findings(node, data, versions.get(node, DEFAULT_VERSION)):
            if one.severity != "info":
                key = (one.code, str(sorted(one.facts.items(), key=str)))
                nodes_by_finding.setdefault(key, (one, []))[1].append(node)
    findings = [
        msgspec.structs.replace(
            one,
            subject=Subject("Kubelet", name=nodes[0], node=nodes[0]),
            facts={**one.facts, "nodes": nodes[:MOST]},
            evidence=(Evidence(f"configz of {nodes[0]}"),),
        )
        for one, nodes in nodes_by_finding.values()
    ]
    return checked("kubelet-configs", Message("doctor-configz", {"count": len(view.configs)}), findings)


def _config_findings(node: str, data: bytes, version: str) -> list[Finding]:
    # A kubelet that answers runs with what it answers: a version that nobody knows is taken for today's.
    known = version if _minor(version) is not None else DEFAULT_VERSION
    try:
        return lint(data, f"configz of {node}", World(version=known)).findings
    except InputError:
        return []


def _state(component: Component) -> Message:
    facts = {"ready": component.ready, "pods": component.pods, "versions": list(component.versions)}
    return Message("doctor-component", facts)


def pool_of(labels: Sequence[tuple[str, str]]) -> str:
    """The group of machines that a provider or an administrator put a node into; empty if nothing says."""
    known = dict(labels)
    for label in _POOL_LABELS:
        if known.get(label):
            return known[label]
    roles = sorted(name.removeprefix(_ROLE) for name in known if name.startswith(_ROLE) and name != _ROLE)
    return ",".join(roles)
