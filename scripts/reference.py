#!/usr/bin/env python3
"""The pages of docs/reference: commands, API, metrics, objects, findings and reasons, from the code that they describe.

`make reference` writes them; with `--check`, which only looks whether they are up to date, `make lint` calls it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cyclopts import App
from prometheus_client import Metric
from ruamel.yaml import YAML

from numaware.cli import VERBS, build
from numaware.diagnose.finding import CODES
from numaware.diagnose.reason import FACTS
from numaware.diagnose.texts import Lang, language
from numaware.diagnose.texts.template import Specs, fill
from numaware.serve.console.api.operations import openapi
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import operations_of
from numaware.serve.console.lab.world import LabWorld
from numaware.serve.metrics import Metrics

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
_MADE = "<!-- Made by scripts/reference.py (make reference); changes here are lost. -->\n"


def pages() -> dict[str, str]:
    """Every page by the name of its file."""
    return {
        "commands.md": _page("Commands", _COMMANDS, commands()),
        "api.md": _page("The console's API", _API, api()),
        "metrics.md": _page("Metrics", _METRICS, metrics()),
        "objects.md": _page("Objects in the cluster", _OBJECTS, objects()),
        "chart.md": _page("Values of the chart", _CHART, chart()),
        "findings.md": _page("Findings", _FINDINGS["en"], findings("en")),
        "findings.zh-CN.md": _page("诊断结果", _FINDINGS["zh"], findings("zh")),
        "reasons.md": _page("Reasons", _REASONS, reasons()),
    }


_COMMANDS = (
    "What `--help` says of each command. Exit codes: 0 fine, 1 the answer is no or something was found, 2 bad usage or bad "
    "input, told in one line."
)
_API = (
    "What the console answers to programs; `GET /api/v1/openapi.json` has the whole as an OpenAPI document, with every "
    "schema. A problem is `application/problem+json`; `lang=zh` asks for Chinese. Below `/rest` are the paths that openFuyao's "
    "users know, answered in its envelope."
)
_METRICS = "What scheduler and extender count of themselves. What agents tell of a node stands on [their page](../agent.md#what-it-exports)."
_OBJECTS = "The kinds of `numaware.io` that `deploy/crd` brings, field by field. `kubectl explain` says the same in a cluster."
_CHART = (
    "All values of `deploy/helm/numaware` with what they are if nothing is said. A name or a word that is not here is an error "
    "before anything is sent."
)
_FINDINGS: dict[Lang, str] = {
    "en": "What `diagnose`, `lint`, `doctor` and the console find, by code: what it is called, why it is so, and what to do, best "
    "first. «Quotes» hold what is known of the case; a sentence whose facts are not known is left out. Codes never change. "
    "[中文](findings.zh-CN.md)",
    "zh": "`diagnose`、`lint`、`doctor` 和控制台能发现的问题，按代码排列：名称、原因、对策（最佳在前）。«引号»中是具体案例的事实；"
    "事实未知的句子会省略。代码永不更改。[English](findings.md)",
}
_REASONS = (
    "Why a node does not take a pod, or why a pod waits: in the words of kube-scheduler, where it has some. The scheduler "
    "writes them on the pod, and `why-pending`, `whatif`, the extender and the console say the same."
)


def commands() -> Iterator[str]:
    """Every verb with its own commands, as its help has them."""
    for verb in sorted(VERBS):
        app: App = build(verb)[verb]
        if app.default_command:
            yield _command(verb, app)
        for name in sorted(name for name in app if not name.startswith("-")):
            yield _command(f"{verb} {name}", app[name])


def _command(name: str, app: App) -> str:
    made = app.generate_docs(output_format="markdown", recursive=False, include_hidden=False)
    usage, _, rest = made.partition("```console\n")[2].partition("\n```\n")
    # What is plain text in the terminal stays so: its lines are broken there, and examples are indented.
    text, mark, parameters = rest.partition("\n**")
    options = f"{mark}{parameters}".strip().replace("<", "&lt;")
    arguments = usage.removeprefix("numaware ").partition(" ")[2]
    return f"## numaware {name}\n\n```text\nnumaware {name} {arguments}\n\n{text.strip()}\n```\n\n{options}\n"


def api() -> Iterator[str]:
    """A table of the operations of each kind."""
    document = openapi(operations_of(Console(LabWorld(0), lambda: 0)))
    tables: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, one in operations.items():
            given = [f"`{field['name']}`" for field in one.get("parameters", ()) if "name" in field]
            if "requestBody" in one:
                given.append("a body")
            tables.setdefault(one["tags"][0], []).append(
                f"| `{method.upper()} {path}` | {_cell(one['summary'])} | {', '.join(given)} |"
            )
    for tag, rows in tables.items():
        yield f"## {tag}\n\n| call | answers | takes |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def metrics() -> Iterator[str]:
    """One table of names, kinds and words."""
    rows = [
        f"| `{_full_name(one)}` | {one.type} | {_cell(one.documentation)} |"
        for one in sorted(Metrics().registry.collect(), key=lambda one: one.name)
        if not one.name.startswith("process_")
    ]
    yield "| metric | kind | tells |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _full_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def objects() -> Iterator[str]:
    """The fields of each kind of ours."""
    for path in sorted((ROOT / "deploy" / "crd").glob("*.yaml")):
        for document in YAML(typ="safe").load_all(path):
            spec = document["spec"]
            if spec["group"] != "numaware.io":
                continue
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                rows = [row for part in ("spec", "status") for row in _fields(schema, part, "")]
                yield (
                    f"## {spec['names']['kind']} ({spec['group']}/{version['name']})\n\n"
                    f"| field | type | what it is |\n|---|---|---|\n" + "\n".join(rows) + "\n"
                )


def _fields(schema: Mapping[str, Any], name: str, above: str) -> Iterator[str]:
    field = schema.get("properties", {}).get(name)
    if field is None:
        return
    path, inner = f"{above}{name}", field
    while inner.get("type") == "array":
        path, inner = f"{path}[]", inner["items"]
    kind = " or ".join(f"`{one}`" for one in inner.get("enum", ())) or inner.get("type", "any")
    yield f"| `{path}` | {kind} | {_cell(field.get('description', ''))} |"
    for one in inner.get("properties", {}):
        yield from _fields(inner, one, f"{path}.")


def chart() -> Iterator[str]:
    """The file of values as it is: its comments are the reference."""
    yield f"```yaml\n{(ROOT / 'deploy/helm/numaware/values.yaml').read_text('utf-8')}```\n"


def findings(lang: Lang) -> Iterator[str]:
    """Each code with its texts, those of its variants below."""
    tables, english = language(lang), language("en")
    for code, severity in CODES.items():
        keys = [key for key in english.TEXTS if key.partition("/")[0] == code]
        if not keys:
            continue
        yield f"## {code}\n\n*{severity}*\n"
        for key in keys:
            words = tables.TEXTS.get(key) or english.TEXTS[key]
            yield f"**{_named(words.title, tables.SPECS)}**\n\n{_named(words.cause, tables.SPECS)}\n"
            yield "".join(_fix(_named(one, tables.SPECS)) for one in words.fix)


def _fix(text: str) -> str:
    """A way out; what it gives to paste stands below it."""
    first, _, paste = text.partition("\n")
    block = "".join(f"    {line}\n" for line in ("```text", *paste.replace("&lt;", "<").splitlines(), "```"))
    return f"- {first}\n" + (f"\n{block}\n" if paste else "")


def reasons() -> Iterator[str]:
    """Each reason in both languages."""
    english, chinese = language("en"), language("zh")
    rows = [
        f"| `{code}` | {_cell(_named(english.REASONS[code], english.SPECS))} "
        f"| {_cell(_named(chinese.REASONS[code], chinese.SPECS))} |"
        for code in FACTS
        # What somebody else said has no words of ours.
        if code != "quoted"
    ]
    yield "| code | English | 中文 |\n|---|---|---|\n" + "\n".join(rows) + "\n"


class _Names(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return f"«{name}»"


def _named(template: str, specs: Specs) -> str:
    """The sentence with the names of its facts in their places."""
    filled = fill(template, _Names(), dict.fromkeys(specs, str))
    return filled.replace("<", "&lt;").replace("*", "\\*")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _page(title: str, about: str, parts: Iterator[str]) -> str:
    return f"# {title}\n\n{_MADE}\n{about}\n\n" + "\n".join(part for part in parts if part).rstrip() + "\n"


def main() -> int:
    """Write the pages, or say which are not up to date."""
    made = pages()
    if "--check" not in sys.argv[1:]:
        FOLDER.mkdir(exist_ok=True)
        for name, text in made.items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    there = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if stale:
        sys.stderr.write(f"docs/reference: {', '.join(stale)} not up to date; run make reference\n")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
