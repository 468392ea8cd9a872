"""The API against its own document, by a program that tries what no person would."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from numaware.serve.console.app import application
from support.console_world import console

# It calls from a host of its own choice.
APP = application(console(nodes=6), names=frozenset())
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP)


@SCHEMA.exclude(method="POST", path="/api/v1/simulate").parametrize()
@settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
def test_no_call_breaks_the_server_or_the_document(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate(
        base_url="http://127.0.0.1",
        checks=[not_a_server_error, response_schema_conformance, status_code_conformance],
    )
