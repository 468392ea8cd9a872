"""Connection tracking as a source of talk, on the real kernel: a router between two pods, as a node is, with a Service's address.

Each of the three has a network namespace of its own; rules of nftables make the router track and count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.program import eventually
from numaware.node.traffic.conntrack import Conntrack
from numaware.node.traffic.source import PodNetwork

pytestmark = pytest.mark.e2e

# The Service's address leads to the server, as kube-proxy would have it.
RULES = """
table ip numaware {
  chain service { type nat hook prerouting priority dstnat; ip daddr 10.96.7.1 dnat to 10.98.2.2; }
  chain track { type filter hook forward priority filter; ct state new counter; }
}
"""
SERVER = """
import socket, threading
def tcp(client):
    while client.recv(1 << 16):
        pass
    client.close()
def listen():
    listener = socket.create_server(("10.98.2.2", 5000), backlog=1024)
    while True:
        threading.Thread(target=tcp, args=(listener.accept()[0],)).start()
threading.Thread(target=listen, daemon=True).start()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("10.98.2.2", 5000))
print("ready", flush=True)
while True:
    udp.recv(1 << 16)
"""
TCP = """
import socket
for _ in range(100):
    client = socket.create_connection(("10.96.7.1", 5000))
    client.sendall(b"y" * 20_000)
    client.close()
"""
UDP = """
import socket, time
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect(("10.96.7.1", 5000))
for _ in range(1000):
    client.send(b"y" * 1000)
    time.sleep(0.0005)
"""


class Namespaces:
    """`a` and `b` are pods, `node` is between them."""

    def __init__(self) -> None:
        tag = f"{os.getpid()}-{threading.get_native_id()}"
        self.names = {role: f"numaware-{role}-{tag}" for role in ("a", "b", "node")}

    def run(self, role: str, *command: str, **more: object) -> None:
        arguments = ["ip", "netns", "exec", self.names[role], *command]
        subprocess.run(arguments, check=True, **more)  # type: ignore[call-overload] # as the callers say

    def tell_node(self, setting: str, value: str) -> None:
        self.run("node", "sh", "-c", f"echo {value} >/proc/sys/{setting}")

    def make(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
        for number, pod in enumerate("ab", 1):
            far = ["peer", "name", pod, "netns", self.names["node"]]
            self.run(pod, "ip", "link", "add", "eth0", "type", "veth", *far)
            self.run(pod, "ip", "address", "add", f"10.98.{number}.2/24", "dev", "eth0")
            self.run(pod, "ip", "link", "set", "dev", "eth0", "up")
            self.run("node", "ip", "address", "add", f"10.98.{number}.1/24", "dev", pod)
            self.run("node", "ip", "link", "set", "dev", pod, "up")
            self.run(pod, "ip", "route", "add", "default", "via", f"10.98.{number}.1")
        self.tell_node("net/ipv4/ip_forward", "1")
        self.run("node", "nft", "-f", "-", input=RULES, text=True)

    def remove(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    made = Namespaces()
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture
def sleepers(namespaces: Namespaces) -> Iterator[dict[str, int]]:
    """A process in each, whose folder in /proc leads to its namespace."""
    running = {
        role: subprocess.Popen(["ip", "netns", "exec", name, "sleep", "1000"])
        for role, name in namespaces.names.items()
    }
    yield {role: process.pid for role, process in running.items()}
    for process in running.values():
        process.kill()
        process.wait()


def pods_of(sleepers: dict[str, int]) -> list[PodNetwork]:
    paths = {role: Path(f"/proc/{sleepers[role]}/ns/net") for role in "ab"}
    own = Path("/proc/self/ns/net").stat().st_ino
    eventually(lambda: all(path.stat().st_ino != own for path in paths.values()), "each is in its namespace")
    return [PodNetwork(role, path.stat().st_ino, str(path)) for role, path in paths.items()]


def node_of(folder: Path, process: int) -> str:
    """A root whose first process is this one."""
    (folder / "proc").mkdir()
    (folder / "proc/1").symlink_to(f"/proc/{process}")
    return str(folder)


@pytest.mark.parametrize(("client", "said"), [(TCP, 2_000_000), (UDP, 1_000_000)], ids=["tcp", "udp"])
def test_talk_through_a_service_is_counted(
    tmp_path: Path, namespaces: Namespaces, sleepers: dict[str, int], client: str, said: int
) -> None:
    namespaces.tell_node("net/netfilter/nf_conntrack_acct", "1")
    pods = pods_of(sleepers)
    source = Conntrack(node_of(tmp_path, sleepers["node"]))
    assert source.collect(pods).bytes == {}
    server = ["ip", "netns", "exec", namespaces.names["b"], sys.executable, "-c", SERVER]
    with subprocess.Popen(server, stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        namespaces.run("a", sys.executable, "-c", client)
        counted: list[int] = []

        def all_is_counted() -> bool:
            period = source.collect(pods)
            assert not period.unread
            counted.append(period.bytes.get(("a", "b"), 0))
            return sum(counted) >= said

        eventually(all_is_counted, "what was said is counted")
        serving.kill()
    source.close()
    # Headers of packets count, and what is sent back only to say that all has come.
    assert said <= sum(counted) <= said * 115 // 100
    sys.stdout.write(f"\n{said} bytes said, {sum(counted)} counted with headers")


def test_a_table_that_counts_no_bytes_names_the_setting(
    tmp_path: Path, namespaces: Namespaces, sleepers: dict[str, int]
) -> None:
    namespaces.tell_node("net/netfilter/nf_conntrack_acct", "0")
    pods = pods_of(sleepers)
    source = Conntrack(node_of(tmp_path, sleepers["node"]))
    source.collect(pods)
    server = ["ip", "netns", "exec", namespaces.names["b"], sys.executable, "-c", SERVER]
    with subprocess.Popen(server, stdout=subprocess.PIPE) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        namespaces.run("a", sys.executable, "-c", UDP)
        serving.kill()
    counted = source.collect(pods)
    source.close()
    (problem,) = counted.unread.values()
    assert "sysctl -w net.netfilter.nf_conntrack_acct=1" in problem
    assert counted.bytes == {}
