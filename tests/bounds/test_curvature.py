"""Each inequality behind the curvature as a lemma of its own; the whole is attacked in test_ball.py."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.bounds.curvature import (
    ALIKE,
    Joined,
    cross_terms,
    joined,
    key_form,
    moving_values,
    second_crossing,
    second_own,
    third_keys,
)
from robust_attn.bounds.interval import Inflated, ball_of, inflated, variance_weights
from robust_attn.bounds.rows import row_blocks
from robust_attn.budget import Frobenius, PerToken
from robust_attn.spectral.norms import head_norms
from tests.cases import MORE_CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

CASE = st.sampled_from(MORE_CASES)
UNIT = torch.ones(1, dtype=torch.float64)


def one_row(p: Tensor, values: Tensor, slopes: Tensor) -> Inflated:
    """One head and one row that attends with exactly p to the values and has the query slopes given."""
    u, y = values - p @ values, slopes - p @ slopes

    def deviation(z: Tensor) -> Tensor:
        return torch.linalg.eigvalsh(torch.einsum("j,ja,jb->ab", p, z, z))[-1].clamp_min(0.0).sqrt()

    wide = p[None, None, None]
    variance = variance_weights(wide, wide, UNIT)
    return Inflated(
        floor=wide,
        ceiling=wide,
        variance=variance,
        strongest=variance.amax(-1),
        value_distance=u.norm(dim=-1)[None, None, None],
        value_deviation=deviation(u)[None, None, None],
        slope_distance=y.norm(dim=-1)[None, None, None],
        slope_deviation=deviation(y)[None, None, None],
        key_slope=torch.ones_like(wide),
        steepest=torch.ones_like(wide[..., 0]),
        logit_slope=torch.zeros_like(wide),
        logit_deviation=torch.zeros_like(wide[..., 0]),
    )


def random_row(seed: int, length: int, sharpness: float) -> tuple[Tensor, Tensor, Tensor]:
    g = generator(seed)
    normal = torch.randn(length, 7, generator=g, dtype=torch.float64)
    return (sharpness * normal[:, 0]).softmax(-1), normal[:, 1:4], normal[:, 4:7]


def test_third_moment_of_the_keys_by_hand():
    """P = (1/2, 1/2), values 0 and 1: distances 1/2, deviation 1/2.

    Split 1/2 (1/2 + 2/2) = 3/4; whole 1/2 * 1/2 = 1/4; row sums 1/2 (0 + 1/2 * 1/2 + 1/2 * 1/2) = 1/4.
    """
    p, values = torch.tensor([0.5, 0.5]).double(), torch.tensor([[0.0], [1.0]]).double()
    found = third_keys(one_row(p, values, values), UNIT)
    assert found.flatten().tolist() == pytest.approx([0.25, 0.25])


def test_row_sums_are_taken_where_one_atom_draws_nearly_everything():
    """P = (0.9, 0.1), values 0 and 1: distances 0.1 and 0.9, deviation 0.3, variance weights 0.18.

    Split 0.9 (0.1 + 0.6) = 0.63; whole 0.18 * 0.9 = 0.162 twice; row sums 0.9 (0.1 * 0.8 + 0.1 * 0.1 + 0.09) = 0.162
    and 0.1 (0.9 * 0.8 + 0.9 * 0.9 + 0.09) = 0.162.
    """
    p, values = torch.tensor([0.9, 0.1]).double(), torch.tensor([[0.0], [1.0]]).double()
    assert third_keys(one_row(p, values, values), UNIT).flatten().tolist() == pytest.approx([0.162, 0.162])


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7), sharpness=st.floats(0, 8))
def test_third_moment_of_the_keys_dominates(seed, length, sharpness):
    """|E[(u - m)(c - c_bar)^2]| <= sum_j z_j c_j^2 for any c."""
    p, values, slopes = random_row(seed, length, sharpness)
    z = third_keys(one_row(p, values, slopes), UNIT).flatten()
    c = torch.randn(20, length, generator=generator(seed + 1), dtype=torch.float64)
    spread = c - (c @ p)[:, None]
    moments = torch.einsum("j,ja,tj->ta", p, values - p @ values, spread**2).norm(dim=-1)
    assert (moments <= (z * c**2).sum(-1) * (1 + 1e-9) + 1e-15).all()


@given(seed=st.integers(0, 10**6), length=st.integers(1, 7), sharpness=st.floats(0, 8))
def test_third_moment_of_the_query_dominates(seed, length, sharpness):
    """|E[(u - m) <y - y_bar, d>^2]| <= z |d|^2 for any d."""
    p, values, slopes = random_row(seed, length, sharpness)
    z = float(second_own(one_row(p, values, slopes)))
    d = torch.randn(20, 3, generator=generator(seed + 1), dtype=torch.float64)
    a = (slopes - p @ slopes) @ d.T
    moments = torch.einsum("j,ja,jt->ta", p, values - p @ values, a**2).norm(dim=-1)
    assert (moments <= z * d.square().sum(-1) * (1 + 1e-9) + 1e-15).all()


def case_of(seed, case):
    return random_layer(case, generator(seed)), random_measure(case, generator(seed + 1))


def key_terms(layer, measure):
    """Norms, the ball of radius zero, what is known in it, and both forms on the keys."""
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.0))
    at = inflated(norms, ball, data)
    keys = key_form(norms, ball, data, at, at.variance)
    thirds = key_form(norms, ball, data, at, third_keys(at, ball.inverse[..., None, None, :]))
    return norms, ball, at, keys, thirds


@given(seed=st.integers(0, 10**6), case=CASE)
def test_terms_on_keys_alone_dominate_where_only_the_keys_move(seed, case):
    """d_i = 0: f'' of row i is sum_h 2 Cov(V d, c) + E[(u - m)(c - c_bar)^2], at most sum_j (c_ij + z_ij) |d_j|^2."""
    layer, measure = case_of(seed, case)
    norms, _, at, keys, thirds = key_terms(layer, measure)
    coefficients = moving_values(norms, at, keys) + thirds
    displacement = torch.randn(measure.points.shape, generator=generator(seed + 2), dtype=torch.float64)
    displacement = displacement * measure.present[..., None]
    displacement[:, 0] = 0.0
    second = _second_derivative(layer, measure, displacement)[:, 0].norm(dim=-1)
    allowed = (coefficients[:, 0] * displacement.square().sum(-1)).sum(-1)
    assert (second <= allowed * (1 + 1e-9) + 1e-12).all()


@given(seed=st.integers(0, 10**6), case=CASE)
def test_all_terms_together_dominate_row_by_row(seed, case):
    """With d_i too: own_i |d_i|^2, and the cross terms in either form, c_i |d_i| (.)^{1/2} by rows or by the matrix."""
    layer, measure = case_of(seed, case)
    norms, ball, at, keys, thirds = key_terms(layer, measure)
    rows, matrix = cross_terms(norms, ball, at, keys, second_crossing(at))
    displacement = torch.randn(measure.points.shape, generator=generator(seed + 2), dtype=torch.float64)
    displacement = displacement * measure.present[..., None]
    sizes = displacement.square().sum(-1)
    alone = ((moving_values(norms, at, keys) + thirds) @ sizes[..., None])[..., 0] + second_own(at).sum(-2) * sizes
    by_rows = alone + rows * (sizes * sizes.sum(-1, keepdim=True)).sqrt()
    by_matrix = alone + (matrix @ sizes[..., None])[..., 0] + rows / 2 * sizes
    second = _second_derivative(layer, measure, displacement).norm(dim=-1)
    present = measure.present
    assert (second[present] <= by_rows[present] * (1 + 1e-9) + 1e-12).all()
    assert (second[present] <= by_matrix[present] * (1 + 1e-9) + 1e-12).all()


def test_no_interaction_has_no_curvature():
    """A = 0: the map is linear."""
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0, 4.0]))
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.5))
    at = inflated(norms, ball, data)
    keys = key_form(norms, ball, data, at, at.variance)
    rows, matrix = cross_terms(norms, ball, at, keys, second_crossing(at))
    for term in (keys, moving_values(norms, at, keys), second_own(at), rows, matrix):
        assert float(term.abs().max()) == 0.0


def _second_derivative(layer, measure, direction: Tensor) -> Tensor:
    def slope(points: Tensor) -> Tensor:
        return torch.func.jvp(lambda p: layer(measure.with_points(p)), (points,), (direction,))[1]

    return torch.func.jvp(slope, (measure.points,), (direction,))[1]


def test_the_split_form_is_taken_where_a_far_atom_is_light():
    """P = 0.01 at 1 and 0.03 at 0 thirty-three times: mean 0.01, deviation sqrt(0.0099).

    Largest entries: split 0.01 (0.99 + 2 sd) = 0.0119; whole 0.03 * 0.99 = 0.0297; row sums 0.0099 (0.98 + 1) = 0.0196.
    """
    p = torch.tensor([0.01] + [0.03] * 33, dtype=torch.float64)
    values = torch.tensor([[1.0]] + [[0.0]] * 33, dtype=torch.float64)
    found = third_keys(one_row(p, values, values), UNIT).flatten().tolist()
    deviation = math.sqrt(0.0099)
    assert found == pytest.approx([0.01 * (0.99 + 2 * deviation)] + [0.03 * (0.01 + 2 * deviation)] * 33)


def test_the_heaviest_atom_is_favoured_where_it_draws_most_and_lies_near_the_mean():
    """P = 0.9 at 0 and 0.01 at 1 ten times: mean 0.1, distances 0.1 and 0.9, sum of P t = 0.18.

    Heaviest: own 0.09 * 0.8, beside 0.9 (0.1 * 0.1 + 0.09), of which 0.4: 0.072 + 0.4 * 0.09 = 0.108. Others: own
    0.009 * 0.98, beside 0.01 (0.9 * 0.99 + 0.171), with the heaviest 0.01 * 0.9 (0.9 + 0.1) / 0.4: 0.04194.
    (Whole: 0.126 * 0.9 = 0.1134; plain row sums 0.072 + 0.09 = 0.162; split 0.63.)
    """
    p = torch.tensor([0.9] + [0.01] * 10, dtype=torch.float64)
    values = torch.tensor([[0.0]] + [[1.0]] * 10, dtype=torch.float64)
    found = third_keys(one_row(p, values, values), UNIT).flatten().tolist()
    assert found == pytest.approx([0.108] + [0.04194] * 10)


def beside_a_head_that_reads_one_atom(layer: AttentionLayer, slope: float) -> AttentionLayer:
    """The same layer and a second head with V = 1 and logits slope * x_j, so steep that one atom draws everything."""
    one = torch.ones(1, 1, 1).double()
    return replace(
        layer,
        query=torch.cat([layer.query, 0 * one]),
        query_bias=torch.cat([layer.query_bias, slope * one[0]]),
        key=torch.cat([layer.key, one]),
        key_bias=torch.cat([layer.key_bias, 0 * one[0]]),
        value=torch.cat([layer.value, one]),
        output=torch.cat([layer.output, one]),
    )


@pytest.mark.parametrize("heads", [1, 2])
def test_terms_of_two_tokens_by_hand(heads):
    """x = (0, 1), A = k = log 3, V = 1, no radius: P = (1/2, 1/2), (1/4, 3/4); key slopes 0 and k; deviations of values
    1/2 and sqrt(3)/4, of slopes k times that; variance weights 1/2 and 2 * 3/16 = 3/8, the same for both atoms.

    Moving values: 0 and 2 * 3/8 k. Cross terms, each 2 x y sqrt(weight): sd(slope) with |V|, |A| with sd(value), and in
    row 1 the mixed third moment (sum P d^2 b^2)^{1/2} = k (1/4 (3/4)^4 + 3/4 (1/4)^4)^{1/2} with k. As a matrix: half.
    A second head that reads the token at 1 alone, P = 1 up to e^-60, adds nothing and takes nothing away.
    """
    layer, measure, k = scalar_layer(math.log(3)), one_sample(scalar_measure([0.0, 1.0])), math.log(3)
    if heads == 2:
        layer = beside_a_head_that_reads_one_atom(layer, 60.0)
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, Frobenius(0.0))
    at = inflated(norms, ball, data)
    keys = key_form(norms, ball, data, at, at.variance)
    rows, matrix = cross_terms(norms, ball, at, keys, second_crossing(at))
    third = k * math.sqrt((3 / 4) ** 4 / 4 + 3 * (1 / 4) ** 4 / 4)
    expected = [
        2 * math.sqrt(1 / 2) * (k / 2 + k / 2),
        2 * math.sqrt(3 / 8) * (2 * k * math.sqrt(3) / 4 + k * third),
    ]
    assert keys[0].flatten().tolist() == pytest.approx([0, 0, 3 / 8 * k**2, 3 / 8 * k**2], abs=1e-5)
    assert moving_values(norms, at, keys)[0].flatten().tolist() == pytest.approx([0, 0, 3 / 4 * k, 3 / 4 * k], abs=1e-5)
    assert rows[0].tolist() == pytest.approx(expected, abs=1e-5)
    assert matrix[0].flatten().tolist() == pytest.approx([expected[0] / 2] * 2 + [expected[1] / 2] * 2, abs=1e-5)


def test_one_head_has_nothing_to_join():
    """The form of the keys of one head is w (g + |A| r)^2, however it is held; here 2 (1 + 4 * 1/2)^2 = 18."""
    layer, measure = scalar_layer(4.0), one_sample(scalar_measure([0.25, 0.0]))
    (data,) = row_blocks(layer, measure)
    norms, ball = head_norms(layer), ball_of(measure, PerToken(0.5))
    at = inflated(norms, ball, data)
    found = key_form(norms, ball, data, at, torch.full_like(at.variance, 2.0))
    assert found[0].flatten().tolist() == pytest.approx([18.0, 18.0, 8.0, 8.0])


@given(case=CASE, seed=st.integers(0, 99))
def test_heads_together_at_weights_in_proportion(case, seed):
    """Not below what they are, and by no more than the ratios differ; of weights that are not alike, what they are."""
    g = generator(seed)
    layer, measure = random_layer(case, g), random_measure(case, g, samples=1)
    if layer.normed:
        return
    (data,) = row_blocks(layer, measure)
    weights = torch.rand(data.log_p.shape, generator=g, dtype=torch.float64) + 0.1
    near = joined(data, weights)
    ratio = 0.7 * (1 + (ALIKE**2 - 1) * 0.99 * torch.rand(data.log_p.shape, generator=g, dtype=torch.float64))
    found, exact = joined(data, ratio * weights, near), joined(data, ratio * weights)
    assert (found.root >= exact.root * (1 - 0.02)).all()  # Gram iteration is not exact
    assert (found.root <= exact.root * ALIKE * 1.02 + 1e-30).all()
    squares = torch.einsum("bhij,bijhl->bijhl", ratio * weights, data.key_gram.expand(*found.root.shape, -1, -1))
    assert (found.root**2 >= torch.linalg.eigvals(squares).real.amax(-1) * (1 - 1e-9)).all()
    unlike = torch.rand(data.log_p.shape, generator=g, dtype=torch.float64)
    assert torch.equal(joined(data, unlike, near).root, joined(data, unlike).root) or layer.heads == 1


def test_row_sums_of_an_interval_by_hand():
    """P from (0.8, 0.1) to (0.9, 0.2), distances 0.1 and 0.9; deviation and variance too large to be of use.

    Own: 0.09 max(0.8, 0.6) = 0.072 and 0.18 max(0.6, 0.8) = 0.144. Beside, with sum U t = 0.27: 0.9 (0.1 * 0.2 + 0.18)
    = 0.18 and 0.2 (0.9 * 0.9 + 0.09) = 0.18. Favoured, the second would be 0.144 + 0.18 + 0.18 / 0.4.
    """
    numbers = {"floor": (0.8, 0.1), "ceiling": (0.9, 0.2), "value_distance": (0.1, 0.9), "variance": (10.0, 10.0)}
    row = {name: torch.tensor(values).double()[None, None, None] for name, values in numbers.items()}
    at = replace(one_row(*random_row(0, 2, 1.0)), value_deviation=10 * torch.ones(1, 1, 1).double(), **row)
    assert third_keys(at, UNIT).flatten().tolist() == pytest.approx([0.252, 0.324])


def test_joining_heads_that_write_to_one_place_by_hand():
    """Two heads, |V_h| = 1, side by side sqrt(2), on top of one another 1; slope deviations 1 and 1, variance weights
    1/2 and 3/8. One by one 2 (sqrt(1/2) + sqrt(3/8)) = 2.64, by the weights of both 2 sqrt(2) sqrt(7/8) = 2.65, by the
    larger weights 2 sqrt(2) sqrt(1/2) = 2: the last is taken."""
    one = one_row(*random_row(0, 2, 1.0))
    two, zero = torch.ones(1, 2, 1).double(), torch.zeros(1, 2, 1).double()
    weights = torch.tensor([0.5, 0.375]).double()[None, :, None, None].expand(1, 2, 1, 2)
    flat = {
        "value_deviation": zero,
        "slope_deviation": two,
        "steepest": zero,
        "strongest": zero,
        "logit_deviation": zero,
    }
    wide = ("value_distance", "slope_distance", "key_slope", "logit_slope")
    wide = {name: torch.zeros(1, 2, 1, 2).double() for name in wide}
    at = replace(one, variance=weights, ceiling=weights, floor=weights, **flat, **wide)
    layer = beside_a_head_that_reads_one_atom(scalar_layer(0.0), 0.0)
    norms = replace(head_norms(layer), beside_value=math.sqrt(2), stacked_value=1.0)
    ball = ball_of(one_sample(scalar_measure([0.0, 1.0])), Frobenius(0.0))
    rows, _ = cross_terms(norms, ball, at, torch.zeros(1, 1, 2).double(), second_crossing(at))
    assert float(rows) == pytest.approx(2.0)


def test_weights_that_were_zero_say_nothing_of_others():
    """From 0 to 1 is no factor: 0 times infinity is no number."""
    zero, one = torch.zeros(1, 1, 1, 2).double(), torch.ones(1, 1, 1, 2).double()
    assert Joined(zero, zero[:, 0]).at_weights(one) is None
