"""The loss of a classifier that reads token measures, as something to climb."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from robust_attn.attacks.ascent import Ascent, Objective, climb
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget

Reader = Callable[[TokenMeasure], Float[Tensor, "samples classes"]]
"""Logits of every sample of a measure, differentiable in its points."""


def loss_objective(
    logits: Reader, base: TokenMeasure, labels: Int[Tensor, " samples"], *, targeted: bool = False
) -> Objective:
    """Cross-entropy of the labels at a displacement of `base`, and its gradient; the negative one towards targets."""
    sign = -1 if targeted else 1

    def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            points = (base.points + displacement).detach().requires_grad_(True)
            loss = sign * functional.cross_entropy(logits(base.with_points(points)), labels, reduction="none")
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        return loss.detach(), gradient

    return objective


def climb_all(
    objective: Objective,
    base: TokenMeasure,
    budget: Budget,
    starts: Sequence[Float[Tensor, "samples n d"]],
    *,
    steps: int,
) -> Ascent:
    """For every sample the best of one ascent per start, with the loss as `output_change`."""
    found = [climb(objective, base, budget, start, steps=steps) for start in starts]
    values = torch.stack([each.output_change for each in found])
    choice = values.argmax(0)
    rows = torch.arange(len(choice))
    displacement = torch.stack([each.displacement for each in found])[choice, rows]
    longest = max(len(each.history) for each in found)
    history = tuple(
        torch.stack([each.history[min(step, len(each.history) - 1)] for each in found])[choice, rows]
        for step in range(longest)
    )
    return Ascent(displacement, values[choice, rows], history, sum(each.gradients for each in found))
