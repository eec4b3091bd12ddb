"""The bounds on a whole ball, each a function of a BallSetting: our own, and those of installed packages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

from robust_attn.bounds import paper, sharp
from robust_attn.bounds.bound import Bound, not_applicable
from robust_attn.bounds.setting import BallSetting
from robust_attn.plugins import plugins
from robust_attn.types import Scope, Side, UserError

BallBound = Callable[[BallSetting], Bound]
FOREIGN = "foreign."
"""How the names of bounds begin that come from elsewhere: that they are true is the promise of their authors."""


def _of_one_head(name: str, ball: BallSetting) -> Bound:  # noqa: ARG001
    """A lower bound that says nothing about layers."""
    return not_applicable(name, "it is stated for one head with V = I", Scope.GLOBAL, Side.LOWER)


GLOBAL_BOUNDS: tuple[BallBound, ...] = (
    paper.discrete_upper,
    paper.mean_field_upper,
    paper.masked_mean_field_upper,
    partial(_of_one_head, "paper.discrete_lower"),
    partial(_of_one_head, "paper.mean_field_lower"),
    sharp.unified_upper,
    sharp.half_square_upper,
    sharp.sharp_mean_field_upper,
    sharp.token_max_upper,
)


@cache
def foreign_bounds() -> tuple[BallBound, ...]:
    """Those of installed packages, under names that say so. What cannot be loaded is left out, with a warning."""
    installed = plugins("bounds", callable, "a function of a BallSetting")
    for trouble in installed.troubles:
        warnings.warn(trouble, stacklevel=2)
    return tuple(partial(_foreign, name, bound) for name, bound in installed.found.items())


def _foreign(name: str, bound: BallBound, ball: BallSetting) -> Bound:
    if ball.sinks:
        return not_applicable(FOREIGN + name, "bounds of other packages are not asked about sinks", Scope.GLOBAL)
    found = bound(ball)
    if not isinstance(found, Bound) or found.scope is not Scope.GLOBAL:
        raise UserError(f"The bound {name!r} of an installed package gave {found!r}; expected a Bound of scope global.")
    return replace(found, name=FOREIGN + name)
