"""What the agent knows of talk on its node, as a file for `numaware affinity`: what was seen, what was planned, what was done."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from numaware.affinity.plan import Member, Plan, Zone, plan
from numaware.affinity.plan import Rules as PlanRules
from numaware.affinity.report import Move
from numaware.affinity.traffic import Pair
from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.intent import Intent
from numaware.node.affinity.migration import Migrated
from numaware.node.nri.preflight import Advice

FOLDER = Path("/run/numaware")
FILE = FOLDER / "affinity.json"
BEFORE = FOLDER / "affinity-before.json"
VERSION = 1
_LARGEST = 64 << 20

Mode = Literal["observe", "nri", "cgroup"]


class Talk(msgspec.Struct, frozen=True):
    """Two pods by uid and their bytes a second."""

    one: str
    other: str
    rate: int


class AffinityStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One moment of the node. `intents` are for who wants to verify."""

    node: str
    mode: Mode
    at: int
    runtime: str
    zones: tuple[Zone, ...]
    members: tuple[Member, ...]
    talk: tuple[Talk, ...]
    rules: PlanRules
    moves: tuple[Move, ...] = ()
    # By pod: what became of its pages, if they were to follow, and what its processes should have.
    migrated: dict[str, Migrated] = {}
    intents: dict[str, tuple[Intent, ...]] = {}
    # Where no runtime listens for plug-ins.
    nri: Advice | None = None
    troubles: tuple[str, ...] = ()
    version: int = VERSION

    def plan(self, rules: PlanRules | None = None) -> Plan:
        """What would be done now."""
        talk: dict[Pair, int] = {(one.one, one.other): one.rate for one in self.talk}
        return plan(self.zones, self.members, talk, rules or self.rules)


def _plain(value: object) -> object:
    if isinstance(value, CpuSet):
        return str(value)
    raise NotImplementedError(type(value))


def _read(kind: type, value: object) -> object:
    if kind is CpuSet and isinstance(value, str):
        return CpuSet.parse(value)
    raise NotImplementedError(kind)


def encode(status: AffinityStatus) -> bytes:
    return msgspec.json.encode(status, enc_hook=_plain)


def read(file: Path) -> AffinityStatus:
    """What the agent wrote there; `InputError` for what is not such a file."""
    try:
        if file.stat().st_size > _LARGEST:
            raise InputError(str(file), f"is larger than {_LARGEST >> 20} MiB")
        data = file.read_bytes()
    except FileNotFoundError:
        raise InputError(
            str(file),
            "no such file",
            hint="an agent that looks after talking pods writes it: numaware agent --affinity observe",
        ) from None
    except OSError as error:
        raise InputError(str(file), error.strerror or "cannot be read") from None
    try:
        status = msgspec.json.decode(data, type=AffinityStatus, dec_hook=_read)
    except (msgspec.MsgspecError, ValueError) as error:
        raise InputError(str(file), f"not written by an agent: {error}") from None
    if status.version != VERSION:
        raise InputError(str(file), f"version {status.version}, this program reads version {VERSION}")
    return status
