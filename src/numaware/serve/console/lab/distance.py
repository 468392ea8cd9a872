"""NUMA distance in the lab: the same order as on a live cluster, followed in the lab's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from numaware.kube.kubelet_policies import KubeletPolicy
from numaware.serve.console.lab.kubelets import LabKubelets
from numaware.serve.console.openfuyao.distance_order import (
    NAME,
    PLACE,
    called_back,
    conf_for,
    conf_of,
    how_far,
    put_back,
    spec_of,
    status_of,
    still_to_go_back,
)
from numaware.serve.console.world import DISTANCE, Progress, Status, Switch, SwitchError


class LabDistance:
    """The switch over all `nodes` of the lab. Pods move where a restart would end them: made-up ones may be moved about."""

    def __init__(self, kubelets: LabKubelets, nodes: Sequence[str]) -> None:
        self._kubelets = kubelets
        self._nodes = nodes
        # While it is being moved: what was ordered, to where, and by whom.
        self._ordered: KubeletPolicy | None = None
        self.wanted: Status = "close"
        self.by = ""
        self._failed: SwitchError | None = None
        self._progress: Progress | None = None
        self._ended = asyncio.Event()

    @property
    def moving(self) -> bool:
        return self._ordered is not None

    @property
    def switch(self) -> Switch:
        policy = self._kubelets.policy(NAME)
        return Switch(DISTANCE, status_of(policy), place=PLACE, conf=conf_of(policy), progress=self._progress)

    def switched(self, status: Status) -> str:
        """What would be ordered."""
        now = self.switch
        return now.conf if now.status == status else conf_for(status, drain=True)

    def begin(self, status: Status, by: str) -> None:
        """Order it; `follow` says when all have it."""
        self.wanted, self.by = status, by
        self._failed = None
        self._ended = asyncio.Event()
        self._ordered = self._kubelets.order(NAME, {**spec_of(status, drain=True), "order": "Apply"})

    def follow(self) -> SwitchError | bool | None:
        """How it ended, if it just did: True, or why not. The first node that fails ends it, and those before it go back."""
        if self._ordered is None:
            return None
        policy = self._kubelets.policy(NAME)
        if policy is None or policy.wanted != self._ordered.wanted:
            return self._over(called_back())
        if self._failed is not None:
            left = still_to_go_back(policy, self._nodes)
            self._progress = Progress("undoing", 0, left)
            return None if left else self._over(self._failed)
        if policy.spec.order in ("Abort", "RollBack"):
            return self._over(called_back())
        far = how_far(policy, self._nodes, policy.wanted)
        if far.failed:
            self._failed = put_back(far.failed, far.why)
            self._kubelets.command(NAME, "RollBack")
            return self.follow()
        self._progress = Progress("switching", far.done, far.acting + far.silent)
        return self._over(None) if not far.silent and far.done == far.acting else None

    async def ended(self) -> None:
        """Wait for that; `SwitchError` if it was not moved."""
        await self._ended.wait()
        if self._failed is not None:
            raise self._failed

    def _over(self, failed: SwitchError | None) -> SwitchError | bool:
        self._ordered = self._progress = None
        self._failed = failed
        self._ended.set()
        return failed or True
