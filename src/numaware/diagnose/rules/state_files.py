"""Findings about state files: whether a kubelet would take them back, alone and with the configuration at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from numaware.diagnose.finding import Evidence, Finding, Subject, finding
from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.twin.settings import Settings
from numaware.twin.state import cpu, device, document, memory
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint
from numaware.twin.state.memory import MemoryCheckpoint
from numaware.twin.state.verify import Checkpoint, parse, verify

FILES: Mapping[str, str] = {"cpu": cpu.FILE, "memory": memory.FILE, "device": device.FILE}


def checkpoint_of(data: bytes, file: str) -> Checkpoint | None:
    """The content of a state file, None where it is none."""
    try:
        return parse(document.read(data, file).fields, file)
    except InputError:
        return None


def state_findings(data: bytes, file: str) -> Iterator[Finding]:
    """What there is to say about one file by itself."""
    report = verify(data, file)
    if report.kind == "unknown":
        return
    name = FILES[report.kind]
    subject = Subject("File", name=file)
    if not report.valid:
        facts = {
            "problem": report.problem,
            "checksumStored": report.checksum_stored,
            "checksumComputed": report.checksum_computed,
            "file": name,
        }
        # A documentation's example may name its fields otherwise than any kubelet does.
        renamed = report.kind == "memory" and b'"nodes"' in data and b'"cells"' not in data
        yield finding(
            f"{report.kind}-manager-state-corrupt",
            subject,
            facts,
            [_line(data, file, "checksum")],
            variant="renamed" if renamed else "",
        )
        return
    checkpoint = checkpoint_of(data, file)
    if checkpoint is not None:
        yield _healthy(checkpoint, name, subject, file)


def _healthy(checkpoint: Checkpoint, name: str, subject: Subject, file: str) -> Finding:
    facts: dict[str, object] = {"file": name}
    match checkpoint:
        case CpuCheckpoint():
            given = [cpus for containers in checkpoint.entries.values() for cpus in containers.values()]
            facts |= {
                "policy": checkpoint.policy,
                "pods": len(checkpoint.entries),
                "sharedCpus": checkpoint.default_cpus,
                "exclusive": sum(len(CpuSet.parse(cpus)) for cpus in given),
            }
        case MemoryCheckpoint():
            facts |= {"policy": checkpoint.policy, "pods": len(checkpoint.entries)}
        case DeviceCheckpoint():
            facts |= {"pods": len({entry.pod_uid for entry in checkpoint.entries})}
    return finding("healthy", subject, facts, [Evidence(file)], variant="state")


def mismatch_findings(
    checkpoint: Checkpoint, file: str, settings: Settings, config_file: str
) -> Iterator[Finding]:
    """What a kubelet with these settings would say to this state file."""
    subject, evidence = Subject("Kubelet"), [Evidence(file), Evidence(config_file)]
    if isinstance(checkpoint, CpuCheckpoint) and settings.cpu_policy:
        if checkpoint.policy != settings.cpu_policy:
            facts = {"configured": settings.cpu_policy, "stored": checkpoint.policy, "file": file}
            yield finding("cpu-manager-state-policy-mismatch", subject, facts, evidence)
        elif checkpoint.policy == "static" and (facts := _reserved(checkpoint, settings)):
            yield finding("cpu-manager-state-reserved-mismatch", subject, {**facts, "file": file}, evidence)
    if (
        isinstance(checkpoint, MemoryCheckpoint)
        and settings.memory_policy
        and checkpoint.policy != settings.memory_policy
    ):
        facts = {"configured": settings.memory_policy, "stored": checkpoint.policy, "file": file}
        yield finding("memory-manager-state-mismatch", subject, facts, evidence, variant="policy")


def _reserved(checkpoint: CpuCheckpoint, settings: Settings) -> dict[str, str]:
    """Reserved CPUs have to be in the shared pool, or with strict-cpu-reservation out of it; the facts if they are not."""
    try:
        reserved = CpuSet.parse(settings.reserved_cpus or "")
        shared = CpuSet.parse(checkpoint.default_cpus)
    except ValueError:
        return {}
    strict = dict(settings.cpu_options or ()).get("strict-cpu-reservation") == "true"
    common = reserved & shared
    if not reserved or (not common if strict else common == reserved):
        return {}
    which = "some of strictly" if strict else "not all"
    message = f'{which} reserved cpus: "{reserved}" are present in defaultCpuSet: "{shared}"'
    return {"reserved": str(reserved), "stored": str(shared), "message": message}


def _line(data: bytes, file: str, key: str) -> Evidence:
    """The line that holds a key, as far as people can read it."""
    for number, line in enumerate(data.splitlines(), 1):
        at = line.lower().find(f'"{key}"'.encode())
        if at >= 0:
            text = line.decode("utf-8", "replace").strip()
            mark = text[text.lower().find(f'"{key}"') :].rstrip("}\n ")
            return Evidence(file, number, text, mark)
    return Evidence(file)
