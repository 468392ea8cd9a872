"""`numaware console`: the console on a live cluster."""

from __future__ import annotations

import asyncio
import time

from cyclopts import App

from numaware.cli.console_input import (
    Host,
    NoBrowser,
    Port,
    Prometheus,
    TokenFile,
    access_of,
    milliseconds,
    serve_until_cancelled,
)
from numaware.cli.live_input import Context, Kubeconfig, run_until_signal
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.errors import ApiError
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.serve import logs
from numaware.serve.console.api import Console
from numaware.serve.console.app import Access
from numaware.serve.console.livecluster import LiveCluster
from numaware.serve.live import Live
from numaware.serve.truth import Truth

app = App(name="console", usage="Usage: numaware console [OPTIONS]")


@app.default
def console(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    port: Port = 8080,
    host: Host = "127.0.0.1",
    token_file: TokenFile = None,
    prometheus: Prometheus = None,
    no_browser: NoBrowser = False,
) -> int:
    """Open the console on a live cluster; it looks and changes nothing.

    Nodes are shown as well as they are known: completely where numaware's agent
    reports, by counts where another publisher does, by totals elsewhere. The
    account needs to list and watch nodes, pods and NodeResourceTopologies.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 2 bad input.

    For example:

      numaware console
      numaware console --kubeconfig ~/.kube/config --context prod --port 0
      numaware console --host 0.0.0.0 --token-file token --prometheus http://127.0.0.1:9090
    """
    access = access_of(host, port, token_file, prometheus)
    logs.set_up("text")
    run_until_signal(_serve(kubeconfig, context, access, no_browser=no_browser))
    return 0


async def _serve(kubeconfig: str | None, context: str | None, access: Access, *, no_browser: bool) -> None:
    async with Client(await connect(kubeconfig, context)) as client:
        try:
            await client.server_version()
        except ApiError as error:
            raise InputError("the cluster", f"cannot be read: {error}") from None
        truth = Truth(Engine(Cluster(())), time.monotonic)
        world = LiveCluster(context or "cluster", truth, time.monotonic, milliseconds())
        live = Live(client, truth, (world,), time.monotonic)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(live.run())
            await live.synced()
            world.begin()
            await serve_until_cancelled(Console(world, milliseconds), access, no_browser=no_browser)
