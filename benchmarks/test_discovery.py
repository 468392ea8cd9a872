"""Discovery against lstopo: the same captured trees, the same disk, side by side in one run.

Ours is timed in-process, as the agent runs it; lstopo as the process it is. Each is run in turn and the best
of several rounds counts, so that a busy machine slows both alike. Memory is that of a whole fresh process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from numaware.machine import sysfs
from numaware.machine.tree import open_tree
from support.shared_data import ROOT, shared

FOLDER = ("data", "topologies")
LARGE = 64
ROUNDS = 15
MOST_MEMORY = 60 << 20
MEASURE = """
import re, sys
from pathlib import Path
from numaware.machine import sysfs
from numaware.machine.tree import open_tree
sysfs.read(open_tree(sys.argv[1]))
print(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


class Capture(NamedTuple):
    name: str
    root: Path


def is_large(path: Path) -> bool:
    """Small machines tell the price of starting a process and nothing else."""
    files = json.loads(path.read_bytes())["sysfs"]
    return len(files["cpus"]) >= LARGE or len(files["pci_devices"]) >= LARGE


PATHS = sorted(path for path in ROOT.joinpath(*FOLDER).glob("*/expected.json") if is_large(path))


@pytest.fixture(scope="session")
def lstopo() -> str:
    found = shutil.which("lstopo") or shutil.which("lstopo-no-graphics")
    if found is None:
        pytest.fail("lstopo is not on the PATH; this comparison needs it: apt-get install hwloc")
    return found


@pytest.fixture(scope="module", params=PATHS, ids=lambda path: path.parent.name)
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """One captured machine, extracted."""
    path: Path = request.param
    document = json.loads(path.read_bytes())
    folder = tmp_path_factory.mktemp("capture")
    with tarfile.open(path.parent / document["archive"]) as packed:
        packed.extractall(folder, filter="fully_trusted")  # noqa: S202 - the published captures, links and all
    return Capture(path.parent.name, folder.joinpath(document["root_in_archive"]))


def test_there_are_large_machines_to_measure() -> None:
    assert shared(*FOLDER).is_dir()
    assert PATHS


def best(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def test_discovery_takes_no_longer_than_lstopo(lstopo: str, capture: Capture) -> None:
    environment = os.environ | {
        "HWLOC_FSROOT": str(capture.root),
        "HWLOC_THISSYSTEM": "0",
        "HWLOC_COMPONENTS": "linux,stop",
        "HWLOC_HIDE_ERRORS": "2",
    }
    command = [lstopo, "--of", "xml", "--filter", "io:all", "-"]

    def theirs() -> None:
        subprocess.run(command, env=environment, capture_output=True, check=False)

    def ours() -> None:
        sysfs.read(open_tree(capture.root))

    rounds = [(best(ours), best(theirs)) for _ in range(ROUNDS)]
    mine, other = (min(times) for times in zip(*rounds, strict=True))
    print(
        f"\n{capture.name:40} numaware {mine * 1000:6.1f} ms  lstopo {other * 1000:6.1f} ms  {mine / other:.2f}"
    )
    assert mine <= other


def test_discovery_fits_in_little_memory(capture: Capture) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, capture.root], capture_output=True, check=True)
    peak = int(done.stdout) * 1024
    print(f"\n{capture.name:40} {peak / (1 << 20):6.1f} MiB")
    assert peak < MOST_MEMORY
