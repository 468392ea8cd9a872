"""What pods that no node takes cost the others, on a real API server; run by `make bench`.

Twenty pods with a rule about other pods wait on 200 nodes, each of a kind of its own, while eight plain pods a second come and
end after a while, so that nodes keep changing. Measured is how long the plain ones wait for their node, and what the scheduler
spends: without the pods that wait, with them, and with a scheduler that tries them again whenever anything happens. Waiting
is counted in real time, and what else goes on, on a machine that is shared, only makes it longer: so with and without have their
turns, one after the other, and of each the best counts. All turns are shown.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e import load, retry_everything
from e2e.bind_race import PODS, Watcher
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon
from e2e.program import eventually
from e2e.trouble import clear, pod, said_of

NODES, STUCK, A_SECOND, SECONDS, ENDS_AFTER = 200, 20, 8, 20, 16
TURNS = 3
# Less than this is luck on a machine that others use.
FLOOR = 0.05


class Run(NamedTuple):
    """Seconds that plain pods waited, and CPU seconds of the scheduler."""

    half: float
    most: float
    cpu: float


def stuck(number: int) -> dict[str, Any]:
    """One that no node has room for and that is to be spread, or that is to be near somebody who never comes."""
    made = pod(f"stuck-{number}", "1", labels={"app": f"stuck-{number}"})
    selector = {"matchLabels": {"app": f"stuck-{number}"}}
    if number % 2:
        made["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "200"
        rule = {"maxSkew": 1, "topologyKey": "kind", "whenUnsatisfiable": "DoNotSchedule"}
        made["spec"]["topologySpreadConstraints"] = [{**rule, "labelSelector": selector}]
    else:
        term = {"topologyKey": "kind", "labelSelector": {"matchLabels": {"app": "nobody"}}}
        made["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def measured(plane: ControlPlane, waiting: int, *, hints: bool = True) -> Run:
    with FakeNodes(plane, load.nodes(NODES)) as fakes:
        scheduler = Daemon(plane, "scheduler", "--no-leader-election", name=f"stuck-{waiting}-{hints}")
        if not hints:
            scheduler.command[1:3] = [str(Path(retry_everything.__file__))]
            scheduler.env["PYTHONPATH"] = os.pathsep.join(sys.path)
        try:
            with scheduler:
                scheduler.wait_ready()
                api = plane.api()
                api.create_all(PODS, [stuck(number) for number in range(waiting)])
                eventually(
                    lambda: all(said_of(one) for one in api.list_all(PODS)), "all say why they wait", 120
                )
                return _load(plane, fakes, scheduler)
        finally:
            clear(plane)


def _load(plane: ControlPlane, fakes: FakeNodes, scheduler: Daemon) -> Run:
    api, created = plane.api(), dict[str, float]()
    made = api.create(PODS, pod("first", "500m"))
    watcher = Watcher(plane, made["metadata"]["resourceVersion"], lambda: None)
    watcher.start()
    spent, began = scheduler.cpu_seconds(), time.monotonic()
    for number in range(A_SECOND * SECONDS):
        time.sleep(max(0.0, began + number / A_SECOND - time.monotonic()))
        asked = time.monotonic()
        created[api.create(PODS, pod(f"plain-{number}", "500m"))["metadata"]["uid"]] = asked
        if number >= ENDS_AFTER:
            oldest = list(created)[number - ENDS_AFTER]
            if oldest in fakes.running():
                fakes.finish(oldest)
    # The first one, which nobody measures, is bound as well.
    watcher.wait_for(len(created) + 1)
    cpu = scheduler.cpu_seconds() - spent
    watcher.close()
    waits = sorted(watcher.binds[uid][0] - asked for uid, asked in created.items() if uid in watcher.binds)
    assert len(waits) == len(created)
    return Run(waits[len(waits) // 2], waits[9 * len(waits) // 10], cpu)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, list[Run]]:
    with ControlPlane(tmp_path_factory.mktemp("plane")) as plane:
        turns = [(measured(plane, 0), measured(plane, STUCK)) for _ in range(TURNS)]
        alone, beside = zip(*turns, strict=True)
        found = {
            "nobody waits": [*alone],
            f"{STUCK} wait": [*beside],
            f"{STUCK} wait, tried whatever happens": [measured(plane, STUCK, hints=False)],
        }
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{NODES} nodes, {A_SECOND} plain pods a second for {SECONDS} s")
        for name, its in found.items():
            for one in its:
                print(f"  {name:40} p50 {one.half:.3f} s  p90 {one.most:.3f} s  CPU {one.cpu:.1f} s")
    return found


def test_pods_that_wait_cost_the_others_at_most_as_much_again(runs: dict[str, list[Run]]) -> None:
    alone, beside, _ = (min(one.most for one in its) for its in runs.values())
    assert beside <= 2 * max(alone, FLOOR)


def test_hints_spare_work(runs: dict[str, list[Run]]) -> None:
    alone, beside, without = (min(one.cpu for one in its) for its in runs.values())
    assert beside - alone < (without - alone) / 2
