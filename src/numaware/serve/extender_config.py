"""What makes kube-scheduler or Volcano ask the extender: a whole configuration for the one, a plugin for the other.

kube-scheduler treats a refused bind like one that nobody answered: with `ignorable` it binds by itself. So an extender that
binds is never ignorable, and one that may be ignored does not bind; there is no third way to answer.
"""

from __future__ import annotations

import json
from typing import Literal

Fail = Literal["open", "closed"]

# Where kubeadm puts it.
SCHEDULER_KUBECONFIG = "/etc/kubernetes/scheduler.conf"


def for_kube_scheduler(
    url: str,
    *,
    fail: Fail,
    weight: int,
    node_cache: bool,
    ca: str | None = None,
    managed: tuple[str, ...] = (),
    kubeconfig: str = SCHEDULER_KUBECONFIG,
) -> str:
    """A KubeSchedulerConfiguration with the extender in it, complete as it stands.

    `managed` are the resources that make a pod be asked about, `kubeconfig` is kube-scheduler's own: it does not look at its
    flag --kubeconfig once it has a file.
    """
    tls = _https(url)
    binds = fail == "closed"
    lines = [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "kind: KubeSchedulerConfiguration",
        "clientConnection:",
        f"  kubeconfig: {json.dumps(kubeconfig, ensure_ascii=False)}",
        "extenders:",
        f"  - urlPrefix: {url}/extender",
        "    filterVerb: filter",
        "    prioritizeVerb: prioritize",
        *(
            (
                "    # The extender binds: it puts each pod on the books before the next one is asked about, and what it",
                "    # refuses by then is not bound.",
                "    bindVerb: bind",
            )
            if binds
            else (
                "    # No bindVerb: kube-scheduler would bind what the extender refuses, because it may ignore it. So it binds",
                "    # by itself, and of two pods that come close after each other a kubelet may refuse one.",
            )
        ),
        "    # One point here weighs as much as one of kube-scheduler's own plugins with this weight.",
        f"    weight: {weight}",
        "    # A bind goes through the API server, and waits for the one before it on the same node.",
        "    httpTimeout: 5s",
        "    # Names are enough: the extender has its own copy of the nodes."
        if node_cache
        else "    # Whole Node objects are sent with every pod: slow beyond a few hundred nodes.",
        f"    nodeCacheCapable: {_yes(node_cache)}",
        "    # Fail closed: while the extender is away pods wait, and kube-scheduler tries them again."
        if binds
        else "    # Fail open: while the extender is away, pods are placed without it (and may be refused).",
        f"    ignorable: {_yes(not binds)}",
        f"    enableHTTPS: {_yes(tls)}",
    ]
    if tls:
        lines += [
            "    tlsConfig:",
            f"      caFile: {ca or '/etc/numaware/ca.crt'}",
            "      # What the extender knows kube-scheduler by (--client-ca).",
            "      certFile: /etc/numaware/client.crt",
            "      keyFile: /etc/numaware/client.key",
        ]
    if managed:
        lines.append("    managedResources:")
        for name in managed:
            lines += [f"      - name: {name}", "        ignoredByScheduler: false"]
    return "\n".join(lines) + "\n"


def for_volcano(url: str, *, fail: Fail, managed: tuple[str, ...] = ()) -> str:
    """The plugin for a tier of volcano-scheduler.conf."""
    lines = [
        "# In a tier of volcano-scheduler.conf, after the predicates plugin:",
        "- name: extender",
        "  arguments:",
        f"    extender.urlPrefix: {url}/volcano",
        "    extender.httpTimeout: 5s",
        "    extender.predicateVerb: predicate",
        "    extender.prioritizeVerb: prioritize",
        "    # These two keep pods of one session from being promised the same CPUs.",
        "    extender.allocateFuncVerb: allocate",
        "    extender.deallocateFuncVerb: deallocate",
        f"    extender.ignorable: {_yes(fail == 'open')}",
    ]
    if managed:
        lines.append("    extender.managedResources:")
        lines += [f"      - {name}" for name in managed]
    return "\n".join(lines) + "\n"


def _https(url: str) -> bool:
    return url.startswith("https://")


def _yes(answer: bool) -> str:
    return "true" if answer else "false"
