"""From a case to its layer, measures, budget and attack."""

from __future__ import annotations

from typing import Any

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
from robust_attn.pipeline import CertificateOptions, generator_for
from robust_attn.soundness.case import AGAINST_START, FAR, HEAD_WIDTH, HEADS, OUT, TOKENS, WIDTH, Case
from robust_attn.soundness.weights import normal, weights_of

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
LANCZOS_STEPS = 40
SCALES = {"usual": 1.0, "negative": -1.0, "zero": 0.0}


def attack_of(case: Case) -> Attack:
    """The attack, with few steps: a campaign is for many cases."""
    return ATTACKS[case.attack]


def budget_of(case: Case, inputs: TokenMeasure) -> Budget:
    """The budget. A support that is a number is a multiple of the largest token norm, or of one."""
    support: float | TokenRadius | None = None
    if case.support == "tokens":
        support = TokenRadius()
    elif case.support == "number":
        largest = float(inputs.to(torch.float64).radius.max())
        support = (largest or 1.0) * case.support_times
    return BUDGETS[case.budget](case.radius, support)


def options_of(case: Case) -> CertificateOptions:
    """How a run certifies: with fewer Lanczos steps than by default."""
    return CertificateOptions(lanczos_steps=LANCZOS_STEPS, **chance(case))


def chance(case: Case) -> dict[str, Any]:
    """The seed of the Lanczos start: the case's own, so that a case is its seed.

    Where weights were chosen against a start that was the default once, the default has to stand up to it.
    """
    return {} if case.weights in AGAINST_START else {"seed": case.seed}


def layer_of(case: Case) -> AttentionLayer:
    """The layer in the precision in which attacks evaluate it, with the weights as stored, which then are exact."""
    return stored_layer(case).to(_working(case))


def stored_layer(case: Case) -> AttentionLayer:
    """The layer in the precision in which its weights are stored."""
    heads, groups, k, out, width = case.heads, case.groups, case.head_width, case.out, max(HEAD_WIDTH, case.head_width)
    weights = weights_of(case)
    frequencies = torch.rand(HEAD_WIDTH // 2, generator=generator_for(case.seed, "rotary"))[: k // 2]
    layer = AttentionLayer(
        query=weights.query,
        query_bias=normal(case, "query_bias", HEADS, width)[:heads, :k] * case.bias_size,
        key=weights.key,
        key_bias=normal(case, "key_bias", HEADS, width)[:groups, :k] * case.bias_size,
        value=weights.value,
        output=weights.output,
        offset=normal(case, "offset", max(OUT, out))[:out],
        scale=SCALES[case.scale] * k**-0.5,
        mask=Mask(case.mask),
        rotary=Rotary(frequencies) if case.rotary else None,
    )
    return layer.to(getattr(torch, case.stored))


def measures_of(case: Case, layer: AttentionLayer) -> TokenMeasure:
    """The samples of the case as one batch: in float64, or in float32 where weights are not stored in float64."""
    return stack([_measure(case, layer, number) for number in case.samples]).to(_working(case))


def _measure(case: Case, layer: AttentionLayer, number: int) -> TokenMeasure:
    n, d = case.tokens, case.width
    points = normal(case, ("points", number), TOKENS, max(WIDTH, d))[:n, :d] * case.token_size
    match case.points:
        case "constant":
            points = points[:1].expand(n, -1).clone()
        case "repeated":
            points[1:] = points[-1:]
        case "one_far":
            points[0] *= FAR
        case "adversarial":
            points = _adversarial(case, layer, points)
        case "shifted_line":
            points[:, :-1] = 0.0
    points[:, 0] += case.distance
    logs = normal(case, ("masses", number), TOKENS)[:n]
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
