import math

import pytest

from robust_attn.attacks.baseline import RandomMove
from robust_attn.bounds.bound import not_applicable
from robust_attn.bounds.setting import BallSetting
from robust_attn.budget import Frobenius, Wasserstein
from robust_attn.certificates.layer import certify_batch
from robust_attn.certificates.radius import CertifiedRadius
from robust_attn.pipeline.checks import check_fields
from robust_attn.pipeline.jobs import LayerJob, Subject
from robust_attn.pipeline.parts import bound_parts, norms_part, radius_part, scale_part
from robust_attn.spectral.norms import head_norms
from robust_attn.types import Scope
from tests.cases import Case, generator, random_layer, random_measure, scalar_layer, scalar_measure


def test_a_bound_that_does_not_apply_has_no_numbers_and_a_reason():
    (fields,) = bound_parts([not_applicable("x", "because", Scope.GLOBAL)])
    assert fields.log10 is None
    assert fields.output_change is None
    assert (fields.applies, fields.why_not) == (False, "because")


@pytest.mark.parametrize(
    ("radius", "said", "unbounded"), [(0.5, 0.5, False), (math.inf, None, True), (math.nan, None, False)]
)
def test_a_radius_without_end_is_null_and_says_so(radius, said, unbounded):
    fields = radius_part(CertifiedRadius(0.1, radius, "x", 1e-9, 5))
    assert (fields.radius, fields.unbounded) == (said, unbounded)
    assert (fields.tolerance, fields.bound, fields.failure_probability) == (0.1, "x", 1e-9)
    assert radius_part(None) is None


@pytest.mark.parametrize(("budget", "tokens"), [(Wasserstein(0.1), 5.0 / 2**0.5), (Frobenius(0.1), 5.0)])
def test_scale_by_hand(budget, tokens):
    """Tokens 3 and 4, A = 0, V = 2: every row of the output is twice their mean, 7. Mean square 25/2, or sum 25."""
    measure = scalar_measure([3.0, 4.0])
    scale = scale_part(budget, measure, scalar_layer(0.0, 2.0))
    assert scale.tokens == pytest.approx(tokens)
    assert scale.output == pytest.approx(7.0 * (1.0 if isinstance(budget, Wasserstein) else 2**0.5))
    assert scale_part(budget, measure).output is None


def test_norms_of_a_layer_are_those_of_its_largest_head():
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)

    def told(part):
        ball = BallSetting.of(part, head_norms(part), measure, Wasserstein(0.0), radius=2.0)
        return norms_part(ball).to_json()

    heads = [told(layer.head(head)) for head in range(2)]
    assert told(layer) == pytest.approx({name: max(head[name] for head in heads) for name in heads[0]})
    assert told(layer)["radius"] == 2.0


def test_nothing_observed_is_not_a_violation_and_nan_is_unknown():
    import dataclasses

    layer, measure, budget = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)), Wasserstein(1e-3)
    certificates = certify_batch(layer, measure, budget, lipschitz=None)
    job = LayerJob(Subject("toy", "random:0", 0), layer, measure)
    result = RandomMove(2)(layer, measure, budget)
    broken = dataclasses.replace(
        result, observation=dataclasses.replace(result.observation, output_change=result.observation.gain * math.nan)
    )
    made = {
        name: check_fields(job, 0, budget, certificates[0], lipschitz=None, result=attack)
        for name, attack in (("none", None), ("honest", result), ("broken", broken))
    }
    assert made["none"]["verdict"] == made["honest"]["verdict"] == "HOLDS"
    assert made["broken"]["verdict"] == "UNKNOWN"
    assert made["broken"]["observed"].output_change is None
    assert len(made["honest"]["convergence"]) == 2
