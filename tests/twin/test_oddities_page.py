"""Every oddity marked in the code is on the page of oddities, and nothing is on the page that is not in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "numaware"
PAGE = (ROOT / "docs" / "kubelet" / "oddities.md").read_text(encoding="utf-8")
MARK = "KUBELET:"


def marked(text: str) -> Iterator[str]:
    """The functions and classes in which a mark stands, `_Taking._take`; the innermost one counts."""
    tree = ast.parse(text)
    for number, line in enumerate(text.splitlines(), 1):
        if MARK in line:
            yield ".".join(around(tree, number))


def around(node: ast.AST, line: int) -> list[str]:
    for child in ast.iter_child_nodes(node):
        if getattr(child, "lineno", line + 1) <= line <= (getattr(child, "end_lineno", None) or 0):
            names = [child.name] if isinstance(child, ast.FunctionDef | ast.ClassDef) else []
            return names + around(child, line)
    return []


def test_page_and_code_name_the_same_places() -> None:
    listed = set(re.findall(r"\(`([\w/]+\.py)`, `([\w.]+)`\)", " ".join(PAGE.split())))
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        for name in marked(path.read_text(encoding="utf-8"))
    }
    assert found - listed == set(), "marked in the code, missing on the page"
    assert listed - found == set(), "on the page, not marked in the code"


def test_every_oddity_on_the_page_names_its_place() -> None:
    entries = [entry for entry in PAGE.strip().split("\n\n") if entry.startswith("**")]
    assert len(entries) >= 35
    assert [entry for entry in entries if not entry.endswith("`)")] == []


def test_a_mark_inside_a_nested_function_is_found() -> None:
    text = "class A:\n    def b(self):\n        def c():\n            # KUBELET: x\n            return 1\n"
    assert list(marked(text)) == ["A.b.c"]
