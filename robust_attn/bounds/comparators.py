"""Formulas published elsewhere, shown beside certificates; none ever certifies (docs/proofs/comparators.md).

Those stated at the tokens (scope LOCAL) are constants of the derivative there: radius times constant is the output
change to first order only, and a perturbation of finite size may exceed it.

With S_i = diag(P_i) - P_i P_i^T one row of the derivative of one head is (docs/proofs/operator.md#derivative)

    df_i = V ( sum_j P_ij dx_j + X^T S_i (X A dx_i + dX q_i) ),    q_i = A x_i + a,

and S_i enters the formulas of Yudin et al. and of Nair through an upper value of its norm alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.special import lambertw
from torch import Tensor

from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.bounds.bound import Bound, at_tokens, from_log_constant, not_applicable
from robust_attn.bounds.propagation import interval_upper, present_atoms
from robust_attn.bounds.setting import BallSetting, joined_heads
from robust_attn.budget import Budget
from robust_attn.spectral.matrix_norms import norm_upper
from robust_attn.spectral.norms import HeadNorms
from robust_attn.types import Scope

ANOTHER_MAP = "it is the constant of another map, L2 attention with W_K = W_Q, of the same sizes: for scale only"
"""Why the constant of Kim et al. says nothing about a layer, whatever its value."""


def comparator_bounds(
    layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget
) -> tuple[Bound, ...]:
    """Every comparator for one sample, in float64."""
    if layer.sinks is not None or layer.normed:
        scopes = {
            "yudin": Scope.LOCAL,
            "nair": Scope.LOCAL,
            "released": Scope.LOCAL,
            "kim_l2": Scope.GLOBAL,
            "ibp": Scope.BALL,
        }
        return tuple(
            not_applicable(
                f"comparator.{name}", "it is stated without sinks and norms of queries and keys", scope, comparator=True
            )
            for name, scope in scopes.items()
        )
    layer, measure = layer.to(torch.float64), measure.to(torch.float64)
    at = AtTokens.of(layer, norms, measure, budget)
    return (
        yudin_local(at),
        nair_local(at),
        released_local(at),
        kim_l2_upper(layer, at.ball),
        interval_upper(layer, measure, budget),
    )


@dataclass(frozen=True, eq=False)
class AtTokens:
    """A layer at one sample without its padding: attention P of every head, and the norms |P_h| and |X|.

    |P_h| is measured in the norm (sum_i w_i |.|^2)^{1/2} of the budget; with equal weights it is the spectral norm.
    """

    ball: BallSetting
    linear: LayerJacobian
    attention: Float[Tensor, "heads n n"]
    attention_norm: Float[Tensor, "heads"]
    token_norm: float

    @classmethod
    def of(cls, layer: AttentionLayer, norms: HeadNorms, measure: TokenMeasure, budget: Budget) -> AtTokens:
        """One forward pass and one SVD of n x n matrices per head."""
        ball = BallSetting.around(layer, norms, measure, budget)
        linear = LayerJacobian.at(layer, present_atoms(measure))
        attention, root = linear.attention(), ball.weights.sqrt()
        return cls(
            ball=ball,
            linear=linear,
            attention=attention,
            attention_norm=norm_upper(root[:, None] * attention / root),
            token_norm=float(norm_upper(linear.measure.points)),
        )

    @property
    def equal_weights(self) -> bool:
        """Whether the budget's norm is a multiple of the Frobenius norm."""
        return bool((self.ball.weights == self.ball.weights[0]).all())

    def bound(self, name: str, log_constant: float) -> Bound:
        """A constant of the derivative at the tokens, as a comparator."""
        stretched = log_constant + math.log(self.ball.stretch)
        return at_tokens(from_log_constant(name, stretched, self.ball.budget_radius, Scope.LOCAL, comparator=True))


def yudin_local(at: AtTokens) -> Bound:
    """Yudin et al. 2025: |D_X f| <= |V| ( |P| + 2 |X|^2 |A| max_i g(P_i) ), g as in `softmax_slope`, at the tokens.

    Proof from the row above: |S_i| <= g(P_i), and both terms with S_i have norm at most |X| g |A| |X|, the second
    because (dX q_i)_i is dX A X^T. P may be any matrix whose rows are probabilities, so masks and masses do not matter;
    a query bias a adds |a| sqrt(n) to one of the two |A| |X| (`logit_motion`). Without it the formula is the published
    one. To first order only, as everything at the tokens.
    """
    name = "comparator.yudin"
    if at.linear.layer.rotary is not None:
        return not_applicable(name, "it is stated without rotary positions", Scope.LOCAL, comparator=True)
    if not at.equal_weights:
        return not_applicable(name, "it is stated in the norm without weights", Scope.LOCAL, comparator=True)
    slope = softmax_slope(at.attention).amax(-1)
    constants = at.attention_norm + slope * at.token_norm * logit_motion(at)
    return at.bound(name, joined_heads(at.ball.norms, constants.log()))


def nair_local(at: AtTokens) -> Bound:
    """What |diag(p) - p p^T| <= 1/2 (Nair 2025) gives for a layer: |V| ( |P| + |X| L / 2 ), L = `logit_motion`.

    Nair bounds the softmax; the layer's constant is derived here. In the row above |X^T S_i| <= |X| / 2, and what S_i
    acts on has norm at most L |dX| over all rows together. Without biases, rotation and weights L = 2 |A| |X|, so this
    is |V| ( |P| + |A| |X|^2 ), never below `yudin_local`, whose g is at most 1/2. Any mask, masses, biases, rotation.
    """
    constants = at.attention_norm + at.token_norm * logit_motion(at) / 2
    return at.bound("comparator.nair", joined_heads(at.ball.norms, constants.log()))


def released_local(at: AtTokens) -> Bound:
    """The released code's local bound, sum_h |V_h| (rho_h^2 r^2 (n + 1) + n)^{1/2}; not a theorem.

    rho_h = max_i |A_h x_i| without biases and r the largest distance of two tokens (vcastin/how-smooth-is-attention,
    adversarial_data/toolbox.py). There V_h is W_V^h, for a map that ends before W_O; here V_h = W_O^h W_V^h. It knows A
    only by what it does to the tokens, so what A does to a motion across them can exceed it by any factor: a test keeps
    tokens +-u and A = t u e^T with e orthogonal to u, where it says sqrt(2) and the constant is at least t.
    """
    name = "comparator.released"
    if at.linear.layer.rotary is not None:
        return not_applicable(name, "it is stated without rotary positions", Scope.LOCAL, comparator=True)
    if not at.ball.uniform:
        return not_applicable(name, "it is stated for tokens of equal mass", Scope.LOCAL, comparator=True)
    n, points = at.ball.length, at.linear.measure.points
    diameter = float(torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").max())
    roots = ((n + 1) * diameter**2 * _largest_query(at) ** 2 + n).sqrt()
    return at.bound(name, _log(float((at.ball.norms.value * roots).sum())))


def kim_l2_upper(layer: AttentionLayer, ball: BallSetting) -> Bound:
    """Kim, Papamakarios and Mnih 2021: the Lipschitz constant of L2 attention with W_K = W_Q is at most

        sqrt(n) scale (4 W_0((n-1)/e) + 1) (sum_h |W_Q^h|^4 |W_V^h|^2)^{1/2} |W_O|,  scale = 1 / sqrt(head width),

    on all inputs. That is **another map**: its logits are -scale |W_Q x_i - W_Q x_j|^2, and its values pass through
    scale W_Q^T W_Q. So it never applies to a layer here; the number, with this layer's weights in its places, gives the
    scale of what a layer made for a small constant promises. W_0((n-1)/e) solves x e^{x+1} = n - 1.

    Quoted from memory with |W_Q^h|^2 inside the sum, which cannot be: c W_Q makes the map c f(c X) and its constant c^2
    times as large. At n = 1 the map is scale W_O W_V W_Q^T W_Q, and a test keeps a layer of that kind above the quote.
    """
    name = "comparator.kim_l2"
    if not ball.uniform or ball.mask is not Mask.NONE or layer.rotary is not None:
        why_not = f"{ANOTHER_MAP}, and stated for tokens of equal mass without mask and rotary positions"
        return not_applicable(name, why_not, Scope.GLOBAL, comparator=True)
    heads = (norm_upper(layer.query) ** 2 * ball.norms.inner_value).norm()
    constant = math.sqrt(ball.length) * abs(layer.scale) * float(heads) * ball.norms.output
    log_constant = _log(constant) + math.log(4 * inverse_phi(ball.length - 1) + 1)
    return from_log_constant(
        name,
        log_constant + math.log(ball.stretch),
        ball.budget_radius,
        Scope.GLOBAL,
        applies=False,
        why_not=ANOTHER_MAP,
        comparator=True,
    )


def inverse_phi(value: float) -> float:
    """The x >= 0 with x e^{x+1} = value: Lambert's W_0(value / e)."""
    return float(lambertw(value / math.e).real)


def softmax_slope(p: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """g(p) = p_1 (1 - p_1 + p_2), p_1 >= p_2 the largest entries: an upper value of |diag(p) - p p^T|, at most 1/2.

    The norm is the root x > p_2 of p_1^2/(p_1 - x) = 1 + sum_{i>1} p_i^2/(x - p_i), left side rising and right side
    falling. At x = g the left side is p_1/(p_1 - p_2) and, as g - p_2 = (1 - p_1)(p_1 - p_2), the right side is at most
    1 + p_2 (1 - p_1)/(g - p_2), the same number. Equality where all other entries are p_2 or zero.
    """
    largest = torch.nn.functional.pad(p, (0, 1)).topk(2, dim=-1).values
    return largest[..., 0] * (1 - largest[..., 0] + largest[..., 1])


def logit_motion(at: AtTokens) -> Float[Tensor, "heads"]:
    """L with |(X A dx_i)_i| + |(dX q_i)_i| <= L |dX|, over all rows: how much logits move, through queries and keys.

    |X A dx_i| <= |X| |A| |dx_i|. |(dX q_i)_i| = |dX Q^T| <= |dX|_F |Q|, Q of rows q_i, |Q| <= |A| |X| + |a| sqrt(n);
    weights w make it |w^{1/2} Q| / min w^{1/2}. A rotation stands between the factors of A: then it is |W_Q| |K| and
    |W_K| |Q|, K and Q the rotated keys and queries.
    """
    layer, weights, norms = at.linear.layer, at.ball.weights, at.ball.norms
    root = (weights / weights.min()).sqrt()[:, None]
    if layer.rotary is None:
        weighted_norm = norm_upper(root * at.linear.measure.points)
        queries = norms.interaction * weighted_norm + norms.key_slope_at_zero * root.norm()
        return norms.interaction * at.token_norm + queries
    parts, scale = at.linear.projections, abs(layer.scale * layer.rotary.scaling)
    groups = layer.head_groups
    through_queries = norm_upper(layer.query) * norm_upper(parts.k)
    return scale * (through_queries + norm_upper(layer.key)[groups] * norm_upper(root * parts.q))


def _largest_query(at: AtTokens) -> Float[Tensor, "heads"]:
    """max_i |A_h x_i| of every head."""
    layer = at.linear.layer
    groups = layer.head_groups
    images = layer.scale * (at.linear.measure.points @ layer.query.transpose(-1, -2)) @ layer.key[groups]
    return images.norm(dim=-1).amax(-1)


def _log(value: float) -> float:
    """The logarithm, minus infinity at zero; not a number stays so."""
    return math.log(value) if value != 0 else -math.inf
