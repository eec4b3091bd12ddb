"""The attention layer in interval arithmetic with sixty digits and more: what certificates are judged by.

Written from the formula of `AttentionLayer` alone; nothing of our own forward pass is used. Every float (float64,
float32, bfloat16) is the exact number that it is; sines and cosines of rotary positions are the float32 numbers that
`Rotary` defines, and masses those of `measure.to(torch.float64)`. Results are pairs of floats, rounded outwards: an
`output_lower` above a certified change proves that the certificate is false.

Balls of python-flint where it is there, otherwise (many times slower) the intervals of mpmath, which torch needs
anyway. Vectors are lists of numbers, matrices lists of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from importlib import import_module
from operator import add, mul, sub
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken, TokenRadius, Wasserstein

DIGITS = (60, 120, 240, 480)
"""Tried in turn, until a change is known to a relative accuracy of SHARP. With the last, sums of floats are exact."""
SHARP = 1e-9
SHRINKINGS = 53
"""Attempts to pull a perturbation inside its budget: each shrinks twice as much, from one unit in the last place on."""

Number = Any
"""A ball of python-flint or an interval of mpmath."""
Vector = list[Number]
Matrix = list[Vector]
Ends = tuple[float, float]


@dataclass(frozen=True)
class Arithmetic:
    """Numbers that enclose what they stand for. A comparison of two of them is true only where it is certain.

    `number` takes a float exactly, `root` is for what is known not to be negative, `ends` are floats rounded outwards,
    `digits` the precision inside a `with`.
    """

    name: str
    number: Callable[[float], Number]
    exp: Callable[[Number], Number]
    root: Callable[[Number], Number]
    ends: Callable[[Number], Ends]
    digits: Callable[[int], AbstractContextManager[Any]]

    def matrix(self, tensor: Tensor) -> Any:
        """The numbers of a tensor, nested as the tensor is."""
        return _nested(self.number, tensor.double().tolist())


@cache
def arithmetic() -> Arithmetic:
    """python-flint if it can be imported, else mpmath."""
    try:
        return flint_balls()
    except ImportError:
        return mpmath_intervals()


@cache
def flint_balls() -> Arithmetic:
    """The balls of Arb."""
    flint: Any = import_module("flint")
    arb = flint.arb

    def ends(value: Number) -> Ends:
        lower, upper = value.lower(), value.upper()
        return _outward(float(lower), float(upper), lambda low: arb(low) <= lower, lambda up: arb(up) >= upper)

    def root(value: Number) -> Number:
        return value.nonnegative_part().sqrt()

    return Arithmetic("python-flint", arb, arb.exp, root, ends, flint.ctx.workdps)


@cache
def mpmath_intervals() -> Arithmetic:
    """The intervals of mpmath."""
    mpmath: Any = import_module("mpmath")
    iv = mpmath.iv

    def root(value: Number) -> Number:
        return iv.sqrt(iv.mpf([max(mpmath.mpf(end), 0) for end in (value.a, value.b)]))

    def ends(value: Number) -> Ends:
        lower, upper = value.a, value.b
        found = float(mpmath.mpf(lower)), float(mpmath.mpf(upper))
        return _outward(*found, lambda low: bool(iv.mpf(low) <= lower), lambda up: bool(iv.mpf(up) >= upper))

    @contextmanager
    def digits(count: int) -> Iterator[None]:
        before, iv.dps = iv.dps, count
        try:
            with mpmath.workdps(count):
                yield
        finally:
            iv.dps = before

    return Arithmetic("mpmath", iv.mpf, iv.exp, root, ends, digits)


def _outward(
    lower: float, upper: float, low_enough: Callable[[float], bool], high_enough: Callable[[float], bool]
) -> Ends:
    """Floats next to the two ends and not between them; not a number where an end is none."""
    lower = math.nextafter(math.inf, 0.0) if lower == math.inf else lower
    if math.isfinite(lower) and not low_enough(lower):
        lower = math.nextafter(lower, -math.inf)
    if math.isfinite(upper) and not high_enough(upper):
        upper = math.nextafter(upper, math.inf)
    return lower, upper


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
class _Head:
    query: Matrix
    query_bias: Vector
    key: Matrix
    key_bias: Vector
    value: Matrix
    output: Matrix


@dataclass(frozen=True, eq=False)
class _Attention:
    """One head at the atoms: what it computes, the weights P_ij of the atoms that row i sees, and their means."""

    queries: Matrix
    keys: Matrix
    values: Matrix
    weights: Matrix
    means: Matrix


@dataclass(frozen=True, eq=False)
class Reference:
    """A layer at the atoms of one float64 measure, exactly; the masses are taken as they are.

    `positions` and `turns` (cosines and sines) belong to atoms, `known` is what was computed already, by digits.
    """

    numbers: Arithmetic
    heads: tuple[_Head, ...]
    scale: Number
    offset: Vector
    causal: bool
    points: Matrix
    masses: Vector
    present: tuple[bool, ...]
    positions: tuple[int, ...]
    turns: tuple[tuple[Vector, Vector], ...] | None
    known: dict[int, list[_Attention]] = field(default_factory=dict)

    @classmethod
    def of(cls, layer: AttentionLayer, measure: TokenMeasure, numbers: Arithmetic | None = None) -> Reference:
        """The layer's weights and the measure's numbers, each as the exact number that it is."""
        numbers = arithmetic() if numbers is None else numbers
        of, masses = numbers.matrix, measure.masses.double()
        groups = [layer.group_of(head) for head in range(layer.heads)]
        heads = tuple(
            _Head(of(query), of(bias), of(layer.key[g]), of(layer.key_bias[g]), of(layer.value[g]), of(output))
            for query, bias, output, g in zip(layer.query, layer.query_bias, layer.output, groups, strict=True)
        )
        return cls(
            numbers=numbers,
            heads=heads,
            scale=numbers.number(float(layer.scale)),
            offset=of(layer.offset),
            causal=layer.mask is Mask.CAUSAL,
            points=of(measure.points),
            masses=of(masses),
            present=tuple((masses > 0).tolist()),
            positions=tuple(measure.positions.tolist()),
            turns=_turns(layer, measure, numbers),
        )

    def outputs(self, digits: int = DIGITS[0]) -> Matrix:
        """The layer's output at every atom."""
        with self.numbers.digits(digits):
            return [added(row, self.offset) for row in self.attended(digits)]

    def attended(self, digits: int = DIGITS[0]) -> Matrix:
        """The output without the offset, which no change depends on."""
        with self.numbers.digits(digits):
            return self._merged([head.means for head in self._attention(digits)])

    def derivative(self, direction: Matrix, digits: int = DIGITS[0]) -> Matrix:
        """How the output moves to first order when the atoms move along `direction`, masses fixed."""
        with self.numbers.digits(digits):
            moved = []
            for head, here in zip(self.heads, self._attention(digits), strict=True):
                dq, dk, dv = (applied(weights, direction) for weights in (head.query, head.key, head.value))
                moved.append(self._moved_means(here, self._turned(dq), self._turned(dk), dv))
            return self._merged(moved)

    def moved(self, steps: Matrix) -> Reference:
        """The same atoms elsewhere."""
        with self.numbers.digits(DIGITS[-1]):
            points = [added(*rows) for rows in zip(self.points, steps, strict=True)]
        return replace(self, points=points, known={})

    def split(self, owners: Sequence[int], shares: Sequence[Fraction]) -> Reference:
        """The same measure in pieces: each a share of the mass of an atom, which together are all of it."""
        with self.numbers.digits(DIGITS[-1]):
            masses = [self.masses[i] * _number_of(share, self.numbers) for i, share in zip(owners, shares, strict=True)]
        return replace(
            self,
            points=[self.points[i] for i in owners],
            masses=masses,
            present=tuple(self.present[i] and share > 0 for i, share in zip(owners, shares, strict=True)),
            positions=tuple(self.positions[i] for i in owners),
            turns=None if self.turns is None else tuple(self.turns[i] for i in owners),
            known={},
        )

    @cached_property
    def _seen(self) -> list[list[int]]:
        """The atoms that each row attends to: those with mass, under a causal mask at positions that are not later."""
        atoms = [j for j, present in enumerate(self.present) if present]
        return [[j for j in atoms if not self.causal or self.positions[j] <= own] for own in self.positions]

    def _attention(self, digits: int) -> list[_Attention]:
        if digits not in self.known:
            self.known[digits] = [self._head_attention(head) for head in self.heads]
        return self.known[digits]

    def _head_attention(self, head: _Head) -> _Attention:
        queries = self._turned([added(row, head.query_bias) for row in applied(head.query, self.points)])
        keys = self._turned([added(row, head.key_bias) for row in applied(head.key, self.points)])
        values = applied(head.value, self.points)
        weights = [self._softmax(query, keys, atoms) for query, atoms in zip(queries, self._seen, strict=True)]
        means = [self._mean(row, values, atoms) for row, atoms in zip(weights, self._seen, strict=True)]
        return _Attention(queries, keys, values, weights, means)

    def _softmax(self, query: Vector, keys: Matrix, atoms: list[int]) -> Vector:
        """m_j e^{s_j} over the atoms seen, divided by their sum; a logit as good as the largest is taken off."""
        if not atoms:
            return []
        logits = [self.scale * dot(query, keys[j]) for j in atoms]
        top = logits[0]
        for logit in logits:
            top = logit if logit > top else top
        raw = [self.masses[j] * self.numbers.exp(logit - top) for j, logit in zip(atoms, logits, strict=True)]
        total = sum(raw)
        return [weight / total for weight in raw]

    def _mean(self, weights: Vector, rows: Matrix, atoms: list[int]) -> Vector:
        """sum_j weights_j rows_j over the atoms seen; zero for a row that sees nobody."""
        columns = zip(*(rows[j] for j in atoms), strict=True) if atoms else [[] for _ in rows[0]]
        return [dot(weights, column) if atoms else self.numbers.number(0.0) for column in columns]

    def _moved_means(self, here: _Attention, dq: Matrix, dk: Matrix, dv: Matrix) -> Matrix:
        """sum_j P_ij dv_j + sum_j P_ij ds_ij (v_j - o_i), with ds_ij = scale (<dq_i, k_j> + <q_i, dk_j>)."""
        rows = []
        for i, atoms in enumerate(self._seen):
            slopes = [
                p * self.scale * (dot(dq[i], here.keys[j]) + dot(here.queries[i], dk[j]))
                for p, j in zip(here.weights[i], atoms, strict=True)
            ]
            apart = [list(map(sub, value, here.means[i])) for value in here.values]
            rows.append(added(self._mean(here.weights[i], dv, atoms), self._mean(slopes, apart, atoms)))
        return rows

    def _merged(self, means: list[Matrix]) -> Matrix:
        """sum_h W_O^h o_h of every row."""
        rows = []
        for per_head in zip(*means, strict=True):
            parts = [apply(head.output, mean) for head, mean in zip(self.heads, per_head, strict=True)]
            rows.append([sum(entries) for entries in zip(*parts, strict=True)])
        return rows

    def _turned(self, rows: Matrix) -> Matrix:
        if self.turns is None:
            return rows
        return [turned(row, *turn) for row, turn in zip(rows, self.turns, strict=True)]


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

        return self._pulled_in(self.reference, range(len(self.reference.points)), attempt)

    def by(self, displacement: Float[Tensor, "n d"]) -> ExactChange:
        """Atoms moved by floats, to places that need not be floats; if that is outside, the floats are made smaller."""

        def attempt(factor: float) -> tuple[Tensor, Matrix]:
            smaller = displacement.double() * factor
            return self.base.points + smaller, self.reference.numbers.matrix(smaller)

        return self._pulled_in(self.reference, range(len(self.reference.points)), attempt)

    def slivers(self, slivers: Sequence[Sliver]) -> ExactChange:
        """Parts of tokens moved, in the coupling that moves them: (sum over atoms of mass times squared change)^{1/2}.

        If the cost is above the budget, or a sliver outside of the support, all go less far.
        """
        if not isinstance(self.budget, Wasserstein):
            raise TypeError("parts of a token share its budget in the Wasserstein budget alone")
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
        after = self._output_ends(pieces, there, owners)
        return ExactChange(*before, *after, inside=inside, points=points)

    def _output_ends(self, pieces: Reference, there: Reference, owners: Sequence[int]) -> Ends:
        ends = (math.nan, math.nan)
        for digits in DIGITS:
            old, new = self.reference.attended(digits), there.attended(digits)
            with self.reference.numbers.digits(digits):
                change = [list(map(sub, row, old[owner])) for row, owner in zip(new, owners, strict=True)]
                ends = self._size(change, pieces)
            if ends[1] - ends[0] <= SHARP * ends[1]:
                break
        return ends

    def _weights(self, pieces: Reference) -> Vector:
        """Those of the budget's norm."""
        if isinstance(self.budget, Wasserstein):
            return pieces.masses
        weights: Vector = self.reference.numbers.matrix(self.budget.weights(self.base))
        return weights

    def _squares(self, rows: Matrix, pieces: Reference) -> list[Number]:
        """What the budget bounds by the square of its radius: the squares of all rows, or their weighted sum."""
        squares = [dot(row, row) for row, present in zip(rows, pieces.present, strict=True) if present]
        if isinstance(self.budget, PerToken):
            return squares
        weights = [w for w, present in zip(self._weights(pieces), pieces.present, strict=True) if present]
        return [dot(weights, squares)]

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
    low = 0.0
    for digits in DIGITS:
        moved = reference.derivative(steps, digits)
        with numbers.digits(digits):
            output, size = (dot(w, [dot(row, row) for row in rows]) for rows in (moved, steps))
            low, high = numbers.ends(numbers.root(output / size))
        if high - low <= SHARP * high:
            break
    return low if math.isnan(low) else max(low, 0.0)


def _turns(
    layer: AttentionLayer, measure: TokenMeasure, numbers: Arithmetic
) -> tuple[tuple[Vector, Vector], ...] | None:
    """Cosines and sines of every atom, in float32 as `Rotary` defines them."""
    if layer.rotary is None:
        return None
    angles = measure.positions[:, None].float() * layer.rotary.inverse_frequencies.float()
    tables = (numbers.matrix(wave * layer.rotary.scaling) for wave in (angles.cos(), angles.sin()))
    return tuple(zip(*tables, strict=True))


def turned(row: Vector, cosines: Vector, sines: Vector) -> Vector:
    """The first half of a head vector rotated against the second, pair by pair."""
    half = len(row) // 2
    first, second = row[:half], row[half:]
    pairs = list(zip(first, second, cosines, sines, strict=True))
    return [a * c - b * s for a, b, c, s in pairs] + [b * c + a * s for a, b, c, s in pairs]


def dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    """The inner product."""
    return sum(map(mul, left, right))


def apply(matrix: Matrix, vector: Vector) -> Vector:
    """The matrix times a vector."""
    return [dot(row, vector) for row in matrix]


def applied(matrix: Matrix, vectors: Matrix) -> Matrix:
    """The matrix times each of the vectors."""
    return [apply(matrix, vector) for vector in vectors]


def added(left: Vector, right: Vector) -> Vector:
    """The sum of two vectors."""
    return list(map(add, left, right))


def _nested(number: Callable[[float], Number], values: Any) -> Any:
    return [_nested(number, value) for value in values] if isinstance(values, list) else number(values)


def _number_of(share: Fraction, numbers: Arithmetic) -> Number:
    """A fraction whose denominator is a power of two: a sum of floats."""
    value = numbers.number(0.0)
    while share:
        part = float(share)
        value, share = value + numbers.number(part), share - Fraction(part)
    return value
