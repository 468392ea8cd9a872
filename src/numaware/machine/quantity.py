"""Kubernetes quantities (`250m`, `1.5Gi`, `1e3`) as exact numbers.

Resources are decided in integers: CPUs in thousandths, everything else in units. A quantity is kept as
`value` x 10^-9 (nano, the finest the API server keeps) together with the suffix family it was written in,
because the kubelet's own messages print quantities back in that family.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, InvalidOperation
from typing import Literal, Self

import msgspec

Family = Literal["decimal", "binary", "exponent"]

_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_FORM = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]))?\Z", re.ASCII
)
_NANO = 10**9
# The API server caps a quantity at 2^63-1 units (and its negative); what is finer than a nano is rounded up.
_LARGEST = (2**63 - 1) * _NANO
# Enough digits that no arithmetic on an accepted text is ever rounded behind our back.
_EXACT = Context(prec=400, Emax=10_000, Emin=-10_000)


class Quantity(msgspec.Struct, frozen=True, order=False):
    """An exact amount in nano-units, and the family of suffixes it is written with."""

    nano: int
    family: Family = "decimal"

    @classmethod
    def parse(cls, text: str | float) -> Self:
        """Read any form the API server takes; YAML may also hand us a bare number."""
        if isinstance(text, bool):
            raise ValueError(f"{text!r} is not a quantity")  # noqa: TRY004 - bad input, one error type
        written = str(text).strip() if isinstance(text, int | float) else text
        match = _FORM.match(written) if len(written) <= 128 else None
        if match is None or not (match[2] or match[3]):
            raise ValueError(
                f"{written[:60]!r} is not a quantity (expected a form such as 2, 500m, 1.5Gi or 1e3)"
            )
        sign, whole, fraction, exponent, suffix = match.groups()
        digits = Decimal(f"{sign}{whole or '0'}.{fraction or '0'}")
        if suffix in _BINARY:
            family: Family = "binary"
            scaled = _EXACT.multiply(digits, Decimal(1 << _BINARY[suffix]))
        else:
            family = "exponent" if exponent else "decimal"
            power = int(exponent[1:]) if exponent else _DECIMAL[suffix or ""]
            scaled = digits.scaleb(power, _EXACT)
        try:
            nano = int(_EXACT.multiply(scaled, Decimal(_NANO)).quantize(Decimal(1), ROUND_UP, _EXACT))
        except InvalidOperation:
            nano = _LARGEST if digits > 0 else -_LARGEST
        return cls(max(-_LARGEST, min(_LARGEST, nano)), family)

    @classmethod
    def of(cls, units: int, family: Family = "decimal") -> Self:
        """A whole number of units."""
        return cls(units * _NANO, family)

    @classmethod
    def milli(cls, thousandths: int) -> Self:
        return cls(thousandths * 10**6)

    @property
    def value(self) -> int:
        """Whole units, rounded up (away from zero): what the kubelet calls Value()."""
        return _round_up(self.nano, _NANO)

    @property
    def milli_value(self) -> int:
        """Thousandths, rounded up (away from zero): what the kubelet calls MilliValue()."""
        return _round_up(self.nano, 10**6)

    def __add__(self, other: Quantity) -> Quantity:
        # KUBELET: a sum that starts at zero takes the family of its first non-zero addend (resource.Quantity.Add).
        family = other.family if self.nano == 0 else self.family
        return Quantity(self.nano + other.nano, family)

    def __str__(self) -> str:
        """The canonical form: the largest suffix of the family that leaves a whole number."""
        if self.family == "binary" and abs(self.nano) >= 1024 * _NANO and self.nano % _NANO == 0:
            number, suffix = self.nano // _NANO, ""
            for name in _BINARY:
                if number % 1024:
                    break
                number, suffix = number // 1024, name
            return f"{number}{suffix}"
        number, power = self.nano, -9
        while number and power < 18 and number % 1000 == 0:
            number, power = number // 1000, power + 3
        if number == 0 or (power == 0):
            return str(number)
        if self.family == "exponent":
            return f"{number}e{power}"
        return f"{number}{_suffix(power)}"


ZERO = Quantity(0)


def _suffix(power: int) -> str:
    return next(name for name, exponent in _DECIMAL.items() if exponent == power)


def _round_up(number: int, divisor: int) -> int:
    magnitude = -(-abs(number) // divisor)
    return magnitude if number >= 0 else -magnitude
