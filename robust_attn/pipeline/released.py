"""The quantity that the paper's released code reports as the local Lipschitz constant."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure


def released_estimate(layer: AttentionLayer, measure: TokenMeasure) -> Float[Tensor, "*batch"]:
    """sqrt(|D_X^T f(X)|), Frobenius norms, one number per sample.

    It is the fixed point, reached in one step, of a power iteration that takes element [0] of `torch.func.jvp`, the
    value f(X), where the tangent D_X f v is element [1] (vcastin/how-smooth-is-attention, commit 60da456). A multiple
    c f gives c times the value, as for |D_X f|; unlike |D_X f| it changes when a constant is added to f.
    """
    jacobian = layer.linearize(measure)
    return jacobian.vjp(jacobian.value).flatten(-2).norm(dim=-1).sqrt()
