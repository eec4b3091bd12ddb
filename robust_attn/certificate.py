"""Certificates: every bound that speaks about a layer, a measure and a budget, and the smallest that applies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNKNOWN_ATTENTION, attention_growth
from robust_attn.bounds import paper, sharp, splitting
from robust_attn.bounds.ball import BallNorms, ball_norms
from robust_attn.bounds.bound import Bound, Side, from_output_change, not_applicable
from robust_attn.bounds.comparators import comparator_bounds
from robust_attn.bounds.joint_norms import joint_norms
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, PerToken, Wasserstein
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import HeadNorms, head_norms
from robust_attn.types import Scope, Verdict

HULL = "local.hull"
_UNKNOWN = tuple(
    (name, UNKNOWN_ATTENTION, scope)
    for name, scope in (
        ("local.closed_form", Scope.LOCAL),
        ("local.block_norm", Scope.LOCAL),
        ("local.second_order", Scope.BALL),
        ("local.second_order_deterministic", Scope.BALL),
        ("local.ball", Scope.BALL),
    )
)
PATH = (0.25, 0.5, 0.75, 1.0)
"""Parts of the radius at which a path from the tokens to the edge of the ball is looked at."""


@dataclass(frozen=True)
class Certificate:
    """No perturbation in the budget changes the layer's output by more than `output_change`, by the bound named.

    It fails with at most `failure_probability`, zero unless a Lanczos value entered. `bounds` shows all the others.
    """

    bound: str | None
    output_change: float
    failure_probability: float
    bounds: tuple[Bound, ...]

    def named(self, name: str) -> Bound:
        """One of the bounds, by name."""
        return next(bound for bound in self.bounds if bound.name == name)


def certify(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    *,
    generator: torch.Generator | None = None,
    deterministic: bool = False,
) -> Certificate:
    """The certificate of one measure. `deterministic` leaves out what holds only with high probability."""
    batched = TokenMeasure(measure.points[None], measure.masses[None], measure.positions[None])
    estimate = None
    if not deterministic:
        weights = budget.weights(batched)
        estimate = local_lipschitz(layer, batched, weights=weights, generator=generator)
    return certify_batch(layer, batched, budget, lipschitz=estimate)[0]


def certify_batch(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    *,
    lipschitz: LipschitzEstimate | None,
    norms: HeadNorms | None = None,
) -> tuple[Certificate, ...]:
    """Certificates of every sample, in float64. `lipschitz` must be the local constant of this very measure.

    A constant of the unsplit tokens does not do for a split measure: use `split_lipschitz` for that.
    """
    layer, measure = layer.to(torch.float64), measure.to(torch.float64)
    norms = head_norms(layer) if norms is None else norms
    path = ball_norms(layer, norms, measure, [replace(budget, radius=part * budget.radius) for part in PATH])
    growth = attention_growth(layer, measure)
    return tuple(
        _smallest(
            (
                *_global_bounds(layer, norms, measure.sample(index), budget),
                *_local_bounds(measure.sample(index), budget, _sample_values(path, lipschitz, growth, index)),
                *comparator_bounds(layer, norms, measure.sample(index), budget),
            ),
            known=bool(torch.isfinite(layer.offset).all()),
        )
        for index in range(measure.points.shape[0])
    )


def certify_measures(
    layer: AttentionLayer, measure: TokenMeasure, budget: Wasserstein, *, norms: HeadNorms | None = None
) -> tuple[Certificate, ...]:
    """Certificates of every sample against **any** measure within the budget's W2 distance: atoms may split freely.

    The measures stay in the budget's support; without one, in the ball that holds the atoms wherever they may go whole.
    Deterministic. Far above `certify_batch` on pretrained layers, because slivers of mass really are that strong.
    """
    layer, measure = layer.to(torch.float64), measure.to(torch.float64)
    norms = head_norms(layer) if norms is None else norms
    joint = joint_norms(layer)
    found = []
    for index in range(measure.points.shape[0]):
        sample = measure.sample(index)
        support = min(BallSetting.around(layer, norms, sample, budget).radius, float(budget.support_radius(sample)))
        bounds = splitting.splitting_bounds(layer, norms, sample, budget, support=support, joint=joint)
        found.append(_smallest(bounds, known=bool(torch.isfinite(layer.offset).all())))
    return tuple(found)


def verdict(observed: float, rounding: float, certificate: Certificate) -> Verdict:
    """HOLDS only for finite numbers, an observed change within the certificate, and a certificate below the hull."""
    certified = certificate.output_change
    if not (math.isfinite(observed) and math.isfinite(rounding) and math.isfinite(certified)):
        return Verdict.UNKNOWN
    if observed - rounding > certified:
        return Verdict.VIOLATED
    return Verdict.VACUOUS if certificate.bound in (HULL, splitting.HULL) else Verdict.HOLDS


def _global_bounds(layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget) -> tuple[Bound, ...]:
    ball = BallSetting.around(layer, norms, measure, budget)
    lower = "it is stated for one head with V = I"
    return (
        paper.discrete_upper(ball),
        paper.mean_field_upper(ball),
        paper.masked_mean_field_upper(ball),
        not_applicable("paper.discrete_lower", lower, Scope.GLOBAL, Side.LOWER),
        not_applicable("paper.mean_field_lower", lower, Scope.GLOBAL, Side.LOWER),
        sharp.unified_upper(ball),
        sharp.half_square_upper(ball),
        sharp.sharp_mean_field_upper(ball),
        sharp.token_max_upper(ball),
    )


@dataclass(frozen=True)
class _LocalValues:
    """One sample's numbers: constants at the tokens (exact with high probability, and closed form) and along the path.

    `mean_slope` eps bounds the integral of the derivative's norm over a path of length eps, and `mean_curvature` eps^2
    the integral of (eps - s) |f''| over it: sums of upper values on the balls that the path leaves one after another.
    All of them are made of attention weights as computed; `growth` is what rounding of the logits may add, as a part.
    """

    lipschitz_upper: float | None
    failure_probability: float
    closed_form: float
    block_norm: float
    mean_slope: float
    mean_curvature: float
    hull_rows: torch.Tensor
    growth: float


def _sample_values(
    path: Sequence[BallNorms], lipschitz: LipschitzEstimate | None, growth: torch.Tensor, index: int
) -> _LocalValues:
    starts = (0.0, *PATH[:-1])
    widths = [end - start for start, end in zip(starts, PATH, strict=True)]
    moments = [((1 - start) ** 2 - (1 - end) ** 2) / 2 for start, end in zip(starts, PATH, strict=True)]
    return _LocalValues(
        lipschitz_upper=None if lipschitz is None else float(lipschitz.upper[index]),
        failure_probability=0.0 if lipschitz is None else lipschitz.failure_probability,
        closed_form=float(path[-1].centre[index]),
        block_norm=float(path[-1].centre_blocks[index]),
        mean_slope=sum(width * float(ball.closed_form[index]) for width, ball in zip(widths, path, strict=True)),
        mean_curvature=sum(part * float(ball.curvature[index]) for part, ball in zip(moments, path, strict=True)),
        hull_rows=path[-1].hull_rows[index],
        growth=float(growth[index]),
    )


def _local_bounds(measure: TokenMeasure, budget: Budget, values: _LocalValues) -> tuple[Bound, ...]:
    """Constants at the tokens, Taylor with remainder from two of them, the mean-value bound, and the hull.

    Where rounding leaves the attention weights unknown only the hull remains, twice as large: the row's own mean lies
    in it, wherever it is.
    """
    hull = _hull(measure, budget, values.hull_rows)
    if not math.isfinite(values.growth):
        return (*(not_applicable(*each) for each in _UNKNOWN), _on_ball(HULL, 2 * hull, budget))
    eps, more = budget.hilbert_radius(measure), 1 + values.growth
    remainder = eps * eps * values.mean_curvature * more
    if values.lipschitz_upper is None:
        why_not = "only deterministic bounds were asked for"
        second_order = not_applicable("local.second_order", why_not, Scope.BALL)
    else:
        slope = values.lipschitz_upper + values.growth * min(values.closed_form, values.block_norm)
        second_order = _on_ball("local.second_order", eps * slope + remainder, budget, values.failure_probability)
    at_tokens = {"local.closed_form": values.closed_form * more, "local.block_norm": values.block_norm * more}
    return (
        *(from_output_change(name, eps * value, budget.radius, Scope.LOCAL) for name, value in at_tokens.items()),
        second_order,
        _on_ball("local.second_order_deterministic", eps * min(at_tokens.values()) + remainder, budget),
        _on_ball("local.ball", eps * values.mean_slope * more, budget),
        _on_ball(HULL, hull * more, budget),
    )


def _on_ball(name: str, change: float, budget: Budget, probability: float = 0.0) -> Bound:
    return from_output_change(name, change, budget.radius, Scope.BALL, failure_probability=probability)


def _hull(measure: TokenMeasure, budget: Budget, rows: torch.Tensor) -> float:
    """Rows put together as the budget's norm does."""
    if isinstance(budget, PerToken):
        return float(rows[measure.present].max())
    return float((budget.weights(measure) * rows**2).sum().sqrt())


def _smallest(bounds: Sequence[Bound], *, known: bool) -> Certificate:
    """The smallest bound that may certify. Not a number if there is none, or if one that applies is not a number.

    `known` says whether the map itself is one at all: an offset that is not finite drops out of every difference.
    """
    usable = [bound for bound in bounds if bound.certifies] if known else []
    broken = [bound for bound in bounds if bound.applies and not bound.comparator and math.isnan(bound.output_change)]
    if not usable or broken:
        return Certificate(None, math.nan, 0.0, tuple(bounds))
    best = min(usable, key=lambda bound: bound.output_change)
    return Certificate(best.name, best.output_change, best.failure_probability, tuple(bounds))
