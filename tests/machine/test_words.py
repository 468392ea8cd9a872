from __future__ import annotations

import pytest

from numaware.machine.cpuset import CpuSet
from numaware.machine.words import count, cpu_list, id_list, printable, size, vendor


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1280 << 10, "1280 KiB"),
        (32 << 20, "32 MiB"),
        (64 << 30, "64 GiB"),
        (1536 << 30, "1536 GiB"),
        (2 << 40, "2 TiB"),
        ((64 << 30) - (3 << 20), "64 GiB"),
        (131_893_248 << 10, "125.8 GiB"),
        ((2 << 40) - (40 << 30) - 4096, "2008 GiB"),
        (-(32 << 20), "-32 MiB"),
    ],
)
def test_a_size_is_said_in_the_unit_people_use(amount: int, said: str) -> None:
    assert size(amount) == said


def test_one_is_singular() -> None:
    assert [count(1, "core"), count(2, "core"), count(2, "box", "boxes")] == ["1 core", "2 cores", "2 boxes"]


def test_a_long_regular_list_is_shown_by_its_beginning_and_end() -> None:
    assert cpu_list(CpuSet(range(0, 128, 2))) == "0,2,4,…,126"


def test_a_long_irregular_list_is_shown_in_full() -> None:
    irregular = CpuSet([*range(0, 20, 2), 31])
    assert cpu_list(irregular) == str(irregular)


def test_numbers_beyond_cpu_ids_can_be_listed() -> None:
    assert id_list([196_611, 3, 2, 1, 3]) == "1-3,196611"


def test_an_unknown_maker_keeps_its_id() -> None:
    assert [vendor("10DE"), vendor("abcd")] == ["NVIDIA", "abcd"]


def test_text_from_a_capture_cannot_command_a_terminal() -> None:
    shown = printable("eth0\x1b[31m\u202e\ud800\n" + "x" * 300)
    assert shown.isprintable()
    assert len(shown) == 201
