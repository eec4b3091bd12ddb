"""Exact changes of a layer's output, by its reference in interval arithmetic.

Results are pairs of floats, rounded outwards: an `output_lower` above a certified change proves that the certificate is
false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import sub

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken, TokenRadius, Wasserstein
from robust_attn.soundness.reference import DIGITS, Arithmetic, Ends, Matrix, Number, Reference, dot

SHARP = 1e-9
"""Relative accuracy to which a change is known, if the most digits suffice for that."""
SHRINKINGS = 53
"""Attempts to pull a perturbation inside its budget: each shrinks twice as much, from one unit in the last place on."""


@dataclass(frozen=True, eq=False)
class ExactChange:
    """How far a perturbation moved the input and the output, in the budget's norm: each between two floats.

    `inside` says whether it is in the budget, and in the support, beyond doubt; if not, nothing follows from it.
    `points` are the places of the atoms as float64 (rounded, where a displacement was given that leads to no floats).
    """

    input_lower: float
    input_upper: float
    output_lower: float
    output_upper: float
    inside: bool
    points: Float[Tensor, "atoms d"]

    def violates(self, certified: float) -> bool:
        """Whether this proves that the output can change by more than `certified`."""
        return self.inside and self.output_lower > certified


@dataclass(frozen=True)
class Sliver:
    """The part `share` of a token's mass, moved by `displacement`; what is not moved stays where it is."""

    token: int
    share: float
    displacement: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Judge:
    """Exact changes of a layer around one measure, in the norm of one budget."""

    reference: Reference
    base: TokenMeasure
    budget: Budget

    @classmethod
    def of(cls, layer: AttentionLayer, base: TokenMeasure, budget: Budget, numbers: Arithmetic | None = None) -> Judge:
        """For one sample, which is converted to float64 as the certificates convert it."""
        base = base.to(torch.float64)
        return cls(Reference.of(layer, base, numbers), base, budget)

    def to_points(self, points: Float[Tensor, "n d"]) -> ExactChange:
        """Atoms moved to points given as floats; if they are outside by rounding, pulled in a little, as floats."""
        wanted = points.double() - self.base.points

        def attempt(factor: float) -> tuple[Tensor, Matrix]:
            there = points.double() if factor == 1 else self.base.points + factor * wanted
            rows = zip(self.reference.numbers.matrix(there), self.reference.points, strict=True)
            return there, [list(map(sub, *both)) for both in rows]

        return self._pulled_in(self.reference, range(self.base.length), attempt)

    def by(self, displacement: Float[Tensor, "n d"]) -> ExactChange:
        """Atoms moved by floats, to places that need not be floats; if that is outside, the floats are made smaller."""

        def attempt(factor: float) -> tuple[Tensor, Matrix]:
            smaller = displacement.double() * factor
            return self.base.points + smaller, self.reference.numbers.matrix(smaller)

        return self._pulled_in(self.reference, range(self.base.length), attempt)

    def slivers(self, slivers: Sequence[Sliver]) -> ExactChange:
        """Pieces of tokens moved, in the coupling that moves them: (sum over atoms of mass times squared change)^{1/2}.

        If the cost is above the budget, or a sliver outside of the support, all go less far.
        """
        if not isinstance(self.budget, Wasserstein):
            raise TypeError("pieces of a token share its budget in the Wasserstein budget alone")
        taken = [Fraction(0)] * len(self.reference.points)
        for sliver in slivers:
            taken[sliver.token] += Fraction(sliver.share)
        if any(total > 1 for total in taken):
            raise ValueError(f"shares of a token's mass must not sum to more than one, got {list(map(float, taken))}")
        stay = [i for i, total in enumerate(taken) if total < 1]
        owners = [*stay, *(sliver.token for sliver in slivers)]
        pieces = self.reference.split(
            owners, [*(1 - taken[i] for i in stay), *(Fraction(sliver.share) for sliver in slivers)]
        )
        still = torch.zeros(len(stay), self.base.width, dtype=torch.float64)
        wanted = torch.tensor([sliver.displacement for sliver in slivers], dtype=torch.float64)

        def attempt(factor: float) -> tuple[Tensor, Matrix]:
            smaller = torch.cat((still, wanted.reshape(-1, self.base.width) * factor))
            return self.base.points[owners] + smaller, self.reference.numbers.matrix(smaller)

        return self._pulled_in(pieces, owners, attempt)

    def _pulled_in(
        self, pieces: Reference, owners: Sequence[int], attempt: Callable[[float], tuple[Tensor, Matrix]]
    ) -> ExactChange:
        """What the first attempt that is inside does: the whole step, then ever smaller parts of it, at last none."""
        numbers, factor = self.reference.numbers, 1.0
        for number in range(SHRINKINGS + 1):
            with numbers.digits(DIGITS[-1]):
                points, steps = attempt(factor)
                there = pieces.moved(steps)
                inside = self._contains(pieces, there, steps)
            if inside:
                break
            factor = 1 - 2.0 ** (number - SHRINKINGS + 1)
        with numbers.digits(DIGITS[0]):
            before = self._size(steps, pieces)

        def change(digits: int) -> Ends:
            old, new = self.reference.attended(digits), there.attended(digits)
            rows = [list(map(sub, row, old[owner])) for row, owner in zip(new, owners, strict=True)]
            return self._size(rows, pieces)

        return ExactChange(*before, *_sharp(numbers, change), inside=inside, points=points)

    def _squares(self, rows: Matrix, pieces: Reference) -> list[Number]:
        """What the budget bounds by the square of its radius: the squares of all rows, or their weighted sum."""
        squares = [dot(row, row) for row, present in zip(rows, pieces.present, strict=True) if present]
        if isinstance(self.budget, PerToken):
            return squares
        own = isinstance(self.budget, Wasserstein)
        weights = pieces.masses if own else self.reference.numbers.matrix(self.budget.weights(self.base))
        return [dot([w for w, present in zip(weights, pieces.present, strict=True) if present], squares)]

    def _size(self, rows: Matrix, pieces: Reference) -> Ends:
        """The norm of a field, not below zero; not a number if any part of it is none."""
        numbers = self.reference.numbers
        ends = [numbers.ends(numbers.root(square)) for square in self._squares(rows, pieces)]
        if any(math.isnan(low) or math.isnan(high) for low, high in ends):
            return math.nan, math.nan
        return max(0.0, *(low for low, _ in ends)), max(high for _, high in ends)

    def _contains(self, pieces: Reference, there: Reference, steps: Matrix) -> bool:
        """Whether this is certain: padding stays, the norm is within the radius, and all atoms are in the support."""
        radius = self.reference.numbers.number(float(self.budget.radius))
        padding = [row for row, present in zip(steps, pieces.present, strict=True) if not present]
        if not all(bool(step == 0) for row in padding for step in row):
            return False
        if not all(bool(square <= radius * radius) for square in self._squares(steps, pieces)):
            return False
        squares = [dot(point, point) for point, here in zip(there.points, pieces.present, strict=True) if here]
        return all(any(bool(square <= limit) for limit in self._limits) for square in squares)

    @cached_property
    def _limits(self) -> list[Number]:
        """Squares of numbers of which the largest is the radius of the support."""
        number, support = self.reference.numbers.number, self.budget.support
        if support is None:
            return [number(math.inf)]
        if isinstance(support, TokenRadius):
            here = zip(self.reference.points, self.reference.present, strict=True)
            return [dot(point, point) for point, present in here if present]
        return [number(float(support)) * number(float(support))]


def exact_output(
    layer: AttentionLayer, measure: TokenMeasure, numbers: Arithmetic | None = None
) -> tuple[Float[Tensor, "n out"], Float[Tensor, "n out"]]:
    """Two float64 tensors with the exact output of one sample between them."""
    reference = Reference.of(layer, measure.to(torch.float64), numbers)
    ends = [[reference.numbers.ends(entry) for entry in row] for row in reference.outputs()]
    lower, upper = torch.tensor(ends, dtype=torch.float64).unbind(-1)
    return lower, upper


def exact_change(
    layer: AttentionLayer, base: TokenMeasure, points: Float[Tensor, "n d"], budget: Budget
) -> ExactChange:
    """What moving the atoms of one sample to `points` does (`Judge.to_points`)."""
    return Judge.of(layer, base, budget).to_points(points)


def exact_constant_lower(
    layer: AttentionLayer,
    measure: TokenMeasure,
    direction: Float[Tensor, "n d"],
    weights: Float[Tensor, "n"] | None = None,
) -> float:
    """|J d| / |d| at one sample in the norm (sum_i w_i |.|^2)^{1/2}, never above the exact value; by default w = m.

    Atoms of weight zero neither move nor count. Zero where nothing moves.
    """
    measure = measure.to(torch.float64)
    return constant_lower(Reference.of(layer, measure), direction, measure.masses if weights is None else weights)


def constant_lower(reference: Reference, direction: Float[Tensor, "n d"], weights: Float[Tensor, "n"]) -> float:
    """The same at a reference, whose atoms keep their masses as they are."""
    numbers = reference.numbers
    still = torch.where((weights > 0)[:, None], direction.double(), 0.0)
    steps, w = numbers.matrix(still), numbers.matrix(weights)
    if not bool((still != 0).any()):
        return 0.0

    def gain(digits: int) -> Ends:
        moved = reference.derivative(steps, digits)
        output, size = (dot(w, [dot(row, row) for row in rows]) for rows in (moved, steps))
        return numbers.ends(numbers.root(output / size))

    low, _ = _sharp(numbers, gain)
    return low if math.isnan(low) else max(low, 0.0)


def _sharp(numbers: Arithmetic, found: Callable[[int], Ends]) -> Ends:
    """What is found with as many digits as it takes to know it sharply, or with the most."""
    ends = math.nan, math.nan
    for digits in DIGITS:
        with numbers.digits(digits):
            ends = found(digits)
        if ends[1] - ends[0] <= SHARP * ends[1]:
            break
    return ends
