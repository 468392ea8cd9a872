"""What installs numaware: the chart as Helm renders it for each way to use it (`scripts/manifests.py`), filled in for one cluster.

The files are whole manifests with Helm's defaults in the two places that only who installs knows: where nodes pull the image from,
and which nodes kube-scheduler runs on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, Literal, get_args

import yaml

from numaware import __version__
from numaware.errors import InputError
from numaware.machine.words import printable

Way = Literal["beside-kube-scheduler", "inside-kube-scheduler", "inside-volcano", "observe-only"]
WAYS: tuple[Way, ...] = get_args(Way)
Object = dict[str, Any]

USUAL_IMAGE = f"numaware:{__version__}"
_FILES = resources.files(__package__) / "rendered"
_NODE = "node-of-kube-scheduler"
_SEPARATOR = "\n---\n"
# As the chart's schema has it: names become labels and parts of names.
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][\w./:@-]{0,254}", re.ASCII)


def manifests(way: Way, image: str = USUAL_IMAGE, nodes: Sequence[str] = ()) -> str:
    """Everything to apply, kinds first, as YAML; `InputError` for a name that cannot be one, or one that is missing."""
    _check(way, image, nodes)
    documents = _read("kinds.yaml").split(_SEPARATOR) + _read(f"{way}.yaml").split(_SEPARATOR)
    text = _SEPARATOR.join(
        document.replace(_NODE, node)
        for document in documents
        for node in (nodes if _NODE in document else ("",))
    )
    return text.replace(f"image: {USUAL_IMAGE}\n", f"image: {image}\n")


def objects(text: str) -> list[Object]:
    """The same as values."""
    return [one for one in yaml.safe_load_all(text) if one]


def next_steps(way: Way, nodes: Sequence[str] = ()) -> str:
    """What the chart's notes tell who has installed it."""
    return _read(f"{way}.txt").replace(_NODE, ", ".join(nodes)).strip()


def _read(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")


def _check(way: Way, image: str, nodes: Sequence[str]) -> None:
    if not _IMAGE.fullmatch(image):
        raise InputError(
            f"--image {printable(image, 80)}",
            "is not the name of an image",
            hint="--image registry.example.org/numaware:0.1.0",
        )
    if way != "inside-kube-scheduler" and nodes:
        raise InputError("--node", "only inside-kube-scheduler runs on nodes with a name")
    if way == "inside-kube-scheduler" and not nodes:
        raise InputError(
            "--node",
            "which nodes does kube-scheduler run on? The extender has to be beside it",
            hint="kubectl get nodes --selector node-role.kubernetes.io/control-plane",
        )
    for node in nodes:
        if not _NODE_NAME.fullmatch(node):
            raise InputError(f"--node {printable(node, 80)}", "is not the name of a node")
    if len(set(nodes)) < len(nodes):
        raise InputError("--node", "names a node twice")
