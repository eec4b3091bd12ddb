"""From few tokens to infinitely many: the discrete, mean-field and unified bounds, and what is attained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record
from robust_attn.settings import setting
from robust_attn.tasks.study import HeadStudy, bound_lines, constants, study_records
from robust_attn.tasks.task import expect_different
from robust_attn.views.panel import Panel

if TYPE_CHECKING:
    from torch import Tensor

    from robust_attn.attention.layer import AttentionLayer

MASSES = 400
"""Masses of the special token that are tried, evenly spaced in the logarithm between 1/n and 1/2."""


@final
@dataclass(frozen=True)
class MeanFieldTask(HeadStudy):
    """From few tokens to many: what a head with V = I attains beside its bounds.

    With n - 1 tokens in one place the n tokens are two atoms of masses 1/n and 1 - 1/n, split: exact for any n
    (docs/proofs/splitting.md#copies), but that here the special token may split too. `best_mass` also chooses how many
    tokens are special.
    """

    radius: float = setting(math.sqrt(2.0), "radius of the ball", least=0)
    lengths: tuple[int, ...] = setting([2**k for k in range(1, 13)], "numbers of tokens written out", least=2)
    beyond: tuple[int, ...] = setting(
        [10**4, 10**5, 10**6, 10**8], "larger numbers of tokens, as two weighted atoms", least=2
    )
    name: ClassVar[str] = "mean_field"
    kinds: ClassVar[tuple[str, ...]] = ("study",)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)

    def measured(self, *, seed: int) -> Iterator[Record]:  # noqa: ARG002
        """Per length: one special token (all n tokens written out where that fits), then the best mass of it."""
        import torch

        from robust_attn.bounds import paper
        from robust_attn.pipeline.balls import Configuration, equal_mass_bounds, single_head, study_record

        layer, matrix = single_head(self.A), torch.tensor(self.A, dtype=torch.float64)
        for length in self.lengths:
            upper = equal_mass_bounds(layer, radius=self.radius, length=length)
            points = paper.adversarial_tokens(matrix, radius=self.radius, length=length)
            yield study_record(self.name, layer, Configuration("one_token", points), radius=self.radius, upper=upper)
            yield self._weighted(layer, matrix, length, "best_mass")
        for length in self.beyond:
            yield self._weighted(layer, matrix, length, "one_token")
            yield self._weighted(layer, matrix, length, "best_mass")

    def _weighted(self, layer: AttentionLayer, matrix: Tensor, length: int, name: str) -> Record:
        import torch

        from robust_attn.attention.measure import TokenMeasure
        from robust_attn.bounds import paper
        from robust_attn.pipeline.balls import ball_bounds, ball_fields, two_atom_constants
        from robust_attn.pipeline.jobs import SINGLE_HEAD
        from robust_attn.records.kinds import StudyRecord

        pair = paper.adversarial_tokens(matrix, radius=self.radius, length=2)
        smallest = torch.tensor([1 / length], dtype=torch.float64)
        masses = smallest if name == "one_token" else _masses(length)
        found = two_atom_constants(layer, pair, masses)
        best = int(found.argmax())
        atoms = torch.stack([smallest[0], 1 - smallest[0]])
        bounds = ball_bounds(layer, TokenMeasure.weighted(pair, atoms), self.radius)
        return StudyRecord(
            **SINGLE_HEAD.heading(0, length),
            study=self.name,
            configuration=name,
            mask=str(layer.mask),
            radius=self.radius,
            special_mass=float(masses[best]),
            **ball_fields(float(found[best]), bounds),
        )

    def findings(self, records: Sequence[Record]) -> Json | None:
        """The largest constant found at any length, beside the mean-field bound and the unified one."""
        top = max(study_records(records), key=lambda record: record.lipschitz.lower or 0.0)
        logs = {bound.name: bound.log10 for bound in top.bounds if bound.applies}
        return {
            "attained": top.lipschitz.lower,
            "special_mass": top.special_mass,
            "tokens": top.tokens,
            "bounds": {name: 10**log10 for name, log10 in logs.items() if log10 is not None and log10 < 300},
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against n."""
        from numpy.linalg import norm

        names = ("one_token", "best_mass")
        lines = {name: constants(study_records(records, configuration=name), "tokens") for name in names}
        bounds = bound_lines(study_records(records, configuration="one_token"), "tokens")
        title = f"Few tokens to many, |A| R² = {float(norm(self.A, 2)) * self.radius**2:g}"
        return (Panel("mean_field", title, "tokens", "Lipschitz constant", lines | bounds, frozenset(bounds)),)


def _masses(length: int) -> Tensor:
    """Whole numbers of tokens over `length`, spread evenly in the logarithm from one token to half of them."""
    import torch

    counts = torch.logspace(0, torch.tensor(length / 2).log10().item(), MASSES, dtype=torch.float64).round().unique()
    return counts.clamp(1, max(1, length // 2)) / length
