"""A real containerd with NRI, in folders of its own, asked for pods as a kubelet asks.

Containers are a busybox from an image that is made here. A small network plug-in joins the pods through a bridge in a network
namespace of its own; it is fake in that nothing else can be reached through it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

wire: Any = grpc.protos("e2e/protos/cri_client.proto")

ROOT = Path(__file__).parents[2]
IMAGE = "example.org/sleeper:1"
_APPLETS = tuple(f"bin/{name}" for name in ("dd", "nc", "sh", "sleep"))
# What keeps a pod's namespaces is called so on every node; it waits without a child.
_PAUSE = b"#!/bin/sh\nread nothing </wait\n"
_NETWORK = {"cniVersion": "0.4.0", "name": "talk", "type": "talk"}
# Called by containerd for each pod; the last number of a pod's address is counted in a file.
_NETWORK_PLUGIN = """#!/bin/sh
set -e
cat >/dev/null
pod=$(basename "$CNI_NETNS")
case $CNI_COMMAND in
VERSION) echo '{{"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}}' ;;
ADD)
  exec 9>>{folder}/addresses
  flock 9
  echo "$pod" >&9
  number=$(($(wc -l <{folder}/addresses) + 1))
  ip -n {switch} link add "v$number" type veth peer name "$CNI_IFNAME" netns "$pod"
  ip -n {switch} link set "v$number" master bridge up
  ip -n "$pod" address add "{network}.$number/24" dev "$CNI_IFNAME"
  ip -n "$pod" link set "$CNI_IFNAME" up
  echo '{{"cniVersion": "0.4.0", "ips": [{{"version": "4", "address": "{network}.'$number'/24"}}]}}'
  ;;
esac
"""
# containerd wants one for the loopback device of each pod, too.
_LOOPBACK_PLUGIN = """#!/bin/sh
set -e
version=$(sed -n 's/.*"cniVersion": *"\\([0-9.]*\\)".*/\\1/p')
case $CNI_COMMAND in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0"]}' ;;
ADD)
  ip -n "$(basename "$CNI_NETNS")" link set lo up
  echo '{"cniVersion": "'$version'", "ips": [{"version": "4", "address": "127.0.0.1/8"}]}'
  ;;
esac
"""
_CONFIG = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  enable_unprivileged_ports = false
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni/bin"
    conf_dir = "{folder}/cni/conf"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  plugin_config_path = "{folder}/nri/conf"
  plugin_path = "{folder}/nri/plugins"
  socket_path = "{folder}/nri.sock"
"""


class RealContainerd:
    """The runtime of a Debian release (`trixie` has 1.7, `forky` 2.x), with all it keeps under a folder."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.folder = folder
        self._programs = Path(
            subprocess.run(
                [ROOT / "scripts/containerd", suite], check=True, capture_output=True, text=True
            ).stdout.strip()
        )
        self.nri = folder / "nri.sock"
        self._socket = folder / "containerd.sock"
        self._numbers = itertools.count(1)
        self._switch = f"numaware-{os.getpid()}"
        self._sandboxes: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.toml").write_text(_CONFIG.format(folder=self.folder, image=IMAGE))
        self._make_network()
        self._channel = grpc.insecure_channel(f"unix://{self._socket}")
        self.start()
        archive = self.folder / "image.tar"
        archive.write_bytes(_image())
        self.ctr("images", "import", str(archive))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sandbox in reversed(self._sandboxes):
            self._call("StopPodSandbox", wire.Id(id=sandbox), wire.Empty)
            self._call("RemovePodSandbox", wire.Id(id=sandbox), wire.Empty)
        self._channel.close()
        self.stop()
        subprocess.run(["ip", "netns", "del", self._switch], check=True)
        # Mounts of containers that a test left would keep the folder.
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            mounted = line.split()[1]
            if mounted.startswith(str(self.folder)):
                subprocess.run(["umount", "-l", mounted], check=False)

    def start(self) -> None:
        """Start it and wait until it answers."""
        environment = {**os.environ, "PATH": f"{self._programs / 'usr/bin'}:{os.environ['PATH']}"}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._programs / "usr/bin/containerd",
                    "--config",
                    self.folder / "config.toml",
                    "--log-level",
                    "info",
                ],
                env=environment,
                stdout=log,
                stderr=log,
            )
        wait_until(self._answers, "containerd answers", 60)

    def stop(self) -> None:
        """Stop it; its containers go on."""
        self._process.terminate()
        self._process.wait(20)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)

    def run_pod(self, name: str, *command: str, cpus: str = "", uid: str = "") -> tuple[str, str]:
        """A pod with one container that runs a command of busybox, or sleeps; the ids of sandbox and container."""
        uid = uid or f"uid-{name}"
        metadata = wire.SandboxMetadata(name=name, uid=uid, namespace="default")
        config = wire.SandboxConfig(metadata=metadata, hostname=name, log_directory=str(self.folder))
        config.linux.cgroup_parent = f"/kubepods/burstable/pod{uid}"
        sandbox: str = self._call("RunPodSandbox", wire.RunPodSandboxRequest(config=config), wire.Id).id
        self._sandboxes[sandbox] = config
        return sandbox, self.add_container(sandbox, *command, cpus=cpus)

    def add_container(self, sandbox: str, *command: str, cpus: str = "") -> str:
        """One more in a pod; its id."""
        config = self._sandboxes[sandbox]
        container = wire.ContainerConfig(
            metadata=wire.ContainerMetadata(name=f"c{next(self._numbers)}"),
            image=wire.ImageSpec(image=IMAGE),
            command=["/bin/busybox", *(command or ("sleep", "100000"))],
        )
        container.linux.resources.cpuset_cpus = cpus
        request = wire.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        made: str = self._call("CreateContainer", request, wire.Id).id
        self._call("StartContainer", wire.Id(id=made), wire.Empty)
        return made

    @property
    def last_address(self) -> str:
        """Of the pod that was made last."""
        return f"10.99.7.{len((self.folder / 'addresses').read_text().splitlines()) + 1}"

    def update(self, container: str, cpus: str) -> None:
        """As the kubelet's CPU Manager does it."""
        resources = wire.Resources(cpuset_cpus=cpus)
        self._call(
            "UpdateContainerResources",
            wire.UpdateResourcesRequest(container_id=container, linux=resources),
            wire.Empty,
        )

    def remove_pod(self, sandbox: str) -> None:
        """Stop and remove a pod."""
        del self._sandboxes[sandbox]
        self._call("StopPodSandbox", wire.Id(id=sandbox), wire.Empty)
        self._call("RemovePodSandbox", wire.Id(id=sandbox), wire.Empty)

    def pid(self, container: str) -> int:
        """The process of a container."""
        request = wire.StatusRequest(container_id=container, verbose=True)
        info = json.loads(self._call("ContainerStatus", request, wire.StatusResponse).info["info"])
        return int(info["pid"])

    def allowed(self, container: str) -> tuple[str, str]:
        """The CPUs and memory nodes that the kernel lets its process have."""
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{self.pid(container)}/status").read_text().splitlines()
            if ":\t" in line
        )
        return status["Cpus_allowed_list"], status["Mems_allowed_list"]

    def _make_network(self) -> None:
        for command in (
            ("netns", "add", self._switch),
            ("-n", self._switch, "link", "add", "bridge", "type", "bridge"),
            ("-n", self._switch, "link", "set", "bridge", "up"),
        ):
            subprocess.run(["ip", *command], check=True)
        plugins = self.folder / "cni/bin"
        plugins.mkdir(parents=True)
        talk = _NETWORK_PLUGIN.format(folder=self.folder, switch=self._switch, network="10.99.7")
        for name, text in (("talk", talk), ("loopback", _LOOPBACK_PLUGIN)):
            (plugins / name).write_text(text)
            (plugins / name).chmod(0o755)
        (self.folder / "cni/conf").mkdir()
        (self.folder / "cni/conf/10-talk.conf").write_text(json.dumps(_NETWORK))

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()[-3000:]
        try:
            self._call("Status", wire.Empty(), wire.Empty)
        except grpc.RpcError:
            return False
        return self.nri.exists()

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=60)

    def ctr_command(self, *arguments: str) -> list[str]:
        """The command line of containerd's own client."""
        program = self._programs / "usr/bin/ctr"
        return [str(program), "--address", str(self._socket), "--namespace", "k8s.io", *arguments]

    def ctr(self, *arguments: str) -> None:
        """Ask containerd by its own client."""
        done = subprocess.run(self.ctr_command(*arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    """Wait for a state; the test fails where it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(0.05)


def _image() -> bytes:
    """A busybox as `docker save` would write it."""
    program = shutil.which("busybox")
    assert program is not None, "busybox-static is needed"
    files = {"bin/busybox": Path(program).read_bytes(), "pause": _PAUSE, "wait": None}
    layer = _tar(files, links=dict.fromkeys(_APPLETS, "busybox"))
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    return _tar({"config.json": config, "layer.tar": layer, "manifest.json": json.dumps(manifest).encode()})


def _tar(files: Mapping[str, bytes | None], links: Mapping[str, str] | None = None) -> bytes:
    """Files and links; a file without content is a pipe."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if data is None:
                member.type = tarfile.FIFOTYPE
            else:
                member.size = len(data)
            archive.addfile(member, io.BytesIO(data or b""))
    return packed.getvalue()
