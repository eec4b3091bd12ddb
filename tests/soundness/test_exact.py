"""Exact changes: against values by hand, against the layer within its stated rounding, and against mpmath."""

import math
import sys
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.budget import Frobenius, PerToken, TokenRadius, Wasserstein
from robust_attn.soundness import reference
from robust_attn.soundness.exact import (
    Judge,
    Sliver,
    constant_lower,
    exact_change,
    exact_constant_lower,
    exact_output,
)
from robust_attn.soundness.reference import Reference
from tests.cases import CASES, Case, generator, random_layer, random_measure, scalar_layer, scalar_measure

BUDGETS = [Wasserstein(0.3), Frobenius(0.3), PerToken(0.3), Wasserstein(0.3, TokenRadius()), Frobenius(0.3, 9.0)]
ALMOST = (193676382.75364074, 130834106.55662285, 189803495.42310098, 280969965.66896015)


def column(*entries: float) -> torch.Tensor:
    return torch.tensor(entries, dtype=torch.float64)[:, None]


def values_that_cancel() -> AttentionLayer:
    """W_O W_V = x p - y q, which is zero in float64 and 7.447... exactly."""
    x, y, p, q = ALMOST
    return AttentionLayer(
        query=torch.zeros(1, 1, 1).double(),
        query_bias=torch.zeros(1, 1).double(),
        key=torch.zeros(1, 1, 1).double(),
        key_bias=torch.zeros(1, 1).double(),
        value=column(p, q)[None],
        output=torch.tensor([[[x, -y]]], dtype=torch.float64),
        offset=torch.zeros(1).double(),
        scale=1.0,
    )


def test_one_token_is_multiplied_by_the_value_matrix():
    layer = AttentionLayer.single_head(torch.eye(2).double(), torch.tensor([[3.0, 4.0]]).double())
    measure = TokenMeasure.uniform(torch.tensor([[1.0, 1.0]]).double())
    found = exact_change(layer, measure, torch.tensor([[1.0, 1.25]]).double(), Frobenius(0.25))
    assert (found.output_lower, found.output_upper) == (1.0, 1.0)
    assert (found.input_lower, found.input_upper) == (0.25, 0.25)
    assert found.inside


def test_two_tokens_by_hand():
    """Row 1 of (1, 0) with A = 1 attends with e / (1 + e) to itself, row 2 with one half; V = 3."""
    lower, upper = exact_output(scalar_layer(1.0, 3.0), scalar_measure([1.0, 0.0]))
    with mpmath.workdps(40):
        wanted = [3 * mpmath.e / (1 + mpmath.e), mpmath.mpf(1.5)]
        for low, high, value in zip(lower.flatten().tolist(), upper.flatten().tolist(), wanted, strict=True):
            assert low <= value <= high
    assert bool(((upper - lower) <= 1e-15).all())


def test_masses_of_two_tokens_by_hand():
    lower, _ = exact_output(scalar_layer(0.0), scalar_measure([4.0, 0.0], [0.25, 0.75]))
    assert lower.flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_the_layer_is_within_its_stated_rounding(case, dtype):
    g = generator(3)
    layer = replace(random_layer(case, g, dtype=dtype), scale=-0.7 if case.bias else 0.5)
    measure = random_measure(case, g).to(dtype).sample(0)
    double, base = layer.to(torch.float64), measure.to(torch.float64)
    lower, upper = exact_output(layer, measure)
    stated = evaluation_error(double, base)
    found = double(base)
    assert bool((torch.maximum(found - lower, upper - found).norm(dim=-1) <= stated + 1e-14).all())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_changes_and_derivatives_agree_with_float64(case):
    g = generator(5)
    layer, measure = random_layer(case, g), random_measure(case, g).sample(0)
    base = measure.to(torch.float64)
    for budget in BUDGETS:
        field = budget.project(budget.sample(base, g), base)
        found = exact_change(layer, measure, base.points + field, budget)
        seen = float(budget.norm(layer(base.with_points(found.points)) - layer(base), base))
        assert found.inside
        assert found.input_upper <= budget.radius
        assert found.output_lower <= found.output_upper <= found.output_lower * (1 + 1e-12)
        assert found.output_lower == pytest.approx(seen, rel=1e-10)
    moved = layer.linearize(base).jvp(torch.where(base.present[:, None], field, 0.0))
    for weights in (base.masses, base.present.double()):
        sizes = [(weights[:, None] * rows**2).sum().sqrt() for rows in (moved, field)]
        assert exact_constant_lower(layer, measure, field, weights) == pytest.approx(float(sizes[0] / sizes[1]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_mpmath_finds_the_same(case):
    g = generator(6)
    layer, measure = random_layer(case, g), random_measure(case, g).sample(0)
    field = 0.1 * torch.randn(measure.points.shape, generator=g, dtype=torch.float64)
    field = torch.where(measure.present[:, None], field, 0.0)
    found = [
        Judge.of(layer, measure, Wasserstein(9.0, 99.0), numbers).by(field)
        for numbers in (reference.flint_balls(), reference.mpmath_intervals())
    ]
    assert found[0].inside
    assert found[1].inside
    assert found[0].output_lower == found[1].output_lower
    assert found[0].output_upper == found[1].output_upper


def test_the_formula_in_mpmath():
    """One case written out once more, with biases, a causal mask, two heads that share keys, and rotation."""
    case, g = Case(Mask.CAUSAL, 1, rotary=True, bias=True, masses="unequal"), generator(8)
    layer, measure = random_layer(case, g), random_measure(case, g).sample(0).to(torch.float64)
    lower, upper = exact_output(layer, measure)
    with mpmath.workdps(50):
        for i in range(measure.length):
            row = mpmath.matrix(layer.offset.tolist())
            for head in range(2):
                weights = [0] * measure.length
                for j in range(i + 1):
                    query = turned(affine(layer.query[head], layer.query_bias[head], measure.points[i]), layer, i)
                    key = turned(affine(layer.key[0], layer.key_bias[0], measure.points[j]), layer, j)
                    logit = layer.scale * sum(a * b for a, b in zip(query, key, strict=True))
                    weights[j] = mpmath.mpf(float(measure.masses[j])) * mpmath.exp(logit)
                for j in range(i + 1):
                    value = matrix(layer.value[0]) * mpmath.matrix(measure.points[j].tolist())
                    row += weights[j] / sum(weights) * (matrix(layer.output[head]) * value)
            ends = zip(lower[i].tolist(), row, upper[i].tolist(), strict=True)
            assert all(low <= value <= high for low, value, high in ends)


def matrix(tensor):
    return mpmath.matrix(tensor.tolist())


def affine(weights, bias, point):
    return list(matrix(weights) * mpmath.matrix(point.tolist()) + mpmath.matrix(bias.tolist()))


def turned(vector, layer, position):
    angles = torch.tensor(float(position)) * layer.rotary.inverse_frequencies
    cosines, sines = (wave.double().tolist() for wave in (angles.cos(), angles.sin()))
    pairs = list(zip(vector[:2], vector[2:], cosines, sines, strict=True))
    return [a * c - b * s for a, b, c, s in pairs] + [b * c + a * s for a, b, c, s in pairs]


def test_a_wrong_certificate_is_noticed_however_little_it_is_wrong():
    layer, measure, budget = scalar_layer(3.0), scalar_measure([0.3, -0.8, 1.0]), Wasserstein(0.5)
    found = exact_change(layer, measure, measure.points + 0.4, budget)
    assert found.violates(found.output_lower * (1 - 1e-15))
    assert not found.violates(found.output_upper)


def test_what_is_outside_violates_nothing():
    layer, measure = scalar_layer(3.0), scalar_measure([0.3, -0.8, 1.0])
    found = replace(exact_change(layer, measure, measure.points + 0.4, Wasserstein(0.5)), inside=False)
    assert not found.violates(0.0)


def test_a_change_that_float64_gets_wrong():
    layer, measure = values_that_cancel(), scalar_measure([0.0, 1.0])
    there = measure.with_points(measure.points + 1)
    found = exact_change(layer, measure, there.points, Wasserstein(1.0))
    x, y, p, q = map(Fraction, ALMOST)
    assert Fraction(found.output_lower) <= abs(x * p - y * q) <= Fraction(found.output_upper)
    assert found.violates(7.447)
    seen = Wasserstein(1.0).norm(layer(there) - layer(measure), measure)
    assert abs(float(seen) - found.output_lower) > 0.5


def test_digits_are_added_until_the_change_is_known():
    """1e100 x - 1e100 x + 1e-20 x: sixty digits say nothing about it."""
    base = scalar_layer(0.0)
    layer = replace(
        base,
        query=base.query.expand(3, 1, 1),
        query_bias=base.query_bias.expand(3, 1),
        output=torch.tensor([1e100, -1e100, 1e-20], dtype=torch.float64)[:, None, None],
    )
    measure = TokenMeasure.uniform(column(1 / 3, 1 / 7))
    found = exact_change(layer, measure, column(1 / 3 + 0.1, 1 / 7 + 0.1), PerToken(1.0))
    assert found.output_lower == pytest.approx(1e-21, rel=1e-14, abs=0)


def test_what_is_not_a_number_violates_nothing():
    found = exact_change(scalar_layer(math.inf), scalar_measure([1.0, 2.0]), column(1.5, 2.0), PerToken(1.0))
    assert math.isnan(found.output_lower)
    assert not found.violates(0.0)


def test_a_perturbation_outside_by_rounding_is_pulled_in():
    layer, measure = scalar_layer(1.0), scalar_measure([0.1, 0.2, 0.7])
    for budget in (Wasserstein(0.1), Frobenius(0.1), PerToken(0.1)):
        for index in range(20):
            field = budget.sample(measure, generator(index))
            points = torch.nextafter(measure.points + field, measure.points + 2 * field)
            found = exact_change(layer, measure, points, budget)
            assert found.inside
            assert found.input_upper <= 0.1
            assert found.input_lower >= 0.1 * (1 - 1e-13)
            assert bool((found.points - points).abs().max() <= 1e-14)


def test_far_from_the_origin_a_displacement_need_not_lead_to_floats():
    measure = scalar_measure([1e8, 1e8 + 1])
    judge = Judge.of(scalar_layer(0.0), measure, PerToken(1e-12))
    found = judge.by(torch.full((2, 1), 1e-12, dtype=torch.float64))
    assert found.inside
    assert found.output_lower == pytest.approx(1e-12, abs=0)
    assert judge.to_points(measure.points + 1e-8).output_upper == 0


def test_padding_must_stay():
    measure = TokenMeasure.padded(torch.ones(3, 2).double(), torch.tensor(2))
    judge = Judge.of(AttentionLayer.single_head(torch.eye(2).double(), torch.eye(2).double()), measure, Frobenius(1.0))
    field = torch.zeros(3, 2).double()
    field[2] = 1e-3
    assert judge.by(field).output_upper == 0
    field[0] = 1e-3
    field[2] = 0
    assert judge.by(field).output_lower > 0


@pytest.mark.parametrize(("support", "allowed"), [(TokenRadius(), 2.0), (2.5, 2.5), (None, 3.0)])
def test_the_support_is_kept(support, allowed):
    measure = scalar_measure([1.0, 2.0])
    found = exact_change(scalar_layer(0.0), measure, column(3.0, 2.0), Frobenius(2.0, support))
    assert found.inside
    assert float(found.points.max()) <= allowed
    assert float(found.points[0]) == pytest.approx(allowed, rel=0.26)


def test_a_point_at_the_edge_is_inside():
    found = exact_change(scalar_layer(0.0), scalar_measure([1.0]), column(2.0), Wasserstein(1.0, 2.0))
    assert found.inside
    assert found.points.tolist() == [[2.0]]


def test_a_sliver_of_the_issue():
    """A = 8, V = 1, X = (1, 1/2): what is sent from 1 to 10 for 0.01 draws both tokens almost all the way."""
    judge = Judge.of(scalar_layer(8.0), scalar_measure([1.0, 0.5]), Wasserstein(0.01, 10.0))
    found = judge.slivers([Sliver(0, 1e-4 / (0.5 * 81), (9.0,))])
    assert found.inside
    assert found.input_upper <= 0.01
    assert found.output_lower == pytest.approx(9.03, abs=0.01)
    assert found.points.flatten().tolist() == pytest.approx([1.0, 0.5, 10.0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slivers_that_are_whole_tokens_are_moves(case):
    g = generator(9)
    layer, measure = random_layer(case, g), random_measure(case, g).sample(0)
    judge = Judge.of(layer, measure, Wasserstein(5.0))
    field = torch.where(measure.present[:, None], torch.randn(measure.points.shape, generator=g).double(), 0.0)
    whole = judge.by(field)
    here = [i for i in range(measure.length) if measure.present[i]]
    for shares in ((1.0,), (0.5, 0.5), (0.25, 0.75)):
        parts = judge.slivers([Sliver(i, share, tuple(field[i].tolist())) for i in here for share in shares])
        assert parts.inside
        assert parts.output_lower == pytest.approx(whole.output_lower, rel=1e-14)
        assert parts.input_upper == pytest.approx(whole.input_upper, rel=1e-14)


def test_a_sliver_agrees_with_a_measure_that_has_it_as_an_atom():
    layer = replace(scalar_layer(1.5), mask=Mask.CAUSAL)
    base = scalar_measure([0.5, -1.0], [0.25, 0.75])
    found = Judge.of(layer, base, Wasserstein(5.0)).slivers([Sliver(1, 1 / 3, (2.5,))])
    share = float(Fraction(1 / 3))
    split = TokenMeasure(
        column(0.5, -1.0, 1.5),
        torch.tensor([0.25, 0.75 * (1 - share), 0.75 * share], dtype=torch.float64),
        torch.tensor([0, 1, 1]),
    )
    change = layer(split) - layer(base)[[0, 1, 1]]
    assert found.output_lower == pytest.approx(float((split.masses[:, None] * change**2).sum().sqrt()), rel=1e-12)


def test_slivers_are_refused_where_they_make_no_sense():
    measure = scalar_measure([1.0, 0.5])
    with pytest.raises(TypeError, match="Wasserstein"):
        Judge.of(scalar_layer(1.0), measure, Frobenius(1.0)).slivers([Sliver(0, 0.5, (1.0,))])
    with pytest.raises(ValueError, match="more than one"):
        Judge.of(scalar_layer(1.0), measure, Wasserstein(1.0)).slivers([Sliver(0, 0.5, (1.0,)), Sliver(0, 0.6, (1.0,))])


def test_the_constant_is_attained_by_the_singular_direction():
    g = generator(4)
    layer, measure = random_layer(CASES[5], g), random_measure(CASES[5], g).sample(0)
    roots = measure.masses.sqrt()
    dense = torch.func.jacrev(lambda points: layer(measure.with_points(points)))(measure.points)
    scaled = roots[:, None, None, None] * dense / roots[None, None, :, None]
    _, values, right = torch.linalg.svd(scaled.flatten(0, 1).flatten(1))
    direction = right[0].reshape(measure.points.shape) / roots[:, None]
    assert exact_constant_lower(layer, measure, direction) == pytest.approx(float(values[0]), rel=1e-12)


def test_the_constant_of_what_does_not_count():
    measure = TokenMeasure.padded(column(1.0, 2.0, 3.0), torch.tensor(2))
    layer = scalar_layer(1.0)
    assert exact_constant_lower(layer, measure, torch.zeros(3, 1).double()) == 0
    assert exact_constant_lower(layer, measure, column(0.0, 0.0, 1.0)) == 0
    same = [exact_constant_lower(layer, measure, column(1.0, 2.0, padding)) for padding in (0.0, 7.0)]
    assert same[0] == same[1] > 0


def test_the_constant_of_values_that_cancel():
    found = exact_constant_lower(values_that_cancel(), scalar_measure([0.0, 1.0]), column(1.0, 1.0))
    assert found == pytest.approx(7.447197418287178, rel=1e-14)


def test_copies_of_a_token_have_the_constant_of_the_split_measure():
    layer, measure = scalar_layer(2.0), scalar_measure([0.4, -1.0])
    copies = Reference.of(layer, measure).split([0, 0, 1, 1], [Fraction(1, 2)] * 4)
    direction = column(1.0, -1.0, 0.5, 0.0)
    wanted = exact_constant_lower(layer, measure.split(2), direction)
    assert constant_lower(copies, direction, measure.split(2).masses) == wanted > 0


def test_without_flint_there_is_mpmath(monkeypatch):
    for cached in (reference.arithmetic, reference.flint_balls):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "flint", None)
    try:
        assert reference.arithmetic().name == "mpmath"
        found = exact_change(scalar_layer(0.0), scalar_measure([1.0]), column(2.0), Wasserstein(1.0))
        assert (found.output_lower, found.output_upper, found.inside) == (1.0, 1.0, True)
    finally:
        reference.arithmetic.cache_clear()


@pytest.mark.parametrize("numbers", [reference.flint_balls(), reference.mpmath_intervals()], ids=lambda each: each.name)
def test_floats_are_rounded_outwards(numbers):
    with numbers.digits(60):
        third = numbers.number(1.0) / numbers.number(3.0)
        low, high = numbers.ends(third)
        assert Fraction(low) < Fraction(1, 3) < Fraction(high)
        assert math.nextafter(low, math.inf) == high
        assert numbers.ends(numbers.number(0.1)) == (0.1, 0.1)
        huge = numbers.number(1e300) * numbers.number(1e300)
        assert numbers.ends(huge) == (sys.float_info.max, math.inf)
        small = numbers.number(1e-300) * numbers.number(1e-300)
        assert numbers.ends(small) == (0.0, 5e-324)


def test_precision_is_left_as_it_was():
    import flint

    before = flint.ctx.prec, mpmath.iv.prec, mpmath.mp.prec
    for numbers in (reference.flint_balls(), reference.mpmath_intervals()):
        exact_output(scalar_layer(1.0), scalar_measure([1.0, 2.0]), numbers)
    assert (flint.ctx.prec, mpmath.iv.prec, mpmath.mp.prec) == before
