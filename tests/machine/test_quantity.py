"""Quantities against a recording of Kubernetes' own, and at the borders where we refuse to follow it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from numaware.machine.quantity import ZERO, Family, Quantity

RECORDING = Path(__file__).parents[1] / "vectors" / "quantity" / "quantity.jsonl.gz"
FAMILIES: dict[str, Family] = {"DecimalSI": "decimal", "BinarySI": "binary", "DecimalExponent": "exponent"}
INT64 = 2**63 - 1
LARGEST = INT64 * 10**9


class Parsed(msgspec.Struct):
    """What Kubernetes made of one text; `error` alone when it refused."""

    text: str
    error: str = ""
    format: str = ""
    string: str = ""
    canonical: str = ""
    nano: str = ""
    value: int = 0
    milli: int = 0
    form: Literal["int64", "dec", ""] = ""

    @property
    def accepted(self) -> bool:
        """Understood by Kubernetes and small enough for its own arithmetic."""
        return not self.error and abs(int(self.nano)) <= LARGEST


class Sum(msgspec.Struct):
    a: str
    b: str
    sum: str
    nano: str
    format: str
    cmp: int


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return gzip.decompress(RECORDING.read_bytes()).splitlines()


@pytest.fixture(scope="module")
def texts(lines: list[bytes]) -> list[Parsed]:
    return [msgspec.json.decode(line, type=Parsed) for line in lines if b'"text":' in line]


@pytest.fixture(scope="module")
def sums(lines: list[bytes]) -> list[Sum]:
    return [msgspec.json.decode(line, type=Sum) for line in lines if b'"sum":' in line]


def parsed_or_none(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except ValueError:
        return None


def test_the_recording_is_whole(texts: list[Parsed], sums: list[Sum]) -> None:
    assert (len(texts), len(sums)) == (3534, 1800)
    assert 2600 < sum(case.accepted for case in texts) < 2700


def test_what_kubernetes_refuses_or_cannot_count_is_refused_and_nothing_else(texts: list[Parsed]) -> None:
    wrong = [case.text for case in texts if (parsed_or_none(case.text) is not None) != case.accepted]
    assert wrong == []


def test_amount_family_and_canonical_form_are_those_of_kubernetes(texts: list[Parsed]) -> None:
    for case in filter(lambda case: case.accepted, texts):
        ours = Quantity.parse(case.text)
        assert (str(ours.nano), ours.family, str(ours)) == (
            case.nano,
            FAMILIES[case.format],
            case.canonical,
        ), case
        # A text that Kubernetes takes for canonical is echoed as typed; any other prints as ours.
        assert case.string in (str(ours), case.text), case


def test_value_and_milli_value_are_those_of_kubernetes(texts: list[Parsed]) -> None:
    compared = 0
    for case in filter(lambda case: case.accepted, texts):
        ours = Quantity.parse(case.text)
        if ours.nano < 0 and case.form == "dec":
            continue
        assert ours.value == case.value, case
        if abs(ours.milli_value) <= INT64:
            assert ours.milli_value == case.milli, case
            compared += 1
    assert compared > 2300


def test_sums_and_order_are_those_of_kubernetes(sums: list[Sum]) -> None:
    for case in sums:
        a, b = Quantity.parse(case.a), Quantity.parse(case.b)
        total = a + b
        assert (str(total), str(total.nano), total.family) == (case.sum, case.nano, FAMILIES[case.format]), (
            case
        )
        assert (a.nano > b.nano) - (a.nano < b.nano) == case.cmp, case


@pytest.mark.parametrize("text", ["9223372036854775808", "10E", "1e19", "-1e19", "1e999"])
def test_a_decimal_amount_beyond_64_bits_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"more than 2\^63-1"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1e1000", "1e-1000", "0e4294967296", "1e99999999999999999999999"])
def test_an_exponent_beyond_reason_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="exponent beyond 999"):
        Quantity.parse(text)


def test_a_text_beyond_reason_is_refused_and_not_quoted_in_full() -> None:
    with pytest.raises(ValueError, match="is not a quantity") as caught:
        Quantity.parse("9" * 1_000_000)
    assert len(str(caught.value)) < 200


def test_a_message_says_what_a_quantity_looks_like() -> None:
    with pytest.raises(ValueError, match=r"'1 GB' is not a quantity \(expected a form such as 2, 500m"):
        Quantity.parse("1 GB")


@pytest.mark.parametrize(
    ("number", "canonical"),
    [
        (2, "2"),
        (0, "0"),
        (-3, "-3"),
        (4096, "4096"),
        (0.5, "500m"),
        (-0.0, "0"),
        (1000.0, "1k"),
        (0.00001, "10u"),  # Python would write 1e-05, Go writes 0.00001 and so keeps the decimal family
        (0.000001, "1u"),
        (0.0000005, "500e-9"),  # here Go writes an exponent as well
        (1e16, "10P"),
    ],
)
def test_a_bare_yaml_number_prints_as_it_would_after_the_api_server(number: float, canonical: str) -> None:
    assert str(Quantity.parse(number)) == canonical


@pytest.mark.parametrize("thing", [True, False, float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_quantity(thing: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.parse(thing)


def test_quantities_can_be_made_from_whole_units() -> None:
    assert str(Quantity.of(3 << 30, "binary")) == "3Gi"
    assert str(Quantity.of(1500)) == "1500"
    assert str(sum((Quantity.of(2048, "binary"), Quantity.of(1)), start=ZERO)) == "2049"


def test_sums_may_grow_past_64_bits() -> None:
    most = Quantity.parse("8Ei")
    assert (most + most).value == 2 * INT64
    assert str(Quantity.of(1 << 80, "binary")) == "1048576Ei"
