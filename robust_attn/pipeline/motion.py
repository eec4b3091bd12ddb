"""How far an attack moved each token of each sample, whatever number of atoms it wrote the token with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.observation import Observation
from robust_attn.records.parts import Motion

MOST_TOKENS = 1024
"""Tokens of a sample whose motion is recorded; longer samples would make a record a hundred times its usual size."""
DIGITS = 4


@dataclass(frozen=True, eq=False)
class TokenMotion:
    """Per token: the rms distance its mass went, how much of that (`apart`) is its pieces leaving their common mean.

    `farthest` is how far its farthest piece went, `share` which share of the token that was. `parts` counts the atoms
    with mass that a token was written as; padding has none and does not move.
    """

    rms: Float[Tensor, "*batch n"]
    apart: Float[Tensor, "*batch n"]
    farthest: Float[Tensor, "*batch n"]
    share: Float[Tensor, "*batch n"]
    parts: Int[Tensor, "*batch n"]


def token_motion(observation: Observation, tokens: int) -> TokenMotion:
    """The motion of `tokens` tokens at positions 0, 1, 2...: an atom is a piece of the token whose position it has."""
    base = observation.base
    origin = base.positions
    if not _numbered(origin, tokens):
        raise ValueError(f"positions must lie in 0..{tokens - 1}, got {int(origin.min())}..{int(origin.max())}")
    way = (observation.measure.points - base.points) * base.present[..., None]
    distance = way.norm(dim=-1)
    empty = distance.new_zeros(*origin.shape[:-1], tokens)
    mass = empty.scatter_add(-1, origin, base.masses)
    whole = torch.where(mass > 0, mass, torch.ones_like(mass))
    share = base.masses / whole.gather(-1, origin)
    every = origin[..., None].expand(way.shape)
    common = way.new_zeros(*empty.shape, base.width).scatter_add(-2, every, share[..., None] * way)
    astray = (way - common.gather(-2, every)).square().sum(-1)
    farthest = empty.scatter_reduce(-1, origin, distance, "amax")
    far = base.present & (distance >= farthest.gather(-1, origin))
    light = torch.where(far, share, torch.inf)
    lightest = torch.full_like(empty, torch.inf).scatter_reduce(-1, origin, light, "amin")
    return TokenMotion(
        rms=empty.scatter_add(-1, origin, share * distance.square()).sqrt(),
        apart=empty.scatter_add(-1, origin, share * astray).sqrt(),
        farthest=farthest,
        share=torch.where(mass > 0, lightest, torch.zeros_like(whole)),
        parts=torch.zeros_like(empty, dtype=torch.int64).scatter_add(-1, origin, base.present.long()),
    )


def motion_parts(observation: Observation, tokens: int) -> list[Motion | None]:
    """The motion of each sample to four digits.

    None for samples longer than MOST_TOKENS, and where positions do not number the tokens.
    """
    samples = observation.base.masses.shape[0]
    if tokens > MOST_TOKENS or not _numbered(observation.base.positions, tokens):
        return [None] * samples
    found = token_motion(observation, tokens)
    return [
        Motion(
            **{name: _rounded(getattr(found, name)[sample].tolist()) for name in ("rms", "apart", "farthest", "share")},
            parts=tuple(found.parts[sample].tolist()),
        )
        for sample in range(samples)
    ]


def _numbered(positions: Int[Tensor, "*batch atoms"], tokens: int) -> bool:
    return bool(((positions >= 0) & (positions < tokens)).all())


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    """To DIGITS significant digits."""
    return tuple(float(f"{value:.{DIGITS}g}") for value in values)
