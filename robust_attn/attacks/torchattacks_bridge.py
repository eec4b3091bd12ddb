"""torchattacks' attacks by name, on any target: a layer's change becomes a logit of a stand-in classifier."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.settings import TorchattacksSettings
from robust_attn.attacks.target import Proposal, Steps, Target
from robust_attn.attacks.torchattacks_box import Box, Boxed
from robust_attn.attacks.torchattacks_table import RELATIVE_NOISE, SUITABLE, Ball, Suited
from robust_attn.budget import Budget, PerToken


class BoxedClassifier(nn.Module):
    """A classifier of points that takes images of the box instead, and counts the gradients that it is asked for."""

    def __init__(self, boxed: Boxed, steps: Steps) -> None:
        super().__init__()
        self.boxed = boxed
        self.steps = steps
        # torchattacks asks the first parameter for its device.
        self.device_of = nn.Parameter(boxed.box.image.new_zeros(()), requires_grad=False)

    def forward(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples classes"]:
        """Logits of the points that the images stand for."""
        if torch.is_grad_enabled() and images.requires_grad:
            self.steps.add()
        return self.boxed.logits(self.boxed.box.points(images))


@final
@dataclass(frozen=True)
class Torchattack(TorchattacksSettings, Attack):
    """An attack of torchattacks by the name of its class, on one sample at a time."""

    @property
    def suited(self) -> Suited:
        """What the table says about it."""
        return SUITABLE[self.name]

    def propose(self, target: Target, budget: Budget, generator: torch.Generator) -> Proposal:
        """Where the attack leaves every sample; the framework projects and checks as for any other."""
        measure = target.measure
        if budget.radius == 0:
            return Proposal(measure, measure.points)
        found, spent = [], []
        for index in range(measure.points.shape[0]):
            steps = Steps(target.steps.on_step)
            boxed = target.boxed(index, budget, self.suited, generator)
            found.append(self._run(boxed, steps, generator, per_token=isinstance(budget, PerToken)))
            spent.append(steps.gradients)
        target.steps.gradients += max(spent)
        return Proposal(measure, torch.stack(found))

    def _run(self, boxed: Boxed, steps: Steps, generator: torch.Generator, *, per_token: bool) -> Float[Tensor, "n d"]:
        """Where it leaves the points. The global random states, from which torchattacks draws, are as they were.

        A pixel that the attack leaves undefined (0/0, where a gradient vanishes) stays where it was.
        """
        import torchattacks

        seed = int(torch.randint(2**31, (), generator=generator))
        box, image = boxed.box, boxed.box.image
        with _seeded(seed), torch.enable_grad():
            kind = getattr(torchattacks, self.name)
            attack = kind(BoxedClassifier(boxed, steps), **self._arguments(kind, box, seed, per_token=per_token))
            found = attack(image, torch.tensor([boxed.label], device=image.device)).detach().to(image.dtype)
        return box.points(torch.where(found.isfinite(), found, image))[0]

    def _arguments(self, kind: Any, box: Box, seed: int, *, per_token: bool) -> dict[str, Any]:
        """Those that its constructor knows."""
        ball = self.suited.ball
        if ball is Ball.EITHER:
            ball = Ball.LINF if per_token else Ball.L2
        eps = box.l2_radius() if ball is Ball.L2 else box.linf_radius()
        per_pixel = eps / math.sqrt(box.image.numel()) if ball is Ball.L2 else eps
        known = {
            "norm": str(ball),
            "eps": eps,
            "alpha": eps * (self.step_size if self.suited.alpha is None else self.suited.alpha),
            "steps": self.steps,
            "std": per_pixel,
            "noise_sd": RELATIVE_NOISE * per_pixel,
            "seed": seed,
            **self.suited.options,
        }
        return {name: known[name] for name in inspect.signature(kind).parameters if name in known}


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """torch's and NumPy's global generators start at `seed` inside and are as they were before afterwards.

    NumPy does not warn: OnePixel divides by a spread that is zero once all its candidates agree.
    """
    kept = np.random.get_state()
    with torch.random.fork_rng(devices=[]), np.errstate(all="ignore"):
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(kept)
