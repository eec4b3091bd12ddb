"""The smallest radius at which an attack succeeds, where that is known."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.measure import TokenMeasure
from robust_attn.through.flip import smallest_flip
from robust_attn.through.victim import Perturbed

POINT = TokenMeasure.uniform(torch.zeros(1, 1, 1, dtype=torch.float64))


def flipped(radius: float) -> Perturbed:
    return Perturbed(POINT, POINT, torch.tensor([[0.0, 1.0]]), 0, radius)


@given(
    threshold=st.floats(1e-4, 1e2),
    start=st.floats(1e-3, 10.0),
    accuracy=st.sampled_from([0.01, 0.05, 0.5]),
    known=st.booleans(),
)
def test_an_attack_that_flips_from_a_threshold_on(threshold, start, accuracy, known):
    def flip_at(radius, larger):
        assert larger is None or larger.radius > radius
        return flipped(radius) if radius >= threshold else None

    found = smallest_flip(
        flip_at, start=start, largest=1e3, accuracy=accuracy, known=flipped(7 * threshold) if known else None
    )
    assert threshold <= found.radius <= threshold * (1 + accuracy) * (1 + 1e-12)
    assert found.tried <= 40


def test_never():
    found = smallest_flip(lambda *_: None, start=0.5, largest=3.0, accuracy=0.05)
    assert (found.radius, found.tried) == (None, 4)  # 0.5, 1, 2, 3


def test_always():
    found = smallest_flip(lambda radius, _: flipped(radius), start=1.0, largest=3.0, accuracy=0.05)
    assert 0 < found.radius <= 2.0**-24


def test_a_known_flip_is_kept_where_nothing_smaller_is_found():
    found = smallest_flip(lambda *_: None, start=0.1, largest=3.0, accuracy=0.05, known=flipped(0.8))
    assert found.radius == 0.8


def test_the_largest_radius_is_tried_itself():
    found = smallest_flip(
        lambda radius, _: flipped(radius) if radius >= 2.9 else None, start=1.0, largest=3.0, accuracy=0.01
    )
    assert found.radius == pytest.approx(2.9, rel=0.01)
