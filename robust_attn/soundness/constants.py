"""Upper and lower values of local Lipschitz constants beside the constant that is attained."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.budget import BUDGETS
from robust_attn.soundness.case import EXACT, Case
from robust_attn.soundness.comparison import CONSTANT_ROUNDING, Checked, Comparison, together
from robust_attn.soundness.exact import exact_constant_lower
from robust_attn.soundness.numbers import chance, measures_of, stored_layer
from robust_attn.soundness.strike import seen_clearly
from robust_attn.spectral.lanczos import LipschitzEstimate, largest_singular_value, start_generator
from robust_attn.spectral.lipschitz import head_lipschitz, local_lipschitz, split_lipschitz

STEPS = 24
"""Of a Lanczos run on a map that is given: fewer than most maps have dimensions."""
NO_CONSTANT = "the upper value of the constant is not a finite number"
Place = tuple[AttentionLayer, TokenMeasure, Tensor]
"""A layer, a measure and the weights of the norm: where a constant is looked at."""


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
    layer, inputs, weights = _given(case)
    found = head_lipschitz(layer, inputs, weights=weights, **chance(case))
    return together(
        _beside(case, index, _part(found, (head, index)), (layer.head(head), inputs.sample(index), weights[index]))
        for head in range(layer.heads)
        for index in range(len(case.samples))
    )


def singular_checked(case: Case) -> Checked:
    """`largest_singular_value` of a map that is given: the derivative as float64 has it, beside its decomposition."""
    layer, inputs, weights = _given(case)
    operator = ScaledJacobian(layer.to(torch.float64).linearize(inputs.to(torch.float64)), weights)
    found = largest_singular_value(operator, generator=start_generator(case.seed), steps=STEPS)
    values = torch.linalg.matrix_norm(operator.dense(), ord=2)
    return together(
        _between(case, index, _part(found, (index,)), float(values[index])) for index in range(len(case.samples))
    )


def _given(case: Case) -> Place:
    """What functions get: the layer as stored, the samples as a batch, and weights of the budget's norm in float64."""
    layer = stored_layer(case)
    inputs = measures_of(case, layer)
    return layer, inputs, BUDGETS[case.budget](1.0).weights(inputs.to(torch.float64))


def _checked(case: Case, function: Callable[..., LipschitzEstimate], written: Callable[[Place], Place]) -> Checked:
    layer, inputs, weights = _given(case)
    found = function(layer, inputs, weights=weights, **chance(case))
    places = [written((layer, inputs.sample(index), weights[index])) for index in range(len(case.samples))]
    return together(_beside(case, index, _part(found, (index,)), place) for index, place in enumerate(places))


Ends = tuple[float, float, float]
"""Lower value, upper value, and what they allow for rounding."""


def _part(found: LipschitzEstimate, at: tuple[int, ...]) -> Ends:
    return float(found.lower[at]), float(found.upper[at]), 0.0 if found.rounding is None else float(found.rounding[at])


def _beside(case: Case, index: int, found: Ends, place: Place) -> Checked:
    """The constant found beside the one attained."""
    return _between(case, index, found, attained(case, *place), exact=case.judged == EXACT)


def attained(case: Case, layer: AttentionLayer, sample: TokenMeasure, weights: Float[Tensor, "n"]) -> float:
    """The constant of one sample along the top direction of the derivative, which is taken where float64 sees clearly.

    Not above the exact one where exact arithmetic judges; not a number where the derivative is none.
    """
    victim, there, _ = seen_clearly(case, layer.to(torch.float64), sample.to(torch.float64), BUDGETS[case.budget](1.0))
    operator = ScaledJacobian(victim.linearize(there), weights)
    matrix = operator.dense()
    if not bool(matrix.isfinite().all()):
        return math.nan
    _, values, right = torch.linalg.svd(matrix)
    if case.judged != EXACT:
        return float(values[0])
    direction = right[0].reshape(sample.points.shape)
    scaled = torch.where(weights > 0, weights.clamp_min(1e-300).rsqrt(), 0.0)[:, None] * direction
    return exact_constant_lower(layer, sample, scaled, weights)


def _between(case: Case, index: int, found: Ends, attained: float, *, exact: bool = False) -> Checked:
    """Not below what is attained, and the lower value not above, where floats need room for rounding."""
    lower, upper, rounding = found
    if not (math.isfinite(upper) and math.isfinite(attained)):
        return Checked((), (NO_CONSTANT,))
    number, room = case.samples[index], CONSTANT_ROUNDING * attained + rounding
    above = Comparison(f"{case.called}.upper", number, attained, 0.0 if exact else room, upper, exact)
    below = Comparison(f"{case.called}.lower", number, lower, room, attained)
    return Checked((above, below))
