"""Certificates against splitting: from whole tokens over pieces that are not light to any measure near."""

import math
from dataclasses import replace

import pytest
import torch

import robust_attn as ra
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.budget import TokenRadius, Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.certificates.measures import certify_context, certify_measures
from robust_attn.types import Covers, FieldError, UserError, Verdict
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

WITHIN = Wasserstein(0.01, TokenRadius())


@pytest.fixture(scope="module")
def place():
    """A layer with logits of a few units, and four tokens."""
    return random_layer(Case(), generator(0), scale=0.8), random_measure(Case(), generator(1), samples=1).sample(0)


def test_from_whole_tokens_to_any_measure(place):
    """As long as nothing can be split it is the certificate of the tokens; it ends at that of any measure."""
    layer, tokens = place
    whole = certify(layer, tokens, WITHIN, seed=5, pairs=0).output_change
    any_measure = certify_measures(layer, tokens, WITHIN).output_change
    found = [certify_measures(layer, tokens, WITHIN, context=n, seed=5).output_change for n in (7.9, 8, 1e4, 1e15)]
    assert found[0] == pytest.approx(whole, rel=1e-12)
    assert found[0] < found[1] < found[2] <= found[3] <= any_measure * (1 + 1e-12)


def test_without_a_support_a_context_is_enough(place):
    layer, tokens = place
    near = certify_measures(layer, tokens, Wasserstein(0.01), context=100, seed=5)
    assert near.covers is Covers.CONTEXT
    assert near.context == 100
    assert near.lightest == pytest.approx(0.01)
    assert near.seed == 5
    with pytest.raises(UserError, match="infinite context needs a support"):
        certify_measures(layer, tokens, Wasserstein(0.01), context=math.inf)
    with pytest.raises(UserError, match="needs a support"):
        certify_measures(layer, tokens, Wasserstein(0.01))


def test_deterministic_certificates_never_fail(place):
    layer, tokens = place
    sure = certify_measures(layer, tokens, WITHIN, context=100, deterministic=True)
    assert sure.failure_probability == 0
    assert sure.seed is None
    assert not sure.named("context.second_order").applies
    assert sure.output_change >= certify_measures(layer, tokens, WITHIN, context=100, seed=1).output_change


def test_what_a_context_cannot_be(place):
    layer, tokens = place
    with pytest.raises(FieldError, match=r"at least 1, got 0\.5"):
        certify_context(layer, one_sample(tokens), WITHIN, context=0.5, lipschitz=None)


def test_samples_of_a_batch_do_not_matter_to_one_another():
    layer = random_layer(Case(), generator(0))
    batch = random_measure(Case(masses="padded"), generator(2), samples=2)
    chosen = {"context": 50, "lipschitz": None}
    together = certify_context(layer, batch, WITHIN, **chosen)
    alone = [certify_context(layer, one_sample(batch.sample(i)), WITHIN, **chosen)[0] for i in range(2)]
    assert [each.output_change for each in together] == pytest.approx([each.output_change for each in alone])


@pytest.mark.slow
@pytest.mark.parametrize("context", [20.0, 1e3])
def test_no_sliver_within_the_context_exceeds_it(place, context):
    layer, tokens = place
    budget = replace(WITHIN, radius=0.1)
    attack = MassSplit(masses=Masses.SLIVER, context=context, steps=8)
    seen = attack(layer, tokens, budget, generator=generator(0)).observation
    promised = certify_measures(layer, tokens, budget, context=context, seed=2)
    assert float(seen.base.masses.min()) >= promised.lightest
    assert float(seen.output_change) <= promised.output_change


def test_huge_logits_leave_the_hull():
    """Logits of 1e5: nothing beyond the hull of pieces is known, and nothing becomes not a number."""
    layer, tokens = scalar_layer(1e5), scalar_measure([-1.0, 0.3, 1.0])
    found = certify_measures(layer, tokens, Wasserstein(0.01), context=100, deterministic=True)
    assert found.bound in {"context.hull", "split.hull"}
    assert found.output_change < 3


def test_weights_that_are_no_numbers_are_unknown(place):
    layer, tokens = place
    broken = replace(layer, value=layer.value * math.nan)
    (found,) = certify_context(broken, one_sample(tokens), WITHIN, context=10, lipschitz=None)
    assert math.isnan(found.output_change)


def test_it_is_public(place):
    layer, tokens = place
    assert ra.certify_measures is certify_measures
    single = certify_measures(layer.to(torch.float32), tokens.to(torch.float32), WITHIN, context=10, seed=1)
    assert single.output_change > 0


def test_what_a_certificate_does_not_cover_is_refused(place):
    """Whole tokens against copies, a short context against a light sliver; what is covered gets a verdict."""
    layer, tokens = place
    split = MassSplit(2, 2, masses=Masses.EQUAL)(layer, tokens, WITHIN, generator=generator(0)).observation
    whole = certify(layer, tokens, WITHIN, deterministic=True)
    assert whole.covers is Covers.ATOMS
    with pytest.raises(ValueError, match="displacements of 4 atoms, none split, but 8 moved"):
        whole.verdicts(split)
    assert certify(layer, split.base, WITHIN, deterministic=True).verdicts(split) == (Verdict.HOLDS,)
    (near,) = certify_context(layer, one_sample(tokens), WITHIN, context=8, lipschitz=None)
    assert near.verdicts(split) == (Verdict.HOLDS,)
    (short,) = certify_context(layer, one_sample(tokens), WITHIN, context=5, lipschitz=None)
    with pytest.raises(ValueError, match="pieces of at least 1/5, but one of 1/8 was moved: ask for context=8"):
        short.verdicts(split)
    assert certify_measures(layer, tokens, WITHIN).covers is Covers.MEASURES


@pytest.mark.parametrize(
    ("values", "radius"),
    [(1.0, 1e160), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((1e156, 0.1), (1e200, 1e300)))],
)
def test_sizes_whose_squares_are_no_numbers_are_unknown_and_raise_nothing(values, radius):
    layer, measure = scalar_layer(2.0, values), scalar_measure([0.0, 1.0])
    for limits in ({"context": 64.0}, {}):
        budget = Wasserstein(radius, None if limits else TokenRadius())
        certificate = certify_measures(layer, measure, budget, **limits)
        assert certificate.bound is None
        assert math.isnan(certificate.output_change)
