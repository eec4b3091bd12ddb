import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.views import numerals

_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read_back(text: str) -> float:
    mantissa, _, exponent = text.replace("\u202f", "").partition("·10")
    return float(f"{mantissa}e{exponent.translate(_SUPERSCRIPTS) or 0}")


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_promises_are_never_rounded_down_nor_observations_up(value: float) -> None:
    assert read_back(numerals.at_most(value)) >= value
    assert read_back(numerals.at_least(value)) <= value
    assert read_back(numerals.at_most(value)) == pytest.approx(value, rel=1.1e-2)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01, "0.01"), (0, "0"), (24, "24"), (123456.0, "123\u202f000"), (1.5e-7, "1.5·10⁻⁷"), (None, "unknown")],
)
def test_plain_numbers(value: float | None, text: str) -> None:
    assert numerals.plain(value) == text


def test_tightness_just_below_one_is_not_shown_as_one() -> None:
    assert numerals.percent(0.99999) == "99.9 %"


def test_logarithms_beyond_any_float_are_still_shown() -> None:
    assert numerals.power_of_ten(312.4) == "10³¹³"
    assert numerals.power_of_ten(2.0) == "100"
    assert numerals.power_of_ten(-math.inf) == "0"
    assert numerals.power_of_ten(None) == "unknown"


@pytest.mark.parametrize(
    ("count", "said"), [(32.0, "1/32"), (8192, "1/8192"), (131072, "1/131 072"), (1e9, "1/10⁹"), (2.5e9, "1/(2.5·10⁹)")]
)
def test_a_part_of_many(count, said):
    assert numerals.part_of(count).replace("\u202f", " ").replace("\u00a0", " ") == said


def test_a_part_is_never_told_lighter_than_it_is():
    assert numerals.part_of(9999999.0) == numerals.part_of(9999990.0)
    assert numerals.part_of(2.5) == "1/2"
