#!/usr/bin/env python3
"""Draw the pictures in docs/pictures anew: `python scripts/pictures.py` (machines and pods in them are invented).

With `--check` nothing is written, and the exit code says whether the pictures are still what this would draw.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from io import StringIO
from itertools import combinations
from pathlib import Path

import msgspec
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from numaware.cli.explain_view import lines
from numaware.diagnose.explain.explanation import explain
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing import svg, terminal, text
from numaware.machine.drawing.lines import Line
from numaware.machine.drawing.picture import draw
from numaware.machine.topology import HugePages, Link, Machine, NumaNode, PciDevice
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
COLUMNS = 100

MACHINES = {
    "1-numa": "1s x 1n x 8c x 2t +gpu@0 +nic@0 mem=64Gi",
    "2-numa": "2s x 1n x 16c x 2t +gpu@0,0,1,1 +nic@0,1 mem=256Gi",
    "4-numa": "2s x 2n x 16c x 2t +gpu@0,0,1,1,2,2,3,3 +nic@0,1,2,3 mem=256Gi",
    "8-numa": "2s x 4n x 8c x 2t +gpu@0,1,2,3,4,5,6,7 +nic@0,4 mem=192Gi",
}

# The page that rich makes fetches a font; this one names only fonts that are there.
_PAGE = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
<rect fill="#10161d" x="1" y="1" width="{width}" height="{height}" rx="8"/>
<g transform="translate(9, 9)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_DARK = TerminalTheme(
    (16, 22, 29),
    (232, 237, 243),
    [
        (16, 22, 29),
        (238, 106, 95),
        (53, 184, 168),
        (224, 160, 48),
        (109, 179, 242),
        (229, 139, 192),
        (88, 196, 207),
        (181, 192, 204),
    ],
)


def machine(line: str) -> Machine:
    """An invented machine with a name, huge pages, and switches and links between its devices."""
    made = synthetic.read(line)
    gpus = [device for device in made.devices if device.kind == "gpu"]
    links = [Link(a.name, b.name, "NV12" if a.numa == b.numa else "SYS") for a, b in combinations(gpus, 2)]
    nodes = tuple(
        msgspec.structs.replace(node, hugepages=(HugePages(1 << 30, 16, 12),)) for node in made.numa
    )
    switches = {device.numa: f"0000:{0x0E + 16 * (device.numa or 0):02x}:01.0" for device in made.devices}
    pci = [msgspec.structs.replace(function, parent=switches[function.numa]) for function in made.pci]
    pci += [
        PciDevice(address, "060400", "8086", "352a", "pcieport", node) for node, address in switches.items()
    ]
    return msgspec.structs.replace(
        made,
        vendor="Example",
        product="R7",
        numa=nodes,
        pci=tuple(sorted(pci, key=lambda function: function.address)),
        links=tuple(links),
    )


def odd_machine() -> Machine:
    """Everything a picture can point out: memory without CPUs, E-cores, CPUs offline, isolated and forbidden."""
    made = synthetic.read("1s x 2n x 8c x 2t +gpu@0 mem=64Gi")
    nodes = list(made.numa)
    for number, kind, amount, near in ((2, "hbm", 16, 0), (3, "cxl", 128, 1)):
        to_all = tuple((other, 10 if other == number else 17 if kind == "hbm" else 30) for other in range(4))
        extra = NumaNode(number, CpuSet(), amount << 30, (), to_all, "dram", nodes[near].cpus)
        nodes.append(msgspec.structs.replace(extra, kind=kind))
    both = {2: 17, 3: 30}
    nodes[:2] = [
        msgspec.structs.replace(node, distances=(*node.distances, *both.items())) for node in nodes[:2]
    ]
    cpus = []
    for cpu in made.cpus:
        core = cpu.id % 16
        changed = msgspec.structs.replace(cpu, kind="E" if core >= 12 else "P", allowed=core != 10)
        cpus.append(msgspec.structs.replace(changed, online=core != 11))
    return msgspec.structs.replace(
        made,
        vendor="Example",
        product="Odd One",
        cpus=tuple(cpus),
        numa=tuple(nodes),
        memory_bytes=None,
        isolated=CpuSet([2, 3, 18, 19]),
        devices=(*made.devices, msgspec.structs.replace(made.devices[0], name="GPU1", pci=None, numa=None)),
        warnings=("sys/devices/system/node/node3/distance: 3 values for 4 nodes",),
    )


def explained(cpus: int) -> list[Line]:
    """A pod of so many CPUs and a GPU on a node where two others run."""
    config = KubeletConfig(
        topology_policy="single-numa-node", cpu_policy="static", reserved_cpus="0,32", version="v1.35.0"
    )
    node = Node.fresh(hardware_of(synthetic.read("2s x 1n x 16c x 2t +gpu@0,0,1,1 mem=128Gi")), config)
    for name, count in (("data/etl-7", 20), ("web/search-0", 20)):
        node = node.admit(guaranteed(name, count, 0)).node
    return list(lines(explain("gpu-07", node, guaranteed("ml/trainer", cpus, 1)), COLUMNS))


def guaranteed(name: str, cpus: int, gpus: int) -> Pod:
    amounts = {"cpu": cpus, "memory": 16 << 30} | ({"nvidia.com/gpu": gpus} if gpus else {})
    resources = tuple(sorted((resource, count * NANO) for resource, count in amounts.items()))
    namespace, _, short = name.partition("/")
    return Pod(short, namespace, name, (Container("main", resources, resources),))


def screenshot(page: Sequence[Line]) -> bytes:
    """Lines of text as a terminal shows them."""
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    terminal.print_to(console, page)
    return console.export_svg(title="", theme=_DARK, code_format=_PAGE, unique_id="terminal").encode()


def pictures() -> dict[str, bytes]:
    """Every picture by its file name."""
    drawn = {name: machine(line) for name, line in MACHINES.items()} | {"odd": odd_machine()}
    drawings = {f"{name}.svg": svg.render(made) for name, made in drawn.items()}
    screens = {
        f"{name}-terminal.svg": screenshot(text.render(draw(made), COLUMNS)) for name, made in drawn.items()
    }
    explanations = {
        "explain-refused.svg": screenshot(explained(16)),
        "explain-admitted.svg": screenshot(explained(12)),
    }
    return drawings | screens | explanations


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if a picture is not up to date"
    )
    check = parser.parse_args().check
    stale = {name: data for name, data in pictures().items() if not _is(PICTURES / name, data)}
    for name, data in stale.items():
        sys.stdout.write(f"{'out of date' if check else 'drawn'}: {name}\n")
        if not check:
            (PICTURES / name).write_bytes(data)
    return int(check and bool(stale))


def _is(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


if __name__ == "__main__":
    sys.exit(main())
