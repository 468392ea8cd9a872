"""`passDeviceSpecs` beside the CPU manager, wherever it is written."""

from __future__ import annotations

import re

import pytest

from numaware.diagnose.rules.lint import World, lint
from numaware.diagnose.texts import finding_text
from support.choices import LANGUAGES
from support.shared_data import shared

STATIC, NONE, UNKNOWN = frozenset({"static"}), frozenset({"none"}), frozenset[str]()
FLAGS = "version: v1\nflags:\n  plugin:\n    passDeviceSpecs: {passes}\n    deviceListStrategy: {strategy}\n"


def config_map(inner: str) -> str:
    return "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n" + re.sub(
        "^", "    ", inner, flags=re.MULTILINE
    )


def daemon_set(*lines: str) -> str:
    container = "".join(f"          {line}\n" for line in lines)
    return (
        "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: p}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n        - name: p\n"
        f"          image: nvcr.io/nvidia/k8s-device-plugin:v0.17.0\n{container}"
    )


def listed(*objects: str) -> str:
    """As `kubectl get -o yaml` writes several."""
    items = "".join(f"- {re.sub(chr(10), chr(10) + '  ', one).rstrip()}\n" for one in objects)
    return f"apiVersion: v1\nkind: List\nitems:\n{items}"


POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
    "    - image: nvidia/k8s-device-plugin:devel\n      name: p\n"
)
OFF, ON = FLAGS.format(passes="false", strategy="envvar"), FLAGS.format(passes="true", strategy="envvar")
CDI_OFF = FLAGS.format(passes="false", strategy="[cdi-cri]")
CDI_ON = FLAGS.format(passes="true", strategy="[cdi-annotations, envvar]")


@pytest.mark.parametrize(
    ("text", "policies", "expected"),
    [
        (OFF, STATIC, [("warning", "", 4)]),
        (OFF, UNKNOWN, [("info", "policy-unknown", 4)]),
        (OFF, NONE, []),
        (OFF, STATIC | NONE, [("warning", "", 4)]),
        (ON, STATIC, []),
        (ON, UNKNOWN, []),
        (ON, NONE, [("info", "needless", 4)]),
        (CDI_OFF, STATIC, []),
        (CDI_ON, STATIC, [("info", "needless-with-cdi", 4)]),
        ("flags: {migStrategy: none}\n", STATIC, [("warning", "", 0)]),
        (config_map(OFF), STATIC, [("warning", "", 8)]),
        (config_map("a: [b\nflags: x"), STATIC, []),
        ("compatWithCPUManager: false\n", STATIC, [("warning", "", 1)]),
        ("compatWithCPUManager: true\n", STATIC, []),
        (daemon_set(), STATIC, [("warning", "", 11)]),
        (daemon_set("args: [--pass-device-specs]"), STATIC, []),
        (daemon_set("args: [--pass-device-specs=false]"), STATIC, [("warning", "", 12)]),
        (daemon_set("env: [{name: PASS_DEVICE_SPECS, value: 'true'}]"), STATIC, []),
        (daemon_set("env: [{name: PASS_DEVICE_SPECS, value: '1'}]"), STATIC, []),
        (daemon_set("args: [--device-list-strategy=cdi-cri]"), STATIC, []),
        (daemon_set("args: [--device-list-strategy, cdi-cri]"), STATIC, []),
        (daemon_set("args: [--device-list-strategy, envvar]"), STATIC, [("warning", "", 11)]),
        (daemon_set().replace("k8s-device-plugin", "other"), STATIC, []),
        (POD, STATIC, [("warning", "", 6)]),
        (POD + "      args: [--pass-device-specs]\n", STATIC, []),
        (listed(config_map(OFF), daemon_set()), STATIC, [("warning", "", 11), ("warning", "", 23)]),
    ],
)
def test_it_is_right_or_wrong_by_the_cpu_manager_and_the_way_in(
    text: str, policies: frozenset[str], expected: list[tuple[str, str, int]]
) -> None:
    found = lint(text.encode(), "plugin.yaml", World(cpu_policies=policies)).findings
    told = [one for one in found if one.code == "pass-device-specs"]
    assert [(one.severity, one.variant, one.evidence[0].line) for one in told] == expected
    for one in told:
        for language in LANGUAGES:
            assert finding_text(one, language).title


def test_a_kubelet_in_the_same_file_decides() -> None:
    kubelet = "kind: KubeletConfiguration\ncpuManagerPolicy: static\nreservedSystemCPUs: '0'\n"
    (told,) = [
        one for one in lint(f"{OFF}---\n{kubelet}".encode(), "both.yaml").findings if "pass" in one.code
    ]
    assert told.severity == "warning"


def test_the_guides_that_contradict_each_other_are_told_which_of_them_is_right() -> None:
    (first,) = shared("seeds").glob("001_*")
    (second,) = shared("seeds").glob("002_*")
    # One has the CPU manager in mind and passes them; the other warns of the same, in a table below this very example.
    assert "--pass-device-specs" in first.read_text(encoding="utf-8")
    guide = second.read_text(encoding="utf-8")
    assert re.search(r"passDeviceSpecs.*static.*false", guide)
    assert re.search(r"passDeviceSpecs: false .*true", guide)
    blocks = list(re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL))
    example = next(text for text in blocks if "passDeviceSpecs: false" in text)
    kubelet = next(text for text in blocks if "kind: KubeletConfiguration" in text)
    (told,) = [
        one
        for one in lint(f"{example}\n---\n{kubelet}".encode(), "guide.yaml").findings
        if "pass" in one.code
    ]
    assert told.severity == "warning"
    fixed = example.replace("passDeviceSpecs: false", "passDeviceSpecs: true")
    assert not [
        one for one in lint(f"{fixed}\n---\n{kubelet}".encode(), "guide.yaml").findings if "pass" in one.code
    ]
