"""The console in two languages: callers choose by Accept-Language."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from numaware.diagnose.texts import Lang
from numaware.serve.language import language_of
from support.console_world import client


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
