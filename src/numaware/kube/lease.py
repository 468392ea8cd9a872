"""Leader election: of several processes the one leads that holds a Lease and keeps renewing it.

The rules that make it safe:

- Nobody's clock is compared with anybody else's. A follower takes over when *it* has seen the record unchanged for as long
  as the record says it lasts, counted by its own monotonic clock; the times in the record are only for people.
- A leader counts its time from before it sent the renewal that succeeded, and gives up (`renew`) well before a follower may
  take over (`lease`). `holds` tells this at any moment, also where the process itself was stopped for a while.
- Every write names the version it replaces, so of two that write at once one fails.
- The lease is given back only after the work has ended, so a clean stop hands over as soon as a follower looks: they look
  about twice in the time between two renewals.

How short the times may be: a server that is away for longer than `renew` costs the leader its lease, and whoever leads next
has to wait for `lease` after one that died. 15/10/2 is what client-go takes; 8/5/1 sits out an election in etcd (a second or
two) and a restart of an API server that has others beside it, and halves the wait.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from numaware.kube.errors import ApiError, decoded
from numaware.kube.microtime import micro_time
from numaware.kube.resources import LEASES
from numaware.kube.tasks import together

if TYPE_CHECKING:
    # Whoever only says how long a lease lasts does without the wires.
    from numaware.kube.client import Client
    from numaware.kube.transport import Clock, Sleep

# Followers look after this part of the time between renewals, and spread out, so that they do not all ask at one moment.
_LOOK = 0.5
_SPREAD = 0.25
_RELEASE_SECONDS = 2.0


class LeaseTimes(NamedTuple):
    """Seconds: for how long others leave a leader alone, when it gives up that cannot renew, and between two renewals."""

    lease: float = 8.0
    renew: float = 5.0
    retry: float = 1.0

    @property
    def sensible(self) -> bool:
        """Whether a leader gives up before others may lead, and has tried to renew before that."""
        return self.lease > self.renew > self.retry > 0


class LeadershipLost(Exception):  # noqa: N818 - it happened, and is nobody's error
    """Another leads, or may lead by now: whatever was not finished is not ours to finish."""


class _Lease(msgspec.Struct):
    """The record; what we do not know of it is written back as it was."""

    metadata: dict[str, Any]
    spec: dict[str, Any] = {}

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "")


_LEASE = msgspec.json.Decoder(_Lease)


class Election:
    """One candidate. `identity` must differ from that of all others, also of an earlier run of the same program.

    `leader` is who led when the record was last seen; `on_leader` is told when that changes, `on_problem` when the record
    cannot be read or written, each message once until it can.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        times: LeaseTimes = LeaseTimes(),  # noqa: B008 - a frozen value
        on_leader: Callable[[str], None] = lambda _: None,
        on_problem: Callable[[str], None] = lambda _: None,
        dice: random.Random | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        if not times.sensible:
            raise ValueError(
                "a lease must last longer than it may take to renew it, and that longer than one try"
            )
        self.identity = identity
        self.leader = ""
        self._client = client
        self._name = name
        self._namespace = namespace
        self._lease, self._renew_within, self._retry = times
        self._on_leader = on_leader
        self._on_problem = on_problem
        self._dice = dice or random.SystemRandom()
        self._clock = clock
        self._now = now
        self._sleep = sleep
        # The record as last read or written, None to read it before writing; and since when its spec has been like that.
        self._record: _Lease | None = None
        self._spec: dict[str, Any] | None = None
        self._unchanged_since = 0.0
        # When the last renewal that succeeded was sent; None while not leading.
        self._renewed: float | None = None
        self._problem = ""
        self._time_told: datetime | None = None
        self._same_times = 0

    @property
    def holds(self) -> bool:
        """Whether this one leads at this very moment; ask before each act that only a leader may do."""
        return self._renewed is not None and self._clock() - self._renewed < self._renew_within

    async def lead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait to lead, do the work, hand over.

        When leadership is lost the work is cancelled and `LeadershipLost` raised; when this is cancelled so is the work,
        and the lease is given back once it has ended.
        """
        try:
            while not await self._try():
                await self._sleep(self._retry * (_LOOK + self._dice.uniform(0, _SPREAD)))
            # Named first, the work's own failure is the better story; a loss of leadership cancels it.
            await together(work(), self._keep())
        finally:
            await self._release()

    async def _keep(self) -> None:
        while True:
            await self._sleep(self._retry)
            if not await self._try() and (not self.holds or self.leader != self.identity):
                self._renewed = None
                raise LeadershipLost(
                    f"{self._namespace}/{self._name} is led by {self.leader or 'nobody'} now"
                )

    async def _try(self) -> bool:
        """Take or renew the lease if that is ours to do; False if it is not, or could not be done in time."""
        # Half of the time, so that one call that hangs leaves time for another.
        within = self._renew_within / 2
        if self._renewed is not None:
            within = max(min(within, self._renewed + self._renew_within - self._clock()), 0.01)
        try:
            # Others may write, or remove the record, between our reading and our writing: then look again who leads.
            for _ in range(3):
                if self._record is None:
                    self._observe(await self._read(within))
                asked = self._clock()
                if not self._is_ours_to_take():
                    self._record = None
                    break
                if await self._write(self._record_of_ours(), within):
                    self._renewed = asked
                    self._problem = ""
                    return self.holds
        except ApiError as error:
            # It may have been written all the same.
            self._record = None
            if str(error) != self._problem:
                self._problem = str(error)
                self._on_problem(self._problem)
        return False

    async def _read(self, within: float) -> _Lease:
        try:
            answer = await self._client.get(LEASES, self._name, self._namespace, within=within)
            return decoded(_LEASE, answer, "a lease")
        except ApiError as error:
            if not error.not_found:
                raise
            return _Lease({"name": self._name, "namespace": self._namespace})

    def _observe(self, record: _Lease) -> None:
        self._record = record
        if record.spec != self._spec:
            self._spec = record.spec
            self._unchanged_since = self._clock()
        if record.holder != self.leader:
            self.leader = record.holder
            self._on_leader(self.leader)

    def _is_ours_to_take(self) -> bool:
        """Whether the record is ours already, nobody's, or one that its holder has not renewed for too long."""
        if self._record is None or self._record.holder in {"", self.identity}:
            return True
        stated = self._record.spec.get("leaseDurationSeconds")
        lasts = stated if isinstance(stated, int) and stated > 0 else self._lease
        return self._clock() - self._unchanged_since >= lasts

    def _record_of_ours(self) -> _Lease:
        record = self._record or _Lease({"name": self._name, "namespace": self._namespace})
        now = self._stamp()
        spec = {**record.spec, "holderIdentity": self.identity, "renewTime": now}
        spec["leaseDurationSeconds"] = ceil(self._lease)
        if record.holder != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(record.spec.get("leaseTransitions") or 0) + bool(record.spec)
        return _Lease(record.metadata, spec)

    def _stamp(self) -> str:
        """The time of day. Others see a renewal by its being another, which a clock that stands still must not spoil."""
        now = self._now()
        self._same_times = self._same_times + 1 if now == self._time_told else 0
        self._time_told = now
        return micro_time(now + timedelta(microseconds=self._same_times))

    async def _write(self, record: _Lease, within: float) -> bool:
        """Write the record unless another has done so meanwhile."""
        body = {**LEASES.head, **msgspec.structs.asdict(record)}
        try:
            if "resourceVersion" in record.metadata:
                answer = await self._client.update(LEASES, self._name, body, self._namespace, within=within)
            else:
                answer = await self._client.create(LEASES, body, self._namespace, within=within)
        except ApiError as error:
            if not (error.conflict or error.not_found):
                raise
            self._record = None
            return False
        self._observe(decoded(_LEASE, answer, "a lease"))
        return True

    async def _release(self) -> None:
        """Leave the lease to whoever comes next; if that fails it runs out by itself."""
        if self._renewed is None:
            return
        self._renewed = None
        with suppress(ApiError):
            for _ in range(2):
                record = self._record or await self._read(_RELEASE_SECONDS)
                if record.holder != self.identity:
                    return
                freed = _Lease(
                    record.metadata, {**record.spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                )
                if await self._write(freed, _RELEASE_SECONDS):
                    return
