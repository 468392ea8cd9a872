"""The device plugin's configuration: which devices become which resource, and what a container gets with them.

`flags` are those of NVIDIA's device plugin, with its names, values and meanings, so that a file of its users needs no
translation; what is not known is an error, as a flag that is passed over in silence is worse than one that is refused.
Whether two selectors can take the same device is decided here, from the file alone: a configuration is for many nodes, and
one that works on some of them only by luck is refused on all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any, Literal, get_args

import msgspec

from numaware.errors import InputError
from numaware.machine.sysfs.pci import ADDRESS, PRINTABLE
from numaware.machine.words import printable
from numaware.node.device_plugin.selection import Selector
from numaware.workload.requirements import QUALIFIED
from numaware.workload.yamlfile import Node, documents

MOST_REPLICAS = 1000
_MOST_RESOURCES = 64
NVIDIA = "10de"
# People know these makers by name.
_VENDOR_IDS = {"nvidia": NVIDIA, "amd": "1002", "intel": "8086"}
_HEX = {"vendor": (4, 4), "device": (4, 4), "class": (2, 6)}
_PATH = re.compile(r"/[!-~]{0,400}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_CDI_KIND = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,100})/[A-Za-z](?:[A-Za-z0-9_-]{0,100})")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")

MigStrategy = Literal["none", "single", "mixed"]
ListStrategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
IdStrategy = Literal["uuid", "index"]
Texts = str | tuple[str, ...]
_CHOICES = {
    "version": ("v1",),
    "migStrategy": get_args(MigStrategy),
    "deviceListStrategy": get_args(ListStrategy),
    "deviceIDStrategy": get_args(IdStrategy),
}


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file: every key in it is known."""


class PluginFlags(_Strict, frozen=True):
    """How NVIDIA GPUs get into a container."""

    pass_device_specs: bool = False
    device_list_strategy: ListStrategy | list[ListStrategy] = "envvar"
    device_id_strategy: IdStrategy = msgspec.field(name="deviceIDStrategy", default="uuid")

    @property
    def list_strategies(self) -> tuple[ListStrategy, ...]:
        given = self.device_list_strategy
        return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


class Flags(_Strict, frozen=True):
    """The flags of NVIDIA's device plugin that are kept here."""

    mig_strategy: MigStrategy = "none"
    fail_on_init_error: bool = True
    nvidia_driver_root: str = "/"
    plugin: PluginFlags = PluginFlags()


class GpuSelector(_Strict, frozen=True):
    """GPUs and accelerators, those of management chips aside. Here as below, what is not named may be anything."""

    vendor: Texts = ()
    device: Texts = ()
    driver: Texts = ()
    address: Texts = ()


class PciSelector(_Strict, frozen=True):
    """Physical PCI functions, bridges aside."""

    vendor: Texts = ()
    device: Texts = ()
    class_code: Texts = msgspec.field(name="class", default=())
    driver: Texts = ()
    address: Texts = ()


class SriovSelector(_Strict, frozen=True):
    """Virtual functions; `of` are the addresses of the physical ones."""

    of: Texts = ()
    vendor: Texts = ()
    device: Texts = ()
    class_code: Texts = msgspec.field(name="class", default=())
    driver: Texts = ()


class MountRule(_Strict, frozen=True):
    """A path of the host that every container with the resource gets."""

    host_path: str
    container_path: str = ""
    read_only: bool = True


class ResourceRule(_Strict, frozen=True):
    """One resource: its name, the devices it takes, and what a container gets with them."""

    name: str
    gpus: GpuSelector | None = None
    pci: PciSelector | None = None
    sriov: SriovSelector | None = None
    replicas: int = 1
    env: str = ""
    device_nodes: bool = True
    devices: tuple[str, ...] = ()
    mounts: tuple[MountRule, ...] = ()
    cdi: str = ""

    @property
    def selector(self) -> Selector:
        if self.gpus is not None:
            return _selector("gpu", self.gpus)
        return _selector("virtual", self.sriov) if self.sriov else _selector("physical", self.pci)


class Config(_Strict, frozen=True):
    """The whole file."""

    version: Literal["v1"] = "v1"
    flags: Flags = Flags()
    resources: tuple[ResourceRule, ...] = (ResourceRule("nvidia.com/gpu", GpuSelector("nvidia")),)


# For what the keys of a part are, by its place in the file.
_PARTS: Mapping[str, type[msgspec.Struct]] = {
    "": Config,
    "flags": Flags,
    "flags.plugin": PluginFlags,
    "resources": ResourceRule,
    "resources.gpus": GpuSelector,
    "resources.pci": PciSelector,
    "resources.sriov": SriovSelector,
    "resources.mounts": MountRule,
}


def read(data: bytes, source: str) -> Config:
    """The configuration, or the first thing that is wrong with it, with its line."""
    parsed = [node for node in documents(data, source) if node.value is not None]
    if len(parsed) != 1 or not isinstance(parsed[0].value, dict):
        hint = "expected one YAML document with version, flags and resources"
        raise InputError(source, "is no configuration of the device plugin", hint=hint)
    (root,) = parsed
    try:
        config = msgspec.convert(root.plain(), Config)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), root, source) from None
    _check(config, root, source)
    return config


def _selector(kind: Literal["gpu", "physical", "virtual"], part: Any) -> Selector:
    def texts(name: str) -> tuple[str, ...]:
        return tuple(text.lower() for text in _listed(getattr(part, name, ())))

    return Selector(
        kind,
        vendors=tuple(_VENDOR_IDS.get(text, text) for text in texts("vendor")),
        devices=texts("device"),
        classes=texts("class_code"),
        drivers=_listed(part.driver),
        addresses=texts("address"),
        physical=texts("of"),
    )


def _listed(given: Texts) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


# What is wrong


def _invalid(message: str, root: Node, source: str) -> InputError:
    """What the decoder says, at the line of the value, with the keys or the quotes that were meant."""
    problem, _, place = message.partition(" - at `")
    steps = [key or index for key, index in _STEP.findall(place)]
    node = root
    for step in steps:
        below = (
            node.items[int(step)]
            if step.isdigit() and int(step) < len(node.items)
            else node.mapping.get(step)
        )
        if below is None:
            break
        node = below
    where = "".join(f"[{step}]" if not step[0].isalpha() else f".{step}" for step in steps).lstrip(".")
    part = _PARTS.get(".".join(step for step in steps if step[0].isalpha()))
    hint = ""
    if "unknown field" in problem and part is not None:
        hint = f"known: {', '.join(field.encode_name for field in msgspec.structs.fields(part))}"
        unknown = problem.partition("`")[2].rstrip("`")
        node = node.mapping.get(unknown) or node
        problem = f"{printable(unknown, 60)!r} is no key"
    elif "enum" in problem:
        hint = f"known: {', '.join(_CHOICES[steps[-1 if steps[-1] in _CHOICES else -2]])}"
    elif "got `int`" in problem and {*_HEX, "of", "address"} & {*steps[-2:]}:
        hint = 'put it in quotes, as in vendor: "8086"; YAML takes it for a number otherwise'
    text = problem.replace("`", "")
    return InputError(
        f"{source}:{node.line}", f"{where}: {text}" if where else text, hint=hint, line=node.line
    )


def _check(config: Config, root: Node, source: str) -> None:
    """What types cannot say."""

    def error(problem: str, *keys: str | int, hint: str = "") -> InputError:
        node = root
        for key in keys:
            node = node.items[key] if isinstance(key, int) and key < len(node.items) else node.get(str(key))
        return InputError(f"{source}:{node.line}", problem, hint=hint, line=node.line)

    if not _PATH.fullmatch(config.flags.nvidia_driver_root):
        raise error("nvidiaDriverRoot is no absolute path", "flags", "nvidiaDriverRoot")
    if not config.flags.plugin.list_strategies:
        raise error(
            "deviceListStrategy is empty", "flags", "plugin", "deviceListStrategy", hint="such as envvar"
        )
    if not 1 <= len(config.resources) <= _MOST_RESOURCES:
        raise error(f"{len(config.resources)} resources are not 1 to {_MOST_RESOURCES}", "resources")
    names: set[str] = set()
    for at, rule in enumerate(config.resources):
        for problem, key, hint in _rule_problems(rule):
            raise error(f"{printable(rule.name, 80)}: {problem}", "resources", at, key, hint=hint)
        if rule.name in names:
            raise error(f"{rule.name} is there twice", "resources", at, "name")
        names.add(rule.name)
    mixed = config.flags.mig_strategy == "mixed"
    for at, rule in enumerate(config.resources):
        if mixed and rule.name.startswith("nvidia.com/mig-"):
            problem = f"{rule.name} is the name of a MIG resource, which migStrategy mixed makes itself"
            raise error(problem, "resources", at, "name")
    for (_, one), (at, other) in combinations(enumerate(config.resources), 2):
        if one.selector.overlaps(other.selector):
            raise error(
                f"{one.name} and {other.name} can take the same device",
                "resources",
                at,
                hint="let them differ in vendor, device, class, driver or address",
            )


def _rule_problems(rule: ResourceRule) -> Iterable[tuple[str, str, str]]:
    """Problem, key and hint of each thing that is wrong with a resource."""
    if not QUALIFIED.fullmatch(rule.name) or "/" not in rule.name:
        yield "is no name of a resource", "name", "such as vendor.example/nic"
    elif rule.name.partition("/")[0].endswith("kubernetes.io"):
        yield "kubernetes.io is not yours to name resources in", "name", ""
    chosen = [key for key in ("gpus", "pci", "sriov") if getattr(rule, key) is not None]
    if len(chosen) != 1:
        yield "needs exactly one of gpus, pci and sriov", "name", ""
        return
    (kind,) = chosen
    part = getattr(rule, kind)
    fields = {field.encode_name: getattr(part, field.name) for field in msgspec.structs.fields(type(part))}
    if kind == "pci" and not any(fields.values()):
        yield "pci: {} would take every device", "pci", f"name some of {', '.join(fields)}"
    for key, given in fields.items():
        for text in _listed(given):
            if problem := _text_problem(key, text):
                yield f"{kind}.{key}: {printable(text, 60)!r} {problem}", kind, ""
    if not 1 <= rule.replicas <= MOST_REPLICAS:
        yield f"replicas is {rule.replicas}, not 1 to {MOST_REPLICAS}", "replicas", ""
    if rule.env and not _VARIABLE.fullmatch(rule.env):
        yield "env is no name of a variable", "env", ""
    if rule.cdi and not _CDI_KIND.fullmatch(rule.cdi):
        yield "cdi is no kind of CDI devices", "cdi", "such as vendor.example/nic"
    for path in rule.devices:
        if not _PATH.fullmatch(path) or not path.startswith("/dev/"):
            yield f"devices: {printable(path, 60)!r} is no path below /dev", "devices", ""
    for mount in rule.mounts:
        for path in (mount.host_path, mount.container_path or mount.host_path):
            if not _PATH.fullmatch(path):
                yield f"mounts: {printable(path, 60)!r} is no absolute path", "mounts", ""


def _text_problem(key: str, text: str) -> str:
    if key in _HEX and text.lower() not in _VENDOR_IDS:
        least, most = _HEX[key]
        if not re.fullmatch(rf"[0-9a-fA-F]{{{least},{most}}}", text):
            digits = str(least) if least == most else f"{least} to {most}"
            return f"is not {digits} hexadecimal digits"
    if key in ("address", "of") and not ADDRESS.match(text):
        return "is no PCI address, such as 0000:3b:00.0"
    if key == "driver" and not PRINTABLE.match(text):
        return "is no name of a driver"
    return ""
