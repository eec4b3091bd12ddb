import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn import budget
from robust_attn.config.budgets import BUDGETS, FrobeniusSettings, WassersteinSettings
from robust_attn.settings import read
from robust_attn.types import FieldError


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_radius_is_taken_just_when_it_is_finite_and_not_negative(radius):
    if radius == 0 or 1e-140 <= radius < math.inf:
        assert WassersteinSettings(radius).radius == radius
    else:
        with pytest.raises(FieldError) as caught:
            WassersteinSettings(radius)
        assert f"got {radius}" in str(caught.value)


@given(st.one_of(st.booleans(), st.none(), st.text(max_size=8), st.floats(max_value=0.0)))
def test_a_support_is_a_name_or_a_number_above_zero(support):
    if support in ("auto", "tokens", "normalization"):
        return
    with pytest.raises(FieldError, match=r"^support must be one of auto, tokens, normalization or above 0, got"):
        read(FrobeniusSettings, {"radius": 1.0, "support": support})


def test_budgets_are_known_without_importing_them():
    assert [kind.name for kind in BUDGETS] == list(budget.BUDGETS)
