"""The agent as a program: publisher and exporter put together, each of them if wanted, and taken down in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import structlog
from starlette.applications import Starlette

from numaware.affinity.chosen import Said
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.events import EventWriter
from numaware.node.affinity.in_cluster import InCluster
from numaware.node.affinity.worker import AffinityOptions, AffinityWorker
from numaware.node.dra_devices import DraDevices
from numaware.node.exporter.exporter import Exporter
from numaware.node.exporter.families import Family
from numaware.node.exporter.restart import RestartMetrics
from numaware.node.kubelet_files import KubeletFiles
from numaware.node.kubelet_switch.worker import PolicyWorker, SwitchOptions
from numaware.node.podresources import PodResources
from numaware.node.publisher import Options, Publisher
from numaware.node.troubles import Troubles
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig
from numaware.web import Tls, read_token, serving, status_routes

log = structlog.get_logger("numaware.agent")


class AgentOptions(msgspec.Struct, frozen=True):
    """What a user says about the agent; no `publish` and no `listen` switch those parts off."""

    node: str
    files: KubeletFiles
    root: str = "/"
    publish: Options | None = None
    kubeconfig: str | None = None
    context: str | None = None
    listen: str | None = None
    tls: Tls | None = None
    token: Path | None = None
    most_pods: int = 500
    switch: SwitchOptions | None = None
    affinity: AffinityOptions | None = None


async def run_agent(options: AgentOptions) -> None:
    """Publish and answer until cancelled."""
    troubles = Troubles()
    async with contextlib.AsyncExitStack() as stack:
        publisher: Publisher | None = None
        client: Client | None = None
        dra: DraDevices | None = None
        if options.publish is not None:
            connection = await connect(options.kubeconfig, options.context)
            client = await stack.enter_async_context(Client(connection))
            publisher = Publisher(options.node, client, options.files, troubles, options.publish)
            dra = DraDevices(options.node, client, troubles)
        worker: AffinityWorker | None = None
        cluster: InCluster | None = None
        if options.affinity is not None:
            kubelet = await stack.enter_async_context(PodResources(options.files.podresources))
            said = None
            if publisher is not None and client is not None:
                events = await stack.enter_async_context(
                    EventWriter(
                        client,
                        controller="numaware.io/agent",
                        instance=options.node,
                        on_problem=lambda problem: log.warning("events are not written", problem=problem),
                    )
                )
                cluster = _in_cluster(options.affinity, publisher, client, troubles, events)
                said = partial(_said, publisher, cluster)
            worker = AffinityWorker(
                options.node, options.root, kubelet, troubles, options.affinity, said, cluster
            )
        if options.listen is not None:
            service = None
            if options.most_pods:
                service = await stack.enter_async_context(PodResources(options.files.podresources))
            exporter = Exporter(
                options.node,
                options.root,
                troubles,
                service=service,
                config=lambda: publisher.config if publisher else _config(options.files, troubles),
                counts=publisher.counts if publisher else None,
                most_pods=options.most_pods,
                more=partial(
                    _more, (worker, dra, RestartMetrics(lambda: publisher.node if publisher else None))
                ),
            )
            unready = publisher.unready if publisher else str
            routes = status_routes(
                exporter.text,
                unready,
                prepare=exporter.prepare,
                token=read_token(options.token) if options.token else "",
            )
            address = await stack.enter_async_context(
                serving(Starlette(routes=[*routes]), options.listen, options.tls)
            )
            log.info("listening", address=address)
        async with asyncio.TaskGroup() as group:
            if options.switch is not None and (client is not None or options.switch.allowed):
                if client is None:
                    client = await stack.enter_async_context(
                        Client(await connect(options.kubeconfig, options.context))
                    )
                group.create_task(PolicyWorker(options.node, client, options.switch).run())
            if worker is not None:
                log.info("looking after talking pods", mode=options.affinity and options.affinity.mode)
                group.create_task(worker.run())
            if cluster is not None:
                group.create_task(cluster.run())
            if publisher is not None:
                log.info("publishing", node=options.node)
                if dra is not None and options.listen is not None:
                    group.create_task(dra.run())
                group.create_task(publisher.run())
            await asyncio.Event().wait()


def _in_cluster(
    affinity: AffinityOptions,
    publisher: Publisher,
    client: Client,
    troubles: Troubles,
    events: EventWriter,
) -> InCluster:
    return InCluster(
        publisher.name,
        client,
        troubles,
        affinity.cluster,
        lambda: publisher.owner,
        events,
        acts=affinity.mode != "observe",
    )


def _said(publisher: Publisher, cluster: InCluster) -> Said | None:
    """What pods and openFuyao's Whitelist say of moving, once both are known."""
    said = publisher.said()
    if said is None or cluster.whitelist is None:
        return None
    return Said(said.words, cluster.whitelist)


def _more(parts: Iterable[AffinityWorker | DraDevices | RestartMetrics | None]) -> Iterator[Family]:
    """Metrics of what else the agent looks after."""
    for part in parts:
        if part is not None:
            yield from part.families()


def _config(files: KubeletFiles, troubles: Troubles) -> KubeletConfig | None:
    """The kubelet's configuration for the metrics, where nobody publishes and so nobody asks for its version."""
    if files.config is None:
        return None
    try:
        config = files.read_config(DEFAULT_VERSION)
    except InputError as error:
        troubles.raised("configuration", "invalid", str(error))
        return None
    except OSError as error:
        troubles.raised("configuration", "unreadable", str(error))
        return None
    troubles.cleared("configuration")
    return config
