import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.bounds.interval import (
    ball_of,
    heaviest_atom,
    inflated,
    log_others,
    softmax_interval,
    variance_weights,
)
from robust_attn.bounds.rows import row_blocks
from robust_attn.budget import Frobenius
from robust_attn.spectral.norms import head_norms
from tests.cases import Case, generator, random_layer, random_measure


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


def test_log_others_where_terms_are_nothing_or_everything():
    """Nothing is lost beside a term that is far larger, and infinities are no reason not to know."""
    inf = math.inf
    terms = torch.tensor([[0.0, -1000.0, -1001.0], [-inf, -inf, 0.0], [inf, 0.0, inf], [inf, 0.0, 0.0]]).double()
    few = -1000 + math.log1p(math.exp(-1))
    expected = [[few, 0.0, 0.0], [0.0, 0.0, -inf], [inf, inf, inf], [math.log(2), inf, inf]]
    assert log_others(terms).tolist() == [pytest.approx(row, rel=1e-14) for row in expected]
    assert torch.isnan(log_others(torch.tensor([[math.nan, 0.0, 0.0]]).double())[0, 1:]).all()


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7), width=st.floats(0, 2))
def test_variance_weights_dominate_the_variance_of_anything(seed, length, width):
    """Var_P(z) <= sum_j r_j z_j^2 for every P between floor and ceiling: P itself, and random mixtures inside."""
    g = generator(seed)
    logits = torch.randn(1, length, generator=g, dtype=torch.float64) * 3
    seen = torch.ones(1, length, dtype=torch.bool)
    floor, ceiling, _ = softmax_interval(logits.log_softmax(-1), torch.full_like(logits, width), seen)
    inverse = torch.rand(1, length, generator=g, dtype=torch.float64) + 0.1
    weights = variance_weights(floor, ceiling, inverse)
    for _ in range(5):
        shift = (2 * torch.rand(1, length, generator=g, dtype=torch.float64) - 1) * width
        p, z = (logits + shift).softmax(-1), torch.randn(1, length, generator=g, dtype=torch.float64)
        variance = (p * z**2).sum() - (p * z).sum() ** 2
        assert float(variance) <= float((weights * z**2).sum()) * (1 + 1e-12)


def test_variance_weights_by_hand():
    """P = (0.9, 0.1): 2 P (1 - P) = 0.18 for both; favoured: 1.4 * 0.09 = 0.126 and 0.09 + 0.1 (0 + 0.9 / 0.4) = 0.315.

    The largest entries are 0.9 (P itself), 0.18 and 0.315: the plain Gershgorin sums are taken.
    """
    p = torch.tensor([[0.9, 0.1]], dtype=torch.float64)
    assert variance_weights(p, p, torch.ones_like(p)).tolist()[0] == pytest.approx([0.18, 0.18])


def test_variance_weights_favour_the_heaviest_atom_where_the_others_are_light():
    """P = (0.9, 0.01 ten times): heaviest 1.4 * 0.09; each other 0.01 * 0.99 + 0.01 (0.09 + 0.9 / 0.4)."""
    p = torch.tensor([[0.9] + [0.01] * 10], dtype=torch.float64)
    found = variance_weights(p, p, torch.ones_like(p))[0]
    assert float(found[0]) == pytest.approx(0.126)
    assert found[1:].tolist() == pytest.approx([0.0099 + 0.01 * (0.09 + 2.25)] * 10)


def test_only_one_atom_is_favoured_where_several_are_equally_heavy():
    """P = (1/2, 1/2): Var(1, -1) = 1 = sum r z^2 needs r_1 + r_2 >= 1; two favoured atoms would give 0.7."""
    p = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    assert heaviest_atom(p).tolist() == [[True, False]]
    assert float(variance_weights(p, p, torch.ones_like(p)).sum()) >= 1.0


def test_variance_weights_of_an_interval_by_hand():
    """P between (0.85, 0.005 ten times) and (0.95, 0.015 ten times): P (1 - P) at most 0.85 * 0.15 and 0.015 * 0.985.

    Heaviest 1.4 * 0.1275 = 0.1785. Others: 0.014775 + 0.015 (rest + 0.95 / 0.4), where all but the two may together
    have 1 - 0.005 - 0.85 = 0.145. The largest entries are 0.1785 against 0.95 (P itself) and 2 * 0.1275.
    """
    floor, ceiling = (torch.tensor([[top] + [other] * 10]).double() for top, other in ((0.85, 0.005), (0.95, 0.015)))
    found = variance_weights(floor, ceiling, torch.ones_like(floor))[0].tolist()
    assert found == pytest.approx([0.1785] + [0.014775 + 0.015 * (0.145 + 2.375)] * 10)


def test_weights_of_logits_that_are_known_up_to_an_error_are_between_floor_and_ceiling():
    """At radius zero, an error of 0.3 with either sign in every logit; no more than the corners allow."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    (data,) = row_blocks(layer, measure)
    data = replace(data, logit_error=torch.full_like(data.logit_error, 0.3))
    at = inflated(head_norms(layer), ball_of(measure, Frobenius(0.0)), data)
    for signs in itertools.product((-0.3, 0.3), repeat=measure.length):
        weights = (data.log_p + torch.tensor(signs, dtype=torch.float64)).softmax(-1)
        assert (weights <= at.ceiling * (1 + 1e-9)).all()
        assert (weights >= at.floor * (1 - 1e-9)).all()
    assert (at.ceiling <= data.log_p.exp() * math.exp(0.6) * (1 + 1e-9)).all()
