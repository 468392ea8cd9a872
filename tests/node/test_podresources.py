from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import AF_UNIX
from socket import socket as Socket  # noqa: N812 - `socket` is a path here

import pytest

from numaware.machine.cpuset import CpuSet
from numaware.node import podresources_pb2 as wire
from numaware.node.podresources import (
    Allocatable,
    ContainerHoldings,
    Devices,
    Memory,
    PodHoldings,
    PodResources,
    PodResourcesError,
)
from support.fake_podresources import FakePodResources

ROOT = Path(__file__).parents[2]


def on(*nodes: int) -> wire.TopologyInfo:
    return wire.TopologyInfo(nodes=[wire.NUMANode(ID=node) for node in nodes])


def ask(
    tmp_path: Path,
    tell: Callable[[FakePodResources], None],
    look: Callable[[PodResources, FakePodResources], Awaitable[None]],
    seconds: float = 60,
) -> None:
    async def run() -> None:
        socket = tmp_path / "kubelet.sock"
        async with FakePodResources(socket) as kubelet, PodResources(socket, seconds) as service:
            tell(kubelet)
            await look(service, kubelet)

    asyncio.run(run())


def test_pods_come_sorted_with_their_cpus_devices_and_memory(tmp_path: Path) -> None:
    gpus = [
        wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["gpu-3"], topology=on(1)),
        wire.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=["gpu-2"], topology=on(1)),
        wire.ContainerDevices(resource_name="vendor.example/nic", device_ids=["eth1"], topology=on(-1)),
        # On both nodes, as the kubelet says it.
        wire.ContainerDevices(resource_name="vendor.example/nic", device_ids=["eth2"], topology=on(1)),
        wire.ContainerDevices(resource_name="vendor.example/nic", device_ids=["eth2"], topology=on(0)),
    ]
    memory = [
        wire.ContainerMemory(memory_type="memory", size=1 << 30, topology=on(1, 0)),
        wire.ContainerMemory(memory_type="hugepages-2Mi", size=2 << 20, topology=on(1)),
    ]

    def tell(kubelet: FakePodResources) -> None:
        main = wire.ContainerResources(name="main", cpu_ids=[15, 14], devices=gpus, memory=memory)
        kubelet.say(
            wire.ListPodResourcesResponse(
                pod_resources=[
                    wire.PodResources(namespace="work", name="train", containers=[main]),
                    wire.PodResources(namespace="default", name="web"),
                ]
            )
        )

    async def look(service: PodResources, _: FakePodResources) -> None:
        assert await service.pods() == (
            PodHoldings("default", "web"),
            PodHoldings(
                "work",
                "train",
                (
                    ContainerHoldings(
                        "main",
                        CpuSet([14, 15]),
                        (
                            Devices("nvidia.com/gpu", ("gpu-2", "gpu-3"), (1,)),
                            Devices("vendor.example/nic", ("eth1",)),
                            Devices("vendor.example/nic", ("eth2",), (0, 1)),
                        ),
                        (Memory("hugepages-2Mi", 2 << 20, (1,)), Memory("memory", 1 << 30, (0, 1))),
                    ),
                ),
            ),
        )

    ask(tmp_path, tell, look)


def test_what_is_allocatable_is_told_and_a_kubelet_too_old_to_tell_is_not_one_that_has_nothing(
    tmp_path: Path,
) -> None:
    def tell(kubelet: FakePodResources) -> None:
        kubelet.say(wire.ListPodResourcesResponse(), wire.AllocatableResourcesResponse(cpu_ids=[1, 2, 3]))

    async def look(service: PodResources, kubelet: FakePodResources) -> None:
        assert await service.allocatable() == Allocatable(CpuSet([1, 2, 3]))
        kubelet.allocatable = None
        assert await service.allocatable() is None
        kubelet.allocatable = b""
        kubelet.problem = "PodResources API GetAllocatableResources disabled"
        assert await service.allocatable() is None

    ask(tmp_path, tell, look)


def test_a_kubelet_that_takes_the_call_and_says_nothing_is_given_up(tmp_path: Path) -> None:
    def tell(kubelet: FakePodResources) -> None:
        kubelet.hung = True

    async def look(service: PodResources, _: FakePodResources) -> None:
        with pytest.raises(PodResourcesError, match=r"no answer to List in 0.2 s") as caught:
            await service.pods()
        assert caught.value.cause == "timeout"

    ask(tmp_path, tell, look, seconds=0.2)


def test_a_socket_on_which_nobody_answers_at_all_is_given_up_too(tmp_path: Path) -> None:
    async def run() -> None:
        socket = tmp_path / "kubelet.sock"
        with Socket(AF_UNIX) as listener:
            listener.bind(str(socket))
            listener.listen()
            async with PodResources(socket, 0.3) as service:
                with pytest.raises(PodResourcesError) as caught:
                    await service.pods()
            assert caught.value.cause == "timeout"

    asyncio.run(run())


def test_a_socket_that_is_gone_is_found_again_when_it_is_back(tmp_path: Path) -> None:
    async def run() -> None:
        socket = tmp_path / "kubelet.sock"
        async with PodResources(socket) as service:
            with pytest.raises(PodResourcesError) as caught:
                await service.pods()
            assert caught.value.cause == "unavailable"
            for _ in range(2):
                async with FakePodResources(socket):
                    for _ in range(600):
                        try:
                            assert await service.pods() == ()
                            break
                        except PodResourcesError:
                            await asyncio.sleep(0.1)
                    else:
                        pytest.fail("the socket was not found again")

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xff\xff\xff",
        b"<html>not found</html>",
        wire.ListPodResourcesResponse(
            pod_resources=[wire.PodResources(containers=[wire.ContainerResources(cpu_ids=[1 << 40])])]
        ).SerializeToString(),
        wire.ListPodResourcesResponse(
            pod_resources=[wire.PodResources(containers=[wire.ContainerResources(cpu_ids=[-1])])]
        ).SerializeToString(),
        wire.ListPodResourcesResponse(
            pod_resources=[
                wire.PodResources(
                    containers=[wire.ContainerResources(memory=[wire.ContainerMemory(topology=on(1 << 40))])]
                )
            ]
        ).SerializeToString(),
        wire.ListPodResourcesResponse(pod_resources=[wire.PodResources()] * 20_001).SerializeToString(),
    ],
    ids=["bytes", "html", "cpu-too-large", "cpu-below-zero", "numa-too-large", "too-many-pods"],
)
def test_an_answer_that_makes_no_sense_is_garbage_not_nothing(tmp_path: Path, answer: bytes) -> None:
    def tell(kubelet: FakePodResources) -> None:
        kubelet.pods = answer

    async def look(service: PodResources, _: FakePodResources) -> None:
        with pytest.raises(PodResourcesError, match="the answer to List cannot be read") as caught:
            await service.pods()
        assert caught.value.cause == "garbage"

    ask(tmp_path, tell, look)


def test_an_answer_beyond_all_measure_is_refused_before_it_is_read(tmp_path: Path) -> None:
    def tell(kubelet: FakePodResources) -> None:
        kubelet.pods = b"\0" * (33 << 20)

    async def look(service: PodResources, _: FakePodResources) -> None:
        with pytest.raises(PodResourcesError, match="RESOURCE_EXHAUSTED") as caught:
            await service.pods()
        assert caught.value.cause == "refused"

    ask(tmp_path, tell, look)


def test_the_committed_messages_are_what_the_proto_file_says(tmp_path: Path) -> None:
    subprocess.run([ROOT / "scripts/stubs", tmp_path], check=True)
    made = sorted(tmp_path.rglob("*_pb2.py*"))
    assert len(made) == 8
    for file in made:
        committed = ROOT / "src" / file.relative_to(tmp_path)
        assert committed.read_text() == file.read_text(), "run scripts/stubs"
