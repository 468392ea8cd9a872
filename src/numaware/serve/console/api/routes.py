"""Everything the page shows, as operations: `/api/v1/…`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.schedule.parts_by_dra import served_on
from numaware.schedule.trial_policies import AS_THEY_ARE, TrialPolicies
from numaware.sentence import Sentence
from numaware.serve.console import policies as switching
from numaware.serve.console.api.operations import Call, Packed
from numaware.serve.console.api.queries import (
    DiagnoseQuery,
    EventPage,
    EventQuery,
    ExplainQuery,
    Health,
    HistoryQuery,
    MonitorQuery,
    NodePage,
    NodeQuery,
    Paging,
    PodPage,
    PodQuery,
    Question,
    Room,
)
from numaware.serve.console.api.simulation import Simulation, Simulations, Simulator
from numaware.serve.console.api.stream import Stream, TooManyReadersError
from numaware.serve.console.api.uploads import Uploads
from numaware.serve.console.history.api import History, Kept, Refusals, not_kept
from numaware.serve.console.orders import Orders
from numaware.serve.console.turns import SharedAnswers, Slots, judge_in_turns
from numaware.serve.console.views import node, pods, traffic
from numaware.serve.console.views.explain import Explained, evidence_of, explained, with_dra
from numaware.serve.console.views.judging import Judgement
from numaware.serve.console.views.node import NodeView
from numaware.serve.console.views.pod_shape import Shape, pod_of, workload_of
from numaware.serve.console.views.pods import PodView
from numaware.serve.console.views.recorder import Recorder, Series
from numaware.serve.console.views.snapshot_view import SnapshotView
from numaware.serve.console.views.traffic import NodeTraffic, Traffic, TrafficRecorder
from numaware.serve.console.views.wall_model import Numbers, pool_of, tally
from numaware.serve.console.views.whatif import (
    NodeAnswer,
    WhatIf,
    asked,
    headroom,
    reasons_in_words,
    reasons_of,
    rooms,
    telling,
    told,
)
from numaware.serve.console.world import SwitchError, World
from numaware.serve.guard import caller_of
from numaware.serve.problems import ProblemError
from numaware.workload.pod import Pod

# Explanations worked out at the same time, on threads of their own, and how long whoever asked for one waits.
_AT_ONCE = 2
_SECONDS = 20.0
# Explanations kept for those who look at the same.
_MOST_EXPLAINED = 128


class Console:
    """A world, looked at. `clock` tells the time in milliseconds since 1970."""

    def __init__(self, world: World, clock: Callable[[], int], history: History | None = None) -> None:
        self.world = world
        self.clock = clock
        self.now = SnapshotView(world)
        self.wall_model = self.now.wall_model
        self.history = history
        self.recorder = Recorder(self.wall_model)
        self.stream = Stream(self.wall_model)
        self.talk = TrafficRecorder(world)
        self.simulator = Simulator(world.cluster)
        self._slots = Slots(_AT_ONCE, _SECONDS)
        self._explained: SharedAnswers[Explained] = SharedAnswers(_MOST_EXPLAINED)
        self._judging = asyncio.Lock()
        self._uploads = Uploads()

    def look(self) -> None:
        """Let time pass, write down what is, and tell those who listen."""
        self.world.advance(self.clock())
        self.write_down()
        self.talk.record()
        self.stream.publish()

    def write_down(self, *, wait: bool = False) -> None:
        """For charts, and where history is kept, for whoever comes back; see `HistoryWriter.look` for `wait`."""
        self.recorder.record()
        if self.history is not None:
            self.history.writer.look(self.wall_model, self.now.letters, self.recorder, wait=wait)

    async def _snapshot(self, at: datetime | None) -> SnapshotView:
        """What is asked about: now, or a moment that is over."""
        if at is None:
            return self.now
        if self.history is None:
            raise not_kept()
        return await self.history.snapshot(at)

    async def _judged(
        self, snapshot: SnapshotView, pod: Pod, policies: TrialPolicies = AS_THEY_ARE
    ) -> list[Judgement]:
        """What every node says to the pod, worked out in turns with other calls."""
        judge = snapshot.wall_model.judge
        async with self._judging:
            await judge_in_turns(judge, pod, list(snapshot.world.cluster.by_name), policies)
            return judge.judge(pod, policies=policies)

    async def _shape(self, snapshot: SnapshotView, query: Shape) -> Shape:
        """The shape that is asked about, every node's judgement of it at hand."""
        shape = _shape(query)
        wall_model = snapshot.wall_model
        async with self._judging:
            if names := wall_model.unjudged(shape):
                await judge_in_turns(wall_model.judge, pod_of(shape), names)
        return shape

    # Lists

    async def healthz(self, _: Call) -> Health:
        return Health("ok")

    async def cluster(self, call: Call) -> Numbers:
        snapshot = await self._snapshot(call.query.at)
        return snapshot.wall_model.numbers(await self._shape(snapshot, call.query))

    async def wall(self, call: Call) -> Packed:
        snapshot = await self._snapshot(call.query.at)
        return snapshot.wall(await self._shape(snapshot, call.query))

    async def nodes(self, call: Call) -> NodePage:
        query: NodeQuery = call.query
        snapshot = await self._snapshot(query.at)
        wanted = query.q.lower()
        members = snapshot.world.cluster.members
        matching = [member for member in members if _matches(member, wanted)] if wanted else members
        page, last = _page(matching, query, lambda member: member.name)
        return NodePage(snapshot.wall_model.summaries(page), len(matching), last)

    async def node(self, call: Call) -> NodeView:
        snapshot = await self._snapshot(call.query.at)
        return node.view_of(snapshot.wall_model, snapshot.letters, snapshot.member(call.path["name"]))

    async def pods(self, call: Call) -> PodPage:
        query: PodQuery = call.query
        snapshot = await self._snapshot(query.at)
        matching = pods.listed(snapshot.world, query.q.lower(), query.node, query.phase)
        page, last = _page(matching, query, lambda listed: pods.full_name(listed[0]))
        items = tuple(pods.summary_of(snapshot.wall_model, pod, member, call.lang) for pod, member in page)
        return PodPage(items, len(matching), last)

    async def pod(self, call: Call) -> PodView:
        snapshot = await self._snapshot(call.query.at)
        pod, member = snapshot.pod(call.path["namespace"], call.path["name"])
        return pods.view_of(snapshot.wall_model, pod, member, call.lang)

    # Questions

    async def explain_get(self, call: Call) -> Explained:
        query: ExplainQuery = call.query
        question = Question(_shape(query), "", query.pod, query.node, query.policy, query.scope)
        return await self._explain(question, await self._snapshot(query.at), call.lang)

    async def explain_post(self, call: Call) -> Explained:
        return await self._explain(call.body, await self._snapshot(call.query.at), call.lang)

    async def _explain(self, question: Question, snapshot: SnapshotView, lang: Lang) -> Explained:
        pod, path = await self._asked(question, snapshot)
        member = snapshot.member(question.node)
        policies = TrialPolicies(question.policy, question.scope)
        judge = snapshot.wall_model.judge
        asked_member = judge.engine.member(member.name, policies)
        if asked_member is None:
            raise InputError(
                "policy", Sentence("the kubelet of {node} would not start with it", node=member.name)
            )
        (judged,) = judge.judge(pod, [member.name], policies)
        dra = snapshot.world.cluster.dra
        served = served_on(snapshot.world.cluster, pod, member.name)

        async def work() -> Explained:
            evidence = await self._slots.run(evidence_of, member.name, asked_member.node, pod)
            # The engine is asked where nothing else changes the cluster meanwhile.
            evidence_with_dra = with_dra(judge.tried(evidence, policies), dra, served)
            return await self._slots.run(explained, evidence_with_dra, judged, path, lang)

        known = member.load, dra.serial, dra.hidden, served
        return await self._explained.answer((known, pod, policies, judged, path, lang), work)

    async def _asked(self, question: Question, snapshot: SnapshotView) -> tuple[Pod, str]:
        """The pod in question, and where its spec stands in the manifest."""
        if question.pod:
            namespace, _, name = question.pod.partition("/")
            return snapshot.pod(namespace, name)[0], "spec"
        if question.manifest:
            workload = await self._slots.run(workload_of, question.manifest)
            return workload.pod, workload.spec_path
        return pod_of(question.shape or Shape()), "spec"

    async def whatif(self, call: Call) -> WhatIf:
        question: Question = call.body
        lang = call.lang
        snapshot = await self._snapshot(call.query.at)
        pod, _ = await self._asked(question, snapshot)
        policies = TrialPolicies(question.policy, question.scope)
        judged = await self._judged(snapshot, pod, policies)
        snapshot.wall_model.refresh()
        answers = []
        for member, judgement in zip(snapshot.world.cluster, judged, strict=True):
            config = member.node.kubelet.config
            answers.append(
                NodeAnswer(
                    member.name,
                    judgement.verdict,
                    policies.policy or config.topology_policy,
                    policies.scope or config.topology_scope,
                    judgement.numa,
                    reasons := reasons_of(judgement, lang),
                    reasons_in_words(reasons, lang),
                    judgement.stranded,
                    snapshot.wall_model.strips(member.name),
                )
            )
        return WhatIf(
            asked(pod),
            told(judged, lang),
            tally(judged),
            tuple(answers),
            telling(answers),
            snapshot.wall_model.serial,
            snapshot.world.now,
        )

    async def headroom(self, call: Call) -> Room:
        snapshot = await self._snapshot(call.query.at)
        shape = await self._shape(snapshot, call.query)
        wall_model = snapshot.wall_model
        numbers = wall_model.numbers(shape)
        found_rooms = rooms(wall_model.judge.engine, wall_model.judged(shape))
        room = await self._slots.run(headroom, found_rooms, pod_of(shape))
        return Room(room, numbers.largest)

    # Live, past and policies

    async def events(self, call: Call) -> Any:
        query: EventQuery = call.query
        snapshot = await self._snapshot(query.at)
        if snapshot is not self.now or "text/event-stream" not in call.request.headers.get("accept", ""):
            recent, lang = list(snapshot.world.events)[: -query.limit - 1 : -1], call.lang
            return EventPage(tuple(pods.event_in_words(event, lang) for event in recent))
        try:
            lines = self.stream.subscribe(_shape(query))
        except TooManyReadersError:
            full = Sentence("too many readers listen already")
            raise ProblemError(429, full, headers={"retry-after": "5"}) from None
        return StreamingResponse(
            lines,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def monitoring(self, call: Call) -> Series:
        """The last hours are at hand; what goes back further is in the file, where there is one."""
        query: MonitorQuery = call.query
        snapshot = await self._snapshot(query.at)
        if query.node:
            snapshot.member(query.node)
        self.recorder.record()
        span, end = query.minutes * 60_000, snapshot.world.now
        if self.history is None:
            return self.recorder.series(query.node, span)
        kept_from = await self.history.kept_from()
        if snapshot is not self.now or (kept_from and end - span < self.recorder.kept_from(query.node)):
            return await self.history.series(query.node, end - span, end)
        series = self.recorder.series(query.node, span)
        return msgspec.structs.replace(series, kept_from_ms=min(series.kept_from_ms, kept_from or end))

    async def kept(self, call: Call) -> Kept:
        query: HistoryQuery = call.query
        if self.history is None:
            return Kept()
        return await self.history.kept(query.around, query.node)

    async def refusals(self, _: Call) -> Refusals:
        return Refusals() if self.history is None else await self.history.refusals()

    async def traffic(self, _: Call) -> Traffic:
        return traffic.overview(self.world, self.talk)

    async def node_traffic(self, call: Call) -> NodeTraffic:
        name = self.now.member(call.path["name"]).name
        report = next((one for one in self.world.traffic() if one.node == name), None)
        if report is None:
            raise ProblemError(404, Sentence("no agent of {node} reports who talks there", node=name))
        return traffic.of_node(self.world, report, call.lang)

    async def policies(self, call: Call) -> switching.Policies:
        snapshot = await self._snapshot(call.query.at)
        return await switching.policies_of(snapshot.world)

    async def switch(self, call: Call) -> switching.SwitchAnswer:
        wish: switching.SwitchWish = call.body
        switch = await switching.find(self.world, call.path["id"])
        if switch is None:
            raise ProblemError(
                404, Sentence("there is no switch {name!r}", name=printable(call.path["id"], 40))
            )
        if switch.missing:
            raise ProblemError(409, switch.missing)
        try:
            if wish.dry_run:
                return switching.preview(self.world, switch, wish)
            return await switching.move(self.world, switch, wish, caller_of(call.request))
        except SwitchError as error:
            raise ProblemError(409, error.sentence) from None

    async def try_policy(self, call: Call) -> switching.PolicyAnswer:
        members = switching.pool_members(self.world, call.body.pool)
        return await self._slots.run(switching.try_policy, members, call.body)

    async def order_pool(self, call: Call) -> Orders:
        try:
            return await switching.order_pool(self.world, call.body, caller_of(call.request))
        except SwitchError as error:
            raise ProblemError(409, error.sentence) from None

    async def command(self, call: Call) -> Orders:
        name = call.path["name"]
        try:
            return await switching.command(self.world, name, call.body, caller_of(call.request))
        except SwitchError as error:
            raise ProblemError(409, error.sentence) from None
        except KeyError:
            missing = Sentence("there is no order {name!r}", name=printable(name, 40))
            raise ProblemError(404, missing) from None

    async def diagnose(self, call: Call) -> Packed:
        query: DiagnoseQuery = call.query
        return await self._uploads.diagnosis(call.request, query.file, query.lang or call.lang)

    async def simulations(self, _: Call) -> Simulations:
        return self.simulator.listed()

    async def simulation(self, call: Call) -> Simulation:
        number = call.path["id"]
        comparison = self.simulator.known.get(int(number)) if number.isascii() and number.isdigit() else None
        if comparison is None:
            raise ProblemError(
                404, Sentence("there is no comparison {number!r}", number=printable(number, 20))
            )
        return comparison

    async def simulate(self, call: Call) -> Simulation:
        return self.simulator.start(call.body)


def _shape(query: Shape) -> Shape:
    """A query without what is not part of the shape, so that equal shapes share their answers."""
    return Shape(query.cpu, query.memory, query.gpu, query.gpu_resource)


def _matches(member: Member, wanted: str) -> bool:
    policy = member.facts.topology_policy or ""
    return any(wanted in text.lower() for text in (member.name, pool_of(member), policy))


def _page(found: list[Any], paging: Paging, name: Callable[[Any], str]) -> tuple[list[Any], str]:
    """One page, and the name to go on after; items have to be in order of name."""
    rest = [one for one in found if name(one) > paging.after] if paging.after else found
    page = rest[: paging.limit]
    return page, name(page[-1]) if len(rest) > len(page) else ""
