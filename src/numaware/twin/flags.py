"""Kubelet flags from wherever people keep them: kubelet.env, a systemd drop-in, a process's command line.

All such places hold words in a shell's or systemd's quoting, often quoted twice (`Environment="ARGS=--a='b c'"`).
Words that are not flags of the resource managers are passed over.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.config import MemoryReservation
from numaware.twin.gotext import parse_bool, parse_int, quoted
from numaware.twin.settings import Settings

# The longest single argument that Linux passes to a program.
MAX_CHARACTERS = 1 << 17

_INNER_FLAG = re.compile(r"(?:^|[\s=\"'])(--[A-Za-z])")
_ANOTHER_FLAG = re.compile(r"\s--[A-Za-z]")


def read(text: str, source: str = "kubelet flags") -> Settings:
    """The settings that the flags in a text make; a repeated flag adds to a map and replaces anything else."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(source, f"larger than {MAX_CHARACTERS >> 10} KiB, which no command line is")
    try:
        words = list(_words(text))
    except ValueError as error:
        raise InputError(source, f"cannot be split into words: {str(error).lower()}") from None
    return from_arguments(_arguments(words), source)


def from_arguments(arguments: Iterable[tuple[str, str]], source: str) -> Settings:
    """The settings of flags already taken apart into (name without dashes, value)."""
    values: dict[str, Any] = {}
    for name, value in arguments:
        if name not in _FLAGS:
            continue
        field, parse = _FLAGS[name]
        try:
            values[field] = parse(value, values.get(field))
        except ValueError as error:
            shown = printable(
                f"invalid argument {quoted(value)} for {quoted('--' + name)} flag: {error}", 400
            )
            raise InputError(source, shown) from None
    return Settings(**{field: _frozen(value) for field, value in values.items()})


def argument(text: str, name: str) -> str:
    """The value of any one flag of a command line, empty if it is not there; the last one counts."""
    given = every(text, name)
    return given[-1] if given else ""


def every(text: str, name: str) -> list[str]:
    """All values of a flag that may be there more than once, in their order."""
    if len(text) > MAX_CHARACTERS:
        return []
    try:
        return [value for flag, value in _arguments(list(_words(text))) if flag == name]
    except ValueError:
        return []


def _words(text: str) -> Iterator[str]:
    """The words of all lines; continued lines are joined, and a word that quotes a whole command line is split again."""
    if "\0" in text:
        # /proc/PID/cmdline: the words are already apart.
        yield from text.split("\0")
        return
    for line in text.replace("\\\n", " ").splitlines():
        for word in shlex.split(line, comments=True):
            inner = _INNER_FLAG.search(word)
            if inner is None or (inner.start(1) == 0 and not _ANOTHER_FLAG.search(word)):
                yield word
            else:
                yield from shlex.split(word[inner.start(1) :])


def _arguments(words: list[str]) -> Iterator[tuple[str, str]]:
    """Pairs of flag and value, in either form: `--flag=value` or `--flag value`."""
    following = iter([*words[1:], ""])
    for word in words:
        after = next(following, "")
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        yield name.replace("_", "-"), value if equals else after


def _text(value: str, _: object) -> object:
    return value


def _pairs(value: str, before: object, separator: str = "=") -> object:
    pairs: dict[str, str] = dict(before) if isinstance(before, dict) else {}
    for pair in filter(None, value.split(",")):
        key, given, text = pair.partition(separator)
        if not given:
            raise ValueError(f"malformed pair, expect string{separator}string")
        pairs[key.strip()] = text.strip()
    return pairs


def _thresholds(value: str, before: object) -> object:
    return _pairs(value, before, "<")


def _one_pair(value: str, before: object) -> object:
    # KUBELET: this flag alone is not split at commas; options are given by repeating it (NewMapStringStringNoSplit).
    key, given, text = value.partition("=")
    if not given:
        raise ValueError("malformed pair, expect string=string")
    return {**(before if isinstance(before, dict) else {}), key.strip(): text.strip()}


def _gates(value: str, before: object) -> object:
    gates: dict[str, bool] = dict(before) if isinstance(before, dict) else {}
    for pair in filter(None, value.split(",")):
        key, given, text = pair.partition("=")
        if not given:
            raise ValueError("malformed pair, expect string=bool")
        try:
            gates[key.strip()] = parse_bool(text.strip())
        except ValueError as error:
            raise ValueError(f"invalid value of {key.strip()}: {text.strip()}, err: {error}") from None
    return gates


def _reservations(value: str, before: object) -> object:
    reservations = list(before) if isinstance(before, list) else []
    for reservation in value.split(";") if value else ():
        parts = reservation.split(":")
        if len(parts) != 2:
            raise ValueError(
                "the reserved memory has incorrect format, expected "
                f"numaNodeID:type=quantity[,type=quantity...], got {reservation}"
            )
        try:
            node = parse_int(parts[0])
        except ValueError:
            raise ValueError(
                f"failed to convert the NUMA node ID, expected integer, got {parts[0]}"
            ) from None
        limits = dict(_reserved(limit) for limit in parts[1].split(","))
        reservations.append(MemoryReservation(node, tuple(sorted(limits.items()))))
    return reservations


def _reserved(limit: str) -> tuple[str, Quantity]:
    parts = limit.split("=")
    if len(parts) != 2:
        raise ValueError(f"the reserved limit has incorrect value, expected type=quantity, got {limit}")
    name, text = parts
    if name != "memory" and not name.startswith("hugepages-"):
        raise ValueError(f"memory type conversion error, unknown type: {quoted(name)}")
    try:
        return name, Quantity.parse(text)
    except ValueError:
        raise ValueError(f"failed to parse the quantity: {text}") from None


def _frozen(value: Any) -> Any:
    """The accumulated value as a setting holds it."""
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return tuple(value) if isinstance(value, list) else value


_FLAGS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "topology-manager-policy": ("topology_policy", _text),
    "topology-manager-scope": ("topology_scope", _text),
    "topology-manager-policy-options": ("topology_options", _pairs),
    "cpu-manager-policy": ("cpu_policy", _text),
    "cpu-manager-policy-options": ("cpu_options", _one_pair),
    "cpu-manager-reconcile-period": ("cpu_reconcile_period", _text),
    "memory-manager-policy": ("memory_policy", _text),
    "reserved-memory": ("reserved_memory", _reservations),
    "reserved-cpus": ("reserved_cpus", _text),
    "kube-reserved": ("kube_reserved", _pairs),
    "system-reserved": ("system_reserved", _pairs),
    "kube-reserved-cgroup": ("kube_reserved_cgroup", _text),
    "system-reserved-cgroup": ("system_reserved_cgroup", _text),
    "eviction-hard": ("eviction_hard", _thresholds),
    "feature-gates": ("feature_gates", _gates),
}

# Setting -> the flag that makes it.
FLAG_OF = {setting: name for name, (setting, _) in _FLAGS.items()}
