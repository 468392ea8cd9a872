"""What an admitted pod holds by the state files, joined to the finding that `diagnosis` made from a log."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.finding import Evidence, Finding
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint

_ADMITTED = ("unaligned-under-best-effort", "cpu-spread-over-nodes-under-best-effort", "aligned")


def with_held(bundle: Bundle, admitted: Finding) -> Finding:
    """A finding about an admitted pod, with the CPUs and devices it was given; a pod that holds them was admitted."""
    uid = admitted.subject.uid
    if admitted.code not in _ADMITTED or not uid:
        return admitted
    facts: dict[str, Any] = {}
    files: list[str] = []
    for piece in bundle.states:
        checkpoint = piece.content.checkpoint
        if isinstance(checkpoint, CpuCheckpoint) and uid in checkpoint.entries:
            files.append(piece.file)
            facts.setdefault("cpus", ",".join(checkpoint.entries[uid].values()))
        elif isinstance(checkpoint, DeviceCheckpoint):
            devices = _devices(checkpoint, uid)
            if devices:
                files.append(piece.file)
                facts["devices"] = devices
    if not facts:
        return admitted
    nodes = {int(node) for counts in facts.get("devices", {}).values() for node in counts if node != "-1"}
    if nodes and admitted.code == "unaligned-under-best-effort":
        facts["nodes"] = sorted(nodes | set(admitted.facts.get("nodes", ())))
    return msgspec.structs.replace(
        admitted,
        confidence="certain",
        facts={**facts, **admitted.facts, **({"nodes": facts["nodes"]} if "nodes" in facts else {})},
        evidence=(*admitted.evidence, *(Evidence(file) for file in files)),
    )


def _devices(checkpoint: DeviceCheckpoint, uid: str) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for entry in checkpoint.entries:
        if entry.pod_uid == uid:
            for node, ids in sorted(entry.devices.items()):
                held = counts.setdefault(entry.resource, {})
                held[str(node)] = held.get(str(node), 0) + len(ids)
    return counts
