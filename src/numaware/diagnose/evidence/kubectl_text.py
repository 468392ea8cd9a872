"""What kubectl prints for people: `describe pod`, `get events`, `get pods`, and error texts quoted alone.

Columns are aligned by blanks whose number nobody keeps when pasting, so a row is known by its words: a type, a reason,
an age, a source. A row that holds none of the kubelet's sentences is not a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from numaware.diagnose.evidence.bundle import Attempt
from numaware.diagnose.evidence.logs.seen import PodName
from numaware.diagnose.evidence.refusal_messages import UNEXPECTED, refusal
from numaware.diagnose.finding import Evidence, Message

# Larger texts are logs, and no person's paste.
MOST_BYTES = 8 << 20

_AGE = r"(?:<unknown>|<invalid>|\d[\w.]{0,12})(?: \(x(?P<times>\d{1,9}) over [^)]{1,16}\))?"
_DESCRIBED = re.compile(
    rf"\s*Warning\s+(?P<reason>[A-Z]\w{{2,80}})\s+(?:{_AGE}\s+)?kubelet(?:, (?P<node>[\w.-]{{1,253}}))?\s+(?P<message>\S.*)"
)
_LISTED = re.compile(
    rf"(?:(?P<space>[a-z0-9-]{{1,63}})\s+)?{_AGE}\s+Warning\s+(?P<reason>[A-Z]\w{{2,80}})\s+pod/(?P<name>[\w.-]{{1,253}})\s+"
    r"(?P<message>\S.*)"
)
_SOURCE = re.compile(r"kubelet, ([\w.-]{1,253})")
_PODS = re.compile(
    r"(?:(?P<space>[a-z0-9-]{1,63})\s+)?(?P<name>[a-z0-9][\w.-]{0,252})\s+\d{1,3}/\d{1,3}\s+"
    r"(?P<reason>TopologyAffinityError|SMTAlignmentError|UnexpectedAdmissionError|OutOf[\w./-]{1,80})\s+\d{1,6}"
    r"(?: \([^)]{1,20}\))?\s+\d\w{0,12}(?:\s+\S{1,64}\s+(?P<node>[\w.-]{1,253}))?"
)
# A sentence by itself, perhaps behind a key or quoted; not one in the middle of somebody's prose.
_ALONE = re.compile(
    r"\s*(?:-\s*)?(?:[\"']?[\w-]{1,40}[\"']?:\s*)?[\"'`]?(?:Pod was rejected: |Pod )?(?=SMT Alignment Error: |Allocate failed due to |"
    r"Resources cannot be allocated with Topology locality|Update plugin resources failed due to |Node didn't have enough )"
)
# Words of which every line of interest has one.
_WORTH = re.compile(
    r"Warning|Error|OutOf|kubectl|Successfully assigned|failed due to|Topology locality|didn't have|"
    r"^(?:Name|Namespace|Node|Status|Reason|Message|Controlled By|UID):"
)
_HEADER = re.compile(r"(Name|Namespace|Node|Status|Reason|Message|Controlled By|UID):\s+(\S.*?)\s*\Z")
# Who a description without its head is about: the prompt before it, or the scheduler's event in it.
_PROMPT = re.compile(r"\S*[$#] kubectl .{0,80}describe pods? (?P<name>[\w.-]{1,253})")
_ASSIGNED = re.compile(
    r"Successfully assigned (?P<space>[\w.-]{1,253})/(?P<name>[\w.-]{1,253}) to (?P<node>[\w.-]{1,253})"
)
_KLOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d|\"?(?:ts|MESSAGE)\"?\s*:")


def read(text: str, file: str) -> Iterator[Attempt]:
    """The refusals in a text, with what its headers say of the pod that is described."""
    described: dict[str, str] = {}
    headed = 0
    refused = False
    for number, line in enumerate(text.splitlines(), 1):
        if not _WORTH.search(line[:8_000]):
            continue
        header = _HEADER.match(line[:2_000])
        if header:
            if header[1] == "Name":
                yield from _from_header(described, file, headed, refused)
                described, headed, refused = {}, number, False
            if header[1] in ("Reason", "Message", "Status"):
                headed = number
            described.setdefault(header[1], header[2])
            continue
        named = _PROMPT.match(line[:400]) or _ASSIGNED.search(line[:2_000])
        if named:
            about = named.groupdict()
            for key, group in (("Name", "name"), ("Namespace", "space"), ("Node", "node")):
                if about.get(group):
                    described.setdefault(key, about[group])
        attempt = _row(line[:8_000], number, file, described)
        if attempt is not None:
            refused = True
            yield attempt
    yield from _from_header(described, file, headed, refused)


def _row(line: str, number: int, file: str, described: dict[str, str]) -> Attempt | None:
    if _KLOG.search(line):
        return None
    match = _DESCRIBED.match(line) or _LISTED.match(line) or _PODS.match(line)
    if match is None:
        alone = _ALONE.match(line)
        return _attempt(file, number, line, line[alone.end() :], described) if alone else None
    said = {name: text for name, text in match.groupdict().items() if text}
    message = said.pop("message", "")
    source = _SOURCE.search(message)
    if source:
        said.setdefault("node", source[1])
    return _attempt(file, number, line, message, described if match.re is _DESCRIBED else {}, **said)


def _attempt(
    file: str,
    number: int,
    line: str,
    message: str,
    described: dict[str, str],
    *,
    reason: str = "",
    name: str = "",
    space: str = "",
    node: str = "",
    times: str = "1",
) -> Attempt | None:
    meaning = refusal(message, reason)
    if meaning is None:
        return None
    # The reason says it all, unless it is the one for everything unexpected.
    mark = reason if reason in line and reason not in ("", UNEXPECTED) else meaning.quote
    return Attempt(
        pod=PodName(space or described.get("Namespace", ""), name or described.get("Name", "")),
        meaning=meaning,
        evidence=Evidence(file, number, line.strip(), mark, Message("refused")),
        node=node or described.get("Node", "").partition("/")[0].replace("<none>", ""),
        reason=reason,
        count=int(times),
        controller=described.get("Controlled By", ""),
    )


def _from_header(described: dict[str, str], file: str, number: int, refused: bool) -> Iterator[Attempt]:
    """A described pod that failed, where its events are gone."""
    if refused or described.get("Status") != "Failed" or "Reason" not in described:
        return
    line = f"Reason: {described['Reason']}"
    message = described.get("Message", "").removeprefix("Pod was rejected: ").removeprefix("Pod ")
    attempt = _attempt(file, number, line, message, described, reason=described["Reason"])
    if attempt is not None:
        yield attempt
