"""From a case to its layer, measures, budget and attack: normal numbers, and what certificates were wrong about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import RandomMove
from robust_attn.attacks.duplicate import Duplicate
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Linear, Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.attention.extras import PositionBias, Sinks
from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.attention.rotary import Rotary
from robust_attn.bounds import paper
from robust_attn.budget import BUDGETS, Budget, TokenRadius
from robust_attn.pipeline.jobs import CertificateOptions, generator_for
from robust_attn.soundness.case import AGAINST_START, CANCELLING, FAR, HEAD_WIDTH, HEADS, OUT, TOKENS, WIDTH, Case

ATTACKS: dict[str, Attack] = {
    "move": Move(15),
    "mass_split": MassSplit(2, 12, masses=Masses.EQUAL),
    "best_split": MassSplit(2, 6, context=500),
    "some_tokens": MassSplit(3, 8, tokens=2),
    "sliver": MassSplit(steps=6, masses=Masses.SLIVER, context=1e10),
    "duplicate": Duplicate(3),
    "linear": Linear(),
    "random": RandomMove(8),
    "PGDL2": Torchattack("PGDL2", steps=8),
}
LANCZOS_STEPS = 40
SCALES = {"usual": 1.0, "negative": -1.0, "zero": 0.0}
KEPT = 0.5
"""Of sparse weights, how many are not zero."""
TOPS = {AGAINST_START[0]: 1.025, AGAINST_START[1]: 1.07}
"""The largest singular value, all others being at most 1: above what Lanczos allows for after its steps (64 and 40)."""


@dataclass(frozen=True, eq=False)
class Given:
    """What a function of the library gets: the layer as stored, the samples as a batch, the budget."""

    layer: AttentionLayer
    inputs: TokenMeasure
    budget: Budget
    numbers: tuple[int, ...]

    def samples(self) -> Iterator[tuple[int, TokenMeasure]]:
        """Every sample after its number."""
        return ((number, self.inputs.sample(index)) for index, number in enumerate(self.numbers))


def given(case: Case) -> Given:
    """The layer in the precision in which its weights are stored, at the samples of the case."""
    layer = stored_layer(case)
    inputs = measures_of(case, layer)
    return Given(layer, inputs, budget_of(case, inputs), case.samples)


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
        position_bias=_position_bias(case),
        sinks=_sinks(case, weights.value.shape[1]),
        query_norm=None if case.norm == "none" else _norm(case, "query_norm", case.heads),
        key_norm=None if case.norm in ("none", "query") else _norm(case, "key_norm", case.groups),
    )
    return layer.to(getattr(torch, case.stored))


def _position_bias(case: Case) -> PositionBias | None:
    """Biases of a few units, for every pair of positions."""
    if case.added not in ("table", "both"):
        return None
    return PositionBias(2 * normal(case, "table", HEADS, TOKENS, TOKENS)[: case.heads])


def _sinks(case: Case, value_width: int) -> Sinks | None:
    """Sinks that may draw much; of value zero, or as far away as values."""
    if case.added in ("nothing", "table"):
        return None
    away = case.value_size * case.token_size * (case.added != "sinks")
    away = away if away < 1e30 else 0.0  # in the precision of the weights sinks have to be finite
    value = normal(case, "sink_values", HEADS, max(HEAD_WIDTH, value_width))[: case.heads, :value_width]
    return Sinks(3 * normal(case, "sinks", HEADS)[: case.heads], value * away)


def _norm(case: Case, name: str, blocks: int) -> HeadNorm:
    """Gains around one, a shift where there are biases, and an epsilon of any usual size."""
    k, width = case.head_width, max(HEAD_WIDTH, case.head_width)
    gain = 1 + normal(case, f"{name} gain", HEADS, width)[:blocks, :k] / 2
    shift = normal(case, f"{name} shift", HEADS, width)[:blocks, :k] * min(case.bias_size, 1.0)
    eps = 10 ** -float(1 + 7 * torch.rand(1, generator=generator_for(case.seed, f"{name} eps")))
    return HeadNorm(gain, shift, eps, across=case.norm == "across", after_rotation=case.norm == "late")


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


@dataclass(frozen=True, eq=False)
class Weights:
    """The matrices of all heads, in float64: queries and outputs by head, keys and values by group."""

    query: Float[Tensor, "heads k d"]
    key: Float[Tensor, "groups k d"]
    value: Float[Tensor, "groups v d"]
    output: Float[Tensor, "heads out v"]


def weights_of(case: Case) -> Weights:
    """The matrices before they are stored in the case's precision."""
    if case.weights in AGAINST_START:
        return _against_start(case)
    heads, groups, k, d, out = case.heads, case.groups, case.head_width, case.width, case.out
    query = normal(case, "query", HEADS, HEAD_WIDTH, WIDTH)[:heads, :k, :d] * case.logit_size
    key = normal(case, "key", HEADS, HEAD_WIDTH, WIDTH)[:groups, :k, :d] * case.logit_size
    value = normal(case, "value", HEADS, HEAD_WIDTH, WIDTH)[:groups, :k, :d] * case.value_size
    output = normal(case, "output", HEADS, OUT, HEAD_WIDTH)[:heads, :out, :k]
    first = (torch.arange(k) == 0)[:, None]
    match case.weights:
        case "alike":
            query, key = query[:1].expand(heads, -1, -1), key[:1].expand(groups, -1, -1)
        case "one_row":
            query, key = query * first, key * first
        case "zero":
            query = torch.zeros_like(query)
        case "sparse":
            query, key, value = (each * _kept(case, each.shape) for each in (query, key, value))
        case "blind":
            key = key * (torch.arange(d) < d - 1)
        case kind if kind in CANCELLING:
            return _cancelling(case, Weights(query, key, value, output))
    return Weights(query, key, value, output)


def _kept(case: Case, shape: torch.Size) -> Tensor:
    chance = torch.rand(HEADS, HEAD_WIDTH, WIDTH, generator=generator_for(case.seed, "kept"))
    return chance[: shape[0], : shape[1], : shape[2]] < KEPT


def _cancelling(case: Case, usual: Weights) -> Weights:
    """W_V keeps to some directions of head space and W_O to those orthogonal to them, up to rounding; or W_K and W_Q.

    Each has the size `cancelling_size`, so that what rounding leaves of the product is 1e-16 of its square.
    """
    k, size = case.head_width, case.cancelling_size
    turn = torch.linalg.qr(normal(case, "turn", HEAD_WIDTH, HEAD_WIDTH)[:k, :k]).Q
    first, rest = turn[:, : k // 2], turn[:, k // 2 :]
    query, key, value, output = usual.query, usual.key, usual.value, usual.output
    if case.weights != CANCELLING[1]:
        value, output = size * (first @ value[:, : k // 2]), size * (output[..., k // 2 :] @ rest.T)
    if case.weights != CANCELLING[0]:
        key, query = size * (first @ key[:, : k // 2]), size * (rest @ query[:, k // 2 :])
    return Weights(query, key, value, output)


def _against_start(case: Case) -> Weights:
    """Attention that is even, so that every output is W_O times the mean token, and W_O hides its top direction.

    What a start has of the mean token's space is orthogonal to that direction; the other singular values are spread as
    evenly as Lanczos finds it hardest to see beyond.
    """
    d, noise = case.width, normal(case, "basis", case.width, case.width)
    seen = published_start(case).sum(0)
    top = noise[:, 0] - seen * (seen @ noise[:, 0]) / (seen @ seen)
    basis = torch.linalg.qr(torch.cat((top[:, None], noise[:, 1:]), dim=1)).Q
    values = torch.linspace(1.0, 0.0, d, dtype=torch.float64).sqrt()
    values[0] = TOPS[case.weights]
    left = torch.linalg.qr(normal(case, "left", d, d)).Q[: case.out]
    still = torch.zeros(1, case.head_width, d, dtype=torch.float64)
    return Weights(still, still, torch.eye(d, dtype=torch.float64)[None], ((left * values) @ basis.T)[None])


def published_start(case: Case) -> Float[Tensor, "n d"]:
    """The start that everybody knew: the library's by default, or the command line's for this seed, layer 0."""
    library = case.weights == AGAINST_START[0]
    known = torch.Generator().manual_seed(0) if library else generator_for(case.seed, "lanczos", 0, None)
    return torch.randn(1, case.tokens, case.width, generator=known, dtype=torch.float64)[0]


def normal(case: Case, what: object, *shape: int) -> Tensor:
    """Normal numbers that depend on the case's seed and on what they are for."""
    return torch.randn(*shape, generator=generator_for(case.seed, what), dtype=torch.float64)
