"""Carries out the orders of a pool on this node: claims its turn, switches, and keeps its entry in the object true.

Only one that was started with `--allow-kubelet-changes` changes anything; the others say in the object that they may not.
What the API server has to be asked about the Node and its pods is asked with the kubelet's own account, which may touch
nothing of other nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from numaware.errors import InputError
from numaware.kube import kubelet_policies
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.errors import ApiError
from numaware.kube.events import EventKind, EventWriter, Subject
from numaware.kube.kubelet_policies import KubeletPolicy, NodeStatus, Phase
from numaware.kube.nodes import decode as decode_node
from numaware.kube.reflector import Reflector
from numaware.kube.resources import KUBELET_POLICIES, NODES
from numaware.node.kubelet_switch import journal
from numaware.node.kubelet_switch.cluster import ClusterNode
from numaware.node.kubelet_switch.executor import Executor, Happens, Outcome
from numaware.node.kubelet_switch.look import look, place_of
from numaware.node.kubelet_switch.place import Place
from numaware.node.kubelet_switch.plan import Manner, Plan, plan, plan_content
from numaware.node.kubelet_switch.steps import Hands
from numaware.node.kubelet_switch.turn import away, next_move, wanted_on
from numaware.node.kubelet_switch.unit import Systemd, Unit, check_unit
from numaware.node.kubelet_switch.words import worded
from numaware.sentence import Sentence

log = structlog.get_logger("numaware.agent")

_CALL_SECONDS = 10.0
_RETRY_SECONDS = 5.0
# Who waits for others looks so often whether those are still in the cluster: of a node that leaves it no object tells.
_GONE_SECONDS = 60.0
_CALLED_BACK = Sentence("it was called back")
_NOT_ALLOWED = "the agent of this node was started without --allow-kubelet-changes"


class SwitchOptions(msgspec.Struct, frozen=True):
    """Where the kubelet of this node is, and whether it may be changed."""

    allowed: bool = False
    root: Path = Path("/")
    machine_root: Path | None = None
    config: str = ""
    kubelet_root: str = ""
    unit: str = ""
    kubeconfig: str = ""
    journal: Path = journal.FOLDER
    seconds: float = 120.0


class PolicyWorker:
    """The agent's hand for the kubelet of the node called `name`; `unit_of` runs the unit of that name on a root."""

    def __init__(
        self,
        name: str,
        client: Client,
        options: SwitchOptions,
        unit_of: Callable[[str, str], Unit] = Systemd,
    ) -> None:
        self.name = name
        self._unit_of = unit_of
        self._client = client
        self._options = options
        self._changed = asyncio.Event()
        self._policies: Reflector[KubeletPolicy] = Reflector(
            client,
            KUBELET_POLICIES,
            kubelet_policies.decode,
            on_change=lambda _: self._changed.set(),
            on_trouble=_told,
        )
        # Tells an order that was called back from an agent that ends.
        self._aborted = False

    async def run(self) -> None:
        """Do what is ordered until cancelled; a switch that is under way then is put back first."""
        async with (
            EventWriter(self._client, controller="numaware.io/agent", instance=self.name) as events,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._policies.run())
            await self._policies.synced.wait()
            while True:
                self._changed.clear()
                again = await self._look_after_all(events)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(again):
                        await self._changed.wait()

    async def _look_after_all(self, events: EventWriter) -> float | None:
        """One look at every order; in how many seconds the next one is due, None if not before something changes."""
        again: float | None = None
        # What a crash left half-way comes first.
        for policy in sorted(
            self._policies.items.values(), key=lambda one: (not self._is_switching(one), one.name)
        ):
            try:
                if await self._look_after(policy, events):
                    again = min(again or _GONE_SECONDS, _GONE_SECONDS)
            except (ApiError, ValueError, OSError) as error:
                again = _RETRY_SECONDS
                log.warning("order not carried out", policy=policy.name, problem=str(error))
        return again

    async def _look_after(self, policy: KubeletPolicy, events: EventWriter) -> bool:
        """Do what is to be done for one order; whether this node waits for others that are being switched."""
        live = decode_node(await self._client.get(NODES, self.name, within=_CALL_SECONDS))
        if not policy.covers(live.labels):
            return False
        mine = policy.nodes.get(self.name, NodeStatus())
        if not self._options.allowed:
            if mine.phase != "NotAllowed":
                await self._report(policy, "NotAllowed", _NOT_ALLOWED)
            return False
        if self._is_switching(policy):
            # This process has begun nothing: another life of it has.
            await self._take_up(policy, events)
            return False
        gone = await self._gone(policy)
        move = next_move(policy, self.name, gone)
        if move == "wait" and (mine.phase != "Pending" or mine.wanted != policy.wanted):
            # What was done before stays to be seen until it is this node's turn again.
            if mine.phase not in ("Done", "RolledBack"):
                await self._report(policy, "Pending", "")
        elif move in ("begin", "back"):
            await self._begin(policy, events, back=move == "back")
        return move == "wait" and bool(away(policy, self.name))

    async def _gone(self, policy: KubeletPolicy) -> set[str]:
        """Of those that keep this node waiting the ones that have left the cluster: nobody ends their entries any more."""
        gone: set[str] = set()
        if next_move(policy, self.name) != "wait":
            return gone
        for name in away(policy, self.name):
            try:
                await self._client.get(NODES, name, within=_CALL_SECONDS)
            except ApiError as error:
                if not error.not_found:
                    raise
                gone.add(name)
        return gone

    def _is_switching(self, policy: KubeletPolicy) -> bool:
        return policy.nodes.get(self.name, NodeStatus()).phase == "Switching"

    async def _begin(self, policy: KubeletPolicy, events: EventWriter, *, back: bool) -> None:
        status = NodeStatus("Switching", policy.wanted, 0, 0, "", _now())
        try:
            policy = await kubelet_policies.claim(self._client, policy, self.name, status)
        except ApiError as error:
            if error.conflict:
                # Somebody else was first; the watch brings the object as it is now.
                return
            raise
        log.info("kubelet is switched", policy=policy.name, back=back)
        try:
            with journal.locked(self._options.journal):
                journal.check_whole(self._options.journal)
                await self._switched(policy, events, back=back)
        except (InputError, OSError) as error:
            await self._end(policy, events, "Refused", str(error))

    async def _switched(self, policy: KubeletPolicy, events: EventWriter, *, back: bool) -> None:
        async with self._hands_on() as (place, api):
            situation = await look(self._options.root, place, api, machine_root=self._options.machine_root)
            folder = journal.next_folder(self._options.journal)
            manner = Manner(policy.spec.drain, journal=str(folder.absolute()))
            if back:
                last = journal.latest(self._options.journal)
                if last is None or last.ending != "applied" or last.plan.order != _order(policy, back=False):
                    # Nothing had to be changed here when it was carried out.
                    await self._end(policy, events, "RolledBack", "")
                    return
                made = plan_content(situation, last.before(self._options.root), manner)
            else:
                made = plan(situation, wanted_on(policy, situation), manner)
            done: Phase = "RolledBack" if back else "Done"
            if not made.possible or made.ended:
                await self._end(policy, events, "Refused", _why_not(made))
                return
            if not made.steps:
                await self._end(policy, events, done, "")
                return
            await check_unit(self._unit_of(place.unit, str(self._options.root)), place.unit)
            book = journal.Journal(folder)
            recorded = msgspec.structs.replace(made.recorded(), order=_order(policy, back=back))
            book.open(recorded)
            outcome = await self._watched(policy, recorded, book, api, Executor.apply)
            await self._ended(policy, events, outcome, done)

    async def _take_up(self, policy: KubeletPolicy, events: EventWriter) -> None:
        """After a crash of this agent: on with what is in the journal, or what came of it."""
        back = policy.spec.order == "RollBack"
        done: Phase = "RolledBack" if back else "Done"
        with journal.locked(self._options.journal):
            story = journal.latest(self._options.journal)
            is_this = story is not None and story.plan.order == _order(policy, back=back)
            if story is None or not (is_this or _is_left_of(story, policy)):
                # It had been claimed, and not begun.
                await self._report(policy, "Pending", "")
                return
            if story.ending is not None:
                failed = story.ending == "rolled-back"
                await self._end(policy, events, "Failed" if failed else done, story.failure)
                return
            story.check_here()
            async with self._hands_on(story.plan.place) as (_, api):
                book = journal.Journal(story.folder)
                if is_this:
                    resumed = partial(Executor.resume, story=story)
                    await self._ended(
                        policy, events, await self._watched(policy, story.plan, book, api, resumed), done
                    )
                    return
                # Something else has been ordered since: back from there first.
                undone = partial(Executor.undo, last=story.next_step, why=_CALLED_BACK)
                outcome = await self._watched(policy, story.plan, book, api, undone)
                if outcome.result != "rolled-back":
                    await self._ended(policy, events, outcome, done)
                elif back:
                    await self._end(policy, events, "RolledBack", "")
                else:
                    await self._report(policy, "Pending", "")

    async def _watched(
        self,
        policy: KubeletPolicy,
        recorded: journal.Recorded,
        book: journal.Journal,
        api: ClusterNode,
        work_of: Callable[[Executor], Coroutine[Any, Any, Outcome]],
    ) -> Outcome:
        """Carry it out, tell of every step, and end it when it is aborted."""
        options = self._options
        steps: asyncio.Queue[tuple[int, str]] = asyncio.Queue()

        def tell(happens: Happens, number: int, why: Sentence) -> None:
            words = str(worded(recorded.steps[number]).what)
            steps.put_nowait((number, f"{words}: {happens}{f': {why}' if why else ''}"))

        unit = self._unit_of(recorded.place.unit, str(options.root))
        hands = Hands(options.root, unit, api, recorded.healthz, options.seconds)
        executor = Executor(recorded, book, hands, tell)
        work = asyncio.ensure_future(work_of(executor))
        teller = asyncio.ensure_future(self._tell_steps(policy, steps, len(recorded.steps)))
        guard = asyncio.ensure_future(self._abort(policy.name, work))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._aborted:
                self._aborted = False
                return await _called_back(executor, book)
            # The agent itself ends: what was begun is put back before it does.
            work.cancel()
            await asyncio.wait([work])
            raise
        finally:
            for task in (teller, guard):
                task.cancel()
            await asyncio.wait([teller, guard])

    async def _abort(self, name: str, work: asyncio.Future[Outcome]) -> None:
        """Wait until the order is called back, and end the work then."""
        while True:
            policy = self._policies.items.get(name)
            if policy is not None and policy.spec.order == "Abort":
                self._aborted = work.cancel()
                return
            await asyncio.sleep(0.2)

    async def _tell_steps(
        self, policy: KubeletPolicy, steps: asyncio.Queue[tuple[int, str]], count: int
    ) -> None:
        while True:
            number, words = await steps.get()
            status = NodeStatus("Switching", policy.wanted, number + 1, count, words, _now())
            with contextlib.suppress(ApiError):
                await kubelet_policies.report(self._client, policy, self.name, status)

    async def _ended(self, policy: KubeletPolicy, events: EventWriter, outcome: Outcome, done: Phase) -> None:
        if outcome.result == "applied":
            await self._end(policy, events, done, "")
        else:
            stuck = "" if outcome.result == "rolled-back" else "not put back: "
            await self._end(policy, events, "Failed", f"{stuck}{outcome.why}")

    async def _end(self, policy: KubeletPolicy, events: EventWriter, phase: Phase, message: str) -> None:
        log.info("kubelet switch ended", policy=policy.name, phase=phase, message=message)
        kind: EventKind = "Warning" if phase in ("Failed", "Refused") else "Normal"
        about = Subject("KubeletPolicy", policy.name, "", policy.metadata.uid, "numaware.io/v1alpha1")
        events.tell(about, kind, f"Node{phase}", "SwitchKubelet", f"{self.name}: {message or phase}")
        while True:
            try:
                await self._report(policy, phase, message)
            except ApiError as error:
                if error.not_found:
                    # The object was deleted meanwhile: nobody asks any more.
                    return
                # Others wait for this word.
                log.warning("entry not written", policy=policy.name, problem=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _report(self, policy: KubeletPolicy, phase: Phase, message: str) -> None:
        status = NodeStatus(phase, policy.wanted, 0, 0, message, _now())
        await kubelet_policies.report(self._client, policy, self.name, status)

    @contextlib.asynccontextmanager
    async def _hands_on(self, place: Place | None = None) -> AsyncIterator[tuple[Place, ClusterNode]]:
        """Where the kubelet is configured, and the Node through the kubelet's own account."""
        options = self._options
        place = place or place_of(
            options.root, unit=options.unit, config=options.config, kubelet_root=options.kubelet_root
        )
        if not options.kubeconfig and not place.kubeconfig:
            hint = "--kubelet-kubeconfig names it"
            raise InputError("kubelet", "its own kubeconfig was not found", hint=hint)
        kubeconfig = options.kubeconfig or str(options.root / place.kubeconfig.lstrip("/"))
        async with Client(await connect(kubeconfig, None)) as client:
            yield place, ClusterNode(client, self.name)


async def _called_back(executor: Executor, book: journal.Journal) -> Outcome:
    """What came of work that was ended: wherever that was, all is put back."""
    story = journal.read(book.folder)
    if story is None or story.ending == "rolled-back":
        return Outcome("rolled-back", why=_CALLED_BACK)
    return await executor.undo(story.next_step, _CALLED_BACK)


def _is_left_of(story: journal.Story, policy: KubeletPolicy) -> bool:
    """Whether it was left half-way for an earlier order of this object."""
    return story.ending is None and story.plan.order.startswith(f"{policy.name}/")


def _order(policy: KubeletPolicy, *, back: bool) -> str:
    """What a switch is done for, as the journal has it."""
    return f"{policy.name}/{policy.wanted}{'/back' if back else ''}"


def _why_not(made: Plan) -> str:
    said = [f"the kubelet would not start: {one}" for one in made.refusals]
    said += map(str, made.obstacles)
    said += [f"{one.namespace}/{one.name} would end: {one.reason}" for one in made.ended]
    return "; ".join(said)


def _told(error: ApiError) -> None:
    # A cluster without such objects, or an account that may not read them, orders nothing.
    if error.status not in (403, 404):
        log.warning("orders cannot be read", problem=str(error))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
