"""The steps of a switch as people read them: what is done, and why. Sentences are values; the edge words them."""

from __future__ import annotations

from pathlib import PurePath
from typing import NamedTuple

from numaware.node.kubelet_switch.steps import (
    AnyStep,
    Backup,
    Cordon,
    Drain,
    Ready,
    Remove,
    Start,
    Stop,
    Uncordon,
    Write,
)
from numaware.sentence import Sentence


class StepWords(NamedTuple):
    """A step in words."""

    name: str
    what: Sentence
    why: Sentence


def worded(step: AnyStep) -> StepWords:
    """What a step does, and why it is there."""
    what, why = _words(step)
    return StepWords(type(step).__name__.lower(), what, why)


def _words(step: AnyStep) -> tuple[Sentence, Sentence]:
    match step:
        case Cordon():
            return Sentence("cordon the node"), Sentence("no new pod comes while its kubelet is away")
        case Drain():
            return (
                Sentence("evict {count} pods: {pods}", count=len(step.pods), pods=", ".join(step.pods)),
                Sentence("they move before the restart, as their disruption budgets allow"),
            )
        case Stop():
            return (
                Sentence("stop {unit}", unit=step.unit),
                Sentence("a kubelet reads its configuration at the start only; containers go on"),
            )
        case Backup():
            return (
                Sentence("copy {files} to {folder}", files=_names(step.paths), folder=step.folder),
                Sentence("the way back, to the byte"),
            )
        case Write():
            return Sentence("write {path}", path=step.path), Sentence("the settings that were asked for")
        case Remove(said=""):
            return Sentence("remove {path}", path=step.path), Sentence("it was not there before")
        case Remove():
            return (
                Sentence("remove {path}", path=step.path),
                Sentence("with it the kubelet would not start: {said}", said=step.said),
            )
        case Start():
            return Sentence("start {unit}", unit=step.unit), Sentence("with the new configuration")
        case Ready():
            return (
                Sentence("wait until {unit} is ready", unit=step.unit),
                Sentence("if it does not come up, all of this is undone"),
            )
        case Uncordon():
            return Sentence("uncordon the node"), Sentence("new pods may come again")


def _names(paths: tuple[str, ...]) -> str:
    return ", ".join(PurePath(path).name for path in paths)
