"""The certified radius of any one row: the smallest over rows, none of them searched further than that needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robust_attn.predictions.certificate import Effort, PredictionCertificate, certified_prediction
from robust_attn.predictions.steps import Network


def certified_word(
    network: Network,
    points: Tensor,
    rows: Sequence[int],
    *,
    failure_probability: float = 1e-9,
    deterministic: bool = False,
    seed: int | None = None,
    effort: Effort | None = None,
) -> PredictionCertificate:
    """No perturbation of any one of the rows, of norm at most the radius, changes the prediction.

    The failure probability is shared between the rows. The row of the largest gradient is searched first; every other
    one only has to be as good as the worst so far, which takes one plan, and is searched further down where it is not.
    """
    if not rows:
        raise ValueError("there is no row to perturb")
    effort = effort or Effort()
    worst: PredictionCertificate | None = None
    slopes = _slopes(network, points)
    for row in sorted(rows, key=lambda each: -slopes[each]):
        limit = effort if worst is None else replace(effort, start=worst.radius, largest=worst.radius)
        found = certified_prediction(
            network, points, perturb=row, failure_probability=failure_probability / len(rows),
            deterministic=deterministic, seed=seed, effort=limit,
        )  # fmt: skip
        worst = found if worst is None or found.radius < worst.radius else worst
        if not worst.radius > 0:
            break
    assert worst is not None
    return replace(worst, failure_probability=0.0 if deterministic else failure_probability, seed=seed or worst.seed)


def _slopes(network: Network, points: Tensor) -> list[float]:
    """How fast the margin to the next class changes with each row."""
    with torch.enable_grad():
        moved = points.detach().double().requires_grad_(True)
        best = network.tape(moved, detach=False).logits.topk(2).values
        (slope,) = torch.autograd.grad(best[0] - best[1], moved)
    return [float(each) for each in slope.norm(dim=-1)]


def worst_direction(network: Network, points: Tensor, *, turns: int = 4) -> Tensor:
    """A displacement [n, d], as long as a linear margin to the next class would last, that lets it fall fastest.

    To second order: of the gradient and turns delta <- -r (g + H delta - s delta) / |.|, with the shift s the largest
    |H delta| / |delta| seen, the one with the least <g, delta> + <delta, H delta> / 2. The first two orders of a
    certificate are attained there together, or nearly so: a good start for an attack.
    """
    with torch.enable_grad():
        at = points.detach().double().requires_grad_(True)
        best = network.tape(at, detach=False).logits.topk(2).values
        (slope,) = torch.autograd.grad(best[0] - best[1], at, create_graph=True)
        gradient, size = slope.detach(), float(slope.detach().norm())
        if not size > 0:
            return torch.zeros_like(gradient)
        radius = float((best[0] - best[1]).detach()) / size
        step, shift, found = -radius * gradient / size, 0.0, []
        for _ in range(turns + 1):
            (bent,) = torch.autograd.grad(slope, at, step, retain_graph=True, materialize_grads=True)
            found.append((float((step * (gradient + bent / 2)).sum()), step))
            shift = max(shift, float(bent.norm()) / radius)
            turned = gradient + bent - shift * step
            step = -radius * turned / turned.norm().clamp(min=torch.finfo(turned.dtype).tiny)
    return min(found, key=lambda each: each[0])[1]
