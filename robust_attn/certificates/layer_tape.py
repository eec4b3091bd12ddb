"""An attention layer at a measure as a tape of operations, from a displacement of norm one to the output's."""

from __future__ import annotations

import torch
from torch import Tensor

from robust_attn.attention.head_norm import HeadNorm
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import log_weight, visible
from robust_attn.attention.measure import TokenMeasure
from robust_attn.predictions.affine import Append, CentreLogits, Heads, Join, Project, Rotate, Stretch
from robust_attn.predictions.remainders.activations import Elementwise
from robust_attn.predictions.remainders.attention import Softmax
from robust_attn.predictions.remainders.products import Logits, MeanSquare, Mix, Scale
from robust_attn.predictions.scalar_functions import InverseRoot
from robust_attn.predictions.tape import Tape


def layer_tape(layer: AttentionLayer, measure: TokenMeasure, weights: Tensor) -> Tape:
    """The map D -> w^{1/2} (f(X + w^{-1/2} D) - offset) at D = 0, for a measure [n, d] without padding, in float64.

    So Euclidean norms of what goes in and comes out are the norm (sum_i w_i |.|^2)^{1/2} of displacements and outputs.
    """
    tape, root = Tape(), weights.sqrt()[:, None]
    at = tape.input(torch.zeros_like(measure.points))
    at = tape.add(Stretch((1 / root).expand(measure.points.shape), measure.points), at)
    logits = tape.add(Logits(layer.scale), _queries(tape, at, layer, measure), _keys(tape, at, layer, measure))
    values = tape.add(Heads(layer.groups, _repeats(layer)), tape.add(Project(layer.value.flatten(0, 1)), at))
    seen, constant = _constants(layer, measure)
    logits = tape.add(Stretch(torch.ones_like(constant), constant), logits)
    if layer.sinks is not None:
        sink = layer.sinks.log_weight(measure)[:, None, None].expand(-1, measure.length, 1)
        logits, values = (
            tape.add(Append(sink, -1), logits),
            tape.add(Append(layer.sinks.value[:, None, :], -2), values),
        )
        seen = torch.nn.functional.pad(seen, (0, 1), value=True)
    softmax = Softmax(seen)
    centred = tape.add(CentreLogits(softmax.at_most(tape.value(logits))), logits)
    mixed = tape.add(Join(), tape.add(Mix(), tape.add(softmax, centred), values))
    output = tape.add(Project(layer.output.permute(1, 0, 2).flatten(1)), mixed)
    tape.add(Stretch(root.expand(measure.length, layer.out_width)), output)
    return tape


def _constants(layer: AttentionLayer, measure: TokenMeasure) -> tuple[Tensor, Tensor]:
    """Who sees whom, and what no displacement changes about logits: logarithms of masses, and a bias by positions."""
    seen = visible(layer.mask, measure.positions, measure.masses)
    logs = torch.where(seen, log_weight(layer.mask, measure.positions, measure.masses), 0.0)
    constant = logs.expand(layer.heads, -1, -1)
    if layer.position_bias is not None:
        constant = constant + layer.position_bias.between(measure.positions)
    return seen, constant


def _repeats(layer: AttentionLayer) -> int:
    return layer.heads // layer.groups


def _queries(tape: Tape, at: int, layer: AttentionLayer, measure: TokenMeasure) -> int:
    projected = tape.add(Project(layer.query.flatten(0, 1), layer.query_bias.flatten()), at)
    return _placed(tape, tape.add(Heads(layer.heads), projected), layer, layer.query_norm, measure)


def _keys(tape: Tape, at: int, layer: AttentionLayer, measure: TokenMeasure) -> int:
    projected = tape.add(Project(layer.key.flatten(0, 1), layer.key_bias.flatten()), at)
    placed = _placed(tape, tape.add(Heads(layer.groups), projected), layer, layer.key_norm, measure)
    return placed if _repeats(layer) == 1 else tape.add(Heads(layer.groups, _repeats(layer)), tape.add(Join(), placed))


def _placed(tape: Tape, at: int, layer: AttentionLayer, norm: HeadNorm | None, measure: TokenMeasure) -> int:
    """Normalised and rotated, in the layer's order."""
    if norm is not None and not norm.after_rotation:
        at = _normalised(tape, at, norm)
    if layer.rotary is not None:
        waves = (wave.to(measure.points.dtype) for wave in layer.rotary.waves(measure.positions))
        at = tape.add(Rotate(*(torch.cat((wave, wave), dim=-1) for wave in waves)), at)
    if norm is not None and norm.after_rotation:
        at = _normalised(tape, at, norm)
    return at


def _normalised(tape: Tape, at: int, norm: HeadNorm) -> int:
    """gain * z / rho + shift, of every head vector or of those of all heads together."""
    rows = tape.add(Join(), at) if norm.across else at
    numbers = tape.add(Elementwise(InverseRoot()), tape.add(MeanSquare(norm.eps), rows))
    scaled = tape.add(Scale(), rows, numbers)
    scaled = tape.add(Heads(len(norm.gain)), scaled) if norm.across else scaled
    return tape.add(Stretch(norm.gain[:, None], norm.shift[:, None]), scaled)
