"""The certified radius: how far tokens may move before the certificate allows more than a given output change.

A radius is only ever returned if a certificate at that very radius was within the tolerance, so the search cannot make
an unsound statement, whatever the certificate looks like between the radii tried. Where certificates grow with the
radius, as they do, the radius is the largest one up to a relative accuracy (docs/proofs/radius.md#largest-radius).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure, stack
from robust_attn.bounds.rows import KnownRows
from robust_attn.budget import Budget
from robust_attn.certificates.layer import Certificate, certify_batch
from robust_attn.certificates.sampled_orders import Pairs, SampledOrders
from robust_attn.spectral.lanczos import LipschitzEstimate, fresh_seed
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.spectral.norms import HeadNorms, head_norms
from robust_attn.types import UserError, as_html

ACCURACY = 1e-3
"""The certificate is above the tolerance at some radius at most this much, relatively, beyond the one returned."""
LEAPS = 8
"""Tries to have the tolerance between two radii; the leaps grow, together they span more than eighty decades."""
SMALLEST, LARGEST = 1e-100, 1e100

CertificateAt = Callable[[float], Certificate]


@dataclass(frozen=True)
class CertifiedRadius:
    """No perturbation of norm at most `radius` changes the output by more than `tolerance`, by the bound named there.

    Infinite for a layer that is constant; zero if nothing above zero was certified; not a number, without a bound, if
    no certificate was a number. The statement fails with at most `failure_probability`: the Lanczos value does not
    depend on the radius, so one and the same event covers every radius tried. `certificates` says how many were.
    """

    tolerance: float
    radius: float
    bound: str | None
    failure_probability: float
    certificates: int

    @property
    def unbounded(self) -> bool:
        """Whether the promise holds for every perturbation whatsoever."""
        return math.isinf(self.radius)

    def _repr_html_(self) -> str:
        facts = {"the output changes by at most": self.tolerance, "within the radius": self.radius, "by": self.bound}
        return as_html("Certified radius", facts | {"wrong with probability at most": self.failure_probability})


@dataclass(frozen=True)
class _Trial:
    """A certificate at a radius."""

    radius: float
    certificate: Certificate

    @property
    def change(self) -> float:
        return self.certificate.output_change


@dataclass(frozen=True)
class _Bracket:
    """The largest radius known to be within the tolerance and the smallest known not to be, and how many were tried."""

    inside: _Trial | None = None
    outside: _Trial | None = None
    tried: int = 0

    def with_trial(self, trial: _Trial, tolerance: float) -> _Bracket:
        """What is not a number is not within."""
        if trial.change <= tolerance:
            return replace(self, inside=trial, tried=self.tried + 1)
        return replace(self, outside=trial, tried=self.tried + 1)

    @property
    def width(self) -> float:
        """Logarithm of the ratio of the two radii."""
        assert self.inside is not None
        assert self.outside is not None
        return math.log(self.outside.radius / self.inside.radius)


def certified_radius(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: type[Budget],
    tolerance: float,
    *,
    seed: int | None = None,
    deterministic: bool = False,
) -> CertifiedRadius:
    """The certified radius of one measure in the norm of a kind of budget, such as `Wasserstein`.

    `deterministic` leaves out what holds only with high probability; `seed` repeats one that was drawn (`certify`).
    """
    expect_measure(measure)
    if measure.points.dim() != 2:
        raise ValueError(f"expected points [n, d] of one measure, got {tuple(measure.points.shape)}")
    batched = stack([measure])
    estimate = sampled = None
    if not deterministic:
        weights = budget(1.0).weights(batched.to(torch.float64))
        seed = fresh_seed() if seed is None else seed
        estimate = local_lipschitz(layer, batched, weights=weights, seed=seed)
        sampled = SampledOrders(layer, batched.to(torch.float64), weights, Pairs(), seed)
    return certified_radii(layer, batched, budget, tolerance, lipschitz=estimate, sampled=sampled)[0]


def certified_radii(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: type[Budget],
    tolerance: float,
    *,
    lipschitz: LipschitzEstimate | None,
    norms: HeadNorms | None = None,
    sampled: SampledOrders | None = None,
) -> tuple[CertifiedRadius, ...]:
    """The certified radius of every sample; `lipschitz` and `sampled` must be those of this very measure."""
    if not (math.isfinite(tolerance) and tolerance > 0):
        raise UserError(f"tolerance must be a finite number above zero, got {tolerance}.")
    layer = layer.to(torch.float64)
    norms = head_norms(layer, positions=measure.positions) if norms is None else norms
    found = []
    for index in range(measure.points.shape[0]):
        alone, estimate = _alone(measure, index), _estimate_of(lipschitz, index)
        slope = float(norms.value.sum() if estimate is None else estimate.upper[0])
        orders = None if sampled is None else sampled.alone(index)
        at = _certificates(layer, alone, budget, norms, lipschitz=estimate, sampled=orders)
        constant = bool((norms.value == 0).all())
        found.append(_everywhere(at, tolerance) if constant else largest_radius(at, tolerance, slope=slope))
    return tuple(found)


def largest_radius(certificate_at: CertificateAt, tolerance: float, *, slope: float) -> CertifiedRadius:
    """A radius whose certificate is within the tolerance, and beyond which, times 1 + ACCURACY, one is not.

    `slope` is a guess of change per radius near zero, from which the search starts: a wrong one costs certificates, not
    truth. Where the tolerance is not passed at any radius that floats can hold, it is the largest one tried.
    """
    start = tolerance / slope if math.isfinite(slope) and slope > 0 else 1.0
    bracket = _narrowed(certificate_at, tolerance, _bracketed(certificate_at, tolerance, _clamped(start)))
    if bracket.inside is None:
        still = _Bracket().with_trial(_Trial(0.0, certificate_at(0.0)), tolerance)
        return _result(tolerance, still.inside, bracket.tried + still.tried)
    return _result(tolerance, bracket.inside, bracket.tried)


def _everywhere(certificate_at: CertificateAt, tolerance: float) -> CertifiedRadius:
    """A layer whose values are all zero is constant: its certificate at one radius speaks for every radius."""
    only = _Bracket().with_trial(_Trial(math.inf, certificate_at(1.0)), tolerance)
    return _result(tolerance, only.inside, only.tried)


def _result(tolerance: float, found: _Trial | None, tried: int) -> CertifiedRadius:
    if found is None:
        return CertifiedRadius(tolerance, math.nan, None, 0.0, tried)
    certificate = found.certificate
    return CertifiedRadius(tolerance, found.radius, certificate.bound, certificate.failure_probability, tried)


def _bracketed(at: CertificateAt, tolerance: float, start: float) -> _Bracket:
    """Leap from `start` until both sides are known.

    Where the change grows at least in proportion to the radius, radius * tolerance / change is on the other side of the
    tolerance already; leaps of 4, 4^4, 4^9 ... see to the rest.
    """
    bracket, radius = _Bracket(), start
    for leap in range(LEAPS):
        trial = _Trial(radius, at(radius))
        bracket = bracket.with_trial(trial, tolerance)
        if bracket.inside is not None and bracket.outside is not None:
            break
        ratio = tolerance / trial.change if math.isfinite(trial.change) and trial.change > 0 else 1.0
        least = 4.0 ** (leap * leap)
        beyond = 1 + ACCURACY / 3
        growth = max(ratio * beyond, least) if bracket.outside is None else min(ratio / beyond, 1 / least)
        radius = _clamped(trial.radius * growth)
    return bracket


def _narrowed(at: CertificateAt, tolerance: float, bracket: _Bracket) -> _Bracket:
    """Both sides brought together: by interpolation, and by bisection wherever that failed to halve the bracket."""
    bisect = False
    while bracket.inside is not None and bracket.outside is not None and bracket.width > math.log1p(ACCURACY):
        guess = None if bisect else _interpolated(bracket.inside, bracket.outside, tolerance)
        middle = math.sqrt(bracket.inside.radius) * math.sqrt(bracket.outside.radius)
        radius = middle if guess is None else guess
        narrower = bracket.with_trial(_Trial(radius, at(radius)), tolerance)
        bracket, bisect = narrower, narrower.width > bracket.width / 2
    return bracket


def _interpolated(inside: _Trial, outside: _Trial, tolerance: float) -> float | None:
    """Where the power law through both trials meets the tolerance, nudged towards the side that is farther away.

    The nudge of a third of the accuracy puts the next trial just across the meeting point, so that the farther side
    follows; None where there is no power law through both, or where it leads out of the bracket.
    """
    if not (inside.change > 0 and math.isfinite(outside.change)):
        return None
    width = math.log(outside.radius / inside.radius)
    share = math.log(tolerance / inside.change) / math.log(outside.change / inside.change)
    nudge = ACCURACY / 3 if share < 1 / 2 else -ACCURACY / 3
    step = share * width + nudge
    return inside.radius * math.exp(step) if 0 < step < width else None


def _clamped(radius: float) -> float:
    return min(max(radius, SMALLEST), LARGEST)


def _certificates(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: type[Budget],
    norms: HeadNorms,
    *,
    lipschitz: LipschitzEstimate | None,
    sampled: SampledOrders | None,
) -> CertificateAt:
    """The certificate of a batch of one as a function of the radius; constants, norms and rows are computed once."""
    measure = measure.to(torch.float64)
    known = KnownRows.at(layer, measure)

    def at(radius: float) -> Certificate:
        (found,) = certify_batch(
            layer, measure, budget(radius), lipschitz=lipschitz, norms=norms, sampled=sampled, known=known
        )
        return found

    return at


def _alone(measure: TokenMeasure, index: int) -> TokenMeasure:
    """Sample `index` as a batch of one."""
    one = slice(index, index + 1)
    return TokenMeasure(measure.points[one], measure.masses[one], measure.positions[one])


def _estimate_of(estimate: LipschitzEstimate | None, index: int) -> LipschitzEstimate | None:
    """What the estimate says about sample `index`, as a batch of one, with the failure probability of the whole."""
    if estimate is None:
        return None
    values: dict[str, Any] = {field.name: getattr(estimate, field.name) for field in fields(estimate)}
    own: dict[str, Any] = {
        name: value[index : index + 1] for name, value in values.items() if isinstance(value, torch.Tensor)
    }
    return replace(estimate, **own)
