"""Free splits of a measure: slivers of any mass taken from its atoms, and an ascent on where they go."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.bound import Bound
from robust_attn.bounds.splitting import splitting_bounds
from robust_attn.budget import Wasserstein
from robust_attn.observation import Observation, observe
from robust_attn.spectral.norms import head_norms
from tests.cases import one_sample


def with_slivers(measure: TokenMeasure, sources: Tensor, shares: Tensor) -> TokenMeasure:
    """The same measure with the given shares of its atoms as atoms of their own, after all others."""
    slivers = measure.masses[sources] * shares
    masses = measure.masses.index_add(0, sources, -slivers)
    return TokenMeasure(
        torch.cat([measure.points, measure.points[sources]]),
        torch.cat([masses, slivers]),
        torch.cat([measure.positions, measure.positions[sources]]),
    )


def random_slivers(measure: TokenMeasure, g: torch.Generator, *, count: int) -> TokenMeasure:
    """Slivers of random atoms with mass, shares from 1e-8 to 1/(2 count)."""
    present = measure.present.nonzero()[:, 0]
    sources = present[torch.randint(len(present), (count,), generator=g)]
    shares = 10 ** (-8 * torch.rand(count, generator=g, dtype=torch.float64)) / (2 * count)
    return with_slivers(measure, sources, shares)


def inside(base: TokenMeasure, points: Tensor, *, eps: float, support: float) -> Tensor:
    """Points drawn into the ball of the support, then towards where they came from until the coupling costs eps."""
    points = points * (support / points.norm(dim=-1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    moved = torch.where(base.present[:, None], points - base.points, 0.0)
    cost = (base.masses * (moved**2).sum(-1)).sum().sqrt()
    return base.points + moved * (eps / cost.clamp_min(1e-300)).clamp_max(1.0)


def ascended(
    layer: AttentionLayer, base: TokenMeasure, start: Tensor, *, eps: float, support: float, steps: int = 25
) -> Tensor:
    """Gradient ascent on the output change of the coupling from `start`, each atom that moves there by its own step."""
    reference, moving = layer(base), (start != base.points).any(-1, keepdim=True)
    best, largest, points = start, -1.0, inside(base, start, eps=eps, support=support)
    for _ in range(steps):
        leaf = points.detach().requires_grad_(True)
        change = (base.masses * ((layer(base.with_points(leaf)) - reference) ** 2).sum(-1)).sum()
        (gradient,) = torch.autograd.grad(change, leaf)
        if float(change.detach()) > largest:
            best, largest = leaf.detach(), float(change.detach())
        step = 0.3 * support * gradient / gradient.norm(dim=-1, keepdim=True).clamp_min(1e-300)
        points = inside(base, leaf.detach() + step * moving, eps=eps, support=support)
    return best


def seen(layer: AttentionLayer, base: TokenMeasure, points: Tensor) -> Observation:
    """What the move does, with W2 exact on both sides."""
    return observe(layer, one_sample(base), points[None], Wasserstein(1e6))


@dataclass(frozen=True)
class Promise:
    """The three bounds of one measure."""

    mean_field: Bound
    hull: Bound
    local: Bound

    @property
    def changes(self) -> list[float]:
        return [bound.output_change for bound in (self.mean_field, self.hull, self.local) if bound.applies]


def promised(layer: AttentionLayer, measure: TokenMeasure, eps: float, support: float) -> Promise:
    return Promise(*splitting_bounds(layer, head_norms(layer), measure, Wasserstein(eps), support=support))
