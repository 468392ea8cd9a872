"""The kubelet of a node: whether it runs, its configuration and flags, its state files, its sockets and plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from numaware.diagnose.doctor.check import Check, checked, trouble, unknown
from numaware.diagnose.doctor.node_root import NodeRoot
from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import Evidence, Finding, Message, Subject, finding
from numaware.diagnose.rules.lint import World, findings_of_kubelet_flags, lint
from numaware.diagnose.rules.state_files import FILES, checkpoint_of, mismatch_findings, state_findings
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.twin import flags, kubelet_config
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import load_state
from numaware.twin.hardware import Hardware
from numaware.twin.kubelet import start
from numaware.twin.settings import Settings
from numaware.twin.state import cpu, device, memory
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint
from numaware.twin.state.memory import MemoryCheckpoint
from numaware.twin.state.verify import Checkpoint
from numaware.workload.yamlfile import documents

KUBELET = "var/lib/kubelet"
CONFIGS = (
    f"{KUBELET}/config.yaml",
    "etc/kubernetes/kubelet/kubelet-config.json",
    "etc/kubernetes/kubelet/config.json",
    "etc/kubernetes/kubelet.conf",
    "etc/kubernetes/kubelet-config.yaml",
)
# Later ones win, as they do on the kubelet's command line.
_FLAG_FILES = (f"{KUBELET}/kubeadm-flags.env", "etc/default/kubelet", "etc/sysconfig/kubelet")
_STATES = {
    "cpu-state": f"{KUBELET}/{cpu.FILE}",
    "memory-state": f"{KUBELET}/{memory.FILE}",
    "device-state": f"{KUBELET}/device-plugins/{device.FILE}",
}
_SOCKET = f"{KUBELET}/pod-resources/kubelet.sock"
_MOST_STALE = 20


class KubeletSetup(NamedTuple):
    """What a node's kubelet is set to: the configuration file, and flags over it."""

    version: str
    file: str = ""
    data: bytes = b""
    flag_source: str = ""
    flag_text: str = ""
    settings: Settings | None = None
    config: KubeletConfig | None = None
    problem: str = ""

    def settings_text(self, field: str) -> str:
        """A field of the file that no manager reads, as text; empty if it is not there."""
        try:
            parsed = documents(self.data, self.file) if self.data else []
        except InputError:
            return ""
        value = parsed[0].get(field).value if parsed else None
        return "" if value is None or isinstance(value, dict | list) else str(value).lower()


def find(root: NodeRoot, processes: Mapping[str, bytes] | None, version: str) -> KubeletSetup:
    """The configuration that the running kubelet names, or the usual one; flags of the process, or of the usual files."""
    line = (processes or {}).get("kubelet", b"").decode(errors="replace")
    source, text = ("/proc/…/cmdline", line) if line else flag_files(root)
    named = flags.argument(line, "config")
    place = root.first([named.lstrip("/")] if named else CONFIGS)
    file, data = place or ("", b"")
    setup = KubeletSetup(version, f"/{file}" if file else "", data, source, text)
    if not data and not text:
        return setup
    try:
        over = flags.read(text, source) if text else Settings()
        read = (
            kubelet_config.read(data, setup.file, version, over)
            if data
            else kubelet_config.of_settings(over, version)
        )
    except InputError as error:
        return setup._replace(problem=printable(str(error.problem), 300))
    return setup._replace(settings=read.settings, config=None if read.refused else read.config)


def flag_files(root: NodeRoot) -> tuple[str, str]:
    """The usual files of flags, all of them: their names and their text."""
    files = [(path, data) for path in _FLAG_FILES if (data := root.read(path)) is not None]
    text = "\n".join(data.decode(errors="replace") for _, data in files)
    return ", ".join(f"/{path}" for path, _ in files), text


def process_check(processes: Mapping[str, bytes] | None) -> Check:
    """Whether a kubelet runs."""
    if processes is None:
        return unknown("kubelet", Message("doctor-no-processes"))
    if "kubelet" in processes:
        return checked("kubelet", Message("doctor-kubelet-runs"))
    stopped = trouble("kubelet-not-running", "/proc", kind="Kubelet")
    return checked("kubelet", Message("doctor-kubelet-stopped"), [stopped])


def config_checks(kubelet: KubeletSetup, hardware: Hardware | None) -> Iterator[Check]:
    """The file, and the flags laid over it."""
    world = World(version=kubelet.version, hardware=hardware)
    if kubelet.data:
        try:
            linted = lint(kubelet.data, kubelet.file, world)
        except InputError as error:
            facts = {"path": kubelet.file, "message": printable(str(error.problem), 300)}
            broken = trouble("kubelet-configuration-invalid", kubelet.file, facts, kind="Kubelet")
            yield checked("kubelet-config", Message("doctor-config", {"file": kubelet.file}), [broken])
        else:
            findings = [one for one in linted.findings if one.severity != "info"]
            yield checked("kubelet-config", _policies(kubelet), findings)
    elif not kubelet.flag_text:
        yield unknown("kubelet-config", Message("doctor-no-config"))
    if kubelet.flag_text:
        findings = findings_of_kubelet_flags(kubelet.flag_text.encode(), kubelet.flag_source, world)
        grave = [one for one in findings if one.severity != "info" and one.confidence == "certain"]
        seen = Message("doctor-flags", {"source": kubelet.flag_source})
        yield checked("kubelet-flags", seen, grave)


def _policies(kubelet: KubeletSetup) -> Message:
    config = kubelet.config
    if config is None:
        return Message("doctor-config", {"file": kubelet.file})
    facts = {
        "file": kubelet.file,
        "cpu": config.cpu_policy,
        "memory": config.memory_policy,
        "topology": config.topology_policy,
        "scope": config.topology_scope,
    }
    return Message("doctor-policies", facts)


# State files


def state_checks(root: NodeRoot, kubelet: KubeletSetup, hardware: Hardware | None) -> Iterator[Check]:
    """Each file by itself and beside the configuration, and then all of them as the kubelet takes them at a restart."""
    files: dict[str, bytes] = {}
    pods = set(root.names(f"{KUBELET}/pods"))
    clean = True
    for name, path in _STATES.items():
        data = root.read(path)
        if data is None:
            yield unknown(name, Message("doctor-no-state", {"file": f"/{path}"}))
            continue
        files[path.rpartition("/")[2]] = data
        findings = list(_about(data, f"/{path}", kubelet, pods))
        clean = clean and not findings
        yield checked(name, Message("doctor-state", {"file": f"/{path}"}), findings)
    if files and clean and kubelet.config is not None and hardware is not None:
        yield _restart(files, kubelet.config, hardware)


def _about(data: bytes, file: str, kubelet: KubeletSetup, pods: set[str]) -> Iterator[Finding]:
    yield from (one for one in state_findings(data, file) if one.severity != "info")
    checkpoint = checkpoint_of(data, file)
    if checkpoint is None:
        kind = next(kind for kind, name in FILES.items() if file.endswith(name))
        code, facts = f"{kind}-manager-state-corrupt", {"problem": "not a state file"}
        yield finding(code, Subject("File", name=file), facts, [Evidence(file)])
        return
    if kubelet.settings is not None:
        defaulted = kubelet_config.of_settings(kubelet.settings, kubelet.version).config
        settings = Settings(
            cpu_policy=defaulted.cpu_policy,
            memory_policy=defaulted.memory_policy,
            reserved_cpus=defaulted.reserved_cpus,
            cpu_options=defaulted.cpu_options,
        )
        yield from mismatch_findings(checkpoint, file, settings, kubelet.file or kubelet.flag_source)
    stale = sorted(_uids(checkpoint) - pods) if pods else []
    if stale:
        entries = {"file": file, "uids": stale[:_MOST_STALE], "count": len(stale)}
        yield finding("state-stale-entries", Subject("File", name=file), entries, [Evidence(file)])


def _uids(checkpoint: Checkpoint) -> set[str]:
    match checkpoint:
        case CpuCheckpoint() | MemoryCheckpoint():
            return set(checkpoint.entries)
        case DeviceCheckpoint():
            return {entry.pod_uid for entry in checkpoint.entries}


def _restart(files: Mapping[str, bytes], config: KubeletConfig, hardware: Hardware) -> Check:
    """What the kubelet would say if it were started again now; devices are its plugins' business."""
    try:
        kubelet = start(hardware, config)
    except (StartError, ValueError):
        # Told with the configuration.
        return unknown("restart", Message("doctor-restart-never"))
    seen = Message("doctor-restart")
    try:
        load_state(kubelet, {name: data for name, data in files.items() if name != device.FILE})
    except StartError as error:
        said = printable(error.message, 600)
        meaning = start_failure(said) or Meaning("cpu-manager-state-reserved-mismatch", "", {"message": said})
        code, variant, facts, _ = meaning
        refusal = trouble(code, f"/{KUBELET}", facts, kind="Kubelet", variant=variant)
        return checked("restart", seen, [refusal])
    except (InputError, KubeletPanic, ValueError) as error:
        return unknown("restart", Message("doctor-restart-unknown", {"why": printable(str(error), 200)}))
    return checked("restart", seen)


# Sockets


def podresources_check(root: NodeRoot) -> Check:
    """The socket on which agents ask the kubelet who holds what."""
    seen = Message("doctor-podresources", {"file": f"/{_SOCKET}"})
    if root.exists(_SOCKET):
        return checked("podresources", seen)
    if not root.names(KUBELET):
        return unknown("podresources", Message("doctor-no-kubelet-folder", {"file": f"/{KUBELET}"}))
    missing = trouble("podresources-missing", f"/{_SOCKET}", {"file": f"/{_SOCKET}"}, kind="Kubelet")
    return checked("podresources", seen, [missing])


def plugins_check(root: NodeRoot, hardware: Hardware | None) -> Check:
    """Device plugins: what they registered, and whether they say where their devices are."""
    path = _STATES["device-state"]
    data = root.read(path)
    checkpoint = checkpoint_of(data, f"/{path}") if data else None
    if not isinstance(checkpoint, DeviceCheckpoint):
        return unknown("device-plugins", Message("doctor-no-plugins"))
    sockets = [name for name in root.names(f"{KUBELET}/device-plugins") if name.endswith(".sock")]
    facts = {
        "resources": [
            f"{len(ids)} {printable(name, 80)}" for name, ids in sorted(checkpoint.registered.items())[:20]
        ]
        or ["0"],
        "plugins": len([name for name in sockets if name != "kubelet.sock"]),
    }
    several = hardware is not None and len(hardware.numa) > 1
    homeless = sorted(
        {
            entry.resource
            for entry in checkpoint.entries
            if several and any(node < 0 for node in entry.devices)
        }
    )
    findings = [
        trouble("devices-without-topology", f"/{path}", {"resource": printable(resource, 80)})
        for resource in homeless[:20]
    ]
    return checked("device-plugins", Message("doctor-plugins", facts), findings)
