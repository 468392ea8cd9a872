"""Facts as Chinese says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaware.diagnose.texts.template import Specs
from numaware.machine.words import size


def _nodes(numbers: Sequence[int]) -> str:
    return f"NUMA 节点 {_and(numbers)}" if numbers else "没有 NUMA 节点"


def _sets(sets: Sequence[Sequence[int]]) -> str:
    return _or([_nodes(one) for one in sets]) if sets else "没有可用的 NUMA 节点"


def _wants(wishes: Sequence[Mapping[str, Any]]) -> str:
    return "，".join(
        f"{wish['resource']} {'只能' if len(wish['nodes']) == 1 else '可以'}从 {_sets(wish['nodes'])} 获得"
        if wish["nodes"]
        else f"{wish['resource']} 在任何 NUMA 节点上都得不到"
        for wish in wishes
    )


def _blame(parts: Sequence[Mapping[str, Any]]) -> str:
    """Each resource's part in an outcome that is not aligned."""
    states = {
        "fits": "{} 放得进 {}",
        "wide": "{} 即使在空机器上也需要 {}",
        "fragmented": "{} 本可以用更少的 NUMA 节点，但空闲的部分分布在 {}",
        "nowhere": "{} 放不进任何 NUMA 节点的组合",
    }
    return (
        "；".join(states[part["state"]].format(part["resource"], _sets(part["nodes"])) for part in parts)
        + "。"
    )


def _room(parts: Sequence[Mapping[str, Any]]) -> str:
    return _or([f"{_nodes(part['nodes'])} 上的 {part['resource']}" for part in parts])


def _devices(held: Mapping[str, Mapping[str, int]]) -> str:
    """How many of each device on which NUMA node; -1 is none."""
    return _and(
        [
            f"{'没有 NUMA 节点的' if node == '-1' else f'NUMA 节点 {node} 上的'} {number} 个 {resource}"
            for resource, nodes in held.items()
            for node, number in nodes.items()
        ]
    )


def _free(amounts: Mapping[str, str]) -> str:
    return _and([f"NUMA 节点 {node} 上 {amount}" for node, amount in amounts.items()])


def _managers(parts: Sequence[Mapping[str, str]]) -> str:
    return _and([f"{part['manager']}（策略 {part['policy']}）" for part in parts])


def _and(parts: Sequence[object]) -> str:
    return "、".join(map(str, parts))


def _or(parts: Sequence[object]) -> str:
    return " 或 ".join(map(str, parts))


def _duration(seconds: float) -> str:
    for unit, length in (("天", 86_400), ("小时", 3_600), ("分钟", 60)):
        if seconds >= 2 * length:
            return f"{round(seconds / length)} {unit}"
    return f"{seconds:.3g} 秒"


def _sentence(text: str) -> str:
    """The kubelet's own words stay as they are: that is what people search for."""
    return text if text.endswith((".", "!", "?", "。")) else f"{text}。"


SPECS: Specs = {
    "": str,
    "nodes": _nodes,
    "sets": _sets,
    "wants": _wants,
    "blame": _blame,
    "room": _room,
    "devices": _devices,
    "managers": _managers,
    "free": _free,
    "pods": lambda number: f"{number} 个 Pod",
    "errors": lambda number: f"{number} 个错误",
    "warnings": lambda number: f"{number} 个警告",
    "files": lambda number: f"{number} 个文件",
    "numa": lambda number: f"{number} 个 NUMA 节点",
    "cores": lambda number: f"{number} 个核",
    "and": _and,
    "or": _or,
    "cpus": lambda number: f"{number} 个 CPU",
    "size": size,
    "duration": _duration,
    "sentence": _sentence,
}
