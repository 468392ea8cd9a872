"""What one resource offers at a moment: what is announced, what is preferred, and what a container is given.

`server` asks it for the kubelet, and puts another in its place after each look at the machine. Nothing in it changes, so a
call that is answered from it is answered from one moment, whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple

import msgspec

from numaware.machine.nearness import Nearness
from numaware.machine.words import printable
from numaware.node.device_plugin.allocation import answer
from numaware.node.device_plugin.config import Flags, ResourceRule
from numaware.node.device_plugin.health import Announced
from numaware.node.device_plugin.inventory import Resource, Survey
from numaware.node.device_plugin.preference import nearness_of, preferred
from numaware.twin.state.alloc_response import AllocResponse

# A question about more devices than any machine has.
_MOST_IDS = 100_000


class RefusedError(Exception):
    """A call that cannot be answered; `cause` is the same word for the same trouble."""

    def __init__(self, cause: Literal["unknown", "unhealthy", "impossible"], message: str) -> None:
        self.cause = cause
        super().__init__(message)


class Listed(NamedTuple):
    """A device as it is announced."""

    id: str
    healthy: bool
    numa: int | None


class Offer(msgspec.Struct, frozen=True):
    """A resource with every device that was ever seen, and what is wrong with some of them."""

    resource: Resource
    problems: Mapping[str, str]
    survey: Survey
    flags: Flags
    nearness: Nearness

    @classmethod
    def of(
        cls, rule: ResourceRule, announced: Mapping[str, Announced], survey: Survey, flags: Flags
    ) -> Offer:
        resource = Resource(rule, {name: one.unit for name, one in announced.items()})
        problems = {name: one.problem for name, one in announced.items() if one.problem}
        return cls(resource, problems, survey, flags, nearness_of(resource, survey))

    def listed(self) -> tuple[Listed, ...]:
        return tuple(
            Listed(name, unit.id not in self.problems, unit.numa) for name, unit in self.resource.ids()
        )

    def preferred(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> tuple[str, ...]:
        if len(available) > _MOST_IDS:
            raise RefusedError(
                "impossible", f"{len(available)} devices are more than {self.resource.name} has"
            )
        try:
            return preferred(self.resource, self.nearness, available, must_include, size)
        except ValueError as error:
            raise RefusedError("impossible", printable(f"{self.resource.name}: {error}", 300)) from None

    def allocated(self, ids: Collection[str]) -> AllocResponse:
        """What a container with these devices is given; refused if a single one of them is unknown or unhealthy."""
        units = []
        for name in ids:
            shown = printable(name, 100)
            try:
                unit = self.resource.unit(name)
            except KeyError:
                raise RefusedError("unknown", f"{self.resource.name} has no device {shown}") from None
            if problem := self.problems.get(unit.id):
                message = f"{self.resource.name}: {shown} cannot be handed out: {problem}"
                raise RefusedError("unhealthy", message)
            units.append(unit)
        return answer(self.resource.rule, units, self.flags, self.survey)
