import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.bounds.interval import log_others, softmax_interval
from tests.cases import generator


@given(seed=st.integers(0, 99), size=st.floats(0.01, 30))
def test_interval_softmax_contains_every_softmax(seed, size):
    g = generator(seed)
    log_p = torch.randn(1, 6, generator=g, dtype=torch.float64).mul(5).log_softmax(-1)
    shift = size * torch.rand(1, 6, generator=g, dtype=torch.float64)
    seen = torch.ones(1, 6, dtype=torch.bool)
    lower, upper, ratio = softmax_interval(log_p, shift, seen)
    for _ in range(10):
        signs = torch.rand(1, 6, generator=g, dtype=torch.float64) * 2 - 1
        moved = (log_p + signs.sign() * shift).softmax(-1)
        assert (lower <= moved).all()
        assert (moved <= upper).all()
        assert (moved / log_p.exp()).amax() <= ratio.amax()


def test_interval_softmax_is_attained_at_a_corner():
    """Two atoms of equal weight, shifts 1: at most e / (e + 1/e), at least (1/e) / (e + 1/e)."""
    log_p = torch.full((1, 2), 0.5).double().log()
    lower, upper, ratio = softmax_interval(log_p, torch.ones(1, 2).double(), torch.ones(1, 2, dtype=torch.bool))
    top = math.e / (math.e + 1 / math.e)
    assert upper[0, 0] == pytest.approx(top, rel=1e-10)
    assert lower[0, 0] == pytest.approx(1 - top, rel=1e-10)
    assert ratio[0] == pytest.approx(2 * top, rel=1e-10)


@given(seed=st.integers(0, 99))
def test_log_others_is_the_sum_without_one(seed):
    terms = 10 * torch.randn(2, 6, generator=generator(seed), dtype=torch.float64)
    others = log_others(terms)
    for j in range(6):
        rest = torch.cat((terms[:, :j], terms[:, j + 1 :]), -1)
        assert torch.allclose(others[:, j], rest.logsumexp(-1), rtol=1e-12)
