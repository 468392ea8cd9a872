"""`numaware nodes`: every node of a live cluster, its NUMA nodes, and how well it is known."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from numaware.cli.explain_view import phrase
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, Language, check_nodes, look_at
from numaware.cli.options import AsJson
from numaware.cli.output import write_json
from numaware.cli.tables import table
from numaware.diagnose.texts import Lang
from numaware.machine.words import printable

if TYPE_CHECKING:
    from numaware.serve.listing import NodeRow, ZoneRow

app = App(name="nodes", usage="Usage: numaware nodes [NAME...] [OPTIONS]")


@app.default
def nodes(
    *names: Annotated[str, Parameter(name="NAME", help="Only these nodes.")],
    cluster: ClusterOptions = USUAL_CLUSTER,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """See the nodes of a cluster: what is free to pin on each NUMA node, by which policy, and who says so.

    Free to pin is what a new pod could own, by NUMA node. Not requested is
    what a scheduler that counts per node would still give away.

    Devices that come by DRA are told below the table, where their drivers
    say that they are: no kubelet aligns them.

    KNOWN is complete (numaware's agent tells everything), counts (another
    publisher counts per NUMA node; pods go there where every state that fits
    the counts would take them) or none (only totals are known).

    Exit code: 0 fine, 1 some node's topology cannot be used or a pod on it
    cannot be read in full, 2 bad input.

    For example:

      numaware nodes
      numaware nodes gpu-07 --json
    """
    cache, problems = look_at(cluster)
    from numaware.serve.listing import node_rows  # noqa: PLC0415 - needed only now

    rows = [row for row in node_rows(cache) if not names or row.name in names]
    check_nodes(names, {row.name for row in rows})
    if as_json:
        write_json({"nodes": rows, "problems": problems})
    else:
        sys.stdout.writelines(
            table(phrase("nodes-heading", lang).split("|"), [_cells(row, lang) for row in rows])
        )
        for row in rows:
            if row.dra:
                sys.stdout.write(f"{phrase('nodes-dra', lang, node=row.name, devices=_dra(row))}\n")
        for row in rows:
            if row.problem:
                sys.stdout.write(f"{row.name}: {printable(row.problem, 300)}\n")
        sys.stdout.writelines(f"{printable(problem, 300)}\n" for problem in problems)
    return int(bool(problems) or any(row.problem for row in rows))


def _cells(row: NodeRow, lang: Lang) -> tuple[str, ...]:
    policy = row.topology_policy or "?"
    if row.topology_scope:
        policy += f"/{row.topology_scope}"
    known: dict[str, str] = {"level": phrase(f"nodes-known-{row.known}", lang)}
    if row.source:
        known["source"] = row.source
    if row.known == "counts" and not row.current:
        known["old"] = phrase("nodes-old", lang)
    waiting = {"waiting": row.waiting} if row.waiting else {}
    return (
        row.name,
        policy,
        phrase("nodes-known", lang, **known),
        phrase("nodes-pods", lang, pods=row.pods, **waiting),
        " | ".join(_left(zone, "cpu") for zone in row.zones) or "?",
        " | ".join(_devices(zone) for zone in row.zones) or "?",
        str(row.not_requested.get("cpu", 0) // 1000),
    )


def _dra(row: NodeRow) -> list[dict[str, Any]]:
    """How many devices of which driver are where, and how many of them no claim has."""
    total = Counter((one.driver, -1 if one.numa_node is None else one.numa_node) for one in row.dra)
    held = Counter(
        (one.driver, -1 if one.numa_node is None else one.numa_node) for one in row.dra if one.claims
    )
    return [
        {
            "driver": printable(driver, 80),
            "count": count,
            "free": count - held[driver, numa],
            **({"numa": numa} if numa >= 0 else {}),
        }
        for (driver, numa), count in sorted(total.items())
    ]


def _left(zone: ZoneRow, name: str) -> str:
    return f"{zone.free_to_pin[name]}/{zone.capacity[name]}" if name in zone.free_to_pin else "-"


def _devices(zone: ZoneRow) -> str:
    devices = [
        f"{_left(zone, name)} {name.rpartition('/')[2]}"
        for name in zone.capacity
        if "/" in name and zone.capacity[name]
    ]
    return ", ".join(devices) or "-"
