"""Certificates for any measure within a Wasserstein ball (docs/proofs/splitting.md): atoms may split into any masses.

mu = sum_i m_i delta_{x_i} is given; nu is any probability measure on the ball of radius `support`, and pi any coupling
of the two with E_pi|y - x|^2 <= eps^2, for example an optimal one where W2(mu, nu) <= eps. Under a causal mask, with
rotary positions or biases by position nu carries positions and pi keeps them. Every bound holds
(E_pi |Gamma_nu(y) - Gamma_mu(x)|^2)^{1/2}, and with it W2(F(mu), F(nu)) for F(mu) = (Gamma_mu)# mu. Other budgets do
not say what a piece of a token may do.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import UNIT, evaluation_error
from robust_attn.bounds import paper
from robust_attn.bounds.bound import LOG10_E, Bound, from_log_constant, from_output_change, not_applicable
from robust_attn.bounds.interval import MARGIN
from robust_attn.bounds.joint_norms import JointNorms, joint_norms
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.bounds.sharp import mean_field_log_constants
from robust_attn.bounds.split_rows import split_rows
from robust_attn.bounds.splitting_local import local_constant
from robust_attn.budget import Budget, Wasserstein
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope, UserError

MEAN_FIELD, HULL, LOCAL = "split.mean_field", "split.hull", "split.local"


def splitting_bounds(
    layer: AttentionLayer,
    norms: HeadNorms,
    measure: TokenMeasure,
    budget: Budget,
    *,
    support: float,
    joint: JointNorms | None = None,
    unit: float = UNIT,
) -> tuple[Bound, ...]:
    """`split_mean_field`, `split_hull` and `split_local` of one sample, in float64; `joint` need not be given.

    `unit` zero leaves out what rounding may have taken, also from norms that are not given.
    """
    if not isinstance(budget, Wasserstein):
        why_not = "pieces of a token share its budget in the Wasserstein budget alone"
        return tuple(not_applicable(name, why_not, Scope.MEASURES) for name in (MEAN_FIELD, HULL, LOCAL))
    layer, sample = layer.to(torch.float64), without_padding(measure.to(torch.float64))
    largest = float(sample.radius)
    if support < largest * (1 - 1e-12):
        raise UserError(f"support must be at least the largest token norm, {largest}, but it is {support}.")
    support = max(support, largest)
    joint = joint_norms(layer, unit=unit) if joint is None else joint
    hull = hull_rows(layer, joint, sample, support=support, unit=unit)
    return (
        split_mean_field(BallSetting.of(layer, norms, sample, budget, radius=support)),
        split_hull(hull, sample, budget),
        split_local(layer, norms, joint, sample, budget, hull=hull, support=support, unit=unit),
    )


def split_mean_field(ball: BallSetting) -> Bound:
    """eps times a Lipschitz constant that holds for every measure on the ball, with any number of atoms.

    pi moves mu to nu along straight lines through measures on the ball, so a bound of the derivative of every measure
    there is one of the change under pi. Per head the smaller of `sharp.mean_field` for infinitely many tokens (no mask;
    never above the paper's mean-field bound) and `sharp.unified` with c = e^{2 kappa} sum_i m_i / M_i, M_i the mass row
    i sees: P_ij / m_j <= e^{2 kappa} / M_i however atoms are split. Under a causal mask also the paper's.
    """
    shared = float((ball.masses / (ball.visible @ ball.masses)).sum())
    pull = ball.key_reach
    row = torch.log1p(pull**2) / 2 if ball.even_slopes else torch.log1p(pull)
    logs = torch.logaddexp(ball.kappa + math.log(shared) / 2 + row, ball.query_reach.log())
    if ball.mask is Mask.NONE:
        logs = torch.minimum(logs, mean_field_log_constants(ball, length=math.inf))
    log_constant = joined_heads(ball.norms, logs)
    masked = paper.masked_mean_field_upper(ball)
    if masked.applies:
        log_constant = min(log_constant, masked.log10 / LOG10_E)
    return from_log_constant(MEAN_FIELD, log_constant, ball.budget_radius, Scope.MEASURES)


def hull_rows(
    layer: AttentionLayer, joint: JointNorms, measure: TokenMeasure, *, support: float, unit: float = UNIT
) -> Float[Tensor, "n"]:
    """|Gamma_nu(y) - Gamma_mu(x_i)| at most, for every nu on the ball and every y.

    Gamma_nu(y) is the layer's offset and sum_h V_h z_h with every z_h in the ball, a mean of points of the ball. So is
    Gamma_mu(x_i), and it is known up to the error of the layer's own evaluation. A sink draws its value towards itself.
    """
    sink = (
        0.0 if layer.sinks is None else float((layer.output.norm(dim=(-2, -1)) * layer.sinks.value.norm(dim=-1)).sum())
    )
    found = (layer(measure) - layer.offset).norm(dim=-1) + (evaluation_error(layer, measure) if unit else 0.0)
    mean = found.clamp_max(joint.reach * float(measure.radius) + sink)
    return (joint.reach * support + sink + mean) * MARGIN


def split_hull(hull: Float[Tensor, "n"], measure: TokenMeasure, budget: Wasserstein) -> Bound:
    """The farthest that the output of each atom can go, whatever nu is: (sum_i m_i hull_i^2)^{1/2}, at any eps."""
    change = float((measure.masses * hull**2).sum().sqrt())
    return from_output_change(HULL, change * MARGIN, budget.radius, Scope.MEASURES)


def split_local(
    layer: AttentionLayer,
    norms: HeadNorms,
    joint: JointNorms,
    measure: TokenMeasure,
    budget: Wasserstein,
    *,
    hull: Float[Tensor, "n"],
    support: float,
    unit: float = UNIT,
) -> Bound:
    """Taylor's theorem at mu, eps times `local_constant`: the key part of the derivative at mu, eps times a curvature,
    and the query part as a Lipschitz constant for pairs that move little and for those that move far.

    Masked too, with biases by position too; no rotary positions, no sinks. Infinite where the curvature overflows: then
    it does not certify.
    """
    if not layer.even_slopes:
        return not_applicable(LOCAL, "it needs slopes that are the same for every attended point", Scope.MEASURES)
    rows = split_rows(layer, measure, support=support, unit=unit)
    constant = local_constant(rows, norms, joint, hull, eps=budget.radius, support=support)
    log_constant = math.log(constant) if constant > 0 else -math.inf
    return from_log_constant(LOCAL, log_constant, budget.radius, Scope.MEASURES)


def without_padding(measure: TokenMeasure) -> TokenMeasure:
    """The atoms with mass."""
    kept = measure.present
    return TokenMeasure(measure.points[kept], measure.masses[kept], measure.positions[kept])
