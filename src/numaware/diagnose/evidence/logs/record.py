"""One line of a log, whoever wrapped it: journald, syslog, a container runtime, a JSON exporter, or nobody.

The kubelet's own line inside is klog text (`I0815 22:24:53.410301  102192 policy_static.go:522] ...`) or klog JSON
(`{"ts":...,"caller":...,"msg":...}`).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from numaware.diagnose.evidence.logs import keyvalues

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KLOG = re.compile(
    r"([IWEF])(\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(\.\d{1,9})?\s+(\d{1,10})\s+([\w./@-]{1,120}):(\d{1,6})\] ?"
)
# `Aug 15 22:24:53 node7 kubelet[102192]: `, its variants with a year or fractions, and the program alone.
_JOURNAL = re.compile(
    r"(?:(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?|\d{4}-\d\d-\d\d[T ][\d:.,+-]{8,24}Z?)\s+"
    r"([\w.-]{1,253})\s+)?([\w.@/-]{1,64})\[\d{1,10}\]: "
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)([.,]\d{1,9})?")
_SYSLOG = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(\.\d{1,9})?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
# The lines of k3s and RKE2 themselves, between those of the kubelet inside them.
_LOGRUS = re.compile(r'time="([^"]{1,40})" level=(\w{1,10}) msg="(.{0,8000})"')
# Where exporters put the line they carry.
_CARRIERS = ("MESSAGE", "message", "log", "line", "textPayload")
_MOST_WRAPPERS = 4


class Record(msgspec.Struct, frozen=True):
    """What one line says. `seconds` count within a year (klog knows no year); `stamp` is the time as people write it."""

    file: str
    line: int
    text: str
    message: str
    # The pairs behind the message: as they stand in the line, or as JSON gave them.
    rest: str | dict[str, Any] = ""
    node: str = ""
    level: str = ""
    source: str = ""
    seconds: float | None = None
    stamp: str = ""
    structured: bool = False

    @property
    def fields(self) -> dict[str, Any]:
        """The values by key; taken apart only when somebody asks, since most messages are not known."""
        return keyvalues.pairs(self.rest) if isinstance(self.rest, str) else self.rest


def read(file: str, line: int, raw: bytes) -> Record:
    """Take a line apart as far as it can be; what cannot is message."""
    text = _ESCAPES.sub("", raw.decode("utf-8", "replace")).strip()
    inner, node, time = text, "", ""
    for _ in range(_MOST_WRAPPERS):
        stripped, host, stamp = _unwrap(inner)
        if stripped == inner:
            break
        inner, node, time = stripped, host or node, stamp or time
    if inner.startswith("{"):
        fields = _json_object(inner)
        if isinstance(fields.get("msg"), str):
            return _from_json(file, line, text, node, fields)
    return _from_text(file, line, text, inner, node, time)


def _unwrap(text: str) -> tuple[str, str, str]:
    """The line inside a wrapper, the host and the time the wrapper names; the text itself where there is none."""
    if text.startswith("{"):
        fields = _json_object(text)
        payload = fields.get("jsonPayload")
        if isinstance(payload, dict):
            fields = {**fields, **payload}
        host = fields.get("_HOSTNAME") or fields.get("hostname") or fields.get("host") or ""
        for name in _CARRIERS:
            if isinstance(fields.get(name), str) and "msg" not in fields:
                return (
                    fields[name].strip(),
                    host if isinstance(host, str) else "",
                    str(fields.get("time", "")),
                )
        return text, "", ""
    journal = _JOURNAL.match(text)
    if journal:
        return text[journal.end() :].lstrip(), journal[1] or "", text[: journal.start(2)].strip()
    # A container runtime's line: time, stream, partial or full.
    parts = text.split(" ", 3)
    if len(parts) == 4 and parts[1] in ("stdout", "stderr") and parts[2] in ("F", "P"):
        return parts[3], "", parts[0]
    return text, "", ""


def _json_object(text: str) -> dict[str, Any]:
    parsed = keyvalues.parsed_json(text)
    return parsed if isinstance(parsed, dict) else {}


def _from_json(file: str, line: int, text: str, node: str, given: dict[str, Any]) -> Record:
    """Klog's JSON: milliseconds since 1970, an object where text has `namespace/name`."""
    stamp, seconds = "", None
    milliseconds = given.get("ts")
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        seconds = float(milliseconds) / 1000 if abs(milliseconds) < 1e15 else None
    elif isinstance(milliseconds, str):
        seconds, stamp = seconds_of(milliseconds)
    fields = {
        key: _named(value) for key, value in given.items() if key not in ("ts", "caller", "msg", "v", "level")
    }
    return Record(
        file=file,
        line=line,
        text=text,
        message=given["msg"],
        rest=fields,
        node=node,
        level="E" if "err" in given else "I",
        source=str(given.get("caller", "")).rpartition("/")[2].partition(":")[0],
        seconds=seconds,
        stamp=stamp,
        structured=True,
    )


def _named(value: Any) -> Any:
    if (
        isinstance(value, dict)
        and value.keys() <= {"name", "namespace"}
        and isinstance(value.get("name"), str)
    ):
        namespace = value.get("namespace")
        return f"{namespace}/{value['name']}" if namespace else value["name"]
    return value


def _from_text(file: str, line: int, text: str, inner: str, node: str, time: str) -> Record:
    header = _KLOG.search(inner, 0, 400)
    if header is None and (logrus := _LOGRUS.match(inner)):
        seconds, stamp = seconds_of(logrus[1])
        level = "E" if logrus[2] in ("error", "fatal", "panic") else "I"
        said = logrus[3].replace('\\"', '"')
        return Record(file, line, text, said, node=node, level=level, seconds=seconds, stamp=stamp)
    if header is None:
        seconds, stamp = seconds_of(time)
        # People cut off what stands before the message, too.
        bare = inner.startswith('"') and "=" in inner
        message, rest = keyvalues.message(inner) if bare else (inner, "")
        return Record(file, line, text, message, rest, node, seconds=seconds, stamp=stamp, structured=bare)
    level, month, day, hour, minute, second, fraction, _, source, _ = header.groups()
    body = inner[header.end() :]
    message, rest = keyvalues.message(body)
    return Record(
        file=file,
        line=line,
        text=text,
        message=message,
        rest=rest,
        node=node,
        level=level,
        source=source.rpartition("/")[2],
        seconds=_seconds(int(month), int(day), int(hour), int(minute), float(second + (fraction or ""))),
        stamp=f"{month}-{day} {hour}:{minute}:{second}",
        structured=body.startswith('"'),
    )


def seconds_of(text: str) -> tuple[float | None, str]:
    """Seconds within the year and the time as written, from a wrapper's own stamp."""
    iso = _ISO.match(text)
    if iso:
        fraction = float((iso[7] or ".0").replace(",", "."))
        at = _seconds(int(iso[2]), int(iso[3]), int(iso[4]), int(iso[5]), int(iso[6]) + fraction)
        return at, f"{iso[1]}-{iso[2]}-{iso[3]} {iso[4]}:{iso[5]}:{iso[6]}"
    syslog = _SYSLOG.match(text)
    if syslog and syslog[1] in _MONTHS:
        month = _MONTHS.index(syslog[1]) + 1
        at = _seconds(month, int(syslog[2]), int(syslog[3]), int(syslog[4]), float(syslog[5]))
        return at, f"{month:02}-{int(syslog[2]):02} {syslog[3]}:{syslog[4]}:{syslog[5]}"
    return None, ""


def _seconds(month: int, day: int, hour: int, minute: int, second: float) -> float | None:
    if not 1 <= month <= 12:
        return None
    return float((_DAYS_BEFORE[month - 1] + day) * 86_400 + hour * 3_600 + minute * 60) + second
