"""Gives the guide the answers behind its pictures that can be moved: what the twin says to every choice, made when it is built.

A hook of MkDocs (mkdocs.yml). The page decides nothing: kubelet/try.js only draws what stands here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from numaware.twin.node import Node
from support.twin_nodes import GPU, admitted, config, machine, pod
from support.twin_story import told

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
# The box of the page: CPU 0 is the system's, one GPU is beside the first 14 CPUs and two beside the others.
BOX = machine(2, 14, devices={GPU: {"gpu0": (0,), "gpu1": (1,), "gpu2": (1,)}})
BEFORE = {
    "nothing": (),
    "4 CPUs, then 3 CPUs and 2 GPUs": (pod("a", 4), pod("b", 3, gpu=2)),
    "10 CPUs": (pod("a", 10),),
    "a GPU": (pod("a", 1, gpu=1),),
}
CPUS, GPUS = range(1, 29), range(4)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs asks for what is to be built besides the pages."""
    script = f"window.numawareTry = {json.dumps(answers(), separators=(',', ':'))};\n"
    files.append(File.generated(config, "kubelet/try-answers.js", content=script))
    return files


def answers() -> dict[str, Any]:
    """The box, what may run on it before, and for every choice what the twin tells and who has which CPU and GPU then."""
    found: dict[str, Any] = {
        "nodes": [[*range(14)], [*range(14, 28)]],
        "gpus": [[0], [1, 2]],
        "reserved": [0],
    }
    found["policies"], found["before"] = POLICIES, [*BEFORE]
    found["answers"] = {
        f"{policy}/{before}/{cpus}/{gpus}": answer for policy, before, cpus, gpus, answer in _each()
    }
    return found


def _each() -> Iterator[tuple[str, int, int, int, list[Any]]]:
    for policy, (place, pods) in product(POLICIES, enumerate(BEFORE.values())):
        node = admitted(Node.fresh(BOX, config(policy)), *pods)
        for cpus, gpus in product(CPUS, GPUS):
            asked = pod("u", cpus, **({"gpu": gpus} if gpus else {}))
            verdict = node.admit(asked)
            shares = _held(node, set(node.state.pods)), _held(verdict.node, {"u"})
            yield policy, place, cpus, gpus, [int(verdict.admitted), told(node, asked), *shares]


def _held(node: Node, uids: set[str]) -> list[list[int]]:
    """The CPUs and the GPUs that these pods have."""
    cpus, gpus = 0, 0
    for uid in uids:
        for mask in node.state.cpu.owned.get(uid, {}).values():
            cpus |= mask
        for devices in node.state.device.owned.get(uid, {}).values():
            gpus |= devices.get(GPU, 0)
    return [_members(cpus), _members(gpus)]


def _members(mask: int) -> list[int]:
    return [one for one in range(mask.bit_length()) if mask >> one & 1]
