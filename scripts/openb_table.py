#!/usr/bin/env python3
"""The table of docs/lab.md: rules side by side on OpenB traces, by GPUs in use and by placed pods of each size.

    .venv/bin/python scripts/openb_table.py ../shared/data/traces --trace default --pods 4000 --pods 0

Every cell is a whole run on all nodes (minutes of CPU time each for some rules); they are played on all cores.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from numaware.simulate import openb
from numaware.simulate.result import Run
from numaware.simulate.sweep import plan, run_all

TRACES = ("default", "cpu050", "multigpu50")
KUBELETS = ("restricted", "single-numa-node", "best-effort", "none")
RULES = ("numaware", "kai", "fgd", "koordinator", "volcano", "scheduler-plugins", "kube-scheduler")
SIZES = ("8", "4", "2")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", type=Path, help="where openb_node_list_all_node.csv and openb_pod_list_*.csv are"
    )
    parser.add_argument("--trace", action="append", help=f"of {', '.join(TRACES)}, which are the default")
    parser.add_argument(
        "--kubelets", action="append", choices=KUBELETS, help="topology policies; all unless told"
    )
    parser.add_argument(
        "--pods", action="append", type=int, help="first so many pods, 0 for all; 2000, 4000, 6000 and 0"
    )
    parser.add_argument("--rule", action="append", help=f"of {', '.join(RULES)}, which are the default")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    nodes = (chosen.folder / "openb_node_list_all_node.csv").read_bytes()
    rules = chosen.rule or [*RULES]
    places = []
    for trace in chosen.trace or TRACES:
        data = (chosen.folder / f"openb_pod_list_{trace}.csv").read_bytes()
        for kubelets in chosen.kubelets or KUBELETS:
            cluster = openb.nodes(nodes, "openb", openb.kubelet(kubelets))
            pods = openb.pods(data, f"{trace}, {kubelets}", whole_cpus=kubelets != "none")
            places += [
                (cluster, msgspec.structs.replace(pods, limit=limit or None))
                for limit in chosen.pods or (2000, 4000, 6000, 0)
            ]
    jobs = plan(places, rules, [chosen.seed])
    results = iter(run_all(jobs))
    write = sys.stdout.write
    write(
        "| trace, kubelets | pods | rule | placed | refused | GPUs in use | of 8 GPUs | of 4 | of 2 | aligned |\n"
    )
    write("|---|---|---|---|---|---|---|---|---|---|\n")
    for _, trace in places:
        for rule in rules:
            write(_row(trace.name, rule, next(results).run))
    return 0


def _row(name: str, rule: str, run: Run) -> str:
    sizes = [run.placed_by_size.get(size, (0, 0)) for size in SIZES]
    cells = [
        name,
        f"{run.pods_total:,}",
        rule,
        f"{run.pods_placed:,}",
        f"{run.kubelet_refusals:,}",
        f"{run.device_allocated_percent['gpu']:.1f} %",
        *(f"{placed} of {came}" for placed, came in sizes),
        f"{run.aligned_percent:.1f} %",
    ]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.exit(main())
