"""A node from what a person has of it: its machine, its kubelet's configuration, its state files.

The pieces lie together in one folder, on the live machine under their usual paths, or are named one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from numaware.cli.machine_input import existing, load_machine, named_machine
from numaware.errors import InputError
from numaware.machine import numactl, synthetic
from numaware.machine.assumed_cores import with_cores
from numaware.machine.textfile import read_bounded
from numaware.machine.topology import Machine
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin import flags, kubelet_config
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import STATE_FILES, load_state
from numaware.twin.hardware import PluginResource
from numaware.twin.inventory import hardware_of, plugin_resource, registered_resources
from numaware.twin.kubelet import start
from numaware.twin.node import Node
from numaware.twin.rules import modelled_as, release_of
from numaware.twin.settings import Settings
from numaware.twin.state import cpu, device, document, memory
from numaware.workload import manifest
from numaware.workload.pod import Pod

_MOST_BYTES = 32 << 20
# Where kubelets and people keep things, relative to a node's folder; `.` is the folder itself.
_STATE_NAMES = tuple(
    f"{place}/{name}"
    for place in (".", "state", "var/lib/kubelet", "var/lib/kubelet/device-plugins")
    for name in STATE_FILES
)
_CONFIG_NAMES = (
    "kubelet-config.yaml",
    "kubelet-config.json",
    "kubelet.yaml",
    "config.yaml",
    "var/lib/kubelet/config.yaml",
    "etc/kubernetes/kubelet/kubelet-config.json",
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/kubelet.conf",
)
# Later ones win, as they do on the kubelet's command line.
_FLAG_NAMES = (
    "var/lib/kubelet/kubeadm-flags.env",
    "etc/default/kubelet",
    "etc/sysconfig/kubelet",
    "kubelet-flags",
)
_VERSION_NAME = "kubelet-version"
_POD_NAMES = ("pods.json", "pods.yaml")
_DRA_NAMES = ("dra.yaml", "dra.json")
# What `numactl --hardware` printed, where there is nothing better.
_NUMACTL_NAMES = ("numactl", "numactl.txt", "numactl-H", "numactl-H.txt")
_NUMACTL = re.compile(rb"(?m)^[># \t]{0,40}available: \d{1,9} nodes?\b")
_MACHINE_NAMES = ("topology.json", "machine.json")


class Options(msgspec.Struct, frozen=True):
    """What was said on the command line; it wins over what a node's folder says."""

    config: Path | None = None
    kubelet_flags: str = ""
    version: str = ""
    state: tuple[Path, ...] = ()
    devices: tuple[str, ...] = ()
    pods: Path | None = None


class WouldNotStartError(InputError):
    """The kubelet of a node does not start with the files that are there: what it says, and which release it is."""

    def __init__(self, source: str, said: str, version: str) -> None:
        super().__init__(source, f"the kubelet would not start: {said}")
        self.said = said
        self.version = version


class LoadedNode(msgspec.Struct, frozen=True):
    """A node by name, and what had to be said about how it was put together."""

    name: str
    node: Node
    notes: tuple[Sentence, ...]
    # Files about its devices that come by DRA.
    dra: tuple[Path, ...] = ()


def load_node(text: str, options: Options) -> LoadedNode:
    """The node a person means by `text`: a path, or a machine in short form such as `2x14`."""
    path = existing(text)
    folder = path if path and path.is_dir() else None
    machine, assumed = _machine(text, path)
    config, notes = _config(text, folder, options)
    if path is None and synthetic.assumes_memory(text) and config.memory_policy != "None":
        notes = (*notes, synthetic.memory_note())
    files = _state_files(folder, options)
    name = _name(text, path)
    try:
        resources, more = _resources(machine, files, options)
        kubelet = start(hardware_of(machine, resources), config)
        state = load_state(kubelet, files)
    except StartError as error:
        raise WouldNotStartError(name, printable(error.message, 600), config.version) from None
    except KubeletPanic as crash:
        raise InputError(name, f"the kubelet would crash on its own state files: {crash}") from None
    except InputError as error:
        source = error.source if error.source.startswith("--") else f"{name}: {error.source}"
        raise InputError(source, error.problem, hint=error.hint) from None
    except ValueError as error:
        raise InputError(name, printable(str(error), 600)) from None
    # Those that are known in the order in which they were created, in which a restarted kubelet admits them.
    known = _pods(folder, options.pods)
    pods = {uid: pod for uid, pod in known.items() if uid in state.pods} | {
        uid: pod for uid, pod in state.pods.items() if uid not in known
    }
    twin = Node(kubelet, replace(state, pods=pods))
    return LoadedNode(name, twin, (*assumed, *notes, *more), tuple(_present(folder, _DRA_NAMES)))


def _name(text: str, path: Path | None) -> str:
    if path is None:
        return printable(" ".join(text.split()), 80)
    resolved = path.resolve()
    if resolved.name in _MACHINE_NAMES:
        resolved = resolved.parent
    return printable(resolved.name.split(".tar")[0].removesuffix(".json")) or "this machine"


def _machine(text: str, path: Path | None) -> tuple[Machine, tuple[Sentence, ...]]:
    """The machine, and what had to be assumed of it."""
    if path is None:
        return named_machine(text), ()
    listed = path if path.is_file() else next(_present(path, _NUMACTL_NAMES), None)
    if listed is not None and _NUMACTL.search(_beginning(listed)):
        note = Sentence(
            "{source}: numactl tells no cores: each CPU is taken for a core of its own", source=str(listed)
        )
        return with_cores(numactl.read(_bytes(listed), str(listed))), (note,)
    return _whole_machine(path), ()


def _beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(1 << 14)


def _whole_machine(path: Path) -> Machine:
    if path.is_dir():
        for name in _MACHINE_NAMES:
            if (path / name).is_file():
                return load_machine(path / name)
        archives = sorted(entry for entry in path.iterdir() if ".tar" in entry.name and entry.is_file())
        if len(archives) == 1 and not (path / "sys").is_dir():
            return load_machine(archives[0])
    return load_machine(path)


def _config(text: str, folder: Path | None, options: Options) -> tuple[KubeletConfig, tuple[Sentence, ...]]:
    version, notes = _version(folder, options)
    over = _flags(folder, options)
    path = options.config or next(_present(folder, _CONFIG_NAMES), None)
    if path is not None:
        source = str(path)
        file = kubelet_config.read(_bytes(path), source, version, over)
    elif over != Settings():
        source = "kubelet flags"
        file = kubelet_config.of_settings(over, version)
    else:
        raise InputError(
            printable(text, 80),
            "no kubelet configuration, and the verdict depends on it",
            hint="give --kubelet-config FILE or --kubelet-flags '--topology-manager-policy=...'",
        )
    about_fields = (
        Sentence("{source}: {problem}", source=source, problem=problem.sentence) for problem in file.problems
    )
    return file.accepted(source), (*notes, *about_fields)


def _version(folder: Path | None, options: Options) -> tuple[str, tuple[Sentence, ...]]:
    """The version that was given, or what `kubelet --version` printed where somebody kept it."""
    source, text = "--kubelet-version", options.version or DEFAULT_VERSION
    if not options.version:
        for path in _present(folder, (_VERSION_NAME,)):
            source, text = str(path), _bytes(path)[:400].decode(errors="replace")
            text = text.removeprefix("Kubernetes ").strip()
    try:
        release_of(text)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    stand_in = modelled_as(text)
    if stand_in:
        note = Sentence(
            "{source}: {version} is newer than {known}, whose rules are taken for it",
            source=source,
            version=text,
            known=stand_in,
        )
        return text, (note,)
    return text, ()


def _flags(folder: Path | None, options: Options) -> Settings:
    over = Settings()
    for path in _present(folder, _FLAG_NAMES):
        over = over.overridden(flags.read(_bytes(path).decode(errors="replace"), str(path)))
    if options.kubelet_flags:
        over = over.overridden(flags.read(options.kubelet_flags, "--kubelet-flags"))
    return over


def _state_files(folder: Path | None, options: Options) -> dict[str, bytes]:
    """State files by the kubelet's own names."""
    contents: dict[str, bytes] = {}
    for given in options.state:
        paths = list(_present(given, _STATE_NAMES)) if given.is_dir() else [given]
        if not paths:
            raise InputError(str(given), "holds no state file", hint=f"such as {cpu.FILE}")
        for path in paths:
            data = _bytes(path)
            contents.setdefault(_kind(path, data), data)
    if not options.state:
        for path in _present(folder, _STATE_NAMES):
            contents.setdefault(path.name, _bytes(path))
    return contents


def _kind(path: Path, data: bytes) -> str:
    """Which state file a copy under any name is, by its name or else by its content."""
    for name in STATE_FILES:
        if name in path.name:
            return name
    return device.FILE if b'"Data"' in data else memory.FILE if b'"machineState"' in data else cpu.FILE


def _present(folder: Path | None, names: Sequence[str]) -> Iterator[Path]:
    if folder is not None:
        yield from (folder / name for name in names if (folder / name).is_file())


def _bytes(path: Path) -> bytes:
    return read_bounded(path, _MOST_BYTES)


def _devices(texts: Sequence[str], machine: Machine) -> list[PluginResource]:
    """`nvidia.com/gpu=0,0,1,1`: one device for each NUMA node listed, `-` for one without topology."""
    known = {node.id for node in machine.numa}
    resources: dict[str, PluginResource] = {}
    for text in texts:
        source = f"--devices {printable(text, 80)}"
        name, equals, listed = text.partition("=")
        nodes = [part.strip() for part in listed.split(",")]
        if not equals or not name or not all(part == "-" or _is_number(part) for part in nodes):
            raise InputError(
                source, "not of the form RESOURCE=NODE,NODE,...", hint="such as nvidia.com/gpu=0,0,1,1"
            )
        strange = [part for part in nodes if part != "-" and int(part) not in known]
        if strange:
            raise InputError(source, f"the machine has no NUMA node {strange[0]}")
        if name in resources:
            raise InputError(source, f"{name} is given twice", hint="list all its devices at once")
        resources[name] = plugin_resource(
            name,
            {f"device-{index:04}": () if part == "-" else (int(part),) for index, part in enumerate(nodes)},
        )
    return [resources[name] for name in sorted(resources)]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _resources(
    machine: Machine, files: Mapping[str, bytes], options: Options
) -> tuple[list[PluginResource] | None, list[Sentence]]:
    """What the device plugins offer, if anything says it, and what had to be assumed.

    The ids of a state file are devices that exist, so `--devices` says where those are, not that there are others.
    """
    listed = _devices(options.devices, machine)
    if device.FILE not in files:
        return listed or None, []
    checkpoint = device.parse(document.read(files[device.FILE], device.FILE).fields)
    resources, notes = registered_resources(machine, checkpoint, listed)
    if not checkpoint.stamp.accepted:
        # The devices are there all the same, so its list of them is believed.
        notes.append(
            Sentence(
                "{file}: the checksum is wrong: the kubelet forgets who holds which device", file=device.FILE
            )
        )
    return resources, notes


def _pods(folder: Path | None, named: Path | None) -> dict[str, Pod]:
    """The pods of the node by uid, where somebody kept what `kubectl get pods` printed: state files have no names.

    In order of their creation, where the file tells it.
    """
    pods: dict[str, Pod] = {}
    created: dict[str, str] = {}
    for path in (named,) if named else _present(folder, _POD_NAMES):
        data = _bytes(path)
        created |= _created(data)
        pods |= {workload.pod.uid: workload.pod for workload in manifest.scan(data, str(path)).workloads}
    return dict(sorted(pods.items(), key=lambda item: created.get(item[0], "")))


class _Metadata(msgspec.Struct, frozen=True):
    uid: str = ""
    created: str | None = msgspec.field(name="creationTimestamp", default=None)


class _Item(msgspec.Struct):
    metadata: _Metadata = _Metadata()


class _List(msgspec.Struct):
    items: list[_Item] = []


def _created(data: bytes) -> dict[str, str]:
    """When each pod of a list in JSON was created, by uid; times of one form sort as text."""
    try:
        return {
            one.metadata.uid: one.metadata.created or ""
            for one in msgspec.json.decode(data, type=_List).items
        }
    except msgspec.MsgspecError:
        return {}
