"""The page about releases says what the recordings and the rules say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("kubelet_versions", ROOT / "scripts" / "kubelet_versions.py")
assert _SPEC is not None
assert _SPEC.loader is not None
script = importlib.util.module_from_spec(_SPEC)
# msgspec looks up the types of a struct in its module.
sys.modules[_SPEC.name] = script
_SPEC.loader.exec_module(script)


def test_the_page_has_the_tables_that_the_script_would_write() -> None:
    """That every scenario agrees is for tests/conformance to find out; the page may say nothing less."""
    text = script.PAGE.read_text(encoding="utf-8")
    scenarios = script.recorded()
    assert script.page(text, script.release_rows(scenarios, scenarios), script.rule_rows()) == text


def test_a_page_of_yesterday_is_noticed() -> None:
    text = script.PAGE.read_text(encoding="utf-8").replace("| v1.37.1 |", "| v1.37.0 |")
    scenarios = script.recorded()
    assert script.page(text, script.release_rows(scenarios, scenarios), script.rule_rows()) != text
