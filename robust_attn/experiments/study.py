"""What a study of a single head is: records from settings alone, and what they say, as findings and panels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper, sharp
from robust_attn.bounds.bound import Bound
from robust_attn.pipeline import ball_bounds, ball_verdict
from robust_attn.record import Subject, heading
from robust_attn.spectral.lipschitz import local_lipschitz
from robust_attn.views.panel import Panel

Record = Mapping[str, Any]
Matrix = Sequence[Sequence[float]]
LANCZOS_STEPS = 24
"""Enough for the few distinct tokens of these configurations: their Krylov spaces end after a handful of steps."""


class Study(ABC):
    """Works on one attention head given by its matrices; no model is loaded."""

    name: ClassVar[str]

    @abstractmethod
    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:
        """One record per point measured."""

    @abstractmethod
    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """The few numbers that the study is for."""

    @abstractmethod
    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """The figures, each also printed as a table."""


@dataclass(frozen=True, eq=False)
class Configuration:
    """Tokens of a ball with a name, and the lower bound that they are said to attain, if any."""

    name: str
    points: Float[Tensor, "n d"]
    lower: Bound | None = None


def single_head(matrix: Matrix, mask: Mask = Mask.NONE) -> AttentionLayer:
    """The head with A = matrix and V = I, for which the lower bounds are stated."""
    A = torch.tensor(matrix, dtype=torch.float64)
    return AttentionLayer.single_head(A, torch.eye(len(A), dtype=torch.float64), mask=mask)


def lower_configurations(matrix: Matrix, *, radius: float, length: int) -> tuple[Configuration, ...]:
    """The configurations of the paper, of one key and of two keys (docs/proofs/lower.md)."""
    A = torch.tensor(matrix, dtype=torch.float64)
    V = torch.eye(len(A), dtype=torch.float64)
    found = []
    bound = paper.discrete_lower(A, radius=radius, length=length)
    if bound.applies:
        found.append(Configuration("paper", paper.adversarial_tokens(A, radius=radius, length=length), bound))
    bound = sharp.one_key_lower(A, radius=radius, length=length)
    if bound.applies:
        found.append(Configuration("one_key", sharp.one_key_tokens(A, radius=radius, length=length), bound))
    bound = sharp.two_key_lower(A, V, radius=radius, length=length)
    if bound.applies:
        keys = sharp.two_keys(A, V, radius=radius, length=length)
        found.append(Configuration("two_key", keys.tokens(radius=radius, length=length), bound))
    return tuple(found)


def attained(layer: AttentionLayer, points: Float[Tensor, "n d"]) -> float:
    """The local constant at the tokens (the lower side of the estimate)."""
    return float(local_lipschitz(layer, TokenMeasure.uniform(points[None]), seed=0, steps=LANCZOS_STEPS).lower[0])


def ball_record(
    study: str, layer: AttentionLayer, configuration: Configuration, *, radius: float, upper: Sequence[Bound]
) -> dict[str, Any]:
    """One configuration's constant beside the bounds of the ball of `radius`."""
    lower = () if configuration.lower is None else (configuration.lower,)
    return {
        **heading(Subject("single_head", "given", 0), 0, len(configuration.points)),
        "task": study,
        "configuration": configuration.name,
        "mask": str(layer.mask),
        "radius": radius,
        **ball_verdict(attained(layer, configuration.points), (*upper, *lower)),
    }


def upper_bounds(layer: AttentionLayer, *, radius: float, length: int) -> tuple[Bound, ...]:
    """The bounds of the ball for `length` tokens of equal mass."""
    points = torch.zeros(length, layer.width, dtype=torch.float64)
    return ball_bounds(layer, TokenMeasure.uniform(points), radius)


def chosen(records: Sequence[Record], **values: object) -> list[Record]:
    """The records whose fields have these values."""
    return [record for record in records if all(record.get(name) == value for name, value in values.items())]
