"""The box in which torchattacks works: images with pixels in [0, 1], of which a budget is a part.

torchattacks clamps to [0, 1] and wants 4-D tensors; on raw embeddings its PGD with eps 0.01 moves points by more than 2
without a word. So the tokens become the centre of a box that contains the whole budget, and the attack's ball is one
that lies inside the budget.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget, PerToken

CENTRE = 0.5
SMALLEST_SIDE = 5
"""Square divides the side of an image by five."""

Logits = Callable[[Float[Tensor, "samples n d"]], Float[Tensor, "samples classes"]]
"""Of many places for the atoms of one sample."""


@dataclass(frozen=True, eq=False)
class Box(ABC):
    """An affine map between images [samples, channels, height, width] in [0, 1] and the points of one sample."""

    measure: TokenMeasure
    budget: Budget

    @property
    @abstractmethod
    def image(self) -> Float[Tensor, "1 channels height width"]:
        """Where the points are before they move."""

    @abstractmethod
    def points(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples n d"]:
        """The points that images stand for."""

    @abstractmethod
    def l2_radius(self) -> float:
        """Images at most this far from the centre, in L2, are inside the budget."""

    @property
    def coordinates(self) -> int:
        """How many coordinates may move."""
        return int(self.measure.present.sum()) * self.measure.width

    @final
    def linf_radius(self) -> float:
        """The same for the largest difference of a pixel: the half side of the cube in the ball.

        In the per-token budget it is that of one token's coordinates, otherwise all of them share the L2 ball.
        """
        together = self.measure.width if isinstance(self.budget, PerToken) else self.coordinates
        return self.l2_radius() / math.sqrt(max(together, 1))


@final
@dataclass(frozen=True, eq=False)
class BudgetBox(Box):
    """The smallest box around the tokens that holds the budget, its coordinates laid out as a square image.

    Atom i moves by 2 radius (u_i - 1/2) / sqrt(w_i), so in a budget of the form sum_i w_i |.|^2 <= radius^2 the L2 ball
    of radius 1/2 is the budget itself. In the per-token budget it lies inside, and the cube of half the side
    1 / (2 sqrt(d)) does, whose corners move every token by the full radius. Pixels that are left over mean nothing.
    """

    @property
    def side(self) -> int:
        """Of the image."""
        return max(SMALLEST_SIDE, math.isqrt(max(self.coordinates - 1, 0)) + 1)

    @property
    def image(self) -> Float[Tensor, "1 channels height width"]:
        """All pixels in the middle."""
        points = self.measure.points
        return torch.full((1, 1, self.side, self.side), CENTRE, dtype=points.dtype, device=points.device)

    def points(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples n d"]:
        """Padding stays where it is."""
        present, base = self.measure.present, self.measure.points
        steps = (images.flatten(1)[:, : self.coordinates] - CENTRE).unflatten(-1, (-1, self.measure.width))
        scales = 2 * self.budget.radius * self.budget.weights(self.measure)[present].rsqrt()
        field = base.new_zeros(len(images), *base.shape).masked_scatter(
            present[None, :, None].expand(len(images), *base.shape), (steps * scales[:, None]).to(base.dtype)
        )
        return base + field

    def l2_radius(self) -> float:
        """Half the box."""
        return CENTRE


@final
@dataclass(frozen=True, eq=False)
class PixelBox(Box):
    """Real images: a sample's points are its pixels, with channels as coordinates in [-1, 1], in rows."""

    shape: tuple[int, int, int]

    @property
    def image(self) -> Float[Tensor, "1 channels height width"]:
        """The image itself."""
        return (self.measure.points.T.reshape(1, *self.shape) + 1) / 2

    def points(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples n d"]:
        """[0, 1] to [-1, 1]."""
        return (2 * images - 1).flatten(2).transpose(1, 2)

    def l2_radius(self) -> float:
        """radius / (2 sqrt(w)): all pixels have the same weight w."""
        return self.budget.radius / (2 * math.sqrt(float(self.budget.weights(self.measure)[0])))


@dataclass(frozen=True, eq=False)
class Boxed:
    """One sample as torchattacks sees it: the box it is in, what reads its points, and the label to get away from."""

    box: Box
    logits: Logits
    label: int
