import math

import pytest

from robust_attn.bounds.bound import Bound, from_log_constant, from_output_change, not_applicable
from robust_attn.types import Scope, Side


def test_constant_and_change_agree():
    bound = from_log_constant("x", math.log(100.0), 0.01, Scope.GLOBAL)
    assert bound.log10 == pytest.approx(2.0)
    assert bound.output_change == pytest.approx(1.0)
    assert from_output_change("x", 1.0, 0.01, Scope.BALL).log10 == pytest.approx(2.0)


def test_overflow_keeps_the_logarithm_and_does_not_certify():
    """e^5000 is 10^2171.5: far beyond a float, but its logarithm is not."""
    bound = from_log_constant("x", 5000.0, 0.01, Scope.GLOBAL)
    assert bound.log10 == pytest.approx(5000 / math.log(10))
    assert bound.output_change == math.inf
    assert not bound.certifies


@pytest.mark.parametrize("change", [math.nan, math.inf, -1.0])
def test_what_is_no_number_never_certifies(change):
    assert not Bound("x", 0.0, change, Scope.GLOBAL).certifies


def test_lower_bounds_comparators_and_inapplicable_ones_never_certify():
    assert not Bound("x", 0.0, 1.0, Scope.GLOBAL, side=Side.LOWER).certifies
    assert not Bound("x", 0.0, 1.0, Scope.GLOBAL, comparator=True).certifies
    assert not not_applicable("x", "no", Scope.GLOBAL).certifies
    assert Bound("x", 0.0, 1.0, Scope.GLOBAL).certifies


def test_radius_zero_changes_nothing():
    assert from_log_constant("x", 5000.0, 0.0, Scope.GLOBAL).output_change == 0.0
    assert from_output_change("x", 0.0, 0.0, Scope.BALL).output_change == 0.0
