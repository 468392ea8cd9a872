"""What agents tell of talk on their nodes: every NodeTraffic of a cluster, kept true while `run` runs.

Nothing else depends on it: a console that may not read them, or whose cluster does not have the kind, shows all the rest, and
says what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from numaware.affinity import published
from numaware.affinity.report import NodeReport
from numaware.kube.client import Client
from numaware.kube.definitions import remedy, waiting_for
from numaware.kube.errors import ApiError
from numaware.kube.reflector import Reflector
from numaware.kube.resources import NODE_TRAFFICS
from numaware.sentence import Sentence

_log = structlog.get_logger(__name__)
_RIGHTS = "kubectl apply -f deploy/rbac/console.yaml"


class TalkWatch:
    """`reports` are by node."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._error: ApiError | None = None
        self._reflector: Reflector[NodeReport] = Reflector(
            client,
            NODE_TRAFFICS,
            published.decode,
            on_problem=self._problem,
            on_trouble=self._trouble,
            until_defined=waiting_for(client, NODE_TRAFFICS),
            clock=clock,
        )
        self.reports: Mapping[str, NodeReport] = self._reflector.items

    async def run(self) -> None:
        """Until cancelled."""
        await self._reflector.run()

    @property
    def missing(self) -> Sentence:
        """What keeps reports from being read at the moment; empty if nothing does."""
        if self._reflector.kind_is_missing:
            return Sentence(
                "agents have nowhere to tell who talks to whom; whoever may define kinds runs: {command}",
                command=remedy(NODE_TRAFFICS),
            )
        if self._error is None or not self._reflector.in_trouble:
            return Sentence()
        what = f"{NODE_TRAFFICS.plural}.{NODE_TRAFFICS.group}"
        if self._error.status in (401, 403):
            return Sentence(
                "the account of this console may not list and watch {what}: {command}",
                what=what,
                command=_RIGHTS,
            )
        return Sentence("{place} cannot be read: {problem}", place=what, problem=str(self._error))

    def _problem(self, node: str, message: str) -> None:
        _log.warning("what an agent tells of talk cannot be read", node=node, problem=message)

    def _trouble(self, error: ApiError) -> None:
        self._error = error
        _log.warning("nothing is known of talk between pods", problem=str(error))
