"""Five hundred containers of a real containerd: moved, forgotten by an agent that dies, and given back by the next one."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from e2e.program import eventually
from e2e.real_containerd import RealContainerd
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.placements import Placements, Target
from numaware.node.nri.plugin import CpusAndMems, Plugin

pytestmark = pytest.mark.long

SUITE = "forky"
PODS = 10
CONTAINERS = int(os.environ.get("NUMAWARE_CONTAINERS", "500"))
# Made while the agent is at work.
LATER = 100
EVERYTHING = CpusAndMems("0-1", "0")


class TimedPlugin(Plugin):
    """Keeps how long each container that was being made has waited for it, in seconds."""

    def __init__(self, placements: Placements) -> None:
        super().__init__(placements)
        self.waited: list[float] = []

    async def _answer(self, service: str, method: str, payload: bytes) -> bytes | None:
        began = time.perf_counter()
        answer = await super()._answer(service, method, payload)
        if method == "CreateContainer":
            self.waited.append(time.perf_counter() - began)
        return answer


@asynccontextmanager
async def connected(placements: Placements, socket: Path) -> AsyncIterator[TimedPlugin]:
    """Until the block ends, as suddenly as a killed agent."""
    plugin = TimedPlugin(placements)
    running = asyncio.create_task(plugin.run(str(socket)))
    async with asyncio.timeout(60):
        await plugin.synchronized.wait()
    yield plugin
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def allowed(pids: dict[str, int]) -> set[str]:
    """All the answers there are."""
    texts = (Path(f"/proc/{pid}/status").read_text() for pid in pids.values())
    return {text.partition("Cpus_allowed_list:\t")[2].partition("\n")[0] for text in texts}


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """In memory, as /run is."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_five_hundred_containers_are_moved_and_get_back_what_they_had(
    tmp_path: Path, memory_folder: Path
) -> None:
    with RealContainerd(tmp_path / "containerd", SUITE) as containerd:
        pids: dict[str, int] = {}
        sandboxes = []
        waited: list[float] = []
        for number in range(PODS):
            sandbox, first = containerd.run_pod(f"many-{number}")
            more = [containerd.add_container(sandbox) for _ in range(CONTAINERS // PODS - 1)]
            pids |= {one: containerd.pid(one) for one in (first, *more)}
            sandboxes.append(sandbox)
        assert len(pids) == CONTAINERS
        assert allowed(pids) == {"0-1"}

        async def go() -> None:
            file = memory_folder / "before.json"
            placements = Placements(file, EVERYTHING)
            targets = {f"uid-many-{number}": Target(CpuSet.parse("1"), 0) for number in range(PODS)}
            async with connected(placements, containerd.nri) as plugin:
                changes = placements.place(targets)
                assert changes.keys() == pids.keys()
                assert await plugin.update(changes) == ()
                assert allowed(pids) == {"1"}
                # Those that are made meanwhile begin where their pod is.
                for number in range(LATER):
                    late = await asyncio.to_thread(containerd.add_container, sandboxes[number % PODS])
                    pids[late] = containerd.pid(late)
                assert allowed(pids) == {"1"}
                waited.extend(plugin.waited)
            # The next agent knows it from the file, and answers with it when the runtime tells what runs.
            async with connected(Placements(file, EVERYTHING), containerd.nri):
                # The runtime carries out what it was answered after the answer.
                await asyncio.to_thread(
                    eventually, lambda: allowed(pids) == {"0-1"}, "all have back what they had", 120
                )

        asyncio.run(go())
        waited.sort()
        sys.stdout.write(
            f"\n{CONTAINERS} containers in {PODS} pods of {SUITE}'s containerd: moved and given back; {LATER} more waited while they were "
            f"made, in ms: median {waited[LATER // 2] * 1000:.1f}, P99 {waited[LATER * 99 // 100] * 1000:.1f}\n"
        )
