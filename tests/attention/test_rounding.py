from dataclasses import fields, replace

import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.attention.rounding import Rounding, logit_error, rounding_at, within_range
from robust_attn.bounds import curvature, interval, rows, split_rows
from robust_attn.bounds.ball import ball_norms
from robust_attn.bounds.curvature import key_form
from robust_attn.bounds.interval import ball_of, inflated
from robust_attn.budget import BUDGETS, Frobenius, PerToken, TokenRadius, Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.certificates.measures import certify_measures
from robust_attn.spectral import derivative_error
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import HeadNorms, head_norms
from tests.cases import CASES, MORE_CASES, Case, generator, random_layer, random_measure, scalar_layer

UNMASKED = [case for case in MORE_CASES if case.mask is Mask.NONE]


def sharpened(layer: AttentionLayer, size: float) -> AttentionLayer:
    return replace(layer, query=size * layer.query, key=size * layer.key, query_bias=size * layer.query_bias)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_logits_in_float32_err_by_no_more_than_stated(case: Case, size: float):
    layer = sharpened(random_layer(case, generator(0)), size).to(torch.float32)
    measure = random_measure(case, generator(1)).to(torch.float32)
    exact, coarse = layer.to(torch.float64).linearize(measure.to(torch.float64)), layer.linearize(measure)

    def logits(at):
        return layer.scale * at.projections.q.double() @ at.projections.k.double().transpose(-1, -2)

    error = (logits(exact) - logits(coarse)).abs().amax((-1, -2))
    assert (error <= logit_error(layer, measure).double()).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_float32_finds_errs_by_no_more_than_stated(case: Case):
    """Values after the output projection and slopes of the logits, with the unit of float32 in place of float64's."""
    layer = random_layer(case, generator(0)).to(torch.float32)
    measure = random_measure(case, generator(1)).to(torch.float32)
    stated = rounding_at(layer.to(torch.float64), measure.to(torch.float64), unit=torch.finfo(torch.float32).eps)
    coarse, exact = parts_at(layer, measure), parts_at(layer.to(torch.float64), measure.to(torch.float64))
    for name, error in parts_off(coarse, exact).items():
        assert (error <= getattr(stated, name)).all(), name


def test_sizes_that_floats_cannot_square_are_told():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    assert within_range(layer, measure).all()
    nothing = replace(layer, value=0 * layer.value)
    assert within_range(nothing, measure.with_points(0 * measure.points)).all()
    for size in (1e-170, 1e170, float("nan")):
        assert not within_range(replace(layer, output=size * layer.output), measure).any()
        assert not within_range(replace(layer, query_bias=layer.query_bias + 1e170), measure).any()
        far = measure.with_points(measure.points * torch.tensor([1.0, size], dtype=torch.float64)[:, None, None])
        assert within_range(layer, far).tolist() == [True, False]


def parts_at(layer: AttentionLayer, measure: TokenMeasure) -> dict[str, torch.Tensor]:
    """What `Rounding` speaks of, by the formulas: logits, W_O v_j, scale W_Q^T k_j and scale W_K^T q_i (rotated)."""
    at, groups = layer.linearize(measure).projections, layer.head_groups
    pulled_keys = torch.stack([turned_back(layer, measure, at.k, row) @ layer.query for row in range(measure.length)])
    pulled = torch.stack([turned_back(layer, measure, at.q, row) @ layer.key[groups] for row in range(measure.length)])
    return {
        "logit": layer.scale * at.q @ at.k.transpose(-1, -2),
        "value": at.v @ layer.output.transpose(-1, -2),
        "query_slope": layer.scale * pulled_keys,
        "key_slope": layer.scale * pulled,
    }


def turned_back(layer: AttentionLayer, measure: TokenMeasure, vectors: torch.Tensor, row: int) -> torch.Tensor:
    if layer.rotary is None:
        return vectors
    return layer.rotary.rotate_back(vectors, measure.positions[..., row : row + 1].expand(measure.positions.shape))


def parts_off(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The largest difference of each, per sample and head."""
    off = {name: first[name].double() - second[name].double() for name in first}
    return {
        "logit": off["logit"].abs().amax((-1, -2)),
        "value": off["value"].norm(dim=-1).amax(-1),
        "query_slope": off["query_slope"].norm(dim=-1).amax(-1).amax(0),
        "key_slope": off["key_slope"].norm(dim=-1).amax(-1).amax(0),
    }


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
    assert certify_measures(layer, batch, Wasserstein(radius, TokenRadius())).output_change >= exact * radius * (
        1 - 1e-9
    )


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
    for certificate in (*certificates, certify_measures(layer, measure, replace(budget, support=TokenRadius()))):
        assert certificate.output_change >= 0.99 * exact * budget.radius


@pytest.mark.parametrize("kind", BUDGETS.values(), ids=list(BUDGETS))
@pytest.mark.parametrize("case", UNMASKED, ids=str)
def test_where_weights_are_unknown_the_hull_holds_between_any_two_means(case: Case, kind):
    layer = sharpened(random_layer(case, generator(0)), 1e9)
    measure = random_measure(case, generator(1)).sample(0)
    certificate = certify(layer, measure, kind(0.0))
    values = torch.einsum("hoa,had,nd->hno", layer.output, layer.value[layer.head_groups], measure.points)
    farthest = torch.cdist(values, values)[:, measure.present][:, :, measure.present].amax((-1, -2)).sum()
    changes = farthest * measure.present
    most = changes.max() if kind is PerToken else (kind(1.0).weights(measure) * changes**2).sum().sqrt()
    assert certificate.named("local.hull").output_change >= float(most)


def beside(layer: AttentionLayer, g: torch.Generator, part: float = 1e-3) -> AttentionLayer:
    """The same layer with every weight and bias off by about that part."""
    names = ("query", "query_bias", "key", "key_bias", "value", "output")
    return replace(
        layer,
        **{
            name: (weights := getattr(layer, name))
            * (1 + part * torch.randn(weights.shape, generator=g, dtype=weights.dtype))
            for name in names
        },
    )


def told(layer: AttentionLayer, other: AttentionLayer, measure: TokenMeasure) -> Rounding:
    """How far the parts of the two layers are apart, in place of what rounding does."""
    return Rounding(**parts_off(parts_at(layer, measure), parts_at(other, measure)))


@pytest.mark.parametrize("way", range(4))
@pytest.mark.parametrize("size", [1.0, 5.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_bounds_allow_for_rounding_covers_weights_that_differ_by_as_much(
    case: Case, size: float, way: int, monkeypatch
):
    """In each of the ways to bound a row, and with the first atom favoured: which way and which atom are taken may
    differ between the two layers, and any of them holds."""

    def first_atom(ceiling):
        return torch.arange(ceiling.shape[-1]).eq(0).expand(ceiling.shape)

    for module in (interval, curvature):
        monkeypatch.setattr(module, "heaviest_atom", first_atom)
        monkeypatch.setattr(module, "smallest_rows", lambda ways, _: ways[min(way, len(ways) - 1)])
    monkeypatch.setattr(curvature, "_either", lambda *ways: ways[min(way, len(ways) - 1)])
    layer, measure = sharpened(random_layer(case, generator(2)), size), random_measure(case, generator(3))
    other = beside(layer, generator(4))
    apart = told(layer, other, measure)
    monkeypatch.setattr(rows, "rounding_at", lambda *_, unit: apart if unit else nothing_like(apart))
    norms = largest_norms(head_norms(layer), head_norms(other))
    for budget in (Frobenius(1e-9), Frobenius(0.05), Wasserstein(0.3)):
        (allowed,) = ball_norms(layer, norms, measure, [budget])
        (exact,) = ball_norms(other, norms, measure, [budget], unit=0.0)
        for field in fields(allowed):
            assert (getattr(exact, field.name) <= getattr(allowed, field.name) * (1 + 1e-9)).all(), field.name


@pytest.mark.parametrize("case", [case for case in MORE_CASES if not case.rotary], ids=str)
def test_what_is_known_of_atoms_covers_weights_that_differ_by_as_much(case: Case, monkeypatch):
    layer, measure = random_layer(case, generator(2)), random_measure(case, generator(3)).sample(0)
    kept = measure.present
    measure = TokenMeasure(measure.points[kept], measure.masses[kept], measure.positions[kept])
    layer = replace(layer, key_bias=torch.zeros_like(layer.key_bias))
    other, support = beside(layer, generator(4)), 2 * float(measure.radius)
    apart = told(layer, other, measure)
    inner = (layer.linearize(measure).projections.v - other.linearize(measure).projections.v).norm(dim=-1).amax()
    keys = (layer.linearize(measure).projections.k - other.linearize(measure).projections.k).norm(dim=-1).amax()
    monkeypatch.setattr(split_rows, "rounding_at", lambda *_, unit: apart if unit else nothing_like(apart))
    unit = 1e-3 * float(max(inner, keys)) / 1e-3  # what `split_rows` allows for v and k is at least 20 units of them
    allowed = split_rows.split_rows(layer, measure, support=support, unit=max(unit, 1e-3))
    exact = split_rows.split_rows(other, measure, support=support, unit=0.0)
    assert (exact.log_p <= allowed.log_upper + 1e-12).all()
    for name in ("key_slope", "log_peak", "mean_slope"):
        assert (getattr(exact, name) <= getattr(allowed, name) * (1 + 1e-12) + 1e-12).all(), name
    for name in ("value", "slope"):
        for of in ("distance", "deviation"):
            assert (getattr(getattr(exact, name), of) <= getattr(getattr(allowed, name), of) + 1e-12).all(), name


def nothing_like(apart: Rounding) -> Rounding:
    return Rounding(*(torch.zeros_like(getattr(apart, field.name)) for field in fields(apart)))


def largest_norms(first: HeadNorms, second: HeadNorms) -> HeadNorms:
    """Norms that hold for both layers."""
    largest = {}
    for field in fields(first):
        one, two = (getattr(each, field.name) for each in (first, second))
        largest[field.name] = torch.maximum(one, two) if isinstance(one, torch.Tensor) else max(one, two)
    return HeadNorms(**largest)


@pytest.mark.parametrize("size", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_derivative_is_off_by_less_than_stated_when_logits_move(case: Case, size: float, monkeypatch):
    """Masses times exp(e d_j) move logit (i, j) by e d_j and nothing else."""
    layer, measure = sharpened(random_layer(case, generator(2)), size), random_measure(case, generator(3))
    e, weights = 1e-4, torch.ones_like(measure.masses) * measure.present
    moved = measure.masses * (e * torch.randn(measure.masses.shape, generator=generator(4)).clamp(-1, 1)).exp()
    other = TokenMeasure(measure.points, moved / moved.sum(-1, keepdim=True), measure.positions)
    apart = Rounding(*[torch.full((measure.points.shape[0], layer.heads), value).double() for value in (e, 0, 0, 0)])
    monkeypatch.setattr(derivative_error, "rounding_at", lambda *_: apart)
    first, second = (ScaledJacobian(layer.linearize(each), weights).dense() for each in (measure, other))
    off = torch.linalg.matrix_norm(first - second, ord=2)
    stated = derivative_error.derivative_error(layer.linearize(measure), weights, steps=1)
    assert (off <= stated).all()
    assert (stated <= 3e4 * e * torch.linalg.matrix_norm(first, ord=2)).all()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_derivative_in_float32_is_off_by_less_than_stated(case: Case, monkeypatch):
    layer, measure = random_layer(case, generator(2)).to(torch.float32), random_measure(case, generator(3))
    measure = measure.to(torch.float32)
    weights = measure.present.double()
    exact, fine = layer.to(torch.float64), measure.to(torch.float64)
    unit = torch.finfo(torch.float32).eps
    monkeypatch.setattr(derivative_error, "UNIT", unit)
    monkeypatch.setattr(derivative_error, "rounding_at", lambda *at: rounding_at(*at, unit=unit))
    first = ScaledJacobian(layer.linearize(measure), weights.float()).dense().double()
    second = ScaledJacobian(exact.linearize(fine), weights).dense()
    off = torch.linalg.matrix_norm(first - second, ord=2)
    assert (off <= derivative_error.derivative_error(exact.linearize(fine), weights, steps=1)).all()


def only_queries(size: float) -> AttentionLayer:
    """Queries read the first coordinate, keys and values the second: tokens without a first one attend evenly."""
    first, second = torch.eye(2, dtype=torch.float64)[:, None, None]
    return replace(
        scalar_layer(0.0), query=size * first, key=second, value=second, output=torch.ones(1, 1, 1, dtype=torch.float64)
    )


@pytest.mark.parametrize(
    ("layer", "points", "signs"),
    [
        (only_queries(50.0), [[0.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [0.0, 1.0, 1.0]),
        (replace(scalar_layer(0.0), query_bias=torch.full((1, 1), 3.0).double()), [[0.0], [1.0], [-1.0]], [1.0, -1, 1]),
    ],
    ids=["queries", "keys"],
)
def test_each_part_of_the_derivative_is_covered_where_it_is_nearly_all(layer, points, signs, monkeypatch):
    """All logits are zero, and 50 times the first coordinate of a query; or A = 0, and a bias pulls towards keys."""
    measure, e = TokenMeasure.uniform(torch.tensor([points]).double()), 1e-4
    moved = measure.masses * torch.tensor(signs).double().mul(e).exp()
    other = TokenMeasure(measure.points, moved / moved.sum(-1, keepdim=True), measure.positions)
    apart = Rounding(*[torch.full((1, 1), value).double() for value in (e, 0, 0, 0)])
    monkeypatch.setattr(derivative_error, "rounding_at", lambda *_: apart)
    weights = torch.ones_like(measure.masses)
    first, second = (ScaledJacobian(layer.linearize(each), weights).dense() for each in (measure, other))
    off = torch.linalg.matrix_norm(first - second, ord=2)
    stated = derivative_error.derivative_error(layer.linearize(measure), weights, steps=1)
    assert e / 10 < float(off) <= float(stated)


def test_slopes_that_are_nothing_but_rounding_still_pull(monkeypatch):
    """Queries are zero, so every slope in an attended token is computed as zero: what it may be is its error alone."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    layer = replace(layer, query=0 * layer.query, query_bias=0 * layer.query_bias)
    size = torch.full((measure.points.shape[0], layer.heads), 1e-3).double()
    apart = Rounding(0 * size, 0 * size, 0 * size, size)
    monkeypatch.setattr(rows, "rounding_at", lambda *_, unit: apart)  # noqa: ARG005
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.0))
    for block in rows.row_blocks(layer, measure):
        at = inflated(norms, ball, block)
        form = key_form(norms, ball, block, at, at.variance)
        assert (form >= at.variance.amax(-3) * 1e-6 * (1 - 1e-9)).all()
