from typing import ClassVar

import pytest
import torch

from robust_attn.attacks.duplicate import Duplicate, repetition, repetition_changes
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.certificates.measures import certify_measures
from robust_attn.types import UserError
from tests.attacks.laws import KINDS, AttackLaws
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_measure


class TestDuplicate(AttackLaws):
    attack = Duplicate(2)
    refused: ClassVar = {("layer", "frobenius"), ("layer", "per_token"), *(("loss", kind) for kind in KINDS)}
    weak: ClassVar = {("layer", "wasserstein")}


def test_the_parts_of_a_repetition_by_hand():
    """Two tokens of mass 1/2, the second inserted again: masses 1/3, 1/3, 1/3, so 1/6 leaves the first."""
    base, after = repetition(scalar_measure([0.0, 1.0]), 1, 1)
    assert base.masses.tolist() == pytest.approx([1 / 3, 1 / 2, 1 / 6, 0.0])
    assert after[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("repeats", [1, 3])
def test_it_is_the_text_with_the_token_written_more_often(repeats):
    """The outputs of the tokens that stay are those of the layer on n + r tokens of equal mass."""
    layer, sample = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
    token = 2
    longer = TokenMeasure.uniform(torch.cat((sample.points, sample.points[token].expand(repeats, -1))))
    base, after = repetition(sample, token, repeats)
    assert torch.allclose(layer(base.with_points(after))[: sample.length], layer(longer)[: sample.length], atol=1e-12)
    moved = layer(longer)[: sample.length] - layer(sample)
    expected = Wasserstein(1.0).norm(moved[None], one_sample(sample))
    assert float(repetition_changes(layer.linearize(sample), repeats)[token]) == pytest.approx(float(expected))


def test_the_token_chosen_is_the_best_one_and_its_certificate_holds():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    result = Duplicate(2)(layer, measure, Wasserstein(0.0), generator=generator(2))
    at = layer.linearize(measure.sample(0))
    best = torch.stack([repetition_changes(at, repeats) for repeats in (1, 2)])
    token = int(best.argmax()) % measure.length
    mass = result.measure.masses[0] * (result.measure.points[0] == measure.points[0, token]).all(-1)
    assert float(mass.sum()) > float(measure.masses[0, token])
    certificate = certify_measures(layer, measure, result.budget)
    assert float(result.observation.w2_output[0]) <= certificate.output_change * (1 + 1e-9)
    assert float(result.observation.w2_input[0]) <= result.budget.radius * (1 + 1e-9)


@pytest.mark.parametrize("case", [Case(mask=Mask.CAUSAL), Case(rotary=True)], ids=str)
def test_layers_with_positions_are_refused(case):
    with pytest.raises(UserError, match="without causal mask and rotary positions"):
        Duplicate()(random_layer(case, generator(0)), random_measure(case, generator(1)), Wasserstein(0.1))


def test_no_repetition_is_refused():
    with pytest.raises(UserError, match="repeats must be at least 1, got 0"):
        Duplicate(0)


def test_other_budgets_than_wasserstein_are_refused():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    with pytest.raises(UserError, match="take a Wasserstein budget, not frobenius"):
        Duplicate()(layer, measure, Frobenius(0.1), generator=generator(2))
