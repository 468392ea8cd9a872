"""A recommended kubelet configuration as a file: YAML with the reason above each line, or JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from numaware.diagnose.finding import Message
from numaware.diagnose.recommend.configuration import Recommendation
from numaware.diagnose.render.json import document_bytes
from numaware.diagnose.texts import Lang, label
from numaware.machine.cpuset import CpuSet
from numaware.machine.words import printable
from numaware.twin.account import held_by
from numaware.twin.hardware import layout
from numaware.workload.demand import quantity_text

_WIDTH = 100
# Chinese letters are two columns wide, and have no blanks to break at.
_WIDTH_OF = {"en": _WIDTH, "zh": _WIDTH // 2}


def render(recommended: Recommendation, machine: str, lang: Lang = "en") -> str:
    """The file."""
    return "\n".join(_lines(recommended, machine, lang)) + "\n"


def _lines(recommended: Recommendation, machine: str, lang: Lang) -> Iterator[str]:
    facts = {
        "purpose": recommended.purpose,
        "machine": printable(machine, 120),
        "version": recommended.version,
    }
    yield from _comment(label(Message("recommend-title", facts), lang), lang)
    yield from _comment(f"{label(Message('recommend-machine', _machine_facts(recommended)), lang)}.", lang)
    yield from _comment(proof(recommended, lang), lang)
    for note in recommended.notes:
        text = label(note, lang)
        yield from _comment(label(Message("recommend-note", {"text": text}), lang), lang)
    yield from _comment(label("recommend-apply", lang), lang)
    yield "apiVersion: kubelet.config.k8s.io/v1beta1"
    yield "kind: KubeletConfiguration"
    for setting in recommended.settings:
        yield ""
        for reason in setting.why:
            yield from _comment(label(reason, lang), lang)
        yield from _yaml(setting.key, setting.value)


def to_builtins(recommended: Recommendation, machine: str, lang: Lang = "en") -> dict[str, Any]:
    """All of it for programs."""
    cpus = _cpus(recommended)
    return {
        "workload": recommended.purpose,
        "version": recommended.version,
        "machine": {"name": printable(machine, 120), **_machine_facts(recommended)},
        "kubeletConfiguration": recommended.document,
        "settings": [
            {
                "field": setting.key,
                "value": setting.value,
                "why": [label(reason, lang) for reason in setting.why],
            }
            for setting in recommended.settings
        ],
        "notes": [label(note, lang) for note in recommended.notes],
        "proof": {
            "admitted": recommended.verdict.admitted,
            "requests": _asked(recommended),
            "cpuset": str(CpuSet.from_mask(cpus)) if cpus else None,
            "numaNodes": _where(recommended),
            "text": proof(recommended, lang),
        },
    }


def proof(recommended: Recommendation, lang: Lang) -> str:
    """What was tried."""
    asked = [f"{amount} {name}" for name, amount in _asked(recommended).items()]
    where = _where(recommended)
    if where:
        return label(Message("recommend-proof", {"asked": asked, "where": where}), lang)
    return label(Message("recommend-proof-shared", {"asked": asked}), lang)


def as_json(recommended: Recommendation, machine: str, lang: Lang = "en") -> bytes:
    return document_bytes(to_builtins(recommended, machine, lang))


def _asked(recommended: Recommendation) -> dict[str, str]:
    return {name: quantity_text(name, nano) for name, nano in recommended.pod.containers[0].limits}


def _where(recommended: Recommendation) -> list[int]:
    """The NUMA nodes of the CPUs that the pod got."""
    owned = _cpus(recommended)
    return [number for number, cpus in recommended.verdict.node.kubelet.layout.numas if cpus & owned]


def _cpus(recommended: Recommendation) -> int:
    """The CPUs that the pod got, as a mask."""
    return held_by(recommended.verdict.held, recommended.pod.uid).cpus


def _machine_facts(recommended: Recommendation) -> dict[str, Any]:
    numa = recommended.hardware.numa
    seen = layout(tuple(sorted(numa, key=lambda node: node.id)))
    memory = sum(node.memory_bytes for node in numa)
    devices = [f"{len(resource.devices)} {resource.name}" for resource in recommended.hardware.resources]
    return {
        "nodes": len(numa),
        "cores": len(seen.cores),
        "cpus": seen.cpu_count,
        **({"memory": memory} if memory else {}),
        **({"devices": devices} if devices else {}),
    }


def _comment(text: str, lang: Lang) -> Iterator[str]:
    for line in wrap(text, _WIDTH_OF[lang], break_long_words=lang == "zh", break_on_hyphens=False):
        yield f"# {line}"


def _yaml(key: str, value: Any) -> Iterator[str]:
    """Only what a KubeletConfiguration needs: texts, maps of texts, and the list of reserved memory."""
    match value:
        case dict():
            yield f"{key}:"
            yield from (f"  {name}: {_text(part)}" for name, part in value.items())
        case list():
            yield f"{key}:"
            for item in value:
                yield f"- numaNode: {item['numaNode']}"
                yield "  limits:"
                yield from (f"    {name}: {_text(part)}" for name, part in item["limits"].items())
        case _:
            yield f"{key}: {_text(value)}"


def _text(value: str) -> str:
    """In quotes where YAML would take it for something else than text."""
    plain = value[0].isalpha() or value.endswith(("i", "%"))
    return value if plain and value not in ("true", "false") else f'"{value}"'
