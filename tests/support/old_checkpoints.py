"""Checkpoints that only kubelets of long ago wrote; the twin reads them and writes none."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.twin.state.checksum import fnv1a
from numaware.twin.state.cpu import _dump_v1, _File
from numaware.twin.state.golang import json_text


def cpu_state_v1(policy: str, default_cpus: str, by_container_id: Mapping[str, str]) -> str:
    """The file a kubelet of 1.12 to 1.17 wrote."""
    checksum = fnv1a(_dump_v1(policy, default_cpus, by_container_id))
    return json_text(_File(policy, default_cpus, by_container_id or msgspec.UNSET, checksum))
