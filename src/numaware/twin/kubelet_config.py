"""A kubelet's configuration from any file people keep it in.

Besides a KubeletConfiguration itself: a piece of one, several in one file, the kubelet's own `/configz` answer, and
the wrappers of OpenShift, kind, kubeadm, ConfigMaps and cluster tools. Where a wrapper holds flags too, they win, as
they do in the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin import flags as kubelet_flags
from numaware.twin import kubelet_fields, kubelet_wrappers, validation
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig, MemoryReservation
from numaware.twin.rules import rules_for
from numaware.twin.settings import Settings, configuration
from numaware.workload.problem import Problem
from numaware.workload.yamlfile import Node, documents

_GROUP = "kubelet.config.k8s.io/"
API_VERSION = f"{_GROUP}v1beta1"
# What the Node Tuning Operator reserves for every performance profile, whatever the machine.
_PROFILE_RESERVED = (("memory", "500Mi"),)
_PROFILE_RESERVED_MEMORY = (MemoryReservation(0, (("memory", Quantity.parse("1100Mi")),)),)
_PROFILE_EVICTION = (
    ("imagefs.available", "15%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
)
# What kind gives its kubelets: disks are shared with the host, so nothing is evicted for their sake.
_KIND_EVICTION = (("imagefs.available", "0%"), ("nodefs.available", "0%"), ("nodefs.inodesFree", "0%"))


class NoConfigurationError(InputError):
    """The file has nothing for a kubelet."""


class KubeletConfigFile(msgspec.Struct, frozen=True):
    """A configuration, the settings behind it, and what there is to say about them.

    `problems` are what the kubelet would refuse at start (errors) and what it would pass over (notes). With an error
    among them `config` is only what could be understood: the kubelet would not run with it. `laid_over` settings change
    a configuration that is kept elsewhere, so what is missing here may be there.
    """

    config: KubeletConfig
    settings: Settings
    problems: tuple[Problem, ...]
    laid_over: bool = False

    @property
    def refused(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)

    def accepted(self, source: str) -> KubeletConfig:
        """The configuration that a kubelet starts with; `InputError` with the first error where it would not."""
        for problem in self.problems:
            if problem.severity == "error":
                raise InputError(source, f"the kubelet would not start: {problem}")
        return self.config


def read(
    data: bytes, source: str, version: str = DEFAULT_VERSION, flags: Settings | None = None
) -> KubeletConfigFile:
    """The configuration in a file, with `flags` laid over it."""
    return of_documents(documents(data, source), source, version, flags)


def of_documents(
    given: Sequence[Node], source: str, version: str = DEFAULT_VERSION, flags: Settings | None = None
) -> KubeletConfigFile:
    """The same for a file whose text has been read already."""
    minor = _minor(version, source)
    parts = [part for node in given for part in _parts(node, source, minor)]
    if not parts:
        hint = "expected kind KubeletConfiguration, a fragment of it, or a wrapper such as OpenShift's KubeletConfig"
        raise NoConfigurationError(source, "holds no kubelet configuration", hint=hint)
    settings = Settings()
    problems: list[Problem] = []
    over = Settings()
    for part in parts:
        problems.extend(part.notes)
        if part.is_flags:
            over = over.overridden(part.settings)
        else:
            settings = settings.patched(part.settings)
    if sum(not (part.is_flags or part.is_base) for part in parts) > 1:
        text = Sentence("several kubelet configurations in one file: later ones change earlier ones")
        problems.append(Problem("note", "", text))
    settings = settings.overridden(over).overridden(flags or Settings())
    file = of_settings(settings, version, tuple(problems))
    laid_over = any(part.laid_over for part in parts) or all(part.is_flags for part in parts)
    return msgspec.structs.replace(file, laid_over=laid_over)


def of_settings(
    settings: Settings, version: str = DEFAULT_VERSION, notes: tuple[Problem, ...] = ()
) -> KubeletConfigFile:
    """Default and judge settings, wherever they come from (flags alone, too)."""
    problems = (*notes, *validation.problems(settings, version), *_without_effect(settings))
    return KubeletConfigFile(configuration(settings, version), settings, problems)


def _minor(version: str, source: str) -> int:
    try:
        return rules_for(version).minor
    except ValueError as error:
        raise InputError(source, str(error)) from None


class _Part(msgspec.Struct, frozen=True):
    """One set of settings found in a document."""

    settings: Settings
    notes: tuple[Problem, ...] = ()
    is_flags: bool = False
    is_base: bool = False
    laid_over: bool = False


def _parts(node: Node, source: str, minor: int) -> Iterator[_Part]:
    """The settings in one document, whatever it is wrapped in."""
    kind = node.get("kind").text
    version = node.get("apiVersion").text or ""
    if kind == "KubeletConfiguration" or (kind is None and version.startswith(_GROUP)):
        yield _configuration(node, source, minor, _version_notes(node))
    elif kind is None and _looks_like_a_fragment(node):
        fragment = Sentence("a fragment: the kubelet itself asks for apiVersion and kind")
        note = Problem("note", "", fragment, node.line)
        yield _configuration(node, source, minor, (note,))
    elif isinstance(node.get("kubeletconfig").value, dict):
        yield _configuration(node.get("kubeletconfig"), source, minor, ())
    elif kind == "PerformanceProfile":
        yield _performance_profile(node, source)
    elif kind == "ConfigMap":
        for text in node.get("data").mapping.values():
            yield from _embedded(text, source, minor)
    elif kind == "Cluster":
        yield from _kind_cluster(node, source, minor)
    elif kind in ("InitConfiguration", "JoinConfiguration"):
        yield from _extra_arguments(node.get("nodeRegistration", "kubeletExtraArgs"), source)
    elif kind == "MachineConfig":
        for file in kubelet_wrappers.machine_config_files(node):
            for part in _embedded(file, source, minor):
                yield msgspec.structs.replace(part, laid_over=True)
    else:
        yield from _pieces(node, source, minor)


def _pieces(node: Node, source: str, minor: int) -> Iterator[_Part]:
    """What OpenShift's KubeletConfig and cluster tools lay over their own configuration."""
    for piece in kubelet_wrappers.pieces(node):
        yield msgspec.structs.replace(_configuration(piece, source, minor, ()), laid_over=True)
    flags = kubelet_wrappers.listed_flags(node)
    if flags:
        yield _Part(kubelet_flags.from_arguments(flags, source), is_flags=True)


def _kind_cluster(node: Node, source: str, minor: int) -> Iterator[_Part]:
    nodes = [node, *node.get("nodes").items]
    patches = [patch for holder in nodes for patch in holder.get("kubeadmConfigPatches").items]
    parts = [part for patch in patches for part in _embedded(patch, source, minor)]
    if parts:
        yield _Part(Settings(eviction_hard=_KIND_EVICTION), is_base=True)
        yield from parts


def _configuration(node: Node, source: str, minor: int, notes: tuple[Problem, ...]) -> _Part:
    settings, unused = kubelet_fields.decode(node, source, minor)
    return _Part(settings, (*notes, *unused))


def _looks_like_a_fragment(node: Node) -> bool:
    return any(name in kubelet_fields.KNOWN for name in node.mapping)


def _version_notes(node: Node) -> tuple[Problem, ...]:
    version = node.get("apiVersion")
    if version.value == API_VERSION:
        return ()
    if version.value is None:
        return (Problem("note", "apiVersion", Sentence("is missing"), version.line, "missing"),)
    text = Sentence(
        "{given} is read as {known}, the only version kubelets take",
        given=printable(str(version.value), 60),
        known=API_VERSION,
    )
    return (Problem("note", "apiVersion", text, version.line),)


def _embedded(node: Node, source: str, minor: int) -> Iterator[_Part]:
    """A configuration kept as text inside another document; any other text is none of our business."""
    if node.text is None or not any(
        word in node.text for word in ("KubeletConfiguration", "kubeletExtraArgs")
    ):
        return
    where = f"{source} (text at line {node.line})"
    kinds = ("KubeletConfiguration", "InitConfiguration", "JoinConfiguration")
    try:
        inside = [one for one in documents(node.text.encode(), where) if one.get("kind").text in kinds]
        parts = [part for one in inside for part in _parts(one, where, minor)]
    except InputError as error:
        line = error.line and node.line + error.line
        raise InputError(error.source, error.problem, hint=error.hint, line=line) from None
    for part in parts:
        # Inside a patch apiVersion may be left out: it is matched by kind.
        notes = tuple(note for note in part.notes if note.path != "apiVersion")
        yield msgspec.structs.replace(part, notes=notes)


def _extra_arguments(node: Node, source: str) -> Iterator[_Part]:
    """The flags that kubeadm hands the kubelet: a mapping, since v1beta4 a list of names and values."""
    if isinstance(node.value, dict):
        given = list(node.mapping.items())
    else:
        given = [(item.get("name").text or "", item.get("value")) for item in node.items]
    arguments = [(name.replace("_", "-"), value.text) for name, value in given if value.text is not None]
    if arguments:
        yield _Part(kubelet_flags.from_arguments(arguments, source), is_flags=True)


def _performance_profile(node: Node, source: str) -> _Part:
    """What OpenShift's Node Tuning Operator makes of a PerformanceProfile."""
    reserved = node.get("spec", "cpu", "reserved")
    if isinstance(reserved.value, dict | list | bool) or reserved.value is None:
        problem = "spec.cpu.reserved is missing or no text"
        raise InputError(f"{source}:{reserved.line}", problem, line=reserved.line)
    policy = node.get("spec", "numa", "topologyPolicy").text or "best-effort"
    aligned = policy in ("restricted", "single-numa-node")
    settings = Settings(
        topology_policy=policy,
        cpu_policy="static",
        cpu_options=(("full-pcpus-only", "true"),) if aligned else None,
        reserved_cpus=str(reserved.value),
        kube_reserved=_PROFILE_RESERVED,
        system_reserved=_PROFILE_RESERVED,
        eviction_hard=_PROFILE_EVICTION,
        memory_policy="Static" if aligned else None,
        reserved_memory=_PROFILE_RESERVED_MEMORY if aligned else None,
    )
    rendered = Sentence("a PerformanceProfile: taken as the Node Tuning Operator renders it")
    note = Problem("note", "", rendered, node.line)
    if reserved.text is None:
        text = Sentence("is a number, and the API server asks for text: put it in quotes")
        quotes = Problem("note", "spec.cpu.reserved", text, reserved.line, "not-text")
        return _Part(settings, (note, quotes))
    return _Part(settings, (note,))


def _without_effect(settings: Settings) -> Iterator[Problem]:
    """Settings that the kubelet accepts and then does nothing with."""
    if settings.reserved_memory and (settings.memory_policy or "None") == "None":
        text = Sentence("has no effect with memoryManagerPolicy None")
        yield Problem("note", "reservedMemory", text, code="no-effect")
    if settings.topology_options and (settings.topology_policy or "none") == "none":
        text = Sentence("are not even looked at with topologyManagerPolicy none")
        yield Problem("note", "topologyManagerPolicyOptions", text, code="no-effect")
    counted = [
        name
        for name, amounts in (
            ("kubeReserved", settings.kube_reserved),
            ("systemReserved", settings.system_reserved),
        )
        if "cpu" in dict(amounts or ())
    ]
    if settings.reserved_cpus and counted:
        text = Sentence("is replaced by the number of CPUs in reservedSystemCPUs")
        yield Problem("note", f"{counted[0]}.cpu", text)
