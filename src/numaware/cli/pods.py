"""`numaware pods`: every pod of a live cluster, on which NUMA nodes it is, and whether that was foreseen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from numaware.cli.explain_view import phrase
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, Language, look_at
from numaware.cli.options import AsJson, flag, optional
from numaware.cli.output import write_json
from numaware.cli.tables import table
from numaware.diagnose.texts import Lang

if TYPE_CHECKING:
    from numaware.serve.listing import PodRow

app = App(name="pods", usage="Usage: numaware pods [OPTIONS]")


@app.default
def pods(
    *,
    namespace: Annotated[
        str | None,
        Parameter(name=["--namespace", "-n"], show_default=False, help="Only pods of this namespace."),
    ] = None,
    node: Annotated[str | None, optional("Only pods on this node.")] = None,
    crossing: Annotated[bool, flag("Only pods on more NUMA nodes than they need.")] = False,
    cluster: ClusterOptions = USUAL_CLUSTER,
    lang: Language = "en",
    as_json: AsJson = False,
) -> int:
    """See the pods of a cluster: node, NUMA nodes, aligned or not, foreseen against seen.

    FORESEEN is the placement that was predicted when the pod was bound; AS
    SEEN says how it turned out once the node's agent has looked: match,
    wrong_zone, wrong_cpus, or rejected by the kubelet.

    For example:

      numaware pods
      numaware pods -n ml --crossing
      numaware pods --node gpu-07 --json
    """
    cache, _ = look_at(cluster)
    from numaware.serve.listing import pod_rows  # noqa: PLC0415 - needed only now

    rows = [
        row
        for row in pod_rows(cache)
        if namespace in (None, row.namespace)
        and node in (None, row.node)
        and not (crossing and row.aligned is not False)
    ]
    if as_json:
        write_json({"pods": rows})
    else:
        sys.stdout.writelines(
            table(phrase("pods-heading", lang).split("|"), [_cells(row, lang) for row in rows])
        )
    return 0


def _cells(row: PodRow, lang: Lang) -> tuple[str, ...]:
    return (
        row.namespace,
        row.name,
        row.node or f"({row.reason or row.phase})",
        _list(row.numa),
        row.cpus or "-",
        "-" if row.aligned is None else phrase("pods-aligned" if row.aligned else "pods-crossing", lang),
        "-" if row.predicted is None else _list(row.predicted),
        phrase(f"outcome-{row.outcome}", lang) if row.outcome else "-",
    )


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "-"
