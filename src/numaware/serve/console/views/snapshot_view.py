"""A world and all that is worked out to look at it; the present is one snapshot, every moment that is over another."""

from __future__ import annotations

from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.sentence import Sentence
from numaware.serve.console.api.operations import Packed, packed
from numaware.serve.console.api.queries import Wall
from numaware.serve.console.views import pods
from numaware.serve.console.views.judging import VERDICTS
from numaware.serve.console.views.node import Letters
from numaware.serve.console.views.pod_shape import Shape
from numaware.serve.console.views.wall_model import STALE_AFTER, WallModel
from numaware.serve.console.world import World
from numaware.serve.problems import ProblemError
from numaware.workload.pod import Pod


class SnapshotView:
    """What questions are asked of."""

    def __init__(self, world: World, letters: Letters | None = None) -> None:
        self.world = world
        self.wall_model = WallModel(world)
        self.letters = letters or Letters()
        self._walls: dict[Shape, tuple[int, int, Packed]] = {}

    def member(self, name: str) -> Member:
        member = self.world.cluster.by_name.get(name)
        if member is None:
            raise ProblemError(404, Sentence("there is no node {name!r}", name=printable(name, 80)))
        return member

    def pod(self, namespace: str, name: str) -> tuple[Pod, Member | None]:
        """The pod and the node it is on."""
        found = pods.find(self.world, namespace, name)
        if found is None:
            called = printable(f"{namespace}/{name}", 160)
            raise ProblemError(404, Sentence("there is no pod {name!r}", name=called))
        return found

    def wall(self, shape: Shape) -> Packed:
        """Kept until a node changes or a second has passed: ages and refusals move without a change."""
        self.wall_model.refresh()
        serial, second = self.wall_model.serial, self.world.now // 1000
        known = self._walls.get(shape)
        if known is None or known[:2] != (serial, second):
            if len(self._walls) > 16:
                self._walls.clear()
            wall = Wall(serial, second * 1000, VERDICTS, STALE_AFTER, self.wall_model.tiles(shape))
            known = self._walls[shape] = serial, second, packed(wall)
        return known[2]
