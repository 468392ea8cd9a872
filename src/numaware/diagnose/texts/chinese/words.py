"""Facts as Chinese says them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaware.diagnose.texts.template import Each, Specs
from numaware.machine.words import size


def _nodes(numbers: Sequence[int]) -> str:
    return f"NUMA 节点 {_and(numbers)}" if numbers else "没有 NUMA 节点"


_BLAME = {
    "fits": "{resource} 放得进 {nodes:sets}",
    "wide": "{resource} 即使在空机器上也需要 {nodes:sets}",
    "fragmented": "{resource} 本可以用更少的 NUMA 节点，但可独占的部分分布在 {nodes:sets}",
    "nowhere": "{resource} 放不进任何 NUMA 节点的组合",
}


_UNREAD = {
    "empty": "{file} 是空的",
    "binary": "{file} 是二进制文件",
    "no-entries": "{file} 表示日志中没有所查询的条目",
    "other-log": "{file} 是 {programs:and} 的日志，其中没有 kubelet",
    "text": "{file} 中没有认识的行",
}


def _devices(held: Mapping[str, Mapping[str, int]]) -> str:
    """How many of each device on which NUMA node; -1 is none."""
    return _and(
        [
            f"{'没有 NUMA 节点的' if node == '-1' else f'NUMA 节点 {node} 上的'} {number} 个 {resource}"
            for resource, nodes in held.items()
            for node, number in nodes.items()
        ]
    )


def _and(parts: Iterable[object]) -> str:
    return "、".join(map(str, parts))


def _or(parts: Iterable[object]) -> str:
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
    "sets": lambda sets: _or(map(_nodes, sets)) or "没有可用的 NUMA 节点",
    "wants": Each("{resource} {nodes:only}从 {nodes:sets} 获得", "，"),
    "only": lambda sets: "只能" if len(sets) == 1 else "可以",
    "blame": Each(_BLAME, "；"),
    "holders": Each("{pod}（{nodes:nodes} 上的 {amount:amount}）", " 或 "),
    "unread": Each(_UNREAD, "；"),
    "room": Each("{nodes:nodes} 上的 {resource}", " 或 "),
    "devices": _devices,
    "managers": Each("{manager}（策略 {policy}）", "、"),
    "free": lambda free: _and(f"NUMA 节点 {node} 上 {amount}" for node, amount in free.items()),
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
