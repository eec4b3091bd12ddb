"""Numbers out of records, and numbers as people read them: promises rounded up, observations rounded down."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

UNKNOWN = "unknown"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LARGEST_EXPONENT = 300.0


def plain(value: float | None, digits: int = 3) -> str:
    """`value` to `digits` significant digits, without trailing zeros."""
    return _rounded(value, digits, ROUND_HALF_EVEN, padded=False)


def at_most(value: float | None, digits: int = 3) -> str:
    """`value` rounded up, so that what is printed is still an upper bound."""
    return _rounded(value, digits, ROUND_CEILING)


def at_least(value: float | None, digits: int = 3) -> str:
    """`value` rounded down, so that what is printed was really reached."""
    return _rounded(value, digits, ROUND_FLOOR)


def power_of_ten(log10: float | None) -> str:
    """An upper value known by its logarithm alone, which may be far beyond any float; rounded up."""
    if log10 is None:
        return UNKNOWN
    if log10 == -math.inf:
        return "0"
    if abs(log10) < _LARGEST_EXPONENT:
        return at_most(10.0**log10)
    return "10" + str(math.ceil(log10)).translate(_SUPERSCRIPTS)


def multiple(value: float | None) -> str:
    """A ratio as "1 234 ×"."""
    return UNKNOWN if value is None else f"{plain(value)} ×"


def percent(ratio: float | None) -> str:
    """A ratio as a percentage, rounded down: 99.97 % is never shown as 100 %."""
    return UNKNOWN if ratio is None else f"{at_least(ratio * 100)} %"


def percent_at_most(ratio: float | None) -> str:
    """A ratio as a percentage, rounded up: a limit as a share of something."""
    return UNKNOWN if ratio is None else f"{at_most(ratio * 100)} %"


def part_of(count: float) -> str:
    """One of so many, as "1/8192"; the number rounded down, so that no lighter part is spoken of."""
    unit = 10.0 ** max(0, math.floor(math.log10(count)) - 5)
    least = math.floor(count / unit) * unit
    whole = tick(least) if math.log10(least) == round(math.log10(least)) else plain(least, 6)
    return f"1/({whole})" if "·" in whole else f"1/{whole}"


def tick(value: float) -> str:
    """A short label for a mark on an axis."""
    exponent = math.log10(abs(value)) if value else 0.0
    if abs(exponent) >= 4 and exponent == round(exponent):
        return "10" + str(round(exponent)).translate(_SUPERSCRIPTS)
    return plain(value)


def _rounded(value: float | None, digits: int, rounding: str, *, padded: bool = True) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0"
    short = Decimal(repr(float(value))).normalize(Context(prec=digits, rounding=rounding))
    exponent = short.adjusted()
    if -4 <= exponent < 6:
        return _grouped(_padded(short, digits) if padded else short)
    mantissa = short.scaleb(-exponent)
    shown = _padded(mantissa, digits) if padded else mantissa.normalize()
    return f"{shown:f}·10{str(exponent).translate(_SUPERSCRIPTS)}"


def _padded(value: Decimal, digits: int) -> Decimal:
    """With the zeros that say how many digits are meant: columns of numbers line up."""
    last = min(0, value.adjusted() - digits + 1)
    return value.quantize(Decimal(1).scaleb(last))


def _grouped(value: Decimal) -> str:
    """Thousands separated by thin non-breaking spaces, from five digits on."""
    text = f"{value:f}"
    whole, point, rest = text.partition(".")
    if len(whole.lstrip("-")) > 4:
        whole = f"{int(whole):,}".replace(",", "\u202f")
    return whole + point + rest
