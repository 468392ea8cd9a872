"""What strangers put into requests: odd words for every place, and whole bodies to damage.

`tests/property/test_http_fuzz.py` draws from it with Hypothesis, in the servers' own process; `scripts/fuzz_http.py` by dice,
thousands of times, against servers that run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What is odd about numbers, names, times and text, in one place: each is tried as every part of a request.
ODD = (
    *("", "0", "-1", "1e400", "NaN", "9" * 30, "0x10", "true", "null", "None", "[]", "{}", "\x00", "\ud800"),
    *("\U0001f600", "a" * 500, "../..", "%2e%2e%2f", "%00", "a/b", "default/a", "gpu-0", "x.y/z", "'", '"'),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-11-14T03:12:00Z"),
    *(
        "9999-12-31T23:59:59-23:59",
        "2026-02-30T00:00:00Z",
        "1e3",
        "1Ki",
        "1m",
        "0.1n",
        "1E9999",
        "+1",
        "\u0661",
    ),
    *("none", "restricted", "pod", "container", "open", "close", "Running", "en", "zh", "nvidia.com/gpu"),
)
KEYS = (
    *(
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "spec",
        "containers",
        "initContainers",
        "resources",
    ),
    *("limits", "requests", "cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "affinity", "nodeAffinity"),
    *(
        "podAffinity",
        "topologySpreadConstraints",
        "tolerations",
        "nodeSelector",
        "items",
        "template",
        "replicas",
    ),
    *("overhead", "ports", "hostPort", "labels", "annotations", "uid", "status", "restartPolicy", "volumes"),
)
POD: Mapping[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default", "uid": "a", "labels": {"app": "a"}},
    "spec": {
        "containers": [
            {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}}}
        ],
        "nodeSelector": {"zone": "z"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    },
}
EXTENDER_ASKED: Mapping[str, Any] = {
    "Pod": POD,
    "NodeNames": ["n0", "n1"],
    "Nodes": {"items": [{"metadata": {"name": "n0"}}]},
    "nodes": [{"Name": "n0"}],
    "node": {"Name": "n0"},
    "task": {"UID": "a", "Name": "a", "NodeName": "n0", "Pod": POD},
    "PodName": "a",
    "PodNamespace": "default",
    "PodUID": "a",
    "Node": "n0",
}
EXTENDER_VERBS = (
    *("extender/filter", "extender/prioritize", "extender/bind"),
    *("volcano/predicate", "volcano/prioritize", "volcano/allocate", "volcano/deallocate"),
)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every holder and key within a JSON value."""
    members: Sequence[Any] = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else ()
    )
    return [(value, key) for key, _ in members] + [
        place for _, inner in members for place in places_in(inner)
    ]
