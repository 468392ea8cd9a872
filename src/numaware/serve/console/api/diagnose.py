"""Evidence that somebody dropped on the page: one file, or a tar archive of several."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import IO, Any, TypedDict, cast

import msgspec

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import take
from numaware.diagnose.finding import Confidence, Severity, Subject
from numaware.diagnose.render.json import to_builtins
from numaware.diagnose.rules.diagnosis import findings
from numaware.diagnose.texts import Lang, label
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence

_MOST_FILES = 2000
# Of all files together, unpacked.
_MOST_BYTES = 512 << 20


class Quote(TypedDict):
    """A line of a file."""

    file: str
    line: int
    text: str


class Told(TypedDict):
    """A finding in words."""

    code: str
    severity: Severity
    subject: Subject
    title: str
    cause: str
    fix: list[str]
    evidence: list[Quote]
    confidence: Confidence
    facts: dict[str, Any]


class Evidence(msgspec.Struct, frozen=True):
    """A file, and what it was taken for, in words."""

    file: str
    kind: str


class Diagnosis(msgspec.Struct, frozen=True):
    """What `numaware diagnose --json` would write."""

    findings: tuple[Told, ...]
    files: tuple[Evidence, ...]


def diagnosed(data: bytes, name: str, lang: Lang) -> Diagnosis:
    """The findings; what cannot be read as an archive is one file."""
    bundle = Bundle()
    for file, stream in _files(data, name):
        take(bundle, file, stream)
    return Diagnosis(
        tuple(cast("Told", to_builtins(finding, lang)) for finding in findings(bundle)),
        tuple(Evidence(file, _in_words(kinds, lang)) for file, kinds in bundle.files),
    )


def _in_words(kinds: str, lang: Lang) -> str:
    """A list of kinds; those of Kubernetes' objects are names."""

    def word(kind: str) -> str:
        try:
            return label(f"kind-{kind}", lang)
        except KeyError:
            return kind

    return ", ".join(map(word, kinds.split(", ")))


def _files(data: bytes, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        archive = tarfile.open(fileobj=io.BytesIO(data))  # noqa: SIM115 - closed below; what is no archive is a file
    except (tarfile.TarError, EOFError, OSError):
        yield printable(name, 200), io.BytesIO(data)
        return
    total = 0
    with archive:
        try:
            for count, member in enumerate(archive):
                if count >= _MOST_FILES:
                    raise InputError(
                        printable(name), Sentence("holds more than {most} files", most=_MOST_FILES)
                    )
                stream = archive.extractfile(member) if member.isfile() else None
                if stream is None:
                    continue
                total += member.size
                if total > _MOST_BYTES:
                    raise InputError(
                        printable(name), Sentence("holds more than {most} MiB", most=_MOST_BYTES >> 20)
                    )
                yield printable(member.name, 200), stream
        except (tarfile.TarError, EOFError, OSError) as error:
            broken = Sentence("is a broken archive: {problem}", problem=printable(str(error)))
            raise InputError(printable(name), broken) from None
