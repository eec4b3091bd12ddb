"""The paper's adversarial configurations at the layers of a model: growth n^(1/2) of the whole layer's constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds import paper
from robust_attn.experiments.fit import power_law
from robust_attn.experiments.study import Record, attained, chosen
from robust_attn.pipeline import LayerJob, ball_bounds, ball_verdict
from robust_attn.record import heading
from robust_attn.types import UserError
from robust_attn.views.panel import Panel, line


@dataclass(frozen=True)
class AdversarialLayer:
    """One token against a cluster of the others, along a real eigenvector of a head's A; special token first.

    The head is the one whose configuration makes the layer steepest at the largest length. Without a `radius` the
    tokens lie on the ball of the text's own tokens. Biases stay as the model has them; rotary layers have no A.
    """

    lengths: Sequence[int]
    radius: float | None = None

    def records(self, job: LayerJob) -> Iterator[dict[str, Any]]:
        """One record per length, with the bounds of the ball."""
        if job.layer.rotary is not None:
            raise UserError(f"Layer {job.subject.layer} has rotary positions: its heads have no single matrix A.")
        radius = float(job.inputs.radius.max()) if self.radius is None else self.radius
        layer = job.layer.to(torch.float64)
        head, pair = _steepest_head(layer, radius, max(self.lengths))
        for length in self.lengths:
            points = _repeated(pair, length)
            bounds = ball_bounds(layer, TokenMeasure.uniform(points), radius)
            yield {
                **heading(job.subject, 0, length),
                "task": "adversarial_layer",
                "configuration": f"head {head}",
                "mask": str(layer.mask),
                "radius": radius,
                **ball_verdict(attained(layer, points), bounds),
            }


def findings(records: Sequence[Record]) -> dict[str, Any]:
    """Per layer: C and exponent of C n^exponent through the constants, the radius, and the head."""
    found = []
    for layer in sorted({record["layer"] for record in records}):
        some = [record for record in chosen(records, layer=layer) if record["lipschitz"]["lower"] is not None]
        if not some:
            continue
        law = power_law((0, record["tokens"], record["lipschitz"]["lower"]) for record in some)
        last = max(some, key=lambda record: record["tokens"])
        facts = {name: last[name] for name in ("layer", "configuration", "radius", "mask")}
        coefficient = last["lipschitz"]["lower"] / last["tokens"] ** 0.5
        found.append({**facts, "exponent": law.exponent, "constant_over_sqrt_n": coefficient})
    return {"growth": found}


def panels(records: Sequence[Record]) -> tuple[Panel, ...]:
    """Constants of every layer against n."""
    if not records:
        return ()
    lines = {
        f"layer {layer}": line((r["tokens"], r["lipschitz"]["lower"]) for r in chosen(records, layer=layer))
        for layer in sorted({record["layer"] for record in records})
    }
    title = f"{records[0]['model']}: adversarial configurations"
    return (Panel("adversarial_layer", title, "tokens", "local Lipschitz constant", lines),)


def _steepest_head(layer: AttentionLayer, radius: float, length: int) -> tuple[int, Float[Tensor, "2 d"]]:
    """The head, and its special and its common token."""
    found = []
    for head in range(layer.heads):
        A = layer.scale * layer.key[layer.group_of(head)].T @ layer.query[head]
        pair = paper.adversarial_tokens(A, radius=radius, length=2)
        found.append((attained(layer, _repeated(pair, length)), head, pair))
    _, head, pair = max(found, key=lambda entry: entry[0])
    return head, pair


def _repeated(pair: Float[Tensor, "2 d"], length: int) -> Float[Tensor, "n d"]:
    return torch.cat([pair[:1], pair[1:].expand(length - 1, -1)])
