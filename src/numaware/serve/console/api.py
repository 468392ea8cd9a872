"""Everything the page shows, as operations: `/api/v1/…`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import StreamingResponse

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.cluster import Member
from numaware.serve.console import nodeview, podview
from numaware.serve.console import policies as switching
from numaware.serve.console.census import Census, Numbers, pool_of
from numaware.serve.console.diagnosing import Diagnosis, diagnosed
from numaware.serve.console.explaining import Explained, explained
from numaware.serve.console.judging import VERDICTS, judged_apart, under
from numaware.serve.console.nodeview import Letters, NodeView
from numaware.serve.console.operations import Call, Operation, Packed, packed
from numaware.serve.console.podview import PodView
from numaware.serve.console.problems import ProblemError
from numaware.serve.console.questions import (
    DiagnoseQuery,
    EventPage,
    EventQuery,
    ExplainQuery,
    Health,
    MonitorQuery,
    NodePage,
    NodeQuery,
    Paging,
    PodPage,
    PodQuery,
    Question,
    Room,
    ShapeQuery,
    Wall,
)
from numaware.serve.console.recorder import Recorder, Series
from numaware.serve.console.shape import Rules, Shape, pod_of, workload_of
from numaware.serve.console.simulation import Simulation, Simulations, SimulationWish, Simulator
from numaware.serve.console.stream import Changed, Stream, TooManyReadersError
from numaware.serve.console.whatif import NodeAnswer, WhatIf, asked, headroom, rooms, tally, told
from numaware.serve.console.world import SwitchError, World
from numaware.workload.pod import Pod

# Explanations worked out at the same time, on threads of their own.
_AT_ONCE = 4


class Console:
    """A world, looked at. `clock` tells the time in milliseconds since 1970."""

    def __init__(self, world: World, clock: Callable[[], int]) -> None:
        self.world = world
        self.clock = clock
        self.census = Census(world)
        self.letters = Letters()
        self.recorder = Recorder(self.census)
        self.stream = Stream(self.census)
        self.simulator = Simulator(world.cluster)
        self._busy = asyncio.Semaphore(_AT_ONCE)
        self._walls: dict[Shape, tuple[int, int, Packed]] = {}

    def look(self) -> None:
        """Let time pass, write down what is, and tell those who listen."""
        self.world.advance(self.clock())
        self.recorder.record()
        self.stream.publish()

    # Lists

    async def healthz(self, _: Call) -> Health:
        return Health("ok")

    async def cluster(self, call: Call) -> Numbers:
        return self.census.numbers(_shape(call.query))

    async def wall(self, call: Call) -> Packed:
        """Kept until a node changes or a second has passed: ages and refusals move without a change."""
        shape = _shape(call.query)
        self.census.refresh()
        serial, second = self.census.serial, self.world.now // 1000
        known = self._walls.get(shape)
        if known is None or known[:2] != (serial, second):
            if len(self._walls) > 16:
                self._walls.clear()
            wall = Wall(serial, second * 1000, VERDICTS, self.census.tiles(shape))
            known = self._walls[shape] = serial, second, packed(wall)
        return known[2]

    async def nodes(self, call: Call) -> NodePage:
        query: NodeQuery = call.query
        self.census.refresh()
        wanted = query.q.lower()
        members = self.world.cluster.members
        found = [member for member in members if _matches(member, wanted)] if wanted else members
        page, last = _page(found, query, lambda member: member.name)
        refusals = self.census.refusals()
        items = tuple(nodeview.summary_of(self.census, member, refusals) for member in page)
        return NodePage(items, len(found), last)

    async def node(self, call: Call) -> NodeView:
        self.census.refresh()
        return nodeview.view_of(self.census, self.letters, self._member(call.path["name"]))

    async def pods(self, call: Call) -> PodPage:
        query: PodQuery = call.query
        wanted = query.q.lower()
        found = sorted(
            (
                pod
                for pod in podview.summaries(self.census)
                if wanted in f"{pod.namespace}/{pod.name}"
                and query.node in ("", pod.node)
                and query.phase in ("", pod.phase)
            ),
            key=lambda pod: (pod.namespace, pod.name),
        )
        page, last = _page(found, query, lambda pod: f"{pod.namespace}/{pod.name}")
        return PodPage(tuple(page), len(found), last)

    async def pod(self, call: Call) -> PodView:
        pod, member = self._pod(call.path["namespace"], call.path["name"])
        return podview.view_of(self.census, pod, member)

    # Questions

    async def explain_get(self, call: Call) -> Explained:
        query: ExplainQuery = call.query
        shape = Shape(query.cpu, query.memory, query.gpu, query.gpu_resource)
        return await self._explain(Question(shape, "", query.pod, query.node, query.policy, query.scope))

    async def explain_post(self, call: Call) -> Explained:
        return await self._explain(call.body)

    async def _explain(self, question: Question) -> Explained:
        pod, _, path = self._asked(question)
        member = self._member(question.node)
        node = under(member.node, Rules(question.policy, question.scope))
        if node is None:
            raise InputError("policy", f"the kubelet of {member.name} would not start with it")
        async with self._busy:
            return await asyncio.to_thread(explained, member.name, node, pod, path)

    async def whatif(self, call: Call) -> WhatIf:
        question: Question = call.body
        pod, home, _ = self._asked(question)
        rules = Rules(question.policy, question.scope)
        self.census.refresh()
        judged = self.census.judge.judge_all(pod, rules)
        answers = []
        for place, member in enumerate(self.world.cluster):
            if member is home:
                judged[place] = judged_apart(member, pod, rules)
            found, config = judged[place], member.node.kubelet.config
            answers.append(
                NodeAnswer(
                    member.name,
                    found.verdict,
                    rules.policy or config.topology_policy,
                    rules.scope or config.topology_scope,
                    found.numa,
                    found.reasons,
                    found.stranded,
                    self.census.strips(member.name),
                )
            )
        return WhatIf(asked(pod), told(judged), tally(judged), tuple(answers), self.census.serial)

    async def headroom(self, call: Call) -> Room:
        pod = pod_of(_shape(call.query))
        numbers = self.census.numbers(_shape(call.query))
        async with self._busy:
            found = await asyncio.to_thread(headroom, rooms(self.world.cluster), pod)
        return Room(found, numbers.largest)

    def _asked(self, question: Question) -> tuple[Pod, Member | None, str]:
        """The pod in question, the node it is on already, and where its spec stands in the manifest."""
        if question.pod:
            namespace, _, name = question.pod.partition("/")
            return *self._pod(namespace, name), "spec"
        if question.manifest:
            workload = workload_of(question.manifest)
            return workload.pod, None, workload.spec_path
        return pod_of(question.shape or Shape()), None, "spec"

    def _member(self, name: str) -> Member:
        member = self.world.cluster.by_name.get(name)
        if member is None:
            raise ProblemError(404, f"there is no node {printable(name, 80)!r}")
        return member

    def _pod(self, namespace: str, name: str) -> tuple[Pod, Member | None]:
        found = podview.find(self.world, namespace, name)
        if found is None:
            raise ProblemError(404, f"there is no pod {printable(f'{namespace}/{name}', 160)!r}")
        return found

    # Live, past and policies

    async def events(self, call: Call) -> Any:
        query: EventQuery = call.query
        if "text/event-stream" not in call.request.headers.get("accept", ""):
            recent = list(self.world.events)[: -query.limit - 1 : -1]
            return EventPage(tuple(recent))
        try:
            lines = self.stream.subscribe(_shape(query))
        except TooManyReadersError:
            raise ProblemError(429, "too many readers listen already", headers={"retry-after": "5"}) from None
        return StreamingResponse(
            lines,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def monitoring(self, call: Call) -> Series:
        query: MonitorQuery = call.query
        if query.node:
            self._member(query.node)
        self.recorder.record()
        return self.recorder.series(query.node, query.minutes * 60_000)

    async def policies(self, _: Call) -> switching.Policies:
        return await switching.policies_of(self.world)

    async def switch(self, call: Call) -> switching.SwitchAnswer:
        wish: switching.SwitchWish = call.body
        switch = await switching.find(self.world, call.path["id"])
        if switch is None:
            raise ProblemError(404, f"there is no switch {printable(call.path['id'], 40)!r}")
        if switch.missing or switch.broken:
            raise ProblemError(409, switch.missing or switch.broken)
        try:
            if wish.dry_run:
                return switching.preview(self.world, switch, wish)
            return await switching.move(self.world, switch, wish, _who(call))
        except SwitchError as error:
            raise ProblemError(409, str(error)) from None

    async def try_policy(self, call: Call) -> switching.PolicyAnswer:
        async with self._busy:
            return switching.try_policy(self.world, call.body)

    async def diagnose(self, call: Call) -> Diagnosis:
        query: DiagnoseQuery = call.query
        async with self._busy:
            return await asyncio.to_thread(diagnosed, call.body, query.file, query.lang)

    async def simulations(self, _: Call) -> Simulations:
        return self.simulator.listed()

    async def simulation(self, call: Call) -> Simulation:
        number = call.path["id"]
        found = self.simulator.known.get(int(number)) if number.isascii() and number.isdigit() else None
        if found is None:
            raise ProblemError(404, f"there is no comparison {printable(number, 20)!r}")
        return found

    async def simulate(self, call: Call) -> Simulation:
        return self.simulator.start(call.body)

    def operations(self) -> Sequence[Operation]:
        """The whole API; `/openapi.json` describes exactly these."""
        v1 = "/api/v1"
        return (
            Operation("GET", "/healthz", "Whether the process answers", self.healthz, Health, tag="process"),
            Operation(
                "GET",
                f"{v1}/cluster",
                "The headline numbers for a shape of pod",
                self.cluster,
                Numbers,
                ShapeQuery,
            ),
            Operation(
                "GET",
                f"{v1}/wall",
                "All nodes, packed, with their verdict on a shape",
                self.wall,
                Wall,
                ShapeQuery,
            ),
            Operation("GET", f"{v1}/nodes", "Nodes, page by page", self.nodes, NodePage, NodeQuery),
            Operation("GET", f"{v1}/nodes/{{name}}", "One node in full", self.node, NodeView, missing=(404,)),
            Operation("GET", f"{v1}/pods", "Pods, page by page", self.pods, PodPage, PodQuery),
            Operation(
                "GET",
                f"{v1}/pods/{{namespace}}/{{name}}",
                "One pod in full",
                self.pod,
                PodView,
                missing=(404,),
            ),
            Operation(
                "GET",
                f"{v1}/explain",
                "Why a node would take or refuse a pod",
                self.explain_get,
                Explained,
                ExplainQuery,
                missing=(404,),
            ),
            Operation(
                "POST",
                f"{v1}/explain",
                "The same for a manifest",
                self.explain_post,
                Explained,
                body=Question,
                missing=(404,),
            ),
            Operation(
                "POST",
                f"{v1}/whatif",
                "What every node says to a pod",
                self.whatif,
                WhatIf,
                body=Question,
                missing=(404,),
            ),
            Operation(
                "GET",
                f"{v1}/headroom",
                "How many more pods of a shape would be admitted",
                self.headroom,
                Room,
                ShapeQuery,
            ),
            Operation(
                "GET",
                f"{v1}/events",
                "What happened; a stream of changes for text/event-stream",
                self.events,
                EventPage,
                EventQuery,
                streams=Changed,
            ),
            Operation(
                "GET",
                f"{v1}/monitoring",
                "What was recorded of the cluster and of a node",
                self.monitoring,
                Series,
                MonitorQuery,
                missing=(404,),
            ),
            Operation(
                "GET", f"{v1}/policies", "Switches, pools and history", self.policies, switching.Policies
            ),
            Operation(
                "PUT",
                f"{v1}/policies/{{id}}",
                "Move a switch, or see what that would change",
                self.switch,
                switching.SwitchAnswer,
                body=switching.SwitchWish,
                missing=(404, 409),
            ),
            Operation(
                "POST",
                f"{v1}/policies/kubelet",
                "What another kubelet policy would mean for a pool",
                self.try_policy,
                switching.PolicyAnswer,
                body=switching.PolicyWish,
            ),
            Operation(
                "POST",
                f"{v1}/diagnose",
                "What logs, states, configurations and manifests tell",
                self.diagnose,
                Diagnosis,
                DiagnoseQuery,
                raw="application/octet-stream",
            ),
            Operation(
                "GET",
                f"{v1}/simulate",
                "Comparisons of schedulers, the latest first",
                self.simulations,
                Simulations,
            ),
            Operation(
                "POST",
                f"{v1}/simulate",
                "Compare schedulers on these machines",
                self.simulate,
                Simulation,
                body=SimulationWish,
            ),
            Operation(
                "GET", f"{v1}/simulate/{{id}}", "One comparison", self.simulation, Simulation, missing=(404,)
            ),
        )


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


def _who(call: Call) -> str:
    client = call.request.client
    return client.host if client else "somebody"
