import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.views.fit import power_law


def test_two_series_by_hand():
    """Slopes 0.4 and 0.6: mean 0.5; s = 0.1414, s/sqrt(2) = 0.1, t(0.975, 1) = 12.706: 0.5 +- 1.2706."""
    law = power_law((series, n, n**slope) for series, slope in ((0, 0.4), (1, 0.6)) for n in (4, 16, 64))
    assert law.exponent == pytest.approx(0.5)
    assert law.interval == pytest.approx((0.5 - 1.2706, 0.5 + 1.2706), abs=1e-4)
    assert law.series == 2


def test_least_squares_within_a_series_by_hand():
    """log2: (1, 0), (2, 2), (3, 1): slope (-1 * -1 + 0 + 1 * 0) / 2 = 1/2."""
    assert power_law([(0, 2, 1.0), (0, 4, 4.0), (0, 8, 2.0)]).exponent == pytest.approx(0.5)


@given(exponent=st.floats(-2, 2), factor=st.floats(0.01, 100), other=st.floats(0.01, 100))
def test_a_factor_per_series_does_not_matter(exponent, factor, other):
    law = power_law((s, n, c * n**exponent) for s, c in ((0, factor), (1, other)) for n in (2, 4, 8))
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    assert law.interval == pytest.approx((exponent, exponent), abs=1e-6)


def test_one_series_has_no_interval_and_one_size_no_exponent():
    law = power_law([(0, 2, 1.0), (0, 4, 2.0)])
    assert law.exponent == pytest.approx(1.0)
    assert law.interval is None
    assert power_law([(0, 2, 1.0), (1, 2, 2.0)]).exponent is None


def test_what_is_missing_or_not_positive_is_left_out():
    law = power_law([(0, 2, 1.0), (0, 4, 2.0), (0, 8, None), (0, 16, 0.0), (1, 2, None)])
    assert law.exponent == pytest.approx(1.0)
    assert law.series == 1


def test_the_interval_covers_as_often_as_it_says():
    """2000 fits to ten windows with their own slopes around 0.25: 95 % of the intervals hold it, give or take 1.5 %."""
    import random

    draw = random.Random(0)
    hits = 0
    for _ in range(2000):
        slopes = [draw.gauss(0.25, 0.1) for _ in range(10)]
        law = power_law((s, n, math.exp(slope * math.log(n))) for s, slope in enumerate(slopes) for n in (4, 64))
        hits += law.interval[0] <= 0.25 <= law.interval[1]
    assert hits / 2000 == pytest.approx(0.95, abs=0.015)
