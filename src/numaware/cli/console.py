"""`numaware console`: the console on a live cluster."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from cyclopts import App

from numaware.cli.console_input import (
    USUAL_CONSOLE,
    USUAL_PLACE,
    ConsoleOptions,
    Listening,
    milliseconds,
    serve_until_cancelled,
)
from numaware.cli.live_input import USUAL_CLUSTER, ClusterOptions, run_until_signal
from numaware.cli.options import optional
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.errors import ApiError
from numaware.kube.reviews import Caller, Reviews
from numaware.kube.tasks import together
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.storage import Storage
from numaware.serve import logs
from numaware.serve.authentication import PATHS, SECONDS_TO_ASK, ClusterAuthentication
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
from numaware.serve.console.history.api import History
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.openfuyao.kubelet_distance import KubeletDistance
from numaware.serve.console.openfuyao.runtime_affinity import RuntimeAffinity
from numaware.serve.console.openfuyao.volcano import Volcano
from numaware.serve.console.orders import ClusterOrders
from numaware.serve.talk_watch import TalkWatch
from numaware.serve.watches import ClusterWatch

app = App(name="console", usage="Usage: numaware console [OPTIONS]")


@app.default
def console(
    *,
    cluster: ClusterOptions = USUAL_CLUSTER,
    where: Listening = USUAL_PLACE,
    auth: Annotated[
        Literal["kubernetes"] | None,
        optional("Callers send a token of the cluster, and its roles say what each may do."),
    ] = None,
    options: ConsoleOptions = USUAL_CONSOLE,
) -> int:
    """Open the console on a live cluster.

    Nodes are shown as well as they are known: completely where numaware's agent
    reports, by counts where another publisher does, by totals elsewhere. The
    account needs to list and watch nodes, pods and NodeResourceTopologies, and
    NodeTraffics for the Traffic page. It changes nothing but what is switched on
    the pages Policies and Traffic, and that only where the account may:
    deploy/rbac/optional has what that needs.

    With --auth kubernetes a caller sends a token of the cluster (the page asks for
    it; `kubectl create token` makes one for an account), and may do what a
    ClusterRole grants: get, post and put on nonResourceURLs /numaware/console/*.
    deploy/rbac has a viewer, an operator, and what the console's own account needs.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 2 bad input.

    For example:

      numaware console
      numaware console --kubeconfig ~/.kube/config --context prod --port 0
      numaware console --host 0.0.0.0 --token-file token --prometheus http://127.0.0.1:9090
      numaware console --record prod.db
      numaware console --host 0.0.0.0 --auth kubernetes --tls-cert tls.crt --tls-key tls.key
    """
    if auth is not None and options.token_file is not None:
        raise InputError("--token-file", "does not go with --auth", hint="give one of them")
    access = options.access(where)
    logs.set_up("text")
    run_until_signal(_serve(cluster, access, options, auth=auth is not None))
    return 0


async def _serve(cluster: ClusterOptions, access: Access, options: ConsoleOptions, *, auth: bool) -> None:
    async with Client(await connect(cluster.kubeconfig, cluster.context)) as client:
        version = await client.server_version()
        if auth:
            access = access._replace(gate=await _cluster_gate(client))
        cache = ClusterCache(Engine(Cluster((), storage=Storage(known=False))), time.monotonic)
        cache.engine.cluster.follow_release(version)
        parts = (Volcano(client), KubeletDistance(client), RuntimeAffinity(client))
        talk = TalkWatch(client)
        name, orders = cluster.context or "cluster", ClusterOrders(client)
        world = LiveCluster(name, cache, time.monotonic, milliseconds(), parts, orders, talk)
        watch = ClusterWatch(client, cache, (world,), time.monotonic, shows=True)
        history = History(options.record) if options.record else None

        async def serve() -> None:
            await watch.synced()
            world.begin()
            console = Console(world, milliseconds, history)
            await serve_until_cancelled(console, access, options)

        await together(watch.run(), talk.run(), serve())


async def _cluster_gate(client: Client) -> ClusterAuthentication:
    """Both questions are asked once now, so that whoever starts it learns that they may not be asked, and not every caller."""
    reviews = Reviews(client, SECONDS_TO_ASK)
    try:
        await reviews.bearer("nobody")
        await reviews.may(Caller("nobody"), "get", PATHS)
    except ApiError as error:
        raise InputError(
            "--auth kubernetes",
            f"the cluster cannot be asked who callers are: {error}",
            hint="kubectl apply -f deploy/rbac/console-auth.yaml lets the console's account ask",
        ) from None
    return ClusterAuthentication(reviews)
