"""A node from what a person has of it: its machine, its kubelet's configuration, its state files.

The pieces lie together in one folder, on the live machine under their usual paths, or are named one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from numaware.cli.machine_input import load_machine
from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.twin import flags, kubelet_config
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig
from numaware.twin.errors import StartError
from numaware.twin.files import load_state
from numaware.twin.hardware import PluginResource
from numaware.twin.inventory import hardware_of, plugin_resource, registered_resources
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.twin.state import cpu, device, document, memory

_MOST_BYTES = 32 << 20
_STATE_FILES = (cpu.FILE, memory.FILE, device.FILE)
# Where kubelets and people keep things, relative to a node's folder; `.` is the folder itself.
_STATE_FOLDERS = (".", "state", "var/lib/kubelet", "var/lib/kubelet/device-plugins")
_CONFIG_NAMES = (
    "kubelet-config.yaml",
    "kubelet-config.json",
    "kubelet.yaml",
    "config.yaml",
    "var/lib/kubelet/config.yaml",
    "etc/kubernetes/kubelet/kubelet-config.json",
    "etc/kubernetes/kubelet.conf",
)
_MACHINE_NAMES = ("topology.json", "machine.json")


class Options(msgspec.Struct, frozen=True):
    """What was said on the command line for every node that does not bring its own."""

    config: Path | None = None
    kubelet_flags: str = ""
    state: tuple[Path, ...] = ()
    devices: tuple[str, ...] = ()
    version: str = DEFAULT_VERSION


class LoadedNode(msgspec.Struct, frozen=True):
    """A node by name, and what had to be said about how it was put together."""

    name: str
    node: Node
    notes: tuple[str, ...]


def load_node(text: str, options: Options) -> LoadedNode:
    """The node a person means by `text`: a path, or a machine in short form such as `2x14`."""
    path = Path(text)
    folder = path if path.is_dir() else None
    machine = _machine(text, path)
    config, notes = _config(folder, options)
    files = _state_files(folder, options)
    resources: list[PluginResource] | None = None
    if options.devices:
        resources = _devices(options.devices, machine)
    elif device.FILE in files:
        resources, inferred = registered_resources(machine, _device_file(files[device.FILE]))
        notes = (*notes, *inferred)
    try:
        kubelet = start(hardware_of(machine, resources), config)
        return LoadedNode(_name(text, path), Node(kubelet, load_state(kubelet, files)), notes)
    except StartError as error:
        raise InputError(text, f"the kubelet would not start: {error.message}") from None
    except ValueError as error:
        raise InputError(text, str(error)) from None


def _name(text: str, path: Path) -> str:
    if not path.exists():
        return " ".join(text.split())
    resolved = path.resolve()
    return resolved.name.split(".tar")[0].removesuffix(".json") or "this machine"


def _machine(text: str, path: Path) -> Machine:
    if not path.exists():
        try:
            return synthetic.read(text)
        except InputError as error:
            raise InputError(
                text, f"no such file, and as a short form: {error.problem}", hint=error.hint
            ) from None
    if path.is_dir():
        for name in _MACHINE_NAMES:
            if (path / name).is_file():
                return load_machine(path / name)
        archives = sorted(entry for entry in path.iterdir() if ".tar" in entry.name and entry.is_file())
        if len(archives) == 1 and not (path / "sys").is_dir():
            return load_machine(archives[0])
    return load_machine(path)


def _config(folder: Path | None, options: Options) -> tuple[KubeletConfig, tuple[str, ...]]:
    path = options.config or next(iter(_present(folder, _CONFIG_NAMES)), None)
    over = flags.read(options.kubelet_flags) if options.kubelet_flags else None
    if path is not None:
        found = kubelet_config.read(_bytes(path), str(path), options.version, over)
        source = str(path)
    elif over is not None:
        found = kubelet_config.of_settings(over, options.version)
        source = "--kubelet-flags"
    else:
        raise InputError(
            str(folder or "node"),
            "no kubelet configuration, and the verdict depends on it",
            hint="give --kubelet-config FILE or --kubelet-flags '--topology-manager-policy=...'",
        )
    for problem in found.problems:
        if problem.severity == "error":
            raise InputError(source, f"the kubelet would not start: {problem}")
    return found.config, tuple(f"{source}: {problem}" for problem in found.problems)


def _state_files(folder: Path | None, options: Options) -> dict[str, bytes]:
    """State files by the kubelet's own names; what is named on the command line comes first."""
    found: dict[str, bytes] = {}
    for given in options.state:
        paths = [given / name for name in _STATE_FILES] if given.is_dir() else [given]
        for path in paths:
            if path.is_file():
                found.setdefault(_kind(path), _bytes(path))
            elif not given.is_dir():
                raise InputError(str(given), "no such file")
    if not options.state:
        for path in _present(
            folder, [f"{place}/{name}" for place in _STATE_FOLDERS for name in _STATE_FILES]
        ):
            found.setdefault(path.name, _bytes(path))
    return found


def _kind(path: Path) -> str:
    """Which state file a copy under any name is, by its name or else by its content."""
    for name in _STATE_FILES:
        if name in path.name:
            return name
    content = _bytes(path)
    return device.FILE if b'"Data"' in content else memory.FILE if b'"machineState"' in content else cpu.FILE


def _present(folder: Path | None, names: Sequence[str]) -> Iterator[Path]:
    if folder is not None:
        yield from (folder / name for name in names if (folder / name).is_file())


def _bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InputError(str(path), f"larger than {_MOST_BYTES >> 20} MiB")
    return data


def _devices(texts: Sequence[str], machine: Machine) -> list[PluginResource]:
    """`nvidia.com/gpu=0,0,1,1`: one device for each NUMA node listed, `-` for one without topology."""
    known = {node.id for node in machine.numa}
    found: dict[str, PluginResource] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        nodes = [part.strip() for part in listed.split(",")]
        if not equals or not name or not all(part == "-" or part.isdecimal() for part in nodes):
            raise InputError(
                f"--devices {text}",
                "not of the form RESOURCE=NODE,NODE,...",
                hint="such as nvidia.com/gpu=0,0,1,1",
            )
        strange = [part for part in nodes if part != "-" and int(part) not in known]
        if strange:
            raise InputError(f"--devices {text}", f"the machine has no NUMA node {strange[0]}")
        found[name] = plugin_resource(
            name,
            {f"device-{index:04}": () if part == "-" else (int(part),) for index, part in enumerate(nodes)},
        )
    return [found[name] for name in sorted(found)]


def _device_file(data: bytes) -> device.DeviceCheckpoint:
    """A corrupt one is believed as far as its list of devices: the kubelet drops it, but the devices are there."""
    return device.parse(document.read(data, device.FILE).fields)
