"""From a case to its layer, measures, budget and attack."""

from __future__ import annotations

import torch
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.duplicate import Duplicate
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Linear, Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.attention.rotary import Rotary
from robust_attn.bounds import paper
from robust_attn.budget import BUDGETS, Budget, TokenRadius
from robust_attn.pipeline import generator_for
from robust_attn.soundness.case import HEAD_WIDTH, HEADS, OUT, TOKENS, WIDTH, Case

FAR = 30.0
"""How many times farther the token of `one_far` is than the others."""
ATTACKS: dict[str, Attack] = {
    "move": Move(15),
    "mass_split": MassSplit(2, 12),
    "some_tokens": MassSplit(3, 8, tokens=2),
    "sliver": MassSplit(steps=6, masses=Masses.SLIVER),
    "duplicate": Duplicate(3),
    "linear": Linear(),
    "random": RandomMove(8),
    "PGDL2": Torchattack("PGDL2", steps=8),
}


def attack_of(case: Case) -> Attack:
    """The attack, with few steps: a campaign is for many cases."""
    return ATTACKS[case.attack]


def budget_of(case: Case) -> Budget:
    """The budget, with the tokens' own ball as support or none."""
    return BUDGETS[case.budget](case.radius, TokenRadius() if case.support == "tokens" else None)


def layer_of(case: Case) -> AttentionLayer:
    """The layer, with the weights as stored: rounded to float32 or bfloat16, which then is the exact map."""
    heads, groups, k, d, out = case.heads, case.groups, case.head_width, case.width, case.out
    query = _normal(case, "query", HEADS, HEAD_WIDTH, WIDTH)[:heads, :k, :d] * case.logit_size
    key = _normal(case, "key", HEADS, HEAD_WIDTH, WIDTH)[:groups, :k, :d] * case.logit_size
    if case.weights == "alike":
        query, key = query[:1].expand(heads, -1, -1), key[:1].expand(groups, -1, -1)
    elif case.weights == "one_row":
        query, key = query * (torch.arange(k) == 0)[:, None], key * (torch.arange(k) == 0)[:, None]
    elif case.weights == "zero":
        query = torch.zeros_like(query)
    frequencies = torch.rand(HEAD_WIDTH // 2, generator=generator_for(case.seed, "rotary"))[: k // 2]
    layer = AttentionLayer(
        query=query,
        query_bias=_normal(case, "query_bias", HEADS, HEAD_WIDTH)[:heads, :k] * case.bias_size,
        key=key,
        key_bias=_normal(case, "key_bias", HEADS, HEAD_WIDTH)[:groups, :k] * case.bias_size,
        value=_normal(case, "value", HEADS, HEAD_WIDTH, WIDTH)[:groups, :k, :d] * case.value_size,
        output=_normal(case, "output", HEADS, OUT, HEAD_WIDTH)[:heads, :out, :k],
        offset=_normal(case, "offset", OUT)[:out],
        scale=k**-0.5,
        mask=Mask(case.mask),
        rotary=Rotary(frequencies) if case.rotary else None,
    )
    return layer.to(getattr(torch, case.stored)).to(_working(case))


def measures_of(case: Case, layer: AttentionLayer) -> TokenMeasure:
    """The samples of the case as one batch."""
    return stack([_measure(case, layer, number) for number in case.samples]).to(_working(case))


def _measure(case: Case, layer: AttentionLayer, number: int) -> TokenMeasure:
    n, d = case.tokens, case.width
    points = _normal(case, ("points", number), TOKENS, WIDTH)[:n, :d] * case.token_size
    match case.points:
        case "constant":
            points = points[:1].expand(n, -1).clone()
        case "repeated":
            points[1:] = points[-1:]
        case "one_far":
            points[0] *= FAR
        case "adversarial":
            points = _adversarial(case, layer, points)
    logs = _normal(case, ("masses", number), TOKENS)[:n]
    match case.masses:
        case "unequal":
            return TokenMeasure.weighted(points, logs.softmax(-1))
        case "extreme":
            return TokenMeasure.weighted(points, (8 * logs).softmax(-1))
        case "padded":
            return TokenMeasure.padded(points, (logs[:1].abs() * n / 2).long().clamp(1, n)[0])
        case _:
            return TokenMeasure.uniform(points)


def _adversarial(case: Case, layer: AttentionLayer, points: Tensor) -> Tensor:
    """The paper's configuration for the first head, where it has one; else the points as they are."""
    if layer.rotary is not None or case.tokens < 2:
        return points
    interaction = layer.scale * layer.key[0].double().T @ layer.query[0].double()
    try:
        found = paper.adversarial_tokens(interaction, radius=float(points.norm(dim=-1).max()), length=case.tokens)
    except (ValueError, RuntimeError):
        return points
    return found if bool(found.isfinite().all()) else points


def _working(case: Case) -> torch.dtype:
    """The precision in which attacks evaluate the layer; certificates are in float64 always."""
    return torch.float64 if case.stored == "float64" else torch.float32


def _normal(case: Case, what: object, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator_for(case.seed, what), dtype=torch.float64)
