"""Perturbations worth judging exactly: a cheap float64 ascent that cancellation does not mislead.

It climbs on a **replica** of the layer around the tokens: exact products W_O W_V and W_Q^T W_K, and points, biases and
logits relative to the first token and to the first atom of each row, all computed exactly and then rounded once. What
cancels in the layer has cancelled already, so the replica's changes are right to float64 relative to themselves.
Nothing here is a statement about anything: `robust_attn.soundness.exact` judges what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robust_attn.budget import Budget, PerToken, TokenRadius, Wasserstein
from robust_attn.soundness.exact import Sliver
from robust_attn.soundness.reference import (
    DIGITS,
    Arithmetic,
    Matrix,
    Number,
    Reference,
    Vector,
    added,
    apply,
    dot,
    product,
    transposed,
    turned,
)

Array = NDArray[np.float64]
STEPS = 10
RANDOM_STARTS = 8
TARGETS = 16
ROUNDS = 5
PART = 0.3


@dataclass(frozen=True, eq=False)
class Replica:
    """s_ij = z_i A_ij z_j + <key_ij, z_j> + <query_ij, z_i> + constant_ij and f_i = sum_h V_h sum_j P_ij z_j.

    `tokens` are z, the points less `origin`; `seen` says who may attend to whom, masses aside.
    """

    value: Array
    interaction: Array
    key: Array
    query: Array
    constant: Array
    seen: NDArray[np.bool_]
    tokens: Array
    origin: Array
    masses: Array

    def pieces(self, owners: Sequence[int]) -> Replica:
        """The same with atoms that are parts of tokens, each as heavy as its token."""
        own = np.asarray(owners)
        rows, columns = own[:, None], own[None, :]
        return Replica(
            value=self.value,
            interaction=self.interaction[:, rows, columns],
            key=self.key[:, rows, columns],
            query=self.query[:, rows, columns],
            constant=self.constant[:, rows, columns],
            seen=self.seen[rows, columns],
            tokens=self.tokens[own],
            origin=self.origin,
            masses=self.masses[own],
        )

    def attention(self, z: Array, masses: Array) -> tuple[Array, Array, Array, Array]:
        """P, the means, and the slopes of logits in z_j and in z_i; axes: start, head, row, atom."""
        slope_j = np.einsum("sid,hijde->shije", z, self.interaction) + self.key
        slope_i = np.einsum("sje,hijde->shijd", z, self.interaction) + self.query
        logits = np.einsum("shije,sje->shij", slope_j, z) + np.einsum("hijd,sid->shij", self.query, z) + self.constant
        logits = logits + np.where(self.seen, np.log(masses)[:, None, None, :], -np.inf)
        top = logits.max(-1, keepdims=True)
        weights = np.exp(logits - np.where(np.isfinite(top), top, 0.0))
        p = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        return p, p @ z[:, None], slope_j, slope_i

    def output(self, z: Array, masses: Array) -> Array:
        return np.einsum("hod,shid->sio", self.value, self.attention(z, masses)[1])

    def gradient(self, z: Array, masses: Array, cotangent: Array) -> Array:
        """That of <cotangent, output>."""
        p, mean, slope_j, slope_i = self.attention(z, masses)
        t = np.einsum("hod,sio->shid", self.value, cotangent)
        pull = p * np.einsum("shid,shijd->shij", t, z[:, None, None] - mean[..., None, :])
        through_atoms = np.einsum("shij,shid->sjd", p, t) + np.einsum("shij,shije->sje", pull, slope_j)
        return through_atoms + np.einsum("shij,shijd->sid", pull, slope_i)

    def jacobian(self) -> Array:
        """d f_i / d z_k at the tokens: axes row, output, atom, input."""
        z = self.tokens[None]
        p, mean, slope_j, slope_i = (part[0] for part in self.attention(z, self.masses[None]))
        apart = z[0][None, None] - mean[:, :, None]
        n, d = self.tokens.shape
        inner = np.einsum("hik,de->hidke", p, np.eye(d)) + np.einsum("hik,hikd,hike->hidke", p, apart, slope_j)
        own = np.einsum("hij,hijd,hije->hide", p, apart, slope_i)
        for i in range(n):
            inner[:, i, :, i] += own[:, i]
        return np.einsum("hod,hidke->ioke", self.value, inner)


def replica_of(reference: Reference) -> Replica:
    """Exact products, then floats."""
    with reference.numbers.digits(DIGITS[1]):
        first = reference.present.index(True)
        count, origin = range(len(reference.points)), reference.points[first]
        before, after = reference.reach
        seen = [[a - before <= b <= a + after for b in reference.positions] for a in reference.positions]
        beside = [next((j for j in count if reference.present[j] and seen[i][j]), first) for i in count]
        heads = [_logit_forms(reference, head, origin) for head in range(len(reference.heads))]

        def table(part: int) -> Array:
            return _floats(reference.numbers, [[[head[i, j][part] for j in count] for i in count] for head in heads])

        def less_own(part: int) -> Array:
            def row(head: dict[tuple[int, int], Form], i: int) -> list[Any]:
                return [_minus(head[i, j][part], head[i, beside[i]][part]) for j in count]

            return _floats(reference.numbers, [[row(head, i) for i in count] for head in heads])

        return Replica(
            value=_floats(reference.numbers, [product(head.output, head.value) for head in reference.heads]),
            interaction=table(0),
            key=table(1),
            query=less_own(2),
            constant=less_own(3),
            seen=np.asarray(seen),
            tokens=_floats(reference.numbers, [_minus(point, origin) for point in reference.points]),
            origin=_floats(reference.numbers, origin),
            masses=_floats(reference.numbers, reference.masses),
        )


Form = tuple[Matrix, Vector, Vector, Number]


def _logit_forms(reference: Reference, head: int, origin: Vector) -> dict[tuple[int, int], Form]:
    """The bilinear form of every logit of a head, its slopes at the origin in x_j and in x_i, and its value there."""
    count, forms = range(len(reference.points)), dict[tuple[int, int], Form]()
    for i in count:
        for j in count:
            alike = reference.turns is None and bool(forms)
            forms[i, j] = forms[0, 0] if alike else _logit_form(reference, head, origin, i, j)
    return forms


def _logit_form(reference: Reference, head: int, origin: Vector, i: int, j: int) -> Form:
    weights, scale = reference.heads[head], reference.scale
    rows = [*transposed(weights.query), weights.query_bias]
    if reference.turns is not None:
        cosines, sines = reference.turns[j]
        back = cosines, [-sine for sine in sines]
        rows = [turned(turned(row, *reference.turns[i]), *back) for row in rows]
    *rows, bias = [[scale * entry for entry in row] for row in rows]
    form = [apply(transposed(weights.key), row) for row in rows]
    pull = apply(transposed(weights.key), bias)
    in_own = added(apply(form, origin), apply(rows, weights.key_bias))
    in_other = added(apply(transposed(form), origin), pull)
    return form, in_other, in_own, dot(origin, in_own) + dot(pull, origin) + dot(bias, weights.key_bias)


@dataclass(frozen=True, eq=False)
class Search:
    """Where to look: the replica, the norm's weights, the radius, the support (infinite without one)."""

    replica: Replica
    weights: Array
    radius: float
    support: float
    per_token: bool

    @classmethod
    def of(cls, replica: Replica, budget: Budget) -> Search:
        support = np.inf if budget.support is None else budget.support
        if isinstance(support, TokenRadius):
            support = np.linalg.norm(replica.tokens + replica.origin, axis=-1)[replica.masses > 0].max()
        weights = replica.masses if isinstance(budget, Wasserstein) else (replica.masses > 0).astype(float)
        return cls(replica, weights, budget.radius, float(support), isinstance(budget, PerToken))

    def steepest(self, gradient: Array) -> Array:
        """The field of norm `radius` along a gradient."""
        moving = (self.weights > 0)[:, None]
        if self.per_token:
            gradient = gradient / _largest(gradient)
            unit = gradient / np.maximum(np.linalg.norm(gradient, axis=-1, keepdims=True), 1e-300)
            return np.where(moving, self.radius * unit, 0.0)
        natural = np.where(moving, gradient / np.where(moving, self.weights[:, None], 1.0), 0.0)
        natural = natural / _largest(natural)
        return self.radius * natural / np.maximum(self.norm(natural), 1e-300)[:, None, None]

    def norm(self, field: Array) -> Array:
        unit = _largest(field)
        sizes = np.linalg.norm(field / unit, axis=-1) * (self.weights > 0)
        return unit[..., 0, 0] * (sizes.max(-1) if self.per_token else np.sqrt((self.weights * sizes**2).sum(-1)))

    def inside(self, field: Array) -> Array:
        """Scaled back to the radius, atoms pulled back into the support, and scaled once more."""
        for _ in range(2):
            field = field * np.minimum(1.0, self.radius / np.maximum(self._sizes(field), 1e-300))
            if not np.isfinite(self.support):
                break
            here = self.replica.tokens + self.replica.origin
            there = here + field
            far = np.linalg.norm(there, axis=-1, keepdims=True)
            field = np.where(far > self.support, there * (self.support / np.maximum(far, 1e-300)) - here, field)
        return np.where((self.weights > 0)[:, None], field, 0.0)

    def change(self, field: Array) -> Array:
        masses = np.broadcast_to(self.replica.masses, field.shape[:-1])
        before = self.replica.output(self.replica.tokens[None], self.replica.masses[None])
        return self.norm(self.replica.output(self.replica.tokens + field, masses) - before)

    def fields(self, draw: np.random.Generator, count: int) -> list[Array]:
        """The singular direction, and the `count` best displacements that ascent from different starts has passed."""
        with np.errstate(all="ignore"):
            field = self.inside(self._starts(draw))
            passed = [field]
            before = self.replica.output(self.replica.tokens[None], self.replica.masses[None])
            masses = np.broadcast_to(self.replica.masses, field.shape[:-1])
            for step in range(STEPS):
                z = self.replica.tokens + field
                moved = self.replica.output(z, masses) - before
                pull = moved / _largest(moved) * self.weights[:, None]
                uphill = self.steepest(self.replica.gradient(z, masses, pull))
                field = self.inside(uphill if step % 2 == 0 else field + PART * uphill)
                passed.append(field)
            changes = np.stack([np.nan_to_num(self.change(each), nan=-1.0, posinf=-1.0) for each in passed])
            highest, best = changes.argmax(0), changes.max(0)
            chosen = [passed[highest[start]][start] for start in np.argsort(-best)[:count]]
        return [each for each in (passed[0][0], *chosen) if np.isfinite(each).all()]

    def singular(self) -> Array:
        """Right singular vectors of the derivative in the norm, as fields, the largest first."""
        n, d = self.replica.tokens.shape
        roots = np.sqrt(self.weights)
        inverse = np.where(roots > 0, 1 / np.where(roots > 0, roots, 1.0), 0.0)
        jacobian = self.replica.jacobian() * roots[:, None, None, None] * inverse[None, None, :, None]
        matrix = np.nan_to_num(jacobian.reshape(-1, n * d), posinf=0.0, neginf=0.0)
        right = np.linalg.svd(matrix, full_matrices=True)[2].reshape(-1, n, d)
        return right * inverse[:, None]

    def _starts(self, draw: np.random.Generator) -> Array:
        n, d = self.replica.tokens.shape
        top = self.singular()[:2]
        noise = draw.standard_normal((RANDOM_STARTS, n, d))
        alone = noise[:1] * (np.arange(n) == draw.integers(n))[:, None]
        directions = np.concatenate((top, -top, noise, alone))
        return self.radius * directions / np.maximum(self._sizes(directions), 1e-300)

    def _sizes(self, field: Array) -> Array:
        """What the radius bounds: every row by itself, or the norm."""
        return np.linalg.norm(field, axis=-1, keepdims=True) if self.per_token else self.norm(field)[:, None, None]

    def slivers(self, draw: np.random.Generator, count: int) -> list[list[Sliver]]:
        """The `count` slivers that change most, by sampling, as heavy as can be paid for; and two, half as heavy."""
        found: list[tuple[float, Sliver]] = []
        with np.errstate(all="ignore"):
            for token in map(int, np.flatnonzero(self.replica.masses > 0)):
                steps = self._sliver_steps(draw, token)
                best, highest = steps[0], -1.0
                for number in range(ROUNDS):
                    changes, shares = self._sliver_changes(token, steps)
                    found += [
                        (change, Sliver(token, float(share), tuple(step.tolist())))
                        for change, share, step in zip(changes, shares, steps, strict=True)
                        if np.isfinite(change) and np.isfinite(step).all()
                    ]
                    changes = np.nan_to_num(changes, nan=-1.0)
                    if changes.max() > highest:
                        best, highest = steps[int(changes.argmax())], float(changes.max())
                    steps = self._supported(token, self._near(draw, best, 2.0**-number))
        found.sort(key=lambda each: -each[0])
        alone = [sliver for _, sliver in found]
        other = next((sliver for sliver in alone if sliver.token != alone[0].token), None)
        pair = [[replace(sliver, share=sliver.share / 2) for sliver in (alone[0], other)]] if other else []
        return [*([sliver] for sliver in alone[:count]), *pair]

    def copies(self, draw: np.random.Generator, count: int) -> list[list[Sliver]]:
        """Every token as two halves that move by themselves, by ascent."""
        tokens = [int(token) for token in np.flatnonzero(self.replica.masses > 0)]
        owners = [token for token in tokens for _ in range(2)]
        halves = self.replica.pieces(owners)
        halves = replace(halves, masses=halves.masses / 2)
        fields = Search(halves, halves.masses, self.radius, self.support, False).fields(draw, count)
        return [
            [Sliver(owner, 0.5, tuple(row.tolist())) for owner, row in zip(owners, field, strict=True)]
            for field in fields
        ]

    def _sliver_steps(self, draw: np.random.Generator, token: int) -> Array:
        """Moves of a sliver: at random and to where rows attend most, to the edge of the support or less far."""
        replica = self.replica
        z = replica.tokens[None]
        slope = replica.attention(z, replica.masses[None])[2][0, :, :, token].reshape(-1, z.shape[-1])
        values = replica.value.reshape(-1, z.shape[-1])
        noise = draw.standard_normal((TARGETS, z.shape[-1]))
        directions = np.concatenate((noise, slope, -slope, slope.mean(0, keepdims=True), values, -values))
        unit = directions / np.maximum(np.linalg.norm(directions, axis=-1, keepdims=True), 1e-300)
        home = replica.tokens[token] + replica.origin
        support = self.support if np.isfinite(self.support) else 100 * (np.linalg.norm(home) + self.radius)
        short = unit * support * 10 ** draw.uniform(-12, 0, (len(unit), 1))
        return self._supported(token, np.concatenate((unit * support - home, short)))

    def _near(self, draw: np.random.Generator, step: Array, size: float) -> Array:
        """Steps like one given: a little longer or shorter, and turned a little."""
        noise = size * np.linalg.norm(step) * draw.standard_normal((TARGETS, len(step)))
        return (step + noise / 2) * np.exp(size * draw.standard_normal((TARGETS, 1)))

    def _supported(self, token: int, steps: Array) -> Array:
        """Steps that leave the support end at its edge instead."""
        home = self.replica.tokens[token] + self.replica.origin
        far = np.linalg.norm(home + steps, axis=-1, keepdims=True)
        return np.where(far > self.support, (home + steps) * (self.support / np.maximum(far, 1e-300)) - home, steps)

    def _sliver_changes(self, token: int, steps: Array) -> tuple[Array, Array]:
        """Changes in the coupling, and the shares of the token's mass that can be paid for."""
        replica, n = self.replica, len(self.replica.masses)
        cost = replica.masses[token] * (steps**2).sum(-1)
        shares = np.where(cost > self.radius**2, self.radius**2 / np.maximum(cost, 1e-300), 1.0)
        owners = [*range(n), token]
        atoms = replica.pieces(owners)
        z = np.repeat(atoms.tokens[None], len(steps), 0)
        z[:, n] += steps
        masses = np.repeat(atoms.masses[None], len(steps), 0)
        masses[:, n] *= shares
        masses[:, token] -= masses[:, n]
        masses = np.maximum(masses, 0.0)
        before = replica.output(replica.tokens[None], replica.masses[None])[:, owners]
        moved = atoms.output(z, masses) - before
        unit = _largest(moved)
        return unit[:, 0, 0] * np.sqrt((masses * ((moved / unit) ** 2).sum(-1)).sum(-1)), shares


def _largest(field: Array) -> Array:
    """The size of the largest entry of each field, one where all are zero: divided by it, squares are numbers."""
    size = np.abs(field).max((-2, -1), keepdims=True)
    return np.where(size > 0, size, 1.0)


def _minus(left: Any, right: Any) -> Any:
    return [a - b for a, b in zip(left, right, strict=True)] if isinstance(left, list) else left - right


def _floats(numbers: Arithmetic, values: Any) -> Array:
    def nested(value: Any) -> Any:
        return [nested(part) for part in value] if isinstance(value, list) else sum(numbers.ends(value)) / 2

    return np.asarray(nested(values), dtype=np.float64)
