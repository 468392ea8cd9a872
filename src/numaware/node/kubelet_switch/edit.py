"""Wanted settings written into a kubelet's configuration: what is not meant to change keeps every byte.

A person's file has comments and an order. Only the lines of the fields that change are written anew (by ruamel.yaml, which
keeps the comments among them); what is added goes to the end. A file in JSON has neither, and keeps its order.
"""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.node.kubelet_switch.place import KUBELET_ARG, Form
from numaware.sentence import Sentence
from numaware.twin import flags, kubelet_fields
from numaware.twin.config import MemoryReservation
from numaware.twin.gotext import parse_bool
from numaware.twin.kubelet_config import API_VERSION
from numaware.workload.yamlfile import documents

# Field -> value as in the file; None takes the field away. A map of options is joined with what is there; a member that is
# None is taken out of it.
Wanted = Mapping[str, Any]

_HEADER = "# Written by `numaware kubelet apply`.\n"
_HEAD = {"apiVersion": API_VERSION, "kind": "KubeletConfiguration"}


def wanted_of(sets: Iterable[str], unsets: Iterable[str] = (), source: str = "--set") -> dict[str, Any]:
    """What `--set FIELD=VALUE`, `--set FIELD.KEY=VALUE`, `--unset FIELD` and `--unset FIELD.KEY` ask for."""
    wanted: dict[str, Any] = {}
    for text in sets:
        path, given, value = text.partition("=")
        if not given:
            raise InputError(f"{source} {printable(text, 80)}", Sentence("is not FIELD=VALUE"))
        name, dot, key = path.strip().partition(".")
        kind = _kind(name, source)
        try:
            if dot:
                _joined(wanted, name, {key: _member(kind, value)})
            elif kind in ("texts", "gates"):
                wanted[name] = {k: _member(kind, v) for k, v in flags_of_map(value).items()}
            else:
                wanted[name] = _scalar(kind, value)
        except ValueError as error:
            raise InputError(f"{source} {printable(text, 80)}", str(error)) from None
    for path in unsets:
        name, dot, key = path.strip().partition(".")
        _kind(name, "--unset")
        if not dot:
            wanted[name] = None
            continue
        try:
            _joined(wanted, name, {key: None})
        except ValueError as error:
            raise InputError(f"--unset {printable(path, 80)}", str(error)) from None
    return wanted


def wanted_in(data: bytes, source: str) -> dict[str, Any]:
    """What a KubeletConfiguration, or a piece of one, asks for: every field of the resource managers that is in it."""
    wanted: dict[str, Any] = {}
    for document in documents(data, source):
        plain = document.plain()
        if isinstance(plain, dict):
            wanted.update({name: value for name, value in plain.items() if name in kubelet_fields.KIND_OF})
    if not wanted:
        raise InputError(source, Sentence("sets nothing that the resource managers of a kubelet read"))
    return wanted


def edited(data: bytes | None, wanted: Wanted, form: Form, source: str) -> bytes:
    """The file with the wanted settings in it; None stands for a file that is not there yet."""
    if form == "kubelet-arg":
        return _as_arguments(data, wanted, source)
    if data is None or not data.strip():
        return (_HEADER + _dumped(CommentedMap({**_HEAD, **_typed(_new(wanted))}))).encode()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(source, Sentence("is not UTF-8 text")) from None
    if len(documents(data, source)) != 1:
        raise InputError(source, Sentence("holds several documents; only a file with one is edited"))
    if text.lstrip().startswith("{"):
        return _edited_json(text, wanted, source).encode()
    return _edited_yaml(text, wanted, source).encode()


def difference(before: bytes | None, after: bytes, path: str) -> str:
    """The change as a unified diff."""
    old = (before or b"").decode(errors="replace").splitlines(keepends=True)
    new = after.decode(errors="replace").splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, path if before is not None else "/dev/null", path)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def flags_of_map(value: str) -> dict[str, str]:
    """`a=b,c=d` as a map; ValueError where it is none."""
    pairs = [pair.partition("=") for pair in value.split(",") if pair]
    if not all(given for _, given, _ in pairs):
        raise ValueError("malformed pair, expect string=string")
    return {key.strip(): text.strip() for key, _, text in pairs}


def _kind(name: str, source: str) -> str:
    if name in kubelet_fields.KIND_OF:
        return kubelet_fields.KIND_OF[name]
    near = difflib.get_close_matches(name[:80], sorted(kubelet_fields.KIND_OF), n=1, cutoff=0.6)
    hint = Sentence("did you mean {near}?", near=near[0]) if near else ""
    problem = Sentence("is no setting of the resource managers of a kubelet")
    raise InputError(f"{source} {printable(name, 80)}", problem, hint=hint)


def _joined(wanted: dict[str, Any], name: str, members: Mapping[str, Any]) -> None:
    if kubelet_fields.KIND_OF[name] not in ("texts", "gates"):
        raise ValueError(f"{name} has no members")
    wanted[name] = {**(wanted.get(name) or {}), **members}


def _member(kind: str, value: str) -> Any:
    return parse_bool(value) if kind == "gates" else value


def _scalar(kind: str, value: str) -> Any:
    if kind == "boolean":
        return parse_bool(value)
    if kind == "reservations":
        parsed = flags.from_arguments([(flags.FLAG_OF["reserved_memory"], value)], "--set")
        return [_reservation(one) for one in parsed.reserved_memory or ()]
    return value


def _reservation(one: MemoryReservation) -> dict[str, Any]:
    return {"numaNode": one.numa_node, "limits": {name: str(amount) for name, amount in one.limits}}


def _new(wanted: Wanted) -> dict[str, Any]:
    """Only what is to be there."""
    kept = {}
    for name, value in wanted.items():
        if isinstance(value, dict):
            value = {key: member for key, member in value.items() if member is not None}  # noqa: PLW2901
        if value is not None and value != {}:
            kept[name] = value
    return kept


def _merged(before: Any, value: Any) -> Any:
    """A map joined member by member; all else replaced."""
    if isinstance(before, dict) and isinstance(value, dict):
        for key, member in value.items():
            if member is None:
                before.pop(key, None)
            else:
                before[key] = member
        return before or None
    return _new({"value": value}).get("value")


def _typed(value: Any) -> Any:
    """The kubelet's decoder takes no bare number or boolean where text belongs: such text is quoted."""
    if isinstance(value, dict):
        return CommentedMap({key: _typed(member) for key, member in value.items()})
    if isinstance(value, list):
        return [_typed(member) for member in value]
    if isinstance(value, str) and documents(value.encode() or b'""', "value")[0].text != value:
        return DoubleQuotedScalarString(value)
    return value


# JSON


def _edited_json(text: str, wanted: Wanted, source: str) -> str:
    try:
        content = json.loads(text)
    except ValueError:
        raise InputError(
            source, Sentence("is neither JSON nor YAML in block style, and is not edited")
        ) from None
    for name, value in wanted.items():
        merged = _merged(content.get(name), value)
        if merged is None:
            content.pop(name, None)
        else:
            content[name] = merged
    indent = re.match(r"\s*\{\s*\n([ \t]+)", text)
    return json.dumps(content, indent=indent[1] if indent else None, ensure_ascii=False) + (
        "\n" if text.endswith("\n") else ""
    )


# YAML


def _edited_yaml(text: str, wanted: Wanted, source: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    spans = _spans(text, source)
    added: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in spans and (fresh := _merged(None, value)) is not None:
            added[name] = fresh
    # From the end, so that the places of earlier fields stay true.
    for name in sorted(set(wanted) & set(spans), key=lambda one: spans[one], reverse=True):
        first, last = spans[name]
        lines[first:last] = _edited_field("".join(lines[first:last]), name, wanted[name], source)
    if added:
        end = max((last for _, last in spans.values()), default=len(lines))
        rest = "".join(lines[end:])
        # A mark of the end of the document stays the end.
        place = end if "..." in rest else len(lines)
        lines[place:place] = [_dumped(CommentedMap(_typed(added)))]
    return "".join(lines)


def _spans(text: str, source: str) -> dict[str, tuple[int, int]]:
    """Field -> its lines, from the first to the one after the last of its value."""
    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if not isinstance(root, yaml.MappingNode):
        raise InputError(source, Sentence("holds no kubelet configuration"))
    spans = {}
    for key, value in root.value:
        # The end mark of a block lies where the next thing begins: comments in between are nobody's.
        last = _last_line(value)
        spans[str(key.value)] = (key.start_mark.line, max(last, key.start_mark.line) + 1)
    return spans


def _last_line(node: Any) -> int:
    children = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else None
    if children is None and isinstance(node, yaml.SequenceNode):
        children = node.value
    if children and not node.flow_style:
        return max(map(_last_line, children))
    end: int = node.end_mark.line
    return end - 1 if end > node.start_mark.line and node.end_mark.column == 0 else end


def _edited_field(segment: str, name: str, value: Any, source: str) -> list[str]:
    tool = _round_trip(segment)
    try:
        content = tool.load(segment)
    except YAMLError:
        raise InputError(
            source, Sentence("{field} refers to other parts of the file, and is not edited", field=name)
        ) from None
    merged = _merged(content[name], _typed(value))
    if merged is None:
        return []
    content[name] = merged
    out = io.StringIO()
    tool.dump(content, out)
    return [out.getvalue()]


def _round_trip(segment: str) -> YAML:
    tool = YAML(typ="rt")
    tool.preserve_quotes = True
    tool.width = 1 << 16
    inner = re.search(r"\n( +)(- )?\S", segment)
    dashes = re.search(r"\n( *)- ", segment)
    step = len(inner[1]) if inner and not inner[2] else 2
    offset = len(dashes[1]) if dashes else 0
    tool.indent(mapping=step, sequence=offset + 2, offset=offset)
    return tool


def _dumped(content: CommentedMap) -> str:
    tool = YAML(typ="rt")
    tool.width = 1 << 16
    out = io.StringIO()
    tool.dump(content, out)
    return out.getvalue()


# Flags of k3s and RKE2


def _as_arguments(data: bytes | None, wanted: Wanted, source: str) -> bytes:
    """The wanted settings as flags, in a drop-in of k3s or RKE2 that holds nothing else."""
    key = f"{KUBELET_ARG}+"
    kept: dict[str, str] = {}
    for document in documents(data or b"", source):
        for item in document.get(key).items:
            name, _, value = (item.text or "").partition("=")
            kept[name] = value
    for name, value in wanted.items():
        setting = kubelet_fields.SETTING_OF[name]
        if setting not in flags.FLAG_OF:
            raise InputError(
                f"--set {name}", Sentence("has no flag, and this kubelet is configured by flags")
            )
        flag = flags.FLAG_OF[setting]
        before = flags_of_map(kept.get(flag, "")) if isinstance(value, dict) else None
        merged = _merged(before, value)
        if merged is None:
            kept.pop(flag, None)
        else:
            kept[flag] = _flag_value(merged)
    listed = [f"{flag}={value}" for flag, value in kept.items()]
    return (_HEADER + _dumped(CommentedMap({key: listed}))).encode()


def _flag_value(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(
            f"{key}={str(member).lower() if isinstance(member, bool) else member}"
            for key, member in value.items()
        )
    if isinstance(value, list):
        return ";".join(
            f"{one['numaNode']}:" + ",".join(f"{name}={size}" for name, size in one["limits"].items())
            for one in value
        )
    return str(value)
