"""What the command line sets about a budget: a norm by its name, its radius, and the ball that atoms stay in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robust_attn.settings import Settings, setting
from robust_attn.types import FieldError

SMALLEST = 1e-140
"""The smallest radius that is not zero: squares of displacements must not underflow."""
SUPPORTS = ("auto", "tokens", "normalization")


@dataclass(frozen=True)
class BudgetSettings(Settings):
    """How far an attack may move the token measure."""

    radius: float = setting(0.01, "how far an attack may move the tokens, in the norm of the budget", least=0)
    support: float | str = setting(
        "auto", "the ball that atoms stay in: as the attack has it, by name or by its radius", words=SUPPORTS, above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.radius < SMALLEST:
            raise FieldError("radius", f"must be zero or at least {SMALLEST:g}, got {self.radius}.")


@dataclass(frozen=True)
class WassersteinSettings(BudgetSettings):
    """The root mean square of what tokens move by: W2(mu, nu) <= radius."""

    name: ClassVar[str] = "wasserstein"


@dataclass(frozen=True)
class FrobeniusSettings(BudgetSettings):
    """The norm of the whole displacement."""

    name: ClassVar[str] = "frobenius"


@dataclass(frozen=True)
class PerTokenSettings(BudgetSettings):
    """Every token by at most the radius."""

    name: ClassVar[str] = "per_token"


BUDGETS: tuple[type[Settings], ...] = (WassersteinSettings, FrobeniusSettings, PerTokenSettings)
