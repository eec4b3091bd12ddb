import math

import pytest

from robust_attn.report.trends import positive, slope


def test_the_slope_of_a_power_law_is_its_exponent() -> None:
    pairs = [(math.log(n), math.log(3 * n**0.5)) for n in (2, 8, 32, 64)]
    exponent, error = slope(pairs)
    assert exponent == pytest.approx(0.5)
    assert error == pytest.approx(0.0, abs=1e-12)


def test_the_standard_error_is_that_of_least_squares() -> None:
    exponent, error = slope([(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)])
    assert exponent == pytest.approx(0.5)
    assert error == pytest.approx(math.sqrt(1.5 / 2))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "bert", "[0,5]", ""])
def test_only_positive_finite_numbers_have_a_place_on_a_log_axis(text: str) -> None:
    assert positive(text) is None
