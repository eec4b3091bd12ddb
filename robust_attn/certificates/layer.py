"""Certificates: every bound that speaks about a layer, a measure and a budget, and the smallest that applies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from robust_attn.attention.jacobian import project
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure, stack
from robust_attn.attention.rounding import UNIT, Sizes, rounding_at, within_range
from robust_attn.bounds import context, splitting
from robust_attn.bounds.ball import BallNorms, ball_norms
from robust_attn.bounds.bound import Bound, at_tokens, from_output_change, not_applicable
from robust_attn.bounds.comparators import comparator_bounds
from robust_attn.bounds.registry import GLOBAL_BOUNDS, foreign_bounds
from robust_attn.bounds.rows import KnownRows
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Budget, PerToken, expect_budget
from robust_attn.certificates.followed import Following
from robust_attn.certificates.higher_orders import Orders, higher_orders
from robust_attn.certificates.path import along_path, path_mean
from robust_attn.certificates.sampled_orders import Pairs, SampledOrders
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.matrix_norms import product_error
from robust_attn.spectral.norms import HeadNorms, head_norms
from robust_attn.types import Covers, Scope, Verdict, as_html

HULL = "local.hull"
HULLS = (HULL, splitting.HULL, context.HULL)
"""Bounds that hold however far atoms may go: what is no smaller says nothing new."""
DOUBT = 1e-4
"""Sizes that rounding may change by more than this part make it worth asking what it does to the certificate."""
MOSTLY_ROUNDING = 2.001
"""A bound beyond so many times the one without rounding is one of rounding. Where logits are not known at all the hull
is doubled: that much is still a bound of the layer."""
OUT_OF_RANGE = "sizes are such that squares of them vanish or overflow"
AllBounds = tuple[tuple[Bound, ...], ...]
ROUNDED = 1e-8
"""Masses are compared up to this part."""
OBSERVED_ROUNDING = 0.1
"""A comparison of which rounding may be more than this part of the certificate decides nothing."""


@runtime_checkable
class Seen(Protocol):
    """What was observed: the atoms that were moved, how far the output went, and what rounding may have added."""

    @property
    def base(self) -> TokenMeasure:
        """The atoms before they moved."""

    @property
    def output_change(self) -> Tensor:
        """Per sample, in the norm of the budget."""

    @property
    def rounding(self) -> Tensor:
        """Per sample."""


@dataclass(frozen=True)
class Certificate:
    """No perturbation in the budget changes the layer's output by more than `output_change`, by the bound named.

    It fails with at most `failure_probability`, zero unless a Lanczos value entered: over the draw of that value's
    start, by `seed`, for a layer and tokens that were fixed before it. What rounding may have done is allowed for in
    every bound; where that is more than the rest of it, nothing is certified: not a number, and no bound.

    That of a batch promises it of all its samples at once: it is that of the sample with the largest change, and not a
    number if one of them is not. `samples` has the certificate of each; it is empty where one measure was given.

    `covers` is the class of perturbations that it speaks of: displacements of the atoms given, all splits whose pieces
    have at least 1 / `context`, or all measures near. `lightest` is the least mass of a piece there: zero where any
    will do, None where atoms stay whole; then `atoms` is how many of them have mass.
    """

    bound: str | None
    output_change: float
    failure_probability: float
    bounds: tuple[Bound, ...]
    seed: int | None = None
    covers: Covers = Covers.ATOMS
    context: float | None = None
    lightest: float | None = None
    atoms: int | None = None
    samples: tuple[Certificate, ...] = ()

    def named(self, name: str) -> Bound:
        """One of the bounds, by name."""
        return next(bound for bound in self.bounds if bound.name == name)

    def verdicts(self, seen: Seen) -> tuple[Verdict, ...]:
        """What an observation says about it, for every sample; refused where it does not cover what was done."""
        each, bases = self.samples or (self,), as_batch(seen.base)
        changes, errors = (values.reshape(-1).tolist() for values in (seen.output_change, seen.rounding))
        return tuple(
            verdict(change, error, one, bases.sample(index))
            for index, (one, change, error) in enumerate(zip(each, changes, errors, strict=True))
        )

    def refuse_unless_covered(self, base: TokenMeasure) -> None:
        """A ValueError unless displacements of these atoms of one sample are among what it covers."""
        masses = base.masses[base.present]
        lightest = float(masses.min())
        if self.lightest is None and self.atoms is not None and len(masses) != self.atoms:
            raise ValueError(
                f"This certificate covers displacements of {self.atoms} atoms, none split, but {len(masses)} moved. "
                "Certify these as they are, or all splits: certify_measures(layer, tokens, budget, context=...)."
            )
        if self.lightest is not None and lightest < self.lightest * (1 - ROUNDED):
            raise ValueError(
                f"This certificate covers splits into pieces of at least 1/{self.context:.6g}, but one of 1/"
                f"{1 / lightest:.6g} was moved: ask for context={math.ceil(1 / lightest)}."
            )

    def __repr__(self) -> str:
        of = f", {len(self.samples)} samples" if self.samples else ""
        known = f"output_change={self.output_change:.6g}, bound={self.bound!r}, {len(self.bounds)} bounds"
        return f"Certificate({known}{of})"

    def _repr_html_(self) -> str:
        facts = {"the output changes by at most": self.output_change, "by": self.bound}
        return as_html("Certificate", facts | {"wrong with probability at most": self.failure_probability})


def certify(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    *,
    seed: int | None = None,
    deterministic: bool = False,
    pairs: int = Pairs.count,
    following: Following | None = None,
) -> Certificate:
    """The certificate of one measure, or of a batch. `deterministic` leaves out what holds only with high probability.

    With `seed` a certificate is repeated; without, its draws are made anew, so that nobody can have known them.
    `pairs` of Gaussian samples make `local.third_order`, part of a second for every sample, and where that is loose
    `local.sixth_order`, some seconds; 0 leaves both out.
    `following` adds `local.fourth_order`: sharper on pretrained layers, some seconds for every sample.
    """
    expect_measure(measure)
    expect_budget(budget)
    batched = as_batch(measure)
    if deterministic:
        return of_all(measure, certify_batch(layer, batched, budget, lipschitz=None))
    weights = budget.weights(batched.to(torch.float64))
    seed = fresh_seed() if seed is None else seed
    estimate = local_lipschitz(layer, batched, weights=weights, seed=seed)
    sampled = SampledOrders(layer, batched, weights, Pairs(pairs), seed) if pairs else None
    found = certify_batch(layer, batched, budget, lipschitz=estimate, sampled=sampled, following=following)
    return of_all(measure, found)


def certify_batch(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Budget,
    *,
    lipschitz: LipschitzEstimate | None,
    norms: HeadNorms | None = None,
    sampled: SampledOrders | None = None,
    following: Following | None = None,
    known: KnownRows | None = None,
) -> tuple[Certificate, ...]:
    """Certificates of every sample, in float64. `lipschitz` must be the local constant of this very measure.

    A constant of the unsplit tokens does not do for a split measure: use `split_lipschitz` for that. `sampled` orders
    must be those of this measure, in the norm of this budget. `known` rows of this measure, or of the tokens that it is
    copies of, are not computed again.
    """
    layer, measure = layer.to(torch.float64), measure.to(torch.float64)
    norms = head_norms(layer, positions=measure.positions) if norms is None else norms
    known = KnownRows.at(layer, measure) if known is None and sampled is not None else known
    path = path_norms(layer, norms, measure, budget, known=known)
    found, exact = all_bounds(layer, norms, measure, budget, lipschitz, path=path, unit=UNIT), None
    unclear = doubtful(layer, norms, measure)
    if unclear:
        without = head_norms(layer, positions=measure.positions, unit=0.0)
        along = path_norms(layer, without, measure, budget, unit=0.0)
        exact = all_bounds(layer, without, measure, budget, lipschitz, path=along, unit=0.0)
    if lipschitz is not None:
        asked = Orders(layer, norms, measure, budget, lipschitz, path, sampled, following, known)
        found = higher_orders(asked, found, doubtful=unclear)
    seed = None if lipschitz is None else lipschitz.seed
    each = certificates_of(found, exact, within_range(layer, measure, budget.radius))
    atoms = measure.present.sum(-1).tolist()
    return tuple(replace(one, seed=seed, atoms=count) for one, count in zip(each, atoms, strict=True))


def as_batch(measure: TokenMeasure) -> TokenMeasure:
    """One measure as a batch of one; a batch as it is."""
    shape = measure.points.shape
    if len(shape) not in (2, 3) or 0 in shape[:-1]:
        raise ValueError(f"expected points [n, d] of a measure or [samples, n, d] of a batch, got {tuple(shape)}")
    return stack([measure]) if len(shape) == 2 else measure


def of_all(measure: TokenMeasure, samples: tuple[Certificate, ...]) -> Certificate:
    """What was asked for: the certificate of one measure, or that of all samples together.

    Upper values of a batch hold together except with the probability stated, so no sample adds to that of another.
    """
    if measure.points.dim() == 2:
        return samples[0]
    worst = max(samples, key=lambda each: math.inf if math.isnan(each.output_change) else each.output_change)
    return replace(worst, failure_probability=max(each.failure_probability for each in samples), samples=samples)


def verdict(observed: float, rounding: float, certificate: Certificate, base: TokenMeasure | None = None) -> Verdict:
    """HOLDS only for finite numbers, an observed change within the certificate, and a certificate below the hull.

    `base` are the atoms that were moved: a certificate that does not cover these is refused.

    `rounding` is what float arithmetic may have added to `observed`. Where it is more than a tenth of the certificate
    it could hide a violation: UNKNOWN.
    """
    if base is not None:
        certificate.refuse_unless_covered(base)
    certified = certificate.output_change
    if not (math.isfinite(observed) and math.isfinite(rounding) and math.isfinite(certified)):
        return Verdict.UNKNOWN
    if observed - rounding > certified:
        return Verdict.VIOLATED
    if rounding > OBSERVED_ROUNDING * certified:
        return Verdict.UNKNOWN
    return Verdict.VACUOUS if certificate.bound in HULLS else Verdict.HOLDS


def path_norms(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    budget: Budget,
    *,
    unit: float = UNIT,
    known: KnownRows | None = None,
) -> tuple[BallNorms, ...]:
    """What is known on the balls that a path to the edge of the budget leaves one after another."""
    return ball_norms(layer, norms, measure, along_path(budget), unit=unit, known=known)


def all_bounds(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    budget: Budget,
    lipschitz: LipschitzEstimate | None,
    *,
    path: Sequence[BallNorms],
    unit: float,
) -> AllBounds:
    """Every bound of every sample; with `unit` zero as if arithmetic were exact. `path` as `path_norms` makes it."""
    return tuple(
        (
            *_global_bounds(layer, norms, measure.sample(index), budget),
            *_local_bounds(measure.sample(index), budget, _sample_values(path, lipschitz, index, unit)),
            *comparator_bounds(layer, norms, measure.sample(index), budget),
        )
        for index in range(measure.points.shape[0])
    )


def doubtful(layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure) -> bool:
    """Whether rounding is not small beside what bounds are made of: norms of products, spreads, logits.

    Then more is asked of the other bounds, and `local.fourth_order`, whose rounding is not proved, is left out.
    """
    sizes, parts, present = Sizes.of(layer, measure), project(layer, measure), measure.present[..., None, :, None]
    key, value = layer.key[layer.head_groups], layer.value[layer.head_groups]
    lost = product_error(layer.output, value).max() > DOUBT * norms.value.max()
    if layer.rotary is None:
        error = layer.logit_scale * product_error(key.transpose(-1, -2), layer.query)
        lost = lost | (error.max() > DOUBT * norms.interaction.max())

    def unclear(points: Tensor, size: Tensor) -> Tensor:
        seen = torch.where(present, points, points[..., :1, :])
        spread = (seen - seen[..., :1, :]).norm(dim=-1).amax((-1, -2))
        return UNIT * (layer.width + measure.length + 20) * size.amax(-1) > DOUBT * spread

    errors = rounding_at(layer, measure).logit.amax(-1) > DOUBT
    return bool((unclear(parts.v, sizes.values) | unclear(parts.k, sizes.keys) | errors | lost).any())


def _global_bounds(layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget) -> tuple[Bound, ...]:
    ball = BallSetting.around(layer, norms, measure, budget)
    return tuple(bound(ball) for bound in (*GLOBAL_BOUNDS, *foreign_bounds()))


@dataclass(frozen=True)
class _LocalValues:
    """One sample's numbers: constants at the tokens (exact with high probability, and closed form) and along the path.

    `mean_slope` eps bounds the integral of the derivative's norm over a path of length eps, and `mean_curvature` eps^2
    the integral of (eps - s) |f''| over it: sums of upper values on the balls that the path leaves one after another.
    """

    lipschitz_upper: float | None
    failure_probability: float
    closed_form: float
    block_norm: float
    mean_slope: float
    mean_curvature: float
    hull_rows: Tensor


def constant_upper(lipschitz: LipschitzEstimate | None, index: int, unit: float) -> float | None:
    """The upper value of a sample's constant; with `unit` zero without what it allows for rounding."""
    if lipschitz is None:
        return None
    allowed = 0.0 if unit > 0 or lipschitz.rounding is None else float(lipschitz.rounding[index])
    upper = float(lipschitz.upper[index])
    return upper - allowed if math.isfinite(upper) else upper


def _sample_values(
    path: Sequence[BallNorms], lipschitz: LipschitzEstimate | None, index: int, unit: float
) -> _LocalValues:
    return _LocalValues(
        lipschitz_upper=constant_upper(lipschitz, index, unit),
        failure_probability=0.0 if lipschitz is None else lipschitz.failure_probability,
        closed_form=float(path[-1].centre[index]),
        block_norm=float(path[-1].centre_blocks[index]),
        mean_slope=path_mean([float(ball.closed_form[index]) for ball in path], 1),
        mean_curvature=path_mean([float(ball.curvature[index]) for ball in path], 2),
        hull_rows=path[-1].hull_rows[index],
    )


def _local_bounds(measure: TokenMeasure, budget: Budget, values: _LocalValues) -> tuple[Bound, ...]:
    """Constants at the tokens, Taylor with remainder from two of them, the mean-value bound, and the hull."""
    eps = budget.hilbert_radius(measure)
    remainder = eps * eps * values.mean_curvature
    if values.lipschitz_upper is None:
        why_not = "only deterministic bounds were asked for"
        second_order = not_applicable("local.second_order", why_not, Scope.BALL)
    else:
        change = eps * values.lipschitz_upper + remainder
        second_order = _on_ball("local.second_order", change, budget, values.failure_probability)
    constants = {"local.closed_form": values.closed_form, "local.block_norm": values.block_norm}
    return (
        *(at_tokens(_on_ball(name, eps * constant, budget)) for name, constant in constants.items()),
        second_order,
        _on_ball("local.second_order_deterministic", eps * min(constants.values()) + remainder, budget),
        _on_ball("local.ball", eps * values.mean_slope, budget),
        _on_ball(HULL, _hull(measure, budget, values.hull_rows), budget),
    )


def _on_ball(name: str, change: float, budget: Budget, probability: float = 0.0) -> Bound:
    return from_output_change(name, change, budget.radius, Scope.BALL, failure_probability=probability)


def _hull(measure: TokenMeasure, budget: Budget, rows: Tensor) -> float:
    """Rows put together as the budget's norm does."""
    if isinstance(budget, PerToken):
        return float(rows[measure.present].max())
    return float((budget.weights(measure) * rows**2).sum().sqrt())


def certificates_of(found: AllBounds, exact: AllBounds | None, known: Tensor) -> tuple[Certificate, ...]:
    """The certificate of every sample."""
    return tuple(
        _smallest(bounds, None if exact is None else exact[index], known=bool(known[index]))
        for index, bounds in enumerate(found)
    )


def _smallest(bounds: Sequence[Bound], exact: Sequence[Bound] | None, *, known: bool) -> Certificate:
    """The smallest bound that may certify. Not a number if there is none, or if one that applies is not a number.

    `exact` are the same bounds without what rounding may have done, where that was asked: one of which it is the larger
    part does not certify, and then none above the hull does either. `known` says whether the map itself is one that
    floats can speak of.
    """
    if not known:
        return Certificate(None, math.nan, 0.0, tuple(map(_out_of_range, bounds)))
    usable = [bound for bound in bounds if bound.certifies]
    broken = [bound for bound in bounds if _counts(bound) and math.isnan(bound.output_change)]
    if exact is not None:
        hull = min((bound.output_change for bound in bounds if bound.name in HULLS and bound.applies), default=math.inf)
        usable = [bound for bound in usable if bound.output_change <= hull and not _mostly_rounding(bound, exact)]
    if not usable or broken:
        return Certificate(None, math.nan, 0.0, tuple(bounds))
    best = min(usable, key=lambda bound: bound.output_change)
    return Certificate(best.name, best.output_change, best.failure_probability, tuple(bounds))


def _counts(bound: Bound) -> bool:
    """Whether nothing is certified where it is not a number: bounds that apply, and constants that enter them."""
    return not bound.comparator and (bound.applies or bound.scope is Scope.LOCAL)


def _out_of_range(bound: Bound) -> Bound:
    """The same theorem, about a map that floats cannot speak of."""
    return not_applicable(bound.name, OUT_OF_RANGE, bound.scope, bound.side, comparator=bound.comparator)


def _mostly_rounding(bound: Bound, exact: Sequence[Bound]) -> bool:
    alone = next(other.output_change for other in exact if other.name == bound.name)
    return bound.output_change > MOSTLY_ROUNDING * alone
