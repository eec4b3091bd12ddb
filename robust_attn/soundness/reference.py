"""The attention layer in interval arithmetic with sixty digits and more: what certificates are judged by.

Written from the formula of `AttentionLayer` alone; nothing of our own forward pass is used. Every float (float64,
float32, bfloat16) is the exact number that it is; sines and cosines of rotary positions are the numbers that
the layer's rotation defines, and masses those of `measure.to(torch.float64)`.

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

from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

DIGITS = (60, 120, 240, 480)
"""Tried in turn, until a change is sharply known. With the last, sums of floats are exact."""

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

    def fraction(self, share: Fraction) -> Number:
        """A fraction whose denominator is a power of two: a sum of floats."""
        value = self.number(0.0)
        while share:
            part = float(share)
            value, share = value + self.number(part), share - Fraction(part)
        return value


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
class _Head:
    query: Matrix
    query_bias: Vector
    key: Matrix
    key_bias: Vector
    value: Matrix
    output: Matrix
    sink: tuple[Number, Vector] | None


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

    `positions` and `turns` (cosines and sines) belong to atoms, `biases` to heads and pairs of positions; `tokens` is
    the number of positions with mass, `known` what was computed already, by digits.
    """

    numbers: Arithmetic
    heads: tuple[_Head, ...]
    scale: Number
    offset: Vector
    reach: tuple[float, float]
    points: Matrix
    masses: Vector
    present: tuple[bool, ...]
    positions: tuple[int, ...]
    turns: tuple[tuple[Vector, Vector], ...] | None
    biases: tuple[Matrix, ...] | None
    tokens: int
    known: dict[int, list[_Attention]] = field(default_factory=dict)

    @classmethod
    def of(cls, layer: AttentionLayer, measure: TokenMeasure, numbers: Arithmetic | None = None) -> Reference:
        """The layer's weights and the measure's numbers, each as the exact number that it is."""
        numbers = arithmetic() if numbers is None else numbers
        of, masses = numbers.matrix, measure.masses.double()
        groups = [layer.group_of(head) for head in range(layer.heads)]
        heads = tuple(
            _Head(of(query), of(bias), of(layer.key[g]), of(layer.key_bias[g]), of(layer.value[g]), of(output), sink)
            for query, bias, output, g, sink in zip(
                layer.query, layer.query_bias, layer.output, groups, _sinks(layer, numbers), strict=True
            )
        )
        return cls(
            numbers=numbers,
            heads=heads,
            scale=numbers.number(float(layer.scale)),
            offset=of(layer.offset),
            reach=layer.mask.reach,
            points=of(measure.points),
            masses=of(masses),
            present=tuple((masses > 0).tolist()),
            positions=tuple(measure.positions.tolist()),
            turns=_turns(layer, measure, numbers),
            biases=None if layer.position_bias is None else tuple(of(layer.position_bias.table)),
            tokens=int(measure.tokens),
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
            masses = [self.masses[i] * self.numbers.fraction(share) for i, share in zip(owners, shares, strict=True)]
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
        """The atoms that each row attends to: those with mass that the mask lets it see."""
        atoms = [j for j, present in enumerate(self.present) if present]
        before, after = self.reach
        return [[j for j in atoms if own - before <= self.positions[j] <= own + after] for own in self.positions]

    def _attention(self, digits: int) -> list[_Attention]:
        if digits not in self.known:
            self.known[digits] = [self._head_attention(number) for number in range(len(self.heads))]
        return self.known[digits]

    def _head_attention(self, number: int) -> _Attention:
        head = self.heads[number]
        queries = self._turned([added(row, head.query_bias) for row in applied(head.query, self.points)])
        keys = self._turned([added(row, head.key_bias) for row in applied(head.key, self.points)])
        values = applied(head.value, self.points)
        weights, means = [], []
        for i, (query, atoms) in enumerate(zip(queries, self._seen, strict=True)):
            logits = [self.scale * dot(query, keys[j]) + self._bias(number, i, j) for j in atoms]
            row, rest = self._softmax(logits, atoms, head.sink)
            mean = self._mean(row, values, atoms)
            weights.append(row)
            means.append(mean if head.sink is None else added(mean, [rest * entry for entry in head.sink[1]]))
        return _Attention(queries, keys, values, weights, means)

    def _bias(self, head: int, i: int, j: int) -> Number:
        if self.biases is None:
            return self.numbers.number(0.0)
        return self.biases[head][self.positions[i]][self.positions[j]]

    def _softmax(self, logits: Vector, atoms: list[int], sink: tuple[Number, Vector] | None) -> tuple[Vector, Number]:
        """m_j e^{s_j} over the atoms seen, divided by their sum and a sink's share, and that share of the whole.

        A logit as good as the largest is taken off.
        """
        every = logits if sink is None else [*logits, sink[0]]
        if not every:
            return [], self.numbers.number(0.0)
        top = every[0]
        for logit in every:
            top = logit if logit > top else top
        raw = [self.masses[j] * self.numbers.exp(logit - top) for j, logit in zip(atoms, logits, strict=True)]
        rest = self.numbers.number(0.0)
        if sink is not None:
            rest = self.numbers.exp(sink[0] - top) / self.numbers.number(float(self.tokens))
        total = sum(raw) + rest
        return [weight / total for weight in raw], rest / total

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


def _sinks(layer: AttentionLayer, numbers: Arithmetic) -> list[tuple[Number, Vector] | None]:
    """Logit and value of the sink of every head."""
    if layer.sinks is None:
        return [None] * layer.heads
    return list(zip(numbers.matrix(layer.sinks.logit), numbers.matrix(layer.sinks.value), strict=True))


def _turns(
    layer: AttentionLayer, measure: TokenMeasure, numbers: Arithmetic
) -> tuple[tuple[Vector, Vector], ...] | None:
    """Cosines and sines of every atom, as the layer defines them."""
    if layer.rotary is None:
        return None
    tables = (numbers.matrix(wave) for wave in layer.rotary.waves(measure.positions))
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


def transposed(matrix: Matrix) -> Matrix:
    """Its columns as rows."""
    return [list(column) for column in zip(*matrix, strict=True)]


def product(left: Matrix, right: Matrix) -> Matrix:
    """The product of two matrices."""
    return applied(transposed(right), left)


def added(left: Vector, right: Vector) -> Vector:
    """The sum of two vectors."""
    return list(map(add, left, right))


def _nested(number: Callable[[float], Number], values: Any) -> Any:
    return [_nested(number, value) for value in values] if isinstance(values, list) else number(values)
