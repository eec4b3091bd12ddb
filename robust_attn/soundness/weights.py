"""Weights of a case: normal numbers, and such as certificates were once wrong about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.pipeline import generator_for
from robust_attn.soundness.case import AGAINST_START, CANCELLING, HEAD_WIDTH, HEADS, OUT, WIDTH, Case

KEPT = 0.5
"""Of sparse weights, how many are not zero."""
TOPS = {AGAINST_START[0]: 1.025, AGAINST_START[1]: 1.07}
"""The largest singular value, all others being at most 1: above what Lanczos allows for after its steps (64 and 40)."""


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
