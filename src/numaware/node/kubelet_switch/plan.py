"""From the configuration in force to the wanted one: what would have to be done, why, and what would come of it.

Pure: everything known of the node goes in as values, and nothing is touched. The twin is started with the configuration as it
would be: what it refuses, the kubelet would refuse in the same words; the state files it does not take back are those that have
to go; the pods it does not admit again are those that would be ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.kube.pods import LivePod
from numaware.machine.topology import Machine
from numaware.node.kubelet_switch import edit
from numaware.node.kubelet_switch.cluster import is_unmanaged, leaves
from numaware.node.kubelet_switch.journal import BACKUP, Recorded
from numaware.node.kubelet_switch.place import Place
from numaware.node.kubelet_switch.steps import (
    AnyStep,
    Backup,
    Cordon,
    Drain,
    Ready,
    Remove,
    Start,
    Stop,
    Uncordon,
    Write,
)
from numaware.sentence import Sentence
from numaware.twin import kubelet_config, kubelet_fields
from numaware.twin.config import DEFAULT_VERSION
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.hardware import Hardware
from numaware.twin.inventory import hardware_of, registered_resources
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.readmission import Refused, readmitted, refused_files
from numaware.twin.settings import Settings
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import document


class Situation(msgspec.Struct, frozen=True):
    """All that was read of a node. `pods` are those that run there, in order of creation; None if nobody could be asked.

    `node` is empty where there is no API server to speak to.
    """

    place: Place
    machine: Machine
    files: Mapping[str, bytes]
    version: str = DEFAULT_VERSION
    node: str = ""
    pods: tuple[LivePod, ...] | None = None
    unschedulable: bool = False


class Manner(msgspec.Struct, frozen=True):
    """How it shall be done: with a drain or not, which has so many seconds, and also of pods that nobody makes anew."""

    drain: bool = False
    force: bool = False
    drain_seconds: float = 300.0
    journal: str = ""


class FieldChange(msgspec.Struct, frozen=True):
    """One setting in force before and after; None where nothing is said of it."""

    field: str
    before: Any
    after: Any


class Plan(msgspec.Struct, frozen=True):
    """What would be done, and what would come of it.

    `refusals` are the kubelet's own words for why it would not start, and `obstacles` ours for why a drain cannot be begun:
    with any of them nothing may be carried out. `ended` are the pods that the restart would end.
    """

    place: Place
    node: str
    version: str
    healthz: str = ""
    changes: tuple[FieldChange, ...] = ()
    diff: str = ""
    refusals: tuple[str, ...] = ()
    obstacles: tuple[Sentence, ...] = ()
    ended: tuple[Refused, ...] = ()
    notes: tuple[Sentence, ...] = ()
    steps: tuple[AnyStep, ...] = ()

    @property
    def possible(self) -> bool:
        return not self.refusals and not self.obstacles

    def recorded(self) -> Recorded:
        """What the journal keeps of it."""
        return Recorded(self.steps, self.place, self.healthz, self.node, self.version)


def plan(situation: Situation, wanted: edit.Wanted, manner: Manner) -> Plan:
    """The way to the wanted settings; `InputError` where they cannot even be written, or would have no effect."""
    content = edit.edited(situation.place.content, wanted, situation.place.form, situation.place.file)
    return plan_content(situation, content, manner, wanted)


def plan_content(
    situation: Situation, content: bytes | None, manner: Manner, wanted: edit.Wanted | None = None
) -> Plan:
    """The same for a file that is wanted to the byte; None for one that shall not be there."""
    place, version = situation.place, situation.version
    before = place.read(version)
    changed = place.with_content(content or b"")
    after = changed.read(version)
    _check_effect(changed, after.settings, wanted or {}, version)
    draft = Plan(
        place,
        situation.node,
        version,
        changed.healthz(),
        tuple(_field_changes(before.settings, after.settings)),
        edit.difference(place.content, content or b"", place.file),
    )
    if content == place.content or (wanted is not None and not draft.changes):
        return msgspec.structs.replace(draft, changes=(), diff="")
    refusals = tuple(str(problem.text) for problem in after.problems if problem.severity == "error")
    if refusals:
        return msgspec.structs.replace(draft, refusals=refusals)
    try:
        kubelet = start(_hardware(situation), after.config)
    except (StartError, ValueError) as error:
        said = error.message if isinstance(error, StartError) else str(error)
        return msgspec.structs.replace(draft, refusals=(said,))
    return _carried_out(draft, situation, kubelet, content, manner)


def _carried_out(
    draft: Plan, situation: Situation, kubelet: Kubelet, content: bytes | None, manner: Manner
) -> Plan:
    going = tuple(pod for pod in situation.pods or () if leaves(pod)) if manner.drain else ()
    obstacles = tuple(_obstacles(situation, going, manner))
    stale = refused_files(kubelet, situation.files)
    kept = {name: data for name, data in situation.files.items() if name not in stale}
    staying = [pod.pod for pod in situation.pods or () if pod not in going]
    notes = list(_notes(situation, stale, bool(going)))
    try:
        ended = readmitted(kubelet, kept, staying)
    except (StartError, KubeletPanic, InputError, ValueError) as error:
        ended = ()
        notes.append(Sentence("what becomes of the pods cannot be said: {why}", why=str(error)))
    return msgspec.structs.replace(
        draft,
        obstacles=obstacles,
        ended=ended,
        notes=tuple(notes),
        steps=tuple(_steps(situation, content, manner, stale, going)),
    )


def _steps(
    situation: Situation,
    content: bytes | None,
    manner: Manner,
    stale: Mapping[str, str],
    going: tuple[LivePod, ...],
) -> Iterator[AnyStep]:
    place = situation.place
    backup = f"{manner.journal}/{BACKUP}"
    removed = {f"{place.kubelet_root}/{name}": said for name, said in stale.items()}
    if situation.node:
        yield Cordon(situation.unschedulable)
    if going:
        yield Drain(
            tuple(pod.full_name for pod in going), tuple(pod.uid for pod in going), manner.drain_seconds
        )
    yield Stop(place.unit)
    yield Backup((place.file, *removed), backup)
    # Before anything is taken away: if there is no room to write, nothing is gone.
    yield Write(place.file, backup, content) if content is not None else Remove(place.file, backup, "")
    for path, said in removed.items():
        yield Remove(path, backup, said)
    yield Start(place.unit)
    yield Ready(place.unit)
    if situation.node and not situation.unschedulable:
        yield Uncordon()


def _obstacles(situation: Situation, going: tuple[LivePod, ...], manner: Manner) -> Iterator[Sentence]:
    if manner.drain and not situation.node:
        yield Sentence("a drain goes through the API server, and none is named: --kubeconfig names it")
    alone = [pod.full_name for pod in going if is_unmanaged(pod)]
    if alone and not manner.force:
        yield Sentence(
            "nobody would make these pods anew, so they are not evicted without --force: {pods}",
            pods=", ".join(alone),
        )


def _notes(situation: Situation, stale: Mapping[str, str], drained: bool) -> Iterator[Sentence]:
    if situation.place.has_api_server:
        yield Sentence(
            "{unit} is the API server of this node, too, which is away with it", unit=situation.place.unit
        )
    if situation.pods is None:
        yield Sentence("which pods run here is not known without an API server: --kubeconfig names it")
    if cpu_file.FILE in stale and not drained:
        held = _holders(situation)
        if held:
            yield Sentence(
                "{count} pods hold CPUs of their own, and are given others while they run", count=held
            )


def _holders(situation: Situation) -> int:
    try:
        return len(cpu_file.decode(situation.files[cpu_file.FILE]).entries)
    except InputError:
        return 0


def _hardware(situation: Situation) -> Hardware:
    data = situation.files.get(device_file.FILE)
    if data is None:
        return hardware_of(situation.machine, ())
    try:
        checkpoint = device_file.parse(document.read(data, device_file.FILE).fields)
    except InputError:
        return hardware_of(situation.machine, ())
    return hardware_of(situation.machine, registered_resources(situation.machine, checkpoint)[0])


def _field_changes(before: Settings, after: Settings) -> Iterator[FieldChange]:
    for field, setting in kubelet_fields.SETTING_OF.items():
        old, new = getattr(before, setting), getattr(after, setting)
        if old != new:
            yield FieldChange(field, old, new)


def _check_effect(place: Place, after: Settings, wanted: edit.Wanted, version: str) -> None:
    """Refuse what would be written in vain, since somebody else has the last word on it."""
    present = {name: value for name, value in wanted.items() if value is not None}
    asked = (
        kubelet_config.read(msgspec.json.encode(_without_gone(present)), "--set", version).settings
        if present
        else Settings()
    )
    for field, value in wanted.items():
        setting = kubelet_fields.SETTING_OF[field]
        now = getattr(after, setting)
        meant = getattr(asked, setting)
        if isinstance(value, dict):
            known = dict(now or ())
            gone = [key for key, member in value.items() if member is None and key in known]
            fine = not gone and all(known.get(key) == member for key, member in meant or ())
        else:
            fine = now == meant
        if not fine:
            source = place.source_of(setting, version)
            problem = Sentence("would have no effect: {source} has the last word on it", source=source)
            raise InputError(field, problem, hint=Sentence("change it there, or take it away there first"))


def _without_gone(wanted: edit.Wanted) -> dict[str, Any]:
    return {
        name: {key: member for key, member in value.items() if member is not None}
        if isinstance(value, dict)
        else value
        for name, value in wanted.items()
    }
