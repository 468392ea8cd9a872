"""A gigabyte of a kubelet's log: how fast the lines that do not matter are passed over, beside `grep -E`, and in how much
memory; run by `make bench`.

`grep -E` looks for what somebody would look for after reading the first story of a lost evening: the Topology Manager's
lines and its error. It finds lines; the diagnosis also says what they mean.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaware.twin.topology.hints import Hint
from support.kubelet_logs import ERAS, NOISE, Story, header, journald, written

SIZE = 1_000_000_000
PATTERN = "Topology Admit Handler|TopologyHints|TopologyAffinityError"
# What nearly all lines of a log are; those of the managers would be looked at.
CHATTER = [
    line
    for line in NOISE
    if "manager.go" not in line.partition("]")[0] or "status" in line or "volume" in line
]
GOAL_MB_PER_SECOND = 100
MOST_MEGABYTES = 200

REFUSED = Story(
    hints={"cpu": [Hint(2, preferred=True), Hint(3, preferred=False)], "memory": [Hint(1, preferred=True)]},
    merged=Hint(None, preferred=False),
    reason="TopologyAffinityError",
    message="Resources cannot be allocated with Topology locality",
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A gigabyte of chatter with a refused pod in every eight megabytes."""
    path = tmp_path_factory.mktemp("log") / "kubelet.log"
    chatter = "".join(
        f"{journald(header('I', number % 3600, 'x').removesuffix('x] ') + CHATTER[number % len(CHATTER)])}\n"
        for number in range(45_000)
    ).encode()
    story = "".join(f"{journald(line)}\n" for line in written(ERAS[2], REFUSED)).encode()
    with path.open("wb") as stream:
        while stream.tell() < SIZE:
            stream.write(chatter)
            stream.write(story)
    yield path
    path.unlink()


def seconds_of(command: list[str]) -> tuple[float, float, bytes]:
    """Seconds of one core, seconds on the wall, and what was printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, end - start, done.stdout


def test_a_gigabyte_of_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = log.stat().st_size
    found, _, hits = seconds_of(["grep", "-cE", PATTERN, str(log)])
    code = "import sys; from numaware.cli import main; sys.exit(main(sys.argv[1:]))"
    ours, wall, out = seconds_of([sys.executable, "-c", code, "diagnose", str(log), "--json"])
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    (finding,) = json.loads(out)["findings"]
    speed = size / 1e6 / ours
    with capsys.disabled():
        print(f"\n{size / 1e9:.2f} GB of log, {hits.decode().strip()} lines that grep -E finds")
        print(f"grep -E    {found:6.2f} s of one core")
        print(
            f"diagnose   {ours:6.2f} s of one core ({wall:.1f} s on the wall), {speed:.0f} MB/s, peak {peak} MB"
        )
        print(f"           {ours / max(found, 0.01):.1f} times grep -E")
    assert finding["code"] == "topology-affinity-error-disjoint-hints"
    assert finding["facts"]["count"] > 100
    assert peak < MOST_MEGABYTES
    assert speed > GOAL_MB_PER_SECOND
