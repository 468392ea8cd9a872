"""From a discovered machine to what its kubelet would know of it.

The kubelet counts online CPUs only and learns of devices from plugins. Where no plugin can be asked, the GPUs found on
the PCI bus stand for what the vendors' plugins announce: one device per GPU, on the NUMA node of its PCI function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaware.errors import InputError
from numaware.machine.codec import page_size_name
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine, PciDevice
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin.hardware import CpuPlace, Hardware, LastCache, NumaHardware, PluginDevice, PluginResource
from numaware.twin.links import links_between
from numaware.twin.state.device import DeviceCheckpoint

# The resource under which each vendor's plugin offers whole GPUs (PCI vendor id -> resource).
_GPU_RESOURCES = {"10de": "nvidia.com/gpu", "1002": "amd.com/gpu", "8086": "gpu.intel.com/i915"}
_DISPLAY_CLASS = "03"


def hardware_of(machine: Machine, resources: Sequence[PluginResource] | None = None) -> Hardware:
    """The kubelet's view; `resources` replaces the guess from PCI. ValueError if the source says too little."""
    online = machine.online
    uncore = _uncore_caches(machine, _threads_of_nodes(machine, online))
    places: dict[int, list[CpuPlace]] = {node.id: [] for node in machine.numa}
    for cpu in machine.cpus:
        if not cpu.online:
            continue
        if cpu.numa not in places:
            raise ValueError(f"CPU {cpu.id} is on no known NUMA node")
        if not cpu.siblings and cpu.core is None:
            raise ValueError(f"the core of CPU {cpu.id} is not known; sysfs, hwloc and lscpu -e tell cores")
        core = (cpu.siblings & online).first() if cpu.siblings else cpu.core
        places[cpu.numa].append(CpuPlace(cpu.id, core or 0, cpu.package or 0, uncore.get(cpu.id)))
    if not any(places.values()):
        raise ValueError("no online CPU is known; the source does not say what is on which NUMA node")
    nodes = tuple(
        NumaHardware(
            node.id,
            tuple(places[node.id]),
            node.memory_bytes or 0,
            tuple(
                sorted(
                    (f"hugepages-{page_size_name(pool.size_bytes)}", pool.size_bytes * pool.total)
                    for pool in node.hugepages
                )
            ),
            tuple(distance for _, distance in node.distances),
        )
        for node in machine.numa
    )
    offered = tuple(gpu_resources(machine) if resources is None else resources)
    return Hardware(nodes, offered, links_between(machine, offered), _last_caches(machine, online))


def gpu_resources(machine: Machine) -> list[PluginResource]:
    """The GPUs of a machine as their vendors' plugins would announce them; display adapters of a BMC are not among them."""
    gpus: dict[str, list[PciDevice]] = {}
    for device in machine.pci:
        resource = _GPU_RESOURCES.get(device.vendor)
        # A GPU for computing is a 3D controller, or a VGA adapter of a vendor that makes GPUs only.
        if resource and device.class_code.startswith(_DISPLAY_CLASS) and _computes(device):
            gpus.setdefault(resource, []).append(device)
    return [
        plugin_resource(
            name, {device.address: () if device.numa is None else (device.numa,) for device in devices}
        )
        for name, devices in sorted(gpus.items())
    ]


def plugin_resource(name: str, devices: Mapping[str, tuple[int, ...]]) -> PluginResource:
    """A resource from device ids and the NUMA nodes of each."""
    return PluginResource(
        name, tuple(PluginDevice(device, nodes) for device, nodes in sorted(devices.items()))
    )


def _computes(device: PciDevice) -> bool:
    return device.virtual_function_of is None and (
        device.vendor != "8086" or device.class_code.startswith("0380")
    )


def _uncore_caches(machine: Machine, threads: Mapping[int, int]) -> dict[int, int]:
    """CPU -> number of the cache beyond L2 that it has with some others, as cAdvisor reports it; none reported, none here.

    `threads` is how many CPUs the NUMA node of a CPU would have if all its cores were like that CPU's.
    """
    shared: dict[int, CpuSet] = {}
    for cache in sorted(machine.caches, key=lambda cache: cache.level):
        if cache.level > 2 and cache.type != "Instruction":
            for cpu in cache.cpus:
                # KUBELET: cAdvisor takes one with as many CPUs as the NUMA node for the node's own, and does not tell of it.
                if len(cache.cpus) != threads.get(cpu):
                    shared.setdefault(cpu, cache.cpus)
    groups = sorted(set(shared.values()), key=lambda cpus: cpus.mask & -cpus.mask)
    numbers = {cpus: number for number, cpus in enumerate(groups)}
    return {cpu: numbers[cpus] for cpu, cpus in shared.items()}


def _last_caches(machine: Machine, online: CpuSet) -> tuple[LastCache, ...]:
    """The caches of the last level, if that is beyond L2, by their lowest CPU."""
    known = [cache for cache in machine.caches if cache.level > 2 and cache.type != "Instruction"]
    last = max((cache.level for cache in known), default=0)
    sizes = {cache.cpus & online: cache.size_bytes or 0 for cache in known if cache.level == last}
    return tuple(
        LastCache(cpus.mask, size)
        for cpus, size in sorted(sizes.items(), key=lambda pair: pair[0].mask & -pair[0].mask)
        if cpus
    )


def _threads_of_nodes(machine: Machine, online: CpuSet) -> dict[int, int]:
    cores: dict[int | None, set[CpuSet]] = {}
    siblings = {cpu.id: cpu.siblings & online or CpuSet((cpu.id,)) for cpu in machine.cpus if cpu.online}
    for cpu in machine.cpus:
        if cpu.online:
            cores.setdefault(cpu.numa, set()).add(siblings[cpu.id])
    return {
        cpu.id: len(cores[cpu.numa]) * len(siblings[cpu.id]) for cpu in machine.cpus if cpu.id in siblings
    }


def registered_resources(
    machine: Machine, checkpoint: DeviceCheckpoint, listed: Sequence[PluginResource] = ()
) -> tuple[list[PluginResource], list[Sentence]]:
    """The resources a kubelet's device file lists, and what had to be assumed about them.

    The file tells the NUMA node of devices that are in use only. Of free ones, those that are called by their PCI address
    are found in the machine. Free GPUs are dealt to the nodes where the machine has GPUs left; which is which does not
    matter to any verdict. Where that does not work out, no device of the resource is taken to have a NUMA node: half of
    them without one would be refused by the Topology Manager for no reason. `listed` is what a person says of a resource
    (`--devices`): it takes the place of the machine, and the ids of the file are joined to it.
    """
    notes: list[Sentence] = []
    resources = []
    by_hand = {resource.name: resource for resource in listed}
    guesses = {resource.name: resource for resource in gpu_resources(machine)}
    functions = {function.address: function for function in machine.pci}
    for name in sorted({*checkpoint.registered, *by_hand}):
        ids = checkpoint.registered.get(name, ())
        nodes = _nodes_in_use(name, checkpoint)
        if name in by_hand:
            resources.append(_joined(by_hand[name], checkpoint, nodes, notes))
            continue
        for device in (set(ids) - nodes.keys()) & functions.keys():
            numa = functions[device].numa
            nodes[device] = () if numa is None else (numa,)
        unknown = sorted(set(ids) - nodes.keys())
        left = sorted(device.numa for device in guesses[name].devices) if name in guesses else []
        for used in nodes.values():
            if used in left:
                left.remove(used)
        if unknown and len(left) == len(unknown):
            nodes.update(zip(unknown, left, strict=True))
            notes.append(
                Sentence(
                    "{resource}: NUMA nodes of {count} free devices inferred from the machine's GPUs",
                    resource=name,
                    count=len(unknown),
                )
            )
        elif unknown:
            notes.append(
                Sentence(
                    "{resource}: the NUMA nodes of {count} free devices are not known, so all its {all} are taken to have none; "
                    "--devices tells them",
                    resource=name,
                    count=len(unknown),
                    all=len(nodes) + len(unknown),
                )
            )
            nodes = dict.fromkeys((*nodes, *unknown), ())
        resources.append(plugin_resource(name, nodes))
    return resources, notes


def _joined(
    listed: PluginResource,
    checkpoint: DeviceCheckpoint,
    in_use: Mapping[str, tuple[int, ...]],
    notes: list[Sentence],
) -> PluginResource:
    """The devices that a person lists, under the ids of the file: those in use by their NUMA node, free ones in turn."""
    name, left = listed.name, {device.id: device.numa for device in listed.devices}
    nodes: dict[str, tuple[int, ...]] = {}
    for device, numa in sorted(in_use.items(), key=lambda item: (len(item[1]) != 1, item[0])):
        # The first layout knows no NUMA nodes. Kubelets before 1.23 list devices without topology under node 0, and a
        # device on two NUMA nodes can only be listed on one of them.
        alike = [one for one, place in left.items() if place == numa] or [
            one for one, place in left.items() if checkpoint.stamp.form == "v1" or set(place) <= set(numa)
        ]
        if not alike:
            where = f"NUMA node {','.join(map(str, numa))}" if numa else "no NUMA node"
            raise InputError(
                f"--devices {printable(name, 80)}",
                f"{printable(device, 80)} is in use on {where}, where --devices lists no device that is left",
            )
        place = left.pop(alike[0])
        nodes[device] = numa if set(place) & set(numa) else place
    free = sorted(set(checkpoint.registered.get(name, ())) - in_use.keys())
    dealt = dict(zip(free, left, strict=False))
    more, less = len(left) - len(dealt), len(free) - len(dealt)
    if dealt:
        notes.append(
            Sentence(
                "{resource}: which of {count} free devices is where is not known; dealt as --devices lists them",
                resource=name,
                count=len(dealt),
            )
        )
    if more:
        notes.append(
            Sentence(
                "{resource}: {count} devices of --devices are not in the state file, and taken to be free",
                resource=name,
                count=more,
            )
        )
    if less:
        notes.append(
            Sentence(
                "{resource}: --devices lists {count} devices less than the state file, and is believed",
                resource=name,
                count=less,
            )
        )
    nodes |= {device: left.pop(listed_id) for device, listed_id in dealt.items()}
    return plugin_resource(name, nodes | left)


def _nodes_in_use(name: str, checkpoint: DeviceCheckpoint) -> dict[str, tuple[int, ...]]:
    """Device -> NUMA nodes, for the devices that somebody holds."""
    held = [entry.nodes_of() for entry in checkpoint.entries if entry.resource == name]
    return {device: nodes for devices in held for device, nodes in devices.items()}
