"""Which running pods a node's kubelet would refuse after a restart, or one of another release in its place, and why.

A kubelet admits every pod anew when it starts: one that it refuses then is ended, however long it has run. `numaware doctor
--restart-safe` asks here, for a node from its files or for each node of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from numaware.diagnose.doctor.check import Check, checked, unknown
from numaware.diagnose.finding import Finding, Message, Subject, finding
from numaware.machine.words import printable
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.node import Node
from numaware.twin.readmission import lost_at_restart
from numaware.twin.rules import named_version


def restart_check(name: str, node: Node, version: str = "") -> Check:
    """The pods that would be lost on the node called `name`; `version` is the release it would be upgraded to."""
    release = named_version(version or node.kubelet.config.version)
    strangers = [uid for uid, pod in node.state.pods.items() if not pod.in_order]
    facts = {"node": name, "release": release, "count": len(node.state.pods) - len(strangers)}
    if strangers:
        facts |= {"strangers": len(strangers)}
    try:
        findings = list(_lost(name, node, version, release))
    except StartError as error:
        refusal = _stays_down(name, release, error.message)
        return checked("restart-pods", Message("doctor-restart-pods", facts), [refusal])
    except (KubeletPanic, ValueError) as error:
        return unknown("restart-pods", Message("doctor-restart-unknown", {"why": printable(str(error), 200)}))
    seen = Message("doctor-restart-pods", facts)
    # Who is known only by what it holds cannot be asked about: that is no good news.
    return (
        unknown("restart-pods", seen)
        if strangers and not findings
        else checked("restart-pods", seen, findings)
    )


def stopped_check(name: str, version: str, said: str) -> Check:
    """The same for a node whose kubelet does not start with its files, whoever runs there; `said` are its words."""
    facts = {"node": name, "release": named_version(version), "count": 0}
    refusal = _stays_down(name, named_version(version), said)
    return checked("restart-pods", Message("doctor-restart-pods", facts), [refusal])


def _stays_down(name: str, release: str, said: str) -> Finding:
    facts = {"release": release, "message": printable(said, 600)}
    return finding("restart-kubelet-stops", Subject("Kubelet", node=name), facts, [])


def _lost(name: str, node: Node, version: str, release: str) -> Iterator[Finding]:
    for lost in lost_at_restart(node, version):
        subject = Subject("Pod", namespace=lost.namespace, name=lost.name, node=name)
        facts = {"release": release, "reason": lost.reason, "message": printable(lost.message, 600)}
        yield finding("pod-lost-at-restart", subject, facts, [])
