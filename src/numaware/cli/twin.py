"""`numaware twin`: the model of the kubelet, asked directly and held against what real kubelets did."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Annotated, cast

import msgspec
from cyclopts import App, Parameter

from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES
from numaware.machine.words import printable
from numaware.twin.agreement import differences
from numaware.twin.recording import Recording
from numaware.twin.recording import replay as ask_twin

app = App(name="twin", help="Ask the model of the kubelet, and hold it against recorded kubelets.")

_SHOWN = 5
_WIDTH = 160
_GZIP = b"\x1f\x8b"

# Told how many bytes of the files were read.
Progress = Callable[[int], None]


class Shown(msgspec.Struct, frozen=True):
    """One place where twin and kubelet disagree."""

    id: str
    path: str
    recorded: object
    twin: object


class Tally(msgspec.Struct, rename="camel"):
    """What one file came to. `unrecorded` scenarios have no result to compare with."""

    file: str
    scenarios: int = 0
    events: int = 0
    unrecorded: int = 0
    disagreeing_scenarios: int = 0
    disagreements: int = 0
    first: list[Shown] = []


@app.command
def replay(
    files: Annotated[
        list[Path],
        Parameter(name="PATH", allow_leading_hyphen=True, help=".jsonl or .jsonl.gz; - is standard input."),
    ],
    /,
    *,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Compare with the recorded results instead of printing answers.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative="",
            show_default=False,
            help="With --check: the summary as one JSON object.",
        ),
    ] = False,
) -> int:
    """Run recorded scenarios on the twin, one per line of each file.

    A line holds {"scenario": ...} and, where a kubelet was asked, its "result":
    a machine, a kubelet configuration, and pods that come and go. The answer is
    one line {"id", "result"} per scenario, in the shape of a recorded result.

    With --check the answers are compared instead. What a kubelet leaves to
    chance (listed in the recording as unstable) does not count.

    Exit code: 0 answered, or all agree; 1 some disagree; 2 a line cannot be
    read or describes a machine that cannot exist.

    For example:

      numaware twin replay scenarios.jsonl
      numaware twin replay --check vectors/kubelet/*.jsonl.gz
    """
    with _progress(files, visible=check or not sys.stdout.isatty()) as progress:
        if not check:
            for file in files:
                for recording, answer in _answers(file, progress):
                    sys.stdout.write(_json({"id": recording.scenario.id, "result": answer}) + "\n")
            return 0
        tallies = [_compare(file, progress) for file in files]
    if as_json:
        sys.stdout.write(_json({"files": tallies}) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for tally in tallies for line in _told(tally))
    return int(any(tally.disagreements for tally in tallies))


def _answers(file: Path, progress: Progress) -> Iterator[tuple[Recording, dict[str, object]]]:
    """Each scenario of a file with the twin's answer, read as it is needed."""
    decoder = msgspec.json.Decoder(Recording)
    for number, line in enumerate(_lines(file, progress), 1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            recording = decoder.decode(line)
            answer = ask_twin(recording.scenario)
        except RecursionError:
            raise InputError(place, "nested too deeply for a scenario") from None
        except ValueError as error:
            raise InputError(place, printable(str(error), 500)) from None
        yield recording, answer


def _compare(file: Path, progress: Progress) -> Tally:
    tally = Tally(str(file))
    for recording, answer in _answers(file, progress):
        tally.scenarios += 1
        if recording.result is None:
            tally.unrecorded += 1
            continue
        tally.events += len(recording.result.comparable)
        found = differences(recording.result, answer)
        if found:
            tally.disagreeing_scenarios += 1
            tally.disagreements += len(found)
            room = _SHOWN - len(tally.first)
            tally.first += [Shown(recording.scenario.id, *difference) for difference in found[:room]]
    if tally.unrecorded == tally.scenarios:
        # Agreement with nothing must not look like agreement.
        raise InputError(str(file), "no recorded result to compare with", hint="leave out --check")
    return tally


def _told(tally: Tally) -> Iterator[str]:
    """The line a script greps for, then the first disagreements for the eye."""
    counts = f"{tally.scenarios} scenarios, {tally.events} events, {tally.disagreements} disagreements"
    if tally.disagreements:
        counts += f" in {tally.disagreeing_scenarios} scenarios"
    if tally.unrecorded:
        counts += f", {tally.unrecorded} scenarios without a result"
    yield printable(f"{tally.file}: {counts}", 1000)
    for shown in tally.first:
        recorded, twin = _around_the_difference(_json(shown.recorded), _json(shown.twin))
        yield printable(f"  {shown.id} {shown.path}", 1000)
        yield f"    recorded  {printable(recorded, 1000)}"
        yield f"    twin      {printable(twin, 1000)}"
    hidden = tally.disagreements - len(tally.first)
    if hidden:
        yield f"  and {hidden} more"


def _around_the_difference(one: str, other: str) -> tuple[str, str]:
    """Both texts, long ones cut down to where they part."""
    if max(len(one), len(other)) <= _WIDTH:
        return one, other
    parting = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    begin = max(0, parting - _WIDTH // 3)

    def cut(text: str) -> str:
        part = text[begin : begin + _WIDTH]
        return f"{'...' if begin else ''}{part}{'...' if begin + _WIDTH < len(text) else ''}"

    return cut(one), cut(other)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# Reading


def _lines(file: Path, progress: Progress) -> Iterator[bytes]:
    """The lines of a plain or compressed file; what is not one of these is an `InputError`."""
    source = str(file)
    with contextlib.ExitStack() as stack:
        raw = (
            cast("BufferedReader", sys.stdin.buffer)
            if source == "-"
            else stack.enter_context(file.open("rb"))
        )
        stream: BufferedReader | gzip.GzipFile = raw
        if raw.peek(2)[:2] == _GZIP:
            stream = stack.enter_context(gzip.GzipFile(fileobj=raw))
        while line := _next_line(stream, source):
            if raw.seekable():
                progress(raw.tell())
            yield line


def _next_line(stream: BufferedReader | gzip.GzipFile, source: str) -> bytes:
    try:
        line = stream.readline(MAX_TEXT_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(source, f"damaged gzip data: {error}") from None
    if len(line) > MAX_TEXT_BYTES:
        raise InputError(source, f"a line of more than {MAX_TEXT_BYTES >> 20} MiB, which no scenario is")
    return line


@contextlib.contextmanager
def _progress(files: Sequence[Path], *, visible: bool) -> Iterator[Progress]:
    """A bar on the terminal for the one who waits; nothing where nobody looks."""
    if not visible or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for the import
    from rich.progress import Progress as Bar  # noqa: PLC0415

    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    done = 0
    last = 0

    def moved(position: int) -> None:
        # A position that goes back is the beginning of the next file.
        nonlocal done, last
        if position < last:
            done += last
        last = position
        bar.update(task, completed=done + last)

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replaying", total=sum(sizes) or None)
        yield moved
