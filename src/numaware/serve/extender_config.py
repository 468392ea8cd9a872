"""The fragments that make kube-scheduler or Volcano ask the extender, to be pasted into their configuration."""

from __future__ import annotations

from typing import Literal

Fail = Literal["open", "closed"]


def for_kube_scheduler(
    url: str,
    *,
    fail: Fail,
    weight: int,
    node_cache: bool,
    ca: str | None = None,
    managed: tuple[str, ...] = (),
) -> str:
    """A KubeSchedulerConfiguration with the extender in it; `managed` are the resources that make a pod be asked about."""
    tls = _https(url)
    lines = [
        "apiVersion: kubescheduler.config.k8s.io/v1",
        "kind: KubeSchedulerConfiguration",
        "extenders:",
        f"  - urlPrefix: {url}/extender",
        "    filterVerb: filter",
        "    prioritizeVerb: prioritize",
        "    # Without it two pods that come close after each other may be promised the same CPUs.",
        "    bindVerb: bind",
        "    # One point here weighs as much as one of kube-scheduler's own plugins with this weight.",
        f"    weight: {weight}",
        "    # A bind goes through the API server, and waits for the one before it on the same node.",
        "    httpTimeout: 5s",
        "    # Names are enough: the extender has its own copy of the nodes."
        if node_cache
        else "    # Whole Node objects are sent with every pod: slow beyond a few hundred nodes.",
        f"    nodeCacheCapable: {_yes(node_cache)}",
        "    # Fail open: while the extender is away, pods are placed without it (and may be refused)."
        if fail == "open"
        else "    # Fail closed: while the extender is away, no pod is placed.",
        f"    ignorable: {_yes(fail == 'open')}",
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
