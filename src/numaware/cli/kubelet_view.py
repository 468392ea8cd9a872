"""How `numaware kubelet` shows a plan, its progress and its end. What it says while it works goes to standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from numaware.cli.output import tell
from numaware.diagnose.texts import Lang, say
from numaware.node.kubelet_switch.executor import Happens, Outcome
from numaware.node.kubelet_switch.plan import Plan
from numaware.node.kubelet_switch.steps import AnyStep
from numaware.node.kubelet_switch.words import worded
from numaware.sentence import Sentence


def page(plan: Plan, lang: Lang = "en") -> str:
    """The plan for people: what changes, what is done and why, and what would come of it."""
    place = plan.place
    title = Sentence(
        "Kubelet {version} of {kind}: {file}", version=plan.version, kind=place.kind, file=place.file
    )
    lines = [say(title, lang)]
    if not plan.changes and not plan.diff:
        return "\n".join([*lines, "", say(Sentence("Nothing would change."), lang), ""])
    lines += ["", *plan.diff.splitlines()]
    for refusal in plan.refusals:
        lines += ["", say(Sentence("The kubelet would not start: {said}", said=refusal), lang)]
    lines += ["", *(f"! {say(obstacle, lang)}" for obstacle in plan.obstacles)] if plan.obstacles else []
    if plan.steps:
        lines += ["", say(Sentence("Steps"), lang)]
    for number, step in enumerate(plan.steps, 1):
        words = worded(step)
        lines += [f"  {number:2}  {say(words.what, lang)}", f"      {say(words.why, lang)}"]
    if plan.ended:
        lines += [
            "",
            say(Sentence("The restart would end {count} running pods:", count=len(plan.ended)), lang),
        ]
        lines += [f"  {one.namespace}/{one.name}  {one.reason}: {one.message}" for one in plan.ended]
    lines += ["", *(say(note, lang) for note in plan.notes)] if plan.notes else []
    return "\n".join([*lines, ""])


def plan_json(plan: Plan, lang: Lang = "en") -> bytes:
    """The plan for programs."""
    steps = [worded(step) for step in plan.steps]
    document: dict[str, Any] = {
        "node": plan.node,
        "version": plan.version,
        "kind": plan.place.kind,
        "unit": plan.place.unit,
        "file": plan.place.file,
        "form": plan.place.form,
        "possible": plan.possible,
        "changes": [{"field": one.field, "before": one.before, "after": one.after} for one in plan.changes],
        "diff": plan.diff,
        "refusals": plan.refusals,
        "obstacles": [say(one, lang) for one in plan.obstacles],
        "ended": plan.ended,
        "notes": [say(one, lang) for one in plan.notes],
        "steps": [
            {"step": one.name, "what": say(one.what, lang), "why": say(one.why, lang)} for one in steps
        ],
    }
    return msgspec.json.encode(document, enc_hook=str) + b"\n"


def progress(steps: Sequence[AnyStep], lang: Lang) -> Callable[[Happens, int, Sentence], None]:
    """A line for every step as it happens."""
    marks = {"begin": "...", "done": "ok", "failed": "failed", "undone": "undone", "stuck": "stuck"}

    def told(happens: Happens, number: int, why: Sentence) -> None:
        words = say(worded(steps[number]).what, lang)
        said = f": {say(why, lang)}" if why else ""
        tell(f"  {number + 1:2}  {words}  {marks[happens]}{said}\n", sys.stderr)

    return told


def ending(outcome: Outcome, folder: Path) -> Sentence:
    """How it ended, and what there is to do."""
    match outcome.result:
        case "applied":
            return Sentence(
                "Applied. `numaware kubelet rollback` goes back; {folder} has the files as they were.",
                folder=str(folder),
            )
        case "rolled-back":
            return Sentence("Rolled back, everything is as it was: {why}", why=outcome.why)
        case "stuck":
            return Sentence(
                "Not put back yet: {why}. When that is mended, `numaware kubelet rollback --yes` goes on; {folder} has the files.",
                why=outcome.why,
                folder=str(folder),
            )


def write(words: Sentence, lang: Lang) -> None:
    """One line on standard error."""
    tell(f"{say(words, lang)}\n", sys.stderr)
