"""The same layer written so that float64 sees what it does: for attacks where the layer as given drowns in rounding.

Products of weights that cancel are multiplied out exactly and rounded once; tokens far from the origin are moved there,
with what that does to the logits as a bias. What an attack finds on the rival is judged on the layer itself.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure

Exact = list[list[Fraction]]


def rival_layer(layer: AttentionLayer, centre: Float[Tensor, "d"]) -> AttentionLayer:
    """g(X) = f(X + centre) up to a constant, with W_K^T W_Q as queries and W_O W_V as outputs of every head.

    Each of these is the exact product rounded to float64. Softmax drops the bias of the keys.
    """
    if layer.rotary is not None:
        raise ValueError("with rotary positions queries and keys cannot be multiplied out")
    d, groups = layer.width, layer.head_groups
    middle = [[entry] for entry in _exact(centre[None])[0]]
    queries, biases, outputs = [], [], []
    for head, group in enumerate(groups):
        query, output, value = (_exact(each) for each in (layer.query[head], layer.output[head], layer.value[group]))
        key = _scaled(_transposed(_exact(layer.key[group])), Fraction(layer.scale))
        own = _exact(layer.query_bias[head][:, None])
        bias = [[moved[0] + still[0]] for moved, still in zip(_product(query, middle), own, strict=True)]
        queries.append(_rounded(_product(key, query)))
        biases.append(_rounded(_product(key, bias))[:, 0])
        outputs.append(_rounded(_product(output, value)))
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
    return _rounded(_product(_exact(left), _exact(right)))


def _exact(matrix: Tensor) -> Exact:
    return [[Fraction(entry) for entry in row] for row in matrix.double().tolist()]


def _rounded(matrix: Exact) -> Tensor:
    return torch.tensor([[float(entry) for entry in row] for row in matrix], dtype=torch.float64)


def _transposed(matrix: Exact) -> Exact:
    return [list(column) for column in zip(*matrix, strict=True)]


def _scaled(matrix: Exact, factor: Fraction) -> Exact:
    return [[factor * entry for entry in row] for row in matrix]


def _product(left: Exact, right: Exact) -> Exact:
    columns = _transposed(right)
    return [[sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in left]
