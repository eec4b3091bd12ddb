"""What rotations between queries and keys leave of their interaction: docs/proofs/operator.md#rotary-pair-by-pair.

B_ij = scale W_Q^T R_i^T R_j W_K depends on the two positions through R_i^T R_j alone, which turns every plane of a head
by the difference of two angles. Its norm is often half of |W_Q| |W_K| |scale| and less.
"""

from __future__ import annotations

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.rounding import UNIT
from robust_attn.spectral.matrix_norms import norm_upper, product_error

MOST_POSITIONS = 512
"""Different positions up to which pairs are looked at, some milliseconds for each distance between two of them."""
CHUNK_ELEMENTS = 2**21
"""Numbers of the matrices that are looked at together: 16 MB in float64."""


def interaction_between(
    layer: AttentionLayer,
    positions: Int[Tensor, "*batch n"],
    *,
    everywhere: Float[Tensor, "heads"],
    unit: float = UNIT,
) -> Float[Tensor, "heads"]:
    """The largest |B_ij| of every head over atoms at the positions, each seen from the other, but for rounding.

    No more than `everywhere`, the product of norms, which it is where there are too many positions to look at. Pairs at
    one distance are nearly alike: their mean stands for all, with what sets them apart from it.
    """
    places = positions.unique()
    if layer.rotary is None or len(places) > MOST_POSITIONS:
        return everywhere
    query, key = layer.query.double(), layer.key[layer.head_groups].double()
    turns, apart = _turns(layer, places)
    left, right = (torch.linalg.qr(side.mT, mode="r").R for side in (query, key))
    found = _largest(left, right, turns)
    rounded = 2 * layer.rotary.stretch**2 * product_error(query.mT, key, unit=unit)
    largest = abs(layer.scale) * (found + rounded) + apart * everywhere
    return torch.where(largest < everywhere, largest, everywhere)


def _turns(
    layer: AttentionLayer, places: Int[Tensor, "places"]
) -> tuple[Complex[Tensor, "distances half"], Float[Tensor, ""]]:
    """The mean R_i^T R_j of the pairs at each distance, a complex number for every plane, and how far they are from it.

    The latter as a part of stretch^2, so that it is one of |W_Q| |W_K| |scale| stretch^2.
    """
    assert layer.rotary is not None
    cosine, sine = (wave.double() for wave in layer.rotary.waves(places))
    forth, back = torch.complex(cosine, sine), torch.complex(cosine, -sine)
    pairs, gaps = back[:, None, :] * forth[None, :, :], places[None, :] - places[:, None]
    hidden = layer.mask.hides(places[:, None], places[None, :])
    if hidden is None:
        pairs, gaps = pairs.flatten(0, 1), gaps.flatten()
    else:
        pairs, gaps = pairs[~hidden], gaps[~hidden]
    distances, which, count = gaps.unique(return_inverse=True, return_counts=True)
    sums = pairs.new_zeros(len(distances), pairs.shape[-1]).index_add(0, which, pairs)
    turns = sums / count[:, None]
    return turns, (pairs - turns[which]).abs().max() / layer.rotary.stretch**2


def _largest(
    left: Float[Tensor, "heads a width"],
    right: Float[Tensor, "heads b width"],
    turns: Complex[Tensor, "distances half"],
) -> Float[Tensor, "heads"]:
    """The largest |left R right^T| of every head over the turns R."""
    found = torch.zeros(len(left), dtype=left.dtype, device=left.device)
    planes = torch.complex(*right.chunk(2, dim=-1))
    for some in turns.split(max(1, CHUNK_ELEMENTS // left.numel())):
        turned = planes * some[:, None, None, :]
        found = torch.maximum(found, norm_upper(left @ torch.cat((turned.real, turned.imag), dim=-1).mT).amax(0))
    return found
