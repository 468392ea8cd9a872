"""A node as JSON and back: its machine, its kubelet's configuration, and what the kubelet's managers have handed out.

Whoever writes a node down does it with these values: the agent in the attributes it publishes (`kube/topology`), the
console in its history, a failed prediction in its file (`schedule/miss.py`), and recorded sessions (`recording.py`, whose
machine has a shape given from outside). Machine and state are the twin's own values as msgspec writes them, because they
are written and read by the thousand: CPUs and devices are short arrays, sets are integers with a bit for each member. The
configuration goes by the names of KubeletConfiguration and leaves nothing out, so that a default that changes in a later
release does not change what was written before.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.machine.cpuset import list_form
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.config import Amounts, KubeletConfig, MemoryReservation, Options
from numaware.twin.cpu.static import CpuState
from numaware.twin.device.manager import DeviceState, Owned, taken_of
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import Kubelet
from numaware.twin.memory.state import Block, MemoryState, NodeMemory
from numaware.twin.node import NodeState
from numaware.workload.pod import Pod

_INT64, _UINT64 = 1 << 63, 1 << 64
_HARDWARE = msgspec.json.Decoder(Hardware)


def encode_hardware(hardware: Hardware) -> str:
    """A machine as text; equal machines give equal bytes."""
    return msgspec.json.encode(hardware).decode()


def decode_hardware(text: str) -> Hardware:
    """The machine of a text; `start` judges whether it can exist."""
    return _HARDWARE.decode(text)


# The configuration


class ReservationText(msgspec.Struct, frozen=True, rename="camel"):
    """What the system keeps of one NUMA node's memory."""

    numa_node: int
    limits: dict[str, str] = {}


class ConfigText(msgspec.Struct, frozen=True, rename="camel"):
    """A kubelet's settings by the names of KubeletConfiguration.

    Everything may be left out but is always written. Recorded sessions were made without `version` and `featureGates`,
    which their readers add.
    """

    version: str = ""
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: dict[str, str] = {}
    cpu_manager_policy: str = "none"
    cpu_manager_policy_options: dict[str, str] = {}
    memory_manager_policy: str = "None"
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    reserved_system_cpus: str | None = msgspec.field(name="reservedSystemCPUs", default=None)
    reserved_memory: tuple[ReservationText, ...] = ()
    feature_gates: dict[str, bool] | None = None

    @classmethod
    def of(cls, config: KubeletConfig) -> ConfigText:
        """The text of a configuration."""
        return cls(
            config.version,
            config.topology_policy,
            config.topology_scope,
            dict(config.topology_options),
            config.cpu_policy,
            dict(config.cpu_options),
            config.memory_policy,
            _texts(config.kube_reserved),
            _texts(config.system_reserved),
            dict(config.eviction_hard),
            config.reserved_cpus,
            tuple(ReservationText(entry.numa_node, _texts(entry.limits)) for entry in config.reserved_memory),
            dict(config.feature_gates),
        )

    def configuration(self, version: str = "", gates: Mapping[str, bool] | None = None) -> KubeletConfig:
        """The configuration, with `version` and `gates` where the text has none; `ValueError` for what is no amount."""
        if not (self.version or version):
            raise ValueError("the kubelet's version is missing")
        gates = self.feature_gates if self.feature_gates is not None else gates or {}
        return KubeletConfig(
            version=self.version or version,
            topology_policy=self.topology_manager_policy,
            topology_scope=self.topology_manager_scope,
            topology_options=_pairs(self.topology_manager_policy_options),
            cpu_policy=self.cpu_manager_policy,
            cpu_options=_pairs(self.cpu_manager_policy_options),
            memory_policy=self.memory_manager_policy,
            kube_reserved=amounts_of(self.kube_reserved),
            system_reserved=amounts_of(self.system_reserved),
            eviction_hard=_pairs(self.eviction_hard),
            reserved_cpus=self.reserved_system_cpus,
            reserved_memory=tuple(
                MemoryReservation(entry.numa_node, amounts_of(entry.limits)) for entry in self.reserved_memory
            ),
            feature_gates=tuple(sorted(gates.items())),
        )


def amounts_of(amounts: Mapping[str, str]) -> Amounts:
    """Amounts by name, sorted; none may be negative."""
    quantities = tuple((name, Quantity.parse(text)) for name, text in sorted(amounts.items()))
    for name, quantity in quantities:
        if quantity.nano < 0:
            raise ValueError(f"{printable(name, 80)} is {quantity}, and no amount may be negative")
    return quantities


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in amounts}


def _pairs(options: Mapping[str, str]) -> Options:
    return tuple(sorted(options.items()))


# The state


class EncodedState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the managers remember; the pods themselves are kept by whoever writes the state down.

    `file` is None where the device file says what `devices` says, in that order. What the pod last served may use again
    is there only right after an admission.
    """

    cpu: CpuState
    memory: tuple[NodeMemory, ...] = ()
    blocks: dict[str, dict[str, tuple[Block, ...]]] = {}
    memory_reuse: tuple[str, tuple[tuple[int, str, int], ...]] | None = None
    devices: Owned = {}
    file: Owned | None = None
    device_reuse: tuple[str, dict[str, int]] | None = None
    memory_haunted: bool = False
    memory_pods: dict[str, tuple[Block, ...]] = {}

    @classmethod
    def of(cls, state: NodeState) -> EncodedState:
        """The managers' part of a state."""
        memory, device = state.memory, state.device
        (memory_uid, blocks), (device_uid, devices) = memory.reuse, device.reuse
        return cls(
            state.cpu,
            memory.nodes,
            memory.blocks,
            (memory_uid, tuple((nodes, kind, size) for (nodes, kind), size in blocks.items()))
            if memory_uid
            else None,
            device.owned,
            # The order in which pods came is part of both.
            None if list(device.file.items()) == list(device.owned.items()) else device.file,
            (device_uid, dict(devices)) if device_uid else None,
            memory.haunted,
            memory.pods,
        )

    def state(self, pods: dict[str, Pod]) -> NodeState:
        """The state of a node with these pods on it."""
        memory, device = MemoryState(self.memory, self.blocks, pods=self.memory_pods), self.devices
        if self.memory_reuse is not None:
            uid, again = self.memory_reuse
            memory = MemoryState(
                self.memory,
                self.blocks,
                (uid, {(nodes, kind): size for nodes, kind, size in again}),
                self.memory_haunted,
                self.memory_pods,
            )
        held = DeviceState(device, device if self.file is None else self.file, taken_of(device))
        if self.device_reuse is not None:
            held = msgspec.structs.replace(held, reuse=self.device_reuse)
        return NodeState(self.cpu, memory, held, pods)

    def check(self, kubelet: Kubelet) -> None:
        """`ValueError` for what cannot be the state of that kubelet: for states that strangers wrote."""
        self._check_cpus(kubelet)
        self._check_memory(kubelet)
        again = {"": {"": self.device_reuse[1]}} if self.device_reuse else {}
        for owned in (self.devices, self.file or {}, again):
            for containers in owned.values():
                for resources in containers.values():
                    for name, mask in resources.items():
                        inventory = kubelet.devices.inventories.get(name)
                        if inventory is None or mask < 0 or mask >> len(inventory.ids):
                            raise ValueError(f"a device of {printable(name, 80)} is not of this machine")

    def _check_cpus(self, kubelet: Kubelet) -> None:
        shared, taken = self.cpu.shared, 0
        for containers in self.cpu.owned.values():
            for mask in containers.values():
                taken |= mask
        for mask in self.cpu.pods.values():
            taken |= mask
        every = shared | taken | self.cpu.reuse[1]
        if kubelet.cpus is None and every:
            raise ValueError("CPUs are handed out although there is no CPU manager")
        if every & ~kubelet.layout.all_cpus:
            strange = every & ~kubelet.layout.all_cpus
            raise ValueError(f"CPUs {list_form(strange) if strange > 0 else strange} are not of this machine")
        if shared & taken:
            raise ValueError(f"CPUs {list_form(shared & taken)} are shared and owned at once")

    def _check_memory(self, kubelet: Kubelet) -> None:
        manager, full = kubelet.memory, kubelet.layout.full
        kinds = manager.kinds if manager else ()
        if len(self.memory) != (len(kubelet.layout.ids) if manager else 0):
            raise ValueError("memory is not listed for each NUMA node")
        for part in self.memory:
            if len(part.free) != len(kinds) or not all(0 <= size < _UINT64 for size in part.free):
                raise ValueError("free memory is not listed for each kind")
            if not 0 <= part.assignments < _INT64 or not 0 < part.cells <= full:
                raise ValueError("a NUMA node's memory belongs to no group")
        again = tuple(Block(*block) for block in self.memory_reuse[1]) if self.memory_reuse else ()
        for containers in (*self.blocks.values(), self.memory_pods, {"": again}):
            for blocks in containers.values():
                for block in blocks:
                    if block.kind not in kinds:
                        raise ValueError(
                            f"a container holds {printable(block.kind, 80)}, which no manager hands out"
                        )
                    if not 0 <= block.size < _UINT64 or not 0 < block.nodes <= full:
                        raise ValueError(
                            f"a container holds {block.size} bytes on NUMA nodes that this machine does not have"
                        )
