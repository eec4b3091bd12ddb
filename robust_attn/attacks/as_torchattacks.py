"""Our attacks for those who have torchattacks in their code: on any classifier that takes embeddings.

attack = MoveAttack(classifier, radius=0.5, steps=20)
adversarial = attack(embeddings, labels)          # inside the L2 ball of every sample, never clamped to [0, 1]
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torchattacks.attack import Attack as TorchattacksAttack

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.model_loss import ModelLoss, Reader
from robust_attn.attacks.move import Move
from robust_attn.attacks.target import Proposal
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Frobenius, Wasserstein
from robust_attn.observation import moved_inside


class MoveAttack(TorchattacksAttack):  # type: ignore[misc]  # torchattacks has no types
    """`Move` on the cross-entropy of a classifier inside a budget; the L2 ball unless told otherwise.

    `steps` counts gradients, from the inputs themselves and again from each of `restarts` random starts. The last axis
    of the inputs is that of a token's coordinates; the first is that of the samples.
    """

    def __init__(
        self,
        model: nn.Module,
        radius: float = 1.0,
        steps: int = 10,
        restarts: int = 0,
        *,
        budget: type[Budget] = Frobenius,
        seed: int = 0,
    ) -> None:
        super().__init__(type(self).__name__, model)
        self.budget = budget(radius)
        self.ours: Attack = Move(max(steps - 1, 0), restarts)
        self.seed = seed
        self.supported_mode = ["default", "targeted"]

    def forward(
        self, inputs: Float[Tensor, "samples ... d"], labels: Int[Tensor, " samples"]
    ) -> Float[Tensor, "samples ... d"]:
        """Embeddings inside the budget around the inputs, on which the loss is larger."""
        found = self._found(inputs, labels, lambda measure: self.get_logits(measure.points.reshape(inputs.shape)))
        return moved_inside(found.base, found.points, self.budget).points.reshape(inputs.shape)

    def _found(self, inputs: Tensor, labels: Tensor, reader: Reader) -> Proposal:
        inputs, labels = inputs.clone().detach().to(self.device), labels.clone().detach().to(self.device)
        aim = self.get_target_label(inputs, labels) if self.targeted else labels
        measure = TokenMeasure.uniform(inputs.reshape(len(inputs), -1, inputs.shape[-1]))
        target = ModelLoss(reader, measure, aim, targeted=self.targeted)
        return self.ours.propose(target, self.budget, torch.Generator().manual_seed(self.seed))


class MassSplitAttack(MoveAttack):
    """`MassSplit` in the same way: every token is written `copies` times, and the copies move apart.

    Embeddings [samples, n, d] become [samples, n * copies, d] in the W2 ball. Attention without a mask and a mean over
    tokens do not notice copies; a classifier that does (positions, padding, a causal mask) is refused. It starts from
    what `MoveAttack` finds, so it is never weaker.
    """

    def __init__(
        self,
        model: nn.Module,
        radius: float = 1.0,
        steps: int = 10,
        restarts: int = 1,
        *,
        copies: int = 2,
        budget: type[Budget] = Wasserstein,
        seed: int = 0,
    ) -> None:
        super().__init__(model, radius, steps, restarts, budget=budget, seed=seed)
        self.ours = MassSplit(copies, max(steps - 1, 0), restarts, masses=Masses.EQUAL)

    def forward(
        self, inputs: Float[Tensor, "samples n d"], labels: Int[Tensor, " samples"]
    ) -> Float[Tensor, "samples more d"]:
        """The copies inside the budget, those of a token next to one another."""
        found = self._found(inputs, labels, lambda measure: self.get_logits(measure.points))
        found = found.written(self.ours.copies * inputs.shape[1] // found.base.length)
        return moved_inside(found.base, found.points, self.budget).points
