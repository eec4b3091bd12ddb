"""Constants attained in a ball of tokens beside the bounds of that ball: searches, and configurations of one head."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Wasserstein
from robust_attn.pipeline.jobs import SINGLE_HEAD, LayerJob, generator_for
from robust_attn.pipeline.parts import bound_parts
from robust_attn.records.kinds import SearchRecord, StudyRecord
from robust_attn.records.parts import Certified, Constant
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Covers, Side, Verdict

EIGEN_WIDTH = 256
"""Widest layer whose eigenvectors are looked for: a dense eigenproblem per head, cubic in the width."""
ROUNDING = 1e-9
"""Relative room for rounding where an attained constant is compared with a bound of the ball."""
LANCZOS_STEPS = 24
"""Enough for the few distinct tokens of configurations: their Krylov spaces end after a handful of steps."""
Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, eq=False)
class Configuration:
    """Tokens of a ball with a name, and the lower bound that they are said to attain, if any."""

    name: str
    points: Float[Tensor, "n d"]
    lower: Bound | None = None


def search_records(job: LayerJob, search: WorstCaseSearch, length: int, *, seed: int) -> Iterator[SearchRecord]:
    """The steepest configuration found in the ball, beside the bounds that no configuration there may exceed."""
    generator = generator_for(seed, "worst_case", job.subject.layer)
    worst = search(job.layer, length, generator=generator, starts=_adversarial_starts(job.layer, search.radius, length))
    yield SearchRecord(
        **job.subject.heading(0, length),
        radius=search.radius,
        masses=tuple(worst.measure.masses.sort(descending=True).values.tolist()) if search.masses else None,
        **ball_fields(worst.constant, ball_bounds(job.layer, worst.measure, search.radius)),
        convergence=worst.history,
    )


def study_record(
    study: str, layer: AttentionLayer, configuration: Configuration, *, radius: float, upper: Sequence[Bound]
) -> StudyRecord:
    """One configuration's constant at a single head, beside the bounds of the ball of `radius`."""
    lower = () if configuration.lower is None else (configuration.lower,)
    return StudyRecord(
        **SINGLE_HEAD.heading(0, len(configuration.points)),
        study=study,
        configuration=configuration.name,
        mask=str(layer.mask),
        radius=radius,
        **ball_fields(attained(layer, configuration.points), (*upper, *lower)),
    )


def ball_fields(constant: float, bounds: Sequence[Bound]) -> dict[str, Any]:
    """A constant attained in a ball beside the bounds of that ball: VIOLATED above an upper or below a lower one.

    The lower bounds given must be those that the configuration measured is said to attain.
    """
    smallest = min((bound for bound in bounds if bound.certifies), key=lambda bound: bound.log10, default=None)
    certified = 10**smallest.log10 if smallest is not None and smallest.log10 < 300 else math.inf
    floors = [10**bound.log10 for bound in bounds if bound.applies and bound.side is Side.LOWER]
    holds = constant <= certified * (1 + ROUNDING) and all(constant >= floor * (1 - ROUNDING) for floor in floors)
    known = math.isfinite(constant) and smallest is not None
    return {
        "lipschitz": Constant(lower=constant, upper=certified, failure_probability=0.0),
        "bounds": bound_parts(bounds),
        "certified": Certified(
            bound=smallest.name if smallest else None,
            constant=certified,
            failure_probability=0.0,
            covers=Covers.INPUTS if smallest else None,
        ),
        "tightness": constant / certified,
        "verdict": (Verdict.HOLDS if holds else Verdict.VIOLATED) if known else Verdict.UNKNOWN,
    }


def ball_bounds(layer: AttentionLayer, measure: TokenMeasure, radius: float) -> tuple[Bound, ...]:
    """Global bounds on the ball of `radius` with the masses of one sample, as constants in L2 of the measure.

    With equal masses that is also the constant in the Frobenius norm.
    """
    layer = layer.to(torch.float64)
    norms = head_norms(layer, positions=measure.positions)
    ball = BallSetting.of(layer, norms, measure.to(torch.float64), Wasserstein(1.0), radius=radius)
    return (
        paper.discrete_upper(ball),
        paper.mean_field_upper(ball),
        paper.masked_mean_field_upper(ball),
        sharp.unified_upper(ball),
        sharp.half_square_upper(ball),
        sharp.sharp_mean_field_upper(ball),
    )


def equal_mass_bounds(layer: AttentionLayer, *, radius: float, length: int) -> tuple[Bound, ...]:
    """The bounds of the ball for `length` tokens of equal mass."""
    points = torch.zeros(length, layer.width, dtype=torch.float64)
    return ball_bounds(layer, TokenMeasure.uniform(points), radius)


def single_head(matrix: Matrix, mask: Mask = Mask.NONE) -> AttentionLayer:
    """The head with A = matrix and V = I, for which the lower bounds are stated."""
    A = torch.tensor(matrix, dtype=torch.float64)
    return AttentionLayer.single_head(A, torch.eye(len(A), dtype=torch.float64), mask=mask)


def lower_configurations(matrix: Matrix, *, radius: float, length: int) -> tuple[Configuration, ...]:
    """The configurations of the paper, of one key and of two keys (docs/proofs/lower.md)."""
    A = torch.tensor(matrix, dtype=torch.float64)
    V = torch.eye(len(A), dtype=torch.float64)
    size: dict[str, Any] = {"radius": radius, "length": length}
    known: tuple[tuple[str, Bound, Callable[[], Tensor]], ...] = (
        ("paper", paper.discrete_lower(A, **size), lambda: paper.adversarial_tokens(A, **size)),
        ("one_key", sharp.one_key_lower(A, **size), lambda: sharp.one_key_tokens(A, **size)),
        ("two_key", sharp.two_key_lower(A, V, **size), lambda: sharp.two_keys(A, V, **size).tokens(**size)),
    )
    return tuple(Configuration(name, tokens(), bound) for name, bound, tokens in known if bound.applies)


def attained(layer: AttentionLayer, points: Float[Tensor, "n d"]) -> float:
    """The local constant at the tokens (the lower side of the estimate)."""
    return float(local_lipschitz(layer, TokenMeasure.uniform(points[None]), seed=0, steps=LANCZOS_STEPS).lower[0])


def two_atom_constants(
    layer: AttentionLayer, pair: Float[Tensor, "2 d"], masses: Float[Tensor, "m"]
) -> Float[Tensor, "m"]:
    """The constants of the measures t delta_{x_1} + (1 - t) delta_{x_2}, atoms split, one for every t in `masses`."""
    weights = torch.stack([masses, 1 - masses], dim=-1)
    measure = TokenMeasure.weighted(pair.expand(len(masses), *pair.shape), weights)
    return split_lipschitz(layer, measure, steps=pair.numel()).lower


def head_matrix(layer: AttentionLayer, head: int) -> Float[Tensor, "d d"]:
    """A of one head of a layer without rotation."""
    return layer.scale * layer.key[layer.group_of(head)].T @ layer.query[head]


def _adversarial_starts(layer: AttentionLayer, radius: float, length: int) -> tuple[torch.Tensor, ...]:
    """The paper's configuration for every head that has a real eigenvalue; none for rotary layers or one token."""
    if layer.rotary is not None or length < 2 or layer.width > EIGEN_WIDTH:
        return ()
    starts = []
    for head in range(layer.heads):
        try:
            tokens = paper.adversarial_tokens(head_matrix(layer, head), radius=radius, length=length)
        except ValueError:
            continue
        starts.append(tokens.to(layer.dtype))
    return tuple(starts)
