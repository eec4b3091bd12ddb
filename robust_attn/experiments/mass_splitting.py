"""When splitting a token's mass beats moving it: against copies and budget, mass balance, and slivers of mass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein
from robust_attn.experiments.study import Record, Study, chosen, single_head
from robust_attn.observation import observe
from robust_attn.pipeline import CertificateOptions, LayerJob, attack_records
from robust_attn.record import Subject, finite, heading
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.views.panel import Panel, line

SUBJECT = Subject("single_head", "given", 0)


@final
@dataclass(frozen=True)
class MassSplitting(Study):
    """Three series on the scalar examples of docs/proofs/splitting.md#examples.

    copies: tokens (0, 1), A = -8, attacked with every number of copies and every budget of `radii`.
    balance: mass m at -1 and 1 - m at 0, A = -1/m: exact local constants of moving and of splitting.
    sliver: tokens (-1, 1), A = 8, a mass t of the token at 1 moved to -0.18.
    """

    copies: Sequence[int]
    radii: Sequence[float]
    balances: Sequence[float]
    slivers: Sequence[float]
    steps: int
    restarts: int
    name: ClassVar[str] = "mass_splitting"

    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:
        """The three series in turn."""
        yield from self._copies(seed)
        for balance in self.balances:
            yield _balance_record(balance, seed)
        for mass in self.slivers:
            yield _sliver_record(mass)

    def _copies(self, seed: int) -> Iterator[dict[str, Any]]:
        measure = TokenMeasure.uniform(torch.tensor([[[0.0], [1.0]]], dtype=torch.float64))
        job = LayerJob(SUBJECT, single_head([[-8.0]]), measure)
        for copies in self.copies:
            steps, restarts = self.steps, self.restarts
            attack = Move(steps, restarts) if copies == 1 else MassSplit(copies, steps=steps, restarts=restarts)
            for radius in self.radii:
                for record in attack_records(job, attack, Wasserstein(radius), CertificateOptions(), seed=seed):
                    yield {**record, "task": self.name, "series": "copies"}

    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """The local constants of the first example, the largest ratio of the second, the gain of the third."""
        first = {r["copies"]: r["lipschitz"]["lower"] for r in chosen(records, series="copies")}
        ratios = [r["split"] / r["move"] for r in chosen(records, series="balance")]
        gains = [r["observed"]["w2_gain"] for r in chosen(records, series="sliver")]
        return {
            "local_constant_by_copies": first,
            "largest_ratio_of_balance": max(ratios, default=None),
            "largest_sliver_gain": max(gains, default=None),
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Gain against the budget for every number of copies; constants against m; gain against the sliver's mass."""
        gains = {
            f"{copies} copies" if copies > 1 else "move": line(
                (r["budget"]["radius"], r["observed"]["gain"]) for r in chosen(records, series="copies", copies=copies)
            )
            for copies in self.copies
        }
        balance = chosen(records, series="balance")
        constants = {way: line((r["mass"], r[way]) for r in balance) for way in ("move", "split")}
        sliver = {
            name: line((r["mass"], pick(r)) for r in chosen(records, series="sliver"))
            for name, pick in (("W2 gain", lambda r: r["observed"]["w2_gain"]), ("local constant", _lower))
        }
        return (
            Panel("splitting_copies", "Tokens (0, 1), A = -8", "W2 budget", "gain reached", gains),
            Panel("splitting_balance", "Mass m at -1, 1 - m at 0, A = -1/m", "m", "local constant", constants),
            Panel("splitting_sliver", "Tokens (-1, 1), A = 8, sliver to -0.18", "mass of the sliver", "", sliver),
        )


def _lower(record: Record) -> float | None:
    return record["lipschitz"]["lower"]


def _constants(layer: AttentionLayer, measure: TokenMeasure, seed: int) -> tuple[float, float]:
    """The local constants of moving and of splitting."""
    move, split = (estimate(layer, measure, seed=seed) for estimate in (local_lipschitz, split_lipschitz))
    return float(move.lower[0]), float(split.lower[0])


def _balance_record(mass: float, seed: int) -> dict[str, Any]:
    points = torch.tensor([[[-1.0], [0.0]]], dtype=torch.float64)
    measure = TokenMeasure.weighted(points, torch.tensor([[mass, 1 - mass]], dtype=torch.float64))
    move, split = _constants(single_head([[-1 / mass]]), measure, seed)
    return {
        **heading(SUBJECT, 0, 2),
        "task": MassSplitting.name,
        "series": "balance",
        "mass": mass,
        "move": finite(move),
        "split": finite(split),
        "lipschitz": {"lower": finite(split), "upper": None, "failure_probability": None},
    }


def _sliver_record(mass: float) -> dict[str, Any]:
    """The token at 1 is written as two atoms of masses 1/2 - t and t, and the second goes to -0.18."""
    layer = single_head([[8.0]])
    masses = torch.tensor([[0.5, 0.5 - mass, mass]], dtype=torch.float64)
    base = TokenMeasure.weighted(torch.tensor([[[-1.0], [1.0], [1.0]]], dtype=torch.float64), masses)
    points = torch.tensor([[[-1.0], [1.0], [-0.18]]], dtype=torch.float64)
    seen = observe(layer, base, points, Wasserstein(10.0))
    names = ("input_change", "output_change", "gain", "w2_input", "w2_output", "w2_gain", "rounding")
    whole = TokenMeasure.uniform(torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64))
    _, split = _constants(layer, whole, 0)
    return {
        **heading(SUBJECT, 0, 2),
        "task": MassSplitting.name,
        "series": "sliver",
        "mass": mass,
        "observed": {name: finite(float(getattr(seen, name)[0])) for name in names},
        "lipschitz": {"lower": finite(split), "upper": None, "failure_probability": None},
    }
