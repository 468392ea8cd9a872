"""`--lang zh` on the command line: whole answers in Chinese, names and kubelets' words as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from numaware.cli import main
from numaware.twin.topology.hints import Hint
from support.kubelet_logs import ERAS, Story, written

EXAMPLES = Path(__file__).parents[2] / "examples"
KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: "0"
memoryManagerPolice: Static
"""
# What the kubelet says itself.
QUOTES = ("Resources cannot be allocated with Topology locality",)
_ENGLISH = re.compile(r"\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b")


class Answer(NamedTuple):
    code: int
    out: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Desk:
    """A folder with a kubelet configuration and pods of 3 and of 30 CPUs, and somebody who types there."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def type(self, *words: str) -> Answer:
        return Answer(main([*words, "--lang", "zh"]), self._capsys.readouterr().out)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("kubelet.yaml").write_text(KUBELET)
    for name, cpus in (("small", 3), ("large", 30)):
        Path(f"{name}.yaml").write_text(yaml.safe_dump(_pod(name, {"cpu": str(cpus), "memory": "1Gi"})))
    return Desk(capsys)


def _pod(name: str, limits: dict[str, str], requests: dict[str, str] | None = None) -> dict[str, Any]:
    resources = {"limits": limits, "requests": requests or limits}
    container = {"name": "app", "image": "x", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def assert_chinese(text: str) -> None:
    """No line has three English words in a row, quotes aside."""
    for quote in QUOTES:
        text = text.replace(quote, "")
    assert re.search(r"[\u4e00-\u9fff]", text)
    assert [line for line in text.splitlines() if _ENGLISH.search(line)] == []


def test_explain(desk: Desk) -> None:
    asked = ("--node", "2x8", "--node", "2x4", "--kubelet-config", "kubelet.yaml")
    small = desk.type("explain", "small.yaml", *asked)
    assert small.code == 0
    assert small.out.startswith("default/small：2 个节点中 2 个会准入：2x8、2x4\n")
    assert_chinese(small.out)
    large = desk.type("explain", "large.yaml", *asked)
    assert large.code == 1
    assert "✗ 2x8 会拒绝 default/large，即使节点全空也一样：TopologyAffinityError" in large.out
    assert "容器 app 改为请求 8 个 CPU（原为 30 个）" in large.out
    assert_chinese(large.out)
    (first, _) = desk.type("explain", "large.yaml", *asked, "--json").json["pods"]
    assert first["why"][0]["text"] == "请求 30 个 CPU，任何 NUMA 节点组合都凑不出来：总共可独占 15 个。"
    assert first["message"] in QUOTES


def test_whatif(desk: Desk) -> None:
    replica = str(EXAMPLES / "replica.yaml")
    for cluster in ("vmstorage.yaml", "p100.yaml", "eight-gpus.yaml"):
        told = desk.type("whatif", str(EXAMPLES / cluster), replica)
        assert_chinese(told.out)
    story = desk.type("whatif", str(EXAMPLES / "vmstorage.yaml"), replica, "--explain", "storage-0")
    assert "2 个节点都不可用：2 个按 restricted 无法把 Pod 对齐到 NUMA 节点。" in story.out.replace(
        "\n    ", ""
    )
    assert_chinese(story.out)
    document = desk.type("whatif", str(EXAMPLES / "vmstorage.yaml"), replica, "--json").json
    (workload,) = document["workloads"]
    assert workload["pods"][0]["message"].startswith("2 个节点都不可用：")
    assert workload["nodes"][0]["reasons"] == ["按 restricted 无法把 Pod 对齐到 NUMA 节点"]


def test_lint_and_pods_that_never_fit(desk: Desk) -> None:
    cluster = str(EXAMPLES / "p100.yaml")
    never = desk.type("lint", "large.yaml", "--against", cluster)
    assert never.code == 1
    assert "never-fits" in never.out
    assert "（以及同类的 3 个节点）" in never.out
    assert_chinese(never.out)
    asked = ("lint", "large.yaml", "kubelet.yaml", "--machine", "2x16")
    assert_chinese(desk.type(*asked).out)
    finding = desk.type(*asked, "--json").json["findings"][0]
    assert finding["facts"]["kinds"][0]["why"][0].startswith(
        "请求 30 个 CPU：即使机器全空也要占 2 个 NUMA 节点"
    )
    assert finding["fix"][0] == "容器 app 改为请求 16 个 CPU（原为 30 个）   # 这样 kubelet.yaml 就会准入"
    Path("half.yaml").write_text(
        yaml.safe_dump(_pod("half", {"cpu": "4", "memory": "1Gi"}, {"cpu": "1500m", "memory": "1Gi"}))
    )
    half = desk.type("lint", "half.yaml", "kubelet.yaml")
    assert "请求 1500m cpu，限制却是 4" in half.out
    assert "未知字段" in half.out
    assert_chinese(half.out)


def test_diagnose(desk: Desk) -> None:
    story = Story(
        hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
        merged=Hint(None, preferred=False),
        reason="TopologyAffinityError",
        message=QUOTES[0],
    )
    Path("kubelet.log").write_text("\n".join(written(ERAS[-1], story)))
    finding = desk.type("diagnose", "kubelet.log", "--json").json["findings"][0]
    for text in (finding["title"], finding["cause"], *finding["fix"]):
        assert_chinese(text)


def test_a_comparison_of_schedulers_is_written_in_chinese(desk: Desk) -> None:
    example = str(EXAMPLES / "p100.yaml")
    answer = desk.type("simulate", example, example, "--workers", "1")
    assert answer.code == 0
    assert "已放置的 Pod" in answer.out
    assert "种子 42" in answer.out
    assert not _ENGLISH.findall(answer.out)
