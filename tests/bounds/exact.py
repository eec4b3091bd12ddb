"""Attention in interval arithmetic (arb balls of python-flint): what float64 is compared with.

Every float64 number is taken as the exact number it is. Vectors are lists, matrices lists of rows. Numbers are balls,
or power series of balls where derivatives are wanted. No rotary positions.
"""

import itertools

from flint import arb, arb_mat, arb_series, ctx
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure

ctx.prec = 400
SQUARINGS = 90

Vector = list
Matrix = list[Vector]


def exact(tensor: Tensor) -> list:
    """The numbers of a tensor as balls of radius zero, nested as the tensor is."""
    return [exact(part) for part in tensor] if tensor.dim() else arb(float(tensor))


def dot(left: Vector, right: Vector):
    return sum((a * b for a, b in zip(left, right, strict=True)), start=arb(0))


def apply(matrix: Matrix, vector: Vector) -> Vector:
    return [dot(row, vector) for row in matrix]


def transposed(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def product(left: Matrix, right: Matrix) -> Matrix:
    return [apply(transposed(right), row) for row in left]


def difference(left: Matrix, right: Matrix) -> Matrix:
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(left, right, strict=True)]


def length(vector: Vector) -> arb:
    return root(dot(vector, vector))


def root(value: arb) -> arb:
    """The square root of a number known not to be negative."""
    return value.nonnegative_part().sqrt()


def largest(values: list[arb]) -> arb:
    best = values[0]
    for value in values[1:]:
        best = best.max(value)
    return best


def norm(matrix: Matrix) -> arb:
    """The spectral norm: that of the midpoints, give or take the Frobenius norm of the radii."""
    centres = [[entry.mid() for entry in row] for row in matrix]
    doubt = length([entry.rad() for row in matrix for entry in row])
    return norm_of_exact(centres) + arb(0, doubt.upper())


def norm_of_exact(matrix: Matrix) -> arb:
    """lambda^N <= trace(C^N) <= k lambda^N for C = M^T M of size k and N = 2^SQUARINGS."""
    gram = product(transposed(matrix), matrix)
    size = sum((gram[i][i] for i in range(len(gram))), start=arb(0))
    if size.is_zero():
        return arb(0)
    power = arb_mat([[entry / size for entry in row] for row in gram])
    for _ in range(SQUARINGS):
        power = power * power
    upper = (power.trace().log() / 2**SQUARINGS).exp()
    lower = upper * (-arb(len(gram)).log() / 2**SQUARINGS).exp()
    return (size * lower.union(upper)).sqrt()


def logits(layer: AttentionLayer, head: int, points: Matrix) -> Matrix:
    """scale <W_Q x_i + b_Q, W_K x_j + b_K> of one head."""
    group, scale = layer.group_of(head), arb(layer.scale)
    queries = [_affine(layer.query[head], layer.query_bias[head], x) for x in points]
    keys = [_affine(layer.key[group], layer.key_bias[group], x) for x in points]
    return [[scale * dot(q, k) for k in keys] for q in queries]


def attention(layer: AttentionLayer, head: int, points: Matrix, measure: TokenMeasure) -> Matrix:
    """P_ij of one head: m_j e^{s_ij} over the visible atoms, divided by their sum; zero for the hidden ones."""
    seen = visible(layer.mask, measure.positions, measure.masses).tolist()
    weights = [
        [m * s.exp() if sees else arb(0) for m, s, sees in zip(exact(measure.masses), row, sees_row, strict=True)]
        for row, sees_row in zip(logits(layer, head, points), seen, strict=True)
    ]
    return [[w / sum(row, start=arb(0)) for w in row] for row in weights]


def outputs(layer: AttentionLayer, points: Matrix, measure: TokenMeasure) -> Matrix:
    """The layer's output at `points` with the masses and positions of the measure."""
    rows = [exact(layer.offset) for _ in points]
    for head in range(layer.heads):
        V = value_matrix(layer, head)
        values = [apply(V, x) for x in points]
        for i, p in enumerate(attention(layer, head, points, measure)):
            rows[i] = [total + part for total, part in zip(rows[i], apply(transposed(values), p), strict=True)]
    return rows


def value_matrix(layer: AttentionLayer, head: int) -> Matrix:
    """W_O W_V of one head."""
    return product(exact(layer.output[head]), exact(layer.value[layer.group_of(head)]))


def along(layer: AttentionLayer, points: Matrix, direction: Matrix, measure: TokenMeasure, order: int) -> Matrix:
    """The derivative of the given order (1 or 2) of t -> f(points + t direction) at zero."""
    previous, ctx.cap = ctx.cap, order + 1
    try:
        path = [
            [arb_series([x, d]) for x, d in zip(*rows, strict=True)] for rows in zip(points, direction, strict=True)
        ]
        return [[order * _series(value)[order] for value in row] for row in outputs(layer, path, measure)]
    finally:
        ctx.cap = previous


def _series(value) -> arb_series:
    return value if isinstance(value, arb_series) else arb_series([value])


def derivative(layer: AttentionLayer, points: Matrix, measure: TokenMeasure, weights: Vector) -> Matrix:
    """The transposed Jacobian in the norm (sum_i w_i |.|^2)^{1/2} on both sides."""
    rows = []
    for i, j in itertools.product(range(len(points)), range(len(points[0]))):
        unit = [[arb(int((k, c) == (i, j))) for c in range(len(points[0]))] for k in range(len(points))]
        moved = along(layer, points, unit, measure, 1)
        rows.append([root(w / weights[i]) * entry for w, row in zip(weights, moved, strict=True) for entry in row])
    return rows


def weighted_size(field: Matrix, weights: Vector) -> arb:
    """(sum_i w_i |field_i|^2)^{1/2}."""
    return root(sum((w * dot(row, row) for w, row in zip(weights, field, strict=True)), start=arb(0)))


def _affine(weights: Tensor, bias: Tensor, x: Vector) -> Vector:
    return [a + b for a, b in zip(apply(exact(weights), x), exact(bias), strict=True)]
