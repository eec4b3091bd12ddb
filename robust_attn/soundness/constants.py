"""Upper and lower values of constants beside what is attained, norms of heads beside exact ones, observed changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.attention.rounding import NEGLIGIBLE_SIZE
from robust_attn.budget import BUDGETS
from robust_attn.observation import observe
from robust_attn.soundness.case import EXACT, Case
from robust_attn.soundness.comparison import CONSTANT_ROUNDING, NOT_FINITE, NOT_OBSERVED, Checked, Comparison, together
from robust_attn.soundness.exact import Judge, exact_constant_lower
from robust_attn.soundness.numbers import chance, given, stored_layer
from robust_attn.soundness.strike import exact_product, is_finite, seen_clearly, strike
from robust_attn.spectral.lanczos import LipschitzEstimate, largest_singular_value, start_generator
from robust_attn.spectral.lipschitz import head_lipschitz, local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms

STEPS = 24
"""Of a Lanczos run on a map that is given: fewer than most maps have dimensions."""
NO_CONSTANT = "the upper value of the constant is not a finite number"
SMALLEST = NEGLIGIBLE_SIZE**2
BILINEAR = ("interaction", "key_slope_at_zero", "stacked_interaction")
"""Norms of logits that are a bilinear form; where queries or keys are normalised they speak of another one."""
SVD_ROUNDING = 1e-12
"""Relative error of singular values of a small matrix, with room."""
Place = tuple[AttentionLayer, TokenMeasure, Tensor]
"""A layer, a measure and the weights of the norm: where a constant is looked at."""
Ends = tuple[float, float, float]
"""Lower value, upper value, and what they allow for rounding."""


def local_checked(case: Case) -> Checked:
    """`local_lipschitz` at every sample."""
    return _checked(case, local_lipschitz, lambda place: place)


def split_checked(case: Case) -> Checked:
    """`split_lipschitz`: the constant of the measure with every token written twice, each half with half the weight."""
    return _checked(
        case, split_lipschitz, lambda place: (place[0], place[1].split(2), place[2].repeat_interleave(2) / 2)
    )


def heads_checked(case: Case) -> Checked:
    """`head_lipschitz`: every head alone."""
    layer, inputs, weights = _weighted(case)
    found = head_lipschitz(layer, inputs, weights=weights, **chance(case))
    return together(
        _beside(case, index, _part(found, (head, index)), (layer.head(head), inputs.sample(index), weights[index]))
        for head in range(layer.heads)
        for index in range(len(case.samples))
    )


def singular_checked(case: Case) -> Checked:
    """`largest_singular_value` of a map that is given: the derivative as float64 has it, beside its decomposition."""
    layer, inputs, weights = _weighted(case)
    operator = ScaledJacobian(layer.to(torch.float64).linearize(inputs.to(torch.float64)), weights)
    found = largest_singular_value(operator, generator=start_generator(case.seed), steps=STEPS)
    dense = operator.dense()
    if not bool(torch.isfinite(dense).all()):
        return Checked((), (NOT_FINITE,))
    values = torch.linalg.matrix_norm(dense, ord=2)
    return together(
        _between(case, index, _part(found, (index,)), float(values[index])) for index in range(len(case.samples))
    )


def norms_checked(case: Case) -> Checked:
    """`head_norms`: every upper value beside the norm of the exact product, rounded once, which nothing cancels in.

    Norms whose squares vanish are nobody's: no certificate speaks of such layers (`within_range`).
    """
    layer = stored_layer(case)
    if not is_finite(layer) or not all(bool(torch.isfinite(each).all()) for each in _products(layer)):
        return Checked((), (NOT_FINITE,))
    return Checked(
        tuple(
            Comparison(f"{case.called}.{name}", 0, size, SVD_ROUNDING * size, allowed)
            for name, size, allowed in _norms(layer)
            if size >= SMALLEST and (case.norm == "none" or name not in BILINEAR)
        )
    )


def _norms(layer: AttentionLayer) -> Iterator[tuple[str, float, float]]:
    """Every norm of the heads: its name, its size, and what `head_norms` says."""
    found, heads = head_norms(layer), range(layer.heads)
    value, output = layer.value[layer.head_groups].double(), layer.output.double()
    values, interactions, pulls = _products(layer)
    for head in heads:
        yield "value", _norm(values[head]), float(found.value[head])
        yield "inner_value", _norm(value[head]), float(found.inner_value[head])
        yield "interaction", _norm(interactions[head]), float(found.interaction[head])
        yield "key_slope_at_zero", _norm(pulls[head]), float(found.key_slope_at_zero[head])
    yield "output", _norm(_side_by_side(output)), found.output
    yield "beside_value", _norm(_side_by_side(values)), found.beside_value
    yield "stacked_value", _bilinear(values), found.stacked_value
    yield "stacked_interaction", _norm(interactions.flatten(0, 1)), found.stacked_interaction


def _products(layer: AttentionLayer) -> tuple[Tensor, Tensor, Tensor]:
    """W_O W_V, scale W_K^T W_Q and scale W_K^T b_Q of every head; infinite where no float holds them."""
    groups, heads, size = layer.head_groups, range(layer.heads), abs(layer.scale)
    key, value = layer.key[groups], layer.value[groups]
    values = torch.stack([exact_product(layer.output[head], value[head]) for head in heads])
    interactions = torch.stack([exact_product(key[head].T, layer.query[head]) for head in heads]) * size
    pulls = torch.stack([exact_product(key[head].T, layer.query_bias[head][:, None]) for head in heads]) * size
    return values, interactions, pulls


def observe_checked(case: Case) -> Checked:
    """`observe`: the exact change is within `rounding` of the one observed."""
    asked = given(case)

    def one(number: int, sample: TokenMeasure) -> Checked:
        hit = strike(case, asked.layer, sample, asked.budget, number)
        if not hit.usable:
            return Checked((), (NOT_OBSERVED,))
        seen = observe(asked.layer, hit.base, hit.base.points + hit.displacement, hit.budget)
        roomy = replace(hit.budget, radius=2 * hit.budget.radius, support=None)
        exact = Judge.of(asked.layer, seen.base, roomy).to_points(seen.measure.points)
        change, rounding = float(seen.output_change), float(seen.rounding)
        if not (math.isfinite(change) and math.isfinite(rounding)):
            return Checked((), (NOT_OBSERVED,))
        above = Comparison("observe.above", number, exact.output_lower, 0.0, change + rounding, exact=True)
        below = Comparison("observe.below", number, change, rounding, exact.output_upper, exact=True)
        return Checked((above, below))

    return together(one(*each) for each in asked.samples())


def attained(case: Case, layer: AttentionLayer, sample: TokenMeasure, weights: Float[Tensor, "n"]) -> float:
    """The constant of one sample along the top direction of the derivative, which is taken where float64 sees clearly.

    Not above the exact one where exact arithmetic judges; not a number where the derivative is none.
    """
    victim, there, _ = seen_clearly(case, layer.to(torch.float64), sample.to(torch.float64), BUDGETS[case.budget](1.0))
    matrix = ScaledJacobian(victim.linearize(there), weights).dense()
    if not bool(matrix.isfinite().all()):
        return math.nan
    _, values, right = torch.linalg.svd(matrix)
    if case.judged != EXACT:
        return float(values[0])
    direction = right[0].reshape(sample.points.shape)
    scaled = torch.where(weights > 0, weights.clamp_min(1e-300).rsqrt(), 0.0)[:, None] * direction
    return exact_constant_lower(layer, sample, scaled, weights)


def _weighted(case: Case) -> Place:
    """The layer as stored, the samples as a batch, and weights of the budget's norm in float64."""
    asked = given(case)
    return asked.layer, asked.inputs, BUDGETS[case.budget](1.0).weights(asked.inputs.to(torch.float64))


def _checked(case: Case, function: Callable[..., LipschitzEstimate], written: Callable[[Place], Place]) -> Checked:
    layer, inputs, weights = _weighted(case)
    found = function(layer, inputs, weights=weights, **chance(case))
    places = [written((layer, inputs.sample(index), weights[index])) for index in range(len(case.samples))]
    return together(_beside(case, index, _part(found, (index,)), place) for index, place in enumerate(places))


def _part(found: LipschitzEstimate, at: tuple[int, ...]) -> Ends:
    return float(found.lower[at]), float(found.upper[at]), 0.0 if found.rounding is None else float(found.rounding[at])


def _beside(case: Case, index: int, found: Ends, place: Place) -> Checked:
    """The constant found beside the one attained."""
    return _between(case, index, found, attained(case, *place), exact=case.judged == EXACT)


def _between(case: Case, index: int, found: Ends, attained: float, *, exact: bool = False) -> Checked:
    """Not below what is attained, and the lower value not above, where floats need room for rounding."""
    lower, upper, rounding = found
    if not (math.isfinite(upper) and math.isfinite(attained)):
        return Checked((), (NO_CONSTANT,))
    number, room = case.samples[index], CONSTANT_ROUNDING * attained + rounding
    above = Comparison(f"{case.called}.upper", number, attained, 0.0 if exact else room, upper, exact)
    below = Comparison(f"{case.called}.lower", number, lower, room, attained)
    return Checked((above, below))


def _norm(matrix: Float[Tensor, "rows columns"]) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))


def _side_by_side(matrices: Float[Tensor, "heads rows columns"]) -> Float[Tensor, "rows more"]:
    return matrices.permute(1, 0, 2).flatten(1)


def _bilinear(values: Float[Tensor, "heads out d"]) -> float:
    """(sum_h <w, V_h e>^2)^{1/2} at the singular vectors of each head: what `stacked_value` has to bound."""
    left, _, right = torch.linalg.svd(values, full_matrices=False)
    pairs = torch.einsum("go,hod,gd->gh", left[:, :, 0], values, right[:, 0])
    return float(pairs.norm(dim=-1).max())
