"""Schemas of the tasks that are experiments, with the values that the published tables use. Imports nothing slow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class LipschitzTaskSchema:
    """Local Lipschitz constant against the number of tokens, at `windows` windows of text per length.

    `heads` also measures every head alone, `radii` stretches the tokens to these radii; `mask`: model, none or causal.
    """

    name: str = "lipschitz"
    lengths: list[int] = field(default_factory=lambda: [2, 4, 8, 16, 32, 64])
    windows: int = 10
    heads: bool = False
    radii: list[float] = field(default_factory=list)
    mask: str = "model"


@dataclass
class TightnessTaskSchema:
    """Every bound against the radius of the budget."""

    name: str = "tightness"
    radii: list[float] = field(default_factory=lambda: [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1])


@dataclass
class AdversarialLayerTaskSchema:
    """The paper's adversarial configurations at the model's layers; without a radius, that of the text's tokens."""

    name: str = "adversarial_layer"
    lengths: list[int] = field(default_factory=lambda: [4, 8, 16, 32, 64, 128])
    radius: float | None = None


@dataclass
class AdversarialTaskSchema:
    """Adversarial configurations of one head with V = I against the number of tokens."""

    name: str = "adversarial"
    A: Any = field(default_factory=lambda: [[-1.0, 0.6], [0.0, 0.5]])
    radius: float = 2.5
    lengths: list[int] = field(default_factory=lambda: [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])


@dataclass
class RadiusTaskSchema:
    """The largest constant of one head with V = I on the ball against its radius."""

    name: str = "radius"
    A: Any = field(default_factory=lambda: [[-1.0, 0.6], [0.0, 0.5]])
    radii: list[float] = field(default_factory=lambda: [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
    tokens: int = 32
    steps: int = 60
    restarts: int = 2


@dataclass
class MeanFieldTaskSchema:
    """Few tokens to many: `lengths` written out, `beyond` as two weighted atoms."""

    name: str = "mean_field"
    A: Any = field(default_factory=lambda: [[-1.0]])
    radius: float = math.sqrt(2.0)
    lengths: list[int] = field(default_factory=lambda: [2**k for k in range(1, 13)])
    beyond: list[int] = field(default_factory=lambda: [10**4, 10**5, 10**6, 10**8])


@dataclass
class MassSplittingTaskSchema:
    """Splitting against moving on the scalar examples of the theory."""

    name: str = "mass_splitting"
    copies: list[int] = field(default_factory=lambda: [1, 2, 3, 4])
    radii: list[float] = field(default_factory=lambda: [1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0])
    balances: list[float] = field(default_factory=lambda: [0.5, 0.2, 0.1, 0.03, 0.01, 1e-3, 1e-4])
    slivers: list[float] = field(default_factory=lambda: [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
    steps: int = 60
    restarts: int = 4


@dataclass
class UnbalancedTaskSchema:
    """The steepest measures of few atoms with free masses."""

    name: str = "unbalanced"
    A: Any = field(default_factory=lambda: [[-1.0, 0.0], [0.0, -1.0]])
    atoms: list[int] = field(default_factory=lambda: [2, 3, 4])
    radii: list[float] = field(default_factory=lambda: [0.5, 1.0, 1.5, 2.0, 2.5, math.sqrt(8.0)])
    steps: int = 150
    restarts: int = 16
