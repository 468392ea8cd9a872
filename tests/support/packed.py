"""Packed evidence as strangers send it: archives of files, compressed in every way, and those made to do harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def tar(files: Mapping[str, bytes]) -> bytes:
    """The files in one archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class _Pipe(io.BytesIO):
    """Where nobody can go back to, so that `zipfile` writes sizes behind the members."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError


def zipped(
    files: Mapping[str, bytes], *, deflated: bool = True, piped: bool = False, large: bool = False
) -> bytes:
    """The files in one zip archive: packed or as they are, written to a file or into a pipe, with sizes for files beyond 4 GiB."""
    buffer = _Pipe() if piped else io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as made:
        for name, content in files.items():
            with made.open(name, "w", force_zip64=large) as member:
                member.write(content)
    return buffer.getvalue()


def long_name(size: int) -> Iterator[bytes]:
    """An archive whose first header says that the name of the next member is so long, and the name, in pieces."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    yield header.tobuf(tarfile.GNU_FORMAT)
    piece = b"n" * (1 << 20)
    for _ in range(size // len(piece)):
        yield piece
    yield tarfile.TarInfo("x").tobuf() + bytes(1024)


def long_name_gz(size: int) -> bytes:
    """The same, compressed: a thousandth of it."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as made:
        for piece in long_name(size):
            made.write(piece)
    return buffer.getvalue()


def bz2_of(line: bytes, size: int) -> bytes:
    """One line again and again, up to a size, compressed to next to nothing."""
    compressor = bz2.BZ2Compressor()
    block = line * ((1 << 20) // len(line))
    return b"".join(compressor.compress(block) for _ in range(size >> 20)) + compressor.flush()
