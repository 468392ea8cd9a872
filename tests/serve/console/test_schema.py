"""The API against its own document, by a program that tries what no person would."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from starlette.testclient import TestClient

from numaware.serve.console.app import application
from support.console_world import console

ROOT = Path(__file__).parents[3]
# It calls from a host of its own choice.
APP = application(console(nodes=6), names=frozenset())
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)
OPERATIONS: list[Any] = [
    found.ok()  # type: ignore[union-attr] # what is no operation has no `ok`, and then this fails
    for found in SCHEMA.exclude(method="POST", path="/api/v1/simulate").get_all_operations()
]


def test_the_types_of_the_page_are_those_of_the_document() -> None:
    script = runpy.run_path(str(ROOT / "scripts/page_types.py"))
    assert script["made"]() == script["PATH"].read_text(encoding="utf-8"), "run make web"


def test_what_is_packed_says_what_stands_where() -> None:
    schemas = SCHEMA.raw_schema["components"]["schemas"]
    titles = [item["title"] for item in schemas["Tile"]["prefixItems"]]
    assert titles[:4] == ["name", "pool", "policy", "verdict"]
    assert not [name for name in schemas if "." in name]


def test_a_method_that_an_address_does_not_have_is_told_which_ones_it_has() -> None:
    """An address may be that of several paths: /policies/kubelet is one of /policies/{name}, too."""
    caller = TestClient(APP, base_url="http://127.0.0.1")
    documented = SCHEMA.raw_schema["paths"]
    for path in documented:
        address = re.sub(r"\{\w+\}", "a", path)
        allowed = {
            method.upper()
            for pattern, operations in documented.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), address)
            for method in operations
            if method in ("get", "put", "post", "delete")
        }
        refused = caller.request("PATCH", address, headers={"origin": "http://127.0.0.1"})
        assert refused.status_code == 405, path
        assert {*refused.headers["allow"].split(", ")} - {"HEAD"} == allowed, path


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_no_call_breaks_the_server_or_the_document(operation: Any) -> None:
    # Not by schemathesis' own parametrize: its tests all have one name, and of those pytest-xdist runs only one.
    @given(case=operation.as_strategy())
    @settings(
        max_examples=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    def call(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(
            base_url="http://127.0.0.1",
            checks=[not_a_server_error, response_schema_conformance, status_code_conformance],
        )

    call()
