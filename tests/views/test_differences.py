"""Differences of paired numbers and their intervals."""

import random

import pytest

from robust_attn.records.pairing import pairing
from robust_attn.views.differences import Difference, Paired, differences, interval
from tests.records.samples import attack_record, prediction_record


def difference(*numbers: tuple[int, float, float]) -> Difference:
    return Difference("gain", tuple(Paired("", *each) for each in numbers), 0)


def test_numbers_by_hand():
    """Sample 0 has differences 1 and 3, so 2; sample 1 has -4: their mean is -1."""
    found = difference((0, 1.0, 2.0), (0, 1.0, 4.0), (1, 8.0, 4.0))
    assert found.by_sample == (2.0, -4.0)
    assert found.mean == -1.0
    assert (found.larger, found.smaller) == (2, 1)
    assert found.ratio == 2.0
    assert difference((0, 0.0, 1.0)).ratio is None


def test_rounding_is_no_difference():
    found = difference((0, 0.3, 0.1 + 0.2), (1, 1e-300, 1e-300 * (1 + 1e-9)))
    assert (found.larger, found.smaller) == (1, 0)


def test_the_interval_holds_the_mean_and_shrinks_with_it():
    values = [1.0, 2.0, 3.0, 10.0]
    low, high = interval(values)
    assert 1.0 < low < 4.0 < high < 10.0
    assert interval(values) == (low, high)  # the seed is fixed
    small = interval([value * 1e-300 for value in values])
    assert small == pytest.approx((low * 1e-300, high * 1e-300), rel=1e-9)


def test_one_sample_has_no_interval_and_equal_ones_have_themselves():
    assert interval([1.0]) is None
    assert interval([0.25, 0.25, 0.25]) == (0.25, 0.25)


def test_the_interval_covers_about_as_often_as_it_says():
    """Of 40 draws of 20 normal numbers with mean 1, some two intervals are expected to miss it."""
    draw = random.Random(0)
    draws = [[draw.gauss(1, 1) for _ in range(20)] for _ in range(40)]
    covered = sum(low <= 1 <= high for low, high in map(interval, draws))
    assert covered >= 34


def test_quantities_are_those_that_both_know_and_the_rest_is_counted():
    left = [prediction_record(n, flip_radius={"move": 0.1}, certified_radius={"all": 0.01}) for n in range(2)]
    right = [
        prediction_record(0, flip_radius={"move": 0.2}, certified_radius={"all": 0.02, "one_word": 0.5}),
        prediction_record(1, flip_radius={"move": None}, certified_radius={}),
    ]
    found = {each.name: each for each in differences(pairing(left, right).pairs)}
    assert set(found) == {"certified_radius.all", "flip_radius.move", "margin"}
    assert (len(found["flip_radius.move"].pairs), found["flip_radius.move"].alone) == (1, 1)
    assert found["certified_radius.all"].mean == pytest.approx(0.01)


def test_records_of_one_sample_are_one_draw():
    left = [attack_record(layer, sample) for layer in range(6) for sample in range(2)]
    (found, *_) = differences(pairing(left, left).pairs)
    assert (len(found.pairs), len(found.by_sample)) == (12, 2)
