"""Laws that every bound from above obeys; a test class inherits them and says what its bounds are."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch

from robust_attn.attacks.move import Move
from robust_attn.attacks.worst_case import WorstCase, WorstCaseSearch
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.bounds.bound import AT_TOKENS, Bound, Side
from robust_attn.budget import BUDGETS, Budget
from robust_attn.observation import Observation, observe
from tests.cases import (
    ADDED_CASES,
    CASES,
    EVERY_CASE,
    MORE_CASES,
    NORM_CASES,
    Case,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_measure,
)
from tests.selection import at_first

SOME = [*CASES, *ADDED_CASES[1::2], *NORM_CASES[::3]]
THESE_FIRST = at_first(SOME + [case for case in EVERY_CASE if case not in SOME], len(SOME))
RADII = (1e-6, 1e-3, 0.1, 3.0)
STRETCHES = ((0.25, 7.0), (2.0, 0.3), (8.0, 1.0))
"""Factors t of the tokens and c of the values; powers of two change no digit of anything that is multiplied by them."""


def place(case: Case, seed: int, *, size: float = 1.0, **options: int) -> tuple[AttentionLayer, TokenMeasure]:
    """A layer and one measure of a case, with tokens about as long as `size`."""
    sample = random_measure(case, generator(seed + 1), samples=1, radius=size, **options).sample(0)
    return random_layer(case, generator(seed)), sample


def exact_constant(layer: AttentionLayer, sample: TokenMeasure, weights: torch.Tensor) -> float:
    """The norm of the derivative at the tokens, decomposed."""
    return float(torch.linalg.matrix_norm(ScaledJacobian(layer.linearize(sample), weights).dense(), 2))


@cache
def steepest(mask: Mask, a: float) -> tuple[AttentionLayer, WorstCase]:
    """One head of the plane, and the steepest five tokens of the unit disc that ascent finds."""
    A = a * torch.eye(2).double() + 0.2 * torch.randn(2, 2, generator=generator(0), dtype=torch.float64)
    layer = AttentionLayer.single_head(A, torch.eye(2).double(), mask=mask)
    return layer, WorstCaseSearch(1.0, steps=30, restarts=2)(layer, 5, generator=generator(1))


class BoundLaws:
    """Inherit, and define `promised`: the bounds of a layer, a measure and a budget.

    `names` are the bounds that must speak somewhere among the cases: a law that no bound is asked about is none.
    `growing` are those of which it is proved that more radius never allows less.
    """

    names: frozenset[str]
    growing: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = tuple(sorted(BUDGETS))

    def promised(self, layer: AttentionLayer, sample: TokenMeasure, budget: Budget) -> Sequence[Bound]:
        raise NotImplementedError

    def precision(self, name: str) -> float:  # noqa: ARG002
        """How exactly a bound obeys the scaling laws."""
        return 1e-9

    def budget(self, kind: str, radius: float, sample: TokenMeasure) -> Budget:  # noqa: ARG002
        return BUDGETS[kind](radius)

    def allowed(self, layer: AttentionLayer, sample: TokenMeasure, budget: Budget) -> dict[str, float]:
        """What each bound that speaks allows, constants at the tokens too. What is infinite certifies nothing."""
        upper = [bound for bound in self.promised(layer, sample, budget) if bound.side is Side.UPPER]
        speaking = [bound for bound in upper if bound.applies or bound.why_not == AT_TOKENS]
        assert not any(bound.certifies and math.isinf(bound.output_change) for bound in speaking)
        return {bound.name: bound.output_change for bound in speaking if bound.name in self.names}

    def turns(self, seed: int) -> list[tuple[int, str]]:
        """Two kinds of budgets where there are more, by turns, each after the number of its turn."""
        return [(turn, self.kinds[turn % len(self.kinds)]) for turn in range(seed, seed + min(2, len(self.kinds)))]

    def test_every_bound_speaks_somewhere(self):
        heard = set()
        for case, kind in product(MORE_CASES, self.kinds):
            layer, sample = place(case, 0)
            heard |= set(self.allowed(layer, sample, self.budget(kind, 0.1, sample)))
            if heard == self.names:
                break
        assert heard == self.names

    @pytest.mark.parametrize("case", SOME, ids=str)
    def test_scaling_laws(self, case):
        """X -> tX, eps -> t eps, W_Q and W_K -> /t, W_O -> c W_O multiplies every output change by c t."""
        seed = EVERY_CASE.index(case)
        for turn, kind in self.turns(seed):
            layer, sample = place(case, seed)
            (t, c), budget = STRETCHES[turn % 3], self.budget(kind, RADII[1 + seed % 3], sample)
            stretched = sample.with_points(t * sample.points)
            scaled = replace(layer, query=layer.query / t, key=layer.key / t, output=layer.output * c)
            if layer.sinks is not None:
                scaled = replace(scaled, sinks=replace(layer.sinks, value=layer.sinks.value * t))
            before = self.allowed(layer, sample, budget)
            after = self.allowed(scaled, stretched, self.budget(kind, t * budget.radius, stretched))
            assert before.keys() == after.keys()
            for name, change in before.items():
                assert after[name] == pytest.approx(c * t * change, rel=self.precision(name)), (name, kind)

    @pytest.mark.parametrize("case", [Case(masses="unequal"), Case(Mask.CAUSAL, bias=False)], ids=str)
    def test_more_radius_never_allows_less(self, case):
        for kind in self.kinds:
            layer, sample = place(case, 0)
            changes = [self.allowed(layer, sample, self.budget(kind, radius, sample)) for radius in (0.0, 1e-3, 3.0)]
            for name in self.growing & changes[0].keys():
                found = [each[name] for each in changes]
                assert found == sorted(found), (name, kind)

    @pytest.mark.parametrize("bad", [math.nan, math.inf])
    @pytest.mark.parametrize("field", ["query", "value"])
    def test_weights_that_are_no_numbers_certify_nothing(self, field, bad):
        layer, sample = place(Case(), 0)
        broken = replace(layer, **{field: getattr(layer, field) * bad})
        try:
            found = self.promised(broken, sample, self.budget(self.kinds[-1], 0.1, sample))
        except torch.linalg.LinAlgError:
            return
        assert not any(bound.certifies for bound in found)


class ConstantLaws(BoundLaws):
    """Bounds that hold for the derivative at the tokens, perhaps on a whole ball: radius times a Lipschitz constant."""

    slack = 1e-9

    def attained(self, layer: AttentionLayer, sample: TokenMeasure, budget: Budget) -> float:
        """What the derivative at the tokens does to the largest displacement of the budget."""
        return exact_constant(layer, sample, budget.weights(sample)) * budget.hilbert_radius(sample)

    @pytest.mark.parametrize("case", THESE_FIRST, ids=str)
    def test_no_derivative_exceeds_a_constant(self, case):
        """At random tokens of any number and size, in the norm of every budget; a radius of next to nothing."""
        for turn, kind in enumerate(self.kinds * 2, EVERY_CASE.index(case)):
            size = (0.1, 0.5, 1.0, 3.0)[turn % 4]
            layer, sample = place(case, turn, size=size, length=1 + turn % 6)
            budget = self.budget(kind, 1e-9, sample)
            found = self.attained(layer, sample, budget)
            for name, change in self.allowed(layer, sample, budget).items():
                assert found <= change * (1 + self.slack), (name, kind, size)

    @pytest.mark.parametrize("mask", list(Mask))
    @pytest.mark.parametrize("a", [-3.0, -1.5, -0.5, 1.0])
    def test_the_steepest_tokens_exceed_no_constant(self, mask, a):
        """Ascent over configurations, where sampling would not look."""
        layer, worst = steepest(mask, a)
        sample = TokenMeasure.uniform(worst.points)
        budget = self.budget(self.kinds[0], 1e-9, sample)
        found, allowed = self.attained(layer, sample, budget), self.allowed(layer, sample, budget)
        assert allowed
        for name, change in allowed.items():
            assert found <= change * (1 + self.slack), name


class ChangeLaws(BoundLaws):
    """Bounds of the output change on a whole budget."""

    def moved(self, layer: AttentionLayer, sample: TokenMeasure, budget: Budget, seed: int) -> list[Observation]:
        """What a random displacement on the edge of the budget does, and what ascent finds."""
        batch = one_sample(sample)
        points = batch.points + budget.sample(batch, generator(seed))
        ascended = Move(12)(layer, batch, budget, generator=generator(seed + 1)).observation
        return [observe(layer, batch, points, budget), ascended]

    @pytest.mark.parametrize("case", THESE_FIRST, ids=str)
    def test_neither_random_nor_ascended_moves_exceed_a_bound(self, case):
        """Every kind of layer, radii from tiny to larger than the tokens, one to five tokens, of sizes 0.1 to 5."""
        seed = EVERY_CASE.index(case)
        for turn, kind in self.turns(seed):
            layer, sample = place(case, seed, size=(0.1, 0.5, 1.0, 5.0)[turn % 4], length=1 + turn % 5)
            budget = self.budget(kind, RADII[turn // 2 % len(RADII)], sample)
            allowed = self.allowed(layer, sample, budget)
            for seen in self.moved(layer, sample, budget, seed):
                self.holds(seen, allowed)

    def holds(self, seen: Observation, allowed: dict[str, float]) -> None:
        for name, change in allowed.items():
            assert float(seen.output_change[0] - seen.rounding[0]) <= change, name

    @pytest.mark.parametrize("a", [900.0, -1e5, 1e12])
    def test_huge_logits_leave_a_number_that_holds_or_none(self, a):
        """Neither overflow nor what is not a number ever becomes a promise that a move breaks."""
        layer = AttentionLayer.single_head(torch.tensor([[a]]).double(), torch.ones(1, 1).double())
        sample = scalar_measure([-1.0, 0.3, 1.0])
        for kind in self.kinds:
            budget = self.budget(kind, 0.1, sample)
            known = {name: x for name, x in self.allowed(layer, sample, budget).items() if not math.isnan(x)}
            for seen in self.moved(layer, sample, budget, 0):
                self.holds(seen, known)
