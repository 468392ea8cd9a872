"""A node without a kubelet: its machine, its kubelet's files and answers, and its pods, all from one twin.

What stands on the disk and what the fake services say is what a kubelet in that state would have written and said.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from kube.fake_api_server import FakeApiServer
from numaware.kube.pods import decode as decode_pod
from numaware.kube.resources import NODES, PODS
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine
from numaware.node import podresources_pb2 as wire
from numaware.node.kubelet_files import KubeletFiles
from numaware.twin import kubelet_config
from numaware.twin.files import state_files
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Node
from support import made_sysfs
from support.fake_podresources import FakePodResources

NAME = "n1"
VERSION = "v1.35.8"
NODE_UID = "11111111-2222-3333-4444-555555555555"


class MadeNode:
    """The node below `root`; `devices` is resource -> id -> NUMA nodes."""

    def __init__(
        self,
        root: Path,
        machine: Machine,
        config: dict[str, Any],
        devices: dict[str, dict[str, tuple[int, ...]]] | None = None,
    ) -> None:
        self.root = made_sysfs.write(root, machine)
        self.files = KubeletFiles(root / "var/lib/kubelet", root / "var/lib/kubelet/config.yaml")
        self.devices = devices or {}
        for folder in (self.files.root, self.files.plugins_folder, self.files.podresources.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self.machine = machine
        self.configure(config)

    def configure(self, config: dict[str, Any]) -> None:
        """Another configuration; the node is empty again."""
        data = json.dumps(
            {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **config}
        ).encode()
        assert self.files.config is not None
        self.files.config.write_bytes(data)
        found = kubelet_config.read(data, "config", VERSION).config
        resources = [plugin_resource(name, members) for name, members in sorted(self.devices.items())]
        self.node = Node.fresh(hardware_of(self.machine, resources), found)

    def admit(self, server: FakeApiServer, name: str, **amounts: str) -> str:
        """A pod that runs, as everybody sees it from now on; its uid."""
        wanted = {key.replace("_", "/"): amount for key, amount in amounts.items()}
        made = server.put(
            PODS,
            name,
            "work",
            spec={
                "nodeName": NAME,
                "containers": [{"name": "main", "resources": {"requests": wanted, "limits": wanted}}],
            },
            status={"phase": "Running"},
        )
        pod = decode_pod(msgspec.json.encode(made)).pod
        verdict = self.node.admit(pod)
        assert verdict.admitted, verdict.message
        self.node = verdict.node
        return pod.uid

    def register(self, server: FakeApiServer) -> None:
        """The Node object that a kubelet makes."""
        server.put(NODES, NAME, status={"nodeInfo": {"kubeletVersion": VERSION}})

    def write(self) -> None:
        """The state files, each renamed over the old one."""
        for name, text in state_files(self.node.kubelet, self.node.state).items():
            folder = self.files.plugins_folder if "checkpoint" in name else self.files.root
            draft = folder / f".{name}"
            draft.write_text(text, encoding="utf-8")
            draft.rename(folder / name)

    def tell(self, service: FakePodResources) -> None:
        """What PodResources says now."""
        kubelet, state = self.node.kubelet, self.node.state
        pods = []
        for uid, pod in state.pods.items():
            containers = []
            for container in pod.containers:
                held = state.device.owned.get(uid, {}).get(container.name, {})
                cpus = CpuSet.from_mask(state.cpu.owned.get(uid, {}).get(container.name, 0))
                blocks = state.memory.blocks.get(uid, {}).get(container.name, ())
                containers.append(
                    wire.ContainerResources(
                        name=container.name,
                        cpu_ids=list(cpus),
                        devices=[
                            device
                            for resource, mask in held.items()
                            for device in self._devices(resource, CpuSet.from_mask(mask))
                        ],
                        memory=[
                            wire.ContainerMemory(
                                memory_type=block.kind,
                                size=block.size,
                                topology=_on(kubelet.layout.node_ids(block.nodes)),
                            )
                            for block in blocks
                        ],
                    )
                )
            pods.append(wire.PodResources(namespace=pod.namespace, name=pod.name, containers=containers))
        reserved = kubelet.cpus.reserved if kubelet.cpus else 0
        free = CpuSet.from_mask(kubelet.layout.all_cpus & ~reserved)
        everything = [
            device
            for resource, members in self.devices.items()
            for device in self._devices(resource, CpuSet(range(len(members))))
        ]
        service.say(
            wire.ListPodResourcesResponse(pod_resources=pods),
            wire.AllocatableResourcesResponse(cpu_ids=list(free) if kubelet.cpus else [], devices=everything),
        )

    def _devices(self, resource: str, places: CpuSet) -> list[wire.ContainerDevices]:
        inventory = self.node.kubelet.devices.inventories[resource]
        return [
            wire.ContainerDevices(
                resource_name=resource,
                device_ids=[inventory.ids[place]],
                topology=_on(self.node.kubelet.layout.node_ids(inventory.nodes[place])),
            )
            for place in places
        ]


def _on(nodes: tuple[int, ...]) -> wire.TopologyInfo:
    return wire.TopologyInfo(nodes=[wire.NUMANode(ID=node) for node in nodes])
