"""Interval bound propagation through the layer, the plain alternative: docs/proofs/comparators.md#interval-propagation.

Every intermediate number gets an interval of its own. What is lost: that atoms share one budget, that queries, keys and
values move together, and that attention weights sum to one.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.jacobian import Projections, project, row_blocks, weighted_logits
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotation
from robust_attn.bounds.bound import Bound, from_output_change
from robust_attn.bounds.interval import MARGIN, softmax_interval
from robust_attn.budget import Budget, PerToken
from robust_attn.types import Scope

NAME = "comparator.ibp"
BLOCK_ELEMENTS = 2**20
"""Attention weights in flight at once: 8 MB in float64, of which some twenty arrays are alive at a time."""
ROUNDING = 1e-15
"""Share of its terms that a difference of squares may be too small by."""


def interval_upper(layer: AttentionLayer, measure: TokenMeasure, budget: Budget) -> Bound:
    """No perturbation of one sample inside the budget changes the output by more than this, by intervals alone.

    Sound for every mask, bias, rotation, grouping and mass. Each row's output stays in a box around its value; the
    farthest corners of all rows are put together as the budget's norm does.
    """
    present = present_atoms(measure)
    rows = row_changes(layer, present, budget.reach(measure)[measure.present].to(layer.dtype))
    weights = budget.weights(present)
    change = rows.max() if isinstance(budget, PerToken) else (weights * rows**2).sum().sqrt()
    return from_output_change(NAME, float(change) * MARGIN, budget.radius, Scope.BALL, comparator=True)


def present_atoms(measure: TokenMeasure) -> TokenMeasure:
    """One sample without its padding, which nobody sees and which never moves."""
    kept = measure.present
    return TokenMeasure(measure.points[kept], measure.masses[kept], measure.positions[kept])


def row_changes(layer: AttentionLayer, measure: TokenMeasure, reach: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
    """Upper values of |f(Y)_i - f(X)_i| for all Y with |y_j - x_j| <= reach_j; every atom must have mass."""
    centre, radius = project(layer, measure), projection_radii(layer, measure, reach)
    size = max(1, BLOCK_ELEMENTS // (layer.heads * measure.length))
    pieces = []
    for rows in row_blocks(centre, size):
        rise, fall, attention = _attention_interval(layer, measure, centre, radius, rows)
        up, down = mean_interval(rise, fall, attention, centre.v, radius.v)
        pieces.append(_output_interval(layer, up, down).norm(dim=-1))
    return torch.cat(pieces)


def projection_radii(layer: AttentionLayer, measure: TokenMeasure, reach: Float[Tensor, "n"]) -> Projections:
    """How far each coordinate of queries, keys and values moves when token j moves by `reach_j`: |row of W| reach_j.

    Attained by a move along that row, so each interval by itself is exact; rotary positions turn the rows first.
    """
    query, key = (row_lengths(weights, layer.rotary, measure.positions) for weights in (layer.query, layer.key))
    value = row_lengths(layer.value, None, measure.positions)
    repeats = layer.heads // layer.groups
    key, value = key.repeat_interleave(repeats, dim=0), value.repeat_interleave(repeats, dim=0)
    return Projections(query * reach[:, None], key * reach[:, None], value * reach[:, None])


def row_lengths(
    weights: Float[Tensor, "heads width d"], rotary: Rotation | None, positions: Int[Tensor, "n"]
) -> Float[Tensor, "heads n width"]:
    """Norms of the rows of R_j W, R_j the rotation at the position of token j.

    A rotation makes cos a - sin b and cos b + sin a of row a and its partner b in the other half: inner products do.
    """
    lengths = weights.norm(dim=-1)[:, None, :].expand(-1, positions.shape[0], -1)
    if rotary is None:
        return lengths
    half = weights.shape[1] // 2
    first, second = lengths.square().split(half, dim=-1)
    inner = (weights[:, :half] * weights[:, half:]).sum(-1)[:, None, :]
    along = torch.cat((torch.ones_like(first[:1]), torch.zeros_like(first[:1])), dim=-1)
    cosine, sine = rotary.rotate(along, positions).split(half, dim=-1)
    mixed = 2 * cosine * sine * inner
    rounding = ROUNDING * (cosine**2 + sine**2) * (first + second)
    top = cosine**2 * first + sine**2 * second - mixed + rounding
    bottom = cosine**2 * second + sine**2 * first + mixed + rounding
    return torch.cat((top, bottom), dim=-1).clamp_min(0.0).sqrt()


def _attention_interval(
    layer: AttentionLayer, measure: TokenMeasure, centre: Projections, radius: Projections, rows: slice
) -> tuple[Tensor, Tensor, Tensor]:
    """How far attention weights rise and fall, and the weights: logits by interval products, then interval softmax.

    A product of [a - r, a + r] and [b - t, b + t] is within |a| t + r (|b| + t) of a b.
    """
    seen = visible(layer.mask, measure.positions, measure.masses, rows)
    log_p = weighted_logits(layer, measure, centre, rows).log_softmax(-1)
    q, q_radius = centre.q[:, rows].abs(), radius.q[:, rows]
    shift = q @ radius.k.transpose(-1, -2) + q_radius @ (centre.k.abs() + radius.k).transpose(-1, -2)
    lower, upper, _ = softmax_interval(log_p, abs(layer.scale) * shift, seen.expand(log_p.shape))
    attention = log_p.exp()
    return (upper - attention).clamp_min(0.0), (attention - lower).clamp_min(0.0), attention


def mean_interval(
    rise: Float[Tensor, "heads rows n"],
    fall: Float[Tensor, "heads rows n"],
    attention: Float[Tensor, "heads rows n"],
    value: Float[Tensor, "heads n k"],
    radius: Float[Tensor, "heads n k"],
) -> tuple[Float[Tensor, "heads rows k"], Float[Tensor, "heads rows k"]]:
    """How far sum_j P_ij v_j can go up and down, every weight and value in its own interval; exact for such boxes.

    Weights are not negative, so the largest p v is at v + r, with the largest weight where that is positive and with
    the smallest where it is negative. Written as a distance from the centre, nothing cancels.
    """
    moved = attention @ radius
    highest, lowest = value + radius, value - radius
    up = rise @ highest.clamp_min(0.0) + fall @ (-highest).clamp_min(0.0) + moved
    down = fall @ lowest.clamp_min(0.0) + rise @ (-lowest).clamp_min(0.0) + moved
    return up, down


def _output_interval(
    layer: AttentionLayer, up: Float[Tensor, "heads rows k"], down: Float[Tensor, "heads rows k"]
) -> Float[Tensor, "rows out"]:
    """The larger of the ways up and down of every output coordinate, all heads together."""
    up, down = (field.transpose(0, 1).flatten(1) for field in (up, down))
    positive, negative = layer.stacked_output.clamp_min(0.0), (-layer.stacked_output).clamp_min(0.0)
    return torch.maximum(up @ positive + down @ negative, down @ positive + up @ negative)
