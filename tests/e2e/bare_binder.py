"""Binds every pod of the scheduler `bare` to one node after the other, and does nothing else: the ceiling of bind_race.py.

It has the client, the event loop, the number of calls at once and the account of `numaware scheduler`.
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from numaware.kube import nodes, pods
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.resources import NODES, PODS
from numaware.serve.bind_queue import CALLS


async def bind_all(kubeconfig: str) -> None:
    async with Client(await connect(kubeconfig, None)) as client:
        names = [nodes.decode(raw).name async for page in client.list(NODES) for raw in page.items]
        found = [pods.decode(raw) async for page in client.list(PODS) for raw in page.items]
        waiting = iter(enumerate(pod for pod in found if pod.scheduler == "bare"))

        async def work() -> None:
            for number, pod in waiting:
                await client.bind(pod.namespace, pod.name, pod.uid, names[number % len(names)])

        await asyncio.gather(*(work() for _ in range(CALLS)))
        # Until it is ended: its CPU seconds are read off while it lives.
        await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bind_all(sys.argv[1]))
