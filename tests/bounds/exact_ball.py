"""The closed form on a ball and the hull (docs/proofs/local.md) of one head, written again in interval arithmetic.

Nothing is shared with the package: no QR, no logarithms, no Gram iteration, no margins.
"""

from dataclasses import dataclass

from flint import arb

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.interval import FAVOUR
from robust_attn.budget import Budget
from tests.bounds.exact import (
    Matrix,
    Vector,
    apply,
    attention,
    exact,
    largest,
    length,
    norm,
    product,
    root,
    transposed,
    value_matrix,
)

ZERO, HALF, ONE = arb(0), arb(0.5), arb(1)


@dataclass(frozen=True, eq=False)
class Head:
    """What is known at the tokens: attention, values u and slopes y of the logits in the query; g in the keys."""

    P: Matrix
    seen: list[list[bool]]
    u: Matrix
    y: Matrix
    g: Vector
    value: arb
    interaction: arb


@dataclass(frozen=True, eq=False)
class Reach:
    """A ball: radius eps, weights, how far each atom can go."""

    eps: arb
    weights: Vector
    reach: Vector


@dataclass(frozen=True, eq=False)
class ExactBall:
    """Lipschitz constants at the tokens and on the ball, by columns and by blocks, and the hull of each row."""

    columns: arb
    blocks: arb
    hull_rows: Vector


def head_of(layer: AttentionLayer, measure: TokenMeasure) -> Head:
    points, scale = exact(measure.points), arb(layer.scale)
    W_Q, W_K, V = exact(layer.query[0]), exact(layer.key[0]), value_matrix(layer, 0)
    A = [[scale * entry for entry in row] for row in product(transposed(W_K), W_Q)]
    a = [scale * entry for entry in apply(transposed(W_K), exact(layer.query_bias[0]))]
    return Head(
        P=attention(layer, 0, points, measure),
        seen=visible(layer.mask, measure.positions, measure.masses).tolist(),
        u=[apply(V, x) for x in points],
        y=[apply(transposed(A), x) for x in points],
        g=[length([left + right for left, right in zip(apply(A, x), a, strict=True)]) for x in points],
        value=norm(V),
        interaction=norm(A),
    )


def reach_of(measure: TokenMeasure, budget: Budget) -> Reach:
    return Reach(arb(budget.hilbert_radius(measure)), exact(budget.weights(measure)), exact(budget.reach(measure)))


def exact_ball(head: Head, ball: Reach, *, centre: bool = False) -> ExactBall:
    """All of it; with `centre` for the ball of radius zero, where the query part may also be taken exactly."""
    n = range(len(head.P))
    if centre:
        ball = Reach(ZERO, ball.weights, [ZERO for _ in n])
    rows = [_row(head, ball, i, centre=centre) for i in n]
    query = largest([row.query for row in rows])

    def by_columns(field: str) -> arb:
        return root(
            largest(
                [
                    sum((ball.weights[i] * getattr(rows[i], field)[j] for i in n), start=ZERO) / ball.weights[j]
                    for j in n
                ]
            )
        )

    together = by_columns("value_columns") + by_columns("pull_columns")
    blocks = [
        [root(ball.weights[i] / ball.weights[j]) * (rows[i].blocks[j] + (rows[i].query if i == j else ZERO)) for j in n]
        for i in n
    ]
    return ExactBall(by_columns("columns").min(together) + query, norm(blocks), [row.hull for row in rows])


@dataclass(frozen=True, eq=False)
class _Row:
    columns: Vector
    value_columns: Vector
    pull_columns: Vector
    blocks: Vector
    query: arb
    hull: arb


def _row(head: Head, ball: Reach, i: int, *, centre: bool) -> _Row:
    seen, P = [j for j, sees in enumerate(head.seen[i]) if sees], head.P[i]
    away_u, away_y = _from_mean(P, head.u), _from_mean(P, head.y)
    t, b = [length(z) for z in away_u], [length(z) for z in away_y]
    shift, slopes, rises = _shifts(head, ball, i, b), *_centred_shifts(head, ball, i, b)
    corners = [_extreme(P, shift, j, up=True) if j in seen else ZERO for j in range(len(P))]
    U = [corners[j].min(P[j] * rises[j].exp()) if j in seen else ZERO for j in range(len(P))]
    L = [_extreme(P, shift, j, up=False) if j in seen else ZERO for j in range(len(P))]
    motion = (ball.eps * root(largest([U[j] / ball.weights[j] for j in seen]))).min(largest(ball.reach))
    drift = [(U[j] - P[j]).max(P[j] - L[j]) for j in range(len(P))]
    ratio = largest([corners[j] / P[j] for j in seen]).min(largest([rises[j].exp() for j in seen])).max(ONE)
    still_u = _moved(P, _deviation(P, away_u), t, U, ratio)
    spread_u = still_u + head.value * motion
    spread_y = _moved(P, _deviation(P, away_y), b, U, ratio) + head.interaction * motion
    g = head.g[i] + head.interaction * ball.reach[i]
    query = spread_u * spread_y
    if centre:
        query = query.min(norm(_covariance(P, away_u, away_y)))
    variance = _variance(L, U, ball.weights, seen)
    way = _logit_deviation(ball, i, [r * g**2 if j in seen else ZERO for j, r in enumerate(variance)], spread_y)
    way = way.min(root(sum((U[j] * slopes[j] ** 2 for j in seen), start=ZERO))).min(largest([slopes[j] for j in seen]))
    mean_shift = sum((drift[j] * t[j] for j in seen), start=ZERO).min(still_u * way) + head.value * motion
    distance = [t[j] + head.value * ball.reach[j] + mean_shift for j in range(len(P))]
    return _Row(
        columns=[(head.value**2 + (g * spread_u) ** 2) * U[j] for j in range(len(P))],
        value_columns=[head.value**2 * U[j] for j in range(len(P))],
        pull_columns=[(spread_u * g) ** 2 * variance[j] for j in range(len(P))],
        blocks=[U[j] * (head.value + distance[j] * g) for j in range(len(P))],
        query=query,
        hull=largest([t[j] for j in seen]) + head.value * largest([ball.reach[j] for j in seen]),
    )


def _from_mean(P: Vector, z: Matrix) -> Matrix:
    mean = apply(transposed(z), P)
    return [[entry - centre for entry, centre in zip(row, mean, strict=True)] for row in z]


def _deviation(P: Vector, away: Matrix) -> arb:
    return norm([[root(p) * entry for entry in row] for p, row in zip(P, away, strict=True)])


def _covariance(P: Vector, left: Matrix, right: Matrix) -> Matrix:
    return product(transposed(left), [[p * entry for entry in row] for p, row in zip(P, right, strict=True)])


def _moved(P: Vector, deviation: arb, distance: Vector, U: Vector, ratio: arb) -> arb:
    """U <= t P + (U - t P)_+ with t from nothing to the largest ratio."""
    found = []
    for t in (ZERO, ONE, root(ratio), ratio):
        rest = [(u - t * p).nonnegative_part() if t is not ratio else ZERO for u, p in zip(U, P, strict=True)]
        found.append(t * deviation**2 + sum((u * d**2 for u, d in zip(rest, distance, strict=True)), start=ZERO))
    smallest = found[0]
    for each in found[1:]:
        smallest = smallest.min(each)
    return root(smallest)


def _logit_deviation(ball: Reach, i: int, squares: Vector, spread: arb) -> arb:
    keys = largest([ZERO] + [entry / ball.weights[j] for j, entry in enumerate(squares) if j != i])
    return ball.eps * root(keys + (root(squares[i]) + spread) ** 2 / ball.weights[i])


def _centred_shifts(head: Head, ball: Reach, i: int, b: Vector) -> tuple[Vector, Vector]:
    """Of s_ij less the mean of its row: its slope along a displacement of the ball, and how far it rises on it."""
    P, g, n = head.P[i], head.g[i], range(len(head.P))
    mean = sum((P[k] * ball.reach[k] for k in n), start=ZERO)
    mean = mean.min(ball.eps * root(largest([P[k] / ball.weights[k] for k in n])))
    slopes, rises = [], []
    for j in n:
        parts = [((ONE if k == j else ZERO) - P[k]) * g for k in n]
        parts = [part.max(-part) for part in parts]
        parts[i] += b[j]
        together = ball.eps * root(sum((parts[k] ** 2 / ball.weights[k] for k in n), start=ZERO))
        first = together.min(sum((parts[k] * ball.reach[k] for k in n), start=ZERO))
        pair = ball.reach[i] * ball.reach[j]
        if i != j:
            pair = pair.min(ball.eps**2 / (2 * root(ball.weights[i] * ball.weights[j])))
        second = head.interaction * (pair + ball.reach[i] * mean)
        slopes.append(first + 2 * second)
        rises.append(first + second)
    return slopes, rises


def _shifts(head: Head, ball: Reach, i: int, b: Vector) -> Vector:
    """How far logit (i, j) can move: both tokens share eps, or each goes as far as it can."""
    found = []
    for j, (w, r) in enumerate(zip(ball.weights, ball.reach, strict=True)):
        alone = head.g[i] * r + b[j] * ball.reach[i] + head.interaction * r * ball.reach[i]
        own = ball.weights[i]
        pair = ball.eps * root(head.g[i] ** 2 / w + b[j] ** 2 / own) + head.interaction * ball.eps**2 / (
            2 * root(w * own)
        )
        found.append(alone if i == j else alone.min(pair))
    return found


def _extreme(P: Vector, shift: Vector, j: int, *, up: bool) -> arb:
    """The largest (smallest) P_j: its own logit moves up (down) by its shift and every other one the other way."""
    sign = 1 if up else -1
    own = P[j] * (sign * shift[j]).exp()
    others = sum((P[k] * (-sign * shift[k]).exp() for k in range(len(P)) if k != j), start=ZERO)
    return own / (own + others)


def _variance(L: Vector, U: Vector, weights: Vector, seen: list[int]) -> Vector:
    """The weights r of diag(P) - P P^T <= diag(r): of three candidates the one with the smallest r_j / w_j at most."""
    alone = [h * (1 - h) for h in (HALF.max(low).min(up) for low, up in zip(L, U, strict=True))]
    top = max(seen, key=lambda j: float(U[j]))
    favoured = [
        (1 + arb(FAVOUR)) * alone[j]
        if j == top
        else alone[j] + U[j] * ((1 - L[j] - L[top]).nonnegative_part() + U[top] / arb(FAVOUR))
        for j in range(len(U))
    ]
    candidates = (U, [2 * entry for entry in alone], favoured)
    return min(candidates, key=lambda r: float(largest([r[j] / weights[j] for j in seen])))
