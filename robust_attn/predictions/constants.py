"""How far an operation carries a ball: Lipschitz constants around the clean values, in the Frobenius norm.

The classical way to certify: norms multiply along the model. It holds, and shows what following the errors is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import singledispatch

import torch
from torch import Tensor

from robust_attn.predictions.affine import (
    Add,
    Append,
    CentreLast,
    CentreLogits,
    Heads,
    Join,
    Patches,
    Pool,
    PrependZero,
    Project,
    Rotate,
    Row,
    Stretch,
)
from robust_attn.predictions.remainders.activations import Elementwise
from robust_attn.predictions.remainders.attention import Softmax
from robust_attn.predictions.remainders.products import Gate, Logits, MeanSquare, Mix, Scale
from robust_attn.predictions.scalar_functions import Gelu, InverseRoot, Relu, ScalarFunction, Silu, Tanh, TanhGelu
from robust_attn.predictions.tape import Operation

Reach = Callable[[Sequence[float]], float]
"""From radii of the inputs' deviations to one that holds for the output's."""
ROUNDED_UP = 1 + 1e-9
STEEPEST: dict[type[ScalarFunction], float] = {Gelu: 1.13, TanhGelu: 1.13, Silu: 1.1, Relu: 1.0, Tanh: 1.0}
"""Upper values of |phi'|: 1.1289 for the exact GELU, 1.1291 for its tanh form, 1.0999 for SiLU."""


@singledispatch
def reach_of(operation: Operation, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    """Of an operation at the clean values of its inputs; endless where nothing is known."""
    return lambda _: math.inf


def _times(constant: float | Tensor) -> Reach:
    factor = float(constant) * ROUNDED_UP
    return lambda radii: factor * radii[0]


def _bilinear(first: float | Tensor, second: float | Tensor, both: float = 1.0) -> Reach:
    """|B(p + u, q + v) - B(p, q)| for |B(u, q)| <= first |u|, |B(p, v)| <= second |v|, |B(u, v)| <= both |u| |v|."""
    one, two = float(first) * ROUNDED_UP, float(second) * ROUNDED_UP
    return lambda radii: one * radii[0] + two * radii[1] + both * ROUNDED_UP * radii[0] * radii[1]


def _spectral(matrices: Tensor) -> Tensor:
    """The largest spectral norm of a batch of matrices."""
    return torch.linalg.matrix_norm(matrices, 2).max()


@reach_of.register
def _(operation: Project, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _times(_spectral(operation.weight))


@reach_of.register
def _(operation: Stretch, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _times(operation.gain.abs().max())


@reach_of.register
def _(operation: Add, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return lambda radii: radii[0] + radii[1]


@reach_of.register
def _(operation: Heads, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _times(math.sqrt(operation.repeats))


@reach_of.register(Join)
@reach_of.register(CentreLast)
@reach_of.register(Patches)
@reach_of.register(PrependZero)
@reach_of.register(Row)
@reach_of.register(Append)
def _(operation: Operation, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    """Entries in another order, or a projection."""
    return _times(1.0)


@reach_of.register
def _(operation: Rotate, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _times(operation.cosine.abs().max() + operation.sine.abs().max())


@reach_of.register
def _(operation: Pool, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _times(operation.weights.norm())


@reach_of.register
def _(operation: CentreLogits, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    weights = operation.weights
    return _times(1 + math.sqrt(weights.shape[-1]) * float(weights.norm(dim=-1).max()))


@reach_of.register
def _(operation: Softmax, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    """diag(p) - p p^T has norm at most 1/2."""
    return _times(0.5)


@reach_of.register
def _(operation: Elementwise, at: Sequence[Tensor]) -> Reach:
    if not isinstance(operation.function, InverseRoot):
        return _times(STEEPEST.get(type(operation.function), math.inf))
    least = float(at[0].min()) / ROUNDED_UP

    def inverse_root(radii: Sequence[float]) -> float:
        """u^{-1/2} has slope at most (u - r)^{-3/2} / 2 on the ball."""
        low = least - radii[0]
        return 0.5 * low**-1.5 * radii[0] * ROUNDED_UP if low > 0 else math.inf

    return inverse_root


@reach_of.register
def _(operation: Logits, at: Sequence[Tensor]) -> Reach:
    scale = abs(operation.scale)
    return _bilinear(scale * _spectral(at[1]), scale * _spectral(at[0]), scale)


@reach_of.register
def _(operation: Mix, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _bilinear(_spectral(at[1]), _spectral(at[0]))


@reach_of.register
def _(operation: Scale, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _bilinear(at[1].abs().max(), at[0].norm(dim=-1).max())


@reach_of.register
def _(operation: Gate, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    return _bilinear(at[1].abs().max(), at[0].abs().max())


@reach_of.register
def _(operation: MeanSquare, at: Sequence[Tensor]) -> Reach:  # noqa: ARG001
    longest, width = float(at[0].norm(dim=-1).max()) * ROUNDED_UP, at[0].shape[-1]
    # Row by row |x + u|^2 - |x|^2 <= (2 |x| + |u|) |u|, and |u| is at most the whole radius.
    return lambda radii: (2 * longest + radii[0]) * radii[0] / width * ROUNDED_UP
