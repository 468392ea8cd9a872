"""Kubernetes objects as `kubectl get -o yaml|json` prints them: events, and pods with what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from numaware.diagnose.evidence.bundle import Attempt
from numaware.diagnose.evidence.logs.record import seconds_of
from numaware.diagnose.evidence.logs.seen import PodName
from numaware.diagnose.evidence.refusal_messages import refusal
from numaware.diagnose.finding import Evidence, Message
from numaware.workload.manifest import MAX_OBJECTS
from numaware.workload.yamlfile import Node

_DEEPEST = 8
_TELLING = (
    "kind",
    "metadata",
    "status",
    "involvedObject",
    "regarding",
    "reason",
    "message",
    "note",
    "type",
    "source",
    "deprecatedSource",
    "reportingInstance",
    "count",
    "series",
    "firstTimestamp",
    "eventTime",
)


def listing(data: bytes) -> list[dict[str, Any]] | None:
    """The items of a list in JSON, without their lines: reading those takes a hundred times as long."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return None
    items = parsed.get("items") if isinstance(parsed, dict) else None
    return (
        [item for item in items[:MAX_OBJECTS] if isinstance(item, dict)] if isinstance(items, list) else None
    )


def reduced(item: dict[str, Any]) -> Node:
    """An object with only what tells about a refusal."""
    kept = {name: item[name] for name in _TELLING if name in item}
    if isinstance(item.get("spec"), dict):
        kept["spec"] = {"nodeName": item["spec"].get("nodeName")}
    return _node(kept)


def _node(value: Any, depth: int = 0) -> Node:
    if isinstance(value, dict) and depth < _DEEPEST:
        return Node({str(name): _node(child, depth + 1) for name, child in value.items()}, 0)
    if isinstance(value, list) and depth < _DEEPEST:
        return Node([_node(child, depth + 1) for child in value], 0)
    return Node(value if isinstance(value, str | int | float | bool) else None, 0)


def attempts(node: Node, file: str) -> Iterator[Attempt]:
    """The refusal that an event or a pod's status tells, if it does."""
    kind = node.get("kind").text
    if kind == "Event" or (kind is None and node.get("involvedObject").mapping):
        yield from _event(node, file)
    elif kind == "Pod" or (kind is None and node.get("spec", "containers").items):
        yield from _pod(node, file)


def _event(node: Node, file: str) -> Iterator[Attempt]:
    about = node.get("involvedObject") if node.get("involvedObject").mapping else node.get("regarding")
    reason, message = _text(node, "reason"), node.get("message")
    if message.text is None:
        message = node.get("note")
    if (about.get("kind").text or "Pod") != "Pod" or node.get("type").text == "Normal":
        return
    meaning = refusal(message.text or "", reason)
    if meaning is None:
        return
    node_name = _text(node, "source", "host") or _text(node, "deprecatedSource", "host")
    node_name = node_name or _text(node, "reportingInstance")
    times = node.get("count").value or node.get("series", "count").value
    stamp = (
        _text(node, "firstTimestamp")
        or _text(node, "eventTime")
        or _text(node, "metadata", "creationTimestamp")
    )
    seconds, shown = seconds_of(stamp)
    yield Attempt(
        pod=PodName(_text(about, "namespace"), _text(about, "name"), _text(about, "uid")),
        meaning=meaning,
        evidence=_evidence(file, node.get("reason"), f"reason: {reason}", reason),
        node=node_name,
        reason=reason,
        count=times if isinstance(times, int) and not isinstance(times, bool) and 0 < times < 10**9 else 1,
        seconds=seconds,
        stamp=shown,
    )


def _pod(node: Node, file: str) -> Iterator[Attempt]:
    status = node.get("status")
    reason = _text(status, "reason")
    message = _text(status, "message").removeprefix("Pod was rejected: ").removeprefix("Pod ")
    if status.get("phase").text != "Failed" or not reason:
        return
    meaning = refusal(message, reason)
    if meaning is None:
        return
    owner = next(iter(node.get("metadata", "ownerReferences").items), Node(None, 0))
    seconds, shown = seconds_of(_text(status, "startTime") or _text(node, "metadata", "creationTimestamp"))
    yield Attempt(
        pod=PodName(*(_text(node, "metadata", key) for key in ("namespace", "name", "uid"))),
        meaning=meaning,
        evidence=_evidence(file, status.get("reason"), f"reason: {reason}", reason),
        node=_text(node, "spec", "nodeName"),
        reason=reason,
        seconds=seconds,
        stamp=shown,
        controller=f"{_text(owner, 'kind')}/{_text(owner, 'name')}" if owner.mapping else "",
    )


def _evidence(file: str, at: Node, text: str, mark: str) -> Evidence:
    return Evidence(file, at.line, text, mark, Message("refused"))


def _text(node: Node, *keys: str) -> str:
    return node.get(*keys).text or ""
