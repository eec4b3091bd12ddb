"""What a perturbation did: project it into its budget, check that, measure both sides. Attacks are not trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.budget import Budget

SHRINKINGS = 53
ROUNDED_COST = 1e-13
"""Costs of transport are compared up to this part."""


class BudgetExceededError(RuntimeError):
    """A displacement left its budget after projection: a bug, never a result."""


@dataclass(frozen=True, eq=False)
class Observation:
    """One measure, the same measure perturbed inside the budget, and how far the layer's output moved; per sample.

    Changes are in the budget's norm, atom by atom. `rounding` is what float arithmetic may have added to
    `output_change`, or taken from it, and nothing where no atom moved; W2 distances are exact optimal transport, at
    most the changes in the averaged norm.
    """

    base: TokenMeasure
    measure: TokenMeasure
    input_change: Float[Tensor, "*batch"]
    output_change: Float[Tensor, "*batch"]
    rounding: Float[Tensor, "*batch"]
    w2_input: Float[Tensor, "*batch"]
    w2_output: Float[Tensor, "*batch"]

    @property
    def gain(self) -> Float[Tensor, "*batch"]:
        """Output change per input change; NaN where nothing moved."""
        return self.output_change / self.input_change

    @property
    def w2_gain(self) -> Float[Tensor, "*batch"]:
        """W2 of the outputs per W2 of the inputs; NaN where nothing moved."""
        return self.w2_output / self.w2_input


def observe(
    layer: AttentionLayer, base: TokenMeasure, points: Float[Tensor, "*batch n d"], budget: Budget
) -> Observation:
    """Project `points` into the budget around `base`, make sure of it, and measure what the layer does, in float64."""
    layer, base, points = layer.to(torch.float64), base.to(torch.float64), points.double()
    measure = moved_inside(base, points, budget)
    before, after = layer(base), layer(measure)
    moved = measure.points - base.points
    error = evaluation_error(layer, base) + evaluation_error(layer, measure)
    error = torch.where((moved == 0).flatten(-2).all(-1), 0.0, error)
    return Observation(
        base=base,
        measure=measure,
        input_change=budget.norm(moved, base),
        output_change=budget.norm(after - before, base),
        rounding=budget.norm(error[..., None, None].expand(*before.shape[:-1], 1), base),
        w2_input=wasserstein_distance(base.points, measure.points, base.masses),
        w2_output=wasserstein_distance(before, after, base.masses),
    )


def moved_inside(base: TokenMeasure, points: Float[Tensor, "*batch n d"], budget: Budget) -> TokenMeasure:
    """`base` with its atoms at `points`, projected into the budget and certainly inside, as its precision rounds."""
    home = TokenMeasure(base.points.cpu().double(), base.masses.cpu().double(), base.positions.cpu())
    displacement = budget.project(points.cpu().double() - home.points, home)
    if not bool(budget.contains(displacement, home).all()):
        raise BudgetExceededError(f"the projected displacement exceeds the {budget.kind} budget {budget.radius}")
    return base.with_points(_points_inside(home, displacement, budget, base.points.dtype).to(base.points))


def _points_inside(
    base: TokenMeasure, displacement: Tensor, budget: Budget, dtype: torch.dtype
) -> Float[Tensor, "*batch n d"]:
    """Points whose distance from the base, as rounded, is at most the radius, and whose norm at most that of the
    support: adding a small displacement to large coordinates rounds it, and an exact certificate would be "beaten" by
    the excess. Each attempt shrinks twice as much as the one before, from one unit in the last place on; the last one
    leaves the points where they were.
    """
    limit = torch.maximum(budget.support_radius(base), base.radius)
    for attempt in range(SHRINKINGS + 1):
        points = (base.points + displacement).to(dtype).double()
        size = budget.norm(points - base.points, base)
        outside = (size > budget.radius) | (base.with_points(points).radius > limit)
        if attempt == SHRINKINGS or not bool(outside.any()):
            break
        shrunk = (budget.radius / size).clamp_max(1.0) * (1 - 2.0 ** (attempt - SHRINKINGS + 1))
        factor = torch.where(outside, shrunk, torch.ones_like(size))
        displacement = displacement * factor[..., None, None]
    return points


def wasserstein_distance(
    first: Float[Tensor, "*batch n d"], second: Float[Tensor, "*batch n d"], masses: Float[Tensor, "*batch n"]
) -> Float[Tensor, "*batch"]:
    """W2 between two measures with the same masses, exactly: by an assignment where that is enough, else POT's solver.

    Atom by atom is one of the couplings that it minimises over, so what rounding puts above that is taken off.
    """
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        return masses.new_full(masses.shape[:-1], torch.nan)
    distances = []
    flat = zip(first.reshape(-1, *first.shape[-2:]), second.reshape(-1, *second.shape[-2:]), strict=True)
    for (left, right), mass in zip(flat, masses.reshape(-1, masses.shape[-1]), strict=True):
        left, right, mass = left.cpu().double(), right.cpu().double(), mass.cpu().double()  # noqa: PLW2901
        unit = _power_of_two(float(torch.maximum(left.abs().max(), right.abs().max())))
        cost = torch.cdist(left / unit, right / unit, compute_mode="donot_use_mm_for_euclid_dist") ** 2
        weights = mass / mass.sum()
        squared = _transport_cost(cost, weights)
        distances.append(unit * max(min(squared, float((weights * cost.diagonal()).sum())), 0.0) ** 0.5)
    return torch.tensor(distances, dtype=masses.dtype, device=masses.device).reshape(masses.shape[:-1])


def _power_of_two(size: float) -> float:
    """One near `size`: dividing by it rounds nothing, and squares of what is left are numbers."""
    return math.ldexp(1.0, max(math.frexp(size)[1], -1000) - 1)


def _transport_cost(cost: Float[Tensor, "n n"], weights: Float[Tensor, "n"]) -> float:
    """The least cost of bringing the weights to themselves.

    Equal weights are brought by a permutation (Birkhoff and von Neumann). And where no permutation of the atoms is
    cheaper than to bring each to itself, that is the cheapest for all weights (docs/proofs/splitting.md#transport).
    SciPy is there; importing POT takes seconds.
    """
    from scipy.optimize import linear_sum_assignment

    present = weights > 0
    cost, weights = cost[present][:, present], weights[present]
    rows, columns = linear_sum_assignment(cost.numpy())
    least, each = cost[rows, columns].sum(), cost.diagonal()
    if bool((weights == weights[0]).all()):
        return float(weights[0] * least)
    if bool(each.sum() - least <= ROUNDED_COST * each.sum()):
        return float((weights * each).sum())
    import ot

    return float(ot.emd2(weights.numpy(), weights.numpy(), cost.numpy(), numItermax=1_000_000))
