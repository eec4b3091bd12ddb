"""Splits into pieces that are not light, so what one of N tokens can do: docs/proofs/splitting.md#pieces.

mu = sum_i m_i delta_{x_i} is given. nu comes about by writing every atom as pieces of at least 1 / N each, an atom too
light for two of them as one, and moving piece p by d_p, sum m_p |d_p|^2 <= eps^2. So no piece moves farther than
eps sqrt(N). Every measure with N equal atoms within W2 eps is such a nu, if mu can be written with N equal atoms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.attention.rounding import UNIT
from robust_attn.bounds.bound import Bound, from_output_change, not_applicable
from robust_attn.bounds.interval import MARGIN
from robust_attn.bounds.pieces import Centred, Pieces
from robust_attn.bounds.pieces_change import key_rest, query_rest
from robust_attn.bounds.rows import RowBlock, row_blocks
from robust_attn.budget import Wasserstein
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope

SECOND_ORDER, DETERMINISTIC, HULL = "context.second_order", "context.second_order_deterministic", "context.hull"
NORMED = "norms of queries or keys make logits that are not linear in a token"


@dataclass(frozen=True)
class SplitConstant:
    """Upper values of the derivative's norm at the tokens, written as pieces (docs/proofs/splitting.md#copies).

    `upper` fails with a probability, and is None where nothing of that kind was asked for; `closed_form` never fails.
    """

    upper: float | None
    failure_probability: float
    closed_form: float


def context_bounds(
    layer: AttentionLayer,
    norms: HeadNorms,
    sample: TokenMeasure,
    budget: Wasserstein,
    constant: SplitConstant,
    *,
    context: float,
    support: float,
    unit: float = UNIT,
    known: Sequence[RowBlock] | None = None,
) -> tuple[Bound, ...]:
    """`context.second_order`, the same without chance, and `context.hull`, of one sample without padding, in float64.

    `support` may be infinite. `unit` zero leaves out what rounding may have taken. `known` are the rows of this very
    sample, as a batch of one, where somebody has looked at them.
    """
    if layer.normed:
        return tuple(not_applicable(name, NORMED, Scope.PIECES) for name in (SECOND_ORDER, DETERMINISTIC, HULL))
    pieces = Pieces.of(sample, budget.radius, context=context, support=support, sink=layer.sinks is not None)
    blocks = row_blocks(layer, stack([sample]), unit=unit) if known is None else known
    rest, hull = _changes(layer, norms, sample, pieces, blocks)
    if constant.upper is None:
        second_order = not_applicable(SECOND_ORDER, "only deterministic bounds were asked for", Scope.PIECES)
    else:
        change = budget.radius * constant.upper + rest
        second_order = _bound(SECOND_ORDER, change, budget, constant.failure_probability)
    return (
        second_order,
        _bound(DETERMINISTIC, budget.radius * constant.closed_form + rest, budget),
        _bound(HULL, hull, budget),
    )


def _bound(name: str, change: float, budget: Wasserstein, probability: float = 0.0) -> Bound:
    return from_output_change(name, change * MARGIN, budget.radius, Scope.PIECES, failure_probability=probability)


def _changes(
    layer: AttentionLayer, norms: HeadNorms, sample: TokenMeasure, pieces: Pieces, blocks: Iterable[RowBlock]
) -> tuple[float, float]:
    """What the change has beyond its linear part, and what it is in all by the hull: norms in L2(mu), at most."""
    keys, queries, held = None, [], []
    for block in blocks:
        rows, masses = Centred.of(block), sample.masses[block.rows]
        found = key_rest(block, rows, norms, pieces, masses=masses, even=layer.even_slopes)
        keys = found if keys is None else keys + found
        reach = pieces.reach[: sample.length][block.rows]
        queries.append(query_rest(rows, norms, pieces, reach=reach, radius=_unit_of_ways(sample)))
        held.append(rows.hull(norms, pieces)[0].sum(0))
    assert keys is not None
    hull = _in_measure(sample, torch.cat(held))
    return float(keys.change(pieces.eps).min() + pieces.eps * torch.cat(queries).max()), hull


def _unit_of_ways(sample: TokenMeasure) -> float:
    radius = float(sample.radius)
    return radius if radius > 0 else 1.0


def _in_measure(sample: TokenMeasure, rows: Tensor) -> float:
    return float((sample.masses * rows**2).sum().sqrt())
