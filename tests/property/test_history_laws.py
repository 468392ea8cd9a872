"""The law of history: what was seen at a moment is what is seen when one comes back to it."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.serve.console.live_cluster import LiveCluster
from numaware.twin.errors import KubeletPanic
from property.strategies_twin import histories, nodes
from support.cache_world import Clock, cache_of, complete, counted, ended, live_node, live_pod
from support.console_world import NOW
from support.recorded_world import lab, recording


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_what_was_seen_of_the_lab_is_what_is_seen_of_it_later(data: st.DataObject) -> None:
    """Pods come and go, switches are moved, and now and then the console is started anew."""
    world = lab(seed=data.draw(st.integers(1, 1000), label="seed"))
    seen = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        path = Path(folder) / "history"
        recorded = ending.enter_context(recording(path, world))
        for _ in range(data.draw(st.integers(1, 8), label="looks")):
            match data.draw(st.sampled_from(["live", "live", "live", "open", "close", "restart"])):
                case "open":
                    asyncio.run(world.set_switch("numaaware", "open", "ann"))
                case "close":
                    asyncio.run(world.set_switch("numaaware", "close", "bob"))
                case "restart":
                    ending.pop_all().close()
                    recorded = ending.enter_context(recording(path, world))
                case _:
                    pass
            time = recorded.look(world.now + data.draw(st.integers(2_000, 400_000), label="later"))
            seen[time] = recorded.everything()
        for time in data.draw(st.permutations(recorded.kept(seen)), label="looked back at"):
            assert recorded.everything(time) == seen[time]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_live_node_is_seen_later_as_well_as_it_was_known_then(data: st.DataObject) -> None:
    """Reports are complete, or counts, or do not come; pods are bound, end, are refused; nodes go and come back."""
    node = data.draw(nodes())
    live = live_node(node)
    clock = Clock()
    cache = cache_of(live, clock=clock)
    world = LiveCluster("prod", cache, clock, NOW)
    world.begin()
    seen = {}
    with tempfile.TemporaryDirectory() as folder, recording(Path(folder) / "history", world) as recorded:
        for number, step in enumerate(data.draw(histories(node, 6))):
            found = step.pod or node.state.pods.get(f"pod-{step.leaves}")
            try:
                node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
            except KubeletPanic:
                break
            if found is not None:
                told = live_pod(found, second=number)
                told = told if step.pod else ended(told)
                cache.put_pod(told)
                world.pod_changed(told.uid, told)
            match data.draw(st.sampled_from(["complete", "counts", "none", "gone", "back"]), label="news"):
                case "complete":
                    cache.put_report(complete(node, generation=number + 1))
                case "counts":
                    cache.put_report(counted(node))
                case "gone":
                    cache.drop_node(live.name)
                case "back":
                    cache.put_node(live)
                case _:
                    pass
            passed = data.draw(st.integers(2_000, 100_000), label="later")
            clock.now += passed / 1000
            time = recorded.look(world.now + passed)
            seen[time] = recorded.everything()
        for time in recorded.kept(seen):
            assert recorded.everything(time) == seen[time]
