"""What a container gets with its devices: variables, device nodes, mounts, annotations, CDI devices.

NVIDIA GPUs come in the ways that NVIDIA's runtime and plugin have agreed on (`flags.plugin`), everything else as its rule
says: the device nodes that the kernel names, and a variable with the PCI addresses, as the SR-IOV plugin sets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2s
from posixpath import join

from numaware.node.device_plugin.config import Flags, ResourceRule
from numaware.node.device_plugin.inventory import Survey, Unit
from numaware.twin.state.alloc_response import AllocResponse, DeviceNode, Mount

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
# Where NVIDIA's runtime looks for names of devices instead, so that not everybody who may set a variable gets a GPU.
_NAMES_FOLDER = "/var/run/nvidia-container-devices"
_NVIDIA_CDI = "nvidia.com/gpu"
_RIGHTS = "rw"
_NO_LETTER = re.compile(r"[^A-Z0-9]+")


def answer(rule: ResourceRule, units: Sequence[Unit], flags: Flags, survey: Survey) -> AllocResponse:
    """The answer for one container; a unit that comes as several replicas counts once."""
    given = sorted({unit.id: unit for unit in units}.values(), key=lambda unit: unit.id)
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    cdi: list[str] = []
    nodes: list[DeviceNode] = []
    mounts = [
        Mount(mount.container_path or mount.host_path, mount.host_path, mount.read_only)
        for mount in rule.mounts
    ]
    plain = [unit for unit in given if not unit.visible]
    if rule.env or plain:
        envs[rule.env or _variable(rule.name)] = ",".join(unit.address for unit in given)
    if rule.device_nodes:
        nodes += _nodes("/", (path for unit in plain for path in unit.nodes))
    visible = [
        unit.visible if flags.plugin.device_id_strategy == "uuid" else unit.index
        for unit in given
        if unit.visible
    ]
    if visible:
        strategies = flags.plugin.list_strategies
        if "envvar" in strategies:
            envs[VISIBLE] = ",".join(visible)
        if "volume-mounts" in strategies:
            envs.setdefault(VISIBLE, _NAMES_FOLDER)
            mounts += [Mount(join(_NAMES_FOLDER, name), "/dev/null") for name in visible]
        names = [f"{_NVIDIA_CDI}={name}" for name in visible]
        if "cdi-annotations" in strategies:
            annotations[_annotation(rule.name)] = ",".join(names)
        if "cdi-cri" in strategies:
            cdi += names
        if flags.plugin.pass_device_specs:
            paths = (*survey.control_nodes, *(path for unit in given for path in unit.nodes))
            nodes += _nodes(survey.dev_root, paths)
    if rule.cdi:
        cdi += [f"{rule.cdi}={unit.id}" for unit in given]
    nodes += _nodes("/", rule.devices)
    return AllocResponse(envs, tuple(mounts), tuple(dict.fromkeys(nodes)), annotations, tuple(cdi))


def _nodes(root: str, paths: Iterable[str]) -> list[DeviceNode]:
    return [DeviceNode(path, join(root, path.lstrip("/")), _RIGHTS) for path in paths]


def _variable(resource: str) -> str:
    return f"PCIDEVICE_{_NO_LETTER.sub('_', resource.upper())}"


def _annotation(resource: str) -> str:
    """A key of its own for each resource: a container may have several, and the part after the slash has at most 63 letters."""
    return f"cdi.k8s.io/numaware_{blake2s(resource.encode(), digest_size=8).hexdigest()}"
