"""When splitting a token's mass beats moving it: against copies and budget, mass balance, and slivers of mass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import AttackRecord, Record, SplittingRecord, of_kind
from robust_attn.settings import setting
from robust_attn.tasks.study import Study
from robust_attn.views.panel import Panel, line

if TYPE_CHECKING:
    from robust_attn.attention.layer import AttentionLayer
    from robust_attn.attention.measure import TokenMeasure


@final
@dataclass(frozen=True)
class MassSplittingTask(Study):
    """Splitting against moving on the scalar examples of the theory (docs/proofs/splitting.md#examples).

    copies: tokens (0, 1), A = -8, attacked with every number of copies and every budget of `radii`.
    balance: mass m at -1 and 1 - m at 0, A = -1/m: exact local constants of moving and of splitting.
    sliver: tokens (-1, 1), A = 8, a mass t of the token at 1 moved to -0.18.
    """

    copies: tuple[int, ...] = setting([1, 2, 3, 4], "atoms per token", least=1)
    radii: tuple[float, ...] = setting([1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0], "radii of the budget", above=0)
    balances: tuple[float, ...] = setting(
        [0.5, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-4], "masses of the lighter token", above=0, below=1
    )
    slivers: tuple[float, ...] = setting([1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7], "masses sent far", above=0, below=0.5)
    steps: int = setting(60, "steps of the search", least=0)
    restarts: int = setting(4, "random starts of the search", least=0)
    name: ClassVar[str] = "mass_splitting"
    kinds: ClassVar[tuple[str, ...]] = ("splitting", "attack")

    def measured(self, *, seed: int) -> Iterator[Record]:
        """The three series in turn."""
        yield from self._copies(seed)
        for balance in self.balances:
            yield _balance_record(balance, seed)
        for mass in self.slivers:
            yield _sliver_record(mass)

    def _copies(self, seed: int) -> Iterator[Record]:
        import torch

        from robust_attn.attacks.mass_split import MassSplit
        from robust_attn.attention.measure import TokenMeasure
        from robust_attn.budget import Wasserstein
        from robust_attn.pipeline.balls import single_head
        from robust_attn.pipeline.checks import attack_records
        from robust_attn.pipeline.jobs import SINGLE_HEAD, CertificateOptions, LayerJob

        measure = TokenMeasure.uniform(torch.tensor([[[0.0], [1.0]]], dtype=torch.float64))
        job = LayerJob(SINGLE_HEAD, single_head([[-8.0]]), measure)
        for copies in self.copies:
            split = MassSplit(copies=copies, steps=self.steps, restarts=self.restarts, masses="equal")
            attack = split.moving if copies == 1 else split
            for radius in self.radii:
                yield from attack_records(job, attack, Wasserstein(radius), CertificateOptions(), seed=seed)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """The local constants of the first example, the largest ratio of the second, the gain of the third."""
        ratios = [r.split / r.move for r in _series(records, "balance") if r.split is not None and r.move]
        gains = [r.observed.w2_gain for r in _series(records, "sliver") if r.observed.w2_gain is not None]
        return {
            "local_constant_by_copies": {str(r.copies): r.lipschitz.lower for r in of_kind(records, AttackRecord)},
            "largest_ratio_of_balance": max(ratios, default=None),
            "largest_sliver_gain": max(gains, default=None),
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Gain against the budget for every number of copies; constants against m; gain against the sliver's mass."""
        gains = {}
        for copies in self.copies:
            some = [record for record in of_kind(records, AttackRecord) if record.copies == copies]
            name = f"{copies} copies" if copies > 1 else "move"
            gains[name] = line((r.budget.radius or 0.0, r.observed.gain) for r in some)
        balance, sliver = _series(records, "balance"), _series(records, "sliver")
        constants = {
            "move": line((r.mass or 0.0, r.move) for r in balance),
            "split": line((r.mass or 0.0, r.split) for r in balance),
        }
        sent = {
            "W2 gain": line((r.mass or 0.0, r.observed.w2_gain) for r in sliver),
            "local constant": line((r.mass or 0.0, r.split) for r in sliver),
        }
        return (
            Panel("splitting_copies", "Tokens (0, 1), A = -8", "W2 budget", "gain reached", gains),
            Panel("splitting_balance", "Mass m at -1, 1 - m at 0, A = -1/m", "m", "local constant", constants),
            Panel("splitting_sliver", "Tokens (-1, 1), A = 8, sliver to -0.18", "mass of the sliver", "", sent),
        )


def _series(records: Sequence[Record], series: str) -> list[SplittingRecord]:
    return [record for record in of_kind(records, SplittingRecord) if record.series == series]


def _constants(layer: AttentionLayer, measure: TokenMeasure, seed: int) -> tuple[float, float]:
    """The local constants of moving and of splitting."""
    from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz

    move, split = (estimate(layer, measure, seed=seed) for estimate in (local_lipschitz, split_lipschitz))
    return float(move.lower[0]), float(split.lower[0])


def _balance_record(mass: float, seed: int) -> Record:
    import torch

    from robust_attn.attention.measure import TokenMeasure
    from robust_attn.pipeline.balls import single_head
    from robust_attn.pipeline.jobs import SINGLE_HEAD

    points = torch.tensor([[[-1.0], [0.0]]], dtype=torch.float64)
    measure = TokenMeasure.weighted(points, torch.tensor([[mass, 1 - mass]], dtype=torch.float64))
    move, split = _constants(single_head([[-1 / mass]]), measure, seed)
    return SplittingRecord(**SINGLE_HEAD.heading(0, 2), series="balance", mass=mass, move=move, split=split)


def _sliver_record(mass: float) -> Record:
    """The token at 1 is written as two atoms of masses 1/2 - t and t, and the second goes to -0.18."""
    import torch

    from robust_attn.attention.measure import TokenMeasure
    from robust_attn.budget import Wasserstein
    from robust_attn.observation import observe
    from robust_attn.pipeline.balls import single_head
    from robust_attn.pipeline.jobs import SINGLE_HEAD
    from robust_attn.pipeline.parts import observed_part

    layer = single_head([[8.0]])
    masses = torch.tensor([[0.5, 0.5 - mass, mass]], dtype=torch.float64)
    base = TokenMeasure.weighted(torch.tensor([[[-1.0], [1.0], [1.0]]], dtype=torch.float64), masses)
    points = torch.tensor([[[-1.0], [1.0], [-0.18]]], dtype=torch.float64)
    seen = observe(layer, base, points, Wasserstein(10.0))
    whole = TokenMeasure.uniform(torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64))
    _, split = _constants(layer, whole, 0)
    observed = observed_part(seen, 0)
    return SplittingRecord(**SINGLE_HEAD.heading(0, 2), series="sliver", mass=mass, split=split, observed=observed)
