# /// script
# requires-python = ">=3.11"
# dependencies = ["ortools==9.15.6755"]
# ///
"""Adds to each case what its best partition costs, as OR-Tools' CP-SAT proves it: `optimum`.

Run by `record` in an environment of its own: OR-Tools wants another protobuf than numaware does.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ortools.sat.python import cp_model  # type: ignore[import-not-found] # only its own environment has it


def optimum(case: dict[str, Any]) -> int:
    model = cp_model.CpModel()
    pods, places = range(len(case["sizes"])), range(len(case["apart"]))
    sits = [[model.new_bool_var(f"{pod} in {place}") for place in places] for pod in pods]
    for pod in pods:
        model.add_exactly_one(sits[pod])
    for place in places:
        for part, room in enumerate(case["room"]):
            model.add(sum(case["sizes"][pod][part] * sits[pod][place] for pod in pods) <= room)
    total = []
    worst = max(map(max, case["apart"]))
    for one, other, units in case["edges"]:
        cost = model.new_int_var(0, worst, f"{one}-{other}")
        for place in places:
            away = sum(case["apart"][place][there] * sits[other][there] for there in places)
            model.add(cost >= away).only_enforce_if(sits[one][place])
        total.append(units * cost)
    model.minimize(sum(total))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = 600
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        sys.exit(f"no proof: {solver.status_name(status)}")
    return int(solver.objective_value)


for line in sys.stdin:
    found = json.loads(line)
    sys.stdout.write(json.dumps({**found, "optimum": optimum(found)}, separators=(",", ":")) + "\n")
