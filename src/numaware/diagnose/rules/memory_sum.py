"""Where `reservedMemory` does not add up: by how much, and an example of what would. For the rules on configurations and logs."""

from __future__ import annotations

from collections.abc import Sequence

from numaware.machine.quantity import Quantity

_MEBI = 1 << 20


def apart(found: Quantity, wanted: Quantity) -> dict[str, str]:
    """How far the sum is from what it should be, and on which side of it."""
    nano = abs(found.nano - wanted.nano)
    binary = nano % (_MEBI * 10**9) == 0
    difference = str(Quantity(nano, "binary" if binary else (wanted if wanted.nano else found).family))
    return {"difference": difference, "tooMuch" if found.nano > wanted.nano else "tooLittle": difference}


def split(kind: str, wanted: Quantity, numa_nodes: Sequence[int]) -> str:
    """The amount over these NUMA nodes, evenly, the first with the rest, as it is written in a configuration."""
    nodes = list(numa_nodes[:64]) or [0]
    step = _MEBI if wanted.value % _MEBI == 0 else 1
    each = wanted.value // step // len(nodes) * step
    lines = ["reservedMemory:"]
    for place, node in enumerate(nodes):
        amount = each + (wanted.value - each * len(nodes) if place == 0 else 0)
        if amount:
            size = f"{amount // _MEBI}Mi" if amount % _MEBI == 0 else str(amount)
            lines += [f"- numaNode: {node}", "  limits:", f"    {kind}: {size}"]
    return "\n".join(lines)
