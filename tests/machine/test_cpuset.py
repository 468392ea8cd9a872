"""CPU sets in the forms the kernel writes them, and the junk they must refuse."""

from __future__ import annotations

import copy
import pickle

import pytest

from numaware.machine.cpuset import EMPTY, MAX_ID, CpuSet, iter_bits, list_form, span_mask


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("\n", []),
        ("\x00", []),
        ("0", [0]),
        ("0\n", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        ("8,0-3", [0, 1, 2, 3, 8]),
        ("0-3,2-5", [0, 1, 2, 3, 4, 5]),
        ("7-7", [7]),
        (" 1 , 3-4 ", [1, 3, 4]),
        ("007", [7]),
        ("0-15:2/4", [0, 1, 4, 5, 8, 9, 12, 13]),
        ("1-9:1/3", [1, 4, 7]),
        ("4-10:3/5", [4, 5, 6, 9, 10]),
        ("0-3:2/2", [0, 1, 2, 3]),
        ("0-3:1/100", [0]),
        ("65535", [MAX_ID]),
    ],
)
def test_a_list_is_read_as_the_kernel_means_it(text: str, ids: list[int]) -> None:
    assert list(CpuSet.parse(text)) == ids


@pytest.mark.parametrize(
    "text",
    [
        *(
            "x",
            "0x1",
            "-1",
            "+1",
            "1-",
            "-",
            ",",
            "0,",
            ",0",
            "0,,1",
            "1--2",
            "1-2-3",
            "1 2",
            "1.5",
            "1_0",
            "all",
        ),
        *("0-3:", "0-3:2", "0-3:/2", "0-3:2/", "5:1/2", "0-3:1/2/3", "0-3:-1/2", "1234567890", "٣", "²"),
    ],
)
def test_junk_is_not_a_cpu_list(text: str) -> None:
    with pytest.raises(ValueError, match="is not a CPU list"):
        CpuSet.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3-1", "ends before it begins"),
        ("65536", "the largest id accepted is 65535"),
        ("0-999999999", "the largest id accepted is 65535"),
        ("0-7:3/2", "0 < used <= group"),
        ("0-7:0/2", "0 < used <= group"),
        ("0-7:0/0", "0 < used <= group"),
    ],
)
def test_a_list_that_cannot_be_true_says_why(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        CpuSet.parse(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", ""),
        ("ff", "0-7"),
        ("0xff", "0-7"),
        ("00000000,00000001\n", "0"),
        ("ff,00000001", "0,32-39"),
        ("1,0,0", "64"),
        ("0x00000001,0x80000000", "31-32"),
        ("ffffffffffffffff", "0-63"),
        ("0xffffffffffffffffffffffffffffffff", "0-127"),
        ("FF", "0-7"),
    ],
)
def test_a_mask_is_read_highest_word_first(text: str, expected: str) -> None:
    assert str(CpuSet.parse_hex(text)) == expected


@pytest.mark.parametrize(
    "text", ["", "0x", "g", "1,", ",1", "1,,2", "-1", "1_0", "ff 01", "1,ffffffffff", "0x0x1"]
)
def test_junk_is_not_a_mask(text: str) -> None:
    with pytest.raises(ValueError, match="is not a CPU mask"):
        CpuSet.parse_hex(text)


def test_sets_beyond_any_machine_are_refused_with_a_short_message() -> None:
    for text in ("1" + "0" * 16_384, "f," + "0," * 2_048 + "0"):
        with pytest.raises(ValueError, match="at most 65536 bits"):
            CpuSet.parse_hex(text)
    for read in (CpuSet.parse, CpuSet.parse_hex):
        with pytest.raises(ValueError, match="longer than any set") as caught:
            read("1," * 400_000)
        assert len(str(caught.value)) < 200


def test_runs_of_two_and_more_are_written_as_ranges() -> None:
    assert str(CpuSet([9, 0, 1, 2, 5, 7, 8])) == "0-2,5,7-9"
    assert str(CpuSet([0, 1])) == "0-1"
    assert str(EMPTY) == ""
    assert repr(CpuSet([0, 2])) == "CpuSet.parse('0,2')"


@pytest.mark.parametrize("number", [-1, MAX_ID + 1])
def test_a_number_that_is_no_cpu_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="is not a CPU number"):
        CpuSet([number])


def test_a_mask_out_of_range_is_refused() -> None:
    for mask in (-1, 1 << MAX_ID + 1):
        with pytest.raises(ValueError, match="non-negative number of at most 65536 bits"):
            CpuSet.from_mask(mask)


def test_a_span_holds_both_ends_and_is_empty_when_they_cross() -> None:
    assert CpuSet.from_mask(span_mask(3, 5)) == CpuSet([3, 4, 5])
    assert span_mask(5, 3) == 0
    assert span_mask(0, 0) == 1


def test_membership_takes_any_object() -> None:
    cpus = CpuSet([0, 5])
    assert 5 in cpus
    assert 1 not in cpus
    assert -1 not in cpus
    assert 10**9 not in cpus
    assert "5" not in cpus


def test_a_set_does_not_change_and_can_be_a_key() -> None:
    cpus = CpuSet([1, 2])
    with pytest.raises(AttributeError, match="does not change"):
        cpus.mask = 0
    assert {cpus: "here"}[CpuSet.parse("1-2")] == "here"
    assert cpus != "1-2"


def test_copies_and_pickles_are_equal() -> None:
    cpus = CpuSet.parse("0-3,1023")
    assert copy.deepcopy(cpus) == cpus
    assert pickle.loads(pickle.dumps(cpus)) == cpus  # noqa: S301 - our own bytes


def test_the_first_cpu_of_nothing_does_not_exist() -> None:
    assert CpuSet.parse("7,9").first() == 7
    with pytest.raises(ValueError, match="empty set"):
        EMPTY.first()


def test_the_functions_on_bare_masks_speak_the_same_language() -> None:
    assert list(iter_bits(0b1011)) == [0, 1, 3]
    assert list_form(0b1011) == "0-1,3"
