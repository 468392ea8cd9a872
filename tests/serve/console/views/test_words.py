"""The console in two languages: every sentence that is raised has its Chinese, and callers choose by Accept-Language."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from numaware.diagnose.texts import Lang
from numaware.diagnose.texts.chinese.inputs import SENTENCES
from numaware.serve.console.views.words import CHINESE, language_of, retold
from support.console_world import client

SOURCE = Path(__file__).parents[4] / "src" / "numaware"
# Who raises or keeps a sentence that people read.
RAISERS = {"ProblemError", "InputError", "SwitchError", "_NotUpError", "_token_needed", "Switch"}
# Raised when the program starts, on the command line, in English.
AT_START = {"app.py", "file.py", "prometheus.py"}
# Names, and what is only filled in.
NAMES = (
    "{}: {}",
    "{}:{}",
    "ConfigMap {}/{}, key {}",
    "Oenuma {}/{}, field spec.updateenable",
    'Bearer realm="kubernetes"',
)


def _template(node: ast.expr) -> str | None:
    """A text, `{}` for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def _sentences(path: Path) -> Iterator[str]:
    """Whatever is handed to a raiser, directly or by a name that the module gives to a text."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = [text for part in _leaves(node.value) if (text := _template(part)) is not None]
            named.setdefault(node.targets[0].id, []).extend(found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISERS:
            for given in (*node.args, *(word.value for word in node.keywords if word.arg != "headers")):
                for part in _leaves(given):
                    text = _template(part)
                    if text is not None:
                        yield text
                    elif isinstance(part, ast.Name):
                        yield from named.get(part.id, ())


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp():
            for value in node.values:
                yield from _leaves(value)
        case ast.IfExp():
            yield from _leaves(node.body)
            yield from _leaves(node.orelse)
        case _:
            yield node


def _raised() -> list[str]:
    folders = (SOURCE / "serve" / "console").rglob("*.py")
    paths = [path for path in folders if path.name not in AT_START]
    paths += [SOURCE / "workload" / name for name in ("manifest.py", "yamlfile.py")]
    found = {text for path in paths for text in _sentences(path) if len(text.split()) > 1}
    return sorted(text for text in found if text not in NAMES and "ConfigMap volcano" not in text)


@pytest.mark.parametrize("text", _raised())
def test_every_sentence_that_is_raised_is_told_in_chinese(text: str) -> None:
    said = text.replace("{}", "x1")
    assert retold(said, "en") == said
    assert any("\u4e00" <= letter <= "\u9fff" for letter in retold(said, "zh")), text


@pytest.mark.parametrize("table", [CHINESE, SENTENCES], ids=["console", "inputs"])
def test_chinese_fills_the_holes_that_english_has(table: dict[str, str]) -> None:
    assert [key for key, told in table.items() if key.count("{}") != told.count("{}")] == []


def test_a_problem_keeps_its_source_and_what_others_said() -> None:
    assert retold("pod.yaml:3: spec: expected a mapping, got a JSON array", "zh") == (
        "pod.yaml:3：spec：应为映射，实为 JSON array"
    )
    quoted = 'pod.yaml:3: metadata.name: Invalid value: "A": must be lower case'
    assert retold(quoted, "zh") == quoted
    assert retold("the API server says: configmaps is forbidden", "zh") == (
        "API server 的答复：configmaps is forbidden"
    )


def test_a_scheduler_is_told_where_it_is_known_and_quoted_where_it_is_not() -> None:
    message = "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) could not align the pod on NUMA nodes (restricted)."
    assert retold(message, "zh") == (
        "4 个节点都不可用：3 个按 restricted 无法把 Pod 对齐到 NUMA 节点，1 个 CPU 不足。"
    )
    near = f"{message} nearest miss: node n0 is 1 CPU and 2 GiB of memory short on NUMA 0+1."
    assert retold(near, "zh").endswith("最接近的是节点 n0：在 NUMA 0+1 上还差 1 个 CPU、2 GiB 内存。")
    assert retold("2/2 nodes are available.", "zh") == "2 个节点都可用。"
    assert retold("0/0 nodes are available:", "zh") == "0 个节点都不可用。"
    strange = "0/4 nodes are available: 4 node(s) had a bad day."
    assert retold(strange, "zh") == strange


@pytest.mark.parametrize(
    ("wished", "lang"),
    [
        ("", "en"),
        ("zh", "zh"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-GB, zh;q=0.5", "en"),
        ("en;q=0.2, zh-Hans;q=0.7", "zh"),
        ("fr, de;q=0.9, zh;q=0.1", "zh"),
        ("zh;q=0", "en"),
        ("*", "en"),
        (";;;q=,,zh;q=x", "zh"),
    ],
)
def test_the_caller_chooses_the_language(wished: str, lang: Lang) -> None:
    assert language_of(Headers({"accept-language": wished})) == lang


def _letters(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def test_explanations_reasons_and_problems_come_in_the_language_of_the_call() -> None:
    question = {"shape": {"cpu": "60", "memory": "8Gi", "gpu": 0}, "node": "box-0"}
    http = client()
    chinese = {"accept-language": "zh-CN,zh;q=0.9"}
    plain = http.post("/api/v1/explain", json=question).json()["explanation"]
    told = http.post("/api/v1/explain", json=question, headers=chinese).json()["explanation"]
    assert [why["resource"] for why in plain["why"]] == [why["resource"] for why in told["why"]]
    assert all(_letters(why["text"]) for why in told["why"])
    assert not any(_letters(why["text"]) for why in plain["why"])
    asked = http.post("/api/v1/whatif", json=question, headers=chinese)
    assert asked.json()["message"].endswith("。")
    assert "accept-language" in asked.headers["vary"]
    policies = http.get("/api/v1/policies", headers=chinese).json()
    assert all(_letters(switch["missing"]) for switch in policies["switches"] if switch["missing"])
    problem = http.get("/api/v1/nodes/nobody", headers=chinese)
    assert problem.json() == {"title": "Not Found", "status": 404, "detail": "没有节点 'nobody'"}
    assert problem.headers["content-language"] == "zh"


def test_the_document_says_that_callers_choose_the_language() -> None:
    http = client()
    document = http.get("/openapi.json").json()
    parameter = document["components"]["parameters"]["language"]
    assert (parameter["name"], parameter["in"]) == ("Accept-Language", "header")
    used = [
        {"$ref": "#/components/parameters/language"} in operation["parameters"]
        for path in document["paths"].values()
        for operation in path.values()
    ]
    assert used
    assert all(used)
