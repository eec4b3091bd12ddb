"""A token really inserted twice, or more often: a change of the masses, not of the places.

n tokens of mass 1/n become n + r of mass 1/(n + r), r + 1 of them at the same place. All other tokens lose in
proportion, and what they lose goes to that place: as a motion of mass this is a split of every token into what stays
and what leaves, so it is observed and certified like any other, in a budget of just the distance W2 that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.settings import DuplicateSettings
from robust_attn.attacks.target import Proposal, Target
from robust_attn.attention.jacobian import LayerJacobian, merge_heads
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.budget import Budget, TokenRadius, Wasserstein
from robust_attn.types import UserError

ROUNDING = 1 + 1e-12


@final
@dataclass(frozen=True)
class Duplicate(DuplicateSettings, Attack):
    """Repeats one token up to `repeats` times: the token, and how often, that change the other outputs most.

    The radius of the budget given does not matter: a token is inserted or it is not. For layers whose tokens have
    positions it is refused, because a token inserted there shifts all later ones, which is no motion of mass.
    """

    own_radius: ClassVar[bool] = True

    @property
    def any_masses(self) -> bool:
        """What leaves a token is not an equal piece of it."""
        return True

    @property
    def copies(self) -> int:
        """What stays of a token and what leaves it."""
        return 2

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:  # noqa: ARG002
        """Per sample the strongest repetition, in the budget that the farthest of them needs."""
        layer, measure = target.layer_for(self.name), target.measure
        if not isinstance(budget, Wasserstein):
            raise UserError(f"Duplicates say what they need in W2: take a Wasserstein budget, not {budget.kind}.")
        if layer.mask is not Mask.NONE or layer.rotary is not None or layer.position_bias is not None:
            raise UserError(
                "attack=duplicate needs a layer without causal mask and rotary positions: there a token inserted "
                "twice shifts the positions of those after it."
            )
        layer, measure = layer.to(torch.float64), measure.to(torch.float64)
        samples = [measure.sample(index) for index in range(measure.points.shape[0])]
        chosen = [self._strongest(layer, sample) for sample in samples]
        pairs = [repetition(sample, *choice) for sample, choice in zip(samples, chosen, strict=True)]
        base = stack([before for before, _ in pairs])
        points = torch.stack([after for _, after in pairs])
        needed = float(Wasserstein(1.0).norm(points - base.points, base).max()) * ROUNDING
        return Proposal(base, points, budget=Wasserstein(needed, support=TokenRadius()))

    def _strongest(self, layer: AttentionLayer, sample: TokenMeasure) -> tuple[int, int]:
        """The token, and how often it is repeated."""
        at = layer.linearize(sample)
        changes = torch.stack([repetition_changes(at, repeats) for repeats in range(1, self.repeats + 1)])
        best = int(changes.argmax())
        return best % sample.length, best // sample.length + 1


def repetition(sample: TokenMeasure, token: int, repeats: int) -> tuple[TokenMeasure, Float[Tensor, "atoms d"]]:
    """One sample with every token as the piece that stays and the piece that goes to `token`, and where all pieces end.

    Inserting `repeats` more of a token of mass m divides every mass by 1 + repeats m before that token's own grows.
    """
    grown = 1 + repeats * sample.masses[token]
    others = torch.arange(sample.length, device=sample.masses.device) != token
    stays = torch.where(others, sample.masses / grown, sample.masses)
    masses = torch.cat((stays, sample.masses - stays))
    base = TokenMeasure(sample.points.repeat(2, 1), masses, sample.positions.repeat(2))
    goal = torch.where(masses[sample.length :, None] > 0, sample.points[token], sample.points)
    return base, torch.cat((sample.points, goal))


def repetition_changes(at: LayerJacobian, repeats: int) -> Float[Tensor, "n"]:
    """For each token of one sample how far its repetition moves the outputs of the tokens there were, in L2.

    Row j gives token i the share r P_ji / (1 + r P_ji) more, so its mean moves by that times v_i - o_j.
    """
    attention, masses = at.attention(), at.measure.masses
    extra = repeats * attention / (1 + repeats * attention)
    changes = []
    for token in range(masses.shape[-1]):
        moved = extra[:, :, token, None] * (at.projections.v[:, token, None] - at.mean)
        changes.append((masses * merge_heads(at.layer, moved).square().sum(-1)).sum().sqrt())
    return torch.where(masses > 0, torch.stack(changes), torch.full_like(masses, -torch.inf))
