"""Rotary positions, found by showing the model the same vector at every position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attention.rotary import Rotary, RotaryTable, Rotation
from robust_attn.models.generic.match import TIGHT
from robust_attn.models.generic.refusal import LayerRefusedError, Reason

COUPLED = 1e-9
"""A coordinate that takes more than this part of another is turned against it."""


@dataclass(frozen=True, eq=False)
class Turning:
    """Planes of head coordinates, as the order that makes plane i the pair (i, i + half), and cosines and sines."""

    order: Int[Tensor, " width"]
    cosine: Float[Tensor, "length half"]
    sine: Float[Tensor, "length half"]


def turning_of(
    query: Float[Tensor, "samples heads n width"], key: Float[Tensor, "samples groups n width"], at: int
) -> Turning | None:
    """What position does to head vectors, relative to position `at`, at which they are as projected; None if nothing.

    Queries and keys of one token vector per sample, shown at every position.
    """
    together = torch.cat((query, key), dim=1).double()
    still = together[:, :, at]
    if bool((together == still[:, :, None]).all()):
        return None
    vectors = still.flatten(0, 1)
    moved = together.permute(2, 0, 1, 3).flatten(1, 2)
    partner = _partners(vectors, moved)
    first = torch.tensor([i for i, other in enumerate(partner) if other > i], dtype=torch.long)
    second = torch.tensor([partner[i] for i in first.tolist()], dtype=torch.long)
    alone = torch.tensor([i for i, other in enumerate(partner) if other == i], dtype=torch.long)
    if len(alone) % 2:
        raise LayerRefusedError(Reason.ROTATION, "an odd number of coordinates is left")
    first, second = torch.cat((first, alone[0::2])), torch.cat((second, alone[1::2]))
    cosine, sine = _angles(vectors, moved, first, second)
    return Turning(torch.cat((first, second)), cosine, sine)


def _partners(vectors: Float[Tensor, "m width"], moved: Float[Tensor, "n m width"]) -> list[int]:
    """The coordinate against which each one is turned, itself if it is not."""
    width = vectors.shape[-1]
    if vectors.shape[0] < width:
        raise LayerRefusedError(Reason.ROTATION, f"{vectors.shape[0]} vectors do not determine {width} coordinates")
    maps = torch.linalg.lstsq(vectors.expand(len(moved), -1, -1), moved).solution
    coupling = maps.abs().amax(0).T.clone()
    coupling.fill_diagonal_(0.0)
    strongest, partner = coupling.max(dim=-1)
    found = [
        int(other) if size > COUPLED else i for i, (size, other) in enumerate(zip(strongest, partner, strict=True))
    ]
    if any(found[other] != i for i, other in enumerate(found)):
        raise LayerRefusedError(Reason.ROTATION, "more than two coordinates are mixed")
    return found


def _angles(vectors: Tensor, moved: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position and plane by least squares, if they explain what was seen."""
    a, b = vectors[:, first], vectors[:, second]
    c, d = moved[..., first], moved[..., second]
    size = (a.square() + b.square()).sum(0).clamp_min(1e-300)
    cosine, sine = ((a * c + b * d).sum(-2) / size, (a * d - b * c).sum(-2) / size)
    cosine, sine = _as_float32(cosine), _as_float32(sine)
    C, S = cosine[:, None], sine[:, None]
    error = torch.cat((c - (C * a - S * b), d - (C * b + S * a)), dim=-1).norm(dim=(-2, -1)).max()
    if not float(error) <= TIGHT * float(vectors.norm()):
        raise LayerRefusedError(
            Reason.ROTATION, f"rotations leave a part of {float(error / vectors.norm()):.0e} unexplained"
        )
    return cosine, sine


def _as_float32(wave: Tensor) -> Tensor:
    """Waves that were computed in float32 are those numbers exactly."""
    coarse = wave.float().double()
    return coarse if float((wave - coarse).abs().max()) <= 1e-14 else wave


def rotation_of(turning: Turning, factor: float, frequencies: Iterable[Tensor]) -> tuple[Rotation, float]:
    """The turning as a rotation, and the factor of queries and of keys that it contains.

    Where the model keeps frequencies (one of the tensors given) that make exactly these waves, a rotation by them: it
    has no last position.
    """
    half, length = turning.cosine.shape[1], turning.cosine.shape[0]
    positions = torch.arange(length)
    wanted = torch.stack((turning.cosine, turning.sine)) * factor
    for each in frequencies:
        padded = torch.cat((each.detach().cpu().float(), torch.zeros(half - len(each))))
        rotary = Rotary(padded, factor)
        if float((torch.stack(rotary.waves(positions)).double() - wanted).abs().max()) <= 1e-13:
            return rotary, factor
    return RotaryTable(turning.cosine, turning.sine), 1.0
