"""A real kubelet and the twin side by side: the same pods, step by step, and everything both say about them compared."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from e2e.control_plane import assets
from e2e.program import eventually
from e2e.real_kubelet import RELEASE, RealKubelet
from numaware.machine.cpuset import CpuSet, list_form
from numaware.node.podresources import ContainerHoldings, PodHoldings, PodResources
from numaware.twin import kubelet_config
from numaware.twin.files import devices_by_node, state_files
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Merge, Node, Verdict
from numaware.workload import manifest
from numaware.workload.pod import Pod

# What the kubelet of these tests is, in the folder that it lies in.
VERSION = f"v{assets(RELEASE).name.rpartition('-v')[2]}" if RELEASE else "v1.35.8"
# A kubelet of v1.36 that makes no control groups for pods, as these do not, crashes when a container of a pod starts after another one.
STARTS_LATER = not VERSION.startswith("v1.36.")
Amounts = Mapping[str, str]


def container(name: str, amounts: Amounts, *, limits: Amounts | None = None, **more: Any) -> dict[str, Any]:
    """A container that asks for these amounts; other limits make the pod Burstable."""
    return {
        "name": name,
        "image": "none:1",
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": dict(amounts), "limits": dict(amounts if limits is None else limits)},
        **more,
    }


def pod(name: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": list(containers),
            "terminationGracePeriodSeconds": 1,
            **({"initContainers": list(init)} if init else {}),
        },
    }


def twin_of(kubelet: RealKubelet) -> Node:
    """The twin of the kubelet on which nothing runs, from what the agent would read: sysfs, configuration, plugins."""
    found = kubelet_config.read(kubelet.config_file.read_bytes(), "config.yaml", VERSION)
    assert not found.refused, found.problems
    resources = [
        replace(plugin_resource(plugin.resource, plugin.devices), prefers=plugin.prefers)
        for plugin in kubelet.plugins
    ]
    return Node.fresh(hardware_of(kubelet.machine(), resources), found.config)


class SideBySide:
    """Pods are static ones: the kubelet has them the moment their file is there, and lets go when it is gone."""

    def __init__(self, kubelet: RealKubelet) -> None:
        self.kubelet = kubelet
        self.fresh = twin_of(kubelet)
        self.node = self.fresh
        # Pod name -> uid, of those that both run.
        self.running: dict[str, str] = {}
        self.steps = 0

    def wait_for_devices(self) -> None:
        wanted = {plugin.resource: len(plugin.devices) for plugin in self.kubelet.plugins}

        def known() -> bool:
            told = self._ask(lambda service: service.allocatable())
            counts: Counter[str] = Counter()
            for entry in told.devices if told else ():
                counts[entry.resource] += len(entry.ids)
            return dict(counts) == wanted

        eventually(known, "the kubelet knows all devices", alive=self.kubelet.program)

    def add(self, body: dict[str, Any]) -> Verdict:
        """Give the pod to both, and hold the kubelet to the twin's verdict."""
        self.steps += 1
        name = f"{body['metadata']['name']}-{self.kubelet.name}"
        draft = self.kubelet.folder / "draft.json"
        draft.write_text(json.dumps(body), encoding="utf-8")
        draft.rename(self.kubelet.manifests / f"{body['metadata']['name']}.json")
        found = self._verdict(name)
        uid = found["metadata"]["uid"]
        (workload,) = manifest.read(json.dumps(body).encode(), "pod").workloads
        asked = replace(workload.pod, name=name, uid=uid)
        merges: list[Merge] = []
        verdict = self.node.admit(asked, merges.append)
        status = found["status"]
        refused = status.get("phase") == "Failed"
        assert (not refused, status.get("reason", "") if refused else "") == (
            verdict.admitted,
            verdict.reason,
        ), f"{status.get('message')} / the twin: {verdict.message}\n{json.dumps(body)}\n{self.describe()}"
        self.node = verdict.node
        if verdict.admitted:
            self.running[name] = uid
            self._adopt_devices(asked, merges)
            if asked.init_containers:
                self._wait_for_start(name)
                self.node = self.node.start_containers(uid)
            self.compare()
        else:
            self._drop_file(name)
        return verdict

    def remove(self, name: str) -> None:
        """Take the pod away from both."""
        uid = self.running.pop(name)
        self._drop_file(name)
        self.node = self.node.release(uid)

    def restart(self) -> None:
        """Start the kubelet anew and hold it to what the twin makes of its own state files and pods."""
        self.kubelet.stop()
        self.kubelet.start()
        self.wait_for_devices()
        found = self.node.restart()
        told = dict(found.verdicts)
        for name, uid in list(self.running.items()):
            status = self._verdict(name)["status"]
            refused = status.get("phase") == "Failed"
            assert refused != told[uid].admitted, f"{name}: {status.get('message')}\n{self.describe()}"
            if refused:
                del self.running[name]
                self._drop_file(name)
        self.node = found.node
        # What refused pods had been given goes back with the next pod that comes: before, a kubelet that has just started does
        # not know which pods are gone, and its memory manager looks round at no other time.
        next_one = pod(f"after-{self.steps}", container("app", {}))
        self.add(next_one)
        self.remove(f"{next_one['metadata']['name']}-{self.kubelet.name}")

    def clear(self) -> None:
        for name in list(self.running):
            self.remove(name)
        self.node = self.fresh

    def compare(self) -> None:
        """The kubelet's state files, byte for byte in what they mean, and what PodResources says of each container."""
        ours = state_files(self.node.kubelet, self.node.state)
        for name in ("cpu_manager_state", "memory_manager_state"):
            expected, found = _settled(json.loads(ours[name])), _settled(self.kubelet.state(name))
            assert found == expected, f"{name}\nkubelet: {found}\ntwin:    {expected}\n{self.describe()}"
        told = {one.name: one for one in self._ask(lambda service: service.pods())}
        assert told.keys() == self.running.keys()
        for name, uid in self.running.items():
            self._compare_pod(told[name], self.node.state.pods[uid])

    def _compare_pod(self, told: PodHoldings, ours: Pod) -> None:
        state, kubelet = self.node.state, self.node.kubelet
        listed = [one.name for one in ours.in_order if one in ours.containers or one.restartable]
        assert sorted(one.name for one in told.containers) == sorted(listed)
        for one in told.containers:
            cpus = state.cpu.owned.get(ours.uid, {}).get(one.name, 0)
            assert one.cpus == CpuSet.from_mask(cpus), (
                f"{told.name}/{one.name}: {one.cpus} / {list_form(cpus)}"
            )
            held = state.device.owned.get(ours.uid, {}).get(one.name, {})
            expected = {
                resource: {node: len(ids) for node, ids in devices_by_node(kubelet, resource, mask).items()}
                for resource, mask in held.items()
            }
            counts = _device_counts(one)
            assert counts == expected, f"{told.name}/{one.name}: {counts} / {expected}\n{self.describe()}"
            blocks = state.memory.blocks.get(ours.uid, {}).get(one.name, ())
            assert sorted((entry.kind, entry.nodes, entry.size) for entry in one.memory) == sorted(
                (block.kind, kubelet.layout.node_ids(block.nodes), block.size) for block in blocks
            )

    def _adopt_devices(self, asked: Pod, merges: list[Merge]) -> None:
        """Take over which devices the kubelet chose, where it rolls dice.

        It takes them as Go's maps come. The NUMA node is certain if the hint names one and all devices of a resource lie
        on one node each or on none; what a later container takes over from an init container is not.
        """
        if not self.kubelet.plugins:
            return
        kubelet, state = self.node.kubelet, self.node.state
        entries = self.kubelet.state("kubelet_internal_checkpoint")["Data"]["PodDeviceEntries"] or []
        chosen: dict[str, dict[str, int]] = {}
        for entry in entries:
            if entry["PodUID"] == asked.uid:
                ids = {one for listed in entry["DeviceIDs"].values() for one in listed}
                inventory = kubelet.devices.inventories[entry["ResourceName"]]
                mask = sum(1 << place for place, one in enumerate(inventory.ids) if one in ids)
                chosen.setdefault(entry["ContainerName"], {})[entry["ResourceName"]] = mask
        ours = state.device.owned.get(asked.uid, {})
        ours = {
            name: held
            for name, found in ours.items()
            if (held := {key: got for key, got in found.items() if got})
        }
        hints = {merge.container: merge.best.mask for merge in merges}
        for name in sorted(chosen.keys() | ours.keys()):
            theirs, mine = chosen.get(name, {}), ours.get(name, {})
            assert {key: held.bit_count() for key, held in theirs.items()} == {
                key: held.bit_count() for key, held in mine.items()
            }, f"{asked.name}/{name}: {theirs} / {mine}\n{self.describe()}"
            hint = hints.get(None, hints.get(name))
            if hint is not None and hint.bit_count() == 1 and not asked.init_containers:
                for key, mask in theirs.items():
                    assert {node: len(ids) for node, ids in devices_by_node(kubelet, key, mask).items()} == {
                        node: len(ids) for node, ids in devices_by_node(kubelet, key, mine[key]).items()
                    }, f"{asked.name}/{name}\n{self.describe()}"
        if chosen != ours:
            owned = {**state.device.owned, asked.uid: chosen}
            taken: dict[str, int] = {}
            for containers in owned.values():
                for held_by in containers.values():
                    for key, mask in held_by.items():
                        taken[key] = taken.get(key, 0) | mask
            device = replace(
                state.device, owned=owned, file={**state.device.file, asked.uid: chosen}, taken=taken
            )
            self.node = Node(kubelet, replace(state, device=device))

    def describe(self) -> str:
        """All that is needed to see it again."""
        config = self.kubelet.config_file.read_text(encoding="utf-8")
        return f"step {self.steps}, running {sorted(self.running)}\n{config}\n{self.kubelet.program.tail()}"

    def _verdict(self, name: str) -> dict[str, Any]:
        """The pod, once the kubelet has said yes or no to it."""
        return eventually(
            lambda: self._judged(name), f"the kubelet has judged {name}", alive=self.kubelet.program
        )

    def _judged(self, name: str) -> dict[str, Any] | None:
        found = self.kubelet.pods().get(name)
        status = (found or {}).get("status", {})
        return found if status.get("phase") == "Failed" or status.get("startTime") else None

    def _wait_for_start(self, name: str) -> None:
        def running() -> bool:
            statuses = self.kubelet.pods()[name]["status"].get("containerStatuses") or []
            return bool(statuses) and all("running" in one["state"] for one in statuses)

        eventually(running, f"{name} runs", alive=self.kubelet.program)

    def _drop_file(self, name: str) -> None:
        (self.kubelet.manifests / f"{name.removesuffix('-' + self.kubelet.name)}.json").unlink()
        eventually(lambda: name not in self.kubelet.pods(), f"{name} is gone", alive=self.kubelet.program)

    def _ask(self, what: Any) -> Any:
        async def ask() -> Any:
            async with PodResources(self.kubelet.podresources) as service:
                return await what(service)

        return asyncio.run(ask())


def _settled(state: dict[str, Any]) -> dict[str, Any]:
    """A state file without what is left to chance: the order of a container's blocks, and the checksum over it."""
    for containers in state.get("entries", {}).values() if "machineState" in state else ():
        for blocks in containers.values():
            if len(blocks) > 1:
                blocks.sort(key=lambda block: str(block["type"]))
                state["checksum"] = None
                # The same as text, where the release writes it.
                for wrapping in ("data", "dataChecksum"):
                    state.pop(wrapping, None)
    return state


def _device_counts(one: ContainerHoldings) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = {}
    for entry in one.devices:
        for node in entry.nodes or (-1,):
            by_node = counts.setdefault(entry.resource, {})
            by_node[node] = by_node.get(node, 0) + len(entry.ids)
    return counts
