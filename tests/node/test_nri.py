"""The NRI plug-in before a runtime that is made here; the real ones are in the end-to-end tests."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.node.nri import nri_pb2 as wire
from numaware.node.nri import ttrpc
from numaware.node.nri.mux import Mux, WireError
from numaware.node.nri.plugin import Changes, CpusAndMems, Plugin, RunningContainer, Sandbox
from numaware.node.nri.ttrpc import CallError
from support.fake_nri_runtime import FakeNriRuntime, container_of, fake_nri_runtime, pod_of


class Guest:
    """A resident that remembers what it was told and answers as the test says."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.answer: CpusAndMems | None = None
        self.changes: Changes = {}
        self.broken = False
        self.slow = threading.Event()
        self.slow.set()

    def synchronized(self, sandboxes: list[Sandbox], containers: list[RunningContainer]) -> Changes:
        self.told.append((len(sandboxes), len(containers)))
        return self.changes

    def created(self, sandbox: Sandbox, container: RunningContainer) -> CpusAndMems | None:
        self.told.append((sandbox, container))
        return self._answer()

    def updated(
        self, sandbox: Sandbox, container: RunningContainer, wanted: CpusAndMems
    ) -> CpusAndMems | None:
        self.told.append((sandbox.id, container.id, wanted))
        return self._answer()

    def removed(self, sandbox: str, container: str) -> None:
        self.told.append((sandbox, container))

    def _answer(self) -> CpusAndMems | None:
        self.slow.wait(20)
        if self.broken:
            raise RuntimeError("broken on purpose")
        return self.answer


Look = Callable[[FakeNriRuntime, Plugin, Guest], Awaitable[None]]


def before_a_runtime(folder: Path, look: Look) -> None:
    async def go() -> None:
        guest = Guest()
        plugin = Plugin(guest)
        async with fake_nri_runtime(folder / "nri.sock") as runtime:
            running = asyncio.create_task(plugin.run(str(folder / "nri.sock")))
            try:
                await look(runtime, plugin, guest)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())


def event(number: int = 0) -> bytes:
    return wire.ContainerEvent(pod=pod_of(number), container=container_of(number)).SerializeToString()


def test_it_registers_and_hears_of_all_that_runs(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, plugin: Plugin, guest: Guest) -> None:
        guest.changes = {"c1": CpusAndMems("0-3", "0")}
        answer = await runtime.start_plugin(pods=7, parts=3)
        assert runtime.registered == [("numaware", "90")]
        assert guest.told == [(7, 7)]
        assert plugin.synchronized.is_set()
        assert [update.container_id for update in answer.update] == ["c1"]
        assert answer.update[0].linux.resources.cpu.cpus == "0-3"

    before_a_runtime(tmp_path, look)


def test_a_container_is_adjusted_while_it_is_made(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, _: Plugin, guest: Guest) -> None:
        await runtime.start_plugin()
        assert wire.CreateContainerResponse.FromString(await runtime.call("CreateContainer", event())) == (
            wire.CreateContainerResponse()
        )
        guest.answer = CpusAndMems("4-7", "1")
        made = wire.CreateContainerResponse.FromString(await runtime.call("CreateContainer", event()))
        assert (made.adjust.linux.resources.cpu.cpus, made.adjust.linux.resources.cpu.mems) == ("4-7", "1")
        sandbox = Sandbox("s0", "u0", "default", "p0", "/run/netns/0")
        assert guest.told[-1] == (sandbox, RunningContainer("c0", "s0", "main"))

    before_a_runtime(tmp_path, look)


def test_the_kubelets_own_update_is_answered(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, _: Plugin, guest: Guest) -> None:
        await runtime.start_plugin()
        guest.answer = CpusAndMems("4-5")
        request = wire.UpdateContainerRequest(pod=pod_of(3), container=container_of(3))
        request.linux_resources.cpu.cpus = "0-5"
        answered = await runtime.call("UpdateContainer", request.SerializeToString())
        assert guest.told[-1] == ("s3", "c3", CpusAndMems("0-5"))
        (update,) = wire.UpdateContainerResponse.FromString(answered).update
        assert (update.container_id, update.linux.resources.cpu.cpus) == ("c3", "4-5")

    before_a_runtime(tmp_path, look)


@pytest.mark.parametrize("generation", ["one call for all", "a call for each"])
def test_both_generations_tell_who_is_gone(tmp_path: Path, generation: str) -> None:
    async def look(runtime: FakeNriRuntime, _: Plugin, guest: Guest) -> None:
        await runtime.start_plugin()
        if generation == "a call for each":
            await runtime.call("RunPodSandbox", wire.PodEvent(pod=pod_of(1)).SerializeToString())
            await runtime.call("StartContainer", event(1))
            await runtime.call("RemoveContainer", event(1))
            await runtime.call("RemovePodSandbox", wire.PodEvent(pod=pod_of(1)).SerializeToString())
        else:
            for number, container in ((1, False), (6, True), (11, True), (3, False)):
                change = wire.StateChangeEvent(event=number, pod=pod_of(1))
                if container:
                    change.container.CopyFrom(container_of(1))
                await runtime.call("StateChange", change.SerializeToString())
        assert guest.told[1:] == [("s1", "c1"), ("s1", "")]

    before_a_runtime(tmp_path, look)


def test_what_it_does_not_know_is_said_to_be_unknown(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, _: Plugin, __: Guest) -> None:
        await runtime.start_plugin()
        with pytest.raises(CallError) as caught:
            await runtime.call("ValidateContainerAdjustment", b"")
        assert caught.value.code == 12

    before_a_runtime(tmp_path, look)


def test_a_handler_that_breaks_breaks_nobodys_container(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, plugin: Plugin, guest: Guest) -> None:
        await runtime.start_plugin()
        guest.broken = True
        assert await runtime.call("CreateContainer", event()) == b""
        assert await runtime.call("CreateContainer", b"\xff\xff not a message") == b""
        assert plugin.counts["CreateContainer", "failed"] == 2

    before_a_runtime(tmp_path, look)


def test_a_handler_that_takes_too_long_holds_up_nobodys_container(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, plugin: Plugin, guest: Guest) -> None:
        await runtime.start_plugin(patience_ms=40)
        guest.answer = CpusAndMems("4-7")
        guest.slow.clear()
        assert await runtime.call("CreateContainer", event(1)) == b""
        assert await runtime.call("CreateContainer", event(2)) == b""
        assert plugin.counts["CreateContainer", "failed"] == 2
        guest.slow.set()
        # It was not dropped, and goes on.
        made = wire.CreateContainerResponse.FromString(await answered(runtime))
        assert made.adjust.linux.resources.cpu.cpus == "4-7"
        # What waited its turn when nobody waited for the answer any more was told all the same.
        parts = [part for one in guest.told if isinstance(one, tuple) for part in one]
        assert {part.id for part in parts if isinstance(part, RunningContainer)} == {"c1", "c2", "c3"}

    async def answered(runtime: FakeNriRuntime) -> bytes:
        while not (answer := await runtime.call("CreateContainer", event(3))):  # noqa: ASYNC110 - ends with it
            await asyncio.sleep(0.01)
        return answer

    before_a_runtime(tmp_path, look)


@pytest.mark.parametrize("version", ["", "v0.12.0"])
def test_a_memory_policy_is_asked_for_where_the_runtime_knows_such(tmp_path: Path, version: str) -> None:
    async def look(runtime: FakeNriRuntime, _: Plugin, guest: Guest) -> None:
        await runtime.start_plugin(version=version)
        guest.answer = CpusAndMems("4-7", preferred="1")
        made = wire.CreateContainerResponse.FromString(await runtime.call("CreateContainer", event()))
        policy = made.adjust.linux.memory_policy
        assert (policy.mode, policy.nodes) == ((1, "1") if version else (0, ""))
        assert made.adjust.linux.resources.cpu.mems == ""

    before_a_runtime(tmp_path, look)


def test_running_containers_are_changed_and_failures_named(tmp_path: Path) -> None:
    async def look(runtime: FakeNriRuntime, plugin: Plugin, _: Guest) -> None:
        with pytest.raises(WireError):
            await plugin.update({"c1": CpusAndMems("0")})
        await runtime.start_plugin()
        runtime.failing = {"c77"}
        failed = await plugin.update({f"c{number}": CpusAndMems("0-1") for number in range(1200)})
        assert failed == ("c77",)
        assert len(runtime.updates) == 1200

    before_a_runtime(tmp_path, look)


def test_a_runtime_that_goes_is_noticed(tmp_path: Path) -> None:
    async def go() -> None:
        plugin = Plugin(Guest())
        async with fake_nri_runtime(tmp_path / "nri.sock") as runtime:
            running = asyncio.create_task(plugin.run(str(tmp_path / "nri.sock")))
            await runtime.start_plugin()
            assert runtime.writer is not None
            runtime.writer.close()
            with pytest.raises(WireError):
                await running
        assert not plugin.synchronized.is_set()

    asyncio.run(go())


def test_no_frame_that_is_sent_is_larger_than_the_other_side_takes(tmp_path: Path) -> None:
    async def go() -> None:
        sizes: list[int] = []
        done = asyncio.Event()

        async def measure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while sum(sizes) < 1_000_000:
                _, size = struct.unpack(">LL", await reader.readexactly(8))
                await reader.readexactly(size)
                sizes.append(size)
            writer.close()
            done.set()

        async with fake_nri_runtime(tmp_path / "s", measure):
            reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
            await Mux(reader, writer).write(2, bytes(1_000_000))
            await done.wait()
            writer.close()
        assert max(sizes) == 4096

    asyncio.run(go())


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (struct.pack(">LL", 1, (4 << 20) + 11), "a frame of"),
        (struct.pack(">LLLLBB", 1, 10, (4 << 20) + 1, 1, 1, 0), "a message of"),
    ],
)
def test_what_is_longer_than_allowed_ends_the_connection(tmp_path: Path, sent: bytes, complaint: str) -> None:
    async def go() -> None:
        async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(sent)
            await writer.drain()
            writer.close()

        async with fake_nri_runtime(tmp_path / "s", send):
            with pytest.raises(WireError, match=complaint):
                await Plugin(Guest()).run(str(tmp_path / "s"))

    asyncio.run(go())


def test_a_call_of_ours_has_no_more_pieces_than_a_slow_runtime_keeps(tmp_path: Path) -> None:
    """The Go side has room for 256 pieces of 4 KiB, and drops the connection at one more."""

    async def look(runtime: FakeNriRuntime, plugin: Plugin, _: Guest) -> None:
        await runtime.start_plugin()
        pieces = -(-(ttrpc.LONGEST_SENT + 10) // 4096)
        assert pieces < 256
        with pytest.raises(CallError, match="1044470 are allowed"):
            await plugin.update({"x" * ttrpc.LONGEST_SENT: CpusAndMems("0")})

    before_a_runtime(tmp_path, look)


def test_a_message_as_long_as_allowed_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Runtimes send more in a call than we do.
    monkeypatch.setattr(ttrpc, "LONGEST_SENT", ttrpc.LONGEST_RECEIVED)

    async def look(runtime: FakeNriRuntime, _: Plugin, guest: Guest) -> None:
        await runtime.start_plugin()
        request = wire.CreateContainerRequest(pod=pod_of(1), container=container_of(1))
        request.pod.annotations["much"] = "x" * (ttrpc.LONGEST_RECEIVED - 1000)
        assert await runtime.call("CreateContainer", request.SerializeToString()) == b""
        assert len(guest.told) == 2

    before_a_runtime(tmp_path, look)


@given(st.binary(max_size=200))
def test_noise_never_raises_anything_but_a_wire_error(noise: bytes) -> None:
    async def go() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(noise)
        reader.feed_eof()
        mux = Mux(reader, None)  # type: ignore[arg-type] # nothing is written
        mux.open(1)
        with suppress(WireError):
            await mux.run()
        # Whatever of it looked like messages, the end comes as an end.
        with pytest.raises(WireError):
            await asyncio.gather(*(ttrpc._frame(mux, 1) for _ in noise), mux.read(1, len(noise) + 1))

    asyncio.run(go())


@given(st.binary(max_size=200))
def test_noise_in_a_call_is_answered(noise: bytes) -> None:
    plugin = Plugin(Guest())
    for method in (
        "Configure",
        "Synchronize",
        "CreateContainer",
        "UpdateContainer",
        "StateChange",
        "Nothing",
    ):
        answer = asyncio.run(plugin._answer("nri.pkg.api.v1alpha1.Plugin", method, noise))
        assert (answer is None) == (method == "Nothing")
