"""Sharper global bounds on a ball (theory sheet, section 2)."""

from __future__ import annotations

import math

from robust_attn.bounds.bound import Bound, from_log_constant, not_applicable
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.types import Scope


def unified_upper(ball: BallSetting) -> Bound:
    """Lip <= |V| (sqrt(c) sqrt(1 + kappa^2) + a): c = mixing covers few tokens (c <= n) and many (c <= e^{2 kappa}).

    Row i of the key part has, in L2(P_i), the norm |V (I + |q_i|^2 C_i) V^T|^{1/2}; Jensen and the column sums of P do
    the rest. With rotary positions the cross terms stay and sqrt(1 + kappa^2) becomes 1 + kappa.
    """
    pull = ball.key_reach
    row = 1 + pull if ball.rotary else (1 + pull**2).sqrt()
    constants = ball.mixing().sqrt() * row + ball.query_reach
    return _bound("sharp.unified", joined_heads(ball.norms, constants.log()), ball)


def half_square_upper(ball: BallSetting) -> Bound:
    """Lip <= |V| (sqrt(n) + a (1 + sqrt(n/2))), masked too; equal masses, no biases, no rotation."""
    name = "sharp.half_square"
    if not ball.uniform:
        return not_applicable(name, "it is stated for tokens of equal mass", Scope.GLOBAL)
    if ball.norms.has_bias or ball.rotary:
        return not_applicable(name, "it is stated without biases and rotary positions", Scope.GLOBAL)
    n = ball.length
    constants = math.sqrt(n) + ball.query_reach * (1 + math.sqrt(n / 2))
    return _bound(name, joined_heads(ball.norms, constants.log()), ball)


def token_max_upper(ball: BallSetting) -> Bound:
    """max_i |df_i| <= |V| (1 + kappa + a) max_j |dx_j|, any number of tokens, any mask (1 + 2a without biases)."""
    name = "sharp.token_max"
    if not ball.per_token:
        return not_applicable(name, "it speaks of per-token budgets", Scope.GLOBAL)
    constants = 1 + ball.key_reach + ball.query_reach
    log_constant = joined_heads(ball.norms, constants.log())
    return from_log_constant(name, log_constant, ball.budget_radius, Scope.GLOBAL)


def _bound(name: str, log_constant: float, ball: BallSetting) -> Bound:
    return from_log_constant(name, log_constant + math.log(ball.stretch), ball.budget_radius, Scope.GLOBAL)
