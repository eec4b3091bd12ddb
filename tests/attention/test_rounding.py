from dataclasses import fields, replace

import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import GROWTH, KNOWN_LOGITS, attention_growth, logit_error
from robust_attn.bounds.ball import ball_norms
from robust_attn.budget import BUDGETS, Frobenius, PerToken, Wasserstein
from robust_attn.certificate import certify, certify_measures
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms
from tests.cases import CASES, Case, generator, random_layer, random_measure

UNMASKED = [case for case in CASES if case.mask is Mask.NONE][::3]


def sharpened(layer: AttentionLayer, size: float) -> AttentionLayer:
    return replace(layer, query=size * layer.query, key=size * layer.key, query_bias=size * layer.query_bias)


@pytest.mark.parametrize("case", CASES[::9], ids=str)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_logits_in_float32_err_by_no_more_than_stated(case: Case, size: float):
    layer = sharpened(random_layer(case, generator(0)), size).to(torch.float32)
    measure = random_measure(case, generator(1)).to(torch.float32)
    exact, coarse = layer.to(torch.float64).linearize(measure.to(torch.float64)), layer.linearize(measure)

    def logits(at):
        return layer.scale * at.projections.q.double() @ at.projections.k.double().transpose(-1, -2)

    error = (logits(exact) - logits(coarse)).abs().amax((-1, -2))
    assert (error <= logit_error(layer, measure).double()).all()


def test_growth_is_a_part_of_the_error_until_the_weights_are_unknown():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    error = float(logit_error(layer, measure).max())
    assert float(attention_growth(layer, measure).max()) == GROWTH * error
    beyond = sharpened(layer, (1.01 * KNOWN_LOGITS / error) ** 0.5 * 10)
    assert attention_growth(beyond, measure).isinf().all()
    broken = replace(layer, query=torch.full_like(layer.query, torch.nan))
    assert attention_growth(broken, measure).isnan().all()


def picked(layer: AttentionLayer, measure: TokenMeasure) -> float:
    """The exact constant where every row attends to one atom alone: that of the linear map x_j -> sum_h V_h x_pick."""
    choice = layer.linearize(measure).attention().round()
    blocks = torch.einsum("hij,hab->iajb", choice, layer.output @ layer.value[layer.head_groups])
    return float(torch.linalg.matrix_norm(blocks.flatten(2).flatten(0, 1), ord=2))


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6, 1e8, 1e9, 1e10, 1e12])
def test_neither_constant_nor_certificate_is_below_the_exact_one_at_huge_logits(size):
    """W_Q and W_K times 1e9 gave an upper value of 0.738 for 1.256 and a certificate that was HOLDS and false."""
    layer = sharpened(random_layer(Case(), generator(0)), size)
    measure = random_measure(Case(), generator(1)).sample(0)
    measure = TokenMeasure.uniform(measure.points)
    exact = picked(layer, measure)
    batch = TokenMeasure.uniform(measure.points[None])
    for estimate in (local_lipschitz(layer, batch), split_lipschitz(layer, batch)):
        assert float(estimate.lower) <= exact * (1 + 1e-6)
        assert float(estimate.upper) >= exact * (1 - 1e-9)
    radius = 1e-20
    assert certify(layer, measure, Wasserstein(radius)).output_change >= exact * radius * (1 - 1e-9)
    assert certify_measures(layer, batch, Wasserstein(radius))[0].output_change >= exact * radius * (1 - 1e-9)


def summing(size: float, width: int) -> AttentionLayer:
    """Every query is size (1, ..., 1) and a key size times its token: a logit is size^2 times the sum of a token."""
    one, nothing = torch.eye(width, dtype=torch.float64)[None], torch.zeros(1, width, dtype=torch.float64)
    return AttentionLayer(
        query=0 * one,
        query_bias=nothing + size,
        key=size * one,
        key_bias=nothing,
        value=one,
        output=one,
        offset=nothing[0],
        scale=1.0,
    )


def test_a_tie_that_rounding_breaks_is_not_taken_for_attention_to_one_token():
    """Two tokens of the same numbers in another order have the same logit, and each gets half of the attention.

    So a step t along (1, ..., 1) / sqrt d of one turns both rows by size^2 sqrt d t / 4 times the distance of the
    values. In float64 the two sums differ, by more than ten, and all attention goes to one.
    """
    size, width = 1e9, 8
    layer = summing(size, width)
    numbers = (torch.rand(width, generator=generator(seed), dtype=torch.float64) for seed in range(100))
    pairs = (torch.stack((each, each[torch.randperm(width, generator=generator(0))])) for each in numbers)
    measures = (TokenMeasure.uniform(pair[None]) for pair in pairs)
    measure = next(each for each in measures if layer.linearize(each).attention().amax(-1).min() > 0.99)
    first, second = measure.points[0]
    exact = size**2 * width**0.5 / 4 * float((first - second).norm()) * 2**0.5
    for estimate in (local_lipschitz(layer, measure), split_lipschitz(layer, measure)):
        assert float(estimate.upper) >= exact
    budget = Wasserstein(1e-22)
    certificates = [certify(layer, measure.sample(0), budget, deterministic=each) for each in (False, True)]
    for certificate in (*certificates, *certify_measures(layer, measure, budget)):
        assert certificate.output_change >= 0.99 * exact * budget.radius


@pytest.mark.parametrize("kind", BUDGETS.values(), ids=list(BUDGETS))
@pytest.mark.parametrize("case", UNMASKED, ids=str)
def test_where_weights_are_unknown_the_hull_holds_between_any_two_means(case: Case, kind):
    layer = sharpened(random_layer(case, generator(0)), 1e9)
    measure = random_measure(case, generator(1)).sample(0)
    certificate = certify(layer, measure, kind(0.0))
    values = torch.einsum("hoa,had,nd->hno", layer.output, layer.value[layer.head_groups], measure.points)
    farthest = torch.cdist(values, values)[:, measure.present][:, :, measure.present].amax((-1, -2)).sum()
    rows = farthest * measure.present
    most = rows.max() if kind is PerToken else (kind(1.0).weights(measure) * rows**2).sum().sqrt()
    assert certificate.named("local.hull").output_change >= float(most)
    assert not certificate.named("local.ball").applies


@pytest.mark.parametrize("size", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("case", CASES[::9], ids=str)
def test_bounds_made_of_attention_weights_grow_by_less_than_stated_when_logits_move(case: Case, size: float):
    """Masses times exp(e d_j) move logit (i, j) by e d_j and nothing else, in a budget that does not weigh by mass."""
    layer, measure = sharpened(random_layer(case, generator(2)), size), random_measure(case, generator(3))
    e, budget, norms = 1e-6, Frobenius(0.01), head_norms(layer)
    moved = measure.masses * (e * torch.randn(measure.masses.shape, generator=generator(4)).clamp(-1, 1)).exp()
    beside = TokenMeasure(measure.points, moved / moved.sum(-1, keepdim=True), measure.positions)
    (before,), (after,) = (ball_norms(layer, norms, each, [budget]) for each in (measure, beside))
    for field in fields(before):
        old, new = getattr(before, field.name), getattr(after, field.name)
        assert (new <= old * (1 + GROWTH * e)).all(), field.name
    weights = budget.weights(measure)
    constants = [local_lipschitz(layer, each, weights=weights).lower for each in (measure, beside)]
    closed = torch.minimum(before.centre, before.centre_blocks)
    assert (constants[1] <= constants[0] + GROWTH * e * closed).all()
