"""Biases by position and attention sinks: values by hand, certificates against attacks, the layer in sixty digits."""

import math
from dataclasses import replace

import pytest
import torch

import robust_attn as ra
from robust_attn.bounds.registry import GLOBAL_BOUNDS
from robust_attn.bounds.setting import BallSetting
from robust_attn.spectral.norms import head_norms
from tests.attention.sixty_digits import largest_error
from tests.cases import (
    ADDED_CASES,
    generator,
    one_place,
    scalar_layer,
    scalar_measure,
)

KINDS = ADDED_CASES[::3] + ADDED_CASES[2:5:2]


def sink(logit: float, value: float = 0.0) -> ra.Sinks:
    return ra.Sinks(torch.tensor([logit]).double(), torch.tensor([[value]]).double())


def table(rows: list[list[float]]) -> ra.PositionBias:
    return ra.PositionBias(torch.tensor([rows]).double())


def test_a_bias_by_hand():
    """a = 0, so P_0 = (1, e^b) / (1 + e^b) with e^b = 3: three quarters of the attention go to the second token."""
    layer = replace(scalar_layer(0.0), position_bias=table([[0.0, math.log(3)], [0.0, 0.0]]))
    assert layer(scalar_measure([0.0, 1.0])).flatten().tolist() == pytest.approx([0.75, 0.5])


def test_a_sink_by_hand():
    """Two tokens at logit 0 and a sink at log 2: each draws a quarter, the sink one half, of value zero or one."""
    tokens = scalar_measure([0.0, 1.0])
    assert replace(scalar_layer(0.0), sinks=sink(math.log(2)))(tokens).flatten().tolist() == pytest.approx([0.25] * 2)
    shifted = replace(scalar_layer(0.0), sinks=sink(math.log(2), 1.0))
    assert shifted(tokens).flatten().tolist() == pytest.approx([0.75] * 2)


def test_a_causal_sink_stands_beside_the_tokens_that_a_row_sees():
    """e^0 for each token seen and e^0 for the sink: the first row draws 1/2, the second 1/3 of each."""
    layer = replace(scalar_layer(0.0), mask=ra.Mask.CAUSAL, sinks=sink(0.0))
    assert layer(scalar_measure([1.0, 1.0])).flatten().tolist() == pytest.approx([1 / 2, 2 / 3])


def test_tokens_are_positions_with_mass():
    tokens = torch.zeros(2, 4, 1).double()
    padded = ra.TokenMeasure.padded(tokens, torch.tensor([4, 2]))
    assert padded.tokens.tolist() == [4, 2]
    assert padded.split(3).tokens.tolist() == [4, 2]


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_splitting_changes_nothing(case):
    layer, measure = one_place(case)
    split = layer(measure.split(2))[::2]
    assert (split - layer(measure))[measure.present].abs().max() <= 1e-13


def test_a_sink_that_draws_nothing_is_none():
    layer, measure = one_place(replace(KINDS[0], sinks=False, position_bias=False))
    nothing = ra.Sinks(torch.full((2,), -800.0).double(), torch.ones(2, 3).double())
    assert torch.equal(replace(layer, sinks=nothing)(measure), layer(measure))


def test_a_bias_that_is_the_same_in_a_row_changes_nothing():
    layer, measure = one_place(replace(KINDS[0], sinks=False, position_bias=False))
    rows = torch.randn(2, 8, 1, generator=generator(0)).double().expand(-1, -1, 8)
    assert (replace(layer, position_bias=ra.PositionBias(rows))(measure) - layer(measure)).abs().max() <= 1e-14


def test_what_does_not_fit_is_refused():
    layer, measure = one_place(KINDS[0])
    with pytest.raises(ValueError, match="positions 0 to 1, got positions 0 to 3"):
        replace(layer, position_bias=ra.PositionBias(torch.zeros(2, 2, 2).double()))(measure)
    with pytest.raises(ValueError, match="3 heads do not fit a layer of 2"):
        replace(layer, sinks=ra.Sinks(torch.zeros(3).double(), torch.zeros(3, 3).double()))
    with pytest.raises(ValueError, match="hidden belongs to the mask"):
        table([[0.0, -math.inf], [0.0, 0.0]])
    with pytest.raises(ValueError, match="finite logit"):
        sink(math.nan)


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_heads_add_up(case):
    layer, measure = one_place(case)
    heads = sum(layer.head(head)(measure) for head in range(layer.heads)) + layer.offset
    assert (heads - layer(measure))[measure.present].abs().max() <= 1e-13
    assert layer.to(torch.float32).to(torch.float64).dtype == torch.float64


@pytest.mark.parametrize("case", ADDED_CASES, ids=str)
def test_the_layer_in_sixty_digits_agrees(case):
    assert largest_error(*one_place(case)) <= 1e-13


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_no_attack_exceeds_a_certificate(case):
    layer, measure = one_place(case)
    for budget in (ra.Wasserstein(0.05), ra.PerToken(0.3)):
        found = ra.Move(steps=12)(layer, measure, budget, generator=generator(1))
        changed = ra.observe(layer, measure, found.measure.points, budget).output_change
        certificate = ra.certify(layer, measure, budget)
        assert 0 < float(changed) <= float(certificate.output_change)
        assert certificate.bound != "local.hull" or budget.kind == "per_token"


@pytest.mark.parametrize("case", [case for case in KINDS if case.masses != "padded"], ids=str)
def test_slivers_stay_within_the_certificate_for_measures(case):
    layer, measure = one_place(case)
    budget = ra.Wasserstein(0.05, support=2 * float(measure.radius))
    certificate = ra.certify_measures(layer, measure, budget)
    for attack in (ra.MassSplit(copies=2, steps=12), ra.MassSplit(steps=6, masses=ra.Masses.SLIVER, context=1e10)):
        found = attack(layer, measure, budget, generator=generator(1))
        assert 0 < float(found.observation.output_change) <= float(certificate.output_change)
    assert certificate.named("split.local").applies == (not case.rotary and not case.sinks)


def test_the_spread_of_a_bias_and_the_radius_of_a_sink_by_hand():
    """|a| R^2 = 2 and rows of biases (0, 6), (1, -1): kappa = 2 + 6/2. A sink at 8 with |V| = 2 is as far as V 4."""
    layer = replace(scalar_layer(2.0, 2.0), position_bias=table([[0.0, 6.0], [1.0, -1.0]]), sinks=sink(0.0, 4.0))
    ball = BallSetting.of(layer, head_norms(layer), scalar_measure([1.0, -1.0]), ra.Wasserstein(0.1), radius=1.0)
    assert float(ball.kappa) == pytest.approx(5.0)
    assert float(ball.value_radius) == pytest.approx(4.0)
    assert float(ball.key_reach) == pytest.approx(8.0)
    hidden = replace(layer, mask=ra.Mask.CAUSAL)
    seen = BallSetting.of(hidden, head_norms(layer), scalar_measure([1.0, -1.0]), ra.Wasserstein(0.1), radius=1.0)
    assert float(seen.bias_spread) == pytest.approx(1.0)


def test_a_sink_with_a_value_over_values_of_zero_leaves_global_bounds_infinite():
    layer = replace(scalar_layer(2.0, 1.0), value=torch.zeros(1, 1, 1).double(), sinks=sink(0.0, 1.0))
    ball = BallSetting.of(layer, head_norms(layer), scalar_measure([1.0, -1.0]), ra.Wasserstein(0.1), radius=1.0)
    found = [bound(ball) for bound in GLOBAL_BOUNDS]
    assert any(bound.applies and math.isinf(bound.output_change) for bound in found)
    assert not any(math.isnan(bound.output_change) for bound in found if bound.applies)
    certificate = ra.certify(layer, scalar_measure([1.0, -1.0]), ra.Wasserstein(0.1))
    assert math.isfinite(certificate.output_change)


def test_a_small_move_beside_a_sink_attains_the_constant():
    """One token t and a sink of logit 0: f = t e^{t^2}/(e^{t^2} + 1), slope P (1 + 2 t^2 (1 - P))."""
    layer = replace(scalar_layer(1.0), sinks=sink(0.0))
    t, p = 0.5, 1 / (1 + math.exp(-0.25))
    found = ra.local_lipschitz(layer, scalar_measure([t]))
    assert float(found.lower) == pytest.approx(p * (1 + 2 * t * t * (1 - p)))
