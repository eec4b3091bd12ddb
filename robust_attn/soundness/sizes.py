"""Norms of heads beside the same norms of exact products, and observations beside exact changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.rounding import NEGLIGIBLE_SIZE
from robust_attn.observation import observe
from robust_attn.soundness.case import Case
from robust_attn.soundness.comparison import NOT_OBSERVED, Checked, Comparison, together
from robust_attn.soundness.exact import Judge
from robust_attn.soundness.numbers import budget_of, measures_of, stored_layer
from robust_attn.soundness.rival import exact_product
from robust_attn.soundness.strike import strike
from robust_attn.spectral.norms import head_norms

SMALLEST = NEGLIGIBLE_SIZE**2
SVD_ROUNDING = 1e-12
"""Relative error of singular values of a small matrix, with room."""


def norms_checked(case: Case) -> Checked:
    """`head_norms`: every upper value beside the norm of the exact product, rounded once, which nothing cancels in.

    Norms whose squares vanish are nobody's: no certificate speaks of such layers (`within_range`).
    """
    layer = stored_layer(case)
    found, groups, size = head_norms(layer), layer.head_groups, abs(layer.scale)
    query, output = layer.query.double(), layer.output.double()
    key, value = layer.key[groups].double(), layer.value[groups].double()
    heads = range(layer.heads)
    values = torch.stack([exact_product(output[head], value[head]) for head in heads])
    interactions = torch.stack([exact_product(key[head].T, query[head]) for head in heads]) * size
    pulls = torch.stack([exact_product(key[head].T, layer.query_bias[head][:, None]) for head in heads]) * size

    def pairs() -> Iterator[tuple[str, float, float]]:
        for head in heads:
            yield "value", _norm(values[head]), float(found.value[head])
            yield "inner_value", _norm(value[head]), float(found.inner_value[head])
            yield "interaction", _norm(interactions[head]), float(found.interaction[head])
            yield "key_slope_at_zero", _norm(pulls[head]), float(found.key_slope_at_zero[head])
        yield "output", _norm(_beside(output)), found.output
        yield "beside_value", _norm(_beside(values)), found.beside_value
        yield "stacked_value", _bilinear(values), found.stacked_value
        yield "stacked_interaction", _norm(interactions.flatten(0, 1)), found.stacked_interaction

    return Checked(
        tuple(
            Comparison(f"{case.called}.{name}", 0, attained, SVD_ROUNDING * attained, allowed)
            for name, attained, allowed in pairs()
            if attained >= SMALLEST
        )
    )


def observe_checked(case: Case) -> Checked:
    """`observe`: the exact change is within `rounding` of the one observed."""
    layer = stored_layer(case)
    inputs = measures_of(case, layer)
    budget = budget_of(case, inputs)

    def one(index: int) -> Checked:
        sample, number = inputs.sample(index), case.samples[index]
        hit = strike(case, layer, sample, budget, number)
        if not hit.usable:
            return Checked((), (NOT_OBSERVED,))
        seen = observe(layer, hit.base, hit.base.points + hit.displacement, hit.budget)
        roomy = replace(hit.budget, radius=2 * hit.budget.radius, support=None)
        exact = Judge.of(layer, seen.base, roomy).to_points(seen.measure.points)
        change, rounding = float(seen.output_change), float(seen.rounding)
        above = Comparison("observe.above", number, exact.output_lower, 0.0, change + rounding, exact=True)
        below = Comparison("observe.below", number, change, rounding, exact.output_upper, exact=True)
        return Checked((above, below))

    return together(map(one, range(len(case.samples))))


def _norm(matrix: Float[Tensor, "rows columns"]) -> float:
    return float(torch.linalg.matrix_norm(matrix, ord=2))


def _beside(matrices: Float[Tensor, "heads rows columns"]) -> Float[Tensor, "rows more"]:
    return matrices.permute(1, 0, 2).flatten(1)


def _bilinear(values: Float[Tensor, "heads out d"]) -> float:
    """(sum_h <w, V_h e>^2)^{1/2} at the singular vectors of each head: what `stacked_value` has to bound."""
    left, _, right = torch.linalg.svd(values, full_matrices=False)
    pairs = torch.einsum("go,hod,gd->gh", left[:, :, 0], values, right[:, 0])
    return float(pairs.norm(dim=-1).max())
