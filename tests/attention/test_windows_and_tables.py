"""Certificates of layers with a sliding window and a rotary table, against attacks and the layer in sixty digits."""

import pytest
import torch

import robust_attn as ra
from robust_attn.soundness.exact import Reference
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure, windowed

KINDS = [case for case in CASES if case.rotary and case.groups == 1 and case.bias] + CASES[1:8:3]


def made(case: Case) -> tuple[ra.AttentionLayer, ra.TokenMeasure]:
    g = generator(5)
    return windowed(random_layer(case, g, scale=0.7), case, g), random_measure(case, g, samples=1).sample(0)


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_no_attack_exceeds_a_certificate(case):
    layer, measure = made(case)
    for budget in (ra.Wasserstein(0.05), ra.Frobenius(0.3)):
        found = ra.Move(steps=12)(layer, measure, budget, generator=generator(1))
        changed = ra.observe(layer, measure, found.measure.points, budget).output_change
        certificate = ra.certify(layer, measure, budget)
        assert 0 < float(changed) <= float(certificate.output_change)
        assert certificate.bound is not None


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_splits_of_a_window_stay_within_the_certificate_for_measures(case):
    layer, measure = made(case)
    if case.masses == "padded":
        pytest.skip("certificates for measures speak of measures without padding")
    budget = ra.Wasserstein(0.05, support=2 * float(measure.radius))
    found = ra.MassSplit(copies=2, steps=12)(layer, measure, budget, generator=generator(1))
    changed = ra.observe(layer, measure.split(2), found.measure.points, budget).output_change
    assert 0 < float(changed) <= float(ra.certify_measures(layer, one_sample(measure), budget).output_change)


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_the_layer_in_sixty_digits_agrees(case):
    layer, measure = made(case)
    exact = Reference.of(layer, measure)
    rows = [[sum(exact.numbers.ends(number)) / 2 for number in row] for row in exact.outputs()]
    present = measure.present
    difference = (torch.tensor(rows, dtype=torch.float64) - layer(measure))[present].abs().max()
    assert float(difference) <= 1e-13
