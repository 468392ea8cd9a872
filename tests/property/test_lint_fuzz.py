"""Whatever is handed to lint and to the doctor: findings, or one InputError; and every answer can be written."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.doctor.node import examine
from numaware.diagnose.finding import CODES, Finding
from numaware.diagnose.render import checkup, github, sarif
from numaware.diagnose.render import json as as_json
from numaware.diagnose.render import text as as_text
from numaware.diagnose.rules.lint import World, findings_of_kubelet_flags, lint
from numaware.diagnose.rules.node_kinds import kinds_of
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.archive import Entry
from numaware.machine.drawing.lines import line_width
from numaware.machine.tree import ArchiveTree
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node
from property.damaged_capture import WHOLE
from property.test_manifest_fuzz import SCALARS, SOUP, TREES, refused
from support.choices import LANGUAGES

MACHINE = hardware_of(synthetic.read("2s x 1n x 4c x 2t +gpu@0"))
NODES = kinds_of(
    [
        (
            "n",
            Node.fresh(
                MACHINE, KubeletConfig(cpu_policy="static", reserved_cpus="0", topology_policy=policy)
            ),
        )
        for policy in ("none", "restricted")
    ]
)
WORLDS = st.builds(
    World,
    version=st.sampled_from(["v1.18.0", "v1.27.0", "v1.35.0"]),
    hardware=st.sampled_from([None, MACHINE]),
    nodes=st.sampled_from([(), NODES]),
)
FIELDS = st.sampled_from(
    [
        "cpuManagerPolicy",
        "cpuManagerPolicyOptions",
        "topologyManagerPolicy",
        "topologyManagerScope",
        "topologyManagerPolicyOptions",
        "memoryManagerPolicy",
        "reservedMemory",
        "reservedSystemCPUs",
        "kubeReserved",
        "systemReserved",
        "evictionHard",
        "featureGates",
        "topologyManagerPolcy",
    ]
)
VALUES = st.sampled_from(
    ["static", "Static", "none", "restricted", "single-numa-node", "pod", "0-1", "1Gi", "50%", "-1", "9" * 40]
)
MAPS = st.dictionaries(
    st.sampled_from(
        [
            "cpu",
            "memory",
            "memory.available",
            "full-pcpus-only",
            "align-by-socket",
            "max-allowable-numa-nodes",
            "x",
        ]
    ),
    VALUES | SCALARS,
    max_size=3,
)
RESERVED = st.lists(
    st.fixed_dictionaries({"numaNode": st.integers(-1, 3) | SCALARS, "limits": MAPS}), max_size=3
)
CONFIGS = st.dictionaries(FIELDS, VALUES | MAPS | RESERVED | TREES, max_size=8)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]),
    st.sampled_from(["0", "1", "1500m", "2", "500m", "1Gi", "4Gi", "200", "-1", "x"]) | SCALARS,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["a", "b", "C", ""]),
            "resources": st.fixed_dictionaries({"limits": AMOUNTS, "requests": AMOUNTS}),
        },
        optional={"restartPolicy": st.just("Always")},
    ),
    max_size=3,
)


def told(findings: list[Finding]) -> None:
    """Every finding can be told, in every language and form."""
    for one in findings:
        assert one.code in CODES
        assert one.evidence
    for lang in LANGUAGES:
        assert json.loads(as_json.render(findings, [], lang))
        assert json.loads(sarif.render(findings, lang))["version"] == "2.1.0"
        assert all("\n" not in line for line in github.render(findings, lang))
        assert all(line_width(line) <= 80 for line in as_text.render(findings, 80, lang))


def check(example: tuple[bytes, World]) -> None:
    """The law: findings, or one line."""
    data, world = example
    try:
        found = lint(data, "f", world)
    except InputError as error:
        refused(error)
        return
    told(found.findings)


@given(
    st.tuples(
        st.binary(max_size=200) | SOUP.map(lambda parts: "".join(parts).encode("utf-8", "replace")), WORLDS
    )
)
def test_any_bytes_are_linted_or_refused(example: tuple[bytes, World]) -> None:
    check(example)


def wrapped(document: dict[str, object], wrapper: str) -> bytes:
    """A configuration as people keep it."""
    inner = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **document}
    outer: dict[str, dict[str, object]] = {
        "plain": inner,
        "openshift": {"kind": "KubeletConfig", "spec": {"kubeletConfig": document}},
        "kind": {"kind": "Cluster", "kubeadmConfigPatches": [json.dumps(inner)]},
        "piece": document,
    }
    return json.dumps(outer[wrapper], indent=1).encode()


def pod(containers: list[object], init: list[object]) -> bytes:
    document = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": containers, "initContainers": init},
    }
    return json.dumps(document, indent=1).encode()


WRAPPED = st.builds(wrapped, CONFIGS, st.sampled_from(["plain", "openshift", "kind", "piece"]))
PODS = st.builds(pod, CONTAINERS, CONTAINERS)
EXAMPLES = st.tuples(WRAPPED | PODS, WORLDS)


@settings(max_examples=200, deadline=None)
@given(EXAMPLES)
def test_any_configuration_and_any_pod_is_linted_or_refused(example: tuple[bytes, World]) -> None:
    check(example)


@given(st.text(max_size=100))
def test_any_flags_are_judged_or_refused(text: str) -> None:
    for start in ("", "--reserved-cpus=", "--memory-manager-policy=Static --reserved-memory="):
        told(findings_of_kubelet_flags(f"{start}{text}".encode("utf-8", "replace"), "f"))


CONTENT = st.binary(max_size=80) | st.sampled_from(
    [
        b'{"policyName":"static","defaultCpuSet":"0-3","checksum":1}',
        b'{"policyName":"Static","machineState":{},"entries":{"u":{}},"checksum":1}',
        b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":1}',
        b"cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n",
        b"version = 2\n",
        b"kubelet\n",
        b"kubelet\0--config\0/etc/hostname\0--cpu-manager-policy=static\0",
    ]
)
PATHS = st.sampled_from(
    [
        "etc/hostname",
        "etc/containerd/config.toml",
        "etc/crio/crio.conf",
        "etc/default/kubelet",
        "var/lib/kubelet/config.yaml",
        "var/lib/kubelet/cpu_manager_state",
        "var/lib/kubelet/memory_manager_state",
        "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
        "var/lib/kubelet/pods/u",
        "sys/fs/cgroup/cgroup.controllers",
        "proc/7/comm",
        "proc/7/cmdline",
    ]
)


NODE_FILES = st.dictionaries(PATHS, CONTENT, max_size=8)


@settings(max_examples=100, deadline=None)
@given(NODE_FILES)
def test_any_node_is_examined(files: dict[str, bytes]) -> None:
    check_node(files)


def check_node(files: dict[str, bytes]) -> None:
    """The law of the doctor: every check has an answer."""
    entries: dict[str, Entry] = {
        path: content.encode() for path, content in WHOLE.items() if not content.startswith("->")
    }
    seen = examine(ArchiveTree({**entries, **files}, "f"))
    told(seen.findings)
    for lang in LANGUAGES:
        assert json.loads(checkup.as_json(seen.node, seen.checks, lang))["checks"]
        assert all(line_width(line) <= 80 for line in checkup.page(seen.node, seen.checks, 80, lang))
