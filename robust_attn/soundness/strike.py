"""One attack on one sample of a case, and how far it moved the output: in floats, or exactly.

Where the layer as given drowns in rounding, attacks get its rival: the same layer written so that float64 sees what it
does. Products of weights that cancel are multiplied out exactly and rounded once; tokens far from the origin are moved
there, with what that does to the logits as a bias. What an attack finds on the rival is judged on the layer itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.attack import AttackResult
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget
from robust_attn.pipeline.jobs import generator_for
from robust_attn.soundness.case import AGAINST_START, EXACT, SHIFTED, Case
from robust_attn.soundness.comparison import Comparison
from robust_attn.soundness.exact import Judge
from robust_attn.soundness.numbers import ATTACKS, attack_of
from robust_attn.soundness.reference import Matrix, product, transposed

MORE = ("linear", "random")
"""Attacks that are tried beside the case's own where exact arithmetic judges."""


@dataclass(frozen=True, eq=False)
class Strike:
    """The measure attacked, perhaps written with copies, the budget kept, and the change of the output.

    `change` is not above the exact one where the strike is `exact`, else it may be off by `rounding`. Without
    `usable` nothing follows: a number is not finite, or exact arithmetic cannot tell whether the budget was kept.
    """

    base: TokenMeasure
    displacement: Tensor
    budget: Budget
    change: float
    rounding: float
    exact: bool
    usable: bool

    def beside(self, bound: str, sample: int, allowed: float) -> Comparison:
        """The comparison with what a bound allows."""
        return Comparison(bound, sample, self.change, self.rounding, allowed, self.exact)


def strike(case: Case, layer: AttentionLayer, sample: TokenMeasure, budget: Budget, number: int) -> Strike:
    """The case's attack on the layer at one sample, both converted to float64 as certificates convert them."""
    layer, sample = layer.to(torch.float64), sample.to(torch.float64)
    generator = generator_for(case.seed, "strike", number)
    if case.judged != EXACT:
        result = attack_of(case)(layer, sample, budget, generator=generator)
        seen = result.observation
        change, rounding = float(seen.output_change), float(seen.rounding)
        usable = math.isfinite(change) and math.isfinite(rounding)
        moved = seen.measure.points - seen.base.points
        return Strike(seen.base, moved, result.budget, change, rounding, exact=False, usable=usable)
    if not is_finite(layer):
        return Strike(sample, torch.zeros_like(sample.points), budget, -1.0, 0.0, exact=True, usable=False)
    victim, place, room = seen_clearly(case, layer, sample, budget)
    names = (case.attack, *MORE) if attack_of(case).copies == 1 else (case.attack,)
    results = [ATTACKS[name](victim, place, room, generator=generator) for name in names]
    return max((_judged(layer, sample, budget, room, result) for result in results), key=lambda hit: hit.change)


def _judged(layer: AttentionLayer, sample: TokenMeasure, budget: Budget, room: Budget, result: AttackResult) -> Strike:
    """What an attack found where it sees clearly, on the layer itself in exact arithmetic; a change of -1 if unusable.

    An attack that needs a budget of its own says so by another one than the `room` it was given.
    """
    kept = budget if result.budget == room else result.budget
    moved = result.observation.measure.points - result.observation.base.points
    base = sample if moved.shape == sample.points.shape else result.observation.base
    found = Judge.of(layer, base, kept).by(moved)
    change = found.output_lower if found.inside else -1.0
    return Strike(base, moved, kept, change, 0.0, exact=True, usable=found.inside)


def seen_clearly(
    case: Case, layer: AttentionLayer, sample: TokenMeasure, budget: Budget
) -> tuple[AttentionLayer, TokenMeasure, Budget]:
    """The rival at the origin where tokens are far from it (then nothing is said about the support), else in place.

    The layer itself where it has no rival, or none that floats hold.
    """
    if not layer.even_slopes or case.weights in AGAINST_START or not is_finite(layer):
        return layer, sample, budget
    far = case.points in SHIFTED
    centre = centre_of(sample) if far else torch.zeros(layer.width, dtype=torch.float64)
    rival = rival_layer(layer, centre)
    if not is_finite(rival):
        return layer, sample, budget
    return (rival, centred(sample, centre), replace(budget, support=None)) if far else (rival, sample, budget)


def is_finite(layer: AttentionLayer) -> bool:
    """Whether weights and biases are numbers: not where the precision of storage, or a product, ends before them."""
    fields = (layer.query, layer.query_bias, layer.key, layer.key_bias, layer.value, layer.output, layer.offset)
    return all(bool(torch.isfinite(each).all()) for each in fields)


def rival_layer(layer: AttentionLayer, centre: Float[Tensor, "d"]) -> AttentionLayer:
    """g(X) = f(X + centre) up to a constant, with W_K^T W_Q as queries and W_O W_V as outputs of every head.

    Each of these is the exact product rounded to float64. Softmax drops the bias of the keys.
    """
    if not layer.even_slopes:
        raise ValueError("with rotary positions or sinks queries and keys cannot be multiplied out")
    d, groups = layer.width, layer.head_groups
    middle = [[entry] for entry in _exact(centre[None])[0]]
    queries, biases, outputs = [], [], []
    for head, group in enumerate(groups):
        query, output, value = (_exact(each) for each in (layer.query[head], layer.output[head], layer.value[group]))
        key = _scaled(transposed(_exact(layer.key[group])), Fraction(layer.scale))
        own = _exact(layer.query_bias[head][:, None])
        bias = [[moved[0] + still[0]] for moved, still in zip(product(query, middle), own, strict=True)]
        queries.append(_rounded(product(key, query)))
        biases.append(_rounded(product(key, bias))[:, 0])
        outputs.append(_rounded(product(output, value)))
    identity = torch.eye(d, dtype=torch.float64).expand(len(groups), d, d)
    return AttentionLayer(
        query=torch.stack(queries),
        query_bias=torch.stack(biases),
        key=identity,
        key_bias=torch.zeros(len(groups), d, dtype=torch.float64),
        value=identity,
        output=torch.stack(outputs),
        offset=torch.zeros(layer.out_width, dtype=torch.float64),
        scale=1.0,
        mask=layer.mask,
        position_bias=layer.position_bias,
    )


def centre_of(sample: TokenMeasure) -> Float[Tensor, "d"]:
    """A token with mass: differences from it are exact where tokens are near to one another."""
    return sample.points[int(sample.masses.argmax())].double()


def centred(sample: TokenMeasure, centre: Float[Tensor, "d"]) -> TokenMeasure:
    """The same measure with the centre at the origin, in float64."""
    sample = sample.to(torch.float64)
    return replace(sample, points=sample.points - centre)


def exact_product(left: Float[Tensor, "a k"], right: Float[Tensor, "k b"]) -> Float[Tensor, "a b"]:
    """The product, each entry rounded once."""
    return _rounded(product(_exact(left), _exact(right)))


def _exact(matrix: Tensor) -> Matrix:
    return [[Fraction(entry) for entry in row] for row in matrix.double().tolist()]


def _rounded(matrix: Matrix) -> Tensor:
    return torch.tensor([[_nearest(entry) for entry in row] for row in matrix], dtype=torch.float64)


def _nearest(entry: Fraction) -> float:
    """As a float: infinite beyond the largest, as arithmetic with floats has it."""
    try:
        return float(entry)
    except OverflowError:
        return math.inf if entry > 0 else -math.inf


def _scaled(matrix: Matrix, factor: Fraction) -> Matrix:
    return [[factor * entry for entry in row] for row in matrix]
