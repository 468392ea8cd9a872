from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine.sources import KINDS, read_source


def test_a_kind_finds_its_reader() -> None:
    assert read_source("numactl", b"node 0 cpus: 1\n", "f").cpus[0].numa == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_names_the_file_it_refuses(kind: str) -> None:
    with pytest.raises(InputError, match=r"^some/file: "):
        read_source(kind, b"\x00", "some/file")


def test_an_unknown_kind_is_told_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no reader for 'dmidecode' \(known kinds: numactl, lscpu"):
        read_source("dmidecode", b"x", "f")
