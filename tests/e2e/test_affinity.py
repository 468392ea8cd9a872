"""Talking pods on a real container runtime: counted in real network namespaces, moved through NRI, and given back.

The machine has two CPUs, which the agent is shown as two NUMA nodes; what the kernel lets processes use is real.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.loop_thread import LoopThread
from e2e.program import Program, eventually
from e2e.real_containerd import RealContainerd
from numaware.machine import synthetic
from numaware.node import podresources_pb2 as wire
from numaware.node.nri import nri_pb2 as nri_wire
from numaware.node.nri import ttrpc
from numaware.node.nri import ttrpc_pb2 as ttrpc_wire
from numaware.node.nri.plugin import Changes, CpusAndMems, Plugin, RunningContainer, Sandbox
from numaware.node.nri.ttrpc import CallError
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.source import PodNetwork
from support import made_sysfs
from support.fake_podresources import FakePodResources

pytestmark = pytest.mark.e2e

SUITES = {"1.7": "trixie", "2.x": "forky"}
# Five megabytes a second, and a hundredth of a thousandth of that.
TALK = "while true; do dd if=/dev/zero bs=64k count=80 2>/dev/null; sleep 1; done | nc {address} 5000"
WHISPER = "while true; do echo one kilobyte at most; sleep 1; done | nc {address} 5001"
LISTEN = (
    "for port in 5000 5001; do while true; do sleep 100000 | nc -l -p $port >/dev/null; done & done; wait"
)


class Kubelet(LoopThread):
    """Nobody holds CPUs of his own; a stand-in, as there is no kubelet in these tests."""

    def __init__(self, socket: Path) -> None:
        super().__init__("podresources")
        self._socket = socket

    async def _live(self) -> None:
        async with FakePodResources(self._socket) as fake:
            fake.say(wire.ListPodResourcesResponse(), wire.AllocatableResourcesResponse())
            await self._until_stopped()


@pytest.fixture(scope="module", params=SUITES)
def containerd(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealContainerd]:
    with RealContainerd(tmp_path_factory.mktemp("containerd"), SUITES[request.param]) as runtime:
        yield runtime


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="numaware") as folder:
        yield Path(folder)


@pytest.fixture
def agent(
    request: pytest.FixtureRequest, tmp_path: Path, short_folder: Path, containerd: RealContainerd
) -> Iterator[Program]:
    """`numaware agent --affinity nri` on the node as it is, but for its two NUMA nodes; not started yet."""
    mode = getattr(request, "param", "nri")
    root = tmp_path / "root"
    made_sysfs.write(root, synthetic.read("2s x 1n x 1c x 1t mem=1Gi"))
    (root / "sys/fs/cgroup").mkdir(parents=True)
    # A socket's path may not be as long as those of tests are.
    kubelet = short_folder / "pod-resources"
    kubelet.mkdir()
    mounts = f"mount --rbind /sys/fs/cgroup {root}/sys/fs/cgroup && mount --rbind /proc {root}/proc"
    numaware = (
        f"{sys.executable} -m numaware agent --node here --root {root} --kubelet-root {short_folder} "
        "--no-publish --listen 127.0.0.1:0 "
        f"--affinity {mode} --affinity-period 0.5 --nri-socket {containerd.nri} --affinity-folder {tmp_path}/state"
    )
    with Kubelet(kubelet / "kubelet.sock"):
        program = Program(
            "numaware-agent", ["unshare", "-m", "sh", "-c", f"{mounts} && exec {numaware}"], tmp_path / "log"
        )
        yield program
        program.stop()


def add_pod(containerd: RealContainerd, root: Path, name: str, *command: str) -> tuple[str, str]:
    uid = str(uuid.uuid4())
    (root / f"var/log/pods/default_{name}_{uid}").mkdir(parents=True)
    pod = containerd.run_pod(name, *command, uid=uid)
    # Nothing is requested, which a kubelet says in this way.
    Path(f"/sys/fs/cgroup/cpu/kubepods/burstable/pod{uid}/cpu.shares").write_text("2")
    return pod


def insisting(command: str, address: str) -> str:
    """Again, should nobody listen yet."""
    return f"while true; do {command.format(address=address)}; sleep 1; done"


def affinity(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "numaware",
        "affinity",
        *arguments,
        "--status",
        f"{folder}/state/affinity.json",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_talking_pods_come_together_and_get_back_what_they_had(
    tmp_path: Path, containerd: RealContainerd, agent: Program
) -> None:
    root = tmp_path / "root"
    server_sandbox, server = add_pod(containerd, root, "server", "sh", "-c", LISTEN)
    address = containerd.last_address
    client_sandbox, client = add_pod(containerd, root, "client", "sh", "-c", insisting(TALK, address))
    quiet_sandbox, quiet = add_pod(containerd, root, "quiet", "sh", "-c", insisting(WHISPER, address))
    assert containerd.allowed(server)[0] == containerd.allowed(client)[0] == "0-1"

    agent.start()
    eventually(
        lambda: containerd.allowed(server)[0] == containerd.allowed(client)[0] != "0-1",
        "both are on one NUMA node",
        90,
        alive=agent,
    )
    assert containerd.allowed(quiet)[0] == "0-1"
    eventually(lambda: not affinity(tmp_path, "verify").returncode, "all processes are where they should be")

    def the_plan_is_to_stay() -> bool:
        shown = json.loads(affinity(tmp_path, "plan", "--json").stdout)
        answers = {pod["pod"]: pod["answer"] for pod in shown["pods"]}
        assert answers["default/quiet"] == "silent"
        return {answers["default/server"], answers["default/client"]} == {"cooling-down"}

    eventually(the_plan_is_to_stay, "the plan is to stay")

    # As a kubelet does when its pool changes: of the new pool, what is on its NUMA node.
    home = containerd.allowed(server)[0]
    containerd.update(server, "0-1")
    assert containerd.allowed(server)[0] == home

    # Killed, it could give back nothing; the next one does, and begins anew.
    agent.kill()
    assert containerd.allowed(server)[0] == home
    agent.start()
    eventually(lambda: containerd.allowed(server)[0] == "0-1", "it has back what it had", alive=agent)
    # Both pods, twice: a runtime that is killed before it has answered leaves the agent in doubt, and it gives back.
    eventually(lambda: agent.log.read_text().count("] moved ") == 4, "both were moved again", 90, alive=agent)
    assert containerd.allowed(server)[0] != "0-1"

    # The runtime goes and comes, and finds it where it was.
    containerd.kill()
    containerd.start()
    eventually(
        lambda: agent.log.read_text().count("has told what runs") == 3, "the runtime is back", alive=agent
    )
    assert containerd.allowed(server)[0] != "0-1"
    agent.stop()
    assert containerd.allowed(server)[0] == containerd.allowed(client)[0] == "0-1"
    for sandbox in (server_sandbox, client_sandbox, quiet_sandbox):
        containerd.remove_pod(sandbox)


@pytest.mark.parametrize(("containerd", "agent"), [("1.7", "cgroup")], indirect=True)
def test_without_nri_they_come_together_in_control_groups_and_get_back_what_they_had(
    tmp_path: Path, containerd: RealContainerd, agent: Program
) -> None:
    root = tmp_path / "root"
    sandbox, server = add_pod(containerd, root, "server", "sh", "-c", LISTEN)
    other, client = add_pod(containerd, root, "client", "sh", "-c", insisting(TALK, containerd.last_address))

    def together() -> bool:
        return containerd.allowed(server)[0] == containerd.allowed(client)[0] != "0-1"

    agent.start()
    eventually(together, "both are on one NUMA node", 90, alive=agent)
    eventually(lambda: not affinity(tmp_path, "verify").returncode, "all processes are where they should be")
    # A kubelet is answered at the next look.
    containerd.update(server, "0-1")
    eventually(together, "it is back on its NUMA node", alive=agent)
    agent.kill()
    assert together()
    agent.start()
    eventually(lambda: not together(), "the next agent has given back what they had", alive=agent)
    eventually(together, "both were moved again", 90, alive=agent)
    agent.stop()
    assert containerd.allowed(server)[0] == containerd.allowed(client)[0] == "0-1"
    for one in (sandbox, other):
        containerd.remove_pod(one)


class Guest:
    """Puts every container that is made onto the second CPU; what it does not know it leaves."""

    def __init__(self) -> None:
        self.broken = False
        self.awake = threading.Event()
        self.awake.set()
        self.known: set[str] = set()

    def synchronized(self, _: list[Sandbox], containers: list[RunningContainer]) -> Changes:
        self.known |= {container.id for container in containers}
        return {}

    def created(self, _: Sandbox, container: RunningContainer) -> CpusAndMems | None:
        self.known.add(container.id)
        self.awake.wait(60)
        if self.broken:
            raise RuntimeError("broken on purpose")
        return CpusAndMems("1", "0")

    def updated(self, _: Sandbox, __: RunningContainer, ___: CpusAndMems) -> CpusAndMems | None:
        return None

    def removed(self, _: str, container: str) -> None:
        self.known.discard(container)


def test_the_wire_holds_with_a_real_runtime(containerd: RealContainerd) -> None:
    """Adjust at creation, 500 updates at once, a handler that breaks or takes too long, frames at the limit, pods that go."""

    # Another try finds pods of this one where it ended early.
    tag = uuid.uuid4().hex[:8]

    async def go() -> None:
        guest = Guest()
        plugin = Plugin(guest)
        running = asyncio.create_task(plugin.run(str(containerd.nri)))
        async with asyncio.timeout(30):
            await plugin.synchronized.wait()
        assert plugin.runtime.startswith("containerd")
        sandbox, container = await asyncio.to_thread(containerd.run_pod, f"adjusted-{tag}")
        assert containerd.allowed(container)[0] == "1"
        wanted = {f"unknown-{number}": CpusAndMems("0") for number in range(499)}
        assert await plugin.update({**wanted, container: CpusAndMems("0")}) == ()
        assert containerd.allowed(container)[0] == "0"
        guest.broken = True
        other, unharmed = await asyncio.to_thread(containerd.run_pod, f"unharmed-{tag}")
        assert containerd.allowed(unharmed)[0] == "0-1"
        assert {container, unharmed} <= guest.known
        guest.broken = False
        guest.awake.clear()
        late, unwaited = await asyncio.to_thread(containerd.run_pod, f"late-{tag}")
        guest.awake.set()
        assert containerd.allowed(unwaited)[0] == "0-1"
        # The runtime has not dropped it for that, nor for a call that is as long as allowed.
        await plugin.update({"x" * _longest_name(): CpusAndMems("0")})
        with pytest.raises(CallError, match="1044470 are allowed"):
            await plugin.update({"x" * (_longest_name() + 1): CpusAndMems("0")})
        assert await plugin.update({container: CpusAndMems("1")}) == ()
        assert containerd.allowed(container)[0] == "1"
        for one in (sandbox, other, late):
            await asyncio.to_thread(containerd.remove_pod, one)
        assert not {container, unharmed} & guest.known
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(go())


def _longest_name() -> int:
    """Of a container, so that the call that updates it is just as long as calls may be."""

    def size(name: int) -> int:
        update = nri_wire.ContainerUpdate(container_id="x" * name)
        update.linux.resources.cpu.cpus = "0"
        payload = nri_wire.UpdateContainersRequest(update=[update]).SerializeToString()
        call = ttrpc_wire.Request(
            service="nri.pkg.api.v1alpha1.Runtime",
            method="UpdateContainers",
            payload=payload,
            timeout_nano=60_000_000_000,
        )
        return call.ByteSize()

    roughly = ttrpc.LONGEST_SENT - 1000
    return roughly + ttrpc.LONGEST_SENT - size(roughly)


@pytest.fixture
def two_namespaces() -> Iterator[list[PodNetwork]]:
    names = [f"numaware-{place}-{threading.get_native_id()}" for place in "ab"]
    for name in names:
        subprocess.run(["ip", "netns", "add", name], check=True)
    commands = [
        [
            "ip",
            "-n",
            names[0],
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            names[1],
        ]
    ]
    for number, name in enumerate(names, 1):
        commands.append(["ip", "-n", name, "address", "add", f"10.98.7.{number}/24", "dev", "eth0"])
        commands.append(["ip", "-n", name, "link", "set", "eth0", "up"])
    for command in commands:
        subprocess.run(command, check=True)
    paths = [f"/run/netns/{name}" for name in names]
    yield [PodNetwork(uid, Path(path).stat().st_ino, path) for uid, path in zip("ab", paths, strict=True)]
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=True)


SERVER = """
import socket, threading
def answer(client):
    while client.recv(1 << 16):
        pass
    client.sendall(b"x" * 500)
    client.close()
server = socket.create_server(("10.98.7.2", 5000), backlog=1024)
print("ready", flush=True)
while True:
    threading.Thread(target=answer, args=(server.accept()[0],)).start()
"""
CLIENT = """
import socket, sys
connections, size = int(sys.argv[1]), int(sys.argv[2])
for _ in range(connections):
    client = socket.create_connection(("10.98.7.2", 5000))
    client.sendall(b"y" * size)
    client.shutdown(socket.SHUT_WR)
    while client.recv(1000):
        pass
"""


@pytest.mark.parametrize(("connections", "size"), [(1, 5_000_000), (1000, 2000)])
def test_bytes_between_namespaces_are_counted(
    two_namespaces: list[PodNetwork], connections: int, size: int
) -> None:
    client, server = (pod.path.removeprefix("/run/netns/") for pod in two_namespaces)
    collector = Collector()
    assert collector.collect(two_namespaces).bytes == {}
    with subprocess.Popen(
        ["ip", "netns", "exec", server, sys.executable, "-c", SERVER], stdout=subprocess.PIPE
    ) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        command = ["ip", "netns", "exec", client, sys.executable, "-c", CLIENT, str(connections), str(size)]
        subprocess.run(command, check=True)
        said = connections * (size + 500)
        counted: list[int] = []

        def all_is_counted() -> bool:
            period = collector.collect(two_namespaces)
            assert not period.unread
            assert not period.lost
            counted.append(period.bytes.get(("a", "b"), 0))
            return sum(counted) >= said

        eventually(all_is_counted, "what was said is counted")
        serving.kill()
    collector.close()
    sys.stdout.write(f"\n{said} bytes said over {connections} connections, {sum(counted)} counted")
    assert abs(sum(counted) - said) * 100 <= said
