"""What runs in the machine with several NUMA nodes beside the agent: a kubelet that holds nothing, and two pods that talk.

`python affinity_guest.py kubelet SOCKET`, `server MIB` or `client MIB LATENCIES`. Each pod fills its memory from both
NUMA nodes, half from each, before it talks. The client asks, waits for the reply, and writes down when and how long.
"""

from __future__ import annotations

import array
import asyncio
import mmap
import os
import signal
import socket
import sys
import time
from typing import Any

ADDRESS = ("127.0.0.1", 5000)
REQUEST, REPLY = 2 << 10, 64 << 10
# A pause between two requests, so that a busy vCPU of another is not what is measured.
PAUSE = 0.005


def fill(mib: int) -> mmap.mmap:
    """Half of it from the first CPU, half from the last: those are on different NUMA nodes."""
    memory = mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    every = os.sched_getaffinity(0)
    half = len(memory) // 2
    for cpu, begin in ((min(every), 0), (max(every), half)):
        os.sched_setaffinity(0, {cpu})
        memory.seek(begin)
        for _ in range(half >> 20):
            memory.write(b"x" * (1 << 20))
    os.sched_setaffinity(0, every)
    return memory


def serve(mib: int) -> None:
    memory = fill(mib)
    with socket.create_server(ADDRESS) as listener:
        client, _ = listener.accept()
        reply = b"y" * REPLY
        place = 0
        while whole(client, REQUEST):
            # What it answers comes from its memory.
            place = (place + 4096 * 37) % len(memory)
            reply = memory[place : place + 1] + reply[1:]
            client.sendall(reply)


def ask(mib: int, file: str) -> None:
    memory = fill(mib)
    taken = array.array("d")

    def end(*_: object) -> None:
        with open(file, "wb") as out:  # noqa: PTH123 - the guest imports as little as it can
            taken.tofile(out)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    server = socket.create_connection(ADDRESS)
    place = 0
    while True:
        place = (place + 4096 * 37) % len(memory)
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        server.sendall(memory[place : place + 1] * REQUEST)
        whole(server, REPLY)
        taken.extend((began, time.clock_gettime(time.CLOCK_BOOTTIME) - began))
        time.sleep(PAUSE)


def whole(peer: socket.socket, size: int) -> bool:
    while size:
        part = peer.recv(size)
        if not part:
            return False
        size -= len(part)
    return True


async def be_kubelet(path: str) -> None:
    import grpc  # noqa: PLC0415 - only one of the three needs it

    async def nothing(_: bytes, __: object) -> bytes:
        return b""

    calls: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(nothing) for name in ("List", "GetAllocatableResources")
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", calls),))
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    await server.wait_for_termination()


def tell(file: str, *moments: str) -> None:
    """Number, median and 99th percentile, in microseconds, before, between and after the moments."""
    taken = array.array("d")
    with open(file, "rb") as data:  # noqa: PTH123 - as above
        taken.frombytes(data.read())
    begin, end = (float(moment) for moment in moments)
    pairs = list(zip(taken[::2], taken[1::2], strict=True))
    phases = {
        "before": [took for at, took in pairs if at < begin],
        "during": [took for at, took in pairs if begin <= at < end],
        "after": [took for at, took in pairs if at >= end],
    }
    for name, phase in phases.items():
        phase.sort()
        middle, high = (phase[len(phase) * part // 100] if phase else 0.0 for part in (50, 99))
        sys.stdout.write(f"{name} {len(phase)} {int(middle * 1e6)} {int(high * 1e6)}\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["kubelet", path]:
            asyncio.run(be_kubelet(path))
        case ["server", mib]:
            serve(int(mib))
        case ["client", mib, file]:
            ask(int(mib), file)
        case ["tell", file, begin, end]:
            tell(file, begin, end)
