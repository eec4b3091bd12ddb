"""Certificates on a ball around the tokens given (docs/proofs/local.md): closed form, second order, hull.

Everything is measured in (sum_i w_i |.|^2)^{1/2}. A displacement of that norm at most eps moves atom j by at most
r_j <= eps / sqrt(w_j).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.attention.rounding import UNIT
from robust_attn.bounds.bent import Bend, Bent
from robust_attn.bounds.curvature import (
    Joined,
    cross_terms,
    joined,
    key_form,
    moving_values,
    second_crossing,
    second_own,
    third_keys,
)
from robust_attn.bounds.higher import higher_rows
from robust_attn.bounds.interval import MARGIN, Ball, Inflated, ball_of, inflated
from robust_attn.bounds.rows import KnownRows, RowBlock, row_blocks
from robust_attn.bounds.slopes import Slopes, block_slope, column_slope, slopes_on
from robust_attn.bounds.together import QuadraticRows, largest_value
from robust_attn.budget import Budget, Wasserstein
from robust_attn.spectral.norms import HeadNorms


@dataclass(frozen=True, eq=False)
class BallNorms:
    """Upper values over a whole ball around the tokens, one number per sample: change of the output, in the norm.

    `centre` and `centre_blocks` are Lipschitz constants at the tokens themselves (columns of attention, and norms of
    blocks), `closed_form` one on the ball, `curvature` an upper value of |f''[d, d]| / |d|^2 there; `hull_rows` bounds
    the output change of each row for every perturbation in the budget.
    """

    centre: Float[Tensor, "*batch"]
    centre_blocks: Float[Tensor, "*batch"]
    closed_form: Float[Tensor, "*batch"]
    curvature: Float[Tensor, "*batch"]
    hull_rows: Float[Tensor, "*batch n"]


@dataclass(frozen=True, eq=False)
class _Terms:
    """A block's share: the derivative at the tokens and on the ball, curvature, the hull."""

    centre: Slopes
    slopes: Slopes
    curvature: QuadraticRows
    hull_rows: Float[Tensor, "*batch rows"]


Fields = TypeVar("Fields", _Terms, Slopes, QuadraticRows)
Item = TypeVar("Item")


def ball_norms(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    budgets: Sequence[Budget],
    *,
    unit: float = UNIT,
    known: KnownRows | None = None,
) -> tuple[BallNorms, ...]:
    """All bounds on the ball of each budget around a batched measure, in float64; the rows are looked at once.

    `known` rows, where they are those of this measure, need not be looked at again (`unit` is then UNIT).
    """
    if layer.normed and len(measure.points) > 1:
        return _sample_by_sample(layer, norms, measure, budgets, unit)
    balls = [ball_of(measure, budget) for budget in budgets]
    blocks: list[list[_Terms]] = [[] for _ in balls]
    bent = Bent.of(layer, measure, unit=unit) if layer.normed else None
    for rows in _rows(layer, measure, bent, unit, known):
        centre, near = None, None
        for ball, found in _middle_first(list(zip(balls, blocks, strict=True))):
            keys = ball if layer.sinks is None else ball.with_sink
            bend = None if bent is None else bent.on(ball.reach, rows.rows, sink=layer.sinks is not None)
            own = norms if bend is None else bend.norms(norms)
            here = _here(own, keys, rows, bend, near)
            near = here if near is None else near
            if centre is None or bend is not None:  # the same for every ball, but for norms that depend on it
                centre = _centre(own, keys, layer.even_slopes, rows, near)
            terms = _terms(own, keys, layer.even_slopes, rows, bend=bend, centre=centre, here=here)
            found.append(_every_copy(_first_keys(terms, measure.length), rows.rows))
    return tuple(_assemble(ball, _concatenated(found)) for ball, found in zip(balls, blocks, strict=True))


def higher_norms(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    budgets: Sequence[Budget],
    orders: Sequence[int],
    *,
    known: KnownRows | None = None,
) -> tuple[tuple[Float[Tensor, "*batch"], ...], ...]:
    """For each budget upper values of derivatives of these orders, from three on, at all its points along displacements
    that are in it.

    For layers without norms of queries and keys.
    """
    balls = [ball_of(measure, budget) for budget in budgets]
    blocks: list[list[list[QuadraticRows]]] = [[[] for _ in orders] for _ in balls]
    for rows in _rows(layer, measure, None, UNIT, known):
        for ball, of_ball in zip(balls, blocks, strict=True):
            keys = ball if layer.sinks is None else ball.with_sink
            for found, terms in zip(of_ball, higher_rows(norms, keys, rows, orders), strict=True):
                found.append(_every_copy(_first_keys(terms, measure.length), rows.rows))
    return tuple(
        tuple(largest_value(ball, _concatenated(found)) * (ball.eps * ball.eps) * MARGIN for found in of_ball)
        for ball, of_ball in zip(balls, blocks, strict=True)
    )


def centre_norms(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    *,
    unit: float = UNIT,
    known: KnownRows | None = None,
) -> Float[Tensor, "*batch"]:
    """The smaller of `centre` and `centre_blocks` alone, in the norm of the masses."""
    if layer.normed:
        at = ball_norms(layer, norms, measure, [Wasserstein(0.0)], unit=unit)[0]
        return torch.minimum(at.centre, at.centre_blocks)
    ball = ball_of(measure, Wasserstein(0.0))
    keys = ball if layer.sinks is None else ball.with_sink
    blocks = _rows(layer, measure, None, unit, known)
    found = _concatenated(
        [
            _every_copy(_first_keys(_centre(norms, keys, layer.even_slopes, rows), measure.length), rows.rows)
            for rows in blocks
        ]
    )
    return torch.minimum(column_slope(ball, found), block_slope(ball, found)) * MARGIN


def _middle_first(items: list[Item]) -> list[Item]:
    """The one in the middle before the others: it is nearest to all of them."""
    middle = (len(items) - 1) // 2
    return [*items[middle : middle + 1], *items[:middle], *items[middle + 1 :]]


def _rows(
    layer: AttentionLayer, measure: TokenMeasure, bent: Bent | None, unit: float, known: KnownRows | None
) -> Iterable[RowBlock]:
    """Of copies of a token the rows of the first alone: `_every_copy` makes those of the others."""
    found = None if known is None or bent is not None or unit != UNIT else known.of(measure, first=True)
    return row_blocks(layer, measure, bent=bent, unit=unit, first=True) if found is None else found


def _sample_by_sample(
    layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budgets: Sequence[Budget], unit: float
) -> tuple[BallNorms, ...]:
    """Where the norms of heads on a ball depend on its tokens, so that no sample depends on those beside it."""
    alone = [stack([measure.sample(index)]) for index in range(len(measure.points))]
    each = [ball_norms(layer, norms, one, budgets, unit=unit) for one in alone]
    names = [field.name for field in fields(BallNorms)]
    return tuple(
        BallNorms(**{name: torch.cat([getattr(found, name) for found in samples]) for name in names})
        for samples in zip(*each, strict=True)
    )


def _concatenated(blocks: Sequence[Fields]) -> Fields:
    """Blocks of rows as one: axis 1 runs over the rows (axis 0 over the samples)."""
    columns = {field.name: [getattr(block, field.name) for block in blocks] for field in fields(blocks[0])}
    joined: dict[str, Any] = {
        name: torch.cat(found, dim=1) if isinstance(found[0], Tensor) else _concatenated(found)
        for name, found in columns.items()
    }
    return replace(blocks[0], **joined)


def _first_keys(terms: Fields, length: int) -> Fields:
    """Without the sink, which is last among the keys and does not move: what multiplies its motion counts nothing."""
    cut: dict[str, Any] = {
        field.name: found[..., :length] if isinstance(found, Tensor) else _first_keys(found, length)
        for field in fields(terms)
        for found in (getattr(terms, field.name),)
    }
    return replace(terms, **cut)


def _every_copy(terms: Fields, rows: slice) -> Fields:
    """What is known of the rows of first copies, for all of them: every step-th of `rows`.

    A copy's row is that of the first, but that the copies of its own token come in another order: itself first.
    """
    copies = rows.step or 1
    if copies == 1:
        return terms
    numbers = {field.name: getattr(terms, field.name) for field in fields(terms)}
    expanded: dict[str, Any] = {
        name: _copied_rows(found, rows, copies) if isinstance(found, Tensor) else _every_copy(found, rows)
        for name, found in numbers.items()
    }
    return replace(terms, **expanded)


def _copied_rows(field: Tensor, rows: slice, copies: int) -> Tensor:
    """Rows [samples, rows] or matrices [samples, rows, n]."""
    repeated = field.repeat_interleave(copies, dim=1)
    if field.dim() == 2:
        return repeated
    row = torch.arange(rows.start, rows.stop, device=field.device)[:, None]
    column = torch.arange(field.shape[-1], device=field.device)
    own = row // copies == column // copies
    taken = torch.where(own, column - column % copies + (column - row) % copies, column)
    return repeated.gather(2, taken.expand_as(repeated))


def _assemble(ball: Ball, terms: _Terms) -> BallNorms:
    """Rows put together in the weighted norm (docs/proofs/local.md#rows-put-together)."""
    closed_form = torch.minimum(column_slope(ball, terms.slopes), block_slope(ball, terms.slopes))
    return BallNorms(
        centre=column_slope(ball, terms.centre) * MARGIN,
        centre_blocks=block_slope(ball, terms.centre) * MARGIN,
        closed_form=closed_form * MARGIN,
        curvature=largest_value(ball, terms.curvature) * MARGIN,
        hull_rows=terms.hull_rows * MARGIN,
    )


@dataclass(frozen=True, eq=False)
class _Here:
    """What is known on a ball, and of the heads together with the weights of the key forms that are asked for."""

    at: Inflated
    third_weights: Float[Tensor, "*batch heads rows keys"]
    keys: Joined | None
    thirds: Joined | None


def _here(norms: HeadNorms, ball: Ball, data: RowBlock, bend: Bend | None, near: _Here | None) -> _Here:
    """On one ball; `near` is what is known on another one."""
    at = inflated(norms, ball, data, bend)
    third_weights = third_keys(at, ball.inverse[..., None, None, :])
    keys, thirds = (None, None) if near is None else (near.keys, near.thirds)
    return _Here(at, third_weights, joined(data, at.variance, keys), joined(data, third_weights, thirds))


def _centre(norms: HeadNorms, ball: Ball, even_slopes: bool, data: RowBlock, near: _Here | None = None) -> Slopes:
    """The derivative at the tokens themselves."""
    at = inflated(norms, ball.centre, data)
    together = joined(data, at.variance, None if near is None else near.keys)
    slopes = slopes_on(norms, even_slopes, at, key_form(norms, ball.centre, data, at, at.variance, together=together))
    return replace(slopes, queries=torch.minimum(slopes.queries, data.query_block))


def _terms(
    norms: HeadNorms, ball: Ball, even_slopes: bool, data: RowBlock, *, bend: Bend | None, centre: Slopes, here: _Here
) -> _Terms:
    """One block of rows: bounds of the derivative, of the second derivative and of the hull."""
    at = here.at
    keys = key_form(norms, ball, data, at, at.variance, together=here.keys)
    thirds = key_form(norms, ball, data, at, here.third_weights, together=here.thirds)
    cross_rows, cross_matrix = cross_terms(norms, ball, at, keys, second_crossing(at))
    slopes = slopes_on(norms, even_slopes, at, keys)
    return _Terms(
        centre=centre,
        slopes=slopes,
        curvature=QuadraticRows(
            pairs=moving_values(norms, at, keys) + thirds + _bent_pairs(at, bend),
            own=(second_own(at) + (0.0 if bend is None else bend.own * at.value_deviation)).sum(-2),
            cross_rows=cross_rows,
            cross_matrix=cross_matrix,
        ),
        hull_rows=_hull_rows(norms, ball, data),
    )


def _bent_pairs(at: Inflated, bend: Bend | None) -> Tensor | float:
    """|Cov(u, d^2 s / dx_j^2)| per |d_j|^2, all heads."""
    return 0.0 if bend is None else (at.ceiling * at.value_distance * bend.pair).sum(-3)


def _hull_rows(norms: HeadNorms, ball: Ball, data: RowBlock) -> Float[Tensor, "*batch rows"]:
    """sum_h (farthest visible value from the row's own mean + |W_O W_V| times the largest reach of a visible atom).

    The exact mean is off the computed one by the part that weights err, and lies in the hull wherever it is.
    """
    distance = torch.where(data.seen, data.value_distance, torch.zeros_like(data.value_distance)).amax(-1)
    distance = distance * (1 + torch.expm1(2 * data.logit_error).clamp_max(1.0))[..., None]
    reach = torch.where(data.seen, ball.reach[..., None, None, :], 0.0).amax(-1)
    return (distance + norms.value[:, None] * reach).sum(-2)
