"""Another program that binds: every pod of the scheduler `foreign`, to a node that by its totals has room. It asks nobody.

It sees nodes and pods as kube-scheduler does, through watches, and knows nothing of NUMA nodes. For tests of what our scheduler
does beside such a one.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterable

from numaware.kube import nodes, pods
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.errors import ApiError
from numaware.kube.pods import LivePod
from numaware.kube.reflector import Reflector
from numaware.kube.resources import NODES, PODS
from numaware.schedule.node_facts import pod_requests


async def bind_all(kubeconfig: str) -> None:
    async with Client(await connect(kubeconfig, None)) as client:
        dice = random.Random(1)  # noqa: S311 - the same choice every time
        machines = Reflector(client, NODES, nodes.decode)
        everybody = Reflector(client, PODS, pods.decode)
        running = [asyncio.create_task(one.run()) for one in (machines, everybody)]
        await asyncio.gather(machines.synced.wait(), everybody.synced.wait())
        # Where it has sent pods that its watch does not show there yet.
        sent: dict[str, str] = {}
        while not any(task.done() for task in running):
            waiting = [
                one
                for one in everybody.items.values()
                if one.scheduler == "foreign" and not one.node and one.uid not in sent
            ]
            for pod in waiting:
                used = _used(everybody.items.values(), sent)
                asked = dict(pod_requests(pod.pod))
                fitting = [
                    node.name
                    for node in machines.items.values()
                    if all(
                        dict(node.allocatable).get(name, 0) - used[node.name, name] >= amount
                        for name, amount in asked.items()
                    )
                ]
                if fitting:
                    sent[pod.uid] = node = dice.choice(sorted(fitting))
                    try:
                        await client.bind(pod.namespace, pod.name, pod.uid, node)
                    except ApiError:
                        del sent[pod.uid]
            await asyncio.sleep(0.02)


def _used(everybody: Iterable[LivePod], sent: dict[str, str]) -> Counter[tuple[str, str]]:
    used: Counter[tuple[str, str]] = Counter()
    for one in everybody:
        node = one.node or sent.get(one.uid, "")
        if node and not one.finished:
            for name, amount in pod_requests(one.pod):
                used[node, name] += amount
    return used


if __name__ == "__main__":
    asyncio.run(bind_all(sys.argv[1]))
