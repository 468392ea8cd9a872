"""The scheduler and the extender as programs: their parts put together, started, and taken down in order."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args
from urllib.parse import urlsplit

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette

from numaware.diagnose.reason import Code
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.events import EventWriter
from numaware.kube.lease import Election, LeadershipLost, LeaseTimes
from numaware.kube.tasks import together
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.gc_tuning import settle
from numaware.schedule.kube_plugins import plugin_of
from numaware.schedule.profile import Profile
from numaware.schedule.storage import Storage
from numaware.schedule.storm import StormGuard
from numaware.serve import logs
from numaware.serve.actions import KubeActions
from numaware.serve.authentication import TokenAuthentication
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.extender import Extender, Unknown, application
from numaware.serve.guard import names_of
from numaware.serve.metrics import Metrics
from numaware.serve.node_estimate import Level
from numaware.serve.outcome_actions import OutcomeActions
from numaware.serve.prediction_audit import PredictionAudit
from numaware.serve.profile_files import ProfileFiles
from numaware.serve.queue import KubeQueue, State
from numaware.serve.scheduler import Scheduler
from numaware.serve.volume_binding import VolumeBinder
from numaware.serve.watches import ClusterWatch
from numaware.web import Tls, host_and_port, read_token, serving, status_routes

_log = structlog.get_logger(__name__)

_SECONDS_BETWEEN_EXPIRIES = 5.0
# In a long burst events go out one at a time and the rest waits, a few kilobytes each.
_EVENT_WRITERS = 1
_MOST_EVENTS = 10_000
_LEVELS: tuple[Level, ...] = get_args(Level)
_STATES: tuple[State, ...] = get_args(State)
_QUEUES: tuple[KubeQueue, ...] = get_args(KubeQueue)


class SchedulerOptions(NamedTuple):
    """What a user says about the scheduler."""

    names: tuple[str, ...]
    profile: Profile
    profiles: Mapping[str, Profile]
    # Those of the profiles that come from files, by the same names; the one for everybody else has none.
    profile_files: Mapping[str, Path]
    listen: str
    tls: Tls | None
    lease: tuple[str, str] | None
    lease_times: LeaseTimes
    misses: Path | None
    clean_up: bool
    log: logs.Format


class ExtenderOptions(NamedTuple):
    """What a user says about the extender."""

    listen: str
    tls: Tls | None
    token: Path | None
    unknown: Unknown
    log: logs.Format


async def run_scheduler(kubeconfig: str | None, context: str | None, options: SchedulerOptions) -> int:
    """Schedule until cancelled (then tidy up) or until another leads (then end, to be started again)."""
    logs.set_up(options.log)
    metrics = Metrics()
    async with _connected(kubeconfig, context, metrics) as (client, version):
        guard = StormGuard()
        storage = Storage(known=False)
        engine = Engine(
            Cluster((), knows_namespaces=False, storage=storage),
            options.profile,
            told=True,
            profiles=options.profiles,
            guard=guard,
        )
        engine.cluster.follow_release(version)
        cache = ClusterCache(engine, time.monotonic)
        audit = PredictionAudit(engine.cluster, guard, time.monotonic, options.misses)
        election = _election(client, options.lease, options.lease_times, metrics)

        def leads() -> bool:
            return election is None or election.holds

        def labels_of(node: str) -> Mapping[str, str] | None:
            member = engine.cluster.by_name.get(node)
            return None if member is None else dict(member.facts.labels)

        async with _events(client, "scheduler") as events:
            actions = KubeActions(client, events, renew_deadline=options.lease_times.renew)
            scheduler = Scheduler(
                cache,
                actions,
                names=options.names,
                metrics=metrics,
                clock=time.monotonic,
                may_act=leads,
                on_sent=audit.sent,
                volumes=VolumeBinder(client, storage, labels_of, clock=time.monotonic),
            )
            outcome_actions = OutcomeActions(
                audit,
                events,
                metrics,
                client,
                names=options.names,
                clean_up=options.clean_up,
                leads=leads,
            )
            watch = ClusterWatch(client, cache, (outcome_actions, scheduler), time.monotonic, decides=True)
            metrics.add(_State(cache, watch, scheduler))
            app = Starlette(routes=[*status_routes(metrics.registry, watch.unready)])

            async def lift_holds() -> None:
                while True:
                    await asyncio.sleep(_SECONDS_BETWEEN_EXPIRIES)
                    scheduler.nodes_changed(guard.lift(int(1000 * time.monotonic())))

            async def work() -> None:
                metrics.lead(leads=True)
                await watch.synced()
                settle()
                _log.info("scheduling", names=list(options.names), nodes=len(engine.cluster))
                await scheduler.run()

            async with serving(app, options.listen, options.tls) as address:
                _log.info("listening", address=address)
                try:
                    await together(
                        watch.run(),
                        actions.run(),
                        outcome_actions.run(),
                        lift_holds(),
                        ProfileFiles(engine, options.profile_files).run(),
                        election.lead(work) if election else work(),
                    )
                except LeadershipLost as lost:
                    _log.warning("not the leader any more", reason=str(lost))
                    return 1
    return 0


async def run_extender(kubeconfig: str | None, context: str | None, options: ExtenderOptions) -> int:
    """Answer until cancelled."""
    logs.set_up(options.log)
    host, _ = host_and_port(options.listen)
    names = names_of(host)
    known_clients = options.tls is not None and options.tls.clients is not None
    if not known_clients and (not names or options.token is None):
        raise InputError(
            options.listen,
            "whoever reaches this address could bind pods",
            hint="add --token-file on 127.0.0.1, elsewhere --tls-cert, --tls-key and --client-ca",
        )
    gate = None if options.token is None else TokenAuthentication(read_token(options.token))
    metrics = Metrics()
    async with _connected(kubeconfig, context, metrics) as (client, version):
        guard = StormGuard()
        engine = Engine(Cluster(()), guard=guard)
        engine.cluster.follow_release(version)
        cache = ClusterCache(engine, time.monotonic)
        audit = PredictionAudit(engine.cluster, guard, time.monotonic)
        async with _events(client, "extender") as events:
            actions = KubeActions(client, events)
            extender = Extender(cache, actions, metrics, unknown=options.unknown)
            outcome_actions = OutcomeActions(
                audit, events, metrics, client, names=(), clean_up=False, leads=lambda: True
            )
            watch = ClusterWatch(client, cache, (outcome_actions,), time.monotonic)
            metrics.add(_State(cache, watch, None))
            public = status_routes(metrics.registry, watch.unready)
            app = application(extender.routes(), public, names=names, gate=gate)

            async def expire() -> None:
                await watch.synced()
                settle()
                while True:
                    await asyncio.sleep(_SECONDS_BETWEEN_EXPIRIES)
                    extender.expire()
                    guard.lift(int(1000 * time.monotonic()))

            async with serving(app, options.listen, options.tls) as address:
                _log.info("listening", address=address)
                await together(watch.run(), actions.run(), expire())
    return 0


@asynccontextmanager
async def _connected(
    kubeconfig: str | None, context: str | None, metrics: Metrics
) -> AsyncIterator[tuple[Client, str]]:
    """A client whose calls are counted, and which Kubernetes answers it."""
    connection = await connect(kubeconfig, context)
    heard = partial(metrics.called, urlsplit(connection.base).netloc)
    async with Client(connection, heard=heard) as client:
        version = await client.server_version()
        _log.info("connected", server=version)
        yield client, version


def _events(client: Client, program: str) -> EventWriter:
    def trouble(problem: str) -> None:
        _log.warning("an event could not be written", problem=problem)

    return EventWriter(
        client,
        controller=f"numaware.io/{program}",
        instance=_instance(),
        limit=_MOST_EVENTS,
        writers=_EVENT_WRITERS,
        on_problem=trouble,
    )


def _election(
    client: Client, lease: tuple[str, str] | None, times: LeaseTimes, metrics: Metrics
) -> Election | None:
    if lease is None:
        return None
    namespace, name = lease

    def heard(leader: str) -> None:
        _log.info("leader", leader=leader or "nobody")
        metrics.lead(leads=False)

    def trouble(problem: str) -> None:
        _log.warning("the lease cannot be used", lease=f"{namespace}/{name}", problem=problem)

    return Election(client, name, namespace, _instance(), times=times, on_leader=heard, on_problem=trouble)


def _instance() -> str:
    """A name that no other process has, nor an earlier one of this program."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


class _State(Collector):
    """Numbers that are read off when somebody asks, not counted on the way."""

    def __init__(self, cache: ClusterCache, watch: ClusterWatch, scheduler: Scheduler | None) -> None:
        self._cache = cache
        self._watch = watch
        self._scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        known: Counter[str] = Counter(
            knowledge.level
            for member in self._cache.engine.cluster
            if (knowledge := self._cache.knowledge(member.name)) is not None
        )
        yield _gauge("numaware_nodes", "Nodes by how well they are known.", "knowledge", known, _LEVELS)
        broken = {
            "node topology": len(self._cache.problems),
            **{kind: len(one.problems) for kind, one in self._watch.reflectors.items()},
        }
        broken["pods"] += self._cache.unread_pods
        yield _gauge("numaware_unreadable_objects", "What could not be read or used.", "kind", broken, broken)
        if self._scheduler is not None:
            states: Counter[str] = Counter(one.state for one in self._scheduler.queue.waiting.values())
            yield _gauge("numaware_pending_pods", "Pods that wait, by state.", "state", states, _STATES)
            queues: Counter[str] = Counter(one.queue for one in self._scheduler.queue.waiting.values())
            text = "Pods that wait, by kube-scheduler's queues."
            yield _gauge("scheduler_pending_pods", text, "queue", queues, _QUEUES)
            yield _unschedulable(self._scheduler.unschedulable())
            entered = CounterMetricFamily(
                "scheduler_queue_incoming_pods",
                "Pods that came into a queue, and by what.",
                labels=["queue", "event"],
            )
            for (queue, event), number in sorted(self._scheduler.queue.entered.items()):
                entered.add_metric([queue, event], number)
            yield entered


def _unschedulable(pods: Iterable[tuple[str, Iterable[Code]]]) -> Metric:
    """As kube-scheduler: a pod counts for each plugin that keeps it off a node."""
    family = GaugeMetricFamily(
        "scheduler_unschedulable_pods",
        "Pods that no node takes, by the plugins of kube-scheduler that would say so (numaware: what none of them asks).",
        labels=["plugin", "profile"],
    )
    counts: Counter[tuple[str, str]] = Counter()
    for profile, codes in pods:
        counts.update({(plugin_of(code), profile): 1 for code in codes})
    for labels, number in sorted(counts.items()):
        family.add_metric(labels, number)
    return family


def _gauge(name: str, text: str, label: str, counts: Mapping[str, int], labels: Iterable[str]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value in labels:
        family.add_metric([value], counts.get(value, 0))
    return family
