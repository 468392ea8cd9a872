"""What the built-in recorder remembers: every step of a series once, and nothing of time in which nobody looked."""

from __future__ import annotations

from numaware.serve.console.lab.world import LabWorld
from numaware.serve.console.views.recorder import EVERY, Recorder
from numaware.serve.console.views.snapshot_view import SnapshotView
from support.console_world import NOW

MINUTE = 60_000


def recorded(looks: range, *more: range) -> Recorder:
    world = LabWorld(looks.start)
    recorder = Recorder(SnapshotView(world).wall_model)
    for moment in (*looks, *(moment for others in more for moment in others)):
        world.advance(moment)
        recorder.record()
    return recorder


def test_looks_that_come_a_little_late_leave_no_gap() -> None:
    """No sample is taken at the very end of its quarter of a minute."""
    series = recorded(range(NOW - 20 * MINUTE, NOW, 4_100)).series("gpu-0", 15 * MINUTE)
    assert series.step_ms == EVERY
    assert None not in series.cluster
    assert all(None not in numa.cpu for numa in series.numa)


def test_time_in_which_nobody_looked_is_a_gap_of_every_line() -> None:
    looks = range(NOW - 20 * MINUTE, NOW - 12 * MINUTE, 5_000), range(NOW - 6 * MINUTE, NOW, 5_000)
    series = recorded(*looks).series("gpu-0", 15 * MINUTE)
    missing = [time for time, point in zip(series.times, series.cluster, strict=True) if point is None]
    assert missing == [time for time in series.times if NOW - 12 * MINUTE < time < NOW - 6 * MINUTE]
    for numa in series.numa:
        for values in (numa.cpu, numa.memory):
            assert [
                time for time, value in zip(series.times, values, strict=True) if value is None
            ] == missing
