"""What the command line sets about a budget: a norm by its name, its radius, and the ball that atoms stay in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robust_attn.settings import Settings
from robust_attn.work import BudgetSettings


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
