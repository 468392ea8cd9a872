"""Whatever bytes come in: a manifest, a configuration, or one InputError; and what is written is what is read."""

from __future__ import annotations

import contextlib
import json

from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.twin import flags, kubelet_config
from numaware.workload import manifest
from numaware.workload.pod import NANO, amount
from numaware.workload.yamlfile import documents

WORDS = st.sampled_from(
    [
        "kind",
        "apiVersion",
        "metadata",
        "name",
        "namespace",
        "spec",
        "template",
        "containers",
        "initContainers",
        "resources",
        "limits",
        "requests",
        "cpu",
        "memory",
        "hugepages-2Mi",
        "nvidia.com/gpu",
        "items",
        "List",
        "Pod",
        "Deployment",
        "v1",
        "apps/v1",
        "status",
        "qosClass",
        "overhead",
        "replicas",
        "restartPolicy",
        "KubeletConfiguration",
        "cpuManagerPolicyOptions",
        "reservedMemory",
        "numaNode",
        "kubeReserved",
        "evictionHard",
        "featureGates",
        "kubeadmConfigPatches",
        "Cluster",
        "data",
        "ConfigMap",
        "kubeletconfig",
        "tasks",
        "<<",
        "*",
        "&",
        "!",
        "-",
        "?",
        ":",
        "{",
        "}",
        "[",
        "]",
        ",",
        "|",
        ">",
        "'",
        '"',
        "#",
        "%",
        "@",
        "`",
        "~",
        "\t",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
    st.text(max_size=6),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=30,
)
SOUP = st.lists(
    st.one_of(WORDS, st.sampled_from(["\n", "\n  ", "\n    ", "\n- ", ": ", " "]), st.text(max_size=3)),
    max_size=60,
)


def refused(error: InputError) -> None:
    assert error.source.startswith("f")
    assert "\n" not in str(error)


def survives(data: bytes) -> None:
    """Read, or refused in one line that names the file; anything else is an error of ours."""
    for read in (manifest.scan, manifest.read, kubelet_config.read):
        try:
            read(data, "f")
        except InputError as error:
            refused(error)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    survives(data)


@given(SOUP)
def test_any_mixture_of_yaml_is_read_or_refused(parts: list[str]) -> None:
    survives("".join(parts).encode("utf-8", "surrogatepass"))


@given(TREES)
def test_any_json_is_read_or_refused(tree: object) -> None:
    survives(json.dumps(tree).encode())


@given(
    st.dictionaries(st.sampled_from(["spec", "metadata", "kind", "items"]), TREES, max_size=4), TREES, TREES
)
def test_any_pod_shaped_json_is_read_or_refused(
    outer: dict[str, object], container: object, resources: object
) -> None:
    spec = {
        "containers": [container, {"name": "c", "resources": resources}],
        "resources": resources,
        "overhead": resources,
    }
    survives(json.dumps({"kind": "Pod", **outer, "spec": spec}).encode())


@given(st.text(max_size=120) | SOUP.map("".join))
def test_any_command_line_is_read_or_refused(text: str) -> None:
    for start in ("", "--kube-reserved=", "--reserved-memory ", 'X="--feature-gates='):
        with contextlib.suppress(InputError):
            flags.read(start + text)


@given(TREES)
def test_json_means_the_same_through_the_yaml_reader(tree: object) -> None:
    text = json.dumps({"x": tree})
    (root,) = documents(text.encode(), "f")

    def same(node: object, value: object) -> bool:
        held = getattr(node, "value", None)
        if isinstance(value, dict):
            return (
                isinstance(held, dict)
                and held.keys() == value.keys()
                and all(same(held[k], value[k]) for k in value)
            )
        if isinstance(value, list):
            return isinstance(held, list) and len(held) == len(value) and all(map(same, held, value))
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return held == float(value)
        return held == value and isinstance(held, bool) == isinstance(value, bool)

    assert same(root, json.loads(text))


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_amounts_and_their_order_survive_the_way_through_yaml(milli: int, more: int) -> None:
    text = f"""kind: Pod
metadata: {{name: p}}
spec:
  containers:
  - name: c
    resources: {{requests: {{cpu: {milli}m}}, limits: {{cpu: {(milli + more) / 1000!r}}}}}
"""
    (workload,) = manifest.read(text.encode(), "f").workloads
    (container,) = workload.pod.containers
    assert amount(container.requests, "cpu") == milli * NANO // 1000
    assert amount(container.limits, "cpu") == (milli + more) * NANO // 1000
