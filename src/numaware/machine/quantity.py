"""Kubernetes quantities (`250m`, `1.5Gi`, `1e3`) as exact integers.

A quantity is a whole number of nano-units, the finest grain Kubernetes keeps, together with the family of
suffixes it was written in, because sums and messages are printed back in that family. The rules are those of
`resource.Quantity` (apimachinery pkg/api/resource, v0.35), checked against a recording of it.

Three things are refused that Kubernetes lets through. A decimal amount above 2^63-1 units, because its Value() is
overflow garbage there (`10E` counts as 0). An exponent beyond 999 and a text of more than 128 characters, to bound
the work: here we do differ, for Kubernetes reads `1e-1000` as one nano and skips any number of leading zeros.
"""

from __future__ import annotations

import re
from typing import Literal, Self

import msgspec

from numaware.sentence import Sentence

Family = Literal["decimal", "binary", "exponent"]

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# The exponent comes first: `1E3` is a thousand, while a bare `1E` is an exa.
_FORM = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE]?))")
_NANO = 10**9
_LARGEST = (2**63 - 1) * _NANO
_MAX_EXPONENT = 999
_MAX_LENGTH = 128


class Quantity(msgspec.Struct, frozen=True, order=False):
    """An exact amount in nano-units, and the family of suffixes it is written with.

    `1Ki` and `1024` are the same amount but print differently, so they are different values: compare
    amounts by `nano`.
    """

    nano: int
    family: Family = "decimal"

    @classmethod
    def parse(cls, text: str | float) -> Self:
        """Read a quantity as the API server does; YAML may also hand us a bare number.

        Blanks around the text are refused here: trimming them is the business of the JSON decoder.
        """
        if isinstance(text, bool):
            raise ValueError(Sentence("{text!r} is not a quantity", text=text))  # noqa: TRY004 - bad input, one error type
        written = text if isinstance(text, str) else repr(text)
        match = _FORM.fullmatch(written) if 0 < len(written) <= _MAX_LENGTH else None
        if match is None:
            raise _not_a_quantity(written)
        sign, whole, fraction, exponent, suffix = match.groups()
        power = int(exponent) if exponent else _DECIMAL.get(suffix, 0)
        shift = _BINARY.get(suffix, 0)
        family: Family = "binary" if shift else "decimal"
        # A bare number reaches the API server as Go prints it, with an exponent only below 1e-6.
        if exponent and (isinstance(text, str) or power < -6):
            family = "exponent"
        # KUBELET: a missing number counts as zero (`m`, `Ki`), but not where the slower of the two scanners of
        # resource.ParseQuantity takes over.
        if not (whole or fraction) and (shift >= 50 or power < -9):
            raise _not_a_quantity(written)
        if abs(power) > _MAX_EXPONENT:
            raise ValueError(
                Sentence("{text!r} has an exponent beyond {most}", text=written[:60], most=_MAX_EXPONENT)
            )
        nano = _times_power_of_ten(int(f"0{whole}{fraction}") << shift, power - len(fraction) + 9)
        # KUBELET: only the binary family is capped, and only it gives way to decimals below one unit.
        if nano > _LARGEST and family != "binary":
            raise ValueError(
                Sentence("{text!r} is more than 2^63-1, the most Kubernetes can count", text=written[:60])
            )
        if 0 < nano < _NANO and family == "binary":
            family = "decimal"
        nano = min(nano, _LARGEST)
        return cls(-nano if sign == "-" else nano, family)

    @classmethod
    def of(cls, units: int, family: Family = "decimal") -> Self:
        """A whole number of units."""
        return cls(units * _NANO, family)

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero): what the kubelet calls Value()."""
        return _divide_away_from_zero(self.nano, _NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded up (away from zero): what the kubelet calls MilliValue()."""
        return _divide_away_from_zero(self.nano, 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        # KUBELET: a sum that starts at zero takes the family of what is added to it (resource.Quantity.Add).
        return Quantity(self.nano + other.nano, self.family if self.nano else other.family)

    def __str__(self) -> str:
        """The canonical form: the largest suffix of the family that leaves a whole number.

        Kubernetes calls it canonical as well, yet echoes some texts as they were typed (`+1`, `1.500`).
        """
        if self.family == "binary" and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            number, times = _factor_out(1024, self.nano // _NANO, len(_BINARY))
            return f"{number}{['', *_BINARY][times]}"
        number, times = _factor_out(1000, self.nano, len(_DECIMAL) - 1)
        power = 3 * times - 9
        if number == 0 or power == 0:
            return str(number)
        return f"{number}e{power}" if self.family == "exponent" else f"{number}{list(_DECIMAL)[times]}"


ZERO = Quantity(0)


def _not_a_quantity(text: str) -> ValueError:
    problem = Sentence(
        "{text!r} is not a quantity (expected a form such as 2, 500m, 1.5Gi or 1e3)", text=text[:60]
    )
    return ValueError(problem)


def _times_power_of_ten(number: int, power: int) -> int:
    """Rounded up, as `resource.ParseQuantity` does: what is asked for never becomes nothing."""
    return number * 10**power if power >= 0 else _divide_away_from_zero(number, 10**-power)


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _factor_out(base: int, number: int, limit: int) -> tuple[int, int]:
    """Divide by `base` as often as it goes without a rest, at most `limit` times; say how often it went."""
    times = 0
    while number and times < limit and number % base == 0:
        number, times = number // base, times + 1
    return number, times
