"""The kubelet's answer for other schedulers: kube-scheduler's extender protocol, and that of Volcano's extender plugin.

Both ask about one pod and some nodes, and hear what everybody hears (`Engine.ask`), but for two things: claims of volumes
and of devices (DRA) are left to the scheduler that asks, because it judges them itself, and nodes of which nobody can tell
may pass. kube-scheduler hands the bind over too, because only then is a pod on the books before the next one is asked
about; Volcano tells when it has given a pod a node and when it takes that back.

A request is another program's input: bounded in size, keys in any case (releases differ), and never a traceback. Who may
send one is the business of the guard before it (`application`). Whatever changes something is logged, with who asked for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.kube import pods
from numaware.kube.decoding import DecodeError
from numaware.kube.pods import LivePod
from numaware.machine.words import printable
from numaware.schedule.answer import Answer
from numaware.schedule.engine import Decision
from numaware.schedule.parts_by_dra import asks_on
from numaware.sentence import Sentence
from numaware.serve.bind_queue import BindQueue
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.guard import Authentication, Guard, caller_of
from numaware.serve.metrics import Metrics
from numaware.serve.problems import ProblemError
from numaware.serve.scheduler import Binder, prediction

# What is to become of nodes whose answer nobody can know: let the other scheduler decide, or keep pods off.
Unknown = Literal["pass", "refuse"]

# 5,000 whole Node objects are about 100 MB; no other question holds more than a pod.
MOST_BYTES = 4 << 20
MOST_WITH_NODES = 128 << 20
_WITH_NODES = ("/filter", "/prioritize")
_BEST = 10
_BEST_FOR_VOLCANO = 100
_UNSCHEDULABLE = 2
# A pod that Volcano gave a node and never bound is forgotten after this long.
_SECONDS_TO_BIND = 60.0
# For a pod that the watch has not brought yet, together well within the timeout that `config` gives kube-scheduler.
_LOOKS = 20
_SECONDS_BETWEEN_LOOKS = 0.05
# A bind that nobody has asked for in so many seconds is not sent any more: kube-scheduler gives up after five, as `config` says, and
# another kube-scheduler, with an extender of its own, may lead ten seconds after that (docs/extender.md).
_SECONDS_WANTED = 5.0
# Pods in mind so that each is counted once; who is asked about again after so many others counts anew.
_MOST_MET = 10_000

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode
_Fields = Mapping[str, msgspec.Raw]
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BadRequestError(ValueError):
    """A request that is not one."""


class _NodeName(msgspec.Struct):
    class Metadata(msgspec.Struct):
        name: str

    metadata: Metadata


class _NodeNames(msgspec.Struct):
    items: list[_NodeName] | None = None


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Flying:
    """A bind that is under way, or waits for its turn: to which node, what becomes of it, and when it was last asked for."""

    __slots__ = ("asked", "node", "result")

    def __init__(self, node: str, result: asyncio.Future[str], asked: float) -> None:
        self.node = node
        self.result = result
        self.asked = asked


class Extender:
    """Answers from `cluster_cache`; `binder` carries binds out."""

    def __init__(
        self,
        cache: ClusterCache,
        binder: Binder,
        metrics: Metrics,
        *,
        unknown: Unknown = "pass",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._binder = binder
        self._metrics = metrics
        self._passes = unknown == "pass"
        self._clock = clock
        self._binds = BindQueue(self._bind_assumed)
        # By uid, from the first question to the end of the call.
        self._flying: dict[str, _Flying] = {}
        # Pods that others said they gave a node, until the watch shows them bound: uid -> when to give up.
        self._promised: dict[str, float] = {}
        # Pods that the engine has learned of, newest last.
        self._met: dict[str, None] = {}

    def routes(self) -> list[BaseRoute]:
        """`/extender/…` for kube-scheduler, `/volcano/…` for Volcano."""
        return [
            self._route("/extender/filter", self._filter),
            self._route("/extender/prioritize", self._prioritize),
            self._route("/extender/bind", self._bind),
            self._route("/volcano/predicate", self._predicate),
            self._route("/volcano/prioritize", self._volcano_prioritize),
            self._route("/volcano/allocate", self._allocate),
            self._route("/volcano/deallocate", self._deallocate),
        ]

    def expire(self) -> None:
        """Give up on promises that were not kept; to be called now and then."""
        now = self._clock()
        for uid, until in list(self._promised.items()):
            if self._cache.is_bound(uid):
                del self._promised[uid]
            elif until <= now:
                del self._promised[uid]
                self._cache.forget(uid)

    # kube-scheduler

    async def _filter(self, fields: _Fields) -> Any:
        pod = _pod(fields)
        names, objects = _nodes(fields)
        taken, failed = [], {}
        # Thousands of nodes have a few answers between them.
        refusals: dict[tuple[Reason, ...], str] = {}
        self._meet(pod)
        for name, answer in zip(names, self._ask(pod, names), strict=True):
            refusal = refusals.get(answer.reasons)
            if refusal is None:
                refusal = refusals[answer.reasons] = self._refusal(answer)
            if refusal:
                failed[name] = refusal
            else:
                taken.append(name)
        return {
            "NodeNames": taken if objects is None else None,
            "Nodes": None if objects is None else _list_of(objects, names, taken),
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }

    async def _prioritize(self, fields: _Fields) -> Any:
        names, _ = _nodes(fields)
        scores = self._scores(_pod(fields), names, _BEST)
        return [{"Host": name, "Score": score} for name, score in scores.items()]

    async def _bind(self, fields: _Fields) -> Any:
        namespace, name, uid, node = (
            _text(fields, key) for key in ("podnamespace", "podname", "poduid", "node")
        )
        pod = await self._heard_of(uid)
        if pod is None:
            return {"Error": f"numaware has not heard of pod {namespace}/{name} yet"}
        problem = await self._carry_out(pod, node)
        _tell("bind", pod, node, problem, by_dra=self._left(pod, node))
        return {"Error": problem}

    async def _heard_of(self, uid: str) -> LivePod | None:
        """The pod; the other scheduler may have heard of it a moment earlier, and would wait longer to ask again."""
        for _ in range(_LOOKS):
            pod = self._cache.pod(uid)
            if pod is not None:
                return pod
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        return None

    async def _carry_out(self, pod: LivePod, node: str) -> str:
        """Bind the pod to the node the other scheduler chose; what went wrong, empty if nothing did.

        A scheduler that loses patience asks again, perhaps for another node, while the first call is still under way: then
        it hears what becomes of that one.
        """
        flying = self._flying.get(pod.uid)
        # One that was bound a moment ago may not be seen to be so yet; to move it on the books would free what it holds.
        where = flying.node if flying else pod.node or self._cache.place_of(pod.uid)
        if not where:
            blind, problem = self._assume(pod, node)
            if problem:
                return problem
            where = node
            flying = self._flying[pod.uid] = _Flying(node, self._binds.ask(node, (pod, blind)), self._clock())
            flying.result.add_done_callback(lambda _: self._flying.pop(pod.uid, None))
        problem = ""
        if flying is not None:
            flying.asked = self._clock()
            problem = await asyncio.shield(flying.result)
        return problem if problem or where == node else f"pod {pod.full_name} is on {where} already"

    async def _bind_assumed(self, node: str, assumed: tuple[LivePod, bool]) -> str:
        """Bind a pod that is on the books, once it is its turn on the node; what went wrong, empty if nothing did."""
        pod, blind = assumed
        if self._clock() - self._flying[pod.uid].asked > _SECONDS_WANTED:
            self._cache.forget(pod.uid)
            return f"pod {pod.full_name} waited too long for its turn on {node}, and was not bound"
        annotations = {} if blind else prediction(self._cache, pod, node)
        bound = "failed" if annotations is None else await self._binder.bind(pod, node, annotations)
        if bound == "bound":
            return ""
        self._cache.forget(pod.uid)
        return f"pod {pod.full_name} could not be bound to {node}: {bound}"

    def _assume(self, pod: LivePod, node: str) -> tuple[bool, str]:
        """Put the pod on the books: whether nothing is known of its place there, and why it cannot be put there."""
        (answer,) = self._ask(pod, [node])
        if self._refusal(answer):
            return False, f"node {node} would refuse the pod by now: {_listed(answer)}"
        if not answer.admitted:
            self._cache.assume_blindly(pod, node)
            return True, ""
        self._cache.assume(pod, Decision(pod.pod, node, answer.score, answer.hints, answer.share))
        return False, ""

    def _left(self, pod: LivePod, node: str) -> list[str]:
        """What of the pod is allocated by whoever asks: claims by their names, and resources that DRA serves there."""
        asks = asks_on(self._cache.engine.cluster, pod.pod, [node])
        return [printable(ask.name or ", ".join(ask.resources), 80) for ask in asks]

    # Volcano

    async def _predicate(self, fields: _Fields) -> Any:
        pod, node = _task(fields)[0], _text(_inner(fields, "node"), "name")
        self._meet(pod)
        (answer,) = self._ask(pod, [node])
        refusal = self._refusal(answer)
        return {"status": refusal, "code": _UNSCHEDULABLE if refusal else 0}

    async def _volcano_prioritize(self, fields: _Fields) -> Any:
        listed = _convert(fields.get("nodes"), list[dict[str, msgspec.Raw]], "nodes")
        names = [_text(_lowered(node), "name") for node in listed]
        scores = self._scores(_task(fields)[0], names, _BEST_FOR_VOLCANO)
        return {"nodeScore": {name: float(score) for name, score in scores.items()}, "errorMessage": ""}

    async def _allocate(self, fields: _Fields) -> Any:
        sent, node = _task(fields)
        pod = await self._heard_of(sent.uid)
        if pod is None:
            return {"errorMessage": f"numaware has not heard of pod {sent.full_name} yet"}
        _, problem = self._assume(pod, node)
        _tell("allocate", pod, node, problem)
        if problem:
            return {"errorMessage": problem}
        self._promised[pod.uid] = self._clock() + _SECONDS_TO_BIND
        return {"errorMessage": ""}

    async def _deallocate(self, fields: _Fields) -> Any:
        pod, _ = _task(fields)
        if self._promised.pop(pod.uid, None) is not None:
            self._cache.forget(pod.uid)
            _log.info("deallocate", pod=pod.full_name)
        return {"errorMessage": ""}

    # What they share

    def _meet(self, pod: LivePod) -> None:
        """Scores are for the pods that come; one that is asked about again and again has come once."""
        if pod.uid not in self._met:
            if len(self._met) >= _MOST_MET:
                del self._met[next(iter(self._met))]
            self._met[pod.uid] = None
            self._cache.engine.learn(pod.pod)

    def _ask(self, pod: LivePod, names: list[str]) -> list[Answer]:
        """What the nodes say to the pod without its claims and what DRA serves, and on its own: whoever asks judges those and
        its group.
        """
        own = msgspec.structs.replace(pod.pod.scheduling, claims=(), group="")
        rest = msgspec.structs.replace(pod.pod, scheduling=own)
        return self._cache.engine.ask(rest, names, but_for_dra=True)

    def _refusal(self, answer: Answer) -> str:
        """Why a node is not to be had, in words; empty if it takes the pod, or nobody can tell and that is let pass."""
        if answer.admitted or (self._passes and answer.is_unknown):
            return ""
        return f"numaware: {_listed(answer)}"

    def _scores(self, pod: LivePod, names: list[str], best: int) -> dict[str, int]:
        """Scores from 0 to `best`, which only the best places get; a place that is refused gets none."""
        scores = [None if answer.reasons else answer.score for answer in self._ask(pod, names)]
        # By rank: a place that is not aligned as well is worth so much less that the others would look all the same.
        ranked = sorted({score for score in scores if score is not None})
        last = len(ranked) - 1
        points = {score: best * rank // last if last else best for rank, score in enumerate(ranked)}
        return {
            name: 0 if score is None else points[score] for name, score in zip(names, scores, strict=True)
        }

    def _route(self, path: str, verb: Callable[[_Fields], Awaitable[Any]]) -> Route:
        async def answer(request: Request) -> Response:
            began = self._clock()
            status, body = 200, b""
            try:
                with structlog.contextvars.bound_contextvars(by=caller_of(request)):
                    body = _encode(await verb(await _fields(request)))
            except (BadRequestError, DecodeError) as error:
                status, body = 400, _encode({"Error": str(error)})
            self._metrics.extender.labels(path[1:], "ok" if status == 200 else "bad request").observe(
                self._clock() - began
            )
            return Response(body, status, media_type="application/json")

        return Route(path, answer, methods=["POST"])


def application(
    routes: Sequence[BaseRoute],
    public: Sequence[BaseRoute],
    *,
    names: frozenset[str],
    gate: Authentication | None,
) -> Starlette:
    """The routes behind the guard; `public` ones need no token, `names` are the hosts it answers to, empty for any."""
    return Starlette(
        routes=[*public, *routes],
        middleware=[
            Middleware(Guard, names=names, gate=gate, public=public, limit=_most_bytes, in_urls=True)
        ],
    )


def _most_bytes(path: str) -> int:
    return MOST_WITH_NODES if path.endswith(_WITH_NODES) else MOST_BYTES


def _tell(what: str, pod: LivePod, node: str, problem: str, *, by_dra: list[str] | None = None) -> None:
    """One line in the log for whatever another scheduler had done; `by_dra` is what of the pod it judged itself."""
    more = {"by_dra": by_dra} if by_dra else {}
    if problem:
        _log.warning(what, pod=pod.full_name, node=printable(node, 253), problem=problem, **more)
    else:
        _log.info(what, pod=pod.full_name, node=node, **more)


def _listed(answer: Answer) -> str:
    return ", ".join(map(say, answer.reasons))


async def _fields(request: Request) -> _Fields:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ProblemError(415, Sentence("the body has to be application/json"))
    try:
        return _lowered(_FIELDS.decode(await request.body()))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRequestError(f"not a JSON object: {error}") from None


def _lowered(fields: _Fields) -> _Fields:
    return {key.lower(): value for key, value in fields.items()}


def _inner(fields: _Fields, name: str) -> _Fields:
    """The fields of an object within."""
    return _lowered(_convert(fields.get(name), dict[str, msgspec.Raw], name))


def _convert(raw: msgspec.Raw | None, kind: Any, name: str) -> Any:
    if not _is_there(raw):
        raise BadRequestError(f"{name} is missing")
    try:
        return msgspec.json.decode(raw or b"", type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRequestError(f"{name}: {error}") from None


def _is_there(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(memoryview(raw)[:4]) != b"null"


def _text(fields: _Fields, name: str) -> str:
    text: str = _convert(fields.get(name), str, name)
    return text


def _pod(fields: _Fields) -> LivePod:
    raw = fields.get("pod")
    if raw is None or not _is_there(raw):
        raise BadRequestError("pod is missing")
    return pods.decode(raw)


def _nodes(fields: _Fields) -> tuple[list[str], list[msgspec.Raw] | None]:
    """The names asked about and, where whole objects were sent (nodeCacheCapable: false), those."""
    if _is_there(fields.get("nodenames")):
        names: list[str] = _convert(fields["nodenames"], list[str], "NodeNames")
        return names, None
    # Read twice, each time in one go: that is faster than to read thousands of objects one by one.
    named: _NodeNames = _convert(fields.get("nodes"), _NodeNames, "Nodes")
    whole: _NodeList = _convert(fields["nodes"], _NodeList, "Nodes")
    return [node.metadata.name for node in named.items or ()], whole.items or []


def _list_of(objects: list[msgspec.Raw], names: list[str], taken: list[str]) -> Any:
    keeps = set(taken)
    kept = [raw for raw, name in zip(objects, names, strict=True) if name in keeps]
    return {"metadata": {}, "items": kept}


def _task(fields: _Fields) -> tuple[LivePod, str]:
    """Volcano's task: a pod, and the node it was given, if it was."""
    inner = _inner(fields, "task")
    node = _text(inner, "nodename") if _is_there(inner.get("nodename")) else ""
    return _pod(inner), node
