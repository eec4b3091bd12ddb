"""Our attacks for those who have torchattacks in their code: on any classifier that takes embeddings.

attack = MoveAttack(classifier, radius=0.5, steps=20)
adversarial = attack(embeddings, labels)          # inside the L2 ball of every sample, never clamped to [0, 1]
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torchattacks.attack import Attack as TorchattacksAttack

from robust_attn.attacks.ascent import Ascent
from robust_attn.attacks.classifier_loss import Reader, climb_all, loss_objective
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, Frobenius, Wasserstein
from robust_attn.types import UserError

UNCHANGED = 1e-6
"""Largest relative difference of logits that counts as none where tokens are only written twice."""


class MoveAttack(TorchattacksAttack):  # type: ignore[misc]  # torchattacks has no types
    """Projected ascent on the cross-entropy inside a budget, the ascent of `Move`; the L2 ball unless told otherwise.

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
        self.steps = steps
        self.restarts = restarts
        self.seed = seed
        self.supported_mode = ["default", "targeted"]

    def forward(
        self, inputs: Float[Tensor, "samples ... d"], labels: Int[Tensor, " samples"]
    ) -> Float[Tensor, "samples ... d"]:
        """Embeddings inside the budget around the inputs, on which the loss is larger."""
        inputs, labels = inputs.clone().detach().to(self.device), labels.clone().detach().to(self.device)
        base = TokenMeasure.uniform(inputs.reshape(len(inputs), -1, inputs.shape[-1]))

        def logits(measure: TokenMeasure) -> Tensor:
            return self.get_logits(measure.points.reshape(inputs.shape))

        best = self._climbed(logits, base, inputs, labels, [torch.zeros_like(base.points)])
        return (base.points + best.displacement).reshape(inputs.shape)

    def _climbed(
        self, logits: Reader, base: TokenMeasure, inputs: Tensor, labels: Tensor, starts: list[Tensor]
    ) -> Ascent:
        target = self.get_target_label(inputs, labels) if self.targeted else labels
        objective = loss_objective(logits, base, target, targeted=self.targeted)
        generator = torch.Generator().manual_seed(self.seed)
        random = [self.budget.sample(base, generator) for _ in range(self.restarts)]
        return climb_all(objective, base, self.budget, [*starts, *random], steps=max(self.steps - 1, 0))


class MassSplitAttack(MoveAttack):
    """Writes every token `copies` times, which must not change the logits, and moves the copies apart.

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
        if copies < 1:
            raise UserError(f"copies must be at least 1, got {copies}.")
        self.copies = copies

    def forward(
        self, inputs: Float[Tensor, "samples n d"], labels: Int[Tensor, " samples"]
    ) -> Float[Tensor, "samples more d"]:
        """The copies inside the budget, those of a token next to one another."""
        moved = super().forward(inputs, labels)
        inputs, labels = inputs.clone().detach().to(self.device), labels.clone().detach().to(self.device)
        base = TokenMeasure.uniform(inputs).split(self.copies)
        self._refuse_unless_unchanged(inputs, base.points)
        together = (moved - inputs).repeat_interleave(self.copies, dim=1)
        best = self._climbed(lambda measure: self.get_logits(measure.points), base, inputs, labels, [together])
        return base.points + best.displacement

    def _refuse_unless_unchanged(self, inputs: Tensor, copied: Tensor) -> None:
        with torch.no_grad():
            before, after = self.get_logits(inputs), self.get_logits(copied)
        if not float((after - before).abs().max()) <= UNCHANGED * float(before.abs().max()):
            raise UserError("the classifier notices when every token is written twice, so mass cannot be split in it.")
