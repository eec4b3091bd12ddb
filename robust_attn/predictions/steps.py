"""Classifiers as tapes, step by step: embedding, attention, normalisation, MLP, pooling, head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from robust_attn.predictions.affine import (
    Add,
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
from robust_attn.predictions.tape import Tape
from robust_attn.types import UserError

ACTIVATIONS: dict[str, ScalarFunction] = {
    "gelu": Gelu(),
    "gelu_new": TanhGelu(),
    "gelu_pytorch_tanh": TanhGelu(),
    "silu": Silu(),
    "relu": Relu(),
    "tanh": Tanh(),
}


@dataclass(frozen=True, eq=False)
class Weights:
    """x W^T + b."""

    weight: Tensor
    bias: Tensor | None = None

    @classmethod
    def of(cls, linear: Any) -> Weights:
        """Those of a torch Linear."""
        return cls(linear.weight.detach().double(), None if linear.bias is None else linear.bias.detach().double())

    def parts(self, count: int) -> Iterator[Weights]:
        """As many maps of equal width, whose outputs side by side are this one's."""
        biases = [None] * count if self.bias is None else self.bias.chunk(count)
        return (Weights(weight, bias) for weight, bias in zip(self.weight.chunk(count), biases, strict=True))

    def project(self, tape: Tape, at: int) -> int:
        """As a node."""
        return tape.add(Project(self.weight, self.bias), at)


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm, or RMSNorm where `centred` is false."""

    gain: Tensor
    offset: Tensor | None
    epsilon: float
    centred: bool = True

    @classmethod
    def layer(cls, norm: Any) -> Norm:
        """A torch LayerNorm."""
        return cls(norm.weight.detach().double(), norm.bias.detach().double(), norm.eps)

    def apply(self, tape: Tape, at: int) -> int:
        """x times the inverse root of its mean square, after centring, then gain and offset."""
        rows = tape.add(CentreLast(), at) if self.centred else at
        numbers = tape.add(Elementwise(InverseRoot()), tape.add(MeanSquare(self.epsilon), rows))
        return tape.add(Stretch(self.gain, self.offset), tape.add(Scale(), rows, numbers))


@dataclass(frozen=True, eq=False)
class Attention:
    """Multi-head attention with its output projection; `visible` [n, n] masks, `rotation` is (cosine, sine)."""

    query: Weights
    key: Weights
    value: Weights
    output: Weights
    heads: int
    scale: float
    groups: int | None = None
    visible: Tensor | None = None
    rotation: tuple[Tensor, Tensor] | None = None

    def apply(self, tape: Tape, at: int, row: int | None = None) -> int:
        """What is added to the residual stream, for all tokens or for one of them, which attends to all."""
        shared = self.groups or self.heads
        repeats, asking = self.heads // shared, slice(None) if row is None else slice(row, row + 1)
        query = tape.add(Heads(self.heads), self.query.project(tape, at if row is None else tape.add(Row(row), at)))
        key, value = (tape.add(Heads(shared, repeats), each.project(tape, at)) for each in (self.key, self.value))
        if self.rotation is not None:
            query = tape.add(Rotate(*(wave[asking] for wave in self.rotation)), query)
            key = tape.add(Rotate(*self.rotation), key)
        softmax = Softmax(None if self.visible is None else self.visible[asking])
        logits = tape.add(Logits(self.scale), query, key)
        centred = tape.add(CentreLogits(softmax.at_most(tape.value(logits))), logits)
        mixed = tape.add(Mix(), tape.add(softmax, centred), value)
        return self.output.project(tape, tape.add(Join(), mixed))


@dataclass(frozen=True, eq=False)
class Mlp:
    """Two projections with an activation between; with `gate`, up(x) times activation(gate(x))."""

    up: Weights
    down: Weights
    activation: ScalarFunction
    gate: Weights | None = None

    def apply(self, tape: Tape, at: int) -> int:
        """What is added to the residual stream."""
        if self.gate is None:
            inner = tape.add(Elementwise(self.activation), self.up.project(tape, at))
        else:
            gate = tape.add(Elementwise(self.activation), self.gate.project(tape, at))
            inner = tape.add(Gate(), gate, self.up.project(tape, at))
        return self.down.project(tape, inner)


Branch = Callable[[Tape, int], int]
"""From a node to what is added to the residual stream."""


@dataclass(frozen=True, eq=False)
class Block:
    """One layer: attention and MLP, each with its norm after the residual sum (post) or before the branch (pre)."""

    attention: Attention
    mlp: Mlp
    norms: tuple[Norm, Norm]
    pre: bool

    def apply(self, tape: Tape, at: int, name: str, row: int | None = None) -> int:
        """The layer's output, or one row of it alone: the others are then not computed."""
        attention: Branch = partial(self.attention.apply, row=row)
        branches = ("attention", attention), ("mlp", self.mlp.apply)
        for (part, branch), norm in zip(branches, self.norms, strict=True):
            tape.step = f"{name}.{part}.norm"
            inside = norm.apply(tape, at) if self.pre else at
            tape.step = f"{name}.{part}"
            stream = tape.add(Row(row), at) if row is not None and part == "attention" else at
            at = tape.add(Add(), stream, branch(tape, inside))
            tape.step = f"{name}.{part}.norm"
            at = at if self.pre else norm.apply(tape, at)
        return at


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier at one length: what happens to the input, the blocks, a last norm, pooling weights, and a head.

    `patches` cuts pixels first, `embed` projects, `class_token` puts a row in front, `offset` [n, d] is added
    (positions), `widen` projects once more. The head alternates projections and activations.
    """

    offset: Tensor | None
    blocks: tuple[Block, ...]
    pooling: Tensor
    head: tuple[Weights | ScalarFunction, ...]
    input_norm: Norm | None = None
    widen: Weights | None = None
    last_norm: Norm | None = None
    patches: Patches | None = None
    embed: Weights | None = None
    class_token: bool = False

    def tape(self, points: Tensor, *, detach: bool = True) -> Tape:
        """The whole computation at the input [n, d]; attached to what the points came from where asked."""
        tape = Tape()
        at = self._embedded(tape, tape.input(points.detach() if detach else points))
        row = self._only_row if self.blocks else None
        for index, block in enumerate(self.blocks):
            tape.block = index
            at = block.apply(tape, at, f"layer{index}", row if index == len(self.blocks) - 1 else None)
        tape.step = "head"
        at = at if self.last_norm is None else self.last_norm.apply(tape, at)
        at = tape.add(Pool(self.pooling if row is None else self.pooling[row : row + 1]), at)
        for part in self.head:
            at = part.project(tape, at) if isinstance(part, Weights) else tape.add(Elementwise(part), at)
        return tape

    @property
    def _only_row(self) -> int | None:
        """The token that the head reads, where it reads one alone: the last block is then computed for it alone."""
        read = self.pooling.nonzero().flatten().tolist()
        return read[0] if len(read) == 1 else None

    def _embedded(self, tape: Tape, at: int) -> int:
        tape.step = "embedding"
        at = at if self.patches is None else tape.add(self.patches, at)
        at = at if self.embed is None else self.embed.project(tape, at)
        at = tape.add(PrependZero(), at) if self.class_token else at
        if self.offset is not None:
            at = tape.add(Stretch(torch.ones_like(self.offset), self.offset), at)
        at = at if self.input_norm is None else self.input_norm.apply(tape, at)
        return at if self.widen is None else self.widen.project(tape, at)


def head_of(module: nn.Module) -> tuple[Weights | ScalarFunction, ...]:
    """A head of Linear layers, ReLU, GELU and Tanh; dropout is off."""
    modules = list(module) if isinstance(module, nn.Sequential) else [module]
    parts: list[Weights | ScalarFunction] = []
    for each in modules:
        match each:
            case nn.Linear():
                parts.append(Weights.of(each))
            case nn.ReLU():
                parts.append(Relu())
            case nn.Tanh():
                parts.append(Tanh())
            case nn.GELU():
                parts.append(Gelu() if each.approximate == "none" else TanhGelu())
            case nn.Dropout() | nn.Identity():
                pass
            case _:
                raise UserError(
                    f"a head with a {type(each).__name__} cannot be certified: Linear, ReLU, GELU, Tanh can."
                )
    return tuple(parts)


def activation_of(name: str) -> ScalarFunction:
    """By the name that transformers gives it."""
    if name not in ACTIVATIONS:
        raise UserError(f"no remainder bound for the activation {name}: there are {', '.join(ACTIVATIONS)}.")
    return ACTIVATIONS[name]
