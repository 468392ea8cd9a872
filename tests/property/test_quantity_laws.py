"""Laws every quantity keeps, whatever the amount."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numaware.machine.quantity import ZERO, Quantity
from property.strategies import quantities


@given(quantities())
def test_what_is_printed_reads_back_as_the_same_amount(quantity: Quantity) -> None:
    again = Quantity.parse(str(quantity))
    assert again.nano == quantity.nano
    assert str(again) == str(quantity)


@given(quantities())
def test_rounding_goes_away_from_zero_by_less_than_one(quantity: Quantity) -> None:
    for rounded, unit in ((quantity.value, 10**9), (quantity.milli_value, 10**6)):
        assert 0 <= abs(rounded) * unit - abs(quantity.nano) < unit
        assert rounded * quantity.nano >= 0


@given(quantities(), quantities(), quantities())
def test_amounts_add_up_in_any_order(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert (a + b).nano == (b + a).nano
    assert ((a + b) + c).nano == (a + (b + c)).nano


@given(quantities())
def test_zero_changes_nothing(quantity: Quantity) -> None:
    assert ZERO + quantity == quantity
    assert (quantity + ZERO).nano == quantity.nano


@given(st.text(max_size=40) | st.from_regex(r"[+-]?[0-9.]{0,30}[eEinumkKMGTP+0-9-]{0,5}", fullmatch=True))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError:
        return
    assert abs(quantity.value) <= 2**63 - 1
    assert Quantity.parse(str(quantity)).nano == quantity.nano


@given(st.integers(0, 2**40), st.sampled_from(["Ki", "Mi", "Gi"]))
def test_a_binary_suffix_is_a_power_of_1024(number: int, suffix: str) -> None:
    power = {"Ki": 1, "Mi": 2, "Gi": 3}[suffix]
    assert Quantity.parse(f"{number}{suffix}").value == min(number * 1024**power, 2**63 - 1)


@given(st.integers(0, 10**12))
def test_thousandths_of_a_cpu_read_the_same_with_a_suffix_or_a_point(milli: int) -> None:
    whole, rest = divmod(milli, 1000)
    assert Quantity.parse(f"{whole}.{rest:03}") == Quantity.parse(f"{milli}m") == Quantity(milli * 10**6)
