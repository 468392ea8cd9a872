"""A console that records, asked the same questions live and about moments that are over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from starlette.requests import Request

from numaware.serve.console.api.operations import Call, Packed, packed
from numaware.serve.console.api.paths import operations
from numaware.serve.console.api.routes import Console
from numaware.serve.console.history.api import History
from numaware.serve.console.history.file import HistoryFile
from numaware.serve.console.history.writer import EVERY, QUIET_FOR
from numaware.serve.console.lab.world import HOUR, LabWorld, lab_cluster
from numaware.serve.console.views.wall_model import Tile
from numaware.serve.console.world import World
from support.console_world import NOW

# Ages below half a minute are kept as they were when a node changed last, and serials belong to the live stream.
_TIMES = frozenset({"reportedAt", "oldest", "oldestAgeMs", "serial"})


def lab(nodes: int = 6, seed: int = 1) -> LabWorld:
    """The first machines of the lab, an hour before `NOW`."""
    spec = lab_cluster()
    return LabWorld(NOW - HOUR, seed=seed, spec=msgspec.structs.replace(spec, nodes=spec.nodes[:nodes]))


def moment(time: int) -> str:
    """A time as it stands in an address, to the millisecond."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time)).isoformat(
        timespec="milliseconds"
    )


class Recorded:
    """A console on a world, with a history in a file."""

    def __init__(self, world: World, history: History) -> None:
        self.world = world
        self.history = history
        self.console = Console(world, lambda: world.now, self.history)

    def look(self, now: int | None = None) -> int:
        """Let the world come to `now`, and have it written; returns when that was."""
        self.world.advance(self.world.now + EVERY if now is None else now)
        self.console.write_down(wait=True)
        self.history.writer._looks.join()
        return self.world.now

    def ask(self, name: str, at: int | None = None, **given: Any) -> Any:
        """The answer to an operation, decoded; `path` and `body` are its path parameters and its body."""
        operation = next(one for one in operations(self.console) if f"{one.method} {one.path}" == name)
        query = {key: value for key, value in given.items() if key not in ("path", "body")}
        if at is not None:
            query["at"] = moment(at)
        call = Call(
            given.get("path", {}),
            msgspec.convert(query, operation.query, strict=False),
            msgspec.convert(given.get("body"), operation.body) if operation.body else None,
            cast("Request", SimpleNamespace(headers={})),
        )
        found = asyncio.run(self._answer(operation.handler(call)))
        return msgspec.json.decode((found if isinstance(found, Packed) else packed(found)).data)

    def kept_spans(self) -> list[dict[str, int]]:
        """The stretches of time of which something is kept."""
        found: list[dict[str, int]] = self.ask("GET /api/v1/history")["spans"]
        return found

    def kept(self, times: Iterable[int]) -> list[int]:
        """Those of which something is kept: all, but for the last seconds of a time in which nothing changed."""
        spans = self.kept_spans()
        found = sorted(
            time for time in times if any(span["fromMs"] <= time <= span["toMs"] for span in spans)
        )
        assert all(time in found or time - spans[-1]["toMs"] < QUIET_FOR for time in times)
        return found

    async def _answer(self, question: Any) -> Any:
        return await question

    def everything(self, at: int | None = None) -> Any:
        """All that the pages show."""
        v1 = "GET /api/v1"
        shape = {"cpu": "4", "memory": "8Gi", "gpu": "0"}
        found = {
            "cluster": self.ask(f"{v1}/cluster", at, **shape),
            "wall": self.ask(f"{v1}/wall", at, **shape),
            "nodes": self.ask(f"{v1}/nodes", at),
            "pods": self.ask(f"{v1}/pods", at),
            "events": self.ask(f"{v1}/events", at, limit=5000),
            "policies": self.ask(f"{v1}/policies", at),
            "headroom": self.ask(f"{v1}/headroom", at, **shape),
            "whatif": self.ask(
                "POST /api/v1/whatif", at, body={"shape": {"cpu": "6", "memory": "4Gi", "gpu": 1}}
            ),
        }
        # What is ordered of kubelets is kept by the cluster itself, and asked of it only now.
        del found["policies"]["orders"]
        for tile in found["wall"]["tiles"]:
            # Packed: its time has a place instead of a name.
            del tile[Tile.__struct_fields__.index("reported_at")]
        for node in found["nodes"]["items"]:
            found[f"node {node['name']}"] = self.ask(f"{v1}/nodes/{{name}}", at, path={"name": node["name"]})
        for pod in found["pods"]["items"]:
            name = {"namespace": pod["namespace"], "name": pod["name"]}
            found[f"pod {pod['uid']}"] = self.ask(f"{v1}/pods/{{namespace}}/{{name}}", at, path=name)
        return without_times(found)


@contextlib.contextmanager
def recording(
    path: Path, world: World, make: Callable[[Path], HistoryFile] = HistoryFile
) -> Iterator[Recorded]:
    """A console that records the world until the end of the block."""
    found = Recorded(world, History(path, make))
    try:
        yield found
    finally:
        found.history.writer.close()


def without_times(value: Any) -> Any:
    """An answer without what is allowed to differ."""
    if isinstance(value, Mapping):
        return {key: without_times(part) for key, part in value.items() if key not in _TIMES}
    if isinstance(value, list):
        return [without_times(part) for part in value]
    return value
