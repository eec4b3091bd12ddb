"""Norms of queries and keys: values by hand, the constants of the proofs, certificates, the layer in sixty digits."""

import math
from dataclasses import replace

import pytest
import torch

import robust_attn as ra
from robust_attn.attention.head_norm import CURVATURE, HeadNorm
from robust_attn.soundness.exact import exact_constant_lower
from robust_attn.spectral.norms import head_norms
from robust_attn.spectral.pairs import pair_norms
from tests.attention.sixty_digits import largest_error
from tests.cases import NORM_CASES, generator, one_place, one_sample, random_layer, scalar_layer
from tests.cases import scalar_measure as scalars

KINDS = NORM_CASES[:2] + NORM_CASES[4:6]


def rms(eps: float, width: int = 3) -> HeadNorm:
    return HeadNorm(torch.ones(1, width).double(), torch.zeros(1, width).double(), eps)


def test_a_norm_by_hand():
    """z = (3, 4): |z|^2 / 2 = 12.5, and with eps = 12.5 rho = 5; gains 1 and 2, shifts 0 and 1."""
    norm = HeadNorm(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0]]), 12.5)
    assert norm(torch.tensor([[[3.0, 4.0]]])).flatten().tolist() == pytest.approx([0.6, 2.6])
    assert float(norm.largest) == pytest.approx(2 * math.sqrt(2) + 1)


def test_a_normalised_layer_by_hand():
    """One coordinate and a tiny eps: queries and keys become signs, so like tokens draw e and unlike ones 1/e."""
    layer = replace(scalar_layer(5.0), query_norm=rms(1e-18, 1), key_norm=rms(1e-18, 1))
    share = math.e / (math.e + 1 / math.e)
    assert layer(scalars([2.0, -1.0])).flatten().tolist() == pytest.approx([3 * share - 1, 2 - 3 * share])


@pytest.mark.parametrize("eps", [1e-9, 0.3, 5.0])
def test_the_derivatives_are_within_the_constants_of_the_proof_and_attain_them(eps):
    """|DN| rho and |D^2 N[u, u]| sqrt(k) rho^2 over random z and u, and along the extreme ones of the proof."""
    g, norm = generator(1), rms(eps)
    z = torch.randn(4000, 3, generator=g, dtype=torch.float64) * 10 ** (
        4 * torch.rand(4000, 1, generator=g).double() - 2
    )
    u = torch.nn.functional.normalize(torch.randn(4000, 3, generator=g, dtype=torch.float64), dim=-1)
    z[0], u[0] = torch.tensor([math.sqrt(3 * eps / 2), 0, 0]), torch.tensor([1.0, 0.0, 0.0])  # |z|^2 = k eps / 2

    def first(at: torch.Tensor) -> torch.Tensor:
        return torch.func.jvp(lambda x: norm(x[None])[0], (at,), (u,))[1]

    rho = norm.root(z.square().sum(-1))
    assert float((first(z).norm(dim=-1) * rho).max()) <= 1 + 1e-12
    second = torch.func.jvp(first, (z,), (u,))[1].norm(dim=-1) * math.sqrt(3) * rho**2
    assert float(second.max()) <= CURVATURE * (1 + 1e-9)
    assert float(second[0]) == pytest.approx(CURVATURE, rel=1e-9)


def test_a_bad_norm_is_refused():
    with pytest.raises(ValueError, match="eps above"):
        rms(0.0)
    layer = random_layer(KINDS[0], generator(0))
    three = HeadNorm(torch.ones(3, 4).double(), torch.zeros(3, 4).double(), 1e-6)
    with pytest.raises(ValueError, match="norms of keys for 3 heads"):
        replace(layer, key_norm=three)


@pytest.mark.parametrize("case", NORM_CASES, ids=str)
def test_the_layer_in_sixty_digits_agrees(case):
    assert largest_error(*one_place(case)) <= 1e-13


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_the_constant_is_the_one_of_sixty_digits(case):
    layer, measure = one_place(case)
    found = ra.local_lipschitz(layer, one_sample(measure), seed=1)
    exact = exact_constant_lower(layer, measure, found.direction[0])
    assert exact <= float(found.upper[0])
    assert exact == pytest.approx(float(found.lower[0]), rel=1e-6)


@pytest.mark.parametrize("case", NORM_CASES, ids=str)
def test_heads_add_up_and_blocks_are_those_of_the_derivative(case):
    layer, measure = one_place(case)
    heads = sum(layer.head(head)(measure) for head in range(layer.heads)) + layer.offset
    assert (heads - layer(measure))[measure.present].abs().max() <= 1e-13
    dense = layer.linearize(measure).dense().unflatten(0, (measure.length, -1)).unflatten(-1, (measure.length, -1))
    blocks = torch.linalg.matrix_norm(dense.transpose(1, 2), 2)
    shown = measure.present[:, None] & measure.present
    assert (pair_norms(layer, measure) - blocks)[shown].abs().max() <= 1e-12


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_no_attack_exceeds_a_certificate(case):
    layer, measure = one_place(case)
    for budget in (ra.Wasserstein(0.005), ra.Frobenius(0.3)):
        found = ra.Move(steps=12)(layer, measure, budget, generator=generator(1))
        changed = ra.observe(layer, measure, found.measure.points, budget).output_change
        certificate = ra.certify(layer, measure, budget)
        assert 0 < float(changed) <= float(certificate.output_change)
        assert certificate.bound == "local.second_order" or budget.kind == "frobenius"


@pytest.mark.parametrize("case", [case for case in KINDS if case.masses != "padded"], ids=str)
def test_slivers_stay_within_the_certificate_for_measures(case):
    layer, measure = one_place(case)
    budget = ra.Wasserstein(0.05, support=2 * float(measure.radius))
    certificate = ra.certify_measures(layer, measure, budget)
    found = ra.MassSplit(steps=6, masses=ra.Masses.SLIVER, context=1e10)(layer, measure, budget, generator=generator(1))
    assert 0 < float(found.observation.output_change) <= float(certificate.output_change)
    assert not certificate.named("split.local").applies


def test_logits_of_normalised_layers_are_bounded_at_any_radius():
    """scale k max|gain|^2 without shifts: gains of one and k = 4 at scale 1/2 give 2."""
    layer = random_layer(replace(NORM_CASES[0], bias=False, rotary=False), generator(0))
    plain = HeadNorm(torch.ones(2, 4).double(), torch.zeros(2, 4).double(), 1e-6)
    norms = head_norms(replace(layer, query_norm=plain, key_norm=plain))
    for radius in (1.0, 1e6):
        assert norms.largest_logit(radius).tolist() == pytest.approx([2.0, 2.0])
