"""What a theorem says about one layer, one measure and one budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from robust_attn.types import Scope, Side

LOG10_E = math.log10(math.e)
AT_TOKENS = "a constant at the tokens: it bounds infinitely small changes, not those within a budget"
"""Why a constant at the tokens is no bound on a ball, whatever its value."""


@dataclass(frozen=True)
class Bound:
    """The output changes by at most (for an upper bound) `output_change`, which is 10^log10 times the budget's radius.

    `log10` stays finite where the constant itself overflows. A bound that does not apply says why, and is never used.
    A constant at the tokens (scope local) never applies to a budget: its `output_change` is the change to first order.
    `comparator` marks formulas that are shown beside certificates but never certify.
    """

    name: str
    log10: float
    output_change: float
    scope: Scope
    side: Side = Side.UPPER
    applies: bool = True
    why_not: str | None = None
    failure_probability: float = 0.0
    comparator: bool = False

    @property
    def certifies(self) -> bool:
        """Whether it may serve as a certificate: an upper bound that applies, is a finite number and speaks of a set.

        A constant at the tokens alone (scope local) says nothing about a perturbation of finite size.
        """
        usable = self.applies and self.side is Side.UPPER and not self.comparator and self.scope is not Scope.LOCAL
        return usable and math.isfinite(self.output_change) and self.output_change >= 0


def from_log_constant(name: str, log_constant: float, radius: float, scope: Scope, **facts: object) -> Bound:
    """A bound stated as a Lipschitz constant, given by its natural logarithm; `radius` is the budget's."""
    log10 = log_constant * LOG10_E
    change = radius * 10**log10 if log10 < 300 else (0.0 if radius == 0 else math.inf)
    return Bound(name, log10, change, scope, **facts)  # type: ignore[arg-type]


def from_output_change(name: str, output_change: float, radius: float, scope: Scope, **facts: object) -> Bound:
    """A bound stated as an output change; its constant is that change per radius."""
    defined = radius > 0 and output_change > 0 and math.isfinite(output_change)
    log10 = math.log10(output_change / radius) if defined else math.nan if math.isnan(output_change) else -math.inf
    return Bound(name, log10, output_change, scope, **facts)  # type: ignore[arg-type]


def at_tokens(bound: Bound) -> Bound:
    """The same number as what it is: a constant of the derivative at the tokens, which bounds no finite change."""
    return replace(bound, scope=Scope.LOCAL, applies=False, why_not=AT_TOKENS)


def not_applicable(
    name: str, why_not: str, scope: Scope, side: Side = Side.UPPER, *, comparator: bool = False
) -> Bound:
    """A theorem whose assumptions are not met."""
    return Bound(name, math.nan, math.nan, scope, side, applies=False, why_not=why_not, comparator=comparator)
