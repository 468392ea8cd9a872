"""The plugin beside a stand-in for the kubelet, on real sockets: registering, being asked, and everything that goes wrong."""

from __future__ import annotations

import asyncio
import re
import tempfile
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.node.device_plugin import deviceplugin_pb2 as wire
from numaware.node.device_plugin import surveyor as surveyor_module
from numaware.node.device_plugin.config import Config, read
from numaware.node.device_plugin.metrics import registry_of
from numaware.node.device_plugin.plugin import DevicePlugin, PluginOptions, run_plugin
from numaware.node.device_plugin.surveyor import Surveyor
from support import made_sysfs
from support.fake_device_manager import FakeDeviceManager, until
from support.fake_nvml import NO_INSTANCE, FakeGpu, FakeNvml

GPU, NIC = "nvidia.com/gpu", "x.io/nic"
CONFIG = read(
    b'resources: [{name: nvidia.com/gpu, gpus: {vendor: nvidia}}, {name: x.io/nic, pci: {class: "02"}, replicas: 2}]',
    "plugin.yaml",
)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Short, as the path of a socket has at most 107 letters."""
    with tempfile.TemporaryDirectory(prefix="dp-") as folder:
        yield Path(folder)


class Stage:
    """A made machine, a kubelet's folder, and the plugin, which runs while its block does."""

    def __init__(self, root: Path, config: Config = CONFIG, *, nvml: bool = False) -> None:
        machine = synthetic.read("2s x 1n x 2c +gpu@0,0,1,1 +nic@1")
        drivers = {"030200": "nvidia", "020000": "mlx5_core"}
        pci = tuple(msgspec.structs.replace(one, driver=drivers.get(one.class_code)) for one in machine.pci)
        self.made = made_sysfs.write(root / "machine", msgspec.structs.replace(machine, pci=pci))
        self.functions = self.made / "sys/bus/pci/devices"
        self.gpus = {one.address: one.numa or 0 for one in pci if one.class_code == "030200"}
        self.folder = root / "device-plugins"
        self.folder.mkdir()
        self.options = PluginOptions(config, self.folder, str(self.made), nvml, seconds=0.1)
        self.plugin = DevicePlugin(self.options, Surveyor(config, str(self.made), nvml=nvml))

    def run(self, play: Callable[[Stage], Awaitable[None]]) -> None:
        async def main() -> None:
            await self.plugin.begin()
            running = asyncio.create_task(self.plugin.run())
            try:
                await play(self)
            finally:
                running.cancel()
                async with asyncio.timeout(60):
                    await asyncio.gather(running, return_exceptions=True)

        asyncio.run(main())

    def announced(self, *unhealthy: str) -> dict[str, tuple[bool, tuple[int, ...]]]:
        return {name: (name not in unhealthy, (node,)) for name, node in self.gpus.items()}


def test_it_registers_announces_prefers_and_allocates(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            assert {
                (one.version, one.options.get_preferred_allocation_available) for one in kubelet.registrations
            } == {("v1beta1", True)}
            assert kubelet.devices[GPU] == stage.announced()
            assert len(kubelet.devices[NIC]) == 2
            options = await kubelet.call(GPU, "GetDevicePluginOptions", b"")
            assert wire.DevicePluginOptions.FromString(options).get_preferred_allocation_available
            names = [*stage.gpus]
            assert await kubelet.preferred(GPU, names, names[2:3], 2) == names[2:]
            answer = await kubelet.allocate(GPU, names[:1], names[1:])
            assert [dict(one.envs) for one in answer.container_responses] == [
                {"NVIDIA_VISIBLE_DEVICES": "0"},
                {"NVIDIA_VISIBLE_DEVICES": "1,2,3"},
            ]
            assert stage.plugin.unready() == ""

    Stage(tmp_path).run(play)


def test_a_long_name_of_a_resource_still_makes_a_socket(tmp_path: Path) -> None:
    long = f"{'sub.' * 12}example.com/{'x' * 60}"

    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: long in kubelet.devices)
            assert len(kubelet.registrations[0].endpoint) < 60

    Stage(tmp_path, read(f'resources: [{{name: {long}, pci: {{class: "02"}}}}]'.encode(), "p")).run(play)


def test_it_waits_for_a_kubelet_and_finds_each_that_comes(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        await until(lambda: "registration" in stage.plugin.troubles.current)
        assert stage.plugin.unready() == f"the kubelet does not know {GPU}, {NIC}"
        for _ in range(3):
            async with FakeDeviceManager(stage.folder) as kubelet:
                await until(lambda kubelet=kubelet: {GPU, NIC} <= kubelet.devices.keys(), 5)  # type: ignore[misc] # mypy cannot tell
                await until(lambda: not stage.plugin.unready())
                assert not stage.plugin.troubles.current

    Stage(tmp_path).run(play)


def test_it_registers_again_when_its_socket_was_removed_replaced_or_dropped(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            socket = stage.plugin.servers[GPU].path

            async def again(trouble: Callable[[], object]) -> None:
                before = len(kubelet.registrations)
                trouble()
                await until(lambda: len(kubelet.registrations) > before, 5)
                await until(lambda: not stage.plugin.unready())
                await until(lambda: GPU in kubelet.devices)
                await kubelet.allocate(GPU, [*stage.gpus][:1])

            await again(socket.unlink)

            def replace() -> None:
                socket.unlink()
                socket.touch()

            await again(replace)
            await again(lambda: asyncio.ensure_future(kubelet.drop(GPU)))

    Stage(tmp_path).run(play)


def test_a_kubelet_that_refuses_is_asked_again_and_the_trouble_is_told(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            kubelet.refuse = "device plugin already connected"
            stage.plugin._registration.wake()
            await until(lambda: stage.plugin.troubles.current.get("registration", ("",))[0] == "refused")
            assert "already connected" in stage.plugin.troubles.current["registration"][1]
            kubelet.refuse = ""
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys(), 5)
            await until(lambda: not stage.plugin.troubles.current)

    Stage(tmp_path).run(play)


def test_devices_that_vanish_come_back_or_come_new_are_announced(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        gone, *_ = stage.gpus
        place = (stage.functions / gone).readlink()
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: kubelet.devices.get(GPU) == stage.announced())
            (stage.functions / gone).unlink()
            await until(lambda: kubelet.devices[GPU] == stage.announced(gone))
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await kubelet.allocate(GPU, [*stage.gpus][1:2], [gone])
            assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert error.value.details() == f"{GPU}: {gone} cannot be handed out: vanished"
            (stage.functions / gone).symlink_to(place)
            await until(lambda: kubelet.devices[GPU] == stage.announced())

    Stage(tmp_path).run(play)


def test_a_request_that_cannot_be_met_is_one_clear_error(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            name = next(iter(stage.gpus))
            for request, status, said in (
                (kubelet.allocate(GPU, [name], ["other"]), "NOT_FOUND", f"{GPU} has no device other"),
                (
                    kubelet.preferred(GPU, [name], [], 2),
                    "INVALID_ARGUMENT",
                    f"{GPU}: 2 devices, 0 of them set, cannot be taken from 1",
                ),
                (kubelet.call(GPU, "Allocate", b"\xff"), "INVALID_ARGUMENT", f"{GPU}: not such a request"),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await request
                assert (error.value.code().name, error.value.details()) == (status, said)
            assert stage.plugin.servers[GPU].allocations == {"unknown": 1}

    Stage(tmp_path).run(play)


def test_a_kubelet_that_hangs_up_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            before = stage.plugin.servers[GPU].offer
            names = [*stage.gpus]
            calls = [asyncio.ensure_future(kubelet.allocate(GPU, names)) for _ in range(20)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            # Some bytes, and then nothing.
            _, writer = await asyncio.open_unix_connection(stage.plugin.servers[GPU].path)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0")
            writer.close()
            assert stage.plugin.servers[GPU].offer is before
            answer = await kubelet.allocate(GPU, names)
            assert len(answer.container_responses) == 1
            assert kubelet.devices[GPU] == stage.announced()

    Stage(tmp_path).run(play)


def test_an_error_of_a_gpu_makes_it_unhealthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr(surveyor_module, "load", lambda: nvml)
    stage = Stage(tmp_path, nvml=True)
    nvml.gpus = [FakeGpu(f"0000{name}", f"GPU-{number}", number) for number, name in enumerate(stage.gpus)]

    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: len(kubelet.devices.get(GPU, {})) == 4)
            nvml.events.append((nvml.gpus[2], 79, NO_INSTANCE))
            await until(lambda: not kubelet.devices[GPU]["GPU-2"][0])
            assert [healthy for healthy, _ in kubelet.devices[GPU].values()] == [True, True, False, True]
            nvml.broken = "GPU is lost"
            await until(lambda: stage.plugin.troubles.current.get("driver") is not None)
            assert len(kubelet.devices[GPU]) == 4, "what is announced stays"
            nvml.broken = ""
            await until(lambda: not stage.plugin.troubles.current)
            assert not kubelet.devices[GPU]["GPU-2"][0], "that time has passed is no repair"
            nvml.gpus[2].action = 1
            await until(lambda: any(stage.plugin._faults.values()))
            assert not kubelet.devices[GPU]["GPU-2"][0]
            nvml.gpus[2].action = 0
            await until(lambda: kubelet.devices[GPU]["GPU-2"][0])
            assert not stage.plugin._faults

    stage.run(play)


def test_metrics_say_what_is_announced_and_what_is_wrong(tmp_path: Path) -> None:
    async def play(stage: Stage) -> None:
        registry = registry_of(stage.plugin)

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(f"numaware_device_plugin_{name}", labels)

        await until(lambda: value("trouble", source="registration", cause="no-kubelet") == 1)
        assert value("registered", resource=GPU) == 0
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            await until(lambda: value("registered", resource=GPU) == 1)
            assert value("devices", resource=GPU, numa="1", health="healthy") == 2
            assert value("devices", resource=NIC, numa="1", health="healthy") == 2
            assert value("registrations_total", resource=GPU) == 1
            await kubelet.allocate(NIC, [next(iter(kubelet.devices[NIC]))])
            assert value("allocations_total", resource=NIC, outcome="answered") == 1
            number = stage.functions / next(iter(stage.gpus)) / "numa_node"
            number.write_text("-1\n")
            await until(lambda: value("devices", resource=GPU, numa="", health="healthy") == 1)

    Stage(tmp_path).run(play)


@pytest.mark.parametrize("fail", [True, False])
def test_gpus_that_are_not_there_end_it_or_are_waited_for_as_the_flag_says(
    tmp_path: Path, fail: bool
) -> None:
    text = f"{{flags: {{failOnInitError: {str(fail).lower()}}}, resources: [{{name: {GPU}, gpus: {{vendor: nvidia}}}}]}}"
    stage = Stage(tmp_path, read(text.encode(), "p"))
    links = {name: (stage.functions / name).readlink() for name in stage.gpus}
    for name in links:
        (stage.functions / name).unlink()

    async def play(stage: Stage) -> None:
        async with FakeDeviceManager(stage.folder) as kubelet:
            assert "driver" in stage.plugin.troubles.current
            for name, place in links.items():
                (stage.functions / name).symlink_to(place)
            await until(lambda: kubelet.devices.get(GPU) == stage.announced())
            assert "driver" not in stage.plugin.troubles.current

    if fail:
        with pytest.raises(InputError, match="GPUs: this node has no GPU of NVIDIA"):
            stage.run(play)
        assert not list(stage.folder.iterdir()), "nothing is half-applied"
    else:
        stage.run(play)


def test_a_folder_that_is_not_there_is_told_before_anything_happens(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.folder.rmdir()
    with pytest.raises(InputError, match="there is no such folder"):
        asyncio.run(run_plugin(stage.options))


def test_the_program_answers_prometheus_and_takes_its_sockets_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(tmp_path)

    async def main() -> None:
        running = asyncio.create_task(
            run_plugin(msgspec.structs.replace(stage.options, listen="127.0.0.1:0"))
        )
        async with FakeDeviceManager(stage.folder) as kubelet:
            await until(lambda: {GPU, NIC} <= kubelet.devices.keys())
            said = capsys.readouterr().out
            address = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert address, said
            text = await asyncio.to_thread(_fetch, f"{address[0]}/metrics")
            assert (
                'numaware_device_plugin_devices{health="healthy",numa="0",resource="nvidia.com/gpu"} 2.0'
                in text
            )
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert [path.name for path in stage.folder.glob("numaware*")] == []

    asyncio.run(main())


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own address
        data: bytes = answer.read()
    return data.decode()
