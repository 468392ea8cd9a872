"""`numaware doctor --restart-safe`: the pods that a kubelet would refuse at its next start, named before it happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main
from numaware.machine import synthetic
from numaware.twin.state import cpu
from support import made_sysfs

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0"
"""


def pod(name: str, cpus: str, created: str) -> dict[str, Any]:
    amounts = {"cpu": cpus, "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"u-{name}", "creationTimestamp": created},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
        },
    }


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Four cores of two threads, of which one is the system's; a pod has two of the others and a second one the third."""
    root = made_sysfs.write(tmp_path / "n1", synthetic.read("1s x 1n x 4c x 2t"))
    (root / "kubelet-config.yaml").write_text(KUBELET)
    (root / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod("big", "4", "2026-01-02T00:00:00Z")]})
    )
    cores = sorted(
        (set(map(int, path.read_text().replace(",", "-").split("-"))) for path in _siblings(root)), key=min
    )
    taken = sorted(cores[1] | cores[2])
    shared = ",".join(str(one) for one in range(8) if one not in taken)
    (root / cpu.FILE).write_text(
        cpu.encode("static", shared, {"u-big": {"c": ",".join(map(str, taken))}}), encoding="utf-8"
    )
    return root


def _siblings(root: Path) -> list[Path]:
    cores: dict[str, Path] = {}
    for path in sorted(root.glob("sys/devices/system/cpu/cpu*/topology/thread_siblings_list")):
        cores.setdefault(path.read_text(), path)
    return list(cores.values())


def asked(node: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", "--restart-safe", "--root", str(node), "--json", *more])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def test_a_pod_that_the_kubelet_would_refuse_is_named_with_the_reason(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = asked(node, capsys)
    (lost,) = document["findings"]
    assert code == 1
    assert (lost["code"], lost["subject"]["name"], lost["facts"]["reason"]) == (
        "pod-lost-at-restart",
        "big",
        "SMTAlignmentError",
    )
    assert main(["doctor", "--restart-safe", "--root", str(node)]) == 1
    assert lost["facts"]["message"] in " ".join(capsys.readouterr().out.split())


def test_an_upgrade_to_1_37_keeps_it(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(node, capsys, "--to", "v1.36.1")[0] == 1
    code, document = asked(node, capsys, "--to", "v1.37.0")
    assert (code, document["findings"]) == (0, [])


def test_pods_that_are_known_only_by_what_they_hold_are_no_good_news(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / "pods.json").unlink()
    code, document = asked(node, capsys)
    (check,) = document["checks"]
    assert (code, check["status"]) == (0, "unknown")
    assert "--pods" in check["text"]


def test_pods_are_asked_in_the_order_of_their_creation(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods = tmp_path / "list.json"
    pods.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod("big", "4", "2026-01-01")]})
    )
    assert asked(node, capsys, "--pods", str(pods))[1]["findings"]


def test_state_files_that_the_kubelet_refuses_are_told(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / cpu.FILE).write_text(cpu.encode("static", "0-3", {}), encoding="utf-8")
    code, document = asked(node, capsys)
    (stops,) = document["findings"]
    assert (code, stops["code"], stops["subject"]["node"]) == (1, "restart-kubelet-stops", node.name)
    words = stops["facts"]["message"]
    assert 'doesn\'t match with CPUs in state "0-3"' in words
    assert main(["doctor", "--restart-safe", "--root", str(node)]) == 1
    assert words in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "arguments", [["--to", "v1.37"], ["--pods", "x"], ["--restart-safe", "--to", "soon"]]
)
def test_what_makes_no_sense_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_in_chinese(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--restart-safe", "--root", str(node), "--lang", "zh"]) == 1
    assert "询问了 1 个 Pod" in capsys.readouterr().out


def test_an_upgrade_check_of_a_pool(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "config",
        "upgrade-check",
        "--node",
        str(node),
        "--node",
        str(node),
        "--kubelet-version",
        "v1.35.8",
    ]
    assert main([*arguments, "--to", "v1.36.0", "--json"]) == 1
    one, other = json.loads(capsys.readouterr().out)
    assert one == other
    assert (one["from"], one["to"], one["modelledAs"]) == ("v1.35.8", "v1.36.0", None)
    assert one["changes"][0]["area"] == "pod"
    assert main([*arguments, "--to", "v1.38.0"]) == 0
    out = capsys.readouterr().out
    assert "v1.35.8 -> v1.38.0 (modelled as v1.37)" in out
    assert "held_first" in out
    assert main([*arguments, "--to", "soon"]) == 2


def test_a_resize_is_answered_in_the_words_of_the_kubelet(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "larger.json"
    larger = pod("big", "6", "2026-01-02T00:00:00Z")
    file.write_text(json.dumps(larger))
    arguments = ["explain", str(file), "--node", str(node), "--resize"]
    assert main([*arguments, "--json"]) == 1
    (answer,) = json.loads(capsys.readouterr().out)["pods"]
    assert answer["resize"] == "Infeasible"
    assert main(arguments) == 1
    assert "ml/big on n1 (kubelet v1.35.0): Infeasible: Resize is infeasible" in capsys.readouterr().out
    assert main([*arguments, "--kubelet-version", "v1.30.1"]) == 2
    larger["metadata"]["name"] = "other"
    file.write_text(json.dumps(larger))
    assert main(arguments) == 2
